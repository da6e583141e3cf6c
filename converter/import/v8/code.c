// SPDX-License-Identifier: Apache-2.0
//
// Addresses of code. V8 reports when code is created and moved, but not when code is freed: other
// code then takes its place. Live code is therefore kept, sorted by address. The row of live code
// is written when other code replaces the code. All code is also a perf map (perf_map_symbol). Like
// the perf maps in files, this map names frames of samples.
//
// Invariant: ranges in a space do not overlap. The comparison treats overlapping ranges as equal,
// so a search finds the ranges that a new range displaces.
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "common/elements.h"
#include "common/memory.h"
#include "converter/import/v8/v8.h"

#define NAME_MAX_BYTES 4096 // bytes of a name of code; rows of functions have full names

struct live_code {
    uint64_t start, end; // the current range; end is exclusive
    int64_t since;       // ns: begin of the time at this address
    int64_t row, isolate;
    struct new_code made;
};

static int live_compare(const void *left, const void *right)
{
    const struct live_code *a = left, *b = right;
    return a->end <= b->start ? -1 : a->start >= b->end;
}

static void symbol_write(struct import *im, struct v8 *v8, const struct live_code *code,
                         const int64_t *gone_ts)
{
    struct isolate *isolate = &v8->isolates.items[code->isolate];
    struct cell *row = database_row(im->db, TABLE_perf_map_symbol, NULL);
    cell_int(row, COL_perf_map_symbol_perf_map_id, isolate->map);
    cell_int(row, COL_perf_map_symbol_start, (int64_t)code->start);
    cell_int(row, COL_perf_map_symbol_size, (int64_t)(code->end - code->start));
    cell_bytes(row, COL_perf_map_symbol_name, code->made.name.text, code->made.name.size);
    cell_int(row, COL_perf_map_symbol_first_ts, code->since);
    if (gone_ts)
        cell_int(row, COL_perf_map_symbol_last_ts, *gone_ts);
    cell_int(row, COL_perf_map_symbol_jit_code_id, code->row);
    isolate->n_symbols++;
}

static void live_write(struct import *im, struct v8 *v8, const struct live_code *code,
                       const int64_t *gone_ts)
{
    const struct new_code *made = &code->made;
    struct cell *row = database_row_with_id(im->db, TABLE_jit_code, code->row);
    cell_int(row, COL_jit_code_create_ts, made->ts);
    if (gone_ts)
        cell_int(row, COL_jit_code_estimated_delete_ts, *gone_ts);
    cell_int(row, COL_jit_code_utid, made->utid);
    cell_int(row, COL_jit_code_start_address, (int64_t)made->start);
    cell_int(row, COL_jit_code_size, (int64_t)made->size);
    cell_bytes(row, COL_jit_code_function_name, made->name.text, made->name.size);
    v8_cell_base64(im, row, COL_jit_code_native_code_base64, &made->bytes);
    symbol_write(im, v8, code, gone_ts);
}

// Adds `code` to the space. Removes and writes all code that `code` overlaps.
static void live_keep(struct import *im, struct v8 *v8, int64_t space, struct live_code *code)
{
    void **tree = &v8->spaces.items[space].live;
    struct live_code *const *found;
    while ((found = tfind(code, tree, live_compare))) {
        struct live_code *gone = *found;
        tdelete(gone, tree, live_compare);
        live_write(im, v8, gone, &code->since);
        free(gone);
    }
    if (tsearch(code, tree, live_compare))
        return;
    free(code);
    import_fail(im, -ENOMEM);
}

int64_t code_space_find(const struct v8 *v8, int64_t isolate, uint64_t start, uint64_t size)
{
    const struct isolate *of = &v8->isolates.items[isolate];
    for (uint32_t i = 0; i < of->n_spaces; i++) {
        const struct code_space *space = &v8->spaces.items[of->spaces[i]];
        if (start >= space->start && start < space->end && size <= space->end - start)
            return of->spaces[i];
    }
    return V8_NONE;
}

int64_t code_put(struct import *im, struct v8 *v8, int64_t isolate, int64_t space,
                 const struct new_code *code)
{
    struct live_code *live = memory_malloc(sizeof(*live));
    if (!live) {
        import_fail(im, -ENOMEM);
        return V8_NONE;
    }
    *live = (struct live_code){
        .start = code->start,
        .end = code->start + code->size,
        .since = code->ts,
        .row = database_reserve_id(im->db, TABLE_jit_code),
        .isolate = isolate,
        .made = *code,
    };
    // A short packet can refer to a long name.
    if (live->made.name.size > NAME_MAX_BYTES)
        live->made.name.size = NAME_MAX_BYTES;
    int64_t row = live->row;
    live_keep(im, v8, space, live);
    return row;
}

void code_move(struct import *im, struct v8 *v8, int64_t space, int64_t ts, uint64_t from,
               uint64_t to)
{
    void **tree = &v8->spaces.items[space].live;
    struct live_code key = {.start = from, .end = from + 1};
    struct live_code *const *found = tfind(&key, tree, live_compare);
    if (!found)
        return;
    struct live_code *code = *found;
    uint64_t size = code->end - code->start;
    tdelete(code, tree, live_compare);
    if (to > UINT64_MAX - size) { // the code would end beyond the address space
        live_write(im, v8, code, &ts);
        free(code);
        return;
    }
    symbol_write(im, v8, code, &ts);
    code->start = to;
    code->end = to + size;
    code->since = ts;
    live_keep(im, v8, space, code);
}

void codes_finish(struct import *im, struct v8 *v8)
{
    static const struct live_code anywhere = {.end = UINT64_MAX};
    vec_foreach(&v8->spaces, space) {
        struct live_code *const *found;
        while ((found = tfind(&anywhere, &space->live, live_compare))) {
            struct live_code *code = *found;
            tdelete(code, &space->live, live_compare);
            live_write(im, v8, code, NULL);
            free(code);
        }
    }
    vec_foreach(&v8->isolates, isolate) {
        if (isolate->id == V8_NONE)
            continue;
        struct cell *row = database_row_with_id(im->db, TABLE_perf_map, isolate->map);
        cell_text(row, COL_perf_map_path, "[v8 code]");
        cell_int(row, COL_perf_map_pid, processes_at(&im->processes, isolate->upid)->pid);
        cell_int(row, COL_perf_map_upid, isolate->upid);
        cell_int(row, COL_perf_map_n_symbols, isolate->n_symbols);
        cell_int(row, COL_perf_map_n_bad_lines, 0);
    }
}

static void live_free(void *code)
{
    free(code);
}

void v8_done(void *state)
{
    struct v8 *v8 = state;
    vec_foreach(&v8->spaces, space)
        tdestroy(space->live, live_free);
    code_space_vec_done(&v8->spaces);
    isolate_vec_done(&v8->isolates);
    map64_done(&v8->isolate_of);
    map64_done(&v8->shared_by);
    for (size_t i = 0; i < ELEMENTS(v8->rows_of); i++)
        v8_row_vec_done(&v8->rows_of[i]);
    v8_function_vec_done(&v8->functions);
    strset_done(&v8->js_scripts);
    strset_done(&v8->js_functions);
    strset_done(&v8->wasm_scripts);
}
