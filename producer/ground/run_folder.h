// SPDX-License-Identifier: Apache-2.0
//
// The folder of the daemon's lock, of its control sockets, and of the journals that undo changes
// after a crash. Only root can make entries in its parent folder.
#pragma once

#ifdef __ANDROID__
#define RUN_FOLDER "/dev/mmtrace"
#else
#define RUN_FOLDER "/run/mmtrace"
#endif
