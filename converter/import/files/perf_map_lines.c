// SPDX-License-Identifier: Apache-2.0
//
// perf maps: a line START SIZE NAME for each piece of generated code. The numbers are hexadecimal;
// the name is the rest of the line. Lines are unordered and may overlap, and a later line replaces
// an earlier line at the same address. All lines are kept, in file order.
//
// perf-PID.map.times in the same folder has the times at which code was created and freed, if the
// runtime's agent (producer/agents/jvm) wrote the map.
//
// The pid is in the file's name. If the trace has several processes with the pid, the map belongs
// to the last process, because a runtime overwrites the map at its start.
#include "converter/import/files/perf_map_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "converter/import/files/proc_snapshot.h"
#include "converter/input/input.h"
#include "converter/tables/rows.h"

#define TIMES_BYTES_MAX ((uint64_t)1 << 32)

#define LINES_LOOKED_AT 8
#define ASK_LINES       2048

DEFINE_CLEANUP(input_freep, struct input, input_free);

const char *perf_map_symbol_read(struct span line, struct perf_map_symbol *ret)
{
    struct perf_map_symbol symbol;
    if (text_size(line) > LINE_MAX_BYTES)
        return "the line is longer than 1 MiB";
    struct span start = word_take(&line), size = word_take(&line);
    if (!text_hex(start, &symbol.start))
        return "no address at the start";
    if (!text_hex(size, &symbol.size))
        return "no size after the address";
    if (symbol.size > UINT64_MAX - symbol.start)
        return "the code ends beyond the last address";
    if (line.at == line.end)
        return "no name";
    if (text_is_binary(line))
        return "binary data in the name";
    if (text_size(line) > PERF_MAP_NAME_MAX)
        line.end = line.at + PERF_MAP_NAME_MAX;
    symbol.name = line;
    *ret = symbol;
    return NULL;
}

const char *perf_map_time_read(struct span line, struct perf_map_time *ret)
{
    uint64_t ts;
    struct perf_map_time time = {0};
    if (text_size(line) > LINE_MAX_BYTES)
        return "the line is longer than 1 MiB";
    struct span when = word_take(&line), start = word_take(&line), size = word_take(&line);
    if (!text_decimal(when, &ts) || ts > INT64_MAX)
        return "no time at the start";
    if (!text_hex(start, &time.start))
        return "no address after the time";
    time.ts = (int64_t)ts;
    time.has_size = size.at < size.end;
    if (time.has_size && !text_hex(size, &time.size))
        return "no size after the address";
    if (line.at < line.end)
        return "something after the size";
    *ret = time;
    return NULL;
}

// Reads the pid from the path perf-PID.map, in any folder or archive.
static bool pid_of_path(const char *path, int64_t *ret)
{
    unsigned pid;
    int n = 0;
    const char *name = proc_file_name(path);
    if (sscanf(name, "perf-%9u.map%n", &pid, &n) != 1 || !n || name[n])
        return false;
    *ret = pid;
    return true;
}

static bool perf_map_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    struct lines lines = lines_over(bytes, size);
    struct span line;
    size_t n = 0, n_good = 0;
    if (str_ends_with(path, ".map.times")) // the agent's file of times beside a map
        return false;
    while (n < LINES_LOOKED_AT && lines_next_full(&lines, &line)) {
        struct perf_map_symbol symbol;
        n++;
        n_good += perf_map_symbol_read(line, &symbol) == NULL;
    }
    return n_good && n_good * 2 > n;
}

static const char *symbol_take(struct rows *rows, int64_t map, struct span line)
{
    struct perf_map_symbol symbol;
    const char *wrong = perf_map_symbol_read(line, &symbol);
    if (wrong)
        return wrong;
    rows_int(rows, COL_perf_map_symbol_perf_map_id, map);
    rows_int(rows, COL_perf_map_symbol_start, (int64_t)symbol.start);
    rows_int(rows, COL_perf_map_symbol_size, (int64_t)symbol.size);
    rows_text(rows, COL_perf_map_symbol_name, symbol.name.at, text_size(symbol.name));
    return NULL;
}

static const char *time_take(struct rows *rows, int64_t map, struct span line)
{
    struct perf_map_time time;
    const char *wrong = perf_map_time_read(line, &time);
    if (wrong)
        return wrong;
    rows_int(rows, COL_perf_map_code_perf_map_id, map);
    if (time.ts)
        rows_int(rows, COL_perf_map_code_ts, time.ts);
    rows_int(rows, COL_perf_map_code_start, (int64_t)time.start);
    if (time.has_size)
        rows_int(rows, COL_perf_map_code_size, (int64_t)time.size);
    return NULL;
}

// Adds a row of `table` for each line that `take` accepts. *ret_n: the number of rows. `which`
// precedes the error text of a line.
static inline __attribute__((always_inline)) int
map_lines_import(struct file_import *in, enum table_id table, int64_t map, struct lines lines,
                 const char *which,
                 const char *(*take)(struct rows *rows, int64_t map, struct span line),
                 int64_t *ret_n, struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open_bulk(&rows, in->handle, in->bulk, table, err);
    struct span line;
    while (r == 0 && lines_next_full(&lines, &line)) {
        const char *wrong = take(&rows, map, line);
        if (lines.number % ASK_LINES == 0 && !file_goes_on(in))
            return -ECANCELED;
        if (wrong) {
            file_bad(in, lines.number, "%s%s", which, wrong);
            continue;
        }
        rows_put(&rows);
        ++*ret_n;
        r = rows_error(&rows, err);
    }
    return r;
}

// Imports perf-PID.map.times, if it exists.
static int times_import(struct file_import *in, int64_t map, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path = {0};
    CLEANUP(input_freep) struct input *input = NULL;
    strbuf_addf(&path, "%s.times", in->path);
    if (path.failed || access(path.text, R_OK) < 0)
        return 0;
    CLEANUP(close_fdp) int fd = open_regular(path.text, TIMES_BYTES_MAX);
    if (fd < 0) // for example, the path is a FIFO
        return err_errno(err, fd, "%s", path.text);
    const struct input_needs needs = {.goes_on = in->goes_on, .userdata = in->userdata};
    int64_t n = 0;
    int r = input_open(path.text, &needs, err, &input);
    if (r < 0)
        return r;
    return map_lines_import(in, TABLE_perf_map_code, map,
                            lines_over(input_bytes(input), input_size(input)),
                            "(of the file with times) ", time_take, &n, err);
}

static int perf_map_import(struct file_import *in, const uint8_t *bytes, size_t size,
                           struct err *err)
{
    int64_t pid = 0, n = 0;
    bool has_pid = pid_of_path(in->path, &pid);
    CLEANUP(rows_close) struct rows rows = {0};
    int r = rows_open_bulk(&rows, in->handle, in->bulk, TABLE_perf_map, err);
    if (r == 0)
        r = map_lines_import(in, TABLE_perf_map_symbol, rows.next_id, lines_over(bytes, size), "",
                             symbol_take, &n, err);
    if (r == 0 && !n && in->n_bad)
        return err_set(err, -EBADMSG, "%s: not a perf map: line %" PRIu64 ": %s", in->path,
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
