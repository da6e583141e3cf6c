// SPDX-License-Identifier: Apache-2.0
//
// __intrinsic_overlap_count_agg(ts, dur): an aggregate that returns a table as a value. The column
// ts is a time at which an interval begins or ends; the column value is the number of intervals
// that are open from this time on. SQL would sort two rows for each interval, and add up the rows
// in two steps.
#include <stdlib.h>

#include "common/elements.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define NOT_DUR (-1) // of an interval that has not ended

struct overlaps {
    struct int64_vec starts, ends; // owned
};

static void overlaps_free(struct overlaps *overlaps)
{
    int64_vec_done(&overlaps->starts);
    int64_vec_done(&overlaps->ends);
    free(overlaps);
}

static void step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct overlaps *overlaps = aggregate_get(context, sizeof(*overlaps));
    if (!overlaps || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    int64_t ts = sqlite3_value_int64(argv[0]), dur = sqlite3_value_int64(argv[1]), end;
    bool ends = sqlite3_value_type(argv[1]) != SQLITE_NULL && dur != NOT_DUR;
    if (__builtin_add_overflow(ts, dur, &end))
        end = dur > 0 ? INT64_MAX : INT64_MIN;
    if (int64_vec_push(&overlaps->starts, ts) < 0 ||
        (ends && int64_vec_push(&overlaps->ends, end) < 0))
        sqlite3_result_error_nomem(context);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort(struct int64_vec *times)
{
    size_t i = 1;
    while (i < times->n && times->items[i - 1] <= times->items[i])
        i++;
    if (i < times->n)
        qsort(times->items, times->n, sizeof(*times->items), by_time);
}

static void final(sqlite3_context *context)
{
    static const char *const names[] = {"ts", "value"};
    struct overlaps *overlaps = aggregate_take(context);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    if (!overlaps || !table) {
        if (overlaps)
            overlaps_free(overlaps);
        value_table_result(context, table);
        return;
    }
    const struct int64_vec *starts = &overlaps->starts, *ends = &overlaps->ends;
    int64_t open = 0;
    sort(&overlaps->starts);
    sort(&overlaps->ends);
    for (size_t i = 0, k = 0; i < starts->n || k < ends->n;) {
        bool is_start = k == ends->n || (i < starts->n && starts->items[i] <= ends->items[k]);
        int64_t ts = is_start ? starts->items[i] : ends->items[k];
        for (; i < starts->n && starts->items[i] == ts; i++)
            open++;
        for (; k < ends->n && ends->items[k] == ts; k++)
            open--;
        value_table_add_int(table, 0, ts);
        value_table_add_int(table, 1, open);
        table->n_rows++;
    }
    overlaps_free(overlaps);
    value_table_result(context, table);
}

int overlap_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_overlap_count_agg", 2, NULL, step, final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
