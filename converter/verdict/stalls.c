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

// Returns whether the task waited: a task may have requested its compaction (vm.compact_memory),
// and then it reclaims little beside.
static bool has_waited(const struct waiter *waiter)
{
    return waiter->reclaim >= WORTH_TELLING ||
           (waiter->reclaim > 0 && waiter->reclaim >= waiter->dur / 2);
}

// Returns the task with the longest waits. If no task waited for long, returns the task that
// compacted most, or NULL.
static const struct waiter *find_most(const struct reclaim *reclaim)
{
    const struct waiter *first = reclaim->waiters.items;
    vec_foreach(&reclaim->waiters, waiter) {
        if (has_waited(waiter) && waiter->dur >= WORTH_TELLING)
            return waiter;
    }
    return reclaim->waiters.n && !has_waited(first) && first->dur >= WORTH_TELLING ? first : NULL;
}

// Adds the tasks that did the same as `most`: waited, or compacted.
static void others_add(struct strbuf *text, struct subject *subject, const struct reclaim *reclaim,
                       const struct waiter *most)
{
    const struct waiter *next = NULL;
    int64_t dur = 0, n = 0;
    size_t n_tasks = 0;
    bool waited = has_waited(most);
    vec_foreach(&reclaim->waiters, waiter) {
        if (has_waited(waiter) != waited)
            continue;
        next = !next && waiter != most ? waiter : next;
        dur += waiter->dur;
        n += waits_of(waiter);
        n_tasks++;
    }
    if (!next)
        return;
    text_tell(text, subject, " Next was %T with %D", next->upid, next->utid, next->dur);
    if (n_tasks == 2) {
        strbuf_add_char(text, '.');
        return;
    }
    strbuf_addf(text, "; all %zu tasks together: ", n_tasks);
    text_tell(text, subject, "%D in ", dur);
    text_times(text, n, waited ? "wait." : "run.", waited ? "waits." : "runs.");
}

void rule_stall(struct subject *subject, const struct reclaim *reclaim)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const struct waiter *most = find_most(reclaim);
    if (!most)
        return;
    if (reclaim->has_gaps) {
        counts_tell(subject, reclaim);
        return;
    }
    bool waited = has_waited(most);
    text_tell(&text, subject, "%T %s: %s%D in ", most->upid, most->utid,
              waited ? "waited most for memory" : "compacted memory most",
              reclaim->is_partial ? "at least " : "", most->dur);
    text_times(&text, waits_of(most), waited ? "wait" : "run", waited ? "waits" : "runs");
    text_tell(&text, subject, ", the longest %D%s%s at %A.", most->longest, waited ? " in " : "",
              waited ? work_names[most->longest_work] : "", most->longest_ts);
    others_add(&text, subject, reclaim, most);
    subject_found(subject, VERDICT_STALL,
                  waited && most->dur >= TROUBLE ? VERDICT_WARNING : VERDICT_NOTICE,
                  most->longest_ts, most->longest, &text, query);
}
