// SPDX-License-Identifier: Apache-2.0
//
// Tells systemd, or another service manager, that the daemon is ready, alive or ending. Without a
// service manager these functions do nothing.
#pragma once

#include "common/nsec.h"

// Sends `state` ("READY=1"; several lines are possible) to $NOTIFY_SOCKET. Returns 0, also without
// a service manager, or a negative errno.
int service_manager_tell(const char *state);

// Returns the longest time between two WATCHDOG=1 that the service manager permits this process; 0:
// no watchdog.
nsec_t service_manager_watchdog(void);
