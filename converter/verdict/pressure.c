// SPDX-License-Identifier: Apache-2.0
//
// The times in which memory was short: reclaim that tasks waited for, kswapd at work, and the
// kernel's own count of stalls (PSI). Events are exact, so a time begins and ends with events.
// Readings of counters are half a second apart; they count only if no event is near, or if the
// trace has no events.
//
// kswapd alone is not a shortage: kswapd works ahead, so that no task must wait. Compaction alone
// is a lack of large blocks, not of memory. The sentence names such a case.
#include <sqlite3.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/verdict/counter_values.h"
#include "converter/verdict/rules.h"

#define STALL_SHARE 0.02 // part of the time between two readings; less is noise
#define FALL_SHARE  0.9  // part of the first reading; a fall to more than this is not reported
#define NEAR_END    (500 * NSEC_PER_MSEC)
// Pages in memory cgroups between two readings. The kernel adds up the processors one after
// another, so the difference of two of its sums may be some pages wrong.
#define MEMCG_LEAST 256

static const char query[] =
    "SELECT kind, process_name, ts, dur, reclaimed_pages FROM reclaim_episode ORDER BY ts";
static const char query_counters[] =
    "SELECT ts, dur, name, change FROM vmstat_rate WHERE change > 0 AND "
    "(name GLOB 'allocstall*' OR name GLOB 'pgscan*' OR name GLOB 'pgsteal*') ORDER BY ts";

struct pressure {
    const struct reclaim *reclaim;
    struct intervals any;     // times when memory was short, or kswapd worked
    struct intervals waits;   // times when a task waited, by counters
    bool by_reclaim;          // vmstat counted reclaim for the whole machine
    bool by_memcg;            // vmstat counted reclaim in memory cgroups
    int64_t some_ns, full_ns; // stalls by PSI
    bool failed;
};

static void pressure_done(struct pressure *pressure)
{
    intervals_done(&pressure->any);
    intervals_done(&pressure->waits);
}

static void time_add(struct pressure *pressure, int64_t ts, int64_t end, bool waited)
{
    if (intervals_add(&pressure->any, ts, end, PRESSURE_GAP) < 0 ||
        (waited && intervals_add(&pressure->waits, ts, end, PRESSURE_GAP) < 0))
        pressure->failed = true;
}

static void some_step(void *userdata, int64_t ts, int64_t end, double change)
{
    struct pressure *pressure = userdata;
    if (change > 0)
        sum_add(&pressure->some_ns, count_bounded(change));
    if (change >= STALL_SHARE * (double)(end - ts) &&
        !intervals_are_near(&pressure->reclaim->any, ts, end, 0))
        time_add(pressure, ts, end, true);
}

static void full_step(void *userdata, int64_t ts, int64_t end, double change)
{
    struct pressure *pressure = userdata;
    (void)ts;
    (void)end;
    if (change > 0)
        sum_add(&pressure->full_ns, count_bounded(change));
}

static void direct_step(void *userdata, int64_t ts, int64_t end, double change)
{
    struct pressure *pressure = userdata;
    pressure->by_reclaim |= change > 0;
    if (change > 0)
        time_add(pressure, ts, end, true);
}

static void kswapd_step(void *userdata, int64_t ts, int64_t end, double change)
{
    struct pressure *pressure = userdata;
    pressure->by_reclaim |= change > 0;
    if (change > 0)
        time_add(pressure, ts, end, false);
}

static void memcg_step(void *userdata, int64_t ts, int64_t end, double change)
{
    struct pressure *pressure = userdata;
    pressure->by_memcg |= change >= MEMCG_LEAST;
    if (change >= MEMCG_LEAST)
        time_add(pressure, ts, end, true);
}

static void pressure_read(struct pressure *pressure, struct subject *subject)
{
    const struct reclaim *reclaim = pressure->reclaim;
    vec_foreach(&reclaim->any, interval)
        time_add(pressure, interval->ts, interval->end, false);
    counters_steps(subject, "psi", "psi.mem.some", some_step, pressure);
    counters_steps(subject, "psi", "psi.mem.full", full_step, pressure);
    if (!reclaim->work[WORK_DIRECT].recorded) {
        counters_steps(subject, "vmstat", "allocstall*", direct_step, pressure);
        counters_steps(subject, "vmstat", "pgscan_direct*", direct_step, pressure);
    }
    if (!reclaim->work[WORK_KSWAPD].recorded)
        counters_steps(subject, "vmstat", "pgscan_kswapd*", kswapd_step, pressure);
    if (!reclaim->work[WORK_MEMCG].recorded)
        memcg_scan_steps(subject, memcg_step, pressure);
    if (pressure->failed)
        subject->code = SQLITE_NOMEM;
}

static const struct interval *longest_of(const struct intervals *intervals)
{
    const struct interval *longest = intervals->items;
    vec_foreach(intervals, interval)
        if (interval->end - interval->ts > longest->end - longest->ts)
            longest = interval;
    return longest;
}

static void when_add(struct strbuf *text, struct subject *subject, const struct intervals *times)
{
    const struct interval *first = &times->items[0], *last = &times->items[times->n - 1];
    if (times->n == 1) {
        text_tell(text, subject, " for %D, from %A to %A", last->end - first->ts, first->ts,
                  last->end);
    } else {
        strbuf_addf(text, " %zu times, ", times->n);
        text_tell(text, subject, "%D in all, between %A and %A", intervals_sum(times), first->ts,
                  last->end);
    }
    if (last->end >= subject->data_end - NEAR_END)
        strbuf_add_str(text, ", the end of the trace");
    if (times->n == 1)
        return;
    const struct interval *longest = longest_of(times);
    text_tell(text, subject, ", the longest for %D from %S", longest->end - longest->ts,
              longest->ts);
}

// Begins a part of a list: ": a, b".
static void part_begin(struct strbuf *text, size_t *n)
{
    strbuf_add_str(text, (*n)++ ? ", " : ": ");
}

static void work_add(struct strbuf *text, const struct reclaim *reclaim, bool waited, size_t *n)
{
    static const struct {
        enum work work;
        const char *one, *many;
    } kinds[] = {
        {WORK_DIRECT, "direct reclaim", "direct reclaims"},
        {WORK_MEMCG, "reclaim in a memory cgroup", "reclaims in memory cgroups"},
        {WORK_COMPACTION, "compaction", "compactions"},
    };
    if (reclaim->work[WORK_KSWAPD].n && waited) {
        part_begin(text, n);
        strbuf_add_str(text, reclaim->has_gaps ? "kswapd worked" : "kswapd worked for ");
        if (!reclaim->has_gaps)
            text_duration(text, intervals_sum(&reclaim->kswapd));
    }
    for (size_t i = 0; i < ELEMENTS(kinds); i++) {
        const struct work_sum *sum = &reclaim->work[kinds[i].work];
        if (!sum->n && !sum->n_not_kept)
            continue;
        bool at_least = reclaim->is_partial && !sum->n_not_kept;
        part_begin(text, n);
        strbuf_add_str(text, at_least ? "at least " : "");
        text_times(text, sum->n + sum->n_not_kept, kinds[i].one, kinds[i].many);
        if (reclaim->has_gaps)
            continue;
        strbuf_add_str(text, sum->n_not_kept ? " took at least " : " took ");
        text_duration(text, sum->dur);
    }
}

static void stalls_add(struct strbuf *text, struct subject *subject,
                       const struct pressure *pressure, size_t *n)
{
    if (pressure->some_ns < NSEC_PER_MSEC)
        return;
    part_begin(text, n);
    text_tell(text, subject, "some task stalled for %D", pressure->some_ns);
    if (pressure->full_ns >= NSEC_PER_MSEC)
        text_tell(text, subject, ", all tasks at once for %D", pressure->full_ns);
    strbuf_add_str(text, " (PSI)");
}

// Adds the lowest free memory. Counters are read periodically, so the readings before and after the
// pressure count, too.
static void free_memory_add(struct strbuf *text, struct subject *subject,
                            const struct intervals *times, size_t *n)
{
    int64_t from = times->items[0].ts - NSEC_PER_SEC;
    int64_t to = times->items[times->n - 1].end + NSEC_PER_SEC;
    const char *what = "available memory";
    double unit = 1;
    struct counter_low low = counter_lowest(subject, "meminfo", "MemAvailable", from, to);
    if (!low.found) {
        what = "free memory";
        unit = (double)subject->page_bytes;
        low = counter_lowest(subject, "vmstat", "nr_free_pages", from, to);
    }
    if (!low.found || low.value > low.first * FALL_SHARE)
        return;
    part_begin(text, n);
    text_tell(text, subject, "%s fell from %B to %B at %S", what, low.first * unit,
              low.value * unit, low.ts);
}

// Returns the beginning of the sentence. PSI alone does not distinguish a machine without memory
// from a memory cgroup at its limit.
static const char *begin_of(const struct pressure *pressure, bool waited, bool by_counters)
{
    const struct reclaim *reclaim = pressure->reclaim;
    bool whole = reclaim->work[WORK_DIRECT].n || reclaim->work[WORK_KSWAPD].n ||
                 reclaim->work[WORK_DIRECT].n_not_kept || pressure->by_reclaim;
    if (waited && !whole && (reclaim->work[WORK_MEMCG].n || pressure->by_memcg))
        return "A memory cgroup was at its limit";
    if (waited && !whole && by_counters)
        return "Tasks stalled for memory";
    if (waited)
        return "Memory was short";
    if (reclaim->work[WORK_KSWAPD].n || by_counters)
        return "kswapd made room in the background";
    return "Memory was compacted for large blocks";
}

void rule_pressure(struct subject *subject, const struct reclaim *reclaim)
{
    CLEANUP(pressure_done) struct pressure pressure = {.reclaim = reclaim};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    pressure_read(&pressure, subject);
    if (!pressure.any.n || subject->code != SQLITE_OK)
        return;
    const struct interval *first = &pressure.any.items[0];
    const struct interval *last = &pressure.any.items[pressure.any.n - 1];
    bool waited = reclaim->work[WORK_DIRECT].n || reclaim->work[WORK_MEMCG].n || pressure.waits.n;
    bool by_counters = !reclaim->any.n;
    bool of_machine = reclaim->work[WORK_DIRECT].n || reclaim->work[WORK_KSWAPD].n ||
                      (by_counters && (pressure.by_reclaim || !pressure.by_memcg));
    size_t n = 0;
    strbuf_add_str(&text, begin_of(&pressure, waited, by_counters));
    when_add(&text, subject, &pressure.any);
    work_add(&text, reclaim, waited, &n);
    stalls_add(&text, subject, &pressure, &n);
    if (of_machine)
        free_memory_add(&text, subject, &pressure.any, &n);
    if (!waited && reclaim->work[WORK_KSWAPD].n && reclaim->work[WORK_DIRECT].recorded)
        strbuf_add_str(&text, "; no task had to reclaim for itself");
    strbuf_add_char(&text, '.');
    subject_found(subject, VERDICT_PRESSURE, waited ? VERDICT_WARNING : VERDICT_NOTICE, first->ts,
                  last->end - first->ts, &text, by_counters ? query_counters : query);
}
