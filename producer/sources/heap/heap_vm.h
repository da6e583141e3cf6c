// SPDX-License-Identifier: Apache-2.0
//
// Having a Java VM that runs already come for a ring: its agent is loaded into it, or found there,
// and told of a socket.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "producer/foreign/helper.h"
#include "producer/ground/loop.h"
#include "producer/sources/heap/heap_host.h"

struct heap_vm;

// `result` 0: the VM asks over `fd` (borrowed) for its ring. -EBUSY, once: its agent is there, and
// it does not come; it has a profile already. It still may come, any time before heap_vm_free().
// Other negative errno: it will not come, and `text` says why. The function may free `vm`, and has
// to in all cases but -EBUSY.
typedef void (*heap_vm_fn)(void *userdata, struct heap_vm *vm, int32_t pid, int result, int fd,
                           const char *text);

struct heap_vm_env {
    struct loop *loop; // borrowed, as all of these
    struct heap_host *host;
    struct foreign *foreign;
    struct foreign_helper *helper;
    const char *proc;
};

// 0: `done` will be called from the loop.
int heap_vm_begin(const struct heap_vm_env *env, int32_t pid, heap_vm_fn done, void *userdata,
                  struct heap_vm **ret, struct err *err);

int32_t heap_vm_pid(const struct heap_vm *vm);

// A VM that has not come goes on without a profile.
struct heap_vm *heap_vm_free(struct heap_vm *vm);
