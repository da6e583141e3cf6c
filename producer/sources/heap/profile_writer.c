// SPDX-License-Identifier: Apache-2.0
//
// Interned data comes first, for all processes, then the samples: a reader that goes through the
// packets once has everything that a sample refers to. A dump is split where a packet is full; all
// but its last ProfilePacket say that the dump continues.
//
// Samples are totals since the profile began. trace_processor subtracts the totals of the previous
// dump, and drops these totals where the sequence's state begins anew. The state therefore begins
// once per recording: the ids of texts, mappings, frames and callstacks stay, and a dump has only
// the interned data that no earlier dump had. A ring keeps all interned data beside itself.
//
// The state must begin anew in two cases: after a loss, because readers ignore everything until a
// new state; and when the interned data outgrow their part of the room beside the ring
// (interned_stacks.c).
#include "producer/sources/heap/profile_writer.h"

#include <string.h>

#include "common/cleanup.h"
#include "protos/fields.h"

#define PACKET_ROOM     (64u << 10)
#define PACKET_ROOM_MIN 16384
#define SITE_IIDS       (UINT32_MAX / 2)

struct dump {
    struct profile_writer *profile;
    struct packet_writer *writer;
    nsec_t now, now_coarse;
    bool failed;
};

// Interned data.

static uint64_t mapping_iid(struct dump *dump, struct heap_book *book, struct book_mapping *mapping)
{
    if (mapping->iid)
        return mapping->iid;
    const struct strset_entry *id = &book->texts.entries[mapping->build_id];
    const struct interned_mapping is = {mapping->start, mapping->end, mapping->file_offset,
                                        mapping->load_bias};
    mapping->iid = ++dump->profile->n_mappings;
    interned_mapping(&dump->profile->interned, mapping->iid, &is,
                     strset_text(&book->texts, mapping->path), id->text, id->size);
    return mapping->iid;
}

// Returns the id of the mapping for code without a file. The mapping spans everything, so that
// frames keep their addresses.
static uint64_t nowhere_iid(struct dump *dump, struct heap_book *book, const char *path)
{
    static const struct interned_mapping nowhere = {.end = UINT64_C(1) << 63};
    if (book->nowhere_iid)
        return book->nowhere_iid;
    book->nowhere_iid = ++dump->profile->n_mappings;
    interned_mapping(&dump->profile->interned, book->nowhere_iid, &nowhere, path, "", 0);
    return book->nowhere_iid;
}

static void intern_frame(struct dump *dump, const struct profile_process *process,
                         struct book_frame *frame)
{
    if (frame->iid)
        return;
    struct heap_book *book = process->book;
    const char *name = NULL;
    uint64_t mapping;
    if (frame->mapping == BOOK_METHOD) {
        mapping = nowhere_iid(dump, book, "[anon:jit]");
        name = frame->name == STRSET_NONE ? NULL : strset_text(&book->texts, frame->name);
    } else if (frame->mapping == BOOK_NO_MAPPING) {
        mapping = nowhere_iid(dump, book, "[anon]");
    } else {
        struct book_mapping *of = &book->mappings.items[frame->mapping];
        mapping = mapping_iid(dump, book, of);
        if (dump->profile->name)
            name = dump->profile->name(dump->profile->userdata, frame);
    }
    frame->iid = ++dump->profile->n_frames;
    interned_frame(&dump->profile->interned, frame->iid, mapping, frame->rel_pc, name);
}

static bool has_samples(const struct book_site *site)
{
    return site->n_allocs > 0;
}

// Ids of an earlier state are invalid in this one.
static void forget_ids(const struct profile_writer *profile, struct heap_book *book)
{
    if (book->state == profile->state)
        return;
    book->state = profile->state;
    book->nowhere_iid = 0;
    vec_foreach(&book->frames, frame)
        frame->iid = 0;
    vec_foreach(&book->mappings, mapping)
        mapping->iid = 0;
    vec_foreach(&book->sites, site)
        site->iid = 0;
}

struct stack {
    const struct heap_book *book;
    const uint32_t *sites; // innermost first
    size_t n;
};

static uint64_t frame_iid(const void *userdata, size_t i)
{
    const struct stack *stack = userdata;
    uint32_t site = stack->sites[stack->n - 1 - i];
    return stack->book->frames.items[stack->book->sites.items[site].frame].iid;
}

static void intern_site(struct dump *dump, const struct profile_process *process, uint32_t site)
{
    struct heap_book *book = process->book;
    uint32_t sites[HEAP_FRAMES_MAX];
    size_t n = 0;
    for (uint32_t at = site; at && n < HEAP_FRAMES_MAX; at = book->sites.items[at].parent)
        sites[n++] = at;
    for (size_t i = 0; i < n; i++)
        intern_frame(dump, process, &book->frames.items[book->sites.items[sites[i]].frame]);
    uint32_t iid = ++dump->profile->n_sites;
    book->sites.items[site].iid = iid;
    const struct stack stack = {book, sites, n};
    interned_callstack(&dump->profile->interned, iid, n, frame_iid, &stack);
    dump->failed |= dump->profile->interned.failed;
}

static void intern_sites(struct dump *dump, const struct profile_process *process)
{
    const struct book_site_vec *sites = &process->book->sites;
    forget_ids(dump->profile, process->book);
    for (size_t i = 0; i < sites->n && !dump->failed; i++)
        if (has_samples(&sites->items[i]) && !sites->items[i].iid)
            intern_site(dump, process, (uint32_t)i);
}

// Samples.

static void put_loss(struct wire_writer *w, const struct profile_process *process)
{
    if (process->names_refused)
        wire_uint(w, PB_ProfilePacket_ProcessStats_names_refused, 1);
    if (!process->buffer_overran && !process->n_lost_frees)
        return;
    wire_uint(w, PB_ProfilePacket_ProcessStats_lost_allocations, process->n_lost_allocs);
    wire_uint(w, PB_ProfilePacket_ProcessStats_lost_frees, process->n_lost_frees);
    wire_uint(w, PB_ProfilePacket_ProcessStats_lost_bytes, process->lost_bytes);
    wire_uint(w, PB_ProfilePacket_ProcessStats_uncounted_bytes, process->owed_bytes);
}

static void put_stats_of_process(struct wire_writer *w, const struct profile_process *process)
{
    wire_uint(w, PB_ProfilePacket_ProcessStats_unwinding_errors, process->n_unwind_errors);
    size_t histogram = wire_begin(w, PB_ProfilePacket_ProcessStats_unwinding_time_us);
    for (size_t i = 0; process->unwind_buckets && i < HEAP_TIME_BUCKETS; i++) {
        size_t bucket = wire_begin(w, PB_ProfilePacket_Histogram_buckets);
        if (i < HEAP_TIME_BUCKETS - 1)
            wire_uint(w, PB_ProfilePacket_Histogram_Bucket_upper_limit, UINT64_C(1) << i);
        else
            wire_uint(w, PB_ProfilePacket_Histogram_Bucket_max_bucket, 1);
        wire_uint(w, PB_ProfilePacket_Histogram_Bucket_count, process->unwind_buckets[i]);
        wire_end(w, bucket);
    }
    wire_end(w, histogram);
    wire_uint(w, PB_ProfilePacket_ProcessStats_total_unwinding_time_us, process->unwind_us);
    wire_uint(w, PB_ProfilePacket_ProcessStats_client_spinlock_blocked_us, process->blocked_us);
    put_loss(w, process);
}

static void put_stats(struct wire_writer *w, const struct profile_process *process)
{
    size_t mark = wire_begin(w, PB_ProfilePacket_ProcessHeapSamples_stats);
    wire_uint(w, PB_ProfilePacket_ProcessStats_heap_samples, process->n_samples);
    if (!process->is_further)
        put_stats_of_process(w, process);
    wire_end(w, mark);
}

static void put_head(const struct dump *dump, struct wire_writer *w,
                     const struct profile_process *process)
{
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_pid, (uint64_t)process->pid);
    wire_string(w, PB_ProfilePacket_ProcessHeapSamples_heap_name, process->heap_name);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_from_startup, process->from_startup);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_rejected_concurrent,
              process->rejected_concurrent);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_disconnected, process->disconnected);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_buffer_overran, process->buffer_overran);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_buffer_corrupted, process->buffer_corrupted);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_hit_guardrail, process->hit_guardrail);
    if (process->hit_timeout)
        wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_client_error, 1);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_timestamp, (uint64_t)dump->now_coarse);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_start_timestamp,
              (uint64_t)process->start_coarse);
    wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_sampling_interval_bytes,
              process->interval_bytes);
    if (process->orig_interval_bytes)
        wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_orig_sampling_interval_bytes,
                  process->orig_interval_bytes);
    if (process->book->has_methods)
        wire_uint(w, PB_ProfilePacket_ProcessHeapSamples_knows_frees, 1);
    put_stats(w, process);
}

static void put_sample(const struct dump *dump, struct wire_writer *w, const struct heap_book *book,
                       const struct book_site *site)
{
    size_t mark = wire_begin(w, PB_ProfilePacket_ProcessHeapSamples_samples);
    wire_uint(w, PB_ProfilePacket_HeapSample_callstack_id, site->iid);
    if (dump->profile->dump_at_max) {
        struct book_peak peak = heap_book_at_peak(book, site);
        wire_uint(w, PB_ProfilePacket_HeapSample_self_max, peak.bytes);
        wire_uint(w, PB_ProfilePacket_HeapSample_self_max_count, peak.n);
    } else {
        wire_uint(w, PB_ProfilePacket_HeapSample_self_allocated, site->allocated);
        wire_uint(w, PB_ProfilePacket_HeapSample_self_freed, site->freed);
        wire_uint(w, PB_ProfilePacket_HeapSample_alloc_count, site->n_allocs);
        wire_uint(w, PB_ProfilePacket_HeapSample_free_count, site->n_frees);
    }
    wire_end(w, mark);
}

// Writes one ProfilePacket from site *at on, and moves *at past its last site. Returns false if
// the buffer refuses the packet.
static bool write_part(struct dump *dump, const struct profile_process *process, size_t *at,
                       bool is_last_process)
{
    const struct heap_book *book = process->book;
    struct wire_writer *w =
        packet_writer_begin_range(dump->writer, dump->now, PACKET_ROOM_MIN, PACKET_ROOM);
    if (!w)
        return false;
    size_t packet = wire_begin(w, PB_TracePacket_profile_packet);
    wire_uint(w, PB_ProfilePacket_index, dump->profile->next_index++);
    size_t mark = wire_begin(w, PB_ProfilePacket_process_dumps);
    put_head(dump, w, process);
    for (; *at < book->sites.n; (*at)++) {
        const struct book_site *site = &book->sites.items[*at];
        if (!has_samples(site))
            continue;
        if (wire_room(w) < 128)
            break;
        put_sample(dump, w, book, site);
    }
    wire_end(w, mark);
    if (*at < book->sites.n || !is_last_process)
        wire_uint(w, PB_ProfilePacket_continued, 1);
    wire_end(w, packet);
    return packet_writer_end(dump->writer);
}

static void write_samples(struct dump *dump, const struct profile_process *process, bool is_last)
{
    size_t at = 0;
    do {
        if (!write_part(dump, process, &at, is_last)) {
            dump->failed = true;
            return;
        }
    } while (at < process->book->sites.n);
}

static void begin_state(struct profile_writer *profile)
{
    profile->state++;
    profile->n_mappings = profile->n_frames = 0;
    profile->n_sites = 0;
    interned_stacks_begin(&profile->interned);
}

// Returns whether readers can still use the state. A lost packet may also belong to another user of
// the sequence.
static bool is_state_good(const struct profile_writer *profile)
{
    const struct interned_stacks *interned = &profile->interned;
    return profile->state && !profile->failed && profile->n_sites < SITE_IIDS &&
           interned_stacks_is_whole(interned) && interned->bytes <= interned->retain_max;
}

void profile_take(struct profile_writer *profile)
{
    profile->taken = nsec_now(CLOCK_BOOTTIME);
    profile->taken_coarse = nsec_now(CLOCK_MONOTONIC_COARSE);
}

bool profile_write(struct profile_writer *profile, const struct profile_process *processes,
                   size_t n)
{
    if (!profile->taken)
        profile_take(profile);
    struct dump dump = {
        .profile = profile,
        .writer = profile->writer,
        .now = profile->taken,
        .now_coarse = profile->taken_coarse,
    };
    profile->taken = 0;
    profile->interned.writer = profile->writer;
    profile->interned.retain_max = interned_stacks_retainable(profile->writer);
    profile->interned.now = dump.now;
    if (!is_state_good(profile))
        begin_state(profile);
    for (size_t i = 0; i < n; i++)
        intern_sites(&dump, &processes[i]);
    interned_stacks_end(&profile->interned);
    dump.failed |= profile->interned.failed;
    for (size_t i = 0; i < n && !dump.failed; i++)
        write_samples(&dump, &processes[i], i == n - 1);
    profile->failed = dump.failed;
    return !dump.failed;
}

void profile_writer_done(struct profile_writer *profile)
{
    interned_stacks_done(&profile->interned);
}
