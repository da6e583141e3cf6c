// SPDX-License-Identifier: Apache-2.0
//
// Processes that waited for memory: in direct reclaim, in memcg reclaim, in compaction. Kernel
// threads for reclaim or compaction do not count, because no process waits for them.
#include "common/cleanup.h"
#include "converter/verdict/rules.h"

#define WORTH_TELLING NSEC_PER_MSEC // sum of all waits; shorter sums are not reported
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

// Adds the sentence for waits whose ends may be missing.
static void counts_tell(struct subject *subject, const struct reclaim *reclaim)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const struct waiter *most = reclaim->waiters.items;
    int64_t n = 0;
    vec_foreach(&reclaim->waiters, waiter) {
        n += waits_of(waiter);
        most = waits_of(waiter) > waits_of(most) ? waiter : most;
    }
    text_tell(&text, subject, "%T waited for memory most often: at least ", most->upid, most->utid);
    text_times(&text, waits_of(most), "time", "times");
    text_tell(&text, subject, " of %N; how long is not known, because events were lost.", n);
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
    const struct waiter *next = &waiters->items[1];
    text_tell(text, subject, " Next was %T with %D", next->upid, next->utid, next->dur);
    if (waiters->n == 2) {
        strbuf_add_char(text, '.');
        return;
    }
    strbuf_addf(text, "; all %zu tasks together: ", waiters->n);
    text_tell(text, subject, "%D in ", dur);
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
    // A process may have requested its compaction (vm.compact_memory).
    bool waited = most->n[WORK_DIRECT] || most->n[WORK_MEMCG];
    text_tell(&text, subject, "%T %s: %s%D in ", most->upid, most->utid,
              waited ? "waited most for memory" : "compacted memory most",
              reclaim->is_partial ? "at least " : "", most->dur);
    text_times(&text, waits_of(most), waited ? "wait" : "run", waited ? "waits" : "runs");
    text_tell(&text, subject, ", the longest %D%s%s at %A.", most->longest, waited ? " in " : "",
              waited ? work_names[most->longest_work] : "", most->longest_ts);
    others_add(&text, subject, reclaim);
    subject_found(subject, VERDICT_STALL,
                  waited && most->dur >= TROUBLE ? VERDICT_WARNING : VERDICT_NOTICE,
                  most->longest_ts, most->longest, &text, query);
}
