// SPDX-License-Identifier: Apache-2.0
//
// experimental_slice_layout: lines on which the slices of several tracks can be drawn together.
// experimental_flat_slice: for each track, the deepest slice at each time.
//
// The layout moves a slice of depth 0 together with all slices below: a box. The highest boxes are
// placed first, and boxes of equal height in order of time. Each box takes the first lines that are
// free from its start to its end.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/vec.h"
#include "converter/functions/functions.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define NONE        SIZE_MAX
#define CHUNK_SPANS 256

struct slice {
    int64_t id, ts, dur, track_id, depth, parent_id;
    size_t box;
};
VEC_DEFINE(slice_vec, struct slice);

struct box {
    int64_t start, end, height; // height: the depth of the deepest slice
    size_t number, line;
};
VEC_DEFINE(box_vec, struct box);

struct span {
    int64_t start, end;
};

struct chunk {
    size_t n;
    struct span spans[CHUNK_SPANS];
};
VEC_DEFINE(chunk_vec, struct chunk *);

// The occupied spans of a line, by begin. Chunks make the insertion of a span cheap. No chunk is
// empty.
struct line {
    struct chunk_vec chunks; // owned
};
VEC_DEFINE(line_vec, struct line);

static int64_t end_of(int64_t ts, int64_t dur)
{
    return dur < 0 || dur > INT64_MAX - (ts > 0 ? ts : 0) ? INT64_MAX : ts + dur;
}

// Reads slices of a statement: id, ts, dur, track_id, depth, parent_id. Returns SQLite's code.
static int slices_read(sqlite3_stmt *statement, struct slice_vec *ret)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        bool has_parent = sqlite3_column_type(statement, 5) != SQLITE_NULL;
        struct slice slice = {.id = sqlite3_column_int64(statement, 0),
                              .ts = sqlite3_column_int64(statement, 1),
                              .dur = sqlite3_column_int64(statement, 2),
                              .track_id = sqlite3_column_int64(statement, 3),
                              .depth = sqlite3_column_int64(statement, 4),
                              .parent_id = has_parent ? sqlite3_column_int64(statement, 5) : -1};
        if (slice.depth < 0 || slice.depth > UINT16_MAX)
            slice.depth = 0;
        if (slice_vec_push(ret, slice) < 0)
            return SQLITE_NOMEM;
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// Reads the numbers of tracks in a text like "3,8,15". Other characters are skipped.
static bool tracks_read(const char *text, struct int64_vec *ret)
{
    for (const char *at = text; *at;) {
        char *end;
        long long number = strtoll(at, &end, 10);
        bool is_number = end > at && (*end == ',' || !*end);
        if (is_number && int64_vec_push(ret, number) < 0)
            return false;
        at = end + strcspn(end, ",");
        at += *at == ',';
    }
    if (ret->n)
        qsort(ret->items, ret->n, sizeof(*ret->items), by_number);
    return true;
}

// Reads the slices of the tracks, sorted by id. Returns SQLite's code.
static int tracks_slices(sqlite3 *handle, const struct int64_vec *tracks, struct slice_vec *ret)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle,
                                  "SELECT id, ts, dur, track_id, depth, parent_id FROM slice WHERE "
                                  "track_id = ?1",
                                  -1, &statement, NULL);
    for (size_t i = 0; i < tracks->n && code == SQLITE_OK; i++) {
        if (i > 0 && tracks->items[i] == tracks->items[i - 1])
            continue;
        sqlite3_bind_int64(statement, 1, tracks->items[i]);
        code = slices_read(statement, ret);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    // The id is the first member.
    if (ret->n)
        qsort(ret->items, ret->n, sizeof(*ret->items), by_number);
    return code;
}

// Makes the boxes. A slice belongs to the box of its parent, which has a smaller id.
static bool boxes_make(struct slice_vec *slices, struct box_vec *ret)
{
    for (size_t i = 0; i < slices->n; i++) {
        struct slice *slice = &slices->items[i];
        int64_t end = end_of(slice->ts, slice->dur);
        const struct slice *parent =
            slice->parent_id < 0
                ? NULL
                : bsearch(&slice->parent_id, slices->items, i, sizeof(*slice), by_number);
        slice->box = parent ? parent->box : ret->n;
        struct box box = {slice->ts, end, slice->depth, ret->n, 0};
        if (!parent && box_vec_push(ret, box) < 0)
            return false;
        struct box *in = &ret->items[slice->box];
        in->end = end > in->end ? end : in->end;
        in->height = slice->depth > in->height ? slice->depth : in->height;
    }
    return true;
}

static int by_height(const void *a, const void *b)
{
    const struct box *x = *(struct box *const *)a, *y = *(struct box *const *)b;
    if (x->height != y->height)
        return x->height > y->height ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static const struct span *line_last(const struct line *line)
{
    const struct chunk *last = line->chunks.n ? line->chunks.items[line->chunks.n - 1] : NULL;
    return last ? &last->spans[last->n - 1] : NULL;
}

// Finds the place of the first span that begins at `time` or later: in chunk *ret_chunk, or at the
// end of the chunk. The line is not empty.
static size_t line_find(const struct line *line, int64_t time, size_t *ret_chunk)
{
    size_t low = 0, high = line->chunks.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (line->chunks.items[middle]->spans[0].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_chunk = low > 0 ? low - 1 : 0;
    const struct chunk *chunk = line->chunks.items[*ret_chunk];
    for (low = 0, high = chunk->n; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (chunk->spans[middle].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool line_free(const struct line *line, int64_t start, int64_t end)
{
    const struct span *last = line_last(line);
    if (!last || start >= last->end)
        return true;
    size_t number, at = line_find(line, start, &number);
    const struct chunk *chunk = line->chunks.items[number];
    const struct span *next = &chunk->spans[at];
    if (at == chunk->n)
        next = number + 1 < line->chunks.n ? line->chunks.items[number + 1]->spans : NULL;
    // If at is 0, the chunk is the first chunk: every other chunk has a span before `start`.
    return (!next || next->start >= end) && (at == 0 || chunk->spans[at - 1].end <= start);
}

// Moves the upper half of a full chunk to a new chunk after it. Returns false if memory ran out.
static bool chunk_split(struct line *line, size_t number)
{
    struct chunk *chunk = line->chunks.items[number], *half = malloc(sizeof(*half));
    if (!half || chunk_vec_push(&line->chunks, half) < 0) {
        free(half);
        return false;
    }
    struct chunk **place = &line->chunks.items[number + 1];
    memmove(place + 1, place, (line->chunks.n - number - 2) * sizeof(*place));
    *place = half;
    chunk->n = CHUNK_SPANS / 2;
    half->n = CHUNK_SPANS - chunk->n;
    memcpy(half->spans, &chunk->spans[chunk->n], half->n * sizeof(*half->spans));
    return true;
}

static bool line_append(struct line *line, struct span span)
{
    size_t n = line->chunks.n;
    if (!n || line->chunks.items[n - 1]->n == CHUNK_SPANS) {
        struct chunk *chunk = malloc(sizeof(*chunk));
        if (!chunk || chunk_vec_push(&line->chunks, chunk) < 0) {
            free(chunk);
            return false;
        }
        chunk->n = 0;
    }
    struct chunk *last = line->chunks.items[line->chunks.n - 1];
    last->spans[last->n++] = span;
    return true;
}

// Adds a span to a line. A span is inserted before spans with an equal start, but after the last
// span of the line. Perfetto has the same order, so the lines are equal.
static bool line_take(struct line *line, struct span span)
{
    const struct span *last = line_last(line);
    if (!last || span.start >= last->start)
        return line_append(line, span);
    size_t number, at = line_find(line, span.start, &number);
    if (line->chunks.items[number]->n == CHUNK_SPANS) {
        if (!chunk_split(line, number))
            return false;
        at = line_find(line, span.start, &number);
    }
    struct chunk *chunk = line->chunks.items[number];
    memmove(&chunk->spans[at + 1], &chunk->spans[at], (chunk->n - at) * sizeof(*chunk->spans));
    chunk->spans[at] = span;
    chunk->n++;
    return true;
}

// Finds the first lines in a row that are free for the box.
static size_t lines_find(const struct line_vec *lines, const struct box *box)
{
    size_t height = (size_t)box->height + 1, run = 0, first = 0;
    for (size_t i = 0; i < lines->n && run < height; i++) {
        bool is_free = line_free(&lines->items[i], box->start, box->end);
        first = run == 0 ? i : first;
        run = is_free ? run + 1 : 0;
    }
    return run > 0 ? first : lines->n;
}

static bool box_place(struct line_vec *lines, struct box *box)
{
    size_t height = (size_t)box->height + 1;
    struct span span = {box->start, box->end};
    box->line = lines_find(lines, box);
    while (lines->n < box->line + height)
        if (line_vec_push(lines, (struct line){0}) < 0)
            return false;
    for (size_t i = box->line; i < box->line + height; i++)
        if (!line_take(&lines->items[i], span))
            return false;
    return true;
}

static bool boxes_place(struct box_vec *boxes)
{
    struct line_vec lines = {0};
    struct box **order = malloc((boxes->n + 1) * sizeof(*order));
    bool good = order;
    for (size_t i = 0; i < boxes->n && good; i++)
        order[i] = &boxes->items[i];
    if (good)
        qsort(order, boxes->n, sizeof(*order), by_height);
    for (size_t i = 0; i < boxes->n && good; i++)
        good = box_place(&lines, order[i]);
    vec_foreach(&lines, line) {
        vec_foreach(&line->chunks, chunk)
            free(*chunk);
        chunk_vec_done(&line->chunks);
    }
    line_vec_done(&lines);
    free(order);
    return good;
}

static void fail(sqlite3_context *context, int code)
{
    if (code == SQLITE_NOMEM)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error(context, sqlite3_errmsg(sqlite3_context_db_handle(context)), -1);
}

// SQL arguments: ('track, track, ...')
static void slice_layout(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {"id", "layout_depth"};
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    struct int64_vec tracks = {0};
    struct slice_vec slices = {0};
    struct box_vec boxes = {0};
    if (!text || sqlite3_value_type(argv[0]) != SQLITE_TEXT) {
        sqlite3_result_error(context,
                             "experimental_slice_layout: a text with the numbers of tracks is "
                             "expected, with commas between",
                             -1);
        return;
    }
    int code = tracks_read(text, &tracks) ? SQLITE_OK : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = tracks_slices(sqlite3_context_db_handle(context), &tracks, &slices);
    if (code == SQLITE_OK && (!boxes_make(&slices, &boxes) || !boxes_place(&boxes)))
        code = SQLITE_NOMEM;
    if (code == SQLITE_OK) {
        struct value_table *table = value_table_new(ELEMENTS(names), names);
        for (size_t i = 0; table && i < slices.n; i++, table->n_rows++) {
            const struct slice *slice = &slices.items[i];
            value_table_add_int(table, 0, slice->id);
            value_table_add_int(table, 1, slice->depth + (int64_t)boxes.items[slice->box].line);
        }
        value_table_result(context, table);
    } else {
        fail(context, code);
    }
    int64_vec_done(&tracks);
    slice_vec_done(&slices);
    box_vec_done(&boxes);
}

// -- flat slices --

// A row of the result. Rows are in the order of the slices that made them.
struct flat {
    size_t made_by; // slice
    size_t number;
    int64_t ts, dur, track_id;
    size_t slice; // NONE: no slice at this time
};
VEC_DEFINE(flat_vec, struct flat);
VEC_DEFINE(index_vec, size_t);

struct flattening {
    const struct slice_vec *slices;
    struct flat_vec rows;
    struct index_vec parents; // of the slice in the last row
    size_t made_by;
    bool failed;
};

static struct flat *last_row(struct flattening *f)
{
    return &f->rows.items[f->rows.n - 1];
}

static void row_add(struct flattening *f, int64_t ts, int64_t track_id, size_t slice)
{
    struct flat row = {f->made_by, f->rows.n, ts, -1, track_id, slice};
    f->failed |= flat_vec_push(&f->rows, row) < 0;
}

// Ends the last row if its slice ends before `time`.
static bool slice_ends(struct flattening *f, int64_t time)
{
    struct flat *row = last_row(f);
    const struct slice *slice = &f->slices->items[row->slice];
    int64_t end = end_of(slice->ts, slice->dur);
    if (slice->dur == -1 || end > time)
        return false;
    row->dur = end - row->ts;
    return true;
}

// Adds the rows of the parents of the last slice: after a slice ends, its parent is the deepest
// slice. Stops at the slice that lasts until `time`.
static void rows_until(struct flattening *f, int64_t time)
{
    while (!f->failed && last_row(f)->slice != NONE && slice_ends(f, time)) {
        struct flat row = *last_row(f);
        size_t slice = f->parents.n ? f->parents.items[--f->parents.n] : NONE;
        row_add(f, row.ts + row.dur, row.track_id, slice);
    }
}

static void slice_flatten(struct flattening *f, size_t index)
{
    const struct slice *slice = &f->slices->items[index];
    rows_until(f, slice->ts);
    if (f->failed)
        return;
    last_row(f)->dur = slice->ts - last_row(f)->ts;
    if (slice->depth > 0 && last_row(f)->slice != NONE)
        f->failed |= index_vec_push(&f->parents, last_row(f)->slice) < 0;
    row_add(f, slice->ts, slice->track_id, index);
}

// Flattens the slices of one track, in their order: `indexes` from `begin` to `end`. Slices before
// the first slice of depth 0 are left out, because the slices around them are not known.
static void track_flatten(struct flattening *f, const size_t *indexes, size_t begin, size_t end,
                          const struct span *bounds)
{
    while (begin < end && f->slices->items[indexes[begin]].depth > 0)
        begin++;
    if (begin == end)
        return;
    f->parents.n = 0;
    f->made_by = indexes[begin];
    row_add(f, bounds->start, f->slices->items[indexes[begin]].track_id, NONE);
    for (; begin < end && !f->failed; begin++) {
        f->made_by = indexes[begin];
        slice_flatten(f, indexes[begin]);
    }
    f->made_by = NONE;
    if (!f->failed)
        rows_until(f, bounds->end);
    if (!f->failed)
        last_row(f)->dur = bounds->end - last_row(f)->ts;
}

static int by_maker(const void *a, const void *b)
{
    const struct flat *x = a, *y = b;
    if (x->made_by != y->made_by)
        return x->made_by < y->made_by ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

struct track_slice {
    int64_t track_id;
    size_t index;
};

static int by_track(const void *a, const void *b)
{
    const struct track_slice *x = a, *y = b;
    if (x->track_id != y->track_id)
        return x->track_id < y->track_id ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void flatten(struct flattening *f, const struct span *bounds)
{
    size_t n = f->slices->n;
    struct track_slice *order = malloc((n + 1) * sizeof(*order));
    size_t *indexes = malloc((n + 1) * sizeof(*indexes));
    f->failed = !order || !indexes;
    for (size_t i = 0; i < n && !f->failed; i++)
        order[i] = (struct track_slice){f->slices->items[i].track_id, i};
    if (!f->failed)
        qsort(order, n, sizeof(*order), by_track);
    for (size_t i = 0; i < n && !f->failed; i++)
        indexes[i] = order[i].index;
    for (size_t begin = 0, end; begin < n && !f->failed; begin = end) {
        for (end = begin; end < n && order[end].track_id == order[begin].track_id;)
            end++;
        track_flatten(f, indexes, begin, end, bounds);
    }
    if (f->rows.n && !f->failed)
        qsort(f->rows.items, f->rows.n, sizeof(*f->rows.items), by_maker);
    free(order);
    free(indexes);
}

static int bounded_slices(sqlite3 *handle, const struct span *bounds, struct slice_vec *ret)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle,
                                  "SELECT id, ts, dur, track_id, depth, parent_id FROM slice WHERE "
                                  "ts >= ?1 AND ts < ?2 AND dur != 0 ORDER BY ts, id",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, bounds->start);
        sqlite3_bind_int64(statement, 2, bounds->end);
        code = slices_read(statement, ret);
    }
    sqlite3_finalize(statement);
    return code;
}

static struct value_table *flat_table(const struct flattening *f)
{
    static const char *const names[] = {"id", "ts", "dur", "track_id", "source_id"};
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    for (size_t i = 0; table && i < f->rows.n; i++, table->n_rows++) {
        const struct flat *row = &f->rows.items[i];
        value_table_add_int(table, 0, (int64_t)i);
        value_table_add_int(table, 1, row->ts);
        value_table_add_int(table, 2, row->dur);
        value_table_add_int(table, 3, row->track_id);
        if (row->slice == NONE)
            value_table_add_null(table, 4);
        else
            value_table_add_int(table, 4, f->slices->items[row->slice].id);
    }
    return table;
}

// SQL arguments: (start, end)
static void flat_slice(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct slice_vec slices = {0};
    struct flattening f = {.slices = &slices};
    struct span bounds = {sqlite3_value_int64(argv[0]), sqlite3_value_int64(argv[1])};
    bool has_null = false;
    for (int i = 0; i < argc; i++) {
        int type = sqlite3_value_type(argv[i]);
        has_null |= type == SQLITE_NULL;
        if (type != SQLITE_NULL && type != SQLITE_INTEGER) {
            sqlite3_result_error(
                context, "experimental_flat_slice: start and end must be whole numbers", -1);
            return;
        }
    }
    int code =
        has_null ? SQLITE_OK : bounded_slices(sqlite3_context_db_handle(context), &bounds, &slices);
    if (code == SQLITE_OK) {
        flatten(&f, &bounds);
        code = f.failed ? SQLITE_NOMEM : SQLITE_OK;
    }
    if (code == SQLITE_OK)
        value_table_result(context, flat_table(&f));
    else
        fail(context, code);
    flat_vec_done(&f.rows);
    index_vec_done(&f.parents);
    slice_vec_done(&slices);
}

int slice_layout_register(sqlite3 *handle)
{
    static const char layout[] = "SELECT c0 AS id, c1 AS layout_depth FROM "
                                 "__intrinsic_table_ptr(__mmsql_slice_layout(?1)) WHERE "
                                 "__intrinsic_table_ptr_bind(c0, 'id') AND "
                                 "__intrinsic_table_ptr_bind(c1, 'layout_depth')";
    static const char flat[] =
        "SELECT f.c0 AS id, f.c1 AS ts, f.c2 AS dur, f.c3 AS track_id, s.category, s.name, "
        "s.arg_set_id, f.c4 AS source_id, ?1 AS start_bound, ?2 AS end_bound FROM "
        "__intrinsic_table_ptr(__mmsql_flat_slice(?1, ?2)) f LEFT JOIN slice s ON s.id = f.c4 "
        "WHERE __intrinsic_table_ptr_bind(f.c0, 'id') AND __intrinsic_table_ptr_bind(f.c1, 'ts') "
        "AND __intrinsic_table_ptr_bind(f.c2, 'dur') AND "
        "__intrinsic_table_ptr_bind(f.c3, 'track_id') AND "
        "__intrinsic_table_ptr_bind(f.c4, 'source_id')";
    int code = sqlite3_create_function_v2(handle, "__mmsql_slice_layout", 1, SQLITE_UTF8, NULL,
                                          slice_layout, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(handle, "__mmsql_flat_slice", 2, SQLITE_UTF8, NULL,
                                          flat_slice, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = table_function_add(handle, "experimental_slice_layout", layout, 1);
    return code == SQLITE_OK ? table_function_add(handle, "experimental_flat_slice", flat, 2)
                             : code;
}
