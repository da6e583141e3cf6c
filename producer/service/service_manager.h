// SPDX-License-Identifier: Apache-2.0
//
// What systemd, or whoever starts daemons here, wants to hear: that the daemon is ready, alive,
// ending. Without such a manager everything here does nothing.
#pragma once

#include "common/nsec.h"

// Sends `state` ("READY=1", several lines) to $NOTIFY_SOCKET. 0, also without a manager, or a
// negative errno.
int service_manager_tell(const char *state);

// How often the manager wants WATCHDOG=1 at least, for this process; 0: never.
nsec_t service_manager_watchdog(void);
