// SPDX-License-Identifier: Apache-2.0
//
// Processes that waited for memory: in direct reclaim, in memcg reclaim, in compaction. Threads of
// the kernel whose task is reclaim or compaction make no process wait, and do not count.
#include "common/cleanup.h"
#include "converter/verdict/rules.h"

#define WORTH_TELLING NSEC_PER_MSEC // in all; less is nothing
#define TROUBLE       (100 * NSEC_PER_MSEC)

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

// For waits whose ends may be missing.
static void counts_tell(struct subject *subject, const struct reclaim *reclaim)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const struct waiter *most = reclaim->waiters.items;
    int64_t n = 0;
    vec_foreach(&reclaim->waiters, waiter) {
        n += waits_of(waiter);
        most = waits_of(waiter) > waits_of(most) ? waiter : most;
    }
    text_task(&text, subject, most->upid, most->utid);
    strbuf_add_str(&text, " waited for memory most often: at least ");
    text_times(&text, waits_of(most), "time", "times");
    strbuf_add_str(&text, " of ");
    text_number(&text, n);
    strbuf_add_str(&text, "; how long is not known, because events were lost.");
    subject_found(subject, VERDICT_STALL, VERDICT_NOTICE, 0, -1, &text, query);
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
    if (reclaim->has_gaps) {
        counts_tell(subject, reclaim);
        return;
    }
    // Compaction may have been asked for by who does it (vm.compact_memory).
    bool waited = most->n[WORK_DIRECT] || most->n[WORK_MEMCG];
    text_task(&text, subject, most->upid, most->utid);
    strbuf_add_str(&text, waited ? " waited most for memory: " : " compacted memory most: ");
    strbuf_add_str(&text, reclaim->is_partial ? "at least " : "");
    text_duration(&text, most->dur);
    strbuf_add_str(&text, " in ");
    text_times(&text, waits_of(most), waited ? "wait" : "run", waited ? "waits" : "runs");
    strbuf_add_str(&text, ", the longest ");
    text_duration(&text, most->longest);
    if (waited)
        strbuf_addf(&text, " in %s", work_names[most->longest_work]);
    strbuf_add_str(&text, " at ");
    text_time(&text, subject, most->longest_ts);
    strbuf_add_char(&text, '.');
    others_add(&text, subject, reclaim);
    subject_found(subject, VERDICT_STALL,
                  waited && most->dur >= TROUBLE ? VERDICT_WARNING : VERDICT_NOTICE,
                  most->longest_ts, most->longest, &text, query);
}
