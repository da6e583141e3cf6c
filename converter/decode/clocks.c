// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of the same clocks form a group. One source took the snapshots one after the other, so
// the readings of a clock in a group are in order, and binary search finds the nearest snapshot.
// Snapshots of different groups are not compared, because the order in the file says nothing about
// the order of time. A breadth-first search from the trace clock finds the paths over several
// clocks. One search serves all clocks until a snapshot changes the connections, so most
// conversions need no search. Packets mostly use few clocks, so the last conversions are remembered
// with their ranges.
//
// A clock that ran backwards can only be a target of conversions, because one reading may mean two
// moments. Arithmetic wraps on purpose: absurd readings give absurd times, never undefined
// behaviour.
#include "converter/decode/clocks.h"
#include "common/elements.h"
#include "common/memory.h"

#include <errno.h>
#include <stdlib.h>

#define CLOCKS_MAX 1024
#define GROUPS_MAX 1024

VEC_DEFINE(ns_vec, int64_t);

struct clock_series {
    clock_key_t clock;
    int64_t unit_ns;
    int64_t last_ns; // of incremental clocks
    bool incremental;
    struct clock_group_vec groups; // groups with this clock; items borrowed
    // Result of the last search: the next clock on the path to the target, and the group to use.
    bool seen;
    struct clock_series *next;      // borrowed
    const struct clock_group *over; // borrowed
};

struct clock_group {
    size_t n;                                        // clocks
    struct clock_series *clocks[CLOCK_READINGS_MAX]; // borrowed
    bool backwards[CLOCK_READINGS_MAX];
    struct ns_vec readings; // a row of n readings for each snapshot
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

static struct clock_shift *shift_at(struct clocks *clocks, clock_key_t clock)
{
    return &clocks->shifts[(clock ^ clock >> 32) % CLOCK_SHIFTS];
}

static void shifts_forget(struct clocks *clocks)
{
    for (size_t i = 0; i < CLOCK_SHIFTS; i++)
        clocks->shifts[i].series = NULL;
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
    if (series)
        return series;
    series = memory_calloc(1, sizeof(*series));
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

// Returns true if the group has these clocks in this order.
static bool group_fits(const struct clock_group *group, const struct clock_reading *readings,
                       size_t n)
{
    if (group->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (group->clocks[i]->clock != readings[i].clock)
            return false;
    return true;
}

static struct clock_group *group_find(const struct clocks *clocks,
                                      const struct clock_reading *readings, size_t n)
{
    vec_foreach(&clocks->groups, group)
        if (group_fits(*group, readings, n))
            return *group;
    return NULL;
}

// Frees the last group, which is incomplete: only its first `n` clocks know the group.
static void group_unmake(struct clocks *clocks, struct clock_group *group, size_t n)
{
    for (size_t i = 0; i < n; i++)
        group->clocks[i]->groups.n--;
    clocks->groups.n--;
    clocks->has_paths = false;
    free(group);
}

static struct clock_group *group_make(struct clocks *clocks, const struct clock_reading *readings,
                                      size_t n)
{
    struct clock_group *group = memory_calloc(1, sizeof(*group));
    if (!group || clock_group_vec_push(&clocks->groups, group) < 0) {
        free(group);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (!(group->clocks[i] = series_get(clocks, &readings[i])) ||
            clock_group_vec_push(&group->clocks[i]->groups, group) < 0) {
            group_unmake(clocks, group, i);
            return NULL;
        }
    group->n = n;
    clocks->has_paths = false;
    return group;
}

static int64_t group_last(const struct clock_group *group, size_t column)
{
    return group->readings.items[group->readings.n - group->n + column];
}

static bool reading_fits(const struct clocks *clocks, const struct clock_reading *reading)
{
    const struct clock_series *series = series_find(clocks, reading->clock);
    if (reading->incremental && clock_id_of(reading->clock) < CLOCK_ID_SEQUENCE_MIN)
        return false;
    if (reading->clock == clocks->trace_clock && reading->unit_ns != 1)
        return false;
    return !series ||
           (series->unit_ns == reading->unit_ns && series->incremental == reading->incremental);
}

int clocks_add(struct clocks *clocks, const struct clock_reading *readings, size_t n,
               uint32_t *ret_id)
{
    uint32_t id = clocks->n_snapshots++;
    shifts_forget(clocks);
    if (n < 1 || n > CLOCK_READINGS_MAX)
        return -EINVAL;
    struct clock_group *group = group_find(clocks, readings, n);
    if (!group && clocks->series.n + n > CLOCKS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (!reading_fits(clocks, &readings[i]))
            return -EINVAL;
        for (size_t k = 0; k < i; k++)
            if (readings[k].clock == readings[i].clock)
                return -EINVAL;
        int64_t ns = wrap_mul(readings[i].timestamp, readings[i].unit_ns);
        if (group && readings[i].clock == clocks->trace_clock && ns < group_last(group, i))
            return -EINVAL; // trace time runs backwards
    }
    if (!group && clocks->groups.n >= GROUPS_MAX)
        return -EINVAL;
    if (!group && !(group = group_make(clocks, readings, n)))
        return -ENOMEM;
    int r = ns_vec_reserve(&group->readings, group->readings.n + n);
    if (r < 0 && !group->readings.n) // a new group without a row must not stay
        group_unmake(clocks, group, n);
    for (size_t i = 0; r == 0 && i < n; i++) {
        int64_t ns = wrap_mul(readings[i].timestamp, readings[i].unit_ns);
        // The value of the same column in the previous row is n items back.
        if (group->readings.n >= n && ns < group->readings.items[group->readings.n - n] &&
            !group->backwards[i]) {
            group->backwards[i] = true;
            clocks->has_paths = false;
        }
        group->clocks[i]->last_ns = ns;
        r = ns_vec_push(&group->readings, ns);
    }
    if (r == 0)
        *ret_id = id;
    return r;
}

static size_t group_column(const struct clock_group *group, const struct clock_series *series)
{
    size_t column = 0;
    while (column < group->n && group->clocks[column] != series)
        column++;
    return column;
}

// Searches from the target. Each found clock then knows the next clock on its path to the target.
static void paths_find(struct clocks *clocks, clock_key_t to)
{
    struct clock_series *queue[CLOCKS_MAX], *target = series_find(clocks, to);
    size_t n = 0;
    vec_foreach(&clocks->series, series)
        (*series)->seen = false;
    clocks->has_paths = true;
    clocks->paths_to = to;
    if (!target)
        return;
    target->seen = true;
    target->next = NULL;
    queue[n++] = target;
    for (size_t i = 0; i < n; i++) {
        vec_foreach(&queue[i]->groups, group) {
            for (size_t k = 0; k < (*group)->n; k++) {
                struct clock_series *series = (*group)->clocks[k];
                if (series->seen || (*group)->backwards[k])
                    continue;
                series->seen = true;
                series->next = queue[i];
                series->over = *group;
                queue[n++] = series;
            }
        }
    }
}

static bool path_search(struct clocks *clocks, const struct clock_series *from, clock_key_t to)
{
    if (!clocks->has_paths || clocks->paths_to != to)
        paths_find(clocks, to);
    return from->seen;
}

// Returns the row with the last reading in `column` at or before `ns`, or else the first row. The
// row is valid for times from *ret_min to before *ret_max.
static const int64_t *group_row(const struct clock_group *group, size_t column, int64_t ns,
                                int64_t *ret_min, int64_t *ret_max)
{
    size_t n_rows = group->readings.n / group->n, low = 0, high = n_rows;
    const int64_t *items = group->readings.items;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (items[middle * group->n + column] <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    size_t row = low ? low - 1 : 0;
    *ret_min = row ? items[row * group->n + column] : INT64_MIN;
    *ret_max = row + 1 < n_rows ? items[(row + 1) * group->n + column] : INT64_MAX;
    return items + row * group->n;
}

static bool convert_along(struct clocks *clocks, struct clock_series *series, int64_t ns,
                          int64_t *ret)
{
    int64_t at = ns, min = INT64_MIN, max = INT64_MAX;
    for (const struct clock_series *hop = series; hop->next; hop = hop->next) {
        size_t column = group_column(hop->over, hop);
        const int64_t *row = group_row(hop->over, column, at, &min, &max);
        at = wrap_add(at, wrap_sub(row[group_column(hop->over, hop->next)], row[column]));
    }
    // Only a conversion over one hop is remembered, because its range is known.
    if (series->next && !series->next->next)
        *shift_at(clocks, series->clock) = (struct clock_shift){series, min, max, wrap_sub(at, ns)};
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
    const struct clock_shift *known = shift_at(clocks, clock);
    if (known->series && known->series->clock == clock) {
        int64_t ns = series_ns(known->series, timestamp);
        if (ns >= known->min && ns < known->max) {
            *ret = wrap_add(ns, known->shift);
            return true;
        }
        return path_search(clocks, known->series, clocks->trace_clock) &&
               convert_along(clocks, known->series, ns, ret);
    }
    struct clock_series *series = series_find(clocks, clock);
    if (!series || !path_search(clocks, series, clocks->trace_clock))
        return false;
    return convert_along(clocks, series, series_ns(series, timestamp), ret);
}

void clocks_set_trace_clock(struct clocks *clocks, clock_key_t clock)
{
    if (clocks->trace_clock != clock)
        shifts_forget(clocks);
    clocks->trace_clock = clock;
}

bool clocks_connected(struct clocks *clocks, clock_key_t from, clock_key_t to)
{
    struct clock_series *series = series_find(clocks, from);
    return from == to || (series && path_search(clocks, series, to));
}

bool clocks_know(const struct clocks *clocks, clock_key_t clock)
{
    return series_find(clocks, clock) != NULL;
}

const char *clock_name(uint32_t clock_id)
{
    static const char *const names[] = {
        [PB_BUILTIN_CLOCK_REALTIME] = "REALTIME",
        [PB_BUILTIN_CLOCK_REALTIME_COARSE] = "REALTIME_COARSE",
        [PB_BUILTIN_CLOCK_MONOTONIC] = "MONOTONIC",
        [PB_BUILTIN_CLOCK_MONOTONIC_COARSE] = "MONOTONIC_COARSE",
        [PB_BUILTIN_CLOCK_MONOTONIC_RAW] = "MONOTONIC_RAW",
        [PB_BUILTIN_CLOCK_BOOTTIME] = "BOOTTIME",
    };
    return clock_id < ELEMENTS(names) ? names[clock_id] : NULL;
}

void clocks_done(struct clocks *clocks)
{
    vec_foreach(&clocks->groups, group) {
        ns_vec_done(&(*group)->readings);
        free(*group);
    }
    vec_foreach(&clocks->series, series) {
        clock_group_vec_done(&(*series)->groups);
        free(*series);
    }
    clock_group_vec_done(&clocks->groups);
    clock_series_vec_done(&clocks->series);
    *clocks = (struct clocks){0};
}
