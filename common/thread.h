// SPDX-License-Identifier: Apache-2.0
//
// Threads that hear no signals: those are for the thread that asks for them.
#pragma once

#include <pthread.h>
#include <stddef.h>

// Starts `run(userdata)` on a stack of `stack_bytes`, with all signals blocked. 0, or a negative
// errno: *ret is undefined then. The caller joins the thread.
int thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *userdata), void *userdata);
