// SPDX-License-Identifier: Apache-2.0
//
// Wakes programs that were preloaded with libmmheap.so and run without a profile: sends a signal,
// and makes a socket at which they ask for their ring.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "producer/foreign/helper.h"
#include "producer/ground/loop.h"

struct heap_wake;

// `result` 0: the process asks over `fd` (borrowed) for its ring. -EBUSY: the process has a profile
// already. -ETIMEDOUT, once: the process has not asked yet; it still may, at any time before
// heap_wake_free(). -ESRCH: the process has ended. -EPROTO: its library does not understand this
// recorder. -ENOENT: it does not wait for a signal, or no signal can be sent to it now. -EAGAIN:
// its files do not answer. -ECANCELED: the helper is being freed. The function may free `wake`, and
// must free it unless the result is -ETIMEDOUT.
typedef void (*heap_wake_fn)(void *userdata, struct heap_wake *wake, int32_t pid, int result,
                             int fd);

struct heap_wake_env {
    struct loop *loop;             // borrowed, as all members
    struct foreign_helper *helper; // must outlive all wakes
    const char *proc;
};

// Returns 0 if the loop will call `done`, or a negative errno with the reason in `err`.
int heap_wake_begin(const struct heap_wake_env *env, int32_t pid, heap_wake_fn done, void *userdata,
                    struct heap_wake **ret, struct err *err);

int32_t heap_wake_pid(const struct heap_wake *wake);
uint64_t heap_wake_payer(const struct heap_wake *wake); // as foreign_payer()

// Frees the request. A process that has not asked goes on without a profile.
struct heap_wake *heap_wake_free(struct heap_wake *wake);
