// SPDX-License-Identifier: Apache-2.0
//
// A dataset is an object of columns: {"name": [...], "value": [...]}. A dataset whose first column
// is `series` is a list of such objects, one for each run of rows of one series, with the name of
// the series as text: the page has the name once, and charts use the arrays directly.
#include "converter/report/report_data.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/report/json_text.h"
#include "converter/report/report_files.h"
#include "converter/tables/statement.h"
#include "converter/verdict/subject.h"

#define COLUMNS_MAX 16
#define USUAL_PAGE  4096

struct columns {
    sqlite3_stmt *row;      // borrowed
    int first, n;           // columns with values
    bool has_series, grown; // rows were added
    char *series;           // owned; series of the rows that were added
    struct strbuf cells[COLUMNS_MAX];
    struct strbuf json;
};

static void columns_done(struct columns *columns)
{
    for (int i = 0; i < COLUMNS_MAX; i++)
        strbuf_done(&columns->cells[i]);
    strbuf_done(&columns->json);
    free(columns->series);
}

static int read_failed(struct sqlite3 *handle, const char *name, struct err *err)
{
    int r = sqlite3_errcode(handle) == SQLITE_NOMEM ? -ENOMEM : -EIO;
    err_set(err, r, "report: %s: %s", name, sqlite3_errmsg(handle));
    return err_hint(err, r,
                    "another version of mmsql may have made the database: convert its traces anew");
}

// Reads one number with ?1 bound to the trace.
static int number_read(struct sqlite3 *handle, const char *sql, int64_t trace_id, int64_t *ret,
                       struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(handle, sql, -1, &row, NULL) != SQLITE_OK)
        return read_failed(handle, "trace", err);
    sqlite3_bind_int64(row, 1, trace_id);
    int code = sqlite3_step(row);
    if (code == SQLITE_ROW && sqlite3_column_type(row, 0) != SQLITE_NULL)
        *ret = sqlite3_column_int64(row, 0);
    return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : read_failed(handle, "trace", err);
}

int report_trace_open(struct report_trace *ret, struct sqlite3 *handle, int64_t trace_id,
                      int64_t n_bins, struct err *err)
{
    struct report_trace trace = {
        .handle = handle, .trace_id = trace_id, .page_bytes = USUAL_PAGE, .machine_id = -1};
    int r = number_read(handle, "SELECT recorded_ts FROM trace WHERE id = ?1", trace_id,
                        &trace.start, err);
    if (r == 0)
        r = number_read(handle, "SELECT recorded_end_ts FROM trace WHERE id = ?1", trace_id,
                        &trace.end, err);
    if (r == 0)
        r = number_read(handle, "SELECT min(machine_id) FROM trace_machine WHERE trace_id = ?1",
                        trace_id, &trace.machine_id, err);
    if (r == 0)
        r = number_read(handle,
                        "SELECT int_value FROM metadata WHERE name = 'mmsql_page_size_bytes' "
                        "AND machine_id IN (SELECT min(machine_id) FROM trace_machine WHERE "
                        "trace_id = ?1) AND int_value BETWEEN 1024 AND 1048576",
                        trace_id, &trace.page_bytes, err);
    if (r < 0)
        return r;
    trace.start = time_bounded(trace.start);
    trace.end = time_bounded(trace.end);
    if (trace.end < trace.start)
        trace.end = trace.start;
    trace.bin = (trace.end - trace.start) / n_bins;
    if (trace.bin < 1)
        trace.bin = 1;
    *ret = trace;
    return 0;
}

static void parameters_bind(const struct report_trace *trace, sqlite3_stmt *row)
{
    const struct {
        const char *name;
        int64_t value;
    } parameters[] = {{":trace", trace->trace_id}, {":machine", trace->machine_id},
                      {":start", trace->start},    {":end", trace->end},
                      {":bin", trace->bin},        {":page", trace->page_bytes}};
    for (size_t i = 0; i < ELEMENTS(parameters); i++) {
        int at = sqlite3_bind_parameter_index(row, parameters[i].name);
        if (at > 0)
            sqlite3_bind_int64(row, at, parameters[i].value);
    }
}

static void cell_add(sqlite3_stmt *row, int column, struct strbuf *json)
{
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        strbuf_addf(json, "%" PRId64, (int64_t)sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT:
        json_add_double(json, sqlite3_column_double(row, column));
        break;
    case SQLITE_NULL:
        strbuf_add_str(json, "null");
        break;
    default:
        json_add_text(json, column_text(row, column));
    }
}

// Adds the gathered rows as an object, and begins a new object.
static void columns_close(struct columns *columns)
{
    const char *comma = "";
    strbuf_add_char(&columns->json, '{');
    if (columns->has_series) {
        strbuf_add_str(&columns->json, "\"series\":");
        json_add_text(&columns->json, columns->series);
        comma = ",";
    }
    for (int i = columns->first; i < columns->n; i++) {
        strbuf_add_str(&columns->json, comma);
        json_add_text(&columns->json, sqlite3_column_name(columns->row, i));
        strbuf_add_str(&columns->json, ":[");
        strbuf_add(&columns->json, columns->cells[i].text, columns->cells[i].size);
        strbuf_add_char(&columns->json, ']');
        strbuf_clear(&columns->cells[i]);
        comma = ",";
    }
    strbuf_add_char(&columns->json, '}');
    columns->grown = false;
}

static void row_add(struct columns *columns)
{
    if (columns->has_series) {
        const char *series = column_text(columns->row, 0);
        bool is_new = !columns->series || !str_eq(columns->series, series);
        if (is_new && columns->grown) {
            columns_close(columns);
            strbuf_add_char(&columns->json, ',');
        }
        if (is_new) {
            free(columns->series);
            columns->series = strdup(series);
            columns->json.failed |= !columns->series;
        }
    }
    for (int i = columns->first; i < columns->n; i++) {
        if (columns->grown)
            strbuf_add_char(&columns->cells[i], ',');
        cell_add(columns->row, i, &columns->cells[i]);
        columns->json.failed |= columns->cells[i].failed;
    }
    columns->grown = true;
}

int report_query(const struct report_trace *trace, const struct report_dataset *dataset,
                 sqlite3_stmt **ret, struct err *err)
{
    if (sqlite3_prepare_v2(trace->handle, dataset->sql, -1, ret, NULL) != SQLITE_OK)
        return read_failed(trace->handle, dataset->name, err);
    parameters_bind(trace, *ret);
    return 0;
}

int report_setup(const struct report_trace *trace, struct err *err)
{
    int r = 0;
    for (const struct report_dataset *set = report_datasets; r == 0 && set->name; set++)
        if (str_eq(set->name, "setup"))
            r = sql_run(trace->handle, set->sql, "report", err);
    return r;
}

static int dataset_write(const struct report_trace *trace, const struct report_dataset *dataset,
                         FILE *out, struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    CLEANUP(columns_done) struct columns columns = {0};
    int code = SQLITE_DONE, r = report_query(trace, dataset, &row, err);
    if (r < 0)
        return r;
    columns.row = row;
    columns.n = sqlite3_column_count(row);
    columns.n = columns.n < COLUMNS_MAX ? columns.n : COLUMNS_MAX;
    columns.has_series = columns.n > 0 && str_eq(sqlite3_column_name(row, 0), "series");
    columns.first = columns.has_series;
    while (!columns.json.failed && (code = sqlite3_step(row)) == SQLITE_ROW)
        row_add(&columns);
    if (code != SQLITE_DONE && !columns.json.failed)
        return read_failed(trace->handle, dataset->name, err);
    if (columns.grown || !columns.has_series)
        columns_close(&columns);
    if (columns.json.failed)
        return err_errno(err, -ENOMEM, "report");
    fprintf(out, columns.has_series ? "\"%s\":[%s]" : "\"%s\":%s", dataset->name,
            columns.json.text ? columns.json.text : "");
    return 0;
}

int report_data_write(const struct report_trace *trace, FILE *out, struct err *err)
{
    const char *comma = "";
    int r = report_setup(trace, err);
    fputc('{', out);
    for (const struct report_dataset *set = report_datasets; r == 0 && set->name; set++) {
        if (str_eq(set->name, "setup") || str_starts_with(set->name, REPORT_TEXT_PREFIX) ||
            str_starts_with(set->name, REPORT_COMPARE_PREFIX))
            continue;
        fputs(comma, out);
        r = dataset_write(trace, set, out, err);
        comma = ",\n";
    }
    fputc('}', out);
    return r;
}
