// SPDX-License-Identifier: Apache-2.0
//
// Each trace gets its verdict from `mmsql verdict` (verdict_child.h). The machine has trouble when
// a report is made, so all verdicts together have a bounded time. A verdict that comes too late is
// reported as missing.
#include "producer/cli/bugreport_summary.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "producer/cli/verdict_child.h"

#define TIME_OF_ONE (10 * NSEC_PER_SEC)
#define TIME_OF_ALL (20 * NSEC_PER_SEC)
#define NAME        "summary.txt"

static void add_indented(struct strbuf *text, const char *lines)
{
    for (const char *end; lines && *lines; lines = *end ? end + 1 : end) {
        end = strchrnul(lines, '\n');
        strbuf_add_str(text, "  ");
        strbuf_add(text, lines, (size_t)(end - lines));
        strbuf_add_char(text, '\n');
    }
}

static int judge(const struct reported_trace *trace, nsec_t left, struct strbuf *ret,
                 struct err *err)
{
    struct verdict_request request = {
        .fd = trace->fd,
        .timeout = left < TIME_OF_ONE ? left : TIME_OF_ONE,
        .cancel_fd = -1,
    };
    if (left <= 0)
        return err_set(err, -ETIMEDOUT, "no verdict: the other verdicts took all the time");
    return verdict_of_fd(&request, ret, err);
}

static int add_verdict(struct strbuf *text, const struct reported_trace *trace, nsec_t left,
                       struct strbuf *ret_lines)
{
    struct err problem = {0};
    strbuf_addf(text, "\n%s\n  (%s)\n", trace->name, trace->about);
    int r = judge(trace, left, ret_lines, &problem);
    if (r < 0)
        strbuf_addf(text, "  %s%s%s%s\n", problem.text, problem.hint[0] ? " (" : "", problem.hint,
                    problem.hint[0] ? ")" : "");
    else if (!ret_lines->size)
        strbuf_add_str(text, "  No memory pressure was recorded.\n");
    else
        add_indented(text, ret_lines->text);
    return r;
}

int bugreport_summary_add(struct bugreport *report, const struct reported_traces *traces,
                          const struct err *why, struct strbuf *ret_main, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + TIME_OF_ALL;
    int r = 0;
    strbuf_add_str(&text, "The verdict on each trace of this report\n");
    if (why->text[0])
        strbuf_addf(&text, "\n%s%s%s%s\n", why->text, why->hint[0] ? " (" : "", why->hint,
                    why->hint[0] ? ")" : "");
    for (size_t i = 0; i < traces->n && r != -ENOENT; i++) {
        CLEANUP(strbuf_done) struct strbuf lines = {0};
        r = add_verdict(&text, &traces->items[i], deadline - nsec_now(CLOCK_MONOTONIC),
                        i == 0 ? ret_main : &lines);
    }
    if (text.failed)
        return err_errno(err, -ENOMEM, NAME);
    return bugreport_add_text(report, NAME, text.text, text.size, err);
}
