// SPDX-License-Identifier: Apache-2.0
//
// ProfilePacket: dumps of native heaps. A dump has totals since the profile began; a row says what
// was added since the dump before, allocations and frees apart. A dump may be spread over packets,
// so its totals are gathered and turned into rows when the last packet of it was seen.
//
// Older producers put the interned data into the packet itself. It holds until the dump ends.
#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define CLOCK_COARSE 4 // CLOCK_MONOTONIC_COARSE, of a dump's time stamp whatever the packet's clock

struct totals {
    uint64_t allocated, freed, n_allocs, n_frees;
};

// Totals of one call site in one heap.
struct heap_site {
    int64_t upid, callsite, ts;
    uint32_t heap; // name, in strings
    bool touched;  // by the dump at hand
    bool knows_frees;
    struct totals now, before;
};
VEC_DEFINE(heap_site_vec, struct heap_site);
VEC_DEFINE(site_index_vec, uint32_t);

struct profile {
    struct strset keys; // process, heap, call site; ids are indexes in sites
    struct heap_site_vec sites;
    struct site_index_vec touched;
    struct sequences own;  // interned data of packets that bring their own
    struct strset headers; // dumps that have a row
    struct map64 indexes;  // sequence -> index of its last packet
    bool is_open;          // the last packet of the dump at hand is missing yet
};

struct dump {
    int64_t upid, ts;
    uint32_t heap;
    bool counts_at_max; // the recorder is known to count them rightly
    bool knows_frees;   // of the Java heap, too
    struct stack_source sources[2];
};

static struct heap_site *site_get(struct import *im, struct profile *profile,
                                  const struct dump *dump, int64_t callsite)
{
    int64_t key[] = {dump->upid, dump->heap, callsite};
    uint32_t id = strset_add(&profile->keys, (const char *)key, sizeof(key));
    if (id == STRSET_NONE)
        return NULL;
    struct heap_site site = {.upid = dump->upid, .heap = dump->heap, .callsite = callsite};
    if (id == profile->sites.n && heap_site_vec_push(&profile->sites, site) < 0)
        return NULL;
    struct heap_site *found = &profile->sites.items[id];
    if (!found->touched && site_index_vec_push(&profile->touched, id) < 0)
        return NULL;
    if (!found->touched)
        found->now = (struct totals){0};
    found->touched = true;
    found->ts = dump->ts;
    found->knows_frees = dump->knows_frees;
    (void)im;
    return found;
}

static int sample_read(struct import *im, struct profile *profile, const struct dump *dump,
                       const struct wire_field *message)
{
    MESSAGE(sample, PB_ProfilePacket_HeapSample_self_max_count, message);
    uint64_t callstack = field_u64(&sample[PB_ProfilePacket_HeapSample_callstack_id]);
    bool is_own = stacks_has_callstack(&dump->sources[0], callstack);
    int64_t callsite = stacks_callsite(im, &dump->sources[is_own ? 0 : 1], callstack);
    if (callsite == CALLSITE_NONE)
        return 0;
    struct heap_site *site = site_get(im, profile, dump, callsite);
    if (!site)
        return -ENOMEM;
    struct totals *now = &site->now;
    if (field_present(&sample[PB_ProfilePacket_HeapSample_self_max])) {
        now->allocated += field_u64(&sample[PB_ProfilePacket_HeapSample_self_max]);
        if (dump->counts_at_max)
            now->n_allocs += field_u64(&sample[PB_ProfilePacket_HeapSample_self_max_count]);
        return 0;
    }
    now->allocated += field_u64(&sample[PB_ProfilePacket_HeapSample_self_allocated]);
    now->freed += field_u64(&sample[PB_ProfilePacket_HeapSample_self_freed]);
    now->n_allocs += field_u64(&sample[PB_ProfilePacket_HeapSample_alloc_count]);
    now->n_frees += field_u64(&sample[PB_ProfilePacket_HeapSample_free_count]);
    return 0;
}

static void allocation_write(struct import *im, const struct heap_site *site, int64_t count,
                             int64_t size)
{
    if (!count && !size)
        return;
    struct cell *row = database_row(im->db, TABLE_heap_profile_allocation, NULL);
    cell_int(row, COL_heap_profile_allocation_ts, site->ts);
    cell_int(row, COL_heap_profile_allocation_upid, site->upid);
    cell_text(row, COL_heap_profile_allocation_heap_name, strset_text(&im->strings, site->heap));
    cell_int(row, COL_heap_profile_allocation_callsite_id, site->callsite);
    cell_int(row, COL_heap_profile_allocation_count, count);
    cell_int(row, COL_heap_profile_allocation_size, size);
    import_bounds(im, site->ts);
}

// What was gathered of the dump becomes rows.
static void dump_finish(struct import *im, struct profile *profile)
{
    vec_foreach(&profile->touched, index) {
        struct heap_site *site = &profile->sites.items[*index];
        struct totals now = site->now, before = site->before;
        site->touched = false;
        // Totals only grow; if not, the dump is of no use.
        if (now.allocated < before.allocated || now.freed < before.freed ||
            now.n_allocs < before.n_allocs || now.n_frees < before.n_frees) {
            stats_add_at(&im->stats, STAT_heapprofd_malformed_packet, (uint32_t)site->upid, 1);
            continue;
        }
        allocation_write(im, site, (int64_t)(now.n_allocs - before.n_allocs),
                         (int64_t)(now.allocated - before.allocated));
        // ART itself does not tell of frees.
        if (site->knows_frees || !str_eq(strset_text(&im->strings, site->heap), "com.android.art"))
            allocation_write(im, site, (int64_t)(before.n_frees - now.n_frees),
                             (int64_t)(before.freed - now.freed));
        site->before = now;
    }
    site_index_vec_clear(&profile->touched);
    sequences_done(&profile->own);
}

static int64_t coarse_time(struct import *im, const struct wire_field *timestamp, int64_t otherwise)
{
    int64_t ts = otherwise;
    if (field_present(timestamp))
        import_time(im, CLOCK_COARSE, field_i64(timestamp), &ts);
    return ts;
}

static void header_write(struct import *im, struct profile *profile, const struct dump *dump,
                         const struct wire_field *start, bool has_heap)
{
    int64_t key[] = {dump->upid, dump->ts, has_heap ? (int64_t)dump->heap : -1};
    size_t n = profile->headers.n;
    strset_add(&profile->headers, (const char *)key, sizeof(key));
    if (profile->headers.n == n) // the dump goes on in this packet
        return;
    int64_t start_ts = coarse_time(im, start, dump->ts);
    struct cell *row = database_row(im->db, TABLE_heap_profile, NULL);
    cell_int(row, COL_heap_profile_ts, start_ts);
    cell_int(row, COL_heap_profile_ts_end, dump->ts);
    cell_int(row, COL_heap_profile_dur, (int64_t)((uint64_t)dump->ts - (uint64_t)start_ts));
    cell_int(row, COL_heap_profile_upid, dump->upid);
    if (has_heap)
        cell_text(row, COL_heap_profile_heap_name, strset_text(&im->strings, dump->heap));
}

// Their numbers are too high for a table of fields.
static void loss_stats(struct stats *stats, uint32_t pid, const struct wire_field *message)
{
    static const struct {
        uint32_t field;
        enum stat stat;
    } losses[] = {
        {PB_ProfilePacket_ProcessStats_lost_allocations, STAT_mmsql_heap_lost_allocations},
        {PB_ProfilePacket_ProcessStats_lost_frees, STAT_mmsql_heap_lost_frees},
        {PB_ProfilePacket_ProcessStats_lost_bytes, STAT_mmsql_heap_lost_bytes},
        {PB_ProfilePacket_ProcessStats_uncounted_bytes, STAT_mmsql_heap_uncounted_bytes},
    };
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    while (wire_next(&reader, &field))
        for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
            if (field.number == losses[i].field)
                stats_set_at(stats, losses[i].stat, pid, field_i64(&field));
}

static void dump_stats(struct import *im, const struct wire_field *head, uint32_t pid, int64_t ts)
{
    enum { ERROR_HIT_TIMEOUT = 1 };
    static const struct {
        uint32_t field;
        enum stat stat;
    } flags[] = {
        {PB_ProfilePacket_ProcessHeapSamples_disconnected, STAT_heapprofd_client_disconnected},
        {PB_ProfilePacket_ProcessHeapSamples_buffer_corrupted, STAT_heapprofd_buffer_corrupted},
        {PB_ProfilePacket_ProcessHeapSamples_rejected_concurrent,
         STAT_heapprofd_rejected_concurrent},
        {PB_ProfilePacket_ProcessHeapSamples_hit_guardrail, STAT_heapprofd_hit_guardrail},
    };
    struct stats *stats = &im->stats;
    stats_set_at(stats, STAT_heapprofd_last_profile_timestamp, pid, ts);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (field_u64(&head[flags[i].field]))
            stats_add_at(stats, flags[i].stat, pid, 1);
    int64_t error = field_i64(&head[PB_ProfilePacket_ProcessHeapSamples_client_error]);
    if (error == ERROR_HIT_TIMEOUT ||
        field_u64(&head[PB_ProfilePacket_ProcessHeapSamples_buffer_overran]))
        stats_add_at(stats, STAT_heapprofd_buffer_overran, pid, 1);
    if (error)
        stats_set_at(stats, STAT_heapprofd_client_error, pid, error);
    uint64_t asked =
        field_u64(&head[PB_ProfilePacket_ProcessHeapSamples_orig_sampling_interval_bytes]);
    uint64_t interval =
        field_u64(&head[PB_ProfilePacket_ProcessHeapSamples_sampling_interval_bytes]);
    if (asked)
        stats_set_at(stats, STAT_heapprofd_sampling_interval_adjusted, pid,
                     (int64_t)(interval - asked));
    loss_stats(stats, pid, &head[PB_ProfilePacket_ProcessHeapSamples_stats]);
    MESSAGE(own, PB_ProfilePacket_ProcessStats_client_spinlock_blocked_us,
            &head[PB_ProfilePacket_ProcessHeapSamples_stats]);
    stats_add_at(stats, STAT_heapprofd_unwind_time_us, pid,
                 field_i64(&own[PB_ProfilePacket_ProcessStats_total_unwinding_time_us]));
    stats_add_at(stats, STAT_heapprofd_unwind_samples, pid,
                 field_i64(&own[PB_ProfilePacket_ProcessStats_heap_samples]));
    stats_add_at(stats, STAT_heapprofd_client_spinlock_blocked, pid,
                 field_i64(&own[PB_ProfilePacket_ProcessStats_client_spinlock_blocked_us]));
}

static int dump_read(struct import *im, struct profile *profile, const struct packet *packet,
                     const struct generation *own, const struct wire_field *message)
{
    MESSAGE(head, PB_ProfilePacket_ProcessHeapSamples_start_timestamp, message);
    const struct wire_field *heap = &head[PB_ProfilePacket_ProcessHeapSamples_heap_name];
    const struct wire_field *timestamp = &head[PB_ProfilePacket_ProcessHeapSamples_timestamp];
    uint32_t pid = (uint32_t)field_u64(&head[PB_ProfilePacket_ProcessHeapSamples_pid]);
    struct dump dump = {
        .upid = processes_process(&im->processes, pid),
        .ts = packet->ts,
        .heap = heap->size ? strset_add(&im->strings, field_text(heap), heap->size)
                           : strset_add(&im->strings, "unknown", 7),
        .counts_at_max =
            field_u64(&head[PB_ProfilePacket_ProcessHeapSamples_orig_sampling_interval_bytes]) != 0,
        .sources = {stack_source_profile_packet(own), stack_source_interned(packet->state)},
    };
    if (field_present(timestamp) &&
        !import_time(im, CLOCK_COARSE, field_i64(timestamp), &dump.ts)) {
        stats_add(&im->stats, STAT_clock_sync_failure_no_path, 1);
        return 0;
    }
    header_write(im, profile, &dump, &head[PB_ProfilePacket_ProcessHeapSamples_start_timestamp],
                 heap->size != 0);
    dump_stats(im, head, pid, packet->ts);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    int r = 0;
    // The number of `knows_frees` is too high for a table of fields; it comes before the samples.
    while (r == 0 && wire_next(&reader, &field))
        if (field.number == PB_ProfilePacket_ProcessHeapSamples_samples)
            r = sample_read(im, profile, &dump, &field);
        else if (field.number == PB_ProfilePacket_ProcessHeapSamples_knows_frees)
            dump.knows_frees = field.value != 0;
    return r;
}

// Packets of a sequence are numbered.
static int index_check(struct import *im, struct profile *profile, uint32_t sequence_id,
                       const struct wire_field *index)
{
    const uint64_t *last = map64_find(&profile->indexes, sequence_id);
    if (field_u64(index) != (last ? *last + 1 : 0))
        stats_add(&im->stats, STAT_heapprofd_missing_packet, 1);
    return map64_set(&profile->indexes, sequence_id, field_u64(index));
}

static int profile_packet_sorted(struct import *im, void *state, const struct packet *packet,
                                 const struct wire_field *message)
{
    struct profile *profile = state;
    struct sequence *own = sequences_get(&profile->own, im->machine->number, packet->sequence_id);
    int r = own ? sequence_intern(&profile->own, own, wire_sub(message)) : -ENOMEM;
    if (r < 0)
        return r;
    const struct generation *generation = sequences_generation(&profile->own, own->generation);
    MESSAGE(head, PB_ProfilePacket_index, message);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    while (r == 0 && wire_next(&reader, &field))
        if (field.number == PB_ProfilePacket_process_dumps)
            r = dump_read(im, profile, packet, generation, &field);
    if (r == 0)
        r = index_check(im, profile, packet->sequence_id, &head[PB_ProfilePacket_index]);
    profile->is_open = field_u64(&head[PB_ProfilePacket_continued]) != 0;
    if (r == 0 && !profile->is_open)
        dump_finish(im, profile);
    return r < 0 ? r : im->stacks.failure;
}

static int profile_packet_finish(struct import *im, void *state)
{
    const struct profile *profile = state;
    if (profile->is_open)
        stats_add(&im->stats, STAT_heapprofd_non_finalized_profile, 1);
    dump_finish(im, state);
    return im->stacks.failure;
}

static void profile_packet_done(void *state)
{
    struct profile *profile = state;
    strset_done(&profile->keys);
    heap_site_vec_done(&profile->sites);
    site_index_vec_done(&profile->touched);
    sequences_done(&profile->own);
    strset_done(&profile->headers);
    map64_done(&profile->indexes);
}

const struct importer importer_profile_packet = {
    .field = PB_TracePacket_profile_packet,
    .sorted = profile_packet_sorted,
    .state_size = sizeof(struct profile),
    .of_all_machines = true,
    .finish = profile_packet_finish,
    .done = profile_packet_done,
};
