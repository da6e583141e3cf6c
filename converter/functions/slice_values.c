// SPDX-License-Identifier: Apache-2.0
//
// Aggregates over slices. Their results are tables as values. SQL would sort the slices several
// times for such a result.
//
// __intrinsic_slice_self_agg(id, parent_id, dur): the duration of each slice without the durations
// of its children. __intrinsic_slice_pieces_agg(id, track_id, ts, dur, depth): the times in which a
// slice was the innermost slice of its track. Slices without a duration, or without an end, are
// left out. If such a slice is the outermost slice, all slices inside are left out, too.
#include <stdlib.h>

#include "common/elements.h"
#include "common/map.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

// Slices and sums of their children.
struct family {
    struct map64 inside; // by parent: durations, as unsigned numbers
    struct int64_vec ids, durs;
};

static void family_free(struct family *family)
{
    map64_done(&family->inside);
    int64_vec_done(&family->ids);
    int64_vec_done(&family->durs);
    free(family);
}

static void self_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct family *family = aggregate_get(context, sizeof(*family));
    int64_t dur = sqlite3_value_int64(argv[2]);
    if (!family)
        return;
    if (int64_vec_push(&family->ids, sqlite3_value_int64(argv[0])) < 0 ||
        int64_vec_push(&family->durs, dur) < 0)
        sqlite3_result_error_nomem(context);
    if (sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return;
    bool is_new;
    uint64_t *sum =
        map64_get_or_add(&family->inside, (uint64_t)sqlite3_value_int64(argv[1]), 0, &is_new);
    if (sum)
        *sum += (uint64_t)dur;
    else
        sqlite3_result_error_nomem(context);
}

static void self_final(sqlite3_context *context)
{
    static const char *const names[] = {"id", "self_dur"};
    struct family *family = aggregate_take(context);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    for (size_t i = 0; family && table && i < family->ids.n && i < family->durs.n; i++) {
        const uint64_t *inside = map64_find(&family->inside, (uint64_t)family->ids.items[i]);
        value_table_add_int(table, 0, family->ids.items[i]);
        value_table_add_int(table, 1,
                            (int64_t)((uint64_t)family->durs.items[i] - (inside ? *inside : 0)));
        table->n_rows++;
    }
    if (family)
        family_free(family);
    value_table_result(context, table);
}

struct slice {
    int64_t id, track, ts, end; // end <= ts: no duration
    int64_t depth;
};
VEC_DEFINE(slice_vec, struct slice);

static void pieces_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct slice_vec *slices = aggregate_get(context, sizeof(*slices));
    int64_t ts = sqlite3_value_int64(argv[2]), dur = sqlite3_value_int64(argv[3]);
    struct slice slice = {.id = sqlite3_value_int64(argv[0]),
                          .track = sqlite3_value_int64(argv[1]),
                          .ts = ts,
                          .end = dur <= 0                         ? ts
                                 : ts > 0 && dur > INT64_MAX - ts ? INT64_MAX
                                                                  : ts + dur,
                          .depth = sqlite3_value_int64(argv[4])};
    if (slices && slice_vec_push(slices, slice) < 0)
        sqlite3_result_error_nomem(context);
}

// Compares two slices by track, time and depth.
static int by_place(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

VEC_DEFINE(open_vec, const struct slice *);

// The walk over the slices of a track.
struct walk {
    struct value_table *table;
    struct open_vec open; // the outermost slice, and the slices inside it
    int64_t at;           // pieces are written up to here
    bool is_parent;       // the outermost slice has had a slice inside
};

static void piece_add(struct walk *walk, const struct slice *slice, int64_t end)
{
    value_table_add_int(walk->table, 0, walk->open.items[0]->id);
    value_table_add_int(walk->table, 1, slice->id);
    value_table_add_int(walk->table, 2, walk->at);
    value_table_add_int(walk->table, 3, end - walk->at);
    walk->table->n_rows++;
    walk->at = end;
}

// Closes the open slices that are not around a slice of this depth and time. The outermost slice
// stays.
static void inner_close(struct walk *walk, int64_t ts, int64_t depth)
{
    while (walk->open.n > 1) {
        const struct slice *last = walk->open.items[walk->open.n - 1];
        if (last->depth < depth && last->end > ts)
            return;
        if (last->end > walk->at)
            piece_add(walk, last, last->end);
        walk->open.n--;
    }
}

// Closes the outermost slice. The slice has a piece before its first child and a piece after its
// last child, even of 0 ns.
static void outer_close(struct walk *walk)
{
    if (!walk->open.n)
        return;
    inner_close(walk, INT64_MAX, 0);
    const struct slice *outer = walk->open.items[0];
    piece_add(walk, outer, outer->end > walk->at ? outer->end : walk->at);
    walk->open.n = 0;
}

static bool slice_open(struct walk *walk, const struct slice *slice)
{
    if (slice->depth == 0) {
        outer_close(walk);
        walk->at = slice->ts;
        walk->is_parent = false;
        return slice->end == slice->ts || open_vec_push(&walk->open, slice) == 0;
    }
    if (!walk->open.n || slice->end == slice->ts)
        return true;
    inner_close(walk, slice->ts, slice->depth);
    bool is_first = walk->open.n == 1 && !walk->is_parent;
    if (slice->ts > walk->at || is_first)
        piece_add(walk, walk->open.items[walk->open.n - 1],
                  slice->ts > walk->at ? slice->ts : walk->at);
    walk->is_parent = true;
    walk->at = slice->ts > walk->at ? slice->ts : walk->at;
    return open_vec_push(&walk->open, slice) == 0;
}

static void pieces_final(sqlite3_context *context)
{
    static const char *const names[] = {"root_id", "id", "ts", "dur"};
    struct slice_vec *slices = aggregate_take(context);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    struct walk walk = {.table = table};
    if (slices && slices->n)
        qsort(slices->items, slices->n, sizeof(*slices->items), by_place);
    for (size_t i = 0; slices && table && i < slices->n && !table->failed; i++) {
        const struct slice *slice = &slices->items[i];
        if (i > 0 && slice->track != slice[-1].track)
            outer_close(&walk);
        table->failed |= !slice_open(&walk, slice);
    }
    if (table)
        outer_close(&walk);
    open_vec_done(&walk.open);
    if (slices) {
        slice_vec_done(slices);
        free(slices);
    }
    value_table_result(context, table);
}

int slice_value_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_slice_self_agg", 3, NULL, self_step, self_final},
        {"__intrinsic_slice_pieces_agg", 5, NULL, pieces_step, pieces_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
