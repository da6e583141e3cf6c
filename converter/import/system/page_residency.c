// SPDX-License-Identifier: Apache-2.0
//
// PageResidency: the pages of files in the page cache. Packets are read in file order, because
// samples build upon each other: a difference applies to the sample of the previous revision, and
// long lists come in parts (protos/trace/page_residency.proto has the rules). If the base of a
// difference is missing, samples have counts only, until the next complete list.
//
// Runs are stored as spans: an unchanged run of pages is one row, not one row per sample. The size
// of the database therefore depends on the changes of a file, not on the number of samples. The
// view page_residency_range has the whole list of each sample.
#include <errno.h>

#include "common/page_runs.h"
#include "common/vec.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define PAGE_SIZE_DEFAULT 4096

struct live_run {
    struct page_range pages;
    int64_t sample; // the first sample with the run
    int64_t ts;     // ns; of that sample
};
VEC_DEFINE(live_runs, struct live_run);

// The state of a sample between its parts. The first part has the counts. After the last part, the
// list is complete.
struct gathering {
    bool active, complete;
    bool has_row; // head is valid, and the row is not written yet
    uint64_t revision;
    uint64_t next_part;
    int64_t sample, ts;
    uint64_t dur;
    union message_PageResidency_Sample head; // of part 0; borrowed from the trace
    struct page_ranges runs;
};

struct residency_file {
    int64_t id; // row
    uint32_t sequence_id, file_id;
    uint32_t machine;
    const uint8_t *path; // borrowed from the trace
    size_t path_size;
    uint64_t device, inode, page_size;
    int64_t first_ts, last_ts, gone_ts;
    bool has_sample, is_gone;

    bool has_runs; // `runs` belong to `revision`
    uint64_t revision;
    int64_t last_exact; // sample
    struct live_runs live;
    struct page_ranges runs;
    struct gathering gathering;
};
VEC_DEFINE(residency_files, struct residency_file);

struct page_residency {
    struct residency_files files;
    struct map64 by_id; // sequence and file id -> index
};

static uint64_t file_key(uint32_t sequence_id, uint32_t file_id)
{
    return (uint64_t)sequence_id << 32 | file_id;
}

static struct residency_file *find_file(struct page_residency *state, uint32_t sequence_id,
                                        uint64_t file_id)
{
    const uint64_t *index =
        file_id <= UINT32_MAX ? map64_find(&state->by_id, file_key(sequence_id, (uint32_t)file_id))
                              : NULL;
    return index ? &state->files.items[*index] : NULL;
}

static void write_span(struct import *im, const struct residency_file *file,
                       const struct live_run *run, int64_t end_ts)
{
    struct cell *row = database_row(im->db, TABLE_page_residency_span, NULL);
    cell_int(row, COL_page_residency_span_file_id, file->id);
    cell_int(row, COL_page_residency_span_ts, run->ts);
    cell_int(row, COL_page_residency_span_dur, end_ts > run->ts ? end_ts - run->ts : 0);
    cell_int(row, COL_page_residency_span_first_sample_id, run->sample);
    cell_int(row, COL_page_residency_span_last_sample_id, file->last_exact);
    cell_int(row, COL_page_residency_span_start_page, (int64_t)run->pages.start);
    cell_int(row, COL_page_residency_span_end_page, (int64_t)run->pages.end);
}

// Ends the known runs at `ts`, and forgets the list.
static void end_runs(struct import *im, struct residency_file *file, int64_t ts)
{
    vec_foreach(&file->live, run)
        write_span(im, file, run, ts);
    live_runs_clear(&file->live);
    page_ranges_clear(&file->runs);
    file->has_runs = false;
}

static void write_change(struct import *im, const struct residency_file *file, int64_t sample,
                         int64_t ts, const struct page_ranges *pages, bool came)
{
    vec_foreach(pages, range) {
        struct cell *row = database_row(im->db, TABLE_page_residency_change, NULL);
        cell_int(row, COL_page_residency_change_ts, ts);
        cell_int(row, COL_page_residency_change_file_id, file->id);
        cell_int(row, COL_page_residency_change_sample_id, sample);
        cell_int(row, COL_page_residency_change_came, came);
        cell_int(row, COL_page_residency_change_start_page, (int64_t)range->start);
        cell_int(row, COL_page_residency_change_end_page, (int64_t)range->end);
    }
}

// Writes the changes between two lists: first the removed pages, then the added pages.
static int write_changes(struct import *im, const struct residency_file *file, int64_t sample,
                         int64_t ts, const struct page_ranges *difference,
                         const struct page_ranges *next)
{
    struct page_ranges part = {0};
    int r = page_ranges_and(difference, &file->runs, &part);
    if (r == 0) {
        write_change(im, file, sample, ts, &part, false);
        r = page_ranges_and(difference, next, &part);
    }
    if (r == 0)
        write_change(im, file, sample, ts, &part, true);
    page_ranges_done(&part);
    return r;
}

// Replaces the live runs by the runs of `next`: equal runs continue, other runs end or begin.
static int update_live(struct import *im, struct residency_file *file,
                       const struct page_ranges *next, int64_t sample, int64_t ts)
{
    struct live_runs live = {0};
    int r = live_runs_reserve(&live, next->n);
    if (r < 0)
        return r;
    size_t i = 0;
    vec_foreach(next, range) {
        while (i < file->live.n && file->live.items[i].pages.start < range->start)
            write_span(im, file, &file->live.items[i++], ts);
        struct live_run run = {.pages = *range, .sample = sample, .ts = ts};
        if (i < file->live.n && file->live.items[i].pages.start == range->start) {
            if (file->live.items[i].pages.end == range->end)
                run = file->live.items[i];
            else
                write_span(im, file, &file->live.items[i], ts);
            i++;
        }
        live_runs_push(&live, run);
    }
    for (; i < file->live.n; i++)
        write_span(im, file, &file->live.items[i], ts);
    live_runs_done(&file->live);
    file->live = live;
    return 0;
}

// Applies a sample whose parts are complete. *ret_exact: the list of the sample is known.
static int apply(struct import *im, struct residency_file *file, bool *ret_exact)
{
    struct gathering *g = &file->gathering;
    *ret_exact = g->complete || (file->has_runs && g->revision == file->revision + 1);
    if (!*ret_exact) {
        stats_add(&im->stats, STAT_mmsql_page_residency_base_lost, 1);
        end_runs(im, file, g->ts);
        return 0;
    }
    // If a list was gathered, `other` is the difference; if a difference was gathered, `other` is
    // the list.
    struct page_ranges other = {0};
    int r = page_ranges_xor(&file->runs, &g->runs, &other);
    struct page_ranges *next = g->complete ? &g->runs : &other;
    const struct page_ranges *difference = g->complete ? &other : &g->runs;
    if (r == 0 && file->has_runs)
        r = write_changes(im, file, g->sample, g->ts, difference, next);
    if (r == 0)
        r = update_live(im, file, next, g->sample, g->ts);
    if (r == 0) {
        struct page_ranges before = file->runs;
        file->runs = *next;
        *next = before;
        file->has_runs = true;
        file->revision = g->revision;
        file->last_exact = g->sample;
    }
    page_ranges_done(&other);
    return r;
}

// Sets a cell to pages as bytes. The cell stays NULL if the number exceeds 63 bits.
static void cell_page_bytes(struct cell *row, size_t column, const struct wire_field *field,
                            uint64_t page_size)
{
    uint64_t bytes;
    if (field_present(field) && !__builtin_mul_overflow(field_u64(field), page_size, &bytes) &&
        bytes <= INT64_MAX)
        cell_int(row, column, (int64_t)bytes);
}

static const char *detail_of(const union message_PageResidency_Sample *sample, bool exact)
{
    if (field_u64(&sample->gone))
        return "gone";
    if (field_present(&sample->error))
        return "error";
    if (field_u64(&sample->unknown))
        return "unknown";
    return exact ? "exact" : "counts";
}

static void write_sample(struct import *im, const struct residency_file *file, int64_t id,
                         int64_t ts, uint64_t dur, const union message_PageResidency_Sample *sample,
                         bool exact)
{
    struct cell *row = database_row_with_id(im->db, TABLE_page_residency_sample, id);
    cell_int(row, COL_page_residency_sample_ts, ts);
    cell_int(row, COL_page_residency_sample_dur, dur <= INT64_MAX ? (int64_t)dur : 0);
    cell_int(row, COL_page_residency_sample_file_id, file->id);
    cell_text(row, COL_page_residency_sample_detail, detail_of(sample, exact));
    cell_number(row, COL_page_residency_sample_pages, &sample->pages);
    cell_number(row, COL_page_residency_sample_resident_pages, &sample->resident_pages);
    cell_page_bytes(row, COL_page_residency_sample_resident_bytes, &sample->resident_pages,
                    file->page_size);
    cell_number(row, COL_page_residency_sample_dirty_pages, &sample->dirty_pages);
    cell_number(row, COL_page_residency_sample_writeback_pages, &sample->writeback_pages);
    cell_number(row, COL_page_residency_sample_evicted_pages, &sample->evicted_pages);
    cell_number(row, COL_page_residency_sample_recently_evicted_pages,
                &sample->recently_evicted_pages);
    cell_number(row, COL_page_residency_sample_error, &sample->error);
}

// Writes the row of the gathered sample, if it is not written yet.
static void finish_gathering(struct import *im, struct residency_file *file, bool exact)
{
    struct gathering *g = &file->gathering;
    if (g->has_row)
        write_sample(im, file, g->sample, g->ts, g->dur, &g->head, exact);
    g->has_row = g->active = false;
}

// Handles a missing or damaged part of a list: the sample has counts only, and later differences
// have no base.
static void give_up(struct import *im, struct residency_file *file, int64_t ts)
{
    stats_add(&im->stats, STAT_mmsql_page_residency_base_lost, 1);
    finish_gathering(im, file, false);
    end_runs(im, file, ts);
}

// Reads a part of a list.
static int gather(struct import *im, struct residency_file *file, int64_t ts,
                  const union message_PageResidency_Sample *sample)
{
    struct gathering *g = &file->gathering;
    uint64_t revision = field_u64(&sample->revision);
    bool complete = field_u64(&sample->complete) != 0;
    if (!g->active || g->revision != revision || g->complete != complete ||
        g->next_part != field_u64(&sample->part)) {
        give_up(im, file, ts);
        return 0;
    }
    g->next_part++;
    const struct wire_field *runs = &sample->at[complete ? PB_PageResidency_Sample_resident_runs
                                                         : PB_PageResidency_Sample_changed_runs];
    int r = page_runs_read(runs->data, runs->type == WIRE_BYTES ? runs->size : 0,
                           field_u64(&sample->first_page), &g->runs);
    if (r == -EBADMSG) {
        give_up(im, file, ts);
        return 0;
    }
    if (r < 0 || field_u64(&sample->more))
        return r;
    bool exact;
    r = apply(im, file, &exact);
    finish_gathering(im, file, exact);
    return r;
}

// Reads a sample without runs.
static void read_plain(struct import *im, struct residency_file *file, int64_t ts,
                       const union message_PageResidency_Sample *sample)
{
    finish_gathering(im, file, false);
    bool gone = field_u64(&sample->gone) != 0;
    if (gone || field_u64(&sample->unknown) || field_present(&sample->error))
        end_runs(im, file, ts);
    file->is_gone |= gone;
    if (gone)
        file->gone_ts = ts;
}

static void begin_gathering(struct import *im, struct residency_file *file, int64_t ts,
                            uint64_t dur, const union message_PageResidency_Sample *sample)
{
    struct gathering *g = &file->gathering;
    finish_gathering(im, file, false); // parts of the previous sample are missing
    page_ranges_clear(&g->runs);
    g->active = g->has_row = true;
    g->complete = field_u64(&sample->complete) != 0;
    g->revision = field_u64(&sample->revision);
    g->next_part = 0;
    g->sample = database_reserve_id(im->db, TABLE_page_residency_sample);
    g->ts = ts;
    g->dur = dur;
    g->head = *sample;
}

static int read_sample(struct import *im, struct page_residency *state, const struct packet *packet,
                       uint64_t dur, const struct wire_field *field)
{
    MESSAGE(sample, PageResidency_Sample, field);
    struct residency_file *file = find_file(state, packet->sequence_id, field_u64(&sample.file_id));
    if (!file) {
        stats_add(&im->stats, STAT_mmsql_page_residency_base_lost, 1);
        return 0;
    }
    bool has_runs = field_present(&sample.revision);
    bool first = field_u64(&sample.part) == 0;
    if (first) {
        if (!file->has_sample)
            file->first_ts = packet->ts;
        file->has_sample = true;
        file->last_ts = packet->ts;
        import_bounds(im, packet->ts);
        if (has_runs) {
            begin_gathering(im, file, packet->ts, dur, &sample);
        } else {
            read_plain(im, file, packet->ts, &sample);
            int64_t id = database_reserve_id(im->db, TABLE_page_residency_sample);
            write_sample(im, file, id, packet->ts, dur, &sample, false);
        }
    }
    return has_runs ? gather(im, file, packet->ts, &sample) : 0;
}

static bool same_file(const struct residency_file *a, const struct residency_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->path_size == b->path_size &&
           memcmp(a->path, b->path, a->path_size) == 0;
}

static int read_file(struct import *im, struct page_residency *state, const struct packet *packet,
                     const struct wire_field *field)
{
    MESSAGE(info, PageResidency_File, field);
    uint64_t id = field_u64(&info.id);
    if (id > UINT32_MAX || field_u64(&info.ended))
        return 0;
    struct residency_file file = {
        .sequence_id = packet->sequence_id,
        .file_id = (uint32_t)id,
        .machine = im->machine->number,
        .path = (const uint8_t *)field_text(&info.path),
        .path_size = info.path.size,
        .device = field_u64(&info.device),
        .inode = field_u64(&info.inode),
        .page_size = field_u64(&info.page_size_bytes),
    };
    if (!file.page_size)
        file.page_size = PAGE_SIZE_DEFAULT;
    struct residency_file *known = find_file(state, packet->sequence_id, id);
    if (known && same_file(known, &file))
        return 0;
    if (known) { // the trace has another recording
        finish_gathering(im, known, false);
        end_runs(im, known, known->last_ts);
        known->is_gone = true;
        known->gone_ts = known->last_ts;
    }
    file.id = database_reserve_id(im->db, TABLE_page_residency_file);
    int r = residency_files_push(&state->files, file);
    if (r < 0)
        return r;
    return map64_set(&state->by_id, file_key(packet->sequence_id, (uint32_t)id),
                     state->files.n - 1);
}

static void read_round(struct import *im, const struct packet *packet, uint64_t dur,
                       const struct wire_field *field)
{
    MESSAGE(round, PageResidency_Round, field);
    struct cell *row = database_row(im->db, TABLE_page_residency_round, NULL);
    cell_int(row, COL_page_residency_round_ts, packet->ts);
    cell_int(row, COL_page_residency_round_dur, dur <= INT64_MAX ? (int64_t)dur : 0);
    cell_int(row, COL_page_residency_round_files, field_i64(&round.files));
    cell_int(row, COL_page_residency_round_changed, field_i64(&round.changed));
    cell_int(row, COL_page_residency_round_missed, field_i64(&round.missed));
    import_bounds(im, packet->ts);
}

static void page_residency_now(struct import *im, const struct packet *packet)
{
    struct page_residency *state = packet->own;
    MESSAGE(whole, PageResidency, packet->message);
    uint64_t dur = field_u64(&whole.duration_ns);
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    int r = 0;
    while (r == 0 && wire_next(&reader, &field)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == PB_PageResidency_files)
            r = read_file(im, state, packet, &field);
        else if (field.number == PB_PageResidency_samples)
            r = read_sample(im, state, packet, dur, &field);
        else if (field.number == PB_PageResidency_round)
            read_round(im, packet, dur, &field);
    }
    import_fail(im, r);
}

static void page_residency_finish(struct import *im, void *userdata)
{
    struct page_residency *state = userdata;
    vec_foreach(&state->files, file) {
        finish_gathering(im, file, false);
        if (!file->is_gone)
            end_runs(im, file, im->bounds.is_set ? im->bounds.end : file->last_ts);
        struct cell *row = database_row_with_id(im->db, TABLE_page_residency_file, file->id);
        cell_bytes(row, COL_page_residency_file_path, file->path, file->path_size);
        cell_int(row, COL_page_residency_file_device, (int64_t)file->device);
        cell_int(row, COL_page_residency_file_inode, (int64_t)file->inode);
        cell_int(row, COL_page_residency_file_page_size_bytes, (int64_t)file->page_size);
        if (file->has_sample)
            cell_int(row, COL_page_residency_file_first_ts, file->first_ts);
        if (file->is_gone)
            cell_int(row, COL_page_residency_file_gone_ts, file->gone_ts);
        cell_int(row, COL_page_residency_file_machine_id, file->machine);
    }
}

static void page_residency_done(void *userdata)
{
    struct page_residency *state = userdata;
    vec_foreach(&state->files, file) {
        live_runs_done(&file->live);
        page_ranges_done(&file->runs);
        page_ranges_done(&file->gathering.runs);
    }
    residency_files_done(&state->files);
    map64_done(&state->by_id);
}

const struct importer importer_page_residency = {
    .field = PB_TracePacket_page_residency,
    .now = page_residency_now,
    .state_size = sizeof(struct page_residency),
    .of_all_machines = true,
    .finish = page_residency_finish,
    .done = page_residency_done,
};
