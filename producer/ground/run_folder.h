// SPDX-License-Identifier: Apache-2.0
//
// The folder of the daemon's lock, its control sockets, and the journals of what is to be put back
// after a crash. It is below a folder where only root makes others.
#pragma once

#ifdef __ANDROID__
#define RUN_FOLDER "/dev/mmtrace"
#else
#define RUN_FOLDER "/run/mmtrace"
#endif
