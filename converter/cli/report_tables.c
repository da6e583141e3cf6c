// SPDX-License-Identifier: Apache-2.0
//
// The tables are datasets of the report whose columns are made for people (sql/text.sql).
#include "converter/cli/report_tables.h"

#include <errno.h>
#include <sqlite3.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/result.h"
#include "converter/cli/verdict_print.h"
#include "converter/report/report_data.h"
#include "converter/report/report_files.h"
#include "converter/tables/statement.h"
#include "converter/verdict/verdict.h"

#define BINS 800 // as many as the page has bins

static void title_print(const char *name, FILE *out)
{
    fputc('\n', out);
    for (; *name; name++)
        fputc(*name == '_' ? ' ' : *name, out);
    fputc('\n', out);
}

static int table_print(const struct report_trace *trace, const struct report_dataset *set,
                       FILE *out, struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *rows = NULL;
    const struct result_form form = {.format = FORMAT_TABLE, .out = out};
    int r = report_query(trace, set, &rows, err);
    if (r < 0)
        return r;
    int code = sqlite3_step(rows);
    if (code == SQLITE_ROW) {
        sqlite3_reset(rows);
        title_print(set->name + strlen(REPORT_TEXT_PREFIX), out);
        code = result_print(rows, &form);
    }
    return code == SQLITE_DONE ? 0
                               : err_set(err, code == SQLITE_NOMEM ? -ENOMEM : -EIO, "report: %s",
                                         sqlite3_errmsg(trace->handle));
}

static int trace_print(struct sqlite3 *handle, int64_t trace_id, FILE *out, struct err *err)
{
    struct report_trace trace;
    int r = report_trace_open(&trace, handle, trace_id, BINS, err);
    if (r == 0)
        r = report_setup(&trace, err);
    for (const struct report_dataset *set = report_datasets; r == 0 && set->name; set++)
        if (str_starts_with(set->name, REPORT_TEXT_PREFIX))
            r = table_print(&trace, set, out, err);
    return r;
}

int report_text_print(const struct report_input *inputs, size_t n, FILE *out, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        CLEANUP(verdicts_done) struct verdict_vec verdicts = {0};
        r = verdict_make(inputs[i].handle, 0, &verdicts, err);
        if (r == 0 && !verdicts.n)
            r = err_set(err, -ENOENT, "there is no trace in it");
        if (r < 0)
            return err_prefix(err, r, "%s", inputs[i].name);
        for (size_t k = 0; r == 0 && k < verdicts.n; k++) {
            // One trace with its verdict: a copy that borrows, so that nothing is released twice.
            struct verdict_vec one = {.items = &verdicts.items[k], .n = 1};
            char path[4096];
            fprintf(out, "%s%s\n", i || k ? "\n" : "",
                    str_printable(path, sizeof(path), verdicts.items[k].path,
                                  strlen(verdicts.items[k].path)));
            verdicts_print(out, &one, "  ", 0);
            r = trace_print(inputs[i].handle, verdicts.items[k].trace_id, out, err);
        }
    }
    return r;
}
