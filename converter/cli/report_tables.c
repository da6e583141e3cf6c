// SPDX-License-Identifier: Apache-2.0
//
// The tables are datasets of the report whose columns are made for people (sql/text.sql).
#include "converter/cli/report_tables.h"

#include <errno.h>
#include <sqlite3.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/cli/result.h"
#include "converter/cli/verdict_print.h"
#include "converter/functions/functions.h"
#include "converter/report/report_data.h"
#include "converter/report/report_files.h"
#include "converter/report/report_verdicts.h"
#include "converter/tables/statement.h"

#define BINS          800 // as many as the page has bins
#define FIGURES_TITLE "Key_figures"

// Returns the dataset of a name that sql/ has.
static const struct report_dataset *dataset_of(const char *name)
{
    const struct report_dataset *set = report_datasets;
    while (!str_eq(set->name, name))
        set++;
    return set;
}

static int failed(struct sqlite3 *handle, int code, struct err *err)
{
    return err_set(err, code == SQLITE_NOMEM ? -ENOMEM : -EIO, "report: %s",
                   sqlite3_errmsg(handle));
}

// Prints the title of a table: the name of its dataset, after "A " or "B " if traces are compared.
static void title_print(const char *mark, const char *name, FILE *out)
{
    fprintf(out, "\n%s", mark);
    for (; *name; name++)
        fputc(*name == '_' ? ' ' : *name, out);
    fputc('\n', out);
}

static int table_print(const struct report_trace *trace, const struct report_dataset *set,
                       const char *mark, FILE *out, struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *rows = NULL;
    const struct result_form form = {.format = FORMAT_TABLE, .out = out};
    int r = report_query(trace, set, &rows, err);
    if (r < 0)
        return r;
    int code = sqlite3_step(rows);
    if (code == SQLITE_ROW) {
        sqlite3_reset(rows);
        title_print(mark, strchr(set->name, '_') + 1, out);
        code = result_print(rows, &form);
    }
    return code == SQLITE_DONE ? 0 : failed(trace->handle, code, err);
}

static int tables_print(const struct report_trace *trace, const char *mark, FILE *out,
                        struct err *err)
{
    int r = 0;
    for (const struct report_dataset *set = report_datasets; r == 0 && set->name; set++)
        if (str_starts_with(set->name, REPORT_TEXT_PREFIX) &&
            !(*mark && str_eq(set->name, REPORT_TEXT_PREFIX FIGURES_TITLE)))
            r = table_print(trace, set, mark, out, err);
    return r;
}

static int trace_open(struct report_trace *ret, struct sqlite3 *handle, int64_t trace_id,
                      struct err *err)
{
    int r = report_trace_open(ret, handle, trace_id, BINS, err);
    if (r == 0 && functions_register(handle) != SQLITE_OK) // text.sql calls demangle()
        return failed(handle, sqlite3_errcode(handle), err);
    return r == 0 ? report_setup(ret, err) : r;
}

static void verdict_print(const struct verdict *verdict, const char *mark, FILE *out)
{
    // One trace with its verdict: a copy that borrows, so that nothing is released twice.
    struct verdict_vec one = {.items = (struct verdict *)(uintptr_t)verdict, .n = 1};
    char path[4096];
    fprintf(out, "%s%s\n", mark,
            str_printable(path, sizeof(path), verdict->path, strlen(verdict->path)));
    verdicts_print(out, &one, "  ", 0);
}

int report_text_print(const struct report_input *inputs, size_t n, FILE *out, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        CLEANUP(verdicts_done) struct verdict_vec verdicts = {0};
        r = report_verdicts_make(inputs[i].handle, inputs[i].name, true, &verdicts, err);
        for (size_t k = 0; r == 0 && k < verdicts.n; k++) {
            struct report_trace trace;
            fputs(i || k ? "\n" : "", out);
            verdict_print(&verdicts.items[k], "", out);
            r = trace_open(&trace, inputs[i].handle, verdicts.items[k].trace_id, err);
            if (r == 0)
                r = tables_print(&trace, "", out, err);
        }
    }
    return r;
}

// Copies the key figures of a trace to the table that has the figures of both traces.
static int figures_copy(const struct report_trace *trace, int which, struct sqlite3 *to,
                        struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *rows = NULL;
    CLEANUP(statement_finalizep) sqlite3_stmt *insert = NULL;
    int r = report_query(trace, dataset_of("figures"), &rows, err), code;
    if (r < 0)
        return r;
    code = sqlite3_prepare_v2(to, "INSERT INTO report_compared VALUES (?1, ?2, ?3, ?4)", -1,
                              &insert, NULL);
    if (code != SQLITE_OK)
        return failed(to, code, err);
    while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
        sqlite3_bind_int(insert, 1, which);
        for (int column = 0; column < 3; column++)
            sqlite3_bind_value(insert, column + 2, sqlite3_column_value(rows, column));
        if ((code = sqlite3_step(insert)) != SQLITE_DONE)
            return failed(to, code, err);
        sqlite3_reset(insert);
    }
    return code == SQLITE_DONE ? 0 : failed(trace->handle, code, err);
}

int report_text_compare(const struct report_input *inputs, FILE *out, struct err *err)
{
    static const char *const marks[] = {"A ", "B "};
    struct report_trace traces[ELEMENTS(marks)];
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(marks); i++) {
        CLEANUP(verdicts_done) struct verdict_vec verdicts = {0};
        r = report_verdicts_make(inputs[i].handle, inputs[i].name, false, &verdicts, err);
        if (r < 0)
            return r;
        fputs(i ? "\n" : "", out);
        verdict_print(&verdicts.items[0], marks[i], out);
        r = trace_open(&traces[i], inputs[i].handle, verdicts.items[0].trace_id, err);
        if (r == 0)
            r = figures_copy(&traces[i], (int)i + 1, traces[0].handle, err);
    }
    if (r == 0)
        r = table_print(&traces[0], dataset_of(REPORT_COMPARE_PREFIX FIGURES_TITLE), "", out, err);
    for (size_t i = 0; r == 0 && i < ELEMENTS(marks); i++)
        r = tables_print(&traces[i], marks[i], out, err);
    return r;
}
