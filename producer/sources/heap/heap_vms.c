// SPDX-License-Identifier: Apache-2.0
//
// A process becomes a VM some time after its start, perhaps late, by executing one. Processes that
// are named are examined as long as they are not VMs; if all processes are selected, only young
// ones are. A VM that takes no agents may still be starting. An old one is asked nevertheless, so
// that the error says what is wrong.
//
// An agent that was present from the start asks by itself within a second.
#include "producer/sources/heap/heap_vms.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "producer/foreign/payer.h"
#include "producer/heap/vm_process.h"

#define VMS_MAX 64 // at a time
#define YOUNG   (10 * NSEC_PER_SEC)

void heap_vms_forget(struct heap_vms *vms, int32_t pid)
{
    for (size_t i = 0; i < vms->vms.n; i++)
        if (heap_vm_pid(vms->vms.items[i]) == pid) {
            heap_vm_free(vms->vms.items[i]);
            vms->vms.items[i--] = vms->vms.items[--vms->vms.n];
        }
}

static void tell_failure(struct heap_vms *vms, int32_t pid, const char *text)
{
    log_warning(vms->env.log, "linux.heap: no Java heap of process %d: %s", pid, text);
}

static void vm_done(void *userdata, struct heap_vm *vm, int32_t pid, int result, int fd,
                    const char *text)
{
    struct heap_vms *vms = userdata;
    (void)vm;
    if (result == 0)
        vms->env.comes(vms->env.userdata, pid, fd);
    else if (result != -ESRCH)
        tell_failure(vms, pid, text);
    if (result == -EBUSY)
        vms->env.is_busy(vms->env.userdata, pid);
    else
        heap_vms_forget(vms, pid);
}

// Returns false if it must be tried later.
static bool vm_begin(struct heap_vms *vms, int32_t pid)
{
    const struct heap_vms_env *env = &vms->env;
    const struct heap_vm_env vm_env = {env->loop, env->host, env->foreign, env->helper, env->proc};
    struct heap_vm *vm;
    struct err err = {0};
    if (vms->vms.n >= VMS_MAX || heap_vm_vec_reserve(&vms->vms, vms->vms.n + 1) < 0)
        return false;
    int r = heap_vm_begin(&vm_env, pid, vm_done, vms, &vm, &err);
    if (r == 0)
        heap_vm_vec_push(&vms->vms, vm);
    else if (r != -ESRCH)
        tell_failure(vms, pid, err.text[0] ? err.text : strerror(-r));
    return true;
}

static void state_known(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct vm_look *look = userdata;
    struct heap_vms *vms = look->vms;
    (void)answer, (void)size;
    close_fd(fd);
    look->call = NULL;
    if (vms->env.is_left(vms->env.userdata, look->pid))
        return;
    bool is_young = nsec_now(CLOCK_BOOTTIME) - heap_targets_began(vms->env.proc, look->pid) < YOUNG;
    if (result < 0)
        look->is_done = true; // the helper has reported why
    else if (result == VM_NONE)
        look->is_done = !is_young && vms->env.settings->config->all;
    else if (result == VM_READY || !is_young)
        look->is_done = vm_begin(vms, look->pid);
}

static void look_free(struct vm_look *look)
{
    foreign_call_cancel(look->call);
    free(look);
}

static void look_forget(struct heap_vms *vms, int32_t pid)
{
    for (size_t i = 0; i < vms->looks.n; i++)
        if (vms->looks.items[i]->pid == pid) {
            look_free(vms->looks.items[i]);
            vms->looks.items[i--] = vms->looks.items[--vms->looks.n];
        }
}

static struct vm_look *look_of(struct heap_vms *vms, int32_t pid)
{
    vec_foreach(&vms->looks, look)
        if ((*look)->pid == pid)
            return *look;
    struct vm_look *look = memory_calloc(1, sizeof(*look));
    if (!look || vm_look_vec_push(&vms->looks, look) < 0) {
        free(look);
        return NULL;
    }
    *look = (struct vm_look){.vms = vms, .pid = pid};
    return look;
}

static enum heap_target_answer target_found(void *userdata, int32_t pid)
{
    struct heap_vms *vms = userdata;
    bool is_left = vms->env.is_left(vms->env.userdata, pid);
    struct vm_look *look = is_left ? NULL : look_of(vms, pid);
    if (is_left || (look && look->is_done)) {
        look_forget(vms, pid);
        return HEAP_TARGET_DONE;
    }
    if (look)
        look->is_seen = true;
    const struct foreign_ask ask = {.job = FOREIGN_VM_STATE,
                                    .payer = foreign_payer(vms->env.proc, pid, geteuid()),
                                    .bytes = &pid,
                                    .size = sizeof(pid),
                                    .fd = -1};
    if (look && !look->call &&
        foreign_helper_ask(vms->env.helper, &ask, state_known, look, &look->call, NULL) < 0)
        look->call = NULL; // perhaps later
    return HEAP_TARGET_LATER;
}

bool heap_vms_look(struct heap_vms *vms)
{
    vec_foreach(&vms->looks, look)
        (*look)->is_seen = false;
    bool all_done =
        heap_targets_look(&vms->targets, vms->env.settings, vms->env.proc, target_found, vms);
    for (size_t i = vms->looks.n; i-- > 0;)
        if (!vms->looks.items[i]->is_seen) {
            look_free(vms->looks.items[i]);
            vms->looks.items[i] = vms->looks.items[--vms->looks.n];
        }
    return all_done;
}

void heap_vms_done(struct heap_vms *vms)
{
    vec_foreach(&vms->looks, look)
        look_free(*look);
    vm_look_vec_done(&vms->looks);
    vec_foreach(&vms->vms, vm)
        heap_vm_free(*vm);
    heap_vm_vec_done(&vms->vms);
    heap_targets_done(&vms->targets);
}
