// SPDX-License-Identifier: Apache-2.0
//
// The processes of the samples: whether they are sampled, and which code they have mapped.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/map.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/sources/heap/code_map.h"
#include "producer/sources/perf/perf_code.h"
#include "producer/sources/perf/perf_ring_record.h"
#include "producer/sources/perf/perf_settings.h"
#include "producer/sources/requester.h"

// A piece of a file in the memory of a process.
struct task_mapping {
    uint32_t file; // in the code
    uint64_t start, offset;
};
VEC_DEFINE(task_mapping_vec, struct task_mapping);

enum task_scope { TASK_UNDECIDED, TASK_SAMPLED, TASK_LEFT_OUT };

enum task_owner {
    TASK_OWNER_UNKNOWN,
    TASK_OWNER_FORMER, // before the process executed its program
    TASK_OWNER_KNOWN,
};

#define TASK_NAME_BYTES 16 // of the kernel's names, with the end

struct perf_task {
    int32_t pid;
    enum task_scope scope;
    bool is_chosen;     // named by the config, or started by such a process
    bool has_mappings;  // all code that the process has mapped is known
    bool has_made_code; // a sample was in code that the process made at run time
    enum task_owner has_owner;
    struct code_owner owner;
    struct code_map code; // numbers of mappings
    struct task_mapping_vec mappings;
    struct map64 frame_of; // address -> frame
    uint64_t generation;   // of the frames
    uint64_t judged;       // when `scope` was decided, by the records' clock
    nsec_t judge_again;    // the process could not be read in time; 0: it was
};
VEC_DEFINE(perf_task_vec, struct perf_task *);

struct perf_tasks {
    struct perf_code *code; // borrowed, as the next members
    const struct perf_settings *settings;
    const struct requester *requester;
    const char *proc;
    uint32_t shard;  // the sampled part of all processes
    clockid_t clock; // of the records
    bool is_late;    // the process that is judged cannot be read in time

    struct map64 by_pid;      // -> struct perf_task
    struct strset additional; // programs that were not chosen: the first to appear
    struct strset names;      // of tasks
    struct map64 name_of;     // thread -> number in `names`
    size_t n;
};

void perf_tasks_done(struct perf_tasks *tasks);

// Notes the processes that the config names, while they live.
void perf_tasks_begin(struct perf_tasks *tasks);

// Returns the kernel's name of a thread, if the records have told it; NULL: not known.
const char *perf_tasks_name(const struct perf_tasks *tasks, int32_t tid);

// Returns whether the scope of a process was decided after `time`. The decision may be about a
// program, or a process, that came later.
bool perf_tasks_judged_since(const struct perf_tasks *tasks, int32_t pid, uint64_t time);

// Call it after a loss of records. The scope of each process is decided again at its next sample.
void perf_tasks_doubt(struct perf_tasks *tasks);

// Notes the content of a record that is not a sample.
void perf_tasks_note(struct perf_tasks *tasks, const struct perf_record *record);

// Returns the process, or NULL if nothing is known about it.
const struct perf_task *perf_tasks_find(const struct perf_tasks *tasks, int32_t pid);

// Returns the process of a sample, with `scope` decided; NULL if there are too many processes.
struct perf_task *perf_tasks_get(struct perf_tasks *tasks, int32_t pid);

// Returns the frame at an address of the process, or CODE_STACK_NONE.
uint32_t perf_task_frame(struct perf_tasks *tasks, struct perf_task *task, uint64_t address);
