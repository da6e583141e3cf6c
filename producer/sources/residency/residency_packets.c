// SPDX-License-Identifier: Apache-2.0
//
// The keys follow from the packets that a wrapped ring still needs: the introduction of a file
// (replaced by a new introduction), its last complete list with the differences since (a complete
// list replaces, differences append; with counts only, the last sample), the descriptor of its
// track, and the track's last value. Even the end of a ring has the state of a file that has not
// changed for hours. When a file is gone, one packet per key removes the kept packets.
//
// The first part of a list replaces; further parts append under the same key, so that parts stay
// together.
#include "producer/sources/residency/residency_packets.h"

#include <string.h>

#include "common/map.h"
#include "common/page_runs.h"
#include "protos/fields.h"

// Bytes of a packet: a part without its runs, the smallest part, and the largest part.
#define SAMPLE_ROOM 192
#define PART_MIN    (SAMPLE_ROOM + 64)
#define PART_MAX    32768

enum key_kind { KEY_FILE, KEY_SAMPLE, KEY_TRACK, KEY_COUNTER };

static uint64_t key_of(uint32_t file_id, enum key_kind kind)
{
    return (uint64_t)file_id << 2 | kind;
}

// Unique for the file and the sequence, so that two sources in one trace do not share a track.
static uint64_t track_uuid(const struct packet_writer *writer,
                           const struct residency_file_info *file)
{
    const uint64_t what[] = {0x7265736964656e74, // "resident"
                             writer->sequence_id, file->id, file->device, file->inode};
    uint64_t uuid = hash_bytes(what, sizeof(what));
    return uuid ? uuid : 1;
}

bool packets_write_file(struct packet_writer *writer, nsec_t timestamp,
                        const struct residency_file_info *file)
{
    struct wire_writer *w = packet_writer_begin_message(writer, timestamp, strlen(file->path) + 96,
                                                        PB_TracePacket_page_residency);
    if (!w)
        return false;
    size_t mark = wire_begin(w, PB_PageResidency_files);
    wire_uint(w, PB_PageResidency_File_id, file->id);
    wire_string(w, PB_PageResidency_File_path, file->path);
    wire_uint(w, PB_PageResidency_File_device, file->device);
    wire_uint(w, PB_PageResidency_File_inode, file->inode);
    wire_uint(w, PB_PageResidency_File_page_size_bytes, file->page_size_bytes);
    wire_end(w, mark);
    return packet_writer_end_retained(writer, PACKET_RETAIN_REPLACE, key_of(file->id, KEY_FILE));
}

static void put_counts(struct wire_writer *w, const struct residency_counts *counts)
{
    wire_uint(w, PB_PageResidency_Sample_pages, counts->pages);
    wire_uint(w, PB_PageResidency_Sample_resident_pages, counts->cached);
    if (!counts->has_cachestat)
        return;
    wire_uint(w, PB_PageResidency_Sample_dirty_pages, counts->dirty);
    wire_uint(w, PB_PageResidency_Sample_writeback_pages, counts->writeback);
    wire_uint(w, PB_PageResidency_Sample_evicted_pages, counts->evicted);
    wire_uint(w, PB_PageResidency_Sample_recently_evicted_pages, counts->recently_evicted);
}

static bool has_runs(const struct residency_sample *sample)
{
    return sample->kind == SAMPLE_COMPLETE || sample->kind == SAMPLE_CHANGED;
}

// Writes the fields that only the first part of a sample has.
static void put_head(struct wire_writer *w, const struct residency_sample *sample)
{
    switch (sample->kind) {
    case SAMPLE_COUNTS:
        wire_uint(w, PB_PageResidency_Sample_counts_only, 1);
        break;
    case SAMPLE_UNKNOWN:
        wire_uint(w, PB_PageResidency_Sample_pages, sample->counts.pages);
        wire_uint(w, PB_PageResidency_Sample_unknown, 1);
        return;
    case SAMPLE_ERROR:
        wire_uint(w, PB_PageResidency_Sample_error, (uint64_t)sample->error);
        return;
    case SAMPLE_COMPLETE:
    case SAMPLE_CHANGED:
        break;
    }
    put_counts(w, &sample->counts);
}

// Writes one packet with the runs from *first on and advances *first. Returns false if the buffer
// refused the packet.
static bool write_part(struct packet_writer *writer, const struct residency_sample *sample,
                       uint32_t part, size_t *first)
{
    const struct page_ranges none = {0}, *runs = sample->runs ? sample->runs : &none;
    size_t want = SAMPLE_ROOM;
    if (has_runs(sample))
        want += (runs->n - *first) * PAGE_RUN_MAX;
    if (want > PART_MAX)
        want = PART_MAX;
    size_t min = want < PART_MIN ? want : PART_MIN;
    struct wire_writer *w =
        packet_writer_begin_range(writer, part ? 0 : sample->timestamp, min, want);
    if (!w)
        return false;
    size_t packet = wire_begin(w, PB_TracePacket_page_residency);
    if (!part && sample->duration > 0)
        wire_uint(w, PB_PageResidency_duration_ns, (uint64_t)sample->duration);
    size_t mark = wire_begin(w, PB_PageResidency_samples);
    wire_uint(w, PB_PageResidency_Sample_file_id, sample->file_id);
    if (!part)
        put_head(w, sample);
    bool complete = sample->kind == SAMPLE_COMPLETE;
    if (has_runs(sample)) {
        uint64_t base = *first ? runs->items[*first - 1].end : 0;
        wire_uint(w, PB_PageResidency_Sample_revision, sample->revision);
        if (complete)
            wire_uint(w, PB_PageResidency_Sample_complete, 1);
        if (part)
            wire_uint(w, PB_PageResidency_Sample_part, part);
        if (base)
            wire_uint(w, PB_PageResidency_Sample_first_page, base);
        if (*first < runs->n) {
            size_t list = wire_begin(w, complete ? PB_PageResidency_Sample_resident_runs
                                                 : PB_PageResidency_Sample_changed_runs);
            *first += page_runs_write(w, runs, *first, base, 16); // the lengths may still grow
            wire_end(w, list);
        }
        if (*first < runs->n)
            wire_uint(w, PB_PageResidency_Sample_more, 1);
    }
    wire_end(w, mark);
    wire_end(w, packet);
    enum packet_retain retain = PACKET_RETAIN_REPLACE;
    if (part || sample->kind == SAMPLE_CHANGED || sample->chained)
        retain = PACKET_RETAIN_APPEND;
    return packet_writer_end_retained(writer, retain, key_of(sample->file_id, KEY_SAMPLE));
}

bool packets_write_sample(struct packet_writer *writer, const struct residency_sample *sample)
{
    size_t n = has_runs(sample) && sample->runs ? sample->runs->n : 0, first = 0;
    for (uint32_t part = 0; part == 0 || first < n; part++) {
        size_t before = first;
        if (!write_part(writer, sample, part, &first) || (first == before && n))
            return false;
    }
    return true;
}

static struct wire_writer *begin_track(struct packet_writer *writer,
                                       const struct residency_file_info *file)
{
    struct wire_writer *w = packet_writer_begin_message(writer, 0, strlen(file->path) + 96,
                                                        PB_TracePacket_track_descriptor);
    if (!w)
        return NULL;
    wire_uint(w, PB_TrackDescriptor_uuid, track_uuid(writer, file));
    size_t size = strlen(file->path);
    static const char prefix[] = "resident ";
    wire_tag(w, PB_TrackDescriptor_name, WIRE_BYTES);
    wire_varint(w, sizeof(prefix) - 1 + size);
    if (wire_reserve(w, sizeof(prefix) - 1 + size)) {
        memcpy(w->pos, prefix, sizeof(prefix) - 1);
        memcpy(w->pos + sizeof(prefix) - 1, file->path, size);
        wire_mend_text(w->pos + sizeof(prefix) - 1, size);
        w->pos += sizeof(prefix) - 1 + size;
    }
    size_t counter = wire_begin(w, PB_TrackDescriptor_counter);
    wire_uint(w, PB_CounterDescriptor_unit, PB_UNIT_SIZE_BYTES);
    wire_end(w, counter);
    return w;
}

bool packets_write_track(struct packet_writer *writer, const struct residency_file_info *file)
{
    if (!begin_track(writer, file))
        return false;
    return packet_writer_end_retained(writer, PACKET_RETAIN_REPLACE, key_of(file->id, KEY_TRACK));
}

static bool write_counter(struct packet_writer *writer, nsec_t timestamp,
                          const struct residency_file_info *file, uint64_t bytes,
                          enum packet_retain retain)
{
    struct wire_writer *w =
        packet_writer_begin_message(writer, timestamp, 64, PB_TracePacket_track_event);
    if (!w)
        return false;
    wire_uint(w, PB_TrackEvent_type, PB_TYPE_COUNTER);
    wire_uint(w, PB_TrackEvent_track_uuid, track_uuid(writer, file));
    wire_uint(w, PB_TrackEvent_counter_value, bytes);
    return packet_writer_end_retained(writer, retain, key_of(file->id, KEY_COUNTER));
}

bool packets_write_counter(struct packet_writer *writer, nsec_t timestamp,
                           const struct residency_file_info *file, uint64_t resident_bytes)
{
    return write_counter(writer, timestamp, file, resident_bytes, PACKET_RETAIN_REPLACE);
}

struct last_words {
    uint32_t list, id, flag; // fields
};

static void write_last(struct packet_writer *writer, nsec_t timestamp,
                       const struct last_words *words, uint32_t file_id, enum key_kind kind)
{
    struct wire_writer *w =
        packet_writer_begin_message(writer, timestamp, 48, PB_TracePacket_page_residency);
    if (!w)
        return;
    size_t mark = wire_begin(w, words->list);
    wire_uint(w, words->id, file_id);
    wire_uint(w, words->flag, 1);
    wire_end(w, mark);
    packet_writer_end_retained(writer, PACKET_RETAIN_FORGET, key_of(file_id, kind));
}

void packets_write_gone(struct packet_writer *writer, nsec_t timestamp,
                        const struct residency_file_info *file, bool has_track)
{
    static const struct last_words samples = {
        PB_PageResidency_samples, PB_PageResidency_Sample_file_id, PB_PageResidency_Sample_gone};
    static const struct last_words files = {PB_PageResidency_files, PB_PageResidency_File_id,
                                            PB_PageResidency_File_ended};
    write_last(writer, timestamp, &samples, file->id, KEY_SAMPLE);
    if (has_track) {
        write_counter(writer, timestamp, file, 0, PACKET_RETAIN_FORGET);
        if (begin_track(writer, file))
            packet_writer_end_retained(writer, PACKET_RETAIN_FORGET, key_of(file->id, KEY_TRACK));
    }
    write_last(writer, timestamp, &files, file->id, KEY_FILE);
}

bool packets_write_round(struct packet_writer *writer, nsec_t timestamp, nsec_t duration,
                         uint32_t n_files, uint32_t n_changed, uint32_t n_missed)
{
    struct wire_writer *w =
        packet_writer_begin_message(writer, timestamp, 64, PB_TracePacket_page_residency);
    if (!w)
        return false;
    wire_uint(w, PB_PageResidency_duration_ns, (uint64_t)(duration > 0 ? duration : 0));
    size_t mark = wire_begin(w, PB_PageResidency_round);
    wire_uint(w, PB_PageResidency_Round_files, n_files);
    wire_uint(w, PB_PageResidency_Round_changed, n_changed);
    if (n_missed)
        wire_uint(w, PB_PageResidency_Round_missed, n_missed);
    wire_end(w, mark);
    return packet_writer_end(writer);
}
