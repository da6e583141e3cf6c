// SPDX-License-Identifier: Apache-2.0
//
// Memory: reclaim as slices of the waiting thread, and the memory of processes as counters.
// rss_stat identifies an address space by a hash (mm_id). Events in which a thread changed its own
// address space connect the hash with the thread.
#include <errno.h>

#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/process/process_counters.h"
#include "protos/fields.h"

struct mm {
    struct map64 owners; // address space of rss_stat -> utid
};

// Returns the thread of the address space `mm_id`; UTID_NONE: not known. `is_own`: the address
// space belongs to the event's thread.
static int64_t mm_owner(struct import *im, const struct ftrace_event *event, uint64_t mm_id,
                        bool is_own)
{
    struct mm *mm = event->own;
    if (is_own) {
        int64_t utid = processes_thread(&im->processes, event->pid);
        import_fail(im, map64_set(&mm->owners, mm_id, (uint64_t)utid));
        return utid;
    }
    const uint64_t *owner = map64_find(&mm->owners, mm_id);
    if (!owner)
        return UTID_NONE;
    int64_t utid = (int64_t)*owner;
    if (processes_is_alive(&im->processes, utid))
        return utid;
    map64_remove(&mm->owners, mm_id); // the kernel may reuse the number
    return UTID_NONE;
}

// The fields that rss_stat and rss_stat_throttled have in common.
enum { RSS_MEMBER, RSS_SIZE, RSS_CURR, RSS_MM_ID, N_RSS };

struct rss {
    uint64_t values[N_RSS];
    bool has[N_RSS];
};

// Reads the fields with these `numbers`. The two events are too frequent for a look-up by names.
static struct rss rss_read(const struct ftrace_event *event, const uint32_t numbers[N_RSS])
{
    struct rss rss = {0};
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field;
    while (wire_next_hot(&reader, &field))
        for (size_t i = 0; i < N_RSS; i++)
            if (field.number == numbers[i]) {
                rss.values[i] = field.value;
                rss.has[i] = true;
            }
    return rss;
}

static void rss_write(struct import *im, const struct ftrace_event *event, const struct rss *rss)
{
    static const char *const members[] = {
        "rss.file", "rss.anon", "swap", "rss.shmem", "unreclaimable",
    };
    static const char unknown[] = "unknown";
    uint32_t member = (uint32_t)rss->values[RSS_MEMBER];
    const char *key = unknown;
    if (member < ELEMENTS(members))
        key = members[member];
    else
        stats_add(&im->stats, STAT_rss_stat_unknown_keys, 1);
    int64_t size = (int64_t)rss->values[RSS_SIZE], utid;
    if (size < 0) {
        stats_add(&im->stats, STAT_rss_stat_negative_size, 1);
        return;
    }
    if (rss->has[RSS_CURR] && rss->has[RSS_MM_ID])
        utid = mm_owner(im, event, rss->values[RSS_MM_ID], rss->values[RSS_CURR] != 0);
    else
        utid = processes_thread(&im->processes, event->pid);
    if (utid == UTID_NONE)
        stats_add(&im->stats, STAT_rss_stat_unknown_thread_for_mm_id, 1);
    else
        process_counter_push(im, event->ts, utid, PROCESS_COUNTER_MEMORY, key, NULL, (double)size);
}

static void rss_stat(struct import *im, const struct ftrace_event *event)
{
    static const uint32_t numbers[N_RSS] = {PB_RssStatFtraceEvent_member,
                                            PB_RssStatFtraceEvent_size, PB_RssStatFtraceEvent_curr,
                                            PB_RssStatFtraceEvent_mm_id};
    struct rss rss = rss_read(event, numbers);
    rss_write(im, event, &rss);
}

// Handles rss_stat_throttled. An absent curr or mm_id is valid and has the value 0.
static void rss_stat_throttled(struct import *im, const struct ftrace_event *event)
{
    static const uint32_t numbers[N_RSS] = {
        PB_RssStatThrottledFtraceEvent_member, PB_RssStatThrottledFtraceEvent_size,
        PB_RssStatThrottledFtraceEvent_curr, PB_RssStatThrottledFtraceEvent_mm_id};
    struct rss rss = rss_read(event, numbers);
    rss.has[RSS_CURR] = rss.has[RSS_MM_ID] = true;
    rss_write(im, event, &rss);
}

static void oom_score_adj_update(struct import *im, const struct ftrace_event *event)
{
    int64_t utid = processes_thread(&im->processes, (uint32_t)ftrace_int(event, "pid"));
    double score = (int16_t)ftrace_int(event, "oom_score_adj");
    process_counter_push(im, event->ts, utid, PROCESS_COUNTER_OOM_SCORE, NULL, NULL, score);
}

static void mm_event_record(struct import *im, const struct ftrace_event *event)
{
    static const char *const types[] = {
        "min_flt", "maj_flt", "read_io", "compaction", "reclaim", "swp_flt", "kern_alloc",
    };
    static const char *const metrics[] = {"count", "max_lat", "avg_lat"};
    uint64_t type = (uint64_t)ftrace_int(event, "type");
    if (type >= ELEMENTS(types)) {
        stats_add(&im->stats, STAT_mm_unknown_type, 1);
        return;
    }
    int64_t utid = processes_thread(&im->processes, event->pid);
    for (size_t i = 0; i < ELEMENTS(metrics); i++)
        process_counter_push(im, event->ts, utid, PROCESS_COUNTER_MM_EVENT, types[type], metrics[i],
                             (double)ftrace_int(event, metrics[i]));
}

static const struct ftrace_form forms[] = {
    {"mm_vmscan_direct_reclaim_begin", FORM_BEGIN, .name = "mm_vmscan_direct_reclaim",
     .args = "direct_reclaim_order=order, direct_reclaim_may_writepage=may_writepage, "
             "direct_reclaim_gfp_flags=gfp_flags"},
    {"mm_vmscan_direct_reclaim_end", FORM_END, .args = "direct_reclaim_nr_reclaimed=nr_reclaimed"},
    {"mm_vmscan_memcg_reclaim_begin", FORM_BEGIN, .name = "mm_vmscan_memcg_reclaim",
     .args = "memcg_reclaim_order=order, memcg_reclaim_may_writepage=may_writepage, "
             "memcg_reclaim_gfp_flags=gfp_flags"},
    {"mm_vmscan_memcg_reclaim_end", FORM_END, .args = "memcg_reclaim_nr_reclaimed=nr_reclaimed"},
    {"mm_shrink_slab_start", FORM_BEGIN, .name = "mm_vmscan_shrink_slab",
     .args = "shrink_name=shrink:f, total_scan, priority"},
    {"mm_shrink_slab_end", FORM_END, .args = "freed=retval"},
    {"mark_victim", FORM_MOMENT, .key = "pid", .name = "mem.oom_kill"},
    {"rss_stat", FORM_CALL(rss_stat)},
    {"rss_stat_throttled", FORM_CALL(rss_stat_throttled)},
    {"oom_score_adj_update", FORM_CALL(oom_score_adj_update)},
    {"mm_event_record", FORM_CALL(mm_event_record)},
    {0},
};

const struct ftrace_subject ftrace_mm = {
    .forms = forms,
    .state_size = sizeof(struct mm),
    .n_maps = 1,
};
