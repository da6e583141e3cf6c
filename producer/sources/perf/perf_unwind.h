// SPDX-License-Identifier: Apache-2.0
//
// Follows copied stacks of programs through mmunwind, a process of its own. Its share of a
// processor and the number of stacks that wait are limited. If a stack ends mmunwind, no further
// stacks of its user are followed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/heap/unwind_abi.h"
#include "producer/sources/perf/perf_code.h"
#include "producer/sources/perf/perf_ring_record.h"
#include "producer/sources/perf/perf_tasks.h"

#define UNWIND_CPU_PART 4 // the unwinder gets a quarter of one processor

struct loop;
struct perf_unwinder;

// Receives the stack of a sample: `n` frames of perf_code, innermost first.
typedef void (*perf_unwound_fn)(void *userdata, uint64_t number, const uint32_t *frames, size_t n,
                                enum unwind_end end);

struct perf_unwinder_env {
    struct loop *loop; // borrowed, as all members
    struct foreign_helper *helper;
    const struct log *log;
    struct perf_code *code;
    perf_unwound_fn done;
    void *userdata;
    uint64_t waiting_max; // bytes of stacks that wait
};

int perf_unwinder_new(const struct perf_unwinder_env *env, struct perf_unwinder **ret,
                      struct err *err);
struct perf_unwinder *perf_unwinder_free(struct perf_unwinder *unwinder); // returns NULL

// Asks for the stack of a sample with registers. Returns true if `done` will be called, from the
// loop or from perf_unwinder_settle(), unless the unwinder ends before; false if the limits are
// reached or the stack cannot be followed.
bool perf_unwinder_ask(struct perf_unwinder *unwinder, const struct perf_record *record,
                       const struct perf_task *task, uint64_t number);

// Returns the number of stacks that wait.
size_t perf_unwinder_n_waiting(const struct perf_unwinder *unwinder);

// Waits until no stack waits, at most until `deadline` (CLOCK_MONOTONIC).
void perf_unwinder_settle(struct perf_unwinder *unwinder, nsec_t deadline);
