// SPDX-License-Identifier: Apache-2.0
//
// The whole source over a real file, a real loop and a real buffer. The file lies on a tmpfs, if
// there is one: the kernel does not reclaim its pages, so they come and go only when the test wants
// it. The test reads the packets back by the rules of protos/trace/page_residency.proto, with a
// reader of its own, and compares the result with mincore().
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/page_runs.h"
#include "producer/sources/residency/probe.h"
#include "producer/sources/source.h"
#include "protos/fields.h"
#include "tests/unit/ask_mincore.h"
#include "tests/unit/grid_span.h"
#include "tests/unit/unit.h"

extern const struct source_class residency_class;

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

// A reader's knowledge of the file.
struct reading {
    uint32_t file_id;
    char path[PATH_MAX];
    uint64_t pages, resident_pages;
    bool has_runs; // `runs` are those of `revision`
    uint64_t revision;
    uint32_t next_part;
    struct page_ranges runs, list; // of the sample that is being put together
    uint64_t n_samples, n_complete, n_changed, n_counts_only, n_parts, n_rounds, n_gone, n_unusable;
    uint64_t n_missed; // rounds that did not take place
    uint64_t track_uuid;
    int64_t counter;
    uint64_t n_counters, n_tracks;
    bool state_cleared;
};

struct sample_fields {
    uint64_t revision, first_page;
    uint32_t part;
    bool complete, more, counts_only, gone, has_revision;
    struct wire_field runs;
};

static void apply(struct reading *reading, const struct sample_fields *f)
{
    if (!f->has_revision)
        return;
    if (f->part == 0)
        page_ranges_clear(&reading->list);
    else if (f->part != reading->next_part)
        fail();
    assert_int_equal(page_runs_read(f->runs.data, f->runs.size, f->first_page, &reading->list), 0);
    reading->next_part = f->part + 1;
    reading->n_parts += f->part > 0;
    if (f->more)
        return;
    struct page_ranges next = {0};
    if (f->complete) {
        reading->n_complete++;
        assert_int_equal(page_ranges_xor(&reading->list, &next, &reading->runs), 0);
        reading->has_runs = true;
    } else if (reading->has_runs && reading->revision + 1 == f->revision) {
        reading->n_changed++;
        assert_int_equal(page_ranges_xor(&reading->runs, &reading->list, &next), 0);
        page_ranges_done(&reading->runs);
        reading->runs = next;
    } else {
        reading->n_unusable++;
        reading->has_runs = false;
    }
    reading->revision = f->revision;
    if (reading->has_runs)
        assert_int_equal(page_ranges_count(&reading->runs), reading->resident_pages);
}

static void read_sample(struct reading *reading, struct wire_reader reader)
{
    struct sample_fields f = {0};
    struct wire_field field;
    uint64_t file_id = 0;
    wire_foreach(&reader, &field) {
        switch (field.number) {
        case PB_PageResidency_Sample_file_id:
            file_id = field.value;
            break;
        case PB_PageResidency_Sample_pages:
            reading->pages = field.value;
            break;
        case PB_PageResidency_Sample_resident_pages:
            reading->resident_pages = field.value;
            break;
        case PB_PageResidency_Sample_resident_runs:
        case PB_PageResidency_Sample_changed_runs:
            f.runs = field;
            break;
        case PB_PageResidency_Sample_counts_only:
            f.counts_only = true;
            break;
        case PB_PageResidency_Sample_complete:
            f.complete = true;
            break;
        case PB_PageResidency_Sample_gone:
            f.gone = true;
            break;
        case PB_PageResidency_Sample_revision:
            f.revision = field.value;
            f.has_revision = true;
            break;
        case PB_PageResidency_Sample_part:
            f.part = (uint32_t)field.value;
            break;
        case PB_PageResidency_Sample_more:
            f.more = true;
            break;
        case PB_PageResidency_Sample_first_page:
            f.first_page = field.value;
            break;
        }
    }
    assert_false(reader.error);
    assert_true(reading->file_id && file_id == reading->file_id); // introduced before
    reading->n_samples += f.part == 0;
    reading->n_counts_only += f.counts_only;
    reading->n_gone += f.gone;
    apply(reading, &f);
}

static void read_file_info(struct reading *reading, struct wire_reader reader)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_PageResidency_File_id)
            reading->file_id = (uint32_t)field.value;
        if (field.number == PB_PageResidency_File_path)
            snprintf(reading->path, sizeof(reading->path), "%.*s", (int)field.size,
                     (const char *)field.data);
    }
}

static uint64_t field_of(const struct wire_field *message, uint32_t number)
{
    struct wire_reader reader = wire_reader_over(message->data, message->size);
    struct wire_field field;
    wire_foreach(&reader, &field)
        if (field.number == number)
            return field.value;
    return 0;
}

static void read_residency(struct reading *reading, struct wire_reader reader)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_PageResidency_files)
            read_file_info(reading, wire_reader_over(field.data, field.size));
        else if (field.number == PB_PageResidency_samples)
            read_sample(reading, wire_reader_over(field.data, field.size));
        else if (field.number == PB_PageResidency_round) {
            reading->n_rounds++;
            reading->n_missed += field_of(&field, PB_PageResidency_Round_missed);
        }
    }
    assert_false(reader.error);
}

static void read_packet(struct reading *reading, const struct packet_view *view)
{
    struct wire_reader reader = wire_reader_over(view->data, view->size);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        switch (field.number) {
        case PB_TracePacket_sequence_flags:
            reading->state_cleared |= field.value & 1;
            assert_true(reading->state_cleared); // the rest would be thrown away
            break;
        case PB_TracePacket_page_residency:
            read_residency(reading, wire_reader_over(field.data, field.size));
            break;
        case PB_TracePacket_track_descriptor:
            reading->track_uuid = field_of(&field, PB_TrackDescriptor_uuid);
            reading->n_tracks++;
            break;
        case PB_TracePacket_track_event:
            assert_true(field_of(&field, PB_TrackEvent_track_uuid) == reading->track_uuid);
            reading->counter = (int64_t)field_of(&field, PB_TrackEvent_counter_value);
            reading->n_counters++;
            break;
        }
    }
    assert_false(reader.error);
}

static void read_all(struct reading *reading, struct packet_buffer *buffer)
{
    struct packet_view view;
    for (; packet_buffer_peek(buffer, &view); packet_buffer_consume(buffer))
        read_packet(reading, &view);
}

static void reading_done(struct reading *reading)
{
    page_ranges_done(&reading->runs);
    page_ranges_done(&reading->list);
}

static char stage_path[64]; // is removed if a test fails

// One source that watches one file.
struct stage {
    char path[64];
    int fd;
    uint64_t pages;
    struct loop *loop;
    struct packet_buffer *buffer;
    struct packet_writer writer;
    struct pid_feed pids;
    struct source_roots roots;
    struct source_env env;
    Pb__PageResidencyConfig residency;
    Pb__DataSourceConfig config;
    char *paths[1];
    struct source *source;
};

static void stage_open(struct stage *stage, uint64_t pages, size_t buffer_bytes,
                       enum packet_buffer_policy policy)
{
    memset(stage, 0, sizeof(*stage));
    snprintf(stage->path, sizeof(stage->path), "%s/residency_sampler.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".");
    stage->fd = mkostemp(stage->path, O_CLOEXEC);
    assert_true(stage->fd >= 0);
    strcpy(stage_path, stage->path);
    stage->pages = pages;
    assert_int_equal(ftruncate(stage->fd, (off_t)(pages * PAGE)), 0);
    assert_int_equal(loop_new(&stage->loop), 0);
    assert_int_equal(packet_buffer_new(buffer_bytes, policy, &stage->buffer, NULL), 0);
    stage->writer = packet_writer_over(stage->buffer, 5);
    stage->roots = (struct source_roots){.proc = "/proc", .sys = "/sys"};
    stage->env = (struct source_env){.loop = stage->loop,
                                     .writer = &stage->writer,
                                     .roots = &stage->roots,
                                     .pids = &stage->pids};
    pb__page_residency_config__init(&stage->residency);
    pb__data_source_config__init(&stage->config);
    stage->config.page_residency_config = &stage->residency;
    stage->paths[0] = stage->path;
    stage->residency.paths = stage->paths;
    stage->residency.n_paths = 1;
    stage->residency.period_ms = 3600000; // only flush and stop sample, as the test wants it
}

static void stage_start(struct stage *stage)
{
    struct err err = {0};
    assert_int_equal(residency_class.open(&stage->env, &stage->config, &stage->source, &err), 0);
    assert_int_equal(residency_class.start(stage->source, &err), 0);
}

static void stage_close(struct stage *stage)
{
    stage->source = residency_class.close(stage->source);
    packet_buffer_free(stage->buffer);
    loop_free(stage->loop);
    unlink(stage->path);
    close(stage->fd);
}

static void bring_in(const struct stage *stage, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        assert_int_equal(pwrite(stage->fd, "x", 1, (off_t)(i * PAGE)), 1);
}

static void drop_pages(const struct stage *stage, uint64_t first, uint64_t n)
{
    assert_int_equal(fallocate(stage->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               (off_t)(first * PAGE), (off_t)(n * PAGE)),
                     0);
}

// Takes a sample, and asserts that a reader gets mincore's answer. Repeats this if the kernel moved
// pages.
static void sample_and_compare(struct stage *stage, struct reading *reading)
{
    for (int attempt = 0;; attempt++) {
        CLEANUP(page_ranges_done) struct page_ranges before = ask_mincore(stage->fd, stage->pages);
        residency_class.flush(stage->source);
        read_all(reading, stage->buffer);
        assert_true(reading->has_runs);
        assert_int_equal(reading->pages, stage->pages);
        if (page_ranges_equal(&reading->runs, &before))
            return;
        CLEANUP(page_ranges_done) struct page_ranges after = ask_mincore(stage->fd, stage->pages);
        assert_false(page_ranges_equal(&after, &before));
        assert_true(attempt < 20);
    }
}

static void every_sample_leads_to_what_mincore_says(void **state)
{
    (void)state;
    struct stage stage;
    struct reading reading = {0};
    stage_open(&stage, 5000, 1 << 20, PACKET_BUFFER_RING);
    stage_start(&stage);
    sample_and_compare(&stage, &reading); // nothing resident
    bring_in(&stage, 0, 5000);
    sample_and_compare(&stage, &reading);
    for (uint64_t n = 2500; n; n /= 2) {
        drop_pages(&stage, 0, n);
        sample_and_compare(&stage, &reading);
        bring_in(&stage, n / 3, n / 4);
        sample_and_compare(&stage, &reading);
    }
    for (uint64_t i = 0; i < 5000; i += 7) { // many runs
        drop_pages(&stage, i, 3);
        if (i % 500 == 0)
            sample_and_compare(&stage, &reading);
    }
    sample_and_compare(&stage, &reading);
    assert_string_equal(reading.path, stage.path);
    assert_true(reading.n_complete >= 2 && reading.n_changed >= 10);
    assert_true(reading.n_complete * 4 < reading.n_samples); // differences do the work
    assert_int_equal(reading.n_unusable, 0);
    assert_int_equal(reading.n_tracks, 1);
    assert_int_equal(reading.counter, reading.resident_pages * PAGE);

    // Nothing changes: a round, and no sample.
    uint64_t n_samples = reading.n_samples, n_rounds = reading.n_rounds;
    sample_and_compare(&stage, &reading);
    assert_int_equal(reading.n_rounds, n_rounds + 1);
    assert_true(reading.n_samples <= n_samples + 1); // or one with counts only, for this many runs

    // A reader that begins here gets the whole state again.
    struct reading fresh = {0};
    residency_class.clear_state(stage.source);
    residency_class.stop(stage.source);
    read_all(&fresh, stage.buffer);
    assert_true(fresh.has_runs && fresh.n_complete == 1 && fresh.n_tracks == 1);
    reading_done(&fresh);
    reading_done(&reading);
    stage_close(&stage);
}

static void a_silent_exchange_is_seen(void **state)
{
    (void)state;
    struct stage stage;
    struct reading reading = {0};
    stage_open(&stage, 1000, 1 << 20, PACKET_BUFFER_RING);
    stage.residency.verify_every = 1;
    stage_start(&stage);
    bring_in(&stage, 0, 64);
    sample_and_compare(&stage, &reading);
    // As many pages as before, but others: few runs, then many.
    drop_pages(&stage, 0, 64);
    bring_in(&stage, 512, 64);
    sample_and_compare(&stage, &reading);
    for (uint64_t i = 0; i < 20; i++)
        bring_in(&stage, i * 20, 1);
    sample_and_compare(&stage, &reading);
    drop_pages(&stage, 0, 400);
    for (uint64_t i = 0; i < 20; i++)
        bring_in(&stage, i * 20 + 3, 1);
    sample_and_compare(&stage, &reading);
    reading_done(&reading);
    stage_close(&stage);
}

static void a_wrapped_ring_still_tells_everything(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage, 600, 8192, PACKET_BUFFER_RING);
    stage_start(&stage);
    for (int round = 0; round < 400; round++) {
        bring_in(&stage, (uint64_t)(round * 37) % 590, 1 + (uint64_t)round % 8);
        if (round % 3 == 0)
            drop_pages(&stage, (uint64_t)(round * 11) % 500, 40);
        residency_class.flush(stage.source);
    }
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(stage.buffer, &stats);
    assert_true(stats.wraps >= 3 && stats.packets_overwritten > 100);
    assert_int_equal(stats.retained_dropped, 0);

    struct reading reading = {0};
    struct page_ranges before = ask_mincore(stage.fd, stage.pages);
    residency_class.stop(stage.source);
    read_all(&reading, stage.buffer);
    struct page_ranges after = ask_mincore(stage.fd, stage.pages);
    assert_string_equal(reading.path, stage.path);
    assert_true(reading.has_runs);
    assert_int_equal(reading.n_unusable, 0);
    if (page_ranges_equal(&before, &after))
        assert_true(page_ranges_equal(&reading.runs, &after));
    assert_int_equal(reading.n_tracks, 1);
    page_ranges_done(&before);
    page_ranges_done(&after);
    reading_done(&reading);
    stage_close(&stage);
}

static void long_lists_come_in_parts_or_as_counts(void **state)
{
    (void)state;
    struct stage stage;
    struct reading reading = {0};
    stage_open(&stage, 60000, 1 << 20, PACKET_BUFFER_RING);
    stage_start(&stage);
    for (uint64_t i = 0; i < 60000; i += 2)
        bring_in(&stage, i, 1);
    sample_and_compare(&stage, &reading);
    assert_true(reading.n_parts >= 1);
    stage_close(&stage);
    reading_done(&reading);

    reading = (struct reading){0};
    stage_open(&stage, 60000, 65536, PACKET_BUFFER_RING);
    stage_start(&stage);
    for (uint64_t i = 0; i < 60000; i += 2)
        bring_in(&stage, i, 1);
    residency_class.flush(stage.source);
    read_all(&reading, stage.buffer);
    assert_false(reading.has_runs);
    assert_int_equal(reading.n_counts_only, 1);
    assert_in_range(reading.resident_pages, 25000, 60000);
    reading_done(&reading);
    stage_close(&stage);
}

static void a_deleted_file_is_gone_and_forgotten(void **state)
{
    (void)state;
    struct stage stage;
    struct reading reading = {0};
    stage_open(&stage, 100, 4096, PACKET_BUFFER_RING);
    stage_start(&stage);
    bring_in(&stage, 0, 50);
    residency_class.flush(stage.source);
    assert_int_equal(unlink(stage.path), 0);
    residency_class.flush(stage.source);
    struct packet_cursor cursor = {0};
    struct packet_view view;
    while (packet_buffer_next(stage.buffer, &cursor, &view))
        read_packet(&reading, &view);
    assert_int_equal(reading.n_gone, 1);
    assert_int_equal(reading.counter, 0);
    for (int i = 0; i < 300; i++)
        residency_class.flush(stage.source); // rounds fill the ring
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(stage.buffer, &stats);
    assert_int_equal(stats.retained_packets, 1); // what clears the state
    reading_done(&reading);
    stage_close(&stage);
}

static void periods_are_kept_by_the_loop(void **state)
{
    (void)state;
    struct stage stage;
    struct reading reading = {0};
    stage_open(&stage, 100, 1 << 16, PACKET_BUFFER_DISCARD);
    stage.residency.period_ms = 5;
    stage.residency.detail = PB__PAGE_RESIDENCY_CONFIG__DETAIL__DETAIL_COUNTS;
    stage.residency.disable_counter_tracks = 1;
    bring_in(&stage, 0, 50);
    struct grid_span span = {.first_min = nsec_now(CLOCK_BOOTTIME)};
    stage_start(&stage);
    span.first_max = nsec_now(CLOCK_BOOTTIME);
    while (reading.n_rounds < 10) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < span.first_min + HANG_AFTER);
        assert_true(loop_run_once(stage.loop, 10 * NSEC_PER_MSEC) >= 0);
        read_all(&reading, stage.buffer);
    }
    run_what_is_due(stage.loop, &span);
    residency_class.stop(stage.source);
    struct source_counts counts;
    residency_class.counts(stage.source, &counts);
    read_all(&reading, stage.buffer);
    // Each point of the grid has its round or is counted as missed; the stop makes one more.
    assert_in_range(reading.n_rounds - 1 + reading.n_missed,
                    grid_points_min(&span, 5 * NSEC_PER_MSEC),
                    grid_points_max(&span, 5 * NSEC_PER_MSEC));
    assert_int_equal(reading.n_samples, counts.events);
    assert_true(reading.n_counts_only == reading.n_samples && reading.n_samples >= 1);
    assert_int_equal(reading.n_counters + reading.n_tracks, 0);
    assert_int_equal(reading.resident_pages, 50);
    reading_done(&reading);
    stage_close(&stage);
}

static void large_files_are_looked_at_in_slices(void **state)
{
    (void)state;
    struct stage stage;
    struct reading reading = {0};
    stage_open(&stage, 100000, 16 << 20, PACKET_BUFFER_RING);
    for (uint64_t i = 0; i < stage.pages; i += 2)
        bring_in(&stage, i, 1);
    CLEANUP(page_ranges_done) struct page_ranges before = ask_mincore(stage.fd, stage.pages);
    stage_start(&stage); // the first round is due at once
    unsigned n_turns = 0;
    while (!reading.n_rounds) {
        assert_true(loop_run_once(stage.loop, 10 * NSEC_PER_MSEC) >= 0);
        read_all(&reading, stage.buffer);
        n_turns++;
        assert_true(n_turns < 100000);
    }
    assert_true(n_turns >= 2); // others had their turn in between
    assert_true(reading.has_runs);
    CLEANUP(page_ranges_done) struct page_ranges after = ask_mincore(stage.fd, stage.pages);
    if (page_ranges_equal(&before, &after))
        assert_true(page_ranges_equal(&reading.runs, &after));
    reading_done(&reading);
    stage_close(&stage);
}

static void a_config_without_files_is_refused(void **state)
{
    (void)state;
    struct stage stage;
    struct err err = {0};
    stage_open(&stage, 1, 4096, PACKET_BUFFER_RING);
    stage.residency.n_paths = 0;
    assert_int_equal(residency_class.open(&stage.env, &stage.config, &stage.source, &err), -EINVAL);
    assert_non_null(strstr(err.text, "names no paths"));
    stage.config.page_residency_config = NULL;
    assert_int_equal(residency_class.open(&stage.env, &stage.config, &stage.source, &err), -EINVAL);
    stage_close(&stage);
}

static int remove_stage(void **state)
{
    (void)state;
    unlink(stage_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_sample_leads_to_what_mincore_says, remove_stage),
        cmocka_unit_test_teardown(a_silent_exchange_is_seen, remove_stage),
        cmocka_unit_test_teardown(a_wrapped_ring_still_tells_everything, remove_stage),
        cmocka_unit_test_teardown(long_lists_come_in_parts_or_as_counts, remove_stage),
        cmocka_unit_test_teardown(a_deleted_file_is_gone_and_forgotten, remove_stage),
        cmocka_unit_test_teardown(periods_are_kept_by_the_loop, remove_stage),
        cmocka_unit_test_teardown(large_files_are_looked_at_in_slices, remove_stage),
        cmocka_unit_test_teardown(a_config_without_files_is_refused, remove_stage),
    };
    return cmocka_run_group_tests_name("residency_sampler", tests, NULL, NULL);
}
