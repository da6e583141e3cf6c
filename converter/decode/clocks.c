// SPDX-License-Identifier: Apache-2.0
//
// Every clock has the series of snapshots that it is in, so a conversion finds the nearest snapshot
// by binary search and looks up the other clock in it by number. The way over several clocks is
// searched breadth first from the trace clock; a run of packets mostly uses one clock, so the last
// answer is remembered together with the range in which it holds.
//
// A clock that was seen going back cannot be converted from (one reading may mean two moments),
// only to. Arithmetic wraps on purpose: absurd readings give absurd times, never undefined
// behaviour.
#include "converter/decode/clocks.h"

#include <errno.h>
#include <stdlib.h>

#define CLOCKS_MAX 1024

struct clock_point {
    int64_t ns;
    uint32_t snapshot;
};
VEC_DEFINE(clock_point_vec, struct clock_point);
VEC_DEFINE(clock_key_vec, clock_key_t);

struct clock_series {
    clock_key_t clock;
    int64_t unit_ns;
    int64_t last_ns; // of incremental clocks
    bool incremental, backwards;
    bool seen;                       // during a search
    struct clock_series *next;       // borrowed, towards the trace clock, as the last search found
    struct clock_point_vec points;   // by snapshot
    struct clock_key_vec neighbours; // clocks that share a snapshot with this one
};

static int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static struct clock_series *series_find(const struct clocks *clocks, clock_key_t clock)
{
    vec_foreach(&clocks->series, series)
        if ((*series)->clock == clock)
            return *series;
    return NULL;
}

static struct clock_series *series_get(struct clocks *clocks, const struct clock_reading *reading)
{
    struct clock_series *series = series_find(clocks, reading->clock);
    if (series || clocks->series.n >= CLOCKS_MAX)
        return series;
    series = calloc(1, sizeof(*series));
    if (!series)
        return NULL;
    *series = (struct clock_series){
        .clock = reading->clock, .unit_ns = reading->unit_ns, .incremental = reading->incremental};
    if (clock_series_vec_push(&clocks->series, series) < 0) {
        free(series);
        return NULL;
    }
    return series;
}

static bool readings_fit(const struct clocks *clocks, const struct clock_reading *readings,
                         size_t n)
{
    if (n < 1 || n > CLOCK_READINGS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct clock_reading *reading = &readings[i];
        const struct clock_series *series = series_find(clocks, reading->clock);
        int64_t ns = wrap_mul(reading->timestamp, reading->unit_ns);
        bool is_trace_clock = reading->clock == clocks->trace_clock;
        if (reading->incremental && reading->clock < CLOCK_ID_SEQUENCE_MIN)
            return false;
        if (is_trace_clock && reading->unit_ns != 1)
            return false;
        if (series &&
            (series->unit_ns != reading->unit_ns || series->incremental != reading->incremental))
            return false;
        if (is_trace_clock && series && series->points.n &&
            ns < series->points.items[series->points.n - 1].ns)
            return false;
        for (size_t k = 0; k < i; k++)
            if (readings[k].clock == reading->clock)
                return false;
    }
    return true;
}

static int neighbour_add(struct clock_series *series, clock_key_t clock)
{
    vec_foreach(&series->neighbours, known)
        if (*known == clock)
            return 0;
    return clock_key_vec_push(&series->neighbours, clock);
}

int clocks_add(struct clocks *clocks, const struct clock_reading *readings, size_t n,
               uint32_t *ret_id)
{
    uint32_t id = clocks->n_snapshots++;
    *ret_id = id;
    clocks->cached = NULL;
    if (!readings_fit(clocks, readings, n))
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        struct clock_series *series = series_get(clocks, &readings[i]);
        if (!series)
            return -ENOMEM;
        int64_t ns = wrap_mul(readings[i].timestamp, readings[i].unit_ns);
        if (series->points.n && ns < series->points.items[series->points.n - 1].ns)
            series->backwards = true;
        series->last_ns = ns;
        int r = clock_point_vec_push(&series->points, (struct clock_point){ns, id});
        for (size_t k = 0; r == 0 && k < n; k++)
            if (k != i)
                r = neighbour_add(series, readings[k].clock);
        if (r < 0)
            return r;
    }
    return 0;
}

static const struct clock_point *point_of_snapshot(const struct clock_series *series, uint32_t id)
{
    size_t low = 0, high = series->points.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (series->points.items[middle].snapshot < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < series->points.n && series->points.items[low].snapshot == id;
    return found ? &series->points.items[low] : NULL;
}

// The last snapshot at or before `ns` that both clocks are in, or else the first one that both are
// in. *ret_max is the time from which a later one would be taken.
static const struct clock_point *nearest_shared(const struct clock_series *from,
                                                const struct clock_series *to, int64_t ns,
                                                int64_t *ret_min, int64_t *ret_max,
                                                const struct clock_point **ret_other)
{
    size_t low = 0, high = from->points.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (from->points.items[middle].ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_min = INT64_MIN;
    *ret_max = INT64_MAX;
    const struct clock_point *other = NULL;
    size_t after = low;
    for (; after < from->points.n; after++)
        if ((other = point_of_snapshot(to, from->points.items[after].snapshot)))
            break;
    if (after < from->points.n)
        *ret_max = from->points.items[after].ns;
    for (size_t i = low; i-- > 0;) {
        const struct clock_point *before = point_of_snapshot(to, from->points.items[i].snapshot);
        if (!before)
            continue;
        *ret_other = before;
        for (size_t k = i; k-- > 0 && *ret_min == INT64_MIN;)
            if (point_of_snapshot(to, from->points.items[k].snapshot))
                *ret_min = from->points.items[i].ns;
        return &from->points.items[i];
    }
    *ret_other = other;
    if (!other)
        return NULL;
    // Before the first shared snapshot: it counts backwards from there, up to the second one.
    *ret_max = from->points.items[after].ns;
    return &from->points.items[after];
}

// The clock to go to next on the shortest way from `from` to the trace clock, noted in every series
// on that way. False: there is none.
static bool path_search(struct clocks *clocks, struct clock_series *from)
{
    struct clock_series *queue[CLOCKS_MAX];
    size_t n = 0;
    vec_foreach(&clocks->series, series) {
        (*series)->seen = false;
        (*series)->next = NULL;
    }
    // Searched from the end, so that each series found knows its way on.
    struct clock_series *target = series_find(clocks, clocks->trace_clock);
    if (!target)
        return false;
    target->seen = true;
    queue[n++] = target;
    for (size_t i = 0; i < n && !from->seen; i++)
        vec_foreach(&queue[i]->neighbours, key) {
            struct clock_series *series = series_find(clocks, *key);
            if (!series || series->seen || series->backwards)
                continue;
            series->seen = true;
            series->next = queue[i];
            queue[n++] = series;
        }
    return from->seen;
}

static bool convert_along(struct clocks *clocks, struct clock_series *series, int64_t ns,
                          int64_t *ret)
{
    int64_t at = ns, min = INT64_MIN, max = INT64_MAX;
    const struct clock_series *hop = series;
    for (; hop->next; hop = hop->next) {
        const struct clock_point *other, *here;
        here = nearest_shared(hop, hop->next, at, &min, &max, &other);
        if (!here)
            return false;
        at = wrap_add(at, wrap_sub(other->ns, here->ns));
    }
    clocks->cached = series->next && !series->next->next ? series : NULL;
    clocks->cached_min = min;
    clocks->cached_max = max;
    clocks->cached_shift = wrap_sub(at, ns);
    *ret = at;
    return true;
}

static int64_t series_ns(struct clock_series *series, int64_t timestamp)
{
    int64_t ns = wrap_mul(timestamp, series->unit_ns);
    if (series->incremental)
        ns = series->last_ns = wrap_add(series->last_ns, ns);
    return ns;
}

bool clocks_convert(struct clocks *clocks, clock_key_t clock, int64_t timestamp, int64_t *ret)
{
    if (clock == clocks->trace_clock) {
        *ret = timestamp;
        return true;
    }
    struct clock_series *series = clocks->cached;
    if (series && series->clock == clock) {
        int64_t ns = series_ns(series, timestamp);
        if (ns < clocks->cached_min || ns >= clocks->cached_max)
            return convert_along(clocks, series, ns, ret);
        *ret = wrap_add(ns, clocks->cached_shift);
        return true;
    }
    series = series_find(clocks, clock);
    if (!series || !path_search(clocks, series))
        return false;
    return convert_along(clocks, series, series_ns(series, timestamp), ret);
}

const char *clock_name(uint32_t clock_id)
{
    static const char *const names[] = {
        [1] = "REALTIME",         [2] = "REALTIME_COARSE", [3] = "MONOTONIC",
        [4] = "MONOTONIC_COARSE", [5] = "MONOTONIC_RAW",   [6] = "BOOTTIME",
    };
    return clock_id < sizeof(names) / sizeof(names[0]) ? names[clock_id] : NULL;
}

void clocks_done(struct clocks *clocks)
{
    vec_foreach(&clocks->series, series) {
        clock_point_vec_done(&(*series)->points);
        clock_key_vec_done(&(*series)->neighbours);
        free(*series);
    }
    clock_series_vec_done(&clocks->series);
    *clocks = (struct clocks){0};
}
