// SPDX-License-Identifier: Apache-2.0
//
// A thread of the agent in another program's process.
#pragma once

#include <stdbool.h>

// Starts a detached thread that receives no signals. Returns false if no thread can be made.
bool quiet_thread_start(void *(*run)(void *userdata), void *userdata);
