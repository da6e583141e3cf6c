// SPDX-License-Identifier: Apache-2.0
//
// Threads that receive no signals: the main thread handles them.
#pragma once

#include <pthread.h>
#include <stddef.h>

// Starts a thread that calls `run(userdata)` on a stack of `stack_bytes`, with all signals blocked.
// The caller joins the thread. Returns 0 or a negative errno; on failure *ret is undefined.
int thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *userdata), void *userdata);
