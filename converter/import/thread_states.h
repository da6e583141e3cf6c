// SPDX-License-Identifier: Apache-2.0
//
// The state of each thread (the thread_state table), from scheduler events. A row is written when
// it is final, so memory holds at most two rows per thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/import/args.h"

struct thread_state {
    int64_t id, ts, dur;
    const char *state;            // static
    const char *blocked_function; // borrowed like a cell's text; NULL: none
    size_t blocked_function_size;
    int64_t ucpu, waker_utid, waker_id; // -1: none
    int8_t io_wait, irq_context;        // -1: not known
};

struct thread_states_of {
    bool has_last, has_blocked;
    struct thread_state last;    // the current state
    struct thread_state blocked; // the blocked state before the thread became runnable
};
VEC_DEFINE(thread_states_vec, struct thread_states_of);

struct thread_states {
    struct database *db; // borrowed
    struct thread_states_vec by_utid;
    int64_t idle_utid; // of the current machine
    struct bounds bounds;
    struct failure *failure; // borrowed
};

extern const char thread_state_running[], thread_state_runnable[]; // compared by address

// Notes that a CPU switches to another thread. `prev_state` is borrowed like a cell's text, or
// NULL.
void thread_states_switch(struct thread_states *states, int64_t ts, int64_t ucpu, int64_t prev_utid,
                          const char *prev_state, int64_t next_utid);

// Notes that a thread wakes up, or is new. `irq_context` -1: not known.
void thread_states_wake(struct thread_states *states, int64_t ts, int64_t utid, int64_t waker_utid,
                        int irq_context);
void thread_states_new_task(struct thread_states *states, int64_t ts, int64_t utid,
                            int64_t waker_utid);

// Sets the reason of the thread's last blocked state. `io_wait` -1: not known.
void thread_states_blocked(struct thread_states *states, int64_t utid, int io_wait,
                           const char *function, size_t size);

// Notes that the thread is in this state from `ts` on; `ucpu` -1: the thread does not run. False:
// the thread's last state began at the same `ts`.
bool thread_states_set(struct thread_states *states, int64_t ts, int64_t utid, const char *state,
                       int64_t ucpu);
// Corrects the current state of the thread.
void thread_states_correct(struct thread_states *states, int64_t utid, const char *state);
// Returns the current state of the thread; NULL: not known.
const char *thread_states_now(const struct thread_states *states, int64_t utid);

void thread_states_finish(struct thread_states *states);
void thread_states_done(struct thread_states *states);
