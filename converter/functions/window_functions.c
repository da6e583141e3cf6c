// SPDX-License-Identifier: Apache-2.0
//
// Window functions, and aggregates over sorted rows: LAST_NON_NULL, INTERNAL_LAYOUT,
// VALUE_AT_MAX_TS.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/functions/functions.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

// The last value that is not NULL, by the number of its row. Rows leave the window in the order in
// which they entered, so an older value never counts again.
struct last_value {
    sqlite3_value *value; // owned
    uint64_t row;         // of the value
    uint64_t begin, end;  // rows in the window
};

static void last_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct last_value *last = aggregate_get(context, sizeof(*last));
    if (!last)
        return;
    uint64_t row = last->end++;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    sqlite3_value_free(last->value);
    last->value = sqlite3_value_dup(argv[0]);
    last->row = row;
    if (!last->value)
        sqlite3_result_error_nomem(context);
}

static void last_inverse(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc, (void)argv;
    struct last_value *last = aggregate_get(context, sizeof(*last));
    if (last)
        last->begin++;
}

static void last_value(sqlite3_context *context)
{
    const struct last_value *last = aggregate_get(context, sizeof(*last));
    if (last && last->value && last->row >= last->begin)
        sqlite3_result_value(context, last->value);
}

static void last_final(sqlite3_context *context)
{
    struct last_value *last = aggregate_take(context);
    if (!last)
        return;
    if (last->value && last->row >= last->begin)
        sqlite3_result_value(context, last->value);
    sqlite3_value_free(last->value);
    free(last);
}

// A line of the layout that is in use until a time. Free lines are in a heap, too, ordered only by
// number.
struct line {
    int64_t until;
    int64_t number;
};
VEC_DEFINE(line_heap, struct line);

static bool line_before(const struct line *a, const struct line *b)
{
    return a->until < b->until || (a->until == b->until && a->number < b->number);
}

static int heap_push(struct line_heap *heap, struct line line)
{
    if (line_heap_push(heap, line) < 0)
        return -1;
    size_t i = heap->n - 1;
    for (; i > 0 && line_before(&line, &heap->items[(i - 1) / 2]); i = (i - 1) / 2)
        heap->items[i] = heap->items[(i - 1) / 2];
    heap->items[i] = line;
    return 0;
}

static void heap_pop(struct line_heap *heap)
{
    struct line last = heap->items[--heap->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && line_before(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (!line_before(&heap->items[child], &last))
            break;
        heap->items[i] = heap->items[child];
    }
    heap->items[i] = last;
}

struct layout {
    struct line_heap used, unused;
    int64_t n_lines;
    int64_t last_ts, last_line;
    bool asked; // the line of the last slice was asked for
};

// Returns an error text about the slice, or NULL.
static const char *slice_check(const struct layout *layout, sqlite3_value *const *argv)
{
    if (sqlite3_value_type(argv[0]) != SQLITE_INTEGER ||
        sqlite3_value_type(argv[1]) != SQLITE_INTEGER)
        return "INTERNAL_LAYOUT: ts and dur must be whole numbers";
    if (sqlite3_value_int64(argv[0]) < 0)
        return "INTERNAL_LAYOUT: ts is negative";
    if (sqlite3_value_int64(argv[1]) < -1)
        return "INTERNAL_LAYOUT: dur is below -1";
    if (sqlite3_value_int64(argv[0]) < layout->last_ts)
        return "INTERNAL_LAYOUT: the slices are not sorted; ORDER BY ts is missing in the window";
    if (!layout->asked && layout->n_lines > 0)
        return "INTERNAL_LAYOUT: the window must be ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT "
               "ROW";
    return NULL;
}

// Gives the slice the lowest free line. A slice of duration 0 leaves the line free.
static int slice_place(struct layout *layout, int64_t ts, int64_t dur)
{
    while (layout->used.n && layout->used.items[0].until <= ts) {
        struct line line = {0, layout->used.items[0].number};
        heap_pop(&layout->used);
        if (heap_push(&layout->unused, line) < 0)
            return -1;
    }
    struct line line = {0, layout->n_lines};
    if (layout->unused.n) {
        line = layout->unused.items[0];
        heap_pop(&layout->unused);
    } else {
        layout->n_lines++;
    }
    layout->last_line = line.number;
    layout->last_ts = ts;
    layout->asked = false;
    line.until = dur == 0 ? 0 : dur < 0 || dur > INT64_MAX - ts ? INT64_MAX : ts + dur;
    return heap_push(dur == 0 ? &layout->unused : &layout->used, line);
}

// SQL arguments: (ts, dur)
static void layout_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct layout *layout = aggregate_get(context, sizeof(*layout));
    const char *why = layout ? slice_check(layout, argv) : NULL;
    if (why)
        sqlite3_result_error(context, why, -1);
    else if (layout &&
             slice_place(layout, sqlite3_value_int64(argv[0]), sqlite3_value_int64(argv[1])) < 0)
        sqlite3_result_error_nomem(context);
}

static void layout_inverse(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc, (void)argv;
    sqlite3_result_error(context,
                         "INTERNAL_LAYOUT: the window must begin with the first row (UNBOUNDED "
                         "PRECEDING)",
                         -1);
}

static void layout_value(sqlite3_context *context)
{
    struct layout *layout = aggregate_get(context, sizeof(*layout));
    if (!layout)
        return;
    layout->asked = true;
    sqlite3_result_int64(context, layout->last_line);
}

static void layout_final(sqlite3_context *context)
{
    struct layout *layout = aggregate_take(context);
    if (!layout)
        return;
    sqlite3_result_int64(context, layout->last_line);
    line_heap_done(&layout->used);
    line_heap_done(&layout->unused);
    free(layout);
}

struct value_at_max {
    int64_t ts;
    double real;
    int64_t integer;
    int type; // of the first value; 0: no row yet
};

// SQL arguments: (ts, value)
static void at_max_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct value_at_max *max = sqlite3_aggregate_context(context, sizeof(*max));
    int type = sqlite3_value_type(argv[1]);
    if (!max) {
        sqlite3_result_error_nomem(context);
        return;
    }
    if (!max->type && (sqlite3_value_type(argv[0]) != SQLITE_INTEGER ||
                       (type != SQLITE_INTEGER && type != SQLITE_FLOAT))) {
        sqlite3_result_error(context,
                             "VALUE_AT_MAX_TS: ts must be a whole number, the value a number", -1);
        return;
    }
    int64_t ts = sqlite3_value_int64(argv[0]);
    if (max->type && ts < max->ts)
        return;
    max->type = max->type ? max->type : type;
    max->ts = ts;
    max->real = sqlite3_value_double(argv[1]);
    max->integer = sqlite3_value_int64(argv[1]);
}

static void at_max_final(sqlite3_context *context)
{
    const struct value_at_max *max = sqlite3_aggregate_context(context, 0);
    if (max && max->type == SQLITE_INTEGER)
        sqlite3_result_int64(context, max->integer);
    else if (max && max->type)
        sqlite3_result_double(context, max->real);
}

int window_functions_register(sqlite3 *handle)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int code = sqlite3_create_window_function(handle, "last_non_null", 1, flags, NULL, last_step,
                                              last_final, last_value, last_inverse, NULL);
    if (code == SQLITE_OK)
        code =
            sqlite3_create_window_function(handle, "internal_layout", 2, flags, NULL, layout_step,
                                           layout_final, layout_value, layout_inverse, NULL);
    return code == SQLITE_OK ? sqlite3_create_function_v2(handle, "value_at_max_ts", 2, flags, NULL,
                                                          NULL, at_max_step, at_max_final, NULL)
                             : code;
}
