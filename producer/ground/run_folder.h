// SPDX-License-Identifier: Apache-2.0
//
// The folder of the daemon's lock, control sockets, and journals that undo changes after a crash.
// Only root can make entries in the parent folder.
#pragma once

#ifdef __ANDROID__
#define RUN_FOLDER "/dev/mmtrace"
#else
#define RUN_FOLDER "/run/mmtrace"
#endif
