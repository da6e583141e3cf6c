// SPDX-License-Identifier: Apache-2.0
//
// Tells systemd, or another service manager, that the daemon is ready, alive or ending. Without a
// service manager these functions do nothing.
#pragma once

#include "common/nsec.h"

// Sends `state` ("READY=1"; may have several lines) to $NOTIFY_SOCKET. Returns 0, also without a
// service manager, or a negative errno.
int service_manager_tell(const char *state);

// Returns the maximum time between two WATCHDOG=1 that the service manager expects from this
// process; 0: none.
nsec_t service_manager_watchdog(void);
