// SPDX-License-Identifier: Apache-2.0
//
// Aggregates over states of threads. The rows are in order of ids, which is the order of time for
// each thread. The result is a table as a value. SQL with windows would have to sort and keep the
// states. These aggregates need only a few numbers for each thread.
//
// __intrinsic_wakeup_spans_agg: spans in which threads were ready or ran between sleeps that
// another thread, or an interrupt, ended. __intrinsic_previous_runnable_agg: the states in which a
// thread was ready before it ran.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define NONE    SIZE_MAX
#define NOT_DUR (-1) // of a state that has not ended

struct span {
    int64_t id, utid, ts, waker, sleep_ts, sleep_id, end_ts;
    size_t prev; // index of the thread's previous span, or NONE
    char sleep_state;
    bool is_irq, has_waker, has_end;
};
VEC_DEFINE(span_vec, struct span);

struct thread {
    int64_t sleep_id, sleep_ts, sleep_end, last_ts, end_ts;
    int64_t ready_id; // the state R that began the current span
    size_t span;      // index of its newest span, or NONE
    char sleep_state; // 0: no sleep so far
    bool is_ready_known, has_end;
};
VEC_DEFINE(thread_vec, struct thread);

struct threads {
    struct map64 index_of; // by utid
    struct thread_vec items;
};

// Returns the thread; *ret_new: the thread is new, without states and spans. Returns NULL if memory
// ran out.
static struct thread *thread_get(struct threads *threads, int64_t utid, bool *ret_new)
{
    uint64_t *index =
        map64_get_or_add(&threads->index_of, (uint64_t)utid, threads->items.n, ret_new);
    struct thread thread = {.span = NONE};
    if (!index || (*ret_new && thread_vec_push(&threads->items, thread) < 0))
        return NULL;
    return &threads->items.items[*index];
}

static void threads_done(struct threads *threads)
{
    map64_done(&threads->index_of);
    thread_vec_done(&threads->items);
}

// Adds times from outside; the sum may wrap.
static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

// -- spans --

struct spans {
    struct threads threads;
    struct span_vec items;
    struct map64 ready_of; // by id of the state in which a thread ran: the id of the state R before
};

static void spans_free(struct spans *spans)
{
    if (!spans)
        return;
    threads_done(&spans->threads);
    span_vec_done(&spans->items);
    map64_done(&spans->ready_of);
    free(spans);
}

struct state {
    int64_t id, utid, ts, dur, waker;
    const char *name;
    bool has_waker, is_irq;
};

static bool state_is(const struct state *state, const char *name)
{
    return strcmp(state->name, name) == 0;
}

static int span_add(struct spans *spans, struct thread *thread, const struct state *state,
                    bool is_after_sleep)
{
    struct span span = {.id = state->id,
                        .utid = state->utid,
                        .ts = state->ts,
                        .waker = state->waker,
                        .has_waker = state->has_waker,
                        .is_irq = state->is_irq,
                        .prev = thread->span};
    if (is_after_sleep) {
        span.sleep_ts = thread->sleep_ts;
        span.sleep_id = thread->sleep_id;
        span.sleep_state = thread->sleep_state;
    }
    if (thread->span != NONE && is_after_sleep) {
        spans->items.items[thread->span].end_ts = thread->sleep_ts;
        spans->items.items[thread->span].has_end = true;
    }
    thread->span = spans->items.n;
    return span_vec_push(&spans->items, span);
}

static void thread_end_note(struct thread *thread, const struct state *state)
{
    if (thread->has_end && state->ts <= thread->last_ts)
        return;
    thread->has_end = true;
    thread->last_ts = state->ts;
    thread->end_ts = plus(state->ts, state->dur);
}

static int state_add(struct spans *spans, const struct state *state)
{
    bool is_first;
    struct thread *thread = thread_get(&spans->threads, state->utid, &is_first);
    int r = thread ? 0 : -ENOMEM;
    if (!thread || state->dur == NOT_DUR)
        return r;
    thread_end_note(thread, state);
    is_first = is_first && state_is(state, "R");
    bool is_woken = state->has_waker && thread->sleep_state && thread->sleep_end == state->ts;
    if (is_woken || is_first)
        r = span_add(spans, thread, state, is_woken);
    if ((state->has_waker || is_first) && state_is(state, "R")) {
        thread->ready_id = state->id;
        thread->is_ready_known = true;
    }
    if (thread->is_ready_known && state_is(state, "Running") && r == 0)
        r = map64_set(&spans->ready_of, (uint64_t)state->id, (uint64_t)thread->ready_id);
    if (state_is(state, "S") || state_is(state, "D") || state_is(state, "I")) {
        thread->sleep_id = state->id;
        thread->sleep_ts = state->ts;
        thread->sleep_end = plus(state->ts, state->dur);
        thread->sleep_state = *state->name;
    }
    return r;
}

// SQL arguments: (id, utid, ts, dur, state, waker_id, is_irq)
static void spans_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct spans *spans = aggregate_get(context, sizeof(*spans));
    const char *name = (const char *)sqlite3_value_text(argv[4]);
    struct state state = {.id = sqlite3_value_int64(argv[0]),
                          .utid = sqlite3_value_int64(argv[1]),
                          .ts = sqlite3_value_int64(argv[2]),
                          .dur = sqlite3_value_int64(argv[3]),
                          .name = name ? name : "",
                          .waker = sqlite3_value_int64(argv[5]),
                          .has_waker = sqlite3_value_type(argv[5]) != SQLITE_NULL,
                          .is_irq = sqlite3_value_int(argv[6])};
    if (spans && state_add(spans, &state) < 0)
        sqlite3_result_error_nomem(context);
}

enum span_column {
    SPAN_ID,
    SPAN_UTID,
    SPAN_WAKER_ID,
    SPAN_TS,
    SPAN_IDLE_STATE,
    SPAN_IDLE_ID,
    SPAN_IDLE_DUR,
    SPAN_PREV_ID,
    SPAN_DUR,
};

static void optional_add(struct value_table *table, int column, bool has_value, int64_t value)
{
    if (has_value)
        value_table_add_int(table, column, value);
    else
        value_table_add_null(table, column);
}

// Writes a span. A thread is in its last span until its last state ends. Of two states that begin
// at one time, the first counts, as in trace_processor.
static void span_print(const struct spans *spans, const struct span *span,
                       struct value_table *table)
{
    const uint64_t *waker = span->has_waker && !span->is_irq
                                ? map64_find(&spans->ready_of, (uint64_t)span->waker)
                                : NULL;
    const uint64_t *index = map64_find(&spans->threads.index_of, (uint64_t)span->utid);
    const struct thread *thread = &spans->threads.items.items[*index];
    value_table_add_int(table, SPAN_ID, span->id);
    value_table_add_int(table, SPAN_UTID, span->utid);
    optional_add(table, SPAN_WAKER_ID, waker, waker ? (int64_t)*waker : 0);
    value_table_add_int(table, SPAN_TS, span->ts);
    optional_add(table, SPAN_IDLE_STATE, span->is_irq || span->sleep_state,
                 span->is_irq ? 0 : span->sleep_state);
    optional_add(table, SPAN_IDLE_ID, span->sleep_state, span->sleep_id);
    optional_add(table, SPAN_IDLE_DUR, span->sleep_state, minus(span->ts, span->sleep_ts));
    optional_add(table, SPAN_PREV_ID, span->prev != NONE,
                 span->prev != NONE ? spans->items.items[span->prev].id : 0);
    value_table_add_int(table, SPAN_DUR,
                        minus(span->has_end ? span->end_ts : thread->end_ts, span->ts));
    table->n_rows++;
}

static void spans_final(sqlite3_context *context)
{
    static const char *const names[] = {"id",      "utid",     "waker_id", "ts", "idle_state",
                                        "idle_id", "idle_dur", "prev_id",  "dur"};
    struct spans *spans = aggregate_take(context);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    for (size_t i = 0; spans && table && i < spans->items.n && !table->failed; i++)
        span_print(spans, &spans->items.items[i], table);
    spans_free(spans);
    value_table_result(context, table);
}

// -- states in which a thread was ready --

struct ready {
    int64_t ready_id, wakeup_id;
    bool has_ready, has_wakeup;
};
VEC_DEFINE(ready_vec, struct ready);

struct readies {
    struct map64 index_of; // by utid
    struct ready_vec items;
    struct value_table *table; // owned
};

enum ready_column {
    READY_ID,
    READY_PREV,
    READY_PREV_WAKEUP,
};

// SQL arguments: (id, utid, runs, is_wakeup). `runs` is 1 if the thread runs in this state,
// `is_wakeup` is 1 if another thread woke the thread.
static void readies_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {"id", "prev_runnable_id", "prev_wakeup_runnable_id"};
    struct readies *readies = aggregate_get(context, sizeof(*readies));
    bool is_new = false;
    if (readies && !readies->table)
        readies->table = value_table_new(ELEMENTS(names), names);
    uint64_t *index =
        readies && readies->table
            ? map64_get_or_add(&readies->index_of, (uint64_t)sqlite3_value_int64(argv[1]),
                               readies->items.n, &is_new)
            : NULL;
    if (!index || (is_new && ready_vec_push(&readies->items, (struct ready){0}) < 0)) {
        sqlite3_result_error_nomem(context);
        return;
    }
    struct ready *ready = &readies->items.items[*index];
    int64_t id = sqlite3_value_int64(argv[0]);
    bool runs = sqlite3_value_int(argv[2]);
    if (sqlite3_value_int(argv[3])) {
        ready->wakeup_id = id;
        ready->has_wakeup = true;
    }
    if (!runs) {
        ready->ready_id = id;
        ready->has_ready = true;
        return;
    }
    value_table_add_int(readies->table, READY_ID, id);
    optional_add(readies->table, READY_PREV, ready->has_ready, ready->ready_id);
    optional_add(readies->table, READY_PREV_WAKEUP, ready->has_wakeup, ready->wakeup_id);
    readies->table->n_rows++;
}

static void readies_final(sqlite3_context *context)
{
    static const char *const names[] = {"id", "prev_runnable_id", "prev_wakeup_runnable_id"};
    struct readies *readies = aggregate_take(context);
    struct value_table *table = readies ? readies->table : value_table_new(ELEMENTS(names), names);
    if (readies) {
        map64_done(&readies->index_of);
        ready_vec_done(&readies->items);
        free(readies);
    }
    value_table_result(context, table);
}

int thread_span_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_wakeup_spans_agg", 7, NULL, spans_step, spans_final},
        {"__intrinsic_previous_runnable_agg", 4, NULL, readies_step, readies_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
