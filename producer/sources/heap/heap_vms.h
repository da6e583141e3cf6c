// SPDX-License-Identifier: Apache-2.0
//
// The Java VMs among the processes that a config means: those that run, and those that start later.
// Each is asked to come for a ring.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/heap_targets.h"
#include "producer/sources/heap/heap_vm.h"

VEC_DEFINE(heap_vm_vec, struct heap_vm *);

struct heap_vms_env {
    struct loop *loop; // borrowed, as all of these
    struct heap_host *host;
    struct foreign *foreign;
    struct foreign_helper *helper;
    const struct log *log;
    const char *proc;
    const struct heap_settings *settings;
    bool (*is_left)(void *userdata, int32_t pid);       // not to be asked
    void (*comes)(void *userdata, int32_t pid, int fd); // for its ring; `fd` is borrowed
    void (*is_busy)(void *userdata, int32_t pid);       // it has another profile
    void *userdata;
};

struct heap_vms;

// Whether a process is a VM: the helper knows.
struct vm_look {
    struct heap_vms *vms; // borrowed
    int32_t pid;
    struct foreign_call *call; // NULL: none is under way
    bool is_seen;              // at the last look at all processes
    bool is_done;              // it was asked to come, or is none and will not be
};
VEC_DEFINE(vm_look_vec, struct vm_look *);

struct heap_vms {
    struct heap_vms_env env;
    struct heap_targets targets;
    struct heap_vm_vec vms;   // owned; that have not come yet
    struct vm_look_vec looks; // owned
};

// False: some may be VMs soon.
bool heap_vms_look(struct heap_vms *vms);

// It has come another way.
void heap_vms_forget(struct heap_vms *vms, int32_t pid);

// Those that have not come go on without a profile. Fit for all zero, and for twice.
void heap_vms_done(struct heap_vms *vms);
