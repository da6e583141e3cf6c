// SPDX-License-Identifier: Apache-2.0
#include "converter/report/report_verdicts.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/tables/statement.h"

#define NO_TRACE (-1)

static const char logs_sql[] =
    "SELECT min(path), count(*), sum(n_samples) FROM alloc_log HAVING count(*) > 0";

// Appends the verdict `verdict` with one sentence. Takes the path and the text of the sentence.
static int sentence_add(struct verdict_vec *ret, char *path, char *text)
{
    struct verdict verdict = {.trace_id = NO_TRACE, .path = path};
    const struct finding finding = {.kind = VERDICT_QUIET,
                                    .severity = VERDICT_INFO,
                                    .trace_id = NO_TRACE,
                                    .text = text,
                                    .query = "SELECT * FROM alloc_log_method"};
    if (path && text && finding_vec_push(&verdict.findings, finding) == 0) {
        if (verdict_vec_push(ret, verdict) == 0)
            return 0;
        finding_vec_done(&verdict.findings);
    }
    free(path);
    free(text);
    return -ENOMEM;
}

static int logs_judge(struct sqlite3 *handle, struct verdict_vec *ret)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    int code = sqlite3_prepare_v2(handle, logs_sql, -1, &row, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(row);
    if (code != SQLITE_ROW)
        return code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_DONE ? 0 : -EIO;
    strbuf_addf(&text,
                "Samples of Java allocations: %" PRId64 ". A log of allocations has no times, and "
                "nothing about the memory of the machine.",
                (int64_t)sqlite3_column_int64(row, 2));
    return sentence_add(ret, strdup(column_text(row, 0)), text.failed ? NULL : strdup(text.text));
}

int report_verdicts_make(struct sqlite3 *handle, const char *name, bool logs_too,
                         struct verdict_vec *ret, struct err *err)
{
    int r = verdict_make(handle, 0, ret, err);
    if (r < 0)
        return err_prefix(err, r, "%s", name);
    if (ret->n)
        return 0;
    r = logs_too ? logs_judge(handle, ret) : 0;
    if (r < 0)
        return err_set(err, r, "%s: logs of Java allocations: %s", name, sqlite3_errmsg(handle));
    return ret->n ? 0 : err_set(err, -ENOENT, "%s: there is no trace in it", name);
}
