// SPDX-License-Identifier: Apache-2.0
//
// A helper makes the VM load its agent, which may take long. The VM itself uses the socket, and may
// connect before the helper has ended: the helper's result then no longer matters. A helper for
// which no caller waits is left to the host.
#include "producer/sources/heap/heap_vm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "producer/foreign/payer.h"
#include "producer/heap/vm_process.h"
#include "producer/sources/heap/heap_attach.h"
#include "producer/sources/heap/heap_client.h"
#include "producer/sources/heap/summons.h"

#define COMES_WITHIN (3 * NSEC_PER_SEC) // maximum time between request and connection

// The answer to FOREIGN_VM_OPEN.
struct vm_place {
    struct summons_place summons;
    char text[ERR_TEXT_MAX]; // of a failure
};

struct heap_vm {
    int32_t pid;
    struct loop *loop; // borrowed, as the next members
    struct foreign *foreign;
    struct heap_host *host; // borrowed
    struct summons summons;
    bool is_opening, is_freed;
    struct loop_timer *timer;
    struct heap_attach *attach; // owned; NULL: it has ended
    bool has_come;
    heap_vm_fn done;
    void *userdata;
};

int32_t heap_vm_pid(const struct heap_vm *vm)
{
    return vm->pid;
}

uint64_t heap_vm_payer(const struct heap_vm *vm)
{
    return vm->summons.payer;
}

static void time_passed(void *userdata)
{
    struct heap_vm *vm = userdata;
    vm->done(vm->userdata, vm, vm->pid, -EBUSY, NULL, HEAP_TAKEN);
}

static void vm_comes(void *userdata, int fd)
{
    struct heap_vm *vm = userdata;
    struct foreign *foreign = vm->foreign;
    vm->has_come = true;
    vm->done(vm->userdata, vm, vm->pid, 0, &fd, "");
    foreign_close_socket(foreign, fd);
}

static void attach_done(void *userdata, struct heap_attach *attach, int32_t pid, int result,
                        int ring_fd, const char *text)
{
    struct heap_vm *vm = userdata;
    char copy[ERR_TEXT_MAX];
    snprintf(copy, sizeof(copy), "%s", text);
    close_fd(ring_fd);
    vm->attach = NULL;
    heap_attach_free(attach);
    if (result == 0)
        result = loop_add_timer(vm->loop, nsec_now(CLOCK_BOOTTIME) + COMES_WITHIN, 0, time_passed,
                                vm, &vm->timer);
    if (result < 0)
        vm->done(vm->userdata, vm, pid, result, NULL, copy);
}

static int vm_ask(struct heap_vm *vm, struct err *err)
{
    char options[128];
    int r = summons_wait(&vm->summons, vm->loop, vm_comes, vm);
    if (r < 0)
        return err_errno(err, r, "a socket for process %d", vm->pid);
    // The agent appends the suffix itself.
    snprintf(options, sizeof(options), "trace=%s/%.*s,once", vm->summons.place.folder,
             (int)(sizeof(HEAP_SUMMONS_PREFIX) - 1 + 16), vm->summons.place.name);
    const struct heap_attach_env env = {vm->loop, vm->foreign};
    return heap_attach_begin(&env, NULL, options, vm->pid, attach_done, vm, &vm->attach, err);
}

static void opened(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct heap_vm *vm = userdata;
    const struct vm_place *place = answer;
    struct err err = {0};
    vm->is_opening = false;
    if (size == sizeof(*place)) {
        vm->summons.place = place->summons;
        err_set(&err, result, "%s", place->text);
    } else if (result < 0) {
        err_errno(&err, result, "its files");
    }
    vm->summons.accepter.fd = fd;
    if (vm->is_freed) {
        heap_vm_free(vm);
        return;
    }
    if (result == 0)
        result = fd < 0 ? -EPROTO : vm_ask(vm, &err);
    if (result < 0)
        vm->done(vm->userdata, vm, vm->pid, result, NULL, err.text);
}

int heap_vm_begin(const struct heap_vm_env *env, int32_t pid, heap_vm_fn done, void *userdata,
                  struct heap_vm **ret, struct err *err)
{
    struct heap_vm *vm = calloc(1, sizeof(*vm));
    if (!vm)
        return -ENOMEM;
    *vm = (struct heap_vm){
        .pid = pid,
        .loop = env->loop,
        .foreign = env->foreign,
        .host = env->host,
        .summons = {.helper = env->helper,
                    .payer = foreign_payer(env->proc, pid, geteuid()),
                    .accepter.fd = -1},
        .is_opening = true,
        .done = done,
        .userdata = userdata,
    };
    struct foreign_ask ask = {.job = FOREIGN_VM_OPEN,
                              .payer = vm->summons.payer,
                              .bytes = &pid,
                              .size = sizeof(pid),
                              .fd = -1};
    int r = foreign_helper_ask(env->helper, &ask, opened, vm, NULL, err);
    if (r < 0)
        free(vm);
    else
        *ret = vm;
    return r;
}

struct heap_vm *heap_vm_free(struct heap_vm *vm)
{
    if (!vm)
        return NULL;
    if (vm->is_opening) { // the socket that the helper opens must be closed
        vm->is_freed = true;
        return NULL;
    }
    if (vm->attach && !vm->has_come)
        heap_attach_hurry(vm->attach);
    if (vm->attach)
        heap_host_adopt(vm->host, vm->attach);
    vm->timer = loop_remove_timer(vm->timer);
    summons_close(&vm->summons);
    free(vm);
    return NULL;
}

// The helper's part, because the memory map of a VM and the folders of its root may block.

void vm_state_job(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret)
{
    (void)worker;
    ret->result = (int)vm_process_state(*(const int32_t *)request->bytes);
}

void vm_open_job(struct foreign_worker *worker, struct foreign_request *request,
                 struct foreign_answer *ret)
{
    struct vm_process process;
    struct vm_place place = {0};
    struct err err = {0};
    struct summons_request asked = {.pid = *(const int32_t *)request->bytes};
    ret->result = vm_process_open(asked.pid, &process, &err);
    if (ret->result == 0) {
        vm_process_close(&process);
        asked.uid = process.uid;
        asked.gid = process.gid;
        snprintf(asked.suffix, sizeof(asked.suffix), "%s", HEAP_JAVA_SUFFIX);
        ret->result = summons_place_open(worker, &asked, &place.summons, &ret->fd);
        if (ret->result < 0)
            err_errno(&err, ret->result, "a socket for process %d", asked.pid);
    }
    snprintf(place.text, sizeof(place.text), "%s", err.text);
    memcpy(ret->bytes, &place, sizeof(place));
    ret->size = sizeof(place);
}
