// SPDX-License-Identifier: Apache-2.0
//
// A process becomes a VM some time after its start, perhaps late, by executing a VM. Named
// processes are examined until they are VMs; if all processes are selected, only young processes
// are examined. A VM that takes no agents may still be starting. An old VM is asked nevertheless:
// the error names the reason.
//
// An agent that was present from the start asks within a second, without a request.
#include "producer/sources/heap/heap_source_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "producer/foreign/payer.h"
#include "producer/heap/vm_process.h"

#define VMS_MAX  64 // at a time
#define VMS_EACH 16 // of one user other than root
#define YOUNG    (10 * NSEC_PER_SEC)

void heap_vms_forget(struct heap_source *heap, int32_t pid)
{
    for (size_t i = 0; i < heap->vms.vms.n; i++)
        if (heap_vm_pid(heap->vms.vms.items[i]) == pid) {
            heap_vm_free(heap->vms.vms.items[i]);
            heap->vms.vms.items[i--] = heap->vms.vms.items[--heap->vms.vms.n];
        }
}

static void vm_done(void *userdata, struct heap_vm *vm, int32_t pid, int result, int *fd,
                    const char *text)
{
    struct heap_source *heap = userdata;
    (void)vm;
    if (result == 0)
        heap_arrivals_vm(heap, pid, 0, fd, false);
    else if (result != -ESRCH && (result != -EBUSY || heap_clients_note_rejected(heap, pid, true)))
        heap_arrivals_tell_no_java(heap, pid, text);
    if (result != -EBUSY)
        heap_vms_forget(heap, pid);
}

// A VM whose agent never asks keeps its place as long as the recording.
static bool has_room_for_vm(const struct heap_source *heap, int32_t pid)
{
    uint64_t payer = foreign_payer(heap->env.roots->proc, pid, geteuid());
    size_t n = 0;
    vec_foreach(&heap->vms.vms, vm)
        n += heap_vm_payer(*vm) == payer;
    return heap->vms.vms.n < VMS_MAX && (payer == 0 || n < VMS_EACH);
}

// Returns false if the caller must try again later.
static bool vm_begin(struct heap_source *heap, int32_t pid)
{
    const struct source_roots *roots = heap->env.roots;
    const struct heap_vm_env env = {heap->env.loop, heap->host, roots->foreign, heap->env.helper,
                                    roots->proc};
    struct heap_vm *vm;
    struct err err = {0};
    if (!has_room_for_vm(heap, pid) || heap_vm_vec_reserve(&heap->vms.vms, heap->vms.vms.n + 1) < 0)
        return false;
    int r = heap_vm_begin(&env, pid, vm_done, heap, &vm, &err);
    if (r == -ETIMEDOUT)
        return false;
    if (r == 0)
        heap_vm_vec_push(&heap->vms.vms, vm);
    else if (r != -ESRCH)
        heap_arrivals_tell_no_java(heap, pid, err.text[0] ? err.text : strerror(-r));
    return true;
}

static void state_known(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct vm_look *look = userdata;
    struct heap_source *heap = look->heap;
    (void)answer, (void)size;
    close_fd(fd);
    look->call = NULL;
    if (heap_arrivals_vm_is_left(heap, look->pid))
        return;
    bool is_young =
        nsec_now(CLOCK_BOOTTIME) - heap_targets_began(heap->env.roots->proc, look->pid) < YOUNG;
    look->is_held = result == -ETIMEDOUT;
    if (look->is_held)
        return; // files of this user are left alone for a while, perhaps because of another VM
    look->is_vm = result != VM_NONE;
    if (result < 0)
        look->is_done = true; // the helper has reported why
    else if (result == VM_NONE)
        look->is_done = !is_young && heap->settings.config->all;
    else if (result == VM_READY || !is_young)
        look->is_done = vm_begin(heap, look->pid);
}

static void look_free(struct vm_look *look)
{
    foreign_call_cancel(look->call);
    free(look);
}

static void look_forget(struct heap_source *heap, int32_t pid)
{
    for (size_t i = 0; i < heap->vms.looks.n; i++)
        if (heap->vms.looks.items[i]->pid == pid) {
            look_free(heap->vms.looks.items[i]);
            heap->vms.looks.items[i--] = heap->vms.looks.items[--heap->vms.looks.n];
        }
}

static struct vm_look *look_of(struct heap_source *heap, int32_t pid)
{
    vec_foreach(&heap->vms.looks, look)
        if ((*look)->pid == pid)
            return *look;
    struct vm_look *look = memory_calloc(1, sizeof(*look));
    if (!look || vm_look_vec_push(&heap->vms.looks, look) < 0) {
        free(look);
        return NULL;
    }
    *look = (struct vm_look){.heap = heap, .pid = pid};
    return look;
}

// Returns false if the process must be examined again.
static bool target_found(void *userdata, int32_t pid)
{
    struct heap_source *heap = userdata;
    bool is_left = heap_arrivals_vm_is_left(heap, pid);
    struct vm_look *look = is_left ? NULL : look_of(heap, pid);
    if (is_left || (look && look->is_done)) {
        look_forget(heap, pid);
        return true;
    }
    if (look)
        look->is_seen = true;
    const struct foreign_ask ask = {.job = FOREIGN_VM_STATE,
                                    .payer = foreign_payer(heap->env.roots->proc, pid, geteuid()),
                                    .bytes = &pid,
                                    .size = sizeof(pid),
                                    .fd = -1};
    if (look && !look->call &&
        foreign_helper_ask(heap->env.helper, &ask, state_known, look, &look->call, NULL) < 0)
        look->call = NULL; // perhaps later
    return false;
}

bool heap_vms_look(struct heap_source *heap)
{
    vec_foreach(&heap->vms.looks, look)
        (*look)->is_seen = false;
    bool all_done = heap_targets_look(&heap->vms.targets, &heap->settings, heap->env.roots->proc,
                                      target_found, heap);
    for (size_t i = heap->vms.looks.n; i-- > 0;)
        if (!heap->vms.looks.items[i]->is_seen) {
            look_free(heap->vms.looks.items[i]);
            heap->vms.looks.items[i] = heap->vms.looks.items[--heap->vms.looks.n];
        }
    return all_done;
}

// Reports the VMs that have not asked, and the processes that are not VMs if the config selects
// them for nothing else.
static void tell_left(struct heap_source *heap)
{
    const struct heap_settings *settings = &heap->settings;
    vec_foreach(&heap->vms.vms, vm)
        heap_arrivals_tell_left(heap, heap_vm_pid(*vm), true);
    vec_foreach(&heap->vms.looks, look) {
        if ((*look)->is_done || settings->native || settings->config->all)
            continue;
        if ((*look)->is_held)
            heap_arrivals_tell_no_java(heap, (*look)->pid,
                                       "files of its user did not answer in time");
        else if ((*look)->call || (*look)->is_vm)
            heap_arrivals_tell_left(heap, (*look)->pid, true);
        else
            heap_arrivals_tell_no_java(heap, (*look)->pid, "it runs no Java VM");
    }
}

void heap_vms_done(struct heap_source *heap)
{
    tell_left(heap);
    vec_foreach(&heap->vms.looks, look)
        look_free(*look);
    vm_look_vec_done(&heap->vms.looks);
    vec_foreach(&heap->vms.vms, vm)
        heap_vm_free(*vm);
    heap_vm_vec_done(&heap->vms.vms);
    heap_targets_done(&heap->vms.targets);
}
