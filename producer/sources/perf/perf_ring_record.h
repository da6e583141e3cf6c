// SPDX-License-Identifier: Apache-2.0
//
// Reads one record of the kernel's perf ring. The kernel writes the records, but programs choose
// their paths, stacks and registers. Every size is checked against the record.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_COUNTS_MAX          32  // timebase and followers
#define PERF_FRAMES_MAX          256 // of one sample; further frames are left out
#define PERF_RECORD_BUILD_ID_MAX 20
#define PERF_REGISTERS_MAX       32

// The parts of a sample, as they were asked for.
struct perf_layout {
    uint32_t n_counts;    // values of the timebase and of the followers; 0: not read
    bool has_chain;       // addresses of a call stack
    uint32_t n_registers; // of the user part, with the stack's bytes; 0: neither
};

enum perf_record_kind {
    PERF_OTHER, // nothing to do
    PERF_SAMPLED,
    PERF_MAPPED,   // a process mapped code
    PERF_EXECUTED, // a process executes another program
    PERF_NAMED,    // a task changed its name
    PERF_FORKED,
    PERF_EXITED,
    PERF_LOST,
};

// All pointers are into the record.
struct perf_record {
    enum perf_record_kind kind;
    uint64_t time; // 0: unknown
    uint32_t cpu, pid, tid;
    union {
        struct {
            uint32_t mode; // a PERF_RECORD_MISC_CPUMODE
            uint64_t counts[PERF_COUNTS_MAX];
            const uint64_t *chain; // addresses and PERF_CONTEXT_... marks, innermost first
            size_t n_chain;
            const uint64_t *registers; // NULL: none
            size_t n_registers;
            const uint8_t *stack;
            size_t stack_size;
        } sample;
        struct {
            uint64_t start, end, file_offset;
            const char *path;
            const uint8_t *build_id;
            uint32_t build_id_size; // 0: unknown
        } mapped;
        struct {
            uint32_t parent_pid, parent_tid;
        } forked;
        struct {
            const char *name;
        } named;
        uint64_t n_lost;
    };
};

// Reads a record of `size` bytes at `bytes`, which are aligned for a uint64_t. Returns false if the
// record is malformed.
bool perf_record_read(const struct perf_layout *layout, const void *bytes, size_t size,
                      struct perf_record *ret);
