// SPDX-License-Identifier: Apache-2.0
//
// Waking programs that were preloaded with libmmheap.so and run without profile: a signal, and a
// socket where they then ask for their ring.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "producer/foreign/helper.h"
#include "producer/ground/loop.h"

struct heap_wake;

// `result` 0: the process asks over `fd` (borrowed) for its ring. -EBUSY: it has a profile already.
// -ETIMEDOUT, once: it has not come yet; it still may, any time before heap_wake_free(). -ESRCH: it
// has ended, and will not. -EPROTO: its library does not understand this recorder. -ENOENT: it does
// not wait for a signal, or none can be sent to it just now. -EAGAIN: its files do not answer.
// -ECANCELED: the helper is freed. The function may free `wake`, and has to unless it is
// -ETIMEDOUT.
typedef void (*heap_wake_fn)(void *userdata, struct heap_wake *wake, int32_t pid, int result,
                             int fd);

struct heap_wake_env {
    struct loop *loop;             // borrowed, as all of these
    struct foreign_helper *helper; // outlives all wakes
    const char *proc;
};

// 0: `done` will be called from the loop. A negative errno: the helper is not asked, `err` says
// why.
int heap_wake_begin(const struct heap_wake_env *env, int32_t pid, heap_wake_fn done, void *userdata,
                    struct heap_wake **ret, struct err *err);

int32_t heap_wake_pid(const struct heap_wake *wake);

// A process that has not come goes on without a profile.
struct heap_wake *heap_wake_free(struct heap_wake *wake);
