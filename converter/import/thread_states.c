// SPDX-License-Identifier: Apache-2.0
//
// A thread runs, is runnable, or is blocked in some way. sched_switch ends one state and begins the
// next; a wake-up turns blocked into runnable. The kernel reports the reason of a block after the
// wake-up, so the blocked row is held until the thread runs again or blocks again.
#include "converter/import/thread_states.h"

#include <errno.h>

const char thread_state_running[] = "Running";
const char thread_state_runnable[] = "R";

static struct thread_states_of *states_get(struct thread_states *states, int64_t utid)
{
    while (states->by_utid.n <= (uint64_t)utid) {
        if (thread_states_vec_push(&states->by_utid, (struct thread_states_of){0}) < 0) {
            failure_note(states->failure, -ENOMEM);
            return NULL;
        }
    }
    return &states->by_utid.items[utid];
}

static bool is_blocked(const struct thread_state *state)
{
    return state->state != thread_state_running &&
           (!state->state || strcmp(state->state, "R") != 0);
}

static void state_write(struct thread_states *states, int64_t utid,
                        const struct thread_state *state)
{
    struct cell *row = database_row_with_id(states->db, TABLE_thread_state, state->id);
    cell_int(row, COL_thread_state_ts, state->ts);
    cell_int(row, COL_thread_state_dur, state->dur);
    cell_int(row, COL_thread_state_utid, utid);
    cell_text(row, COL_thread_state_state, state->state);
    cell_known(row, COL_thread_state_io_wait, state->io_wait);
    if (state->blocked_function)
        cell_bytes(row, COL_thread_state_blocked_function, state->blocked_function,
                   state->blocked_function_size);
    cell_known(row, COL_thread_state_waker_utid, state->waker_utid);
    cell_known(row, COL_thread_state_waker_id, state->waker_id);
    cell_known(row, COL_thread_state_irq_context, state->irq_context);
    cell_known(row, COL_thread_state_ucpu, state->ucpu);
    bounds_add(&states->bounds, state->ts);
    if (state->dur > 0)
        bounds_add(&states->bounds, state->ts + state->dur);
}

static void state_open(struct thread_states *states, int64_t utid, struct thread_state state)
{
    if (utid == states->idle_utid)
        return;
    if (state.waker_utid >= 0 && (uint64_t)state.waker_utid < states->by_utid.n) {
        const struct thread_states_of *waker = &states->by_utid.items[state.waker_utid];
        if (waker->has_last && waker->last.state == thread_state_running)
            state.waker_id = waker->last.id;
    }
    struct thread_states_of *of = states_get(states, utid);
    if (!of)
        return;
    state.id = database_reserve_id(states->db, TABLE_thread_state);
    state.dur = -1;
    bool runnable = !is_blocked(&state) && state.state != thread_state_running;
    if (of->has_blocked && (!runnable || (of->has_last && is_blocked(&of->last)))) {
        state_write(states, utid, &of->blocked);
        of->has_blocked = false;
    }
    if (of->has_last && runnable && is_blocked(&of->last)) {
        of->blocked = of->last;
        of->has_blocked = true;
    } else if (of->has_last) {
        state_write(states, utid, &of->last);
    }
    of->last = state;
    of->has_last = true;
}

static void state_close(struct thread_states *states, int64_t ts, int64_t utid)
{
    if ((uint64_t)utid >= states->by_utid.n || !states->by_utid.items[utid].has_last)
        return;
    struct thread_state *last = &states->by_utid.items[utid].last;
    last->dur = (int64_t)((uint64_t)ts - (uint64_t)last->ts);
}

static struct thread_state state_make(int64_t ts, const char *name)
{
    return (struct thread_state){.ts = ts,
                                 .state = name,
                                 .ucpu = -1,
                                 .waker_utid = -1,
                                 .waker_id = -1,
                                 .io_wait = -1,
                                 .irq_context = -1};
}

static const struct thread_state *state_last(const struct thread_states *states, int64_t utid)
{
    if ((uint64_t)utid >= states->by_utid.n || !states->by_utid.items[utid].has_last)
        return NULL;
    return &states->by_utid.items[utid].last;
}

void thread_states_switch(struct thread_states *states, int64_t ts, int64_t ucpu, int64_t prev_utid,
                          const char *prev_state, int64_t next_utid)
{
    // If the previous thread was not running, events are missing, and the end of the thread's last
    // state is unknown.
    const struct thread_state *last = state_last(states, prev_utid);
    if (last && last->state == thread_state_running)
        state_close(states, ts, prev_utid);
    state_open(states, prev_utid, state_make(ts, prev_state));
    state_close(states, ts, next_utid);
    struct thread_state running = state_make(ts, thread_state_running);
    running.ucpu = ucpu;
    state_open(states, next_utid, running);
}

// Writes a wake-up of a thread that was awake already.
static void spurious_write(struct thread_states *states, int64_t ts, int64_t utid,
                           int64_t waker_utid, int irq_context)
{
    struct cell *row = database_row(states->db, TABLE_spurious_sched_wakeup, NULL);
    cell_int(row, COL_spurious_sched_wakeup_ts, ts);
    cell_int(row, COL_spurious_sched_wakeup_thread_state_id, state_last(states, utid)->id);
    cell_known(row, COL_spurious_sched_wakeup_irq_context, irq_context);
    cell_int(row, COL_spurious_sched_wakeup_utid, utid);
    cell_int(row, COL_spurious_sched_wakeup_waker_utid, waker_utid);
}

void thread_states_wake(struct thread_states *states, int64_t ts, int64_t utid, int64_t waker_utid,
                        int irq_context)
{
    const struct thread_state *last = state_last(states, utid);
    if (last && !is_blocked(last)) {
        spurious_write(states, ts, utid, waker_utid, irq_context);
        return;
    }
    state_close(states, ts, utid);
    struct thread_state runnable = state_make(ts, thread_state_runnable);
    runnable.waker_utid = waker_utid;
    runnable.irq_context = (int8_t)irq_context;
    state_open(states, utid, runnable);
}

void thread_states_new_task(struct thread_states *states, int64_t ts, int64_t utid,
                            int64_t waker_utid)
{
    struct thread_state runnable = state_make(ts, thread_state_runnable);
    runnable.waker_utid = waker_utid;
    runnable.irq_context = 0;
    state_open(states, utid, runnable);
}

void thread_states_blocked(struct thread_states *states, int64_t utid, int io_wait,
                           const char *function, size_t size)
{
    if ((uint64_t)utid >= states->by_utid.n)
        return;
    struct thread_states_of *of = &states->by_utid.items[utid];
    struct thread_state *blocked = of->has_last && is_blocked(&of->last) ? &of->last
                                   : of->has_blocked                     ? &of->blocked
                                                                         : NULL;
    if (!blocked)
        return;
    if (io_wait >= 0)
        blocked->io_wait = io_wait != 0;
    if (function) {
        blocked->blocked_function = function;
        blocked->blocked_function_size = size;
    }
}

bool thread_states_set(struct thread_states *states, int64_t ts, int64_t utid, const char *state,
                       int64_t ucpu)
{
    const struct thread_state *last = state_last(states, utid);
    bool is_new_moment = !last || last->ts != ts;
    state_close(states, ts, utid);
    struct thread_state next = state_make(ts, state);
    next.ucpu = ucpu;
    state_open(states, utid, next);
    return is_new_moment;
}

void thread_states_correct(struct thread_states *states, int64_t utid, const char *state)
{
    if (state_last(states, utid))
        states->by_utid.items[utid].last.state = state;
}

const char *thread_states_now(const struct thread_states *states, int64_t utid)
{
    const struct thread_state *last = state_last(states, utid);
    return last ? last->state : NULL;
}

void thread_states_finish(struct thread_states *states)
{
    for (size_t utid = 0; utid < states->by_utid.n; utid++) {
        const struct thread_states_of *of = &states->by_utid.items[utid];
        if (of->has_blocked)
            state_write(states, (int64_t)utid, &of->blocked);
        if (of->has_last)
            state_write(states, (int64_t)utid, &of->last);
    }
}

void thread_states_done(struct thread_states *states)
{
    thread_states_vec_done(&states->by_utid);
}
