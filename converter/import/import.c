// SPDX-License-Identifier: Apache-2.0
//
// See import.h. Functions for importers of all subjects: texts, tracks of threads, flows.
#include "converter/import/import.h"

#include <stdarg.h>
#include <stdio.h>

struct slice_name import_text(struct import *im, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    return import_text_keep(im, text, size);
}

struct slice_name import_text_keep(struct import *im, const char *text, size_t size)
{
    const char *kept = strset_text(&im->strings, strset_add(&im->strings, text, size));
    return (struct slice_name){.text = kept ? kept : "", .size = kept ? size : 0};
}

int64_t import_set_add(struct import *im, struct strset *set, const void *key, size_t size,
                       bool *ret_new)
{
    size_t n = set->n;
    uint32_t id = strset_add(set, key, size);
    *ret_new = set->n > n;
    import_fail(im, id == STRSET_NONE ? -ENOMEM : 0);
    return id == STRSET_NONE ? -1 : (int64_t)id;
}

bool import_strbuf_whole(struct import *im, const struct strbuf *text)
{
    import_fail(im, text->failed ? -ENOMEM : 0);
    return !text->failed;
}

uint32_t import_strbuf_keep(struct import *im, const struct strbuf *text)
{
    if (!import_strbuf_whole(im, text))
        return STRSET_NONE;
    return strset_add(&im->strings, text->text ? text->text : "", text->size);
}

uint32_t thread_track_get(struct import *im, int64_t utid)
{
    struct track_spec spec = {.type = "thread_execution",
                              .dimensions = {dimension_int("utid", utid)}};
    return tracks_get(&im->tracks, &spec);
}

void flow_row_write(struct import *im, int64_t from, int64_t to)
{
    if (from == SLICE_NONE || to == SLICE_NONE)
        return;
    struct cell *row = database_row(im->db, TABLE_flow, NULL);
    cell_int(row, COL_flow_slice_out, from);
    cell_int(row, COL_flow_slice_in, to);
}

void import_log(struct import *im, enum stat stat, const int64_t *ts, const struct arg *args,
                size_t n)
{
    stats_add(&im->stats, stat, 1);
    struct cell *row = database_row(im->db, TABLE_trace_import_logs, NULL);
    cell_int(row, COL_trace_import_logs_trace_id, 0);
    if (ts)
        cell_int(row, COL_trace_import_logs_ts, *ts);
    cell_int(row, COL_trace_import_logs_stat_key, stat);
    cell_arg_set(row, COL_trace_import_logs_arg_set_id, args_add(&im->args, args, n));
}
