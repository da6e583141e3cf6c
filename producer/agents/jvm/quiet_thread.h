// SPDX-License-Identifier: Apache-2.0
//
// A thread of the agent's own in somebody else's process.
#pragma once

#include <stdbool.h>

// Nobody waits for it. Signals that are sent to the process are for other threads. False: there is
// none to be had.
bool quiet_thread_start(void *(*run)(void *userdata), void *userdata);
