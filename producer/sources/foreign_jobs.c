// SPDX-License-Identifier: Apache-2.0
//
// The jobs of a helper, by number. Each is defined where its answer is used.
#include "producer/foreign/job.h"

#include "producer/sources/heap/heap_vm.h"
#include "producer/sources/heap/names_job.h"
#include "producer/sources/heap/summons.h"
#include "producer/sources/heap/wake_job.h"
#include "producer/sources/perf_map/perf_map_job.h"

const struct foreign_job foreign_jobs[FOREIGN_JOBS_MAX] = {
    [FOREIGN_SUMMONS_CLOSE] = {"a summons", summons_close_job, FOREIGN_GROUP_SUMMONS, summons_end},
    [FOREIGN_WAKE_OPEN] = {"a summons", wake_open_job, FOREIGN_GROUP_SUMMONS, NULL},
    [FOREIGN_WAKE_SEND] = {"a summons", wake_send_job, FOREIGN_GROUP_SUMMONS, NULL},
    [FOREIGN_VM_OPEN] = {"a summons of a Java VM", vm_open_job, FOREIGN_GROUP_SUMMONS, NULL},
    [FOREIGN_VM_STATE] = {"the state of a Java VM", vm_state_job, FOREIGN_GROUP_SUMMONS, NULL},
    [FOREIGN_PERF_MAP_READ] = {"a perf map", perf_map_read_job, FOREIGN_GROUP_PERF_MAP, NULL},
    [FOREIGN_PERF_MAP_FORGET] = {"a perf map", perf_map_forget_job, FOREIGN_GROUP_PERF_MAP, NULL},
    [FOREIGN_NAMES_HOLD] = {"a root", names_hold_job, FOREIGN_GROUP_NAMES, NULL},
    [FOREIGN_NAMES_FIND] = {"symbols", names_find_job, FOREIGN_GROUP_NAMES, NULL},
    [FOREIGN_NAMES_TABLES] = {"unwind tables", names_tables_job, FOREIGN_GROUP_NAMES, NULL},
};
