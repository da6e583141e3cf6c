// SPDX-License-Identifier: Apache-2.0
//
// ProfilePacket: dumps of native heaps. A dump has totals since the start of the profile. A row has
// the difference to the previous dump. Allocations and frees have separate rows. A dump may take
// several packets of its sequence, so its totals are collected and become rows after the dump's
// last packet. Sequences are independent: several sequences may profile the same process.
//
// A recorder forgets a call chain after all its memory was freed. If the chain comes back, the
// chain has another iid, and totals from 0 on. A recorder that starts its interned data over also
// gives other iids, but then the totals go on. Totals are therefore kept by call site and iid. With
// the first dump of a new state, a new iid continues the totals of the previous iid, unless the new
// totals are smaller.
//
// Older producers put the interned data into the packet itself. The interned data are valid until
// the end of the dump, and may follow the samples that refer to the data. Such samples are read at
// the end of the dump.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/profile/deobfuscation.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

struct totals {
    uint64_t allocated, freed, n_allocs, n_frees;
};

// Totals of one call site in one heap, under one iid.
struct heap_site {
    int64_t upid, callsite, ts;
    uint32_t heap;  // name, in strings
    uint32_t group; // index in newest
    uint32_t epoch; // state of the interned data of the last dump
    uint32_t elder; // index of the site whose totals this site may continue; SITE_NONE
    bool touched;   // by the sequence's current dump
    bool knows_frees;
    uint32_t next_touched;
    struct totals now, before;
};
VEC_DEFINE(heap_site_vec, struct heap_site);
VEC_DEFINE(site_index_vec, uint32_t);

// A process's heap in a dump.
struct dump {
    int64_t upid, ts, start; // start: the recorder's time, which identifies the profile
    uint32_t heap;
    bool counts_at_max; // the recorder's self_max_count is right
    bool knows_frees;   // the recorder knows frees of the Java heap, too
};

// A sample whose callstack has not been read yet.
struct late_sample {
    struct dump dump;
    struct wire_field message;
};
VEC_DEFINE(late_sample_vec, struct late_sample);

#define SITE_NONE UINT32_MAX

struct heap_sequence {
    struct generation state;     // of its last packet
    struct interned_table own;   // of the current dump, from its own packets
    struct late_sample_vec late; // of the current dump
    uint64_t next_index;         // of its next packet
    uint32_t number;
    uint32_t first_touched, last_touched; // by the current dump; SITE_NONE
    bool is_open;                         // the current dump still lacks its last packet
};
VEC_DEFINE(heap_sequence_vec, struct heap_sequence);

struct profile {
    struct map64 by_sequence; // machine and sequence -> index in sequences
    struct heap_sequence_vec sequences;
    struct strset groups;         // sequence, process, heap, call site; ids are indexes in newest
    struct site_index_vec newest; // index of the group's last touched site; SITE_NONE
    struct strset keys;           // group and iid; ids are indexes in sites
    struct heap_site_vec sites;
    struct strset headers; // dumps with a row
    struct strset losses;  // process, heap, beginning of the profile, stat
    struct map64 lost;     // id in losses -> number of the last dump
};

static struct heap_sequence *sequence_of(struct import *im, struct profile *profile,
                                         uint32_t sequence_id)
{
    struct heap_sequence_vec *sequences = &profile->sequences;
    bool is_new;
    const uint64_t *index =
        map64_get_or_add(&profile->by_sequence, (uint64_t)im->machine->number << 32 | sequence_id,
                         sequences->n, &is_new);
    struct heap_sequence made = {
        .number = (uint32_t)sequences->n, .first_touched = SITE_NONE, .last_touched = SITE_NONE};
    if (!index || (is_new && heap_sequence_vec_push(sequences, made) < 0))
        return NULL;
    return &sequences->items[*index];
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

static bool totals_shrink(const struct totals *now, const struct totals *before)
{
    return now->allocated < before->allocated || now->freed < before->freed ||
           now->n_allocs < before->n_allocs || now->n_frees < before->n_frees;
}

static void site_write(struct import *im, const struct profile *profile, struct heap_site *site)
{
    struct totals now = site->now, before = site->before;
    site->touched = false;
    deobfuscation_user(im, site->callsite, site->upid);
    if (site->elder != SITE_NONE && !totals_shrink(&now, &profile->sites.items[site->elder].before))
        before = profile->sites.items[site->elder].before;
    // Totals never shrink, unless the dump is damaged.
    if (totals_shrink(&now, &before)) {
        stats_add_at(&im->stats, STAT_heapprofd_malformed_packet, (uint32_t)site->upid, 1);
        return;
    }
    allocation_write(im, site, (int64_t)(now.n_allocs - before.n_allocs),
                     (int64_t)(now.allocated - before.allocated));
    // ART does not report frees.
    if (site->knows_frees || !str_eq(strset_text(&im->strings, site->heap), "com.android.art"))
        allocation_write(im, site, (int64_t)(before.n_frees - now.n_frees),
                         (int64_t)(before.freed - now.freed));
    site->before = now;
}

// Puts the site into the sequence's chain of sites in the current dump.
static void site_chain(struct profile *profile, struct heap_sequence *sequence, uint32_t id)
{
    profile->sites.items[id].next_touched = SITE_NONE;
    if (sequence->last_touched == SITE_NONE)
        sequence->first_touched = id;
    else
        profile->sites.items[sequence->last_touched].next_touched = id;
    sequence->last_touched = id;
}

// Begins the totals of the site in a dump.
static void site_touch(struct profile *profile, const struct heap_sequence *sequence, uint32_t id)
{
    struct heap_site *site = &profile->sites.items[id];
    uint32_t *newest = &profile->newest.items[site->group], epoch = sequence->state.epoch;
    site->elder = SITE_NONE;
    if (*newest != SITE_NONE && *newest != id && profile->sites.items[*newest].epoch != epoch)
        site->elder = *newest;
    *newest = id;
    site->epoch = epoch;
    site->now = (struct totals){0};
    site->touched = true;
}

static uint32_t group_get(struct profile *profile, const struct heap_sequence *sequence,
                          const struct dump *dump, int64_t callsite)
{
    int64_t key[] = {sequence->number, dump->upid, dump->heap, callsite};
    uint32_t id = strset_add(&profile->groups, (const char *)key, sizeof(key));
    if (id == profile->newest.n && site_index_vec_push(&profile->newest, SITE_NONE) < 0)
        return SITE_NONE;
    return id < profile->newest.n ? id : SITE_NONE;
}

static struct heap_site *site_get(struct import *im, struct profile *profile,
                                  struct heap_sequence *sequence, const struct dump *dump,
                                  int64_t callsite, uint64_t iid)
{
    uint32_t group = group_get(profile, sequence, dump, callsite);
    uint64_t key[] = {group, iid};
    uint32_t id = group == SITE_NONE ? STRSET_NONE
                                     : strset_add(&profile->keys, (const char *)key, sizeof(key));
    struct heap_site site = {
        .upid = dump->upid, .heap = dump->heap, .callsite = callsite, .group = group};
    if (id == profile->sites.n && heap_site_vec_push(&profile->sites, site) < 0)
        return NULL;
    if (id >= profile->sites.n)
        return NULL;
    struct heap_site *found = &profile->sites.items[id];
    if (!found->touched) {
        site_chain(profile, sequence, id);
        site_touch(profile, sequence, id);
    } else if (found->ts != dump->ts) { // the packet has several dumps of the heap
        site_write(im, profile, found);
        site_touch(profile, sequence, id);
    }
    found->ts = dump->ts;
    found->knows_frees = dump->knows_frees;
    return found;
}

static void sample_count(struct totals *now, const union message_ProfilePacket_HeapSample *sample,
                         bool counts_at_max)
{
    if (field_present(&sample->self_max)) {
        now->allocated += field_u64(&sample->self_max);
        if (counts_at_max)
            now->n_allocs += field_u64(&sample->self_max_count);
        return;
    }
    now->allocated += field_u64(&sample->self_allocated);
    now->freed += field_u64(&sample->self_freed);
    now->n_allocs += field_u64(&sample->alloc_count);
    now->n_frees += field_u64(&sample->free_count);
}

// Adds a sample to the totals of its site. `is_last`: all interned data of the dump are known.
static void sample_read(struct import *im, struct profile *profile, struct heap_sequence *sequence,
                        const struct dump *dump, const struct wire_field *message, bool is_last)
{
    MESSAGE(sample, ProfilePacket_HeapSample, message);
    uint64_t callstack = field_u64(&sample.callstack_id);
    struct generation with_own = {.interned = &sequence->own};
    struct stack_source own = stack_source_profile_packet(&with_own),
                        interned = stack_source_interned(&sequence->state);
    bool is_own = stacks_has_callstack(&own, callstack);
    // Samples after a late sample wait as well: the samples of a call site keep their order.
    if (!is_last &&
        (sequence->late.n || (!is_own && !stacks_has_callstack(&interned, callstack)))) {
        import_fail(im,
                    late_sample_vec_push(&sequence->late, (struct late_sample){*dump, *message}));
        return;
    }
    int64_t callsite = stacks_callsite(im, is_own ? &own : &interned, callstack);
    if (callsite == CALLSITE_NONE)
        return;
    struct heap_site *site = site_get(im, profile, sequence, dump, callsite, callstack);
    if (!site) {
        import_fail(im, -ENOMEM);
        return;
    }
    sample_count(&site->now, &sample, dump->counts_at_max);
}

// Turns the collected dump into rows.
static void dump_finish(struct import *im, struct profile *profile, struct heap_sequence *sequence)
{
    for (size_t i = 0; i < sequence->late.n && !import_failed(im); i++) {
        const struct late_sample *late = &sequence->late.items[i];
        sample_read(im, profile, sequence, &late->dump, &late->message, true);
    }
    for (uint32_t i = sequence->first_touched; i != SITE_NONE;
         i = profile->sites.items[i].next_touched)
        site_write(im, profile, &profile->sites.items[i]);
    sequence->first_touched = sequence->last_touched = SITE_NONE;
    late_sample_vec_done(&sequence->late);
    interned_table_done(&sequence->own);
}

static int64_t coarse_time(struct import *im, const struct wire_field *timestamp, int64_t otherwise)
{
    int64_t ts = otherwise;
    if (field_present(timestamp))
        import_time(im, PB_BUILTIN_CLOCK_MONOTONIC_COARSE, field_i64(timestamp), &ts);
    return ts;
}

static void header_write(struct import *im, struct profile *profile, const struct dump *dump,
                         const struct wire_field *start, bool has_heap)
{
    int64_t key[] = {dump->upid, dump->ts, has_heap ? (int64_t)dump->heap : -1};
    bool is_new;
    import_set_add(im, &profile->headers, key, sizeof(key), &is_new);
    if (!is_new) // the packet continues a dump
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

// Adds a number of losses to a stat. The numbers of a profile grow from dump to dump, and the
// recorder reports them for the profile's first heap only. A process may have several profiles
// (native heaps, Java heap, the previous program): the stat is the sum over profiles.
static void loss_add(struct import *im, struct profile *profile, const struct dump *dump,
                     uint32_t pid, const int64_t *figure)
{
    enum stat stat = (enum stat)figure[0];
    int64_t key[] = {dump->upid, dump->heap, dump->start, stat};
    uint32_t id = strset_add(&profile->losses, (const char *)key, sizeof(key));
    bool is_new;
    uint64_t *last = id == STRSET_NONE ? NULL : map64_get_or_add(&profile->lost, id, 0, &is_new);
    if (!last)
        return;
    stats_add_at(&im->stats, stat, pid, (int64_t)((uint64_t)figure[1] - *last));
    *last = (uint64_t)figure[1];
}

// Reads the losses. The fields' numbers are too high for a table of fields.
static void loss_stats(struct import *im, struct profile *profile, const struct dump *dump,
                       uint32_t pid, const struct wire_field *message)
{
    static const struct {
        uint32_t field;
        enum stat stat;
    } losses[] = {
        {PB_ProfilePacket_ProcessStats_lost_allocations, STAT_mmsql_heap_lost_allocations},
        {PB_ProfilePacket_ProcessStats_lost_frees, STAT_mmsql_heap_lost_frees},
        {PB_ProfilePacket_ProcessStats_lost_bytes, STAT_mmsql_heap_lost_bytes},
        {PB_ProfilePacket_ProcessStats_uncounted_bytes, STAT_mmsql_heap_uncounted_bytes},
        {PB_ProfilePacket_ProcessStats_names_refused, STAT_mmsql_heap_names_refused},
    };
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    while (wire_next(&reader, &field))
        for (size_t i = 0; i < ELEMENTS(losses); i++)
            if (field.number == losses[i].field)
                loss_add(im, profile, dump, pid,
                         (const int64_t[]){losses[i].stat, field_i64(&field)});
}

static void dump_stats(struct import *im, struct profile *profile, const struct dump *dump,
                       const union message_ProfilePacket_ProcessHeapSamples *head, uint32_t pid,
                       int64_t ts)
{
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
    for (size_t i = 0; i < ELEMENTS(flags); i++)
        if (field_u64(&head->at[flags[i].field]))
            stats_add_at(stats, flags[i].stat, pid, 1);
    int64_t error = field_i64(&head->client_error);
    if (error == PB_CLIENT_ERROR_HIT_TIMEOUT || field_u64(&head->buffer_overran))
        stats_add_at(stats, STAT_heapprofd_buffer_overran, pid, 1);
    if (error)
        stats_set_at(stats, STAT_heapprofd_client_error, pid, error);
    uint64_t asked = field_u64(&head->orig_sampling_interval_bytes);
    uint64_t interval = field_u64(&head->sampling_interval_bytes);
    if (asked)
        stats_set_at(stats, STAT_heapprofd_sampling_interval_adjusted, pid,
                     (int64_t)(interval - asked));
    loss_stats(im, profile, dump, pid, &head->stats);
    MESSAGE(own, ProfilePacket_ProcessStats, &head->stats);
    stats_add_at(stats, STAT_heapprofd_unwind_time_us, pid,
                 field_i64(&own.total_unwinding_time_us));
    stats_add_at(stats, STAT_heapprofd_unwind_samples, pid, field_i64(&own.heap_samples));
    stats_add_at(stats, STAT_heapprofd_client_spinlock_blocked, pid,
                 field_i64(&own.client_spinlock_blocked_us));
}

static void dump_read(struct import *im, struct profile *profile, struct heap_sequence *sequence,
                      const struct packet *packet, const struct wire_field *message)
{
    MESSAGE(head, ProfilePacket_ProcessHeapSamples, message);
    const struct wire_field *heap = &head.heap_name;
    uint32_t pid = (uint32_t)field_u64(&head.pid);
    struct dump dump = {
        .ts = packet->ts,
        .start = field_i64(&head.start_timestamp),
        .heap = heap->size ? import_keep(im, heap) : strset_add_text(&im->strings, TEXT("unknown")),
        .counts_at_max = field_u64(&head.orig_sampling_interval_bytes) != 0,
    };
    // As in all of protobuf, a missing time is 0.
    if (!field_present(&head.timestamp))
        import_time(im, PB_BUILTIN_CLOCK_MONOTONIC_COARSE, 0, &dump.ts);
    else if (!import_time_counted(im, PB_BUILTIN_CLOCK_MONOTONIC_COARSE, field_i64(&head.timestamp),
                                  &dump.ts))
        return;
    dump.upid = processes_process(&im->processes, pid);
    header_write(im, profile, &dump, &head.start_timestamp, heap->size != 0);
    dump_stats(im, profile, &dump, &head, pid, packet->ts);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    // The number of `knows_frees` is too high for a table of fields. The field precedes the
    // samples.
    while (!import_failed(im) && wire_next(&reader, &field))
        if (field.number == PB_ProfilePacket_ProcessHeapSamples_samples)
            sample_read(im, profile, sequence, &dump, &field, false);
        else if (field.number == PB_ProfilePacket_ProcessHeapSamples_knows_frees)
            dump.knows_frees = field.value != 0;
}

// Counts gaps in the numbers of a sequence's packets.
static void index_check(struct import *im, struct heap_sequence *sequence,
                        const struct wire_field *index)
{
    if (field_u64(index) != sequence->next_index)
        stats_add(&im->stats, STAT_heapprofd_missing_packet, 1);
    sequence->next_index = field_u64(index) + 1;
}

static void profile_packet_sorted(struct import *im, const struct packet *packet)
{
    struct profile *profile = packet->own;
    struct heap_sequence *sequence = sequence_of(im, profile, packet->sequence_id);
    if (!sequence) {
        import_fail(im, -ENOMEM);
        return;
    }
    sequence->state = *packet->state;
    MESSAGE(head, ProfilePacket, packet->message);
    bool has_own = field_present(&head.strings) || field_present(&head.mappings) ||
                   field_present(&head.frames) || field_present(&head.callstacks);
    int r = has_own ? interned_table_read(&sequence->own, wire_sub(packet->message), NULL) : 0;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    while (r == 0 && wire_next(&reader, &field))
        if (field.number == PB_ProfilePacket_process_dumps)
            dump_read(im, profile, sequence, packet, &field);
    index_check(im, sequence, &head.index);
    sequence->is_open = field_u64(&head.continued) != 0;
    if (r == 0 && !sequence->is_open)
        dump_finish(im, profile, sequence);
    import_fail(im, r);
}

static void profile_packet_finish(struct import *im, void *state)
{
    struct profile *profile = state;
    for (size_t i = 0; i < profile->sequences.n && !import_failed(im); i++) {
        struct heap_sequence *sequence = &profile->sequences.items[i];
        if (!sequence->is_open)
            continue;
        stats_add(&im->stats, STAT_heapprofd_non_finalized_profile, 1);
        dump_finish(im, profile, sequence);
    }
}

static void profile_packet_done(void *state)
{
    struct profile *profile = state;
    vec_foreach(&profile->sequences, sequence) {
        late_sample_vec_done(&sequence->late);
        interned_table_done(&sequence->own);
    }
    heap_sequence_vec_done(&profile->sequences);
    map64_done(&profile->by_sequence);
    strset_done(&profile->groups);
    site_index_vec_done(&profile->newest);
    strset_done(&profile->keys);
    heap_site_vec_done(&profile->sites);
    strset_done(&profile->headers);
    strset_done(&profile->losses);
    map64_done(&profile->lost);
}

const struct importer importer_profile_packet = {
    .field = PB_TracePacket_profile_packet,
    .sorted = profile_packet_sorted,
    .state_size = sizeof(struct profile),
    .of_all_machines = true,
    .finish = profile_packet_finish,
    .done = profile_packet_done,
};
