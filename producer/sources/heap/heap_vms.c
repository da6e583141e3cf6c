// SPDX-License-Identifier: Apache-2.0
//
// A process becomes a VM some time after it began, and may do so late by executing one. Those that
// are named are looked at as long as they are none; where all processes are meant, only the young.
// A VM that takes no agents may still be starting; an old one is asked, which says what is wrong.
//
// An agent that was there from the start comes by itself, within a second.
#include "producer/sources/heap/heap_vms.h"

#include "producer/agents/jvm/attach/vm_process.h"

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

static enum heap_target_answer vm_begin(struct heap_vms *vms, int32_t pid)
{
    const struct heap_vms_env *env = &vms->env;
    struct heap_vm *vm;
    struct err err = {0};
    if (vms->vms.n >= VMS_MAX || heap_vm_vec_reserve(&vms->vms, vms->vms.n + 1) < 0)
        return HEAP_TARGET_LATER;
    int r = heap_vm_begin(env->loop, env->host, env->proc, pid, vm_done, vms, &vm, &err);
    if (r == 0)
        heap_vm_vec_push(&vms->vms, vm);
    else if (r != -ESRCH)
        tell_failure(vms, pid, err.text[0] ? err.text : strerror(-r));
    return HEAP_TARGET_DONE;
}

static enum heap_target_answer target_found(void *userdata, int32_t pid)
{
    struct heap_vms *vms = userdata;
    if (vms->env.is_left(vms->env.userdata, pid))
        return HEAP_TARGET_DONE;
    bool is_young = nsec_now(CLOCK_BOOTTIME) - heap_targets_began(vms->env.proc, pid) < YOUNG;
    enum vm_state state = vm_process_state(pid);
    if (state == VM_NONE)
        return is_young || !vms->env.settings->config->all ? HEAP_TARGET_LATER : HEAP_TARGET_DONE;
    if (state == VM_DEAF && is_young)
        return HEAP_TARGET_LATER;
    return vm_begin(vms, pid);
}

bool heap_vms_look(struct heap_vms *vms)
{
    return heap_targets_look(&vms->targets, vms->env.settings, vms->env.proc, target_found, vms);
}

void heap_vms_done(struct heap_vms *vms)
{
    vec_foreach(&vms->vms, vm)
        heap_vm_free(*vm);
    heap_vm_vec_done(&vms->vms);
    heap_targets_done(&vms->targets);
}
