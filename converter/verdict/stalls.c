// SPDX-License-Identifier: Apache-2.0
//
// Who waited for memory: direct and memcg reclaim, and compaction, by process. Threads of the
// kernel whose task is reclaim or compaction make nobody wait, and are not among them.
#include "common/cleanup.h"
#include "converter/verdict/rules.h"

#define WORTH_TELLING NSEC_PER_MSEC // in all; less is no trouble for anybody

static const char query[] = "SELECT kind, pid, process_name, episodes, dur, max_dur "
                            "FROM reclaim_by_process WHERE kind != 'kswapd' ORDER BY dur DESC";

static const char *const work_names[N_WORK] = {
    [WORK_DIRECT] = "direct reclaim",
    [WORK_MEMCG] = "reclaim of its memory cgroup",
    [WORK_COMPACTION] = "compaction",
};

static int64_t waits_of(const struct waiter *waiter)
{
    int64_t n = 0;
    for (enum work work = 0; work < N_WORK; work++)
        n += waiter->n[work];
    return n;
}

static void others_add(struct strbuf *text, struct subject *subject, const struct reclaim *reclaim)
{
    const struct waiter_vec *waiters = &reclaim->waiters;
    int64_t dur = 0, n = 0;
    vec_foreach(waiters, waiter) {
        dur += waiter->dur;
        n += waits_of(waiter);
    }
    if (waiters->n < 2)
        return;
    strbuf_add_str(text, " Next was ");
    text_task(text, subject, waiters->items[1].upid, waiters->items[1].utid);
    strbuf_add_str(text, " with ");
    text_duration(text, waiters->items[1].dur);
    if (waiters->n == 2) {
        strbuf_add_char(text, '.');
        return;
    }
    strbuf_addf(text, "; all %zu tasks together: ", waiters->n);
    text_duration(text, dur);
    strbuf_add_str(text, " in ");
    text_times(text, n, "wait.", "waits.");
}

void rule_stall(struct subject *subject, const struct reclaim *reclaim)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const struct waiter *most = reclaim->waiters.items;
    if (!reclaim->waiters.n || most->dur < WORTH_TELLING)
        return;
    text_task(&text, subject, most->upid, most->utid);
    strbuf_add_str(&text, " waited most for memory: ");
    text_duration(&text, most->dur);
    strbuf_add_str(&text, " in ");
    text_times(&text, waits_of(most), "wait", "waits");
    strbuf_add_str(&text, ", the longest ");
    text_duration(&text, most->longest);
    strbuf_addf(&text, " in %s at ", work_names[most->longest_work]);
    text_time(&text, subject, most->longest_ts);
    strbuf_add_char(&text, '.');
    others_add(&text, subject, reclaim);
    subject_found(subject, VERDICT_STALL,
                  most->dur >= 100 * NSEC_PER_MSEC ? VERDICT_WARNING : VERDICT_NOTICE,
                  most->longest_ts, most->longest, &text, query);
}
