// SPDX-License-Identifier: Apache-2.0
//
// Each rule is in a separate file and does not depend on other rules. This file calls the rules for
// each trace, and sorts their findings. A loss comes early, because it limits the trust in the
// other sentences.
//
// A rule may take some milliseconds for a trace of any size: it reads rows through an index, never
// a whole table of events or counters.
#include "converter/verdict/verdict.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "converter/tables/rows.h"
#include "converter/verdict/rules.h"

#define PAGE_BYTES     4096
#define PAGE_BYTES_MIN 1024
#define PAGE_BYTES_MAX (1 << 20)

const char *verdict_kind_name(enum verdict_kind kind)
{
    static const char *const names[] = {
        [VERDICT_KILL] = "kill",   [VERDICT_LOSS] = "loss",     [VERDICT_PRESSURE] = "pressure",
        [VERDICT_STALL] = "stall", [VERDICT_GROWTH] = "growth", [VERDICT_RETURN] = "return",
        [VERDICT_QUIET] = "quiet",
    };
    return names[kind];
}

const char *verdict_severity_name(enum verdict_severity severity)
{
    static const char *const names[] = {"critical", "warning", "notice", "info"};
    return names[severity];
}

static int by_weight(const void *left, const void *right)
{
    const struct finding *a = left, *b = right;
    if (a->severity != b->severity)
        return a->severity < b->severity ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static bool has_kind(const struct finding_vec *found, enum verdict_kind kind)
{
    vec_foreach(found, finding)
        if (finding->kind == kind && finding->severity <= VERDICT_WARNING)
            return true;
    return false;
}

static void rules_apply(struct subject *subject)
{
    struct reclaim reclaim = {0};
    reclaim_read(&reclaim, subject);
    rule_kill(subject);
    rule_loss(subject);
    rule_pressure(subject, &reclaim);
    rule_stall(subject, &reclaim);
    rule_growth(subject, has_kind(subject->found, VERDICT_PRESSURE));
    rule_return(subject);
    rule_quiet(subject, &reclaim);
    reclaim_done(&reclaim);
}

static void findings_done(struct finding_vec *found, size_t from)
{
    for (size_t i = from; i < found->n; i++)
        free(found->items[i].text);
    found->n = from < found->n ? from : found->n;
}

// Reads the page size of the trace's first machine. The database has the page size only if the size
// is not 4 KiB.
static void page_size_read(struct subject *subject)
{
    int64_t bytes;
    if (subject_number(subject,
                       "SELECT int_value FROM metadata WHERE name = 'mmsql_page_size_bytes' AND "
                       "machine_id = (SELECT min(machine_id) FROM trace_machine WHERE trace_id = "
                       "?1)",
                       &bytes) &&
        bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX)
        subject->page_bytes = bytes;
}

// Makes the verdict on a trace. Returns SQLite's code; `err` has the text of a failure.
static int trace_judge(struct sqlite3 *handle, sqlite3_stmt *row, struct verdict *verdict,
                       struct err *err)
{
    struct subject subject = {
        .db = handle,
        .trace_id = sqlite3_column_int64(row, 0),
        .start = subject_time(row, 1),
        .end = subject_time(row, 2),
        .data_end = subject_time(row, 5),
        .has_realtime = sqlite3_column_type(row, 3) != SQLITE_NULL,
        .realtime_offset = sqlite3_column_int64(row, 3),
        .page_bytes = PAGE_BYTES,
        .found = &verdict->findings,
    };
    page_size_read(&subject);
    rules_apply(&subject);
    if (subject.code != SQLITE_OK) {
        err_set(err, -EIO, "verdict: %s", subject.problem);
        return subject.code;
    }
    if (verdict->findings.n)
        qsort(verdict->findings.items, verdict->findings.n, sizeof(struct finding), by_weight);
    findings_done(&verdict->findings, VERDICT_LINES_MAX);
    return SQLITE_OK;
}

static int traces_judge(struct sqlite3 *handle, int64_t from, struct verdict_vec *ret,
                        struct err *err)
{
    CLEANUP(subject_end) sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(
        handle,
        "SELECT id, recorded_ts, recorded_end_ts, realtime_offset - ts_shift, path, "
        "end_ts "
        "FROM trace WHERE id >= ? ORDER BY id",
        -1, &row, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(row, 1, from);
    while (code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        const char *path = (const char *)sqlite3_column_text(row, 4);
        struct verdict verdict = {.trace_id = sqlite3_column_int64(row, 0),
                                  .path = strdup(path ? path : "")};
        if (!verdict.path || verdict_vec_push(ret, verdict) < 0) {
            free(verdict.path);
            return SQLITE_NOMEM;
        }
        code = trace_judge(handle, row, &ret->items[ret->n - 1], err);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

int verdict_make(struct sqlite3 *handle, int64_t from, struct verdict_vec *ret, struct err *err)
{
    struct err why = {0};
    int code = traces_judge(handle, from, ret, &why);
    if (code == SQLITE_OK)
        return 0;
    int r = code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_INTERRUPT ? -ECANCELED : -EIO;
    if (r == -EIO && why.text[0]) {
        err_set(err, r, "%s", why.text);
        return err_hint(err, r,
                        "another version of mmsql may have made the database: convert its "
                        "traces anew");
    }
    return err_set(err, r, "verdict: %s",
                   code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(handle));
}

static void finding_store(struct rows *rows, const struct finding *finding)
{
    const char *kind = verdict_kind_name(finding->kind);
    const char *severity = verdict_severity_name(finding->severity);
    rows_int(rows, COL_verdict_trace_id, finding->trace_id);
    rows_text(rows, COL_verdict_kind, kind, strlen(kind));
    rows_text(rows, COL_verdict_severity, severity, strlen(severity));
    if (finding->has_time) {
        rows_int(rows, COL_verdict_ts, finding->ts);
        rows_int(rows, COL_verdict_dur, finding->dur);
    }
    rows_text(rows, COL_verdict_text, finding->text, strlen(finding->text));
    rows_text(rows, COL_verdict_query, finding->query, strlen(finding->query));
    rows_put(rows);
}

int verdict_store(struct sqlite3 *handle, const struct verdict_vec *verdicts, struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = sql_run(handle, "BEGIN", "verdict", err);
    if (r == 0)
        r = rows_open(&rows, handle, TABLE_verdict, err);
    vec_foreach(verdicts, verdict)
        vec_foreach(&verdict->findings, finding)
            if (r == 0)
                finding_store(&rows, finding);
    if (r == 0)
        r = rows_error(&rows, err);
    return r < 0 ? r : sql_run(handle, "COMMIT", "verdict", err);
}

void verdicts_done(struct verdict_vec *verdicts)
{
    vec_foreach(verdicts, verdict) {
        findings_done(&verdict->findings, 0);
        finding_vec_done(&verdict->findings);
        free(verdict->path);
    }
    verdict_vec_done(verdicts);
}
