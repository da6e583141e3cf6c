// SPDX-License-Identifier: Apache-2.0
//
// What each thread is doing (the thread_state table), from scheduler events. A row is written when
// nothing can change it any more, so memory holds at most two per thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/import/args.h"

struct thread_state {
    int64_t id, ts, dur;
    const char *state;            // static
    const char *blocked_function; // as cells borrow; NULL: none
    size_t blocked_function_size;
    int64_t ucpu, waker_utid, waker_id; // -1: none
    int8_t io_wait, irq_context;        // -1: not known
};

struct thread_states_of {
    bool has_last, has_blocked;
    struct thread_state last;    // what it does now
    struct thread_state blocked; // what it waited for before it became runnable
};
VEC_DEFINE(thread_states_vec, struct thread_states_of);

struct thread_states {
    struct database *db; // borrowed
    struct thread_states_vec by_utid;
    int64_t idle_utid; // of the machine at hand
    struct bounds bounds;
    struct failure *failure; // borrowed
};

extern const char thread_state_running[], thread_state_runnable[]; // compared by address

// A processor went from one thread to another. `prev_state` is borrowed as cells borrow texts, or
// NULL.
void thread_states_switch(struct thread_states *states, int64_t ts, int64_t ucpu, int64_t prev_utid,
                          const char *prev_state, int64_t next_utid);

// `irq_context` -1: not known.
void thread_states_wake(struct thread_states *states, int64_t ts, int64_t utid, int64_t waker_utid,
                        int irq_context);
void thread_states_new_task(struct thread_states *states, int64_t ts, int64_t utid,
                            int64_t waker_utid);

// Why the thread was blocked until it was woken last. io_wait -1: not known.
void thread_states_blocked(struct thread_states *states, int64_t utid, int io_wait,
                           const char *function, size_t size);

// The thread is in this state from now on; ucpu -1: it does not run. False: it had got into another
// one at the same moment.
bool thread_states_set(struct thread_states *states, int64_t ts, int64_t utid, const char *state,
                       int64_t ucpu);
// What was taken for the state that it is in, is this one.
void thread_states_correct(struct thread_states *states, int64_t utid, const char *state);
// The state that it is in; NULL: not known.
const char *thread_states_now(const struct thread_states *states, int64_t utid);

void thread_states_finish(struct thread_states *states);
void thread_states_done(struct thread_states *states);
