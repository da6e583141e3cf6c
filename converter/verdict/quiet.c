// SPDX-License-Identifier: Apache-2.0
//
// The sentence of a trace without findings. The sentence excludes only pressure that the trace
// could show. If the trace recorded no data about memory pressure, the sentence states this.
#include "common/cleanup.h"
#include "converter/verdict/counter_values.h"
#include "converter/verdict/rules.h"

static const char query[] = "SELECT name, severity, value FROM stats WHERE value != 0";

static bool has_finding(const struct subject *subject)
{
    vec_foreach(subject->found, finding)
        if (finding->severity != VERDICT_INFO)
            return true;
    return false;
}

void rule_quiet(struct subject *subject, const struct reclaim *reclaim)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct counter_low low =
        counter_lowest(subject, "vmstat", "nr_free_pages", subject->start, subject->end);
    bool reclaims = reclaim->work[WORK_DIRECT].recorded;
    bool kills = subject_was_to_record(subject, "oom", "mark_victim");
    bool stalls = counters_range(subject, "psi", "psi.mem.some").found;
    struct reclaim_growth scanned = reclaim_growth(subject, "scanned");
    if (has_finding(subject) || subject->code != SQLITE_OK)
        return;
    if (!reclaims && !stalls && !scanned.found && !kills) {
        strbuf_add_str(&text,
                       "The trace has nothing about memory pressure: no events of reclaim, no "
                       "PSI and no counters of reclaim.");
        subject_found(subject, VERDICT_QUIET, VERDICT_INFO, 0, -1, &text, query);
        return;
    }
    text_tell(&text, subject, "Quiet for %D from %A on", subject->end - subject->start,
              subject->start);
    const char *before = ": ";
    if ((reclaims || scanned.found) && !scanned.pages) {
        strbuf_addf(&text, "%sno reclaim", before);
        before = ", ";
    }
    if (stalls) {
        strbuf_addf(&text, "%sno notable stall for memory", before);
        before = ", ";
    }
    if (kills)
        strbuf_addf(&text, "%sno process killed because memory ran out", before);
    if (low.found)
        text_tell(&text, subject, "; free memory was never below %B",
                  low.value * (double)subject->page_bytes);
    strbuf_add_char(&text, '.');
    subject_found(subject, VERDICT_QUIET, VERDICT_INFO, subject->start,
                  subject->end - subject->start, &text, query);
}
