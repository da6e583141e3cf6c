// SPDX-License-Identifier: Apache-2.0
//
// Parsers of the files of /proc/PID: status, stat, smaps_rollup, cmdline. Spans point into the
// given text.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "producer/ground/proc_text.h"

// The polled counters of ProcessStats.Process.
enum process_counter {
    COUNTER_VM_SIZE,
    COUNTER_VM_RSS,
    COUNTER_RSS_ANON,
    COUNTER_RSS_FILE,
    COUNTER_RSS_SHMEM,
    COUNTER_VM_SWAP,
    COUNTER_VM_LOCKED,
    COUNTER_VM_HWM,
    COUNTER_OOM_SCORE_ADJ,
    COUNTER_SMR_RSS,
    COUNTER_SMR_PSS,
    COUNTER_SMR_PSS_ANON,
    COUNTER_SMR_PSS_FILE,
    COUNTER_SMR_PSS_SHMEM,
    COUNTER_SMR_SWAP_PSS,
    COUNTER_RUNTIME_USER,
    COUNTER_RUNTIME_KERNEL,
    COUNTER_DMABUF_RSS,
    N_PROCESS_COUNTERS,
};

// Field numbers in ProcessStats.Process.
extern const uint8_t process_counter_fields[N_PROCESS_COUNTERS];

struct process_counters {
    uint32_t present; // bit 1 << enum process_counter
    int64_t values[N_PROCESS_COUNTERS];
};

static inline void process_counters_set(struct process_counters *counters,
                                        enum process_counter counter, int64_t value)
{
    counters->present |= 1u << counter;
    counters->values[counter] = value;
}

#define COMM_BYTES_MAX 64 // with the terminator; kernel threads may exceed 15 characters

struct process_status {
    int32_t pid, tgid, ppid; // pid is the id of the thread
    uint32_t uid;            // real
    uint32_t n_threads;
    bool has_memory;           // false for kernel threads and processes that are about to end
    int kthread;               // -1: the kernel does not say
    struct span nspid;         // ids in the namespaces below the root namespace
    char name[COMM_BYTES_MAX]; // comm, terminated, cut if it is longer
};

// Parses /proc/PID/status. Stores memory counters in `counters` (may be NULL) and leaves its other
// counters unchanged. Returns false if the ids are missing.
bool process_status_parse(struct span text, struct process_status *ret,
                          struct process_counters *counters);

// Parses /proc/PID/smaps_rollup into `counters`.
void smaps_rollup_parse(struct span text, struct process_counters *counters);

struct process_times {
    uint64_t user_ticks, kernel_ticks, start_ticks;
};

// Parses /proc/PID/stat. Returns false if the text is incomplete.
bool process_stat_parse(struct span text, struct process_times *ret);

// Appends a string `field` for each non-empty argument in the text of /proc/PID/cmdline.
// Returns their number.
unsigned cmdline_write(struct span text, struct wire_writer *w, uint32_t field);

// Appends a number `field` for each id in `nspid`. Returns false if there are no ids.
bool nspid_write(struct span nspid, struct wire_writer *w, uint32_t field);

// Takes a decimal number with optional sign, after blanks.
bool span_take_i64(struct span *rest, int64_t *ret);
