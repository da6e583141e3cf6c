// SPDX-License-Identifier: Apache-2.0
//
// What the files of /proc/PID say: status, stat, smaps_rollup, cmdline. Parsers only; spans point
// into the text that was given.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "producer/ground/proc_text.h"

// The counters of ProcessStats.Process that are polled.
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

extern const uint8_t process_counter_fields[N_PROCESS_COUNTERS]; // numbers in ProcessStats.Process

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

#define COMM_BYTES_MAX 64 // with the zero; kernel threads have longer names than 15 characters

struct process_status {
    int32_t pid, tgid, ppid; // pid is the thread's id
    uint32_t uid;            // real
    uint32_t n_threads;
    bool has_memory;           // kernel threads and what is about to end have none
    int kthread;               // -1: this kernel does not say
    struct span nspid;         // ids in the namespaces below the root's
    char name[COMM_BYTES_MAX]; // comm, terminated, cut where it is longer
};

// /proc/PID/status. False if it lacks the ids. Memory counters go to `counters` (may be NULL),
// whose other counters stay.
bool process_status_parse(struct span text, struct process_status *ret,
                          struct process_counters *counters);

// /proc/PID/smaps_rollup into `counters`.
void smaps_rollup_parse(struct span text, struct process_counters *counters);

struct process_times {
    uint64_t user_ticks, kernel_ticks, start_ticks;
};

// /proc/PID/stat. False if it is not complete.
bool process_stat_parse(struct span text, struct process_times *ret);

// Appends a string `field` for each argument that is not empty in the text of /proc/PID/cmdline;
// returns how many.
unsigned cmdline_write(struct span text, struct wire_writer *w, uint32_t field);

// Appends a number `field` for each id of `nspid`; false if there is none.
bool nspid_write(struct span nspid, struct wire_writer *w, uint32_t field);

// A decimal number with optional sign, behind blanks.
bool span_take_i64(struct span *rest, int64_t *ret);
