// SPDX-License-Identifier: Apache-2.0
//
// The losses of the trace as one sentence: the worst health line (health.h), and the number of
// other lines. A wrapped ring buffer is reported as information, because the wrap explains the
// start of the data.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "converter/verdict/health.h"
#include "converter/verdict/rules.h"

#define WORTH_TELLING NSEC_PER_SEC

static const char query[] = "SELECT name, idx, severity, value, description FROM stats "
                            "WHERE value > 0 AND severity IN ('data_loss', 'error')";
static const char query_ring[] =
    "SELECT name, idx, value FROM stats WHERE name = 'traced_buf_chunks_overwritten'";

static void ring_tell(struct subject *subject)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    int64_t overwritten, began;
    if (!subject_number(subject,
                        "SELECT sum(value) FROM stats WHERE trace_id = ?1 AND "
                        "name = 'traced_buf_chunks_overwritten'",
                        &overwritten) ||
        overwritten <= 0)
        return;
    if (!subject_number(subject,
                        "SELECT int_value FROM metadata WHERE name = 'tracing_started_ns' "
                        "AND coalesce(trace_id, ?1) = ?1",
                        &began) ||
        subject->start - (began = time_bounded(began)) < WORTH_TELLING)
        return;
    text_tell(&text, subject, "The ring buffer kept the last %D of a recording of %D.",
              subject->end - subject->start, subject->end - began);
    subject_found(subject, VERDICT_LOSS, VERDICT_INFO, 0, -1, &text, query_ring);
}

void rule_loss(struct subject *subject)
{
    CLEANUP(health_lines_done) struct health_line_vec lines = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct err err = {0};
    if (subject->code != SQLITE_OK)
        return;
    int r = health_read(subject->db, subject->trace_id, &lines, &err);
    if (r < 0) {
        subject->code = r == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
        snprintf(subject->problem, sizeof(subject->problem), "%.150s", err.text);
        return;
    }
    if (!lines.n) {
        ring_tell(subject);
        return;
    }
    const char *what = lines.items[0].what;
    strbuf_addf(&text, "%c%s", toupper((unsigned char)*what), what + 1);
    if (lines.n > 1)
        strbuf_addf(&text, "; %zu other %s (see the table stats)", lines.n - 1,
                    lines.n == 2 ? "problem" : "problems");
    strbuf_add_char(&text, '.');
    subject_found(subject, VERDICT_LOSS, VERDICT_WARNING, 0, -1, &text, query);
}
