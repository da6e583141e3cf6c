// SPDX-License-Identifier: Apache-2.0
//
// perf maps: a line START SIZE NAME for each piece of code that a runtime made, in hexadecimal. The
// name is the rest of the line. Lines come in no order, overlap, and later ones replace earlier
// ones at the same address; all of them are kept, in the order of the file.
//
// perf-PID.map.times beside a file says when code was made and given up, where a runtime tells.
//
// The pid is in the file's name. Where the trace has several processes with it, the map is the last
// one's: a runtime that starts writes its map anew.
#include "converter/import/files/perf_map_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "converter/import/files/file_format.h"
#include "converter/input/input.h"
#include "converter/tables/rows.h"

#define TIMES_BYTES_MAX ((uint64_t)1 << 32)

#define LINES_LOOKED_AT 8
#define ASK_LINES       2048

DEFINE_CLEANUP(input_freep, struct input, input_free);

const char *perf_map_symbol_read(struct span line, struct perf_map_symbol *ret)
{
    if (text_size(line) > LINE_MAX_BYTES)
        return "the line is longer than 1 MiB";
    struct span start = word_take(&line), size = word_take(&line);
    if (!text_hex(start, &ret->start))
        return "no address at the start";
    if (!text_hex(size, &ret->size))
        return "no size behind the address";
    if (ret->size > UINT64_MAX - ret->start)
        return "the code ends behind the last address";
    if (line.at == line.end)
        return "no name";
    if (text_is_binary(line))
        return "binary data in the name";
    ret->name = line;
    return NULL;
}

const char *perf_map_time_read(struct span line, struct perf_map_time *ret)
{
    uint64_t ts;
    if (text_size(line) > LINE_MAX_BYTES)
        return "the line is longer than 1 MiB";
    struct span when = word_take(&line), start = word_take(&line), size = word_take(&line);
    if (!text_decimal(when, &ts) || ts > INT64_MAX)
        return "no time at the start";
    if (!text_hex(start, &ret->start))
        return "no address behind the time";
    ret->ts = (int64_t)ts;
    ret->size = 0;
    ret->has_size = size.at < size.end;
    if (ret->has_size && !text_hex(size, &ret->size))
        return "no size behind the address";
    return line.at < line.end ? "something behind the size" : NULL;
}

// perf-PID.map, in whatever folder or archive.
static bool pid_of_path(const char *path, int64_t *ret)
{
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/' || *at == '!')
            name = at + 1;
    unsigned pid;
    int n = 0;
    if (sscanf(name, "perf-%9u.map%n", &pid, &n) != 1 || !n)
        return false;
    *ret = pid;
    return true;
}

static bool perf_map_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    (void)path;
    struct lines lines = lines_over(bytes, size);
    struct span line;
    size_t n = 0, n_good = 0;
    while (n < LINES_LOOKED_AT && lines_next(&lines, &line)) {
        struct perf_map_symbol symbol;
        if (line.at == line.end)
            continue;
        n++;
        n_good += perf_map_symbol_read(line, &symbol) == NULL;
    }
    return n_good && n_good * 2 > n;
}

static int symbols_import(struct file_import *in, int64_t map, const uint8_t *bytes, size_t size,
                          int64_t *ret_n, struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open_bulk(&rows, in->handle, in->bulk, TABLE_perf_map_symbol, err);
    struct lines lines = lines_over(bytes, size);
    struct span line;
    while (r == 0 && lines_next(&lines, &line)) {
        struct perf_map_symbol symbol;
        if (line.at == line.end)
            continue;
        const char *wrong = perf_map_symbol_read(line, &symbol);
        if (lines.number % ASK_LINES == 0 && !file_goes_on(in))
            return -ECANCELED;
        if (wrong) {
            file_bad(in, lines.number, "%s", wrong);
            continue;
        }
        size_t n = text_size(symbol.name);
        rows_int(&rows, COL_perf_map_symbol_perf_map_id, map);
        rows_int(&rows, COL_perf_map_symbol_start, (int64_t)symbol.start);
        rows_int(&rows, COL_perf_map_symbol_size, (int64_t)symbol.size);
        rows_text(&rows, COL_perf_map_symbol_name, symbol.name.at,
                  n < PERF_MAP_NAME_MAX ? n : PERF_MAP_NAME_MAX);
        rows_put(&rows);
        ++*ret_n;
        r = rows_error(&rows, err);
    }
    return r;
}

static int time_lines_import(struct file_import *in, int64_t map, const struct input *input,
                             struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open_bulk(&rows, in->handle, in->bulk, TABLE_perf_map_code, err);
    struct lines lines = lines_over(input_bytes(input), input_size(input));
    struct span line;
    while (r == 0 && lines_next(&lines, &line)) {
        struct perf_map_time time;
        if (line.at == line.end)
            continue;
        const char *wrong = perf_map_time_read(line, &time);
        if (lines.number % ASK_LINES == 0 && !file_goes_on(in))
            return -ECANCELED;
        if (wrong) {
            file_bad(in, lines.number, "(of the file with times) %s", wrong);
            continue;
        }
        rows_int(&rows, COL_perf_map_code_perf_map_id, map);
        if (time.ts)
            rows_int(&rows, COL_perf_map_code_ts, time.ts);
        rows_int(&rows, COL_perf_map_code_start, (int64_t)time.start);
        if (time.has_size)
            rows_int(&rows, COL_perf_map_code_size, (int64_t)time.size);
        rows_put(&rows);
        r = rows_error(&rows, err);
    }
    return r;
}

// What is in the file beside the map, if there is one.
static int times_import(struct file_import *in, int64_t map, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path = {0};
    CLEANUP(input_freep) struct input *input = NULL;
    strbuf_addf(&path, "%s.times", in->path);
    if (path.failed || access(path.text, R_OK) < 0)
        return 0;
    CLEANUP(close_fdp) int fd = open_regular(path.text, TIMES_BYTES_MAX);
    if (fd < 0) // a FIFO, say
        return err_errno(err, fd, "%s", path.text);
    const struct input_needs needs = {.goes_on = in->goes_on, .userdata = in->userdata};
    int r = input_open(path.text, &needs, err, &input);
    return r < 0 ? r : time_lines_import(in, map, input, err);
}

static int perf_map_import(struct file_import *in, const uint8_t *bytes, size_t size,
                           struct err *err)
{
    int64_t pid = 0, n = 0;
    bool has_pid = pid_of_path(in->path, &pid);
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open_bulk(&rows, in->handle, in->bulk, TABLE_perf_map, err);
    if (r == 0)
        r = symbols_import(in, rows.next_id, bytes, size, &n, err);
    if (r == 0 && !n && in->n_bad)
        return err_set(err, -EBADMSG, "%s: no perf map: line %" PRIu64 ": %s", in->path,
                       in->first_bad, in->first_why);
    if (r == 0 && !has_pid) {
        err_set(err, -EINVAL, "%s: no process id in the perf map's name", in->path);
        return err_hint(err, -EINVAL, "it must be called perf-PID.map");
    }
    if (r == 0)
        r = times_import(in, rows.next_id, err);
    if (r < 0)
        return r;
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT max(upid) FROM process WHERE pid = %" PRId64, pid);
    int64_t upid = sql_number_or_failure(in->handle, sql, -1, &r);
    if (r < 0)
        return err_errno(err, r, "%s", in->path);
    rows_text(&rows, COL_perf_map_path, in->path, strlen(in->path));
    rows_int(&rows, COL_perf_map_pid, pid);
    if (upid >= 0)
        rows_int(&rows, COL_perf_map_upid, upid);
    rows_int(&rows, COL_perf_map_n_symbols, n);
    rows_int(&rows, COL_perf_map_n_bad_lines, (int64_t)in->n_bad);
    rows_put(&rows);
    return rows_error(&rows, err);
}

const struct file_format file_format_perf_map = {
    .name = "perf map",
    .option = "perf-map",
    .recognise = perf_map_recognise,
    .import = perf_map_import,
    .tables = {TABLE_perf_map, TABLE_perf_map_code, TABLE_perf_map_symbol},
    .n_tables = 3,
};
