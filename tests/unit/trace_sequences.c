// SPDX-License-Identifier: Apache-2.0
//
// State of sequences and machines, times of packets: interned data, gaps, defaults, clocks.
#include <errno.h>

#include "common/elements.h"
#include "converter/decode/sequence.h"
#include "protos/fields.h"
#include "tests/unit/trace_fixture.h"

static void write_snapshot(struct wire_writer *w, uint64_t boot, uint64_t monotonic)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t snapshot = wire_begin(w, PB_TracePacket_clock_snapshot);
    const uint64_t clocks[][2] = {{CLOCK_ID_BOOTTIME, boot}, {CLOCK_ID_MONOTONIC, monotonic}};
    for (size_t i = 0; i < 2; i++) {
        size_t clock = wire_begin(w, PB_ClockSnapshot_clocks);
        wire_uint(w, PB_ClockSnapshot_Clock_clock_id, clocks[i][0]);
        wire_uint(w, PB_ClockSnapshot_Clock_timestamp, clocks[i][1]);
        wire_end(w, clock);
    }
    wire_end(w, snapshot);
    wire_end(w, packet);
}

static void a_packet_waits_for_its_clock(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 10, .id = 1, .clock = CLOCK_ID_MONOTONIC});
    write_sample(&writer.w, (struct sample){.ts = 10, .id = 2, .clock = 5});
    write_snapshot(&writer.w, 1000, 500);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "clocks2@1000 | p1@510 .");
    assert_int_equal(seen->problems[PROBLEM_CLOCK_UNKNOWN], 1);
    seen_free(seen);
}

static void write_interned(struct wire_writer *w, uint32_t sequence, uint64_t iid, bool cleared)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, sequence);
    if (cleared)
        wire_uint(w, PB_TracePacket_sequence_flags, 1);
    size_t data = wire_begin(w, PB_TracePacket_interned_data);
    size_t entry = wire_begin(w, 1);
    wire_uint(w, 1, iid);
    wire_end(w, entry);
    wire_end(w, data);
    wire_end(w, packet);
}

static void interned_data_holds_for_a_generation(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_interned(&writer.w, 5, 1, true);
    write_sample(&writer.w, (struct sample){.ts = 40, .id = 1, .sequence = 5, .flags = 2});
    write_sample(&writer.w, (struct sample){.ts = 30, .id = 1, .sequence = 6});
    write_interned(&writer.w, 5, 2, true);
    // This packet has an earlier time, but its generation does not define id 1.
    write_sample(&writer.w, (struct sample){.ts = 20, .id = 1, .sequence = 5, .flags = 2});
    write_sample(&writer.w, (struct sample){.ts = 50, .id = 2, .sequence = 5, .flags = 2});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@20 p1@30 p1@40i p2@50i .");
    seen_free(seen);
}

// Writes an entry of interned data: its iid, and a text of `size` bytes.
static void write_entry(struct wire_writer *w, uint32_t field, uint64_t iid, size_t size)
{
    static const char text[8192];
    size_t entry = wire_begin(w, field);
    wire_uint(w, PB_InternedString_iid, iid);
    wire_bytes(w, PB_InternedString_str, text, size);
    wire_end(w, entry);
}

// Makes a table of the writer's interned data.
static void table_of(struct trace_writer *writer, struct interned_table *ret)
{
    assert_false(writer->w.overflow);
    struct wire_reader data = wire_reader_over(writer->bytes, wire_size(&writer->w));
    assert_int_equal(interned_table_read(ret, data, NULL), 0);
}

// A table gets an index with its ninth entry. Each entry is found in smaller and in larger tables.
static void entries_are_found_in_tables_of_any_size(void **state)
{
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        struct trace_writer writer;
        trace_writer_start(&writer);
        for (size_t i = 0; i < n; i++)
            write_entry(&writer.w, 1 + i % 2, 100 + i / 2, i);
        if (n)
            write_entry(&writer.w, 1, 100, 77); // the first entry of an iid counts
        struct interned_table table = {0};
        table_of(&writer, &table);
        assert_int_equal(table.entries.n, n);
        struct interned_use use = {0};
        struct generation generation = {.interned = &table, .use = &use};
        for (size_t i = 0; i < n; i++) {
            struct interned *entry = generation_find(&generation, 1 + i % 2, 100 + i / 2);
            assert_ptr_equal(entry, &table.entries.items[i]);
        }
        assert_int_equal(use.n_missing, 0);
        assert_null(generation_find(&generation, 3, 100));
        assert_null(generation_find(&generation, 1, 100 + n));
        assert_int_equal(use.n_missing, 2);
        interned_table_done(&table);
    }
}

static void long_entries_are_withheld_after_many_bytes(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_entry(&writer.w, 1, 1, 8192 - 5); // the entry has 8192 bytes
    write_entry(&writer.w, 1, 2, 4096 - 5); // the largest short entry
    struct interned_table table = {0};
    table_of(&writer, &table);
    assert_int_equal(table.entries.items[0].size, 8192);
    assert_int_equal(table.entries.items[1].size, 4096);
    struct interned_use use = {0};
    struct generation generation = {.interned = &table, .use = &use};
    for (size_t i = 0; i < ((size_t)256 << 20) / 8192 + 1; i++)
        assert_non_null(generation_find(&generation, 1, 1));
    assert_int_equal(use.n_withheld, 0);
    assert_null(generation_find(&generation, 1, 1));
    assert_int_equal(use.n_withheld, 1);
    assert_int_equal(use.n_long_bytes, ((uint64_t)256 << 20) + 8192);
    assert_non_null(generation_find(&generation, 1, 2));
    assert_non_null(generation_entry(&generation, 1, 1)); // a user that reads the entry once
    interned_table_done(&table);
}

static void later_interned_data_join_the_earlier(void **state)
{
    (void)state;
    struct sequences sequences = {0};
    struct trace_writer writers[2];
    struct sequence *sequence = sequences_get(&sequences, 0, 5);
    assert_int_equal(sequence_clear(&sequences, sequence), 0);
    for (uint64_t i = 0; i < ELEMENTS(writers); i++) {
        trace_writer_start(&writers[i]);
        write_entry(&writers[i].w, 1, 1 + i, 3);
        struct wire_reader data = wire_reader_over(writers[i].bytes, wire_size(&writers[i].w));
        assert_int_equal(sequence_intern(&sequences, sequence, data), 0);
    }
    const struct generation *now = sequences_generation(&sequences, sequence->generation);
    assert_non_null(generation_find(now, 1, 1));
    assert_non_null(generation_find(now, 1, 2));
    assert_int_equal(sequence_clear(&sequences, sequence), 0);
    assert_null(generation_find(sequences_generation(&sequences, sequence->generation), 1, 1));
    sequences_done(&sequences);
}

// The bit of DATA_LOSS_READ_GAP is the first cause.
static void gaps_are_counted_by_cause(void **state)
{
    (void)state;
    struct sequence sequence = {0};
    sequence_note_gap(&sequence, 0);
    sequence_note_gap(&sequence, PB_DATA_LOSS_READ_GAP);
    sequence_note_gap(&sequence, PB_DATA_LOSS_READ_GAP | PB_DATA_LOSS_SMB_FULL);
    assert_int_equal(sequence.losses.n_gaps, 3);
    for (size_t i = 0; i < LOSS_CAUSES; i++)
        assert_int_equal(sequence.losses.n_by_cause[i], i == 0 ? 2 : i == LOSS_CAUSES - 1);
}

static void a_gap_invalidates_state(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 1, .id = 1, .sequence = 5, .flags = 2});
    write_interned(&writer.w, 5, 1, true);
    write_sample(&writer.w, (struct sample){.ts = 2, .id = 2, .sequence = 5, .flags = 2});
    write_sample(&writer.w,
                 (struct sample){.ts = 3, .id = 3, .sequence = 5, .flags = 2, .dropped = true});
    write_sample(&writer.w, (struct sample){.ts = 4, .id = 4, .sequence = 5});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p2@2 p4@4 .");
    assert_int_equal(seen->problems[PROBLEM_STATE_MISSING], 2);
    assert_int_equal(seen->problems[PROBLEM_PACKETS_LOST], 1);
    seen_free(seen);
}

static void packets_without_time_come_after_the_latest(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 50, .id = 1});
    write_sample(&writer.w, (struct sample){.id = 2});
    write_sample(&writer.w, (struct sample){.ts = 60, .id = 3});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@50 p2@50 p3@60 .");
    seen_free(seen);
}

static void write_remote(struct wire_writer *w, uint32_t machine, uint64_t ts)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    wire_uint(w, PB_TracePacket_timestamp, ts);
    wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, 1);
    wire_uint(w, PB_TracePacket_machine_id, machine);
    size_t uuid = wire_begin(w, PB_TracePacket_trace_uuid);
    wire_end(w, uuid);
    wire_end(w, packet);
}

static void machines_are_distinguished(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_snapshot(&writer.w, 1000, 900);
    for (uint32_t machine = 0; machine < 3; machine++)
        write_remote(&writer.w, machine * 7, 1100 + machine);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "clocks2@1000 now1100 m1=7 clocks2@0 now1101 m2=14 "
                                        "clocks2@0 now1102 m0=0 | .");
    seen_free(seen);
}

static void machines_have_a_limit(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    for (uint32_t machine = 0; machine < 100; machine++)
        write_remote(&writer.w, machine, 1);
    struct seen *seen = read_all(&writer);
    assert_int_equal(seen->problems[PROBLEM_MACHINES_MANY], 100 - 64);
    seen_free(seen);
}

// State of a sequence needs a sequence.
static void state_without_a_sequence_is_a_problem(void **state)
{
    (void)state;
    static const uint32_t fields[][2] = {
        {PB_TracePacket_previous_packet_dropped, PB_TracePacket_previous_packet_dropped},
        {PB_TracePacket_sequence_flags, PB_TracePacket_incremental_state_cleared},
        {PB_TracePacket_incremental_state_cleared, PB_TracePacket_incremental_state_cleared},
    };
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        for (uint32_t sequence = 0; sequence < 2; sequence++) {
            struct trace_writer writer;
            trace_writer_start(&writer);
            size_t packet = wire_begin(&writer.w, FIELD_PACKET);
            if (sequence)
                wire_uint(&writer.w, PB_TracePacket_trusted_packet_sequence_id, sequence);
            wire_uint(&writer.w, fields[i][0], 1);
            wire_end(&writer.w, packet);
            struct seen *seen = read_all(&writer);
            assert_int_equal(seen->problems[PROBLEM_SEQUENCE_MISSING], !sequence);
            if (!sequence)
                assert_int_equal(seen->details[PROBLEM_SEQUENCE_MISSING], fields[i][1]);
            assert_int_equal(seen->problems[PROBLEM_PACKETS_LOST], 0); // it is the first packet
            seen_free(seen);
        }
    static const uint32_t messages[] = {PB_TracePacket_trace_packet_defaults,
                                        PB_TracePacket_interned_data};
    for (size_t i = 0; i < ELEMENTS(messages); i++) {
        struct trace_writer writer;
        trace_writer_start(&writer);
        size_t packet = wire_begin(&writer.w, FIELD_PACKET);
        wire_bytes(&writer.w, messages[i], "", 0);
        wire_end(&writer.w, packet);
        struct seen *seen = read_all(&writer);
        assert_int_equal(seen->problems[PROBLEM_SEQUENCE_MISSING], 1);
        assert_int_equal(seen->details[PROBLEM_SEQUENCE_MISSING], messages[i]);
        seen_free(seen);
    }
}

static void interned_data_after_a_gap_are_ignored(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_interned(&writer.w, 5, 1, false); // the sequence never started
    write_sample(&writer.w, (struct sample){.ts = 1, .id = 1, .sequence = 5});
    write_interned(&writer.w, 5, 1, true);
    write_sample(&writer.w, (struct sample){.ts = 2, .id = 1, .sequence = 5});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@1 p1@2i .");
    assert_int_equal(seen->problems[PROBLEM_INTERNED_IGNORED], 1);
    seen_free(seen);
}

// Packets that name no clock have the clock of their sequence's defaults.
static void defaults_have_a_largest_size(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        static const uint8_t filler[20000];
        struct trace_writer writer;
        trace_writer_start(&writer);
        write_snapshot(&writer.w, 1000, 500);
        size_t packet = wire_begin(&writer.w, FIELD_PACKET);
        wire_uint(&writer.w, PB_TracePacket_trusted_packet_sequence_id, 5);
        size_t before = wire_size(&writer.w);
        size_t defaults = wire_begin(&writer.w, PB_TracePacket_trace_packet_defaults);
        size_t start = wire_size(&writer.w);
        wire_uint(&writer.w, PB_TracePacketDefaults_timestamp_clock_id, CLOCK_ID_MONOTONIC);
        size_t used = wire_size(&writer.w) - start;
        wire_bytes(&writer.w, 4000, filler, 16384 + more - used - 5); // tag and length: 5 bytes
        assert_int_equal(wire_size(&writer.w) - start, 16384 + more);
        wire_end(&writer.w, defaults);
        assert_true(wire_size(&writer.w) > before);
        wire_end(&writer.w, packet);
        write_sample(&writer.w, (struct sample){.ts = 10, .id = 1, .sequence = 5});
        struct seen *seen = read_all(&writer);
        assert_non_null(strstr(seen->log.text, more ? "p1@10 " : "p1@510 "));
        assert_int_equal(seen->result.n_damaged, more);
        seen_free(seen);
    }
}

static void times_before_the_clock_began_are_left_out(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_snapshot(&writer.w, 500, 1000);
    write_sample(&writer.w, (struct sample){.ts = 499, .id = 1, .clock = CLOCK_ID_MONOTONIC});
    write_sample(&writer.w, (struct sample){.ts = 500, .id = 2, .clock = CLOCK_ID_MONOTONIC});
    struct seen *seen = read_all(&writer);
    assert_non_null(strstr(seen->log.text, "| p2@0 ."));
    assert_int_equal(seen->problems[PROBLEM_TIME_NEGATIVE], 1);
    seen_free(seen);
}

// A packet without time comes after the events before it, if one of them is the latest.
static void packets_without_time_come_after_events(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    BUNDLE(&writer.w, 0, 10, 50);
    BUNDLE(&writer.w, 1, 50, 20);
    write_sample(&writer.w, (struct sample){.id = 1});
    write_sample(&writer.w, (struct sample){.ts = 50, .id = 2});
    BUNDLE(&writer.w, 2, 40);
    write_sample(&writer.w, (struct sample){.id = 3});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| e0@10 e1@20 e2@40 p2@50 e0@50 e1@50 p1@50 p3@50 .");
    seen_free(seen);
}

// Packets after an event at the time of the latest packet do not wait for the event.
static void packets_without_time_stay_with_the_packet_before(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 50, .id = 1});
    write_sample(&writer.w, (struct sample){.id = 2});
    BUNDLE(&writer.w, 0, 50);
    write_sample(&writer.w, (struct sample){.id = 3});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@50 p2@50 p3@50 e0@50 .");
    seen_free(seen);
}

// State of a sequence is not applied to packets without a sequence.
static void packets_without_a_sequence_share_nothing(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_snapshot(&writer.w, 1000, 500);
    write_interned(&writer.w, 0, 1, true);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    size_t defaults = wire_begin(&writer.w, PB_TracePacket_trace_packet_defaults);
    wire_uint(&writer.w, PB_TracePacketDefaults_timestamp_clock_id, CLOCK_ID_MONOTONIC);
    wire_end(&writer.w, defaults);
    wire_end(&writer.w, packet);
    write_sample(&writer.w, (struct sample){.ts = 10, .id = 1});
    struct seen *seen = read_all(&writer);
    assert_non_null(strstr(seen->log.text, "| p1@10 ."));
    seen_free(seen);
}

static void a_machine_that_is_refused_ends_the_reading(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 1, .id = 1});
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_uint(&writer.w, PB_TracePacket_machine_id, 7);
    wire_bytes(&writer.w, PB_TracePacket_battery, "", 0);
    wire_bytes(&writer.w, PB_TracePacket_clock_snapshot, "", 0);
    wire_end(&writer.w, packet);
    struct seen *seen = calloc(1, sizeof(*seen));
    seen->failure = -EIO;
    read_with(seen, writer.bytes, wire_size(&writer.w), -EIO);
    assert_string_equal(seen->log.text, "m1=7 .");
    assert_int_equal(seen->problems[PROBLEM_FIELD_LEFT_OUT], 0);
    assert_int_equal(seen->problems[PROBLEM_CLOCK_SNAPSHOT], 0);
    seen_free(seen);
}

// Writes a thread descriptor {reference_timestamp_us: us}, alone or in a track descriptor.
static void write_thread(struct wire_writer *w, uint64_t us, bool of_track, bool dropped)
{
    size_t packet = wire_begin(w, FIELD_PACKET), track = 0;
    wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, 5);
    wire_uint(w, dropped ? PB_TracePacket_previous_packet_dropped : PB_TracePacket_sequence_flags,
              1);
    if (of_track)
        track = wire_begin(w, PB_TracePacket_track_descriptor);
    size_t thread =
        wire_begin(w, of_track ? PB_TrackDescriptor_thread : PB_TracePacket_thread_descriptor);
    wire_uint(w, PB_ThreadDescriptor_reference_timestamp_us, us);
    wire_end(w, thread);
    if (of_track)
        wire_end(w, track);
    wire_end(w, packet);
}

static void write_delta(struct wire_writer *w, uint32_t field, uint32_t delta_field, int64_t us,
                        int64_t ts)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, 5);
    if (ts)
        wire_uint(w, PB_TracePacket_timestamp, (uint64_t)ts);
    size_t message = wire_begin(w, field);
    wire_uint(w, delta_field, (uint64_t)us);
    wire_end(w, message);
    wire_end(w, packet);
}

#define EVENT_DELTA PB_TracePacket_track_event, PB_TrackEvent_timestamp_delta_us
#define PROFILE_DELTA                                                                              \
    PB_TracePacket_streaming_profile_packet, PB_StreamingProfilePacket_timestamp_delta_us

static void threads_have_clocks_of_their_own(void **state)
{
    (void)state;
    for (int of_track = 0; of_track < 2; of_track++) {
        struct trace_writer writer;
        trace_writer_start(&writer);
        size_t packet = wire_begin(&writer.w, FIELD_PACKET); // a track that is not a thread's
        wire_uint(&writer.w, PB_TracePacket_trusted_packet_sequence_id, 5);
        wire_uint(&writer.w, PB_TracePacket_sequence_flags, 1);
        wire_bytes(&writer.w, PB_TracePacket_track_descriptor, "", 0);
        wire_end(&writer.w, packet);
        write_delta(&writer.w, EVENT_DELTA, 5, 0); // no clock yet
        write_delta(&writer.w, PROFILE_DELTA, 6, 0);
        write_delta(&writer.w, PROFILE_DELTA, 7, 77); // has its own time
        write_thread(&writer.w, 100, of_track, false);
        write_delta(&writer.w, EVENT_DELTA, 8, 0);
        write_delta(&writer.w, EVENT_DELTA, 9, 5000);    // the difference counts
        write_delta(&writer.w, PROFILE_DELTA, 10, 5000); // the difference counts
        write_delta(&writer.w, EVENT_DELTA, -1000, 0);
        write_thread(&writer.w, 100, of_track, true); // packets were lost
        write_delta(&writer.w, EVENT_DELTA, 11, 0);
        struct seen *seen = read_all(&writer);
        assert_non_null(strstr(seen->log.text, "p7@77 "));
        assert_non_null(strstr(seen->log.text, "p8@108000 "));
        assert_non_null(strstr(seen->log.text, "p9@117000 "));
        assert_non_null(strstr(seen->log.text, "p10@117000 "));
        assert_null(strstr(seen->log.text, "p11@"));
        assert_null(strstr(seen->log.text, "p5@"));
        assert_null(strstr(seen->log.text, "p6@"));
        assert_int_equal(seen->problems[PROBLEM_THREAD_TIME_UNSET], 3);
        assert_int_equal(seen->details[PROBLEM_THREAD_TIME_UNSET], PB_TracePacket_track_event);
        assert_int_equal(seen->problems[PROBLEM_TIME_NEGATIVE], 0);
        assert_int_equal(seen->problems[PROBLEM_THREAD_TIME_NEGATIVE], 1);
        assert_int_equal(seen->problems[PROBLEM_THREAD_TIME_IGNORED], 1);
        seen_free(seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_distinguished),
        cmocka_unit_test(machines_have_a_limit),
        cmocka_unit_test(a_packet_waits_for_its_clock),
        cmocka_unit_test(interned_data_holds_for_a_generation),
        cmocka_unit_test(entries_are_found_in_tables_of_any_size),
        cmocka_unit_test(long_entries_are_withheld_after_many_bytes),
        cmocka_unit_test(later_interned_data_join_the_earlier),
        cmocka_unit_test(gaps_are_counted_by_cause),
        cmocka_unit_test(a_gap_invalidates_state),
        cmocka_unit_test(packets_without_time_come_after_the_latest),
        cmocka_unit_test(state_without_a_sequence_is_a_problem),
        cmocka_unit_test(interned_data_after_a_gap_are_ignored),
        cmocka_unit_test(defaults_have_a_largest_size),
        cmocka_unit_test(times_before_the_clock_began_are_left_out),
        cmocka_unit_test(packets_without_time_come_after_events),
        cmocka_unit_test(packets_without_time_stay_with_the_packet_before),
        cmocka_unit_test(packets_without_a_sequence_share_nothing),
        cmocka_unit_test(a_machine_that_is_refused_ends_the_reading),
        cmocka_unit_test(threads_have_clocks_of_their_own),
    };
    return cmocka_run_group_tests_name("trace_sequences", tests, NULL, NULL);
}
