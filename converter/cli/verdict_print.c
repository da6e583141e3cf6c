// SPDX-License-Identifier: Apache-2.0
//
// A trace is named by the last parts of its path, as in the table `trace`.
#include "converter/cli/verdict_print.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/terminal.h"
#include "converter/cli/say.h"

static const char *printable(char *to, size_t size, const char *text)
{
    return str_printable(to, size, text, strlen(text));
}

static bool is_left_out(const struct finding *finding, int without)
{
    if (finding->kind == VERDICT_LOSS && finding->severity < VERDICT_INFO)
        return without & VERDICT_WITHOUT_LOSS;
    return finding->kind == VERDICT_QUIET && !finding->has_time && without & VERDICT_WITHOUT_EMPTY;
}

void verdicts_print(FILE *to, const struct verdict_vec *verdicts, const char *indent, int without)
{
    char path[PATH_MAX], margin[16];
    snprintf(margin, sizeof(margin), "%s%s", indent, verdicts->n > 1 ? "  " : "");
    vec_foreach(verdicts, verdict) {
        bool named = verdicts->n < 2;
        vec_foreach(&verdict->findings, finding) {
            if (is_left_out(finding, without))
                continue;
            if (!named)
                fprintf(to, "%s%s:\n", indent, printable(path, sizeof(path), verdict->path));
            named = true;
            terminal_print(to, margin, finding->text, strlen(finding->text));
        }
    }
}

static void trace_health_print(const struct verdict *verdict, const struct health_line_vec *lines,
                               bool damage_told)
{
    int n = 0;
    vec_foreach(lines, line) {
        if (line->trace_id != verdict->trace_id || (damage_told && line->kind == HEALTH_DAMAGE))
            continue;
        if (++n <= HEALTH_LINES_MAX)
            say("%s: %s (%s)", verdict->path, line->what, line->hint);
    }
    if (n > HEALTH_LINES_MAX)
        say("%s: %d more problems (see the table stats)", verdict->path, n - HEALTH_LINES_MAX);
}

void health_print(const struct verdict_vec *verdicts, const struct health_line_vec *lines,
                  bool damage_told)
{
    vec_foreach(verdicts, verdict)
        trace_health_print(verdict, lines, damage_told);
}

static int traces_read(struct sqlite3 *handle, struct verdict_vec *ret)
{
    sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(handle, "SELECT id, path FROM trace ORDER BY id", -1, &row, NULL);
    while (code == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
        const char *path = (const char *)sqlite3_column_text(row, 1);
        struct verdict verdict = {.trace_id = sqlite3_column_int64(row, 0),
                                  .path = strdup(path ? path : "")};
        if (!verdict.path || verdict_vec_push(ret, verdict) < 0) {
            free(verdict.path);
            code = SQLITE_NOMEM;
        }
    }
    sqlite3_finalize(row);
    return code == SQLITE_OK ? 0 : -EIO;
}

void health_read_print(struct sqlite3 *handle, bool damage_told)
{
    CLEANUP(verdicts_done) struct verdict_vec traces = {0};
    CLEANUP(health_lines_done) struct health_line_vec lines = {0};
    int r = traces_read(handle, &traces);
    vec_foreach(&traces, trace)
        if (r == 0)
            r = health_read(handle, trace->trace_id, &lines, NULL);
    health_print(&traces, &lines, damage_told);
}
