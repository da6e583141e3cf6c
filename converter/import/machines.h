// SPDX-License-Identifier: Apache-2.0
//
// The state of a conversion that is of one machine. A trace may be of several; what is handed to
// importers is always of the machine at hand (import.h), and modules that keep numbers of threads,
// tracks and the like for all machines are told which that is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/gpu/events.h"
#include "converter/import/process/pid_namespaces.h"
#include "converter/import/process/sched_slices.h"
#include "converter/import/track_event/track_events.h"

struct import;
struct etw;
struct modem;
struct v8;
struct syscall_names;

struct machine {
    uint32_t number; // 0: the host
    uint32_t raw_id; // in the trace
    struct sched sched;
    struct pid_namespaces pid_namespaces;
    struct track_events track_events;
    struct map64 async_names;   // id of asynchronous events -> the first name they had
    bool *cpus;                 // owned, CPUS_MAX: those that were seen
    bool keep_old_ftrace;       // the recording meant to have events from before its start
    int64_t ftrace_drop_before; // events older than this are left over from before
    int64_t ftrace_rows_before; // of those older than this only the rows are of use
    uint32_t page_size;         // bytes
    const struct syscall_names *syscall_names; // NULL: not known
    struct etw *etw;                           // owned; NULL: none yet
    struct modem *modem;                       // owned; NULL: none yet
    struct v8 *v8;                             // owned; NULL: none yet
    struct gpu_events gpu_events;
    struct map64 vulkan_names[3]; // handle -> name, in strings; see gpu/vulkan.c
    void **states; // owned, one per importer; NULL for those that have one for all machines
};
VEC_DEFINE(machine_vec, struct machine *);

// Makes `number`, if it is new, the machine at hand. 0 or -ENOMEM.
int machines_enter(struct import *im, uint32_t number, uint32_t raw_id);

// The state of an importer for the machine at hand.
void *machine_state(const struct import *im, size_t importer);

// Calls `each` for every machine, which is the one at hand meanwhile. Stops at the first negative.
int machines_each(struct import *im, int (*each)(struct import *im));

void machines_done(struct import *im);
