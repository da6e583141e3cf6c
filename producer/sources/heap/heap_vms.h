// SPDX-License-Identifier: Apache-2.0
//
// The Java VMs among the processes that a config selects, running ones and later ones. Each is told
// to ask for a ring.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"
#include "common/vec.h"
#include "producer/sources/heap/heap_settings.h"
#include "producer/sources/heap/heap_targets.h"
#include "producer/sources/heap/heap_vm.h"

VEC_DEFINE(heap_vm_vec, struct heap_vm *);

struct heap_vms_env {
    struct loop *loop; // borrowed, as all members
    struct heap_host *host;
    struct foreign *foreign;
    struct foreign_helper *helper;
    const struct log *log;
    const char *proc;
    const struct heap_settings *settings;
    bool (*is_left)(void *userdata, int32_t pid); // true: leave the process alone
    void (*comes)(void *userdata, int32_t pid,
                  int fd);                        // the VM asks for its ring; `fd` is borrowed
    void (*is_busy)(void *userdata, int32_t pid); // the VM has another profile
    void *userdata;
};

struct heap_vms;

// Finds out, through the helper, whether a process is a VM.
struct vm_look {
    struct heap_vms *vms; // borrowed
    int32_t pid;
    struct foreign_call *call; // NULL: no call is under way
    bool is_seen;              // found at the last look at all processes
    bool is_done;              // it was told to ask, or is not a VM and will not become one
};
VEC_DEFINE(vm_look_vec, struct vm_look *);

struct heap_vms {
    struct heap_vms_env env;
    struct heap_targets targets;
    struct heap_vm_vec vms;   // owned; those that have not asked yet
    struct vm_look_vec looks; // owned
};

// Returns false if some processes may become VMs soon.
bool heap_vms_look(struct heap_vms *vms);

// The process has got its ring in another way.
void heap_vms_forget(struct heap_vms *vms, int32_t pid);

// VMs that have not asked go on without a profile. All zero is permitted, and a second call too.
void heap_vms_done(struct heap_vms *vms);
