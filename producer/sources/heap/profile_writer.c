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
// The state must begin anew in two cases. After a loss, readers ignore everything until a new
// state. And the interned data may outgrow its part of the room beside the ring: it would displace
// the process names of other sources, and its own beginning. Packets beyond this part are not kept,
// and the next dump begins a new state.
#include "producer/sources/heap/profile_writer.h"

#include <string.h>

#include "common/cleanup.h"
#include "protos/fields.h"

#define PACKET_ROOM     (64u << 10)
#define PACKET_ROOM_MIN 16384 // for one callstack or one path
#define KEY_INTERNED    1     // key of the data that survive the ring
#define PART_OF_STORE   2     // interned data take at most 1 / 2 of the room beside the ring
#define SITE_IIDS       (UINT32_MAX / 2)

static const uint32_t text_fields[PROFILE_TEXT_KINDS] = {
    [PROFILE_BUILD_ID] = PB_InternedData_build_ids,
    [PROFILE_PATH] = PB_InternedData_mapping_paths,
    [PROFILE_FUNCTION] = PB_InternedData_function_names,
};

struct dump {
    struct profile_writer *profile;
    struct packet_writer *writer;
    struct wire_writer *w; // of the open packet; NULL: none
    size_t mark;           // of its interned_data
    nsec_t now, now_coarse;
    bool failed;
};

// Interned data.

static bool begin_interned(struct dump *dump)
{
    dump->w = packet_writer_begin_range(dump->writer, dump->now, PACKET_ROOM_MIN, PACKET_ROOM);
    if (!dump->w) {
        dump->failed = true;
        return false;
    }
    dump->mark = wire_begin(dump->w, PB_TracePacket_interned_data);
    return true;
}

static uint64_t interned_max(const struct profile_writer *profile)
{
    uint64_t retainable = packet_buffer_retainable_bytes(profile->writer->buffer);
    return retainable / PART_OF_STORE;
}

// Counts the bytes of the open packet. Returns its rule.
static enum packet_retain retain_rule(struct dump *dump)
{
    struct profile_writer *profile = dump->profile;
    bool is_first = profile->interned_bytes == 0;
    profile->interned_bytes += wire_size(dump->w);
    if (profile->interned_bytes > interned_max(profile))
        return PACKET_PLAIN;
    return is_first ? PACKET_RETAIN_REPLACE : PACKET_RETAIN_APPEND;
}

static void end_interned(struct dump *dump)
{
    if (!dump->w)
        return;
    wire_end(dump->w, dump->mark);
    enum packet_retain rule = retain_rule(dump);
    dump->failed |= rule == PACKET_PLAIN
                        ? !packet_writer_end(dump->writer)
                        : !packet_writer_end_retained(dump->writer, rule, KEY_INTERNED);
    dump->w = NULL;
}

// Runs a statement until its output is in a packet: a new packet at the second try.
#define WRITE_INTERNED(dump, ...)                                                                  \
    for (int try_ = 0; try_ < 2 && ((dump)->w || begin_interned(dump)); try_++) {                  \
        size_t checkpoint_ = wire_checkpoint((dump)->w);                                           \
        __VA_ARGS__;                                                                               \
        if (!(dump)->w->overflow && wire_room((dump)->w) >= 8)                                     \
            break;                                                                                 \
        wire_rollback((dump)->w, checkpoint_);                                                     \
        end_interned(dump);                                                                        \
        (dump)->failed |= try_ == 1;                                                               \
    }

static void put_text(struct wire_writer *w, uint32_t field, uint64_t iid, const char *text,
                     size_t size)
{
    size_t mark = wire_begin(w, field);
    wire_uint(w, PB_InternedString_iid, iid);
    wire_bytes(w, PB_InternedString_str, text, size);
    wire_end(w, mark);
}

static uint64_t intern_text(struct dump *dump, enum profile_text kind, const char *text,
                            size_t size)
{
    struct strset *texts = &dump->profile->texts[kind];
    size_t n = texts->n;
    uint32_t id = strset_add(texts, text, size);
    if (id == STRSET_NONE) {
        dump->failed = true;
        return 0;
    }
    if (texts->n > n)
        WRITE_INTERNED(dump, put_text(dump->w, text_fields[kind], id + 1, text, size));
    return id + 1;
}

#define PARTS_MAX 128

static size_t intern_path(struct dump *dump, const char *path, uint64_t *parts)
{
    size_t n = 0;
    while (*path && n < PARTS_MAX) {
        size_t size = strcspn(path, "/");
        if (size > 0)
            parts[n++] = intern_text(dump, PROFILE_PATH, path, size);
        path += size + (path[size] == '/');
    }
    return n;
}

static void put_mapping(struct wire_writer *w, const struct book_mapping *mapping,
                        uint64_t build_id, const uint64_t *parts, size_t n_parts)
{
    size_t mark = wire_begin(w, PB_InternedData_mappings);
    wire_uint(w, PB_Mapping_iid, mapping->iid);
    wire_uint(w, PB_Mapping_build_id, build_id);
    wire_uint(w, PB_Mapping_start_offset, 0);
    wire_uint(w, PB_Mapping_start, mapping->start);
    wire_uint(w, PB_Mapping_end, mapping->end);
    wire_uint(w, PB_Mapping_load_bias, mapping->load_bias);
    for (size_t i = 0; i < n_parts; i++)
        wire_uint(w, PB_Mapping_path_string_ids, parts[i]);
    wire_uint(w, PB_Mapping_exact_offset, mapping->file_offset);
    wire_end(w, mark);
}

static uint64_t intern_mapping(struct dump *dump, struct heap_book *book,
                               struct book_mapping *mapping)
{
    if (mapping->iid)
        return mapping->iid;
    uint64_t parts[PARTS_MAX];
    const struct strset_entry *id = &book->texts.entries[mapping->build_id];
    uint64_t build_id = intern_text(dump, PROFILE_BUILD_ID, id->text, id->size);
    size_t n = intern_path(dump, strset_text(&book->texts, mapping->path), parts);
    mapping->iid = ++dump->profile->n_mappings;
    WRITE_INTERNED(dump, put_mapping(dump->w, mapping, build_id, parts, n));
    return mapping->iid;
}

// For code without a file: one mapping spans everything, so that frames keep their addresses.
static uint64_t intern_nowhere(struct dump *dump, struct heap_book *book, const char *path)
{
    if (book->nowhere_iid)
        return book->nowhere_iid;
    struct book_mapping nowhere = {.end = UINT64_C(1) << 63, .iid = ++dump->profile->n_mappings};
    uint64_t build_id = intern_text(dump, PROFILE_BUILD_ID, "", 0);
    uint64_t part = intern_text(dump, PROFILE_PATH, path, strlen(path));
    WRITE_INTERNED(dump, put_mapping(dump->w, &nowhere, build_id, &part, 1));
    book->nowhere_iid = nowhere.iid;
    return nowhere.iid;
}

static void put_frame(struct wire_writer *w, const struct book_frame *frame, uint64_t mapping,
                      uint64_t function)
{
    size_t mark = wire_begin(w, PB_InternedData_frames);
    wire_uint(w, PB_Frame_iid, frame->iid);
    wire_uint(w, PB_Frame_function_name_id, function);
    wire_uint(w, PB_Frame_mapping_id, mapping);
    wire_uint(w, PB_Frame_rel_pc, frame->rel_pc);
    wire_end(w, mark);
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
        mapping = intern_nowhere(dump, book, "[anon:jit]");
        name = frame->name == STRSET_NONE ? NULL : strset_text(&book->texts, frame->name);
    } else if (frame->mapping == BOOK_NO_MAPPING) {
        mapping = intern_nowhere(dump, book, "[anon]");
    } else {
        struct book_mapping *of = &book->mappings.items[frame->mapping];
        mapping = intern_mapping(dump, book, of);
        if (dump->profile->name)
            name = dump->profile->name(dump->profile->userdata, frame);
    }
    uint64_t function =
        intern_text(dump, PROFILE_FUNCTION, name ? name : "", name ? strlen(name) : 0);
    frame->iid = ++dump->profile->n_frames;
    WRITE_INTERNED(dump, put_frame(dump->w, frame, mapping, function));
}

static void put_callstack(struct wire_writer *w, const struct heap_book *book, uint64_t iid,
                          const uint32_t *sites, size_t n)
{
    size_t mark = wire_begin(w, PB_InternedData_callstacks);
    wire_uint(w, PB_Callstack_iid, iid);
    while (n-- > 0)
        wire_uint(w, PB_Callstack_frame_ids,
                  book->frames.items[book->sites.items[sites[n]].frame].iid);
    wire_end(w, mark);
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
    WRITE_INTERNED(dump, put_callstack(dump->w, book, iid, sites, n));
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

static void forget_texts(struct profile_writer *profile)
{
    for (int i = 0; i < PROFILE_TEXT_KINDS; i++) {
        strset_done(&profile->texts[i]);
        profile->texts[i] = (struct strset){0};
    }
}

static void begin_state(struct profile_writer *profile)
{
    forget_texts(profile);
    profile->state++;
    profile->n_mappings = profile->n_frames = profile->interned_bytes = 0;
    profile->n_sites = 0;
    profile->n_dropped = profile->writer->packets_dropped;
    packet_writer_clear_state(profile->writer);
}

// Returns whether readers can still use the state. A lost packet may also be of another user of the
// sequence.
static bool is_state_good(const struct profile_writer *profile)
{
    return profile->state && !profile->failed && profile->n_sites < SITE_IIDS &&
           profile->n_dropped == profile->writer->packets_dropped &&
           profile->interned_bytes <= interned_max(profile);
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
    if (!is_state_good(profile))
        begin_state(profile);
    for (size_t i = 0; i < n; i++)
        intern_sites(&dump, &processes[i]);
    end_interned(&dump);
    for (size_t i = 0; i < n && !dump.failed; i++)
        write_samples(&dump, &processes[i], i == n - 1);
    profile->failed = dump.failed;
    return !dump.failed;
}

void profile_writer_done(struct profile_writer *profile)
{
    forget_texts(profile);
}
