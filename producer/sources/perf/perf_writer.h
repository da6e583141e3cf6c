// SPDX-License-Identifier: Apache-2.0
//
// Writes PerfSample packets, with the interned data that they refer to.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nsec.h"
#include "producer/sources/interned_stacks.h"
#include "producer/sources/perf/perf_code.h"
#include "producer/sources/perf/perf_settings.h"

// A sample that waits until it can be written.
struct perf_waiting {
    nsec_t time;     // of CLOCK_BOOTTIME
    nsec_t deadline; // when it is written in any case
    uint32_t cpu, pid, tid;
    uint32_t mode;         // a PERF_RECORD_MISC_CPUMODE
    uint32_t stack;        // CODE_STACK_NONE: none
    uint32_t unwind_error; // a Profiling.StackUnwindError; 0: none
    uint32_t n_kernel;     // frames of the kernel in front
    uint64_t unwind;       // waits for the unwinder's answer with this number; 0: no wait
    bool is_doubtful;      // perhaps of a program that the recording's user may not trace
    uint64_t ring_time;    // by the records' clock
    uint64_t sure_from;    // is written when all records up to this time are read; 0: at once
    uint64_t counts[];
};

// All zero except the first members.
struct perf_writer {
    struct packet_writer *writer; // borrowed, as the next members
    struct perf_code *code;
    const struct perf_settings *settings;
    uint32_t shard;

    struct interned_stacks interned;
    uint64_t n_mappings, n_frames, n_stacks; // ids so far
    uint64_t renewed_at;                     // interned.bytes at the last renewal
    bool has_begun;
};

// Each returns false if the buffer refused the packet.
bool perf_write_sample(struct perf_writer *perf, const struct perf_waiting *sample);
// Writes a sample without a stack, with the reason: a PerfSample.SampleSkipReason.
bool perf_write_skipped(struct perf_writer *perf, const struct perf_waiting *sample, int reason);
bool perf_write_lost(struct perf_writer *perf, nsec_t time, uint32_t cpu, uint64_t n);
// Writes the counters of a CPU, without a sample.
bool perf_write_counts(struct perf_writer *perf, nsec_t time, uint32_t cpu, const uint64_t *counts);
// Writes that the source ended itself, because it took too much memory.
bool perf_write_guardrail(struct perf_writer *perf, nsec_t time);

// Makes the next samples write their interned data anew. Call it also after perf_code_forget(),
// which makes ids of frames and stacks invalid.
void perf_writer_renew(struct perf_writer *perf);
void perf_writer_done(struct perf_writer *perf);
