// SPDX-License-Identifier: Apache-2.0
//
// Makes a running Java VM ask for a ring: loads the agent into the VM, or finds the agent there,
// and gives the agent the name of a socket.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "producer/foreign/helper.h"
#include "producer/foreign/job.h"
#include "producer/ground/loop.h"
#include "producer/sources/heap/heap_host.h"

struct heap_vm;

// `result` 0: the VM asks over *fd for its ring; the function may take over *fd. -EBUSY, once: the
// agent is loaded but does not ask, because it has a profile already; it may still ask at any time
// before heap_vm_free(). Other negative errno: the VM will not ask, and `text` is the reason. The
// function may free `vm`, and must free it unless the result is -EBUSY.
typedef void (*heap_vm_fn)(void *userdata, struct heap_vm *vm, int32_t pid, int result, int *fd,
                           const char *text);

struct heap_vm_env {
    struct loop *loop; // borrowed, as all members
    struct heap_host *host;
    struct foreign *foreign;
    struct foreign_helper *helper;
    const char *proc;
};

// Returns 0 if the loop will call `done`, or a negative errno.
int heap_vm_begin(const struct heap_vm_env *env, int32_t pid, heap_vm_fn done, void *userdata,
                  struct heap_vm **ret, struct err *err);

int32_t heap_vm_pid(const struct heap_vm *vm);
uint64_t heap_vm_payer(const struct heap_vm *vm); // as foreign_payer()

// Frees the request. A VM that has not asked goes on without a profile.
struct heap_vm *heap_vm_free(struct heap_vm *vm);

// Jobs of the helper. Request: a pid. vm_state_job() answers with the state of the process as the
// result; vm_open_job() makes the socket.
void vm_state_job(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret);
void vm_open_job(struct foreign_worker *worker, struct foreign_request *request,
                 struct foreign_answer *ret);
