// SPDX-License-Identifier: Apache-2.0
//
// Framing, state of sequences, order: traces of a few packets, written here, and what a handler
// sees.
#include "converter/decode/trace.h"

#include <errno.h>
#include <stdio.h>
#include <zlib.h>

#include "common/elements.h"
#include "common/str.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

#define FIELD_PACKET 1

struct seen {
    struct strbuf log; // a word per thing that was handed over
    unsigned problems[N_TRACE_PROBLEMS];
    uint32_t details[N_TRACE_PROBLEMS]; // of the last one of each kind
    struct trace_result result;
    int failure;     // of the calls that follow
    int n_calls;     // that still succeed
    double stops_at; // progress() ends the reading from this share on; 0: never
};

struct writer {
    uint8_t bytes[1 << 17];
    struct wire_writer w;
};

static void writer_start(struct writer *writer)
{
    writer->w = wire_writer_over(writer->bytes, sizeof(writer->bytes));
}

// trace_uuid and sys_stats stand for packets that are wanted at once and in order.
static enum field_interest interest(void *userdata, uint32_t field)
{
    (void)userdata;
    switch (field) {
    case PB_TracePacket_ftrace_events:
        return FIELD_EVENTS;
    case PB_TracePacket_trace_uuid:
        return FIELD_NOW;
    case PB_TracePacket_sys_stats:
    case PB_TracePacket_track_event:
    case PB_TracePacket_thread_descriptor:
    case PB_TracePacket_streaming_profile_packet:
        return FIELD_SORTED;
    case PB_TracePacket_track_descriptor:
        return FIELD_NOW;
    case PB_TracePacket_process_stats:
        return FIELD_BOTH;
    default:
        return FIELD_IGNORED;
    }
}

static int outcome(struct seen *seen)
{
    return seen->n_calls-- > 0 ? 0 : seen->failure;
}

static int on_now(void *userdata, struct packet *packet)
{
    struct seen *seen = userdata;
    strbuf_addf(&seen->log, "now%lld ", (long long)packet->ts);
    return outcome(seen);
}

static int on_sorted(void *userdata, struct packet *packet)
{
    struct seen *seen = userdata;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field number = {0};
    wire_next(&reader, &number); // num_forks tells the packets apart
    const struct interned *interned = generation_find(packet->state, 1, number.value);
    strbuf_addf(&seen->log, "p%lld@%lld%s ", (long long)number.value, (long long)packet->ts,
                interned ? "i" : "");
    return outcome(seen);
}

static int on_event(void *userdata, uint32_t field, const struct bundle_event *event)
{
    struct seen *seen = userdata;
    assert_int_equal(field, PB_TracePacket_ftrace_events);
    strbuf_addf(&seen->log, "%c%u@%lld ", "swe"[event->kind], event -> cpu, (long long)event -> ts);
    return outcome(seen);
}

static int on_machine(void *userdata, uint32_t machine, uint32_t raw_id)
{
    strbuf_addf(&((struct seen *)userdata)->log, "m%u=%u ", machine, raw_id);
    return outcome(userdata);
}

static int on_complete(void *userdata, uint32_t field, int64_t ts)
{
    assert_int_equal(field, PB_TracePacket_ftrace_events);
    strbuf_addf(&((struct seen *)userdata)->log, "from%lld ", (long long)ts);
    return 0;
}

static int on_indexed(void *userdata, const struct trace_result *result)
{
    (void)result;
    strbuf_add_str(&((struct seen *)userdata)->log, "| ");
    return 0;
}

static int on_finished(void *userdata, int outcome)
{
    strbuf_add_char(&((struct seen *)userdata)->log, '.');
    return outcome;
}

static int on_describe(void *userdata, uint32_t field, const struct wire_field *descriptor)
{
    struct seen *seen = userdata;
    assert_int_equal(field, PB_TracePacket_ftrace_events);
    strbuf_addf(&seen->log, "d%zu ", descriptor->size);
    return outcome(seen);
}

static void on_snapshot(void *userdata, uint32_t id, int64_t ts,
                        const struct clock_reading *readings, size_t n)
{
    (void)id;
    (void)readings;
    strbuf_addf(&((struct seen *)userdata)->log, "clocks%zu@%lld ", n, (long long)ts);
}

static void on_problem(void *userdata, enum trace_problem problem, uint32_t detail)
{
    struct seen *seen = userdata;
    seen->problems[problem]++;
    seen->details[problem] = detail;
}

static bool on_progress(void *userdata, double done)
{
    assert_true(done >= 0 && done <= 1);
    double stops_at = ((struct seen *)userdata)->stops_at;
    return stops_at == 0 || done < stops_at;
}

static void read_with(struct seen *seen, const void *bytes, size_t size, int expected)
{
    struct trace_handler handler = {
        .userdata = seen,
        .machine = on_machine,
        .interest = interest,
        .now = on_now,
        .sorted = on_sorted,
        .event = on_event,
        .describe = on_describe,
        .complete = on_complete,
        .indexed = on_indexed,
        .finished = on_finished,
        .snapshot = on_snapshot,
        .problem = on_problem,
        .progress = on_progress,
    };
    struct err err = {0};
    struct clocks clocks = {0};
    struct input *input;
    assert_int_equal(input_from_memory(bytes, size, &err, &input), 0);
    assert_int_equal(trace_read(input, NULL, &handler, &clocks, &err, &seen->result), expected);
    assert_int_equal(err.text[0] != 0, expected < 0);
    clocks_done(&clocks);
    input_free(input);
}

static struct seen *read_bytes(const void *bytes, size_t size)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    read_with(seen, bytes, size, 0);
    return seen;
}

static struct seen *seen_free(struct seen *seen)
{
    strbuf_done(&seen->log);
    free(seen);
    return NULL;
}

static struct seen *read_all(struct writer *writer)
{
    assert_false(writer->w.overflow);
    return read_bytes(writer->bytes, wire_size(&writer->w));
}

struct sample {
    int64_t ts;
    uint32_t id, sequence, clock, flags;
    bool dropped;
};

static void write_sample(struct wire_writer *w, struct sample sample)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    if (sample.ts)
        wire_uint(w, PB_TracePacket_timestamp, (uint64_t)sample.ts);
    if (sample.sequence)
        wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, sample.sequence);
    if (sample.clock)
        wire_uint(w, PB_TracePacket_timestamp_clock_id, sample.clock);
    if (sample.flags)
        wire_uint(w, PB_TracePacket_sequence_flags, sample.flags);
    if (sample.dropped)
        wire_uint(w, PB_TracePacket_previous_packet_dropped, 1);
    size_t stats = wire_begin(w, PB_TracePacket_sys_stats);
    wire_uint(w, PB_SysStats_num_forks, sample.id);
    wire_end(w, stats);
    wire_end(w, packet);
}

static void write_bundle(struct wire_writer *w, uint32_t cpu, size_t n, const int64_t *ts)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    for (size_t i = 0; i < n; i++) {
        size_t event = wire_begin(w, PB_FtraceEventBundle_event);
        wire_uint(w, PB_FtraceEvent_timestamp, (uint64_t)ts[i]);
        wire_uint(w, PB_FtraceEvent_pid, 1);
        wire_end(w, event);
    }
    wire_end(w, bundle);
    wire_end(w, packet);
}

#define BUNDLE(w, cpu, ...)                                                                        \
    write_bundle(w, cpu, ELEMENTS(((int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__})

static void processors_are_merged(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    BUNDLE(&writer.w, 1, 10, 30, 50);
    BUNDLE(&writer.w, 0, 20, 30, 40);
    BUNDLE(&writer.w, 1, 60, 70);
    write_sample(&writer.w, (struct sample){.ts = 30, .id = 1});
    write_sample(&writer.w, (struct sample){.ts = 5, .id = 2});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p2@5 e1@10 e0@20 e0@30 p1@30 e1@30 e0@40 e1@50 e1@60 "
                                        "e1@70 .");
    assert_int_equal(seen->result.n_packets, 5);
    seen_free(seen);
}

static void a_run_out_of_order_is_sorted(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    BUNDLE(&writer.w, 0, 40, 10, 30, 20);
    BUNDLE(&writer.w, 1, 25);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| e0@10 e0@20 e1@25 e0@30 e0@40 .");
    seen_free(seen);
}

static void packed(struct wire_writer *w, uint32_t field, size_t n, const uint64_t *values)
{
    size_t mark = wire_begin(w, field);
    for (size_t i = 0; i < n; i++)
        wire_varint(w, values[i]);
    wire_end(w, mark);
}

static void write_compact(struct wire_writer *w, size_t n_pids)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, 2);
    size_t compact = wire_begin(w, PB_FtraceEventBundle_compact_sched);
    wire_string(w, PB_FtraceEventBundle_CompactSched_intern_table, "a");
    packed(w, PB_FtraceEventBundle_CompactSched_switch_timestamp, 3, (uint64_t[]){100, 5, 5});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_prev_state, 3, (uint64_t[]){1, 1, 1});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_pid, n_pids, (uint64_t[]){7, 8, 9});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_prio, 3, (uint64_t[]){0, 0, 0});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_comm_index, 3, (uint64_t[]){0, 0, 0});
    wire_end(w, compact);
    wire_end(w, bundle);
    wire_end(w, packet);
}

static void compact_switches_are_differences(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_compact(&writer.w, 3);
    BUNDLE(&writer.w, 2, 105);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| s2@100 s2@105 e2@105 s2@110 .");
    assert_int_equal(seen->problems[PROBLEM_COMPACT_SCHED_DAMAGED], 0);
    seen_free(seen);
}

static void compact_columns_must_have_one_length(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_compact(&writer.w, 2);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| s2@100 s2@105 .");
    assert_int_equal(seen->problems[PROBLEM_COMPACT_SCHED_DAMAGED], 1);
    assert_int_equal(seen->result.n_damaged, 1);
    seen_free(seen);
}

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
    struct writer writer;
    writer_start(&writer);
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
    struct writer writer;
    writer_start(&writer);
    write_interned(&writer.w, 5, 1, true);
    write_sample(&writer.w, (struct sample){.ts = 40, .id = 1, .sequence = 5, .flags = 2});
    write_sample(&writer.w, (struct sample){.ts = 30, .id = 1, .sequence = 6});
    write_interned(&writer.w, 5, 2, true);
    // Earlier than the packet before, but of the generation in which id 1 is not defined.
    write_sample(&writer.w, (struct sample){.ts = 20, .id = 1, .sequence = 5, .flags = 2});
    write_sample(&writer.w, (struct sample){.ts = 50, .id = 2, .sequence = 5, .flags = 2});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@20 p1@30 p1@40i p2@50i .");
    seen_free(seen);
}

static void a_gap_invalidates_state(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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

static size_t deflate_packets(const struct writer *packets, uint8_t *to, size_t size)
{
    uLongf n = size;
    assert_int_equal(compress(to, &n, packets->bytes, wire_size(&packets->w)), Z_OK);
    return n;
}

static void compressed_packets_stand_in_place(void **state)
{
    (void)state;
    struct writer inner, writer;
    writer_start(&inner);
    writer_start(&writer);
    write_sample(&inner.w, (struct sample){.ts = 20, .id = 2});
    write_sample(&inner.w, (struct sample){.ts = 10, .id = 3});
    uint8_t deflated[1024];
    size_t n = deflate_packets(&inner, deflated, sizeof(deflated));
    write_sample(&writer.w, (struct sample){.ts = 20, .id = 1});
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_compressed_packets, deflated, n);
    wire_end(&writer.w, packet);
    packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_compressed_packets, deflated, n - 6);
    wire_end(&writer.w, packet);
    struct seen *seen = read_all(&writer);
    assert_non_null(strstr(seen->log.text, "| p3@10 "));
    assert_non_null(strstr(seen->log.text, "p1@20 p2@20 "));
    assert_int_equal(seen->problems[PROBLEM_COMPRESSED_DAMAGED] >= 1, 1);
    assert_int_equal(seen->result.first_damaged_packet, 2);
    seen_free(seen);
}

static void compressed_packets_of_another_type_are_damaged(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_uint(&writer.w, PB_TracePacket_compressed_packets, 7);
    wire_end(&writer.w, packet);
    write_sample(&writer.w, (struct sample){.ts = 20, .id = 1});
    struct seen *seen = read_all(&writer);
    assert_non_null(strstr(seen->log.text, "p1@20 "));
    assert_int_equal(seen->problems[PROBLEM_COMPRESSED_DAMAGED], 1);
    assert_int_equal(seen->result.n_damaged, 1);
    seen_free(seen);
}

// A frame of one block that is not compressed, behind what it comes to.
static size_t zstd_frame(uint8_t *to, const void *bytes, size_t size)
{
    assert_in_range(size, 1, 255);
    const uint8_t head[] = {
        0x28, 0xb5, 0x2f, 0xfd, 0x20, (uint8_t)size, (uint8_t)(size << 3 | 1), (uint8_t)(size >> 5),
        0};
    memcpy(to, head, sizeof(head));
    memcpy(to + sizeof(head), bytes, size);
    return sizeof(head) + size;
}

static void zstd_packets_stand_in_place(void **state)
{
    (void)state;
    struct writer first, second, writer;
    uint8_t frames[1024];
    writer_start(&first);
    writer_start(&second);
    writer_start(&writer);
    write_sample(&first.w, (struct sample){.ts = 20, .id = 2});
    write_sample(&second.w, (struct sample){.ts = 10, .id = 3});
    size_t n = zstd_frame(frames, first.bytes, wire_size(&first.w));
    n += zstd_frame(frames + n, second.bytes, wire_size(&second.w));
    write_sample(&writer.w, (struct sample){.ts = 20, .id = 1});
    for (size_t cut = 0; cut < 2; cut++) {
        size_t packet = wire_begin(&writer.w, FIELD_PACKET);
        wire_bytes(&writer.w, PB_TracePacket_zstd_compressed_packets, frames, n - cut);
        wire_end(&writer.w, packet);
    }
    struct seen *seen = read_all(&writer);
    assert_int_equal(seen->result.n_damaged,
                     seen->problems[PROBLEM_COMPRESSED_UNSUPPORTED] ? 2 : 1);
    if (!seen->problems[PROBLEM_COMPRESSED_UNSUPPORTED]) {
        assert_non_null(strstr(seen->log.text, "| p3@10 "));
        assert_non_null(strstr(seen->log.text, "p1@20 p2@20 "));
        assert_int_equal(seen->result.first_damaged_packet, 2);
        assert_true(seen->problems[PROBLEM_COMPRESSED_DAMAGED] >= 1);
    }
    seen_free(seen);
}

static void a_damaged_packet_is_skipped(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 1, .id = 1});
    size_t offset = wire_size(&writer.w);
    wire_bytes(&writer.w, FIELD_PACKET, "\x3a\x7f", 2); // a field longer than its packet
    write_sample(&writer.w, (struct sample){.ts = 2, .id = 2});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@1 p2@2 .");
    assert_int_equal(seen->result.n_damaged, 1);
    assert_int_equal(seen->result.first_damaged_packet, 1);
    assert_int_equal(seen->result.first_damaged_offset, offset);
    assert_false(seen->result.truncated);
    seen_free(seen);
}

static void every_cut_is_found(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    size_t borders[4] = {0};
    for (uint32_t i = 1; i < 4; i++) {
        write_sample(&writer.w, (struct sample){.ts = i * 1000, .id = i, .sequence = 3});
        borders[i] = wire_size(&writer.w);
    }
    for (size_t size = 0; size <= borders[3]; size++) {
        struct seen *seen = read_bytes(writer.bytes, size);
        size_t n_whole = 0;
        while (n_whole < 3 && borders[n_whole + 1] <= size)
            n_whole++;
        assert_int_equal(seen->result.n_packets, n_whole);
        assert_int_equal(seen->result.truncated, size != borders[n_whole]);
        if (seen->result.truncated)
            assert_int_equal(seen->result.truncated_offset, borders[n_whole]);
        seen_free(seen);
    }
}

static void packets_without_time_stay_behind_the_latest(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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

static void machines_are_told_apart(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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
    struct writer writer;
    writer_start(&writer);
    for (uint32_t machine = 0; machine < 100; machine++)
        write_remote(&writer.w, machine, 1);
    struct seen *seen = read_all(&writer);
    assert_int_equal(seen->problems[PROBLEM_MACHINES_MANY], 100 - 64);
    seen_free(seen);
}

// What is of a sequence needs one.
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
            struct writer writer;
            writer_start(&writer);
            size_t packet = wire_begin(&writer.w, FIELD_PACKET);
            if (sequence)
                wire_uint(&writer.w, PB_TracePacket_trusted_packet_sequence_id, sequence);
            wire_uint(&writer.w, fields[i][0], 1);
            wire_end(&writer.w, packet);
            struct seen *seen = read_all(&writer);
            assert_int_equal(seen->problems[PROBLEM_SEQUENCE_MISSING], !sequence);
            if (!sequence)
                assert_int_equal(seen->details[PROBLEM_SEQUENCE_MISSING], fields[i][1]);
            assert_int_equal(seen->problems[PROBLEM_PACKETS_LOST], 0); // it is the first
            seen_free(seen);
        }
    static const uint32_t messages[] = {PB_TracePacket_trace_packet_defaults,
                                        PB_TracePacket_interned_data};
    for (size_t i = 0; i < ELEMENTS(messages); i++) {
        struct writer writer;
        writer_start(&writer);
        size_t packet = wire_begin(&writer.w, FIELD_PACKET);
        wire_bytes(&writer.w, messages[i], "", 0);
        wire_end(&writer.w, packet);
        struct seen *seen = read_all(&writer);
        assert_int_equal(seen->problems[PROBLEM_SEQUENCE_MISSING], 1);
        assert_int_equal(seen->details[PROBLEM_SEQUENCE_MISSING], messages[i]);
        seen_free(seen);
    }
}

static void interned_data_behind_a_gap_is_ignored(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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
        struct writer writer;
        writer_start(&writer);
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

static void write_cpu_bundle(struct wire_writer *w, bool has_cpu, uint32_t cpu)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    if (has_cpu)
        wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    wire_uint(w, PB_FtraceEventBundle_lost_events, 1);
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, 10);
    wire_end(w, event);
    wire_end(w, bundle);
    wire_end(w, packet);
}

static void bundles_need_a_processor(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_cpu_bundle(&writer.w, true, 4095);
    write_cpu_bundle(&writer.w, true, 4096);
    write_cpu_bundle(&writer.w, false, 0);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| e4095@10 .");
    assert_int_equal(seen->problems[PROBLEM_BUNDLE_DAMAGED], 2);
    assert_int_equal(seen->problems[PROBLEM_EVENTS_LOST], 1);
    assert_int_equal(seen->details[PROBLEM_EVENTS_LOST], 4095);
    assert_int_equal(seen->result.first_damaged_packet, 1);
    seen_free(seen);
}

// Without a time stamp it is left out, and told.
static void events_need_a_time(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    size_t bundle = wire_begin(&writer.w, PB_TracePacket_ftrace_events);
    wire_uint(&writer.w, PB_FtraceEventBundle_cpu, 0);
    size_t event = wire_begin(&writer.w, PB_FtraceEventBundle_event);
    wire_uint(&writer.w, PB_FtraceEvent_pid, 1);
    wire_end(&writer.w, event);
    wire_end(&writer.w, bundle);
    wire_end(&writer.w, packet);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    assert_int_equal(seen->problems[PROBLEM_BUNDLE_DAMAGED], 1);
    seen_free(seen);
}

static void write_start(struct wire_writer *w, uint32_t cpu, uint64_t start, bool has_start)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    if (has_start)
        wire_uint(w, PB_FtraceEventBundle_last_read_event_timestamp, start);
    wire_end(w, bundle);
    wire_end(w, packet);
}

// The latest of what the processors' first bundles say.
static void data_is_complete_from_the_last_processor_on(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_start(&writer.w, 0, 100, true);
    write_start(&writer.w, 1, 300, true);
    write_start(&writer.w, 2, 200, true);
    write_start(&writer.w, 0, 900, true); // not its first
    write_start(&writer.w, 3, 0, false);
    write_start(&writer.w, 3, 800, true); // nor this
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "from300 | .");
    seen_free(seen);
    writer_start(&writer);
    write_start(&writer.w, 3, 0, false);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    seen_free(seen);
}

static void write_descriptors(struct wire_writer *w)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, 0);
    for (size_t i = 0; i < 2; i++) {
        size_t descriptor = wire_begin(w, PB_FtraceEventBundle_generic_event_descriptors);
        if (i)
            wire_uint(w, 1, 5);
        wire_end(w, descriptor);
    }
    wire_end(w, bundle);
    wire_end(w, packet);
}

static void descriptors_of_events_come_first(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_descriptors(&writer.w);
    BUNDLE(&writer.w, 0, 5);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "d0 d2 | e0@5 .");
    seen_free(seen);
}

static void write_wanted(struct wire_writer *w, int64_t ts, uint32_t field, size_t n)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    wire_uint(w, PB_TracePacket_timestamp, (uint64_t)ts);
    for (size_t i = 0; i < n; i++)
        wire_bytes(w, field, "", 0);
    wire_end(w, packet);
}

// A packet has eight fields with data at most; what is of no known kind is told.
static void fields_that_are_left_out_are_told(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_wanted(&writer.w, 1, PB_TracePacket_trace_uuid, 8);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now1 now1 now1 now1 now1 now1 now1 now1 | .");
    assert_int_equal(seen->problems[PROBLEM_FIELD_LEFT_OUT], 0);
    seen_free(seen);
    writer_start(&writer);
    write_wanted(&writer.w, 1, PB_TracePacket_trace_uuid, 9);
    write_wanted(&writer.w, 1, PB_TracePacket_battery, 1);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now1 now1 now1 now1 now1 now1 now1 now1 | .");
    assert_int_equal(seen->problems[PROBLEM_FIELD_LEFT_OUT], 2);
    assert_int_equal(seen->details[PROBLEM_FIELD_LEFT_OUT], PB_TracePacket_battery);
    seen_free(seen);
    writer_start(&writer);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_uint(&writer.w, PB_TracePacket_trace_uuid, 7); // no message
    wire_uint(&writer.w, PB_TracePacket_trusted_uid, 7);
    wire_end(&writer.w, packet);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    assert_int_equal(seen->problems[PROBLEM_FIELD_LEFT_OUT], 1);
    assert_int_equal(seen->details[PROBLEM_FIELD_LEFT_OUT], PB_TracePacket_trace_uuid);
    seen_free(seen);
}

// Both at once and in order.
static void a_field_may_be_wanted_twice(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_wanted(&writer.w, 20, PB_TracePacket_process_stats, 1);
    write_sample(&writer.w, (struct sample){.ts = 10, .id = 1});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now20 | p1@10 p0@20 .");
    seen_free(seen);
    writer_start(&writer); // one at once, the other in order
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_trace_uuid, "", 0);
    wire_bytes(&writer.w, PB_TracePacket_sys_stats, "", 0);
    wire_end(&writer.w, packet);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now0 | p0@0 .");
    seen_free(seen);
}

// The first of several damaged packets is told, with the field if a message is damaged.
static void the_first_damage_is_told(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    for (uint32_t i = 0; i < 2; i++) {
        size_t packet = wire_begin(&writer.w, FIELD_PACKET);
        if (i)
            wire_bytes(&writer.w, PB_TracePacket_trace_uuid, "\x08", 1);
        wire_bytes(&writer.w, PB_TracePacket_sys_stats, "\x0a\x7f", 2);
        wire_bytes(&writer.w, PB_TracePacket_process_stats, "\x0a\x7f", 2);
        wire_end(&writer.w, packet);
    }
    struct seen *seen = read_all(&writer);
    assert_int_equal(seen->result.n_damaged, 2);
    assert_int_equal(seen->result.first_damaged_packet, 0);
    assert_int_equal(seen->result.first_damage, PROBLEM_MESSAGE_DAMAGED);
    assert_int_equal(seen->result.first_damaged_field, PB_TracePacket_sys_stats);
    assert_int_equal(seen->problems[PROBLEM_MESSAGE_DAMAGED], 5);
    seen_free(seen);
    writer_start(&writer); // the first has no field, and the second does not give it one
    wire_bytes(&writer.w, FIELD_PACKET, "\x3a\x7f", 2);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_sys_stats, "\x0a\x7f", 2);
    wire_end(&writer.w, packet);
    seen = read_all(&writer);
    assert_int_equal(seen->result.n_damaged, 2);
    assert_int_equal(seen->result.first_damage, PROBLEM_PACKET_DAMAGED);
    assert_int_equal(seen->result.first_damaged_field, 0);
    seen_free(seen);
}

static void compressed_packets_are_not_nested(void **state)
{
    (void)state;
    struct writer innermost, inner, writer;
    uint8_t deflated[2048];
    writer_start(&innermost);
    writer_start(&inner);
    writer_start(&writer);
    write_sample(&innermost.w, (struct sample){.ts = 20, .id = 1});
    size_t n = deflate_packets(&innermost, deflated, sizeof(deflated));
    size_t packet = wire_begin(&inner.w, FIELD_PACKET);
    wire_bytes(&inner.w, PB_TracePacket_compressed_packets, deflated, n);
    wire_end(&inner.w, packet);
    write_sample(&inner.w, (struct sample){.ts = 30, .id = 2});
    n = deflate_packets(&inner, deflated, sizeof(deflated));
    packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_compressed_packets, deflated, n);
    wire_end(&writer.w, packet);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p2@30 .");
    assert_int_equal(seen->problems[PROBLEM_COMPRESSED_DAMAGED], 1);
    assert_int_equal(seen->result.n_packets, 1);
    seen_free(seen);
}

// A handler's failure ends the reading, wherever it comes.
static void failures_of_handlers_end_the_reading(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_descriptors(&writer.w);                                // two calls
    write_wanted(&writer.w, 5, PB_TracePacket_trace_uuid, 2);    // two
    write_sample(&writer.w, (struct sample){.ts = 10, .id = 1}); // one
    BUNDLE(&writer.w, 0, 20, 30);                                // two
    write_sample(&writer.w, (struct sample){.ts = 40, .id = 2}); // one
    static const char *const logs[] = {
        "d0 .",
        "d0 d2 .",
        "d0 d2 now5 .",
        "d0 d2 now5 now5 .",
        "d0 d2 now5 now5 | p1@10 .",
        "d0 d2 now5 now5 | p1@10 e0@20 .",
        "d0 d2 now5 now5 | p1@10 e0@20 e0@30 .",
        "d0 d2 now5 now5 | p1@10 e0@20 e0@30 p2@40 .",
    };
    for (size_t i = 0; i <= ELEMENTS(logs); i++) {
        struct seen *seen = calloc(1, sizeof(*seen));
        seen->n_calls = (int)i;
        seen->failure = -EIO;
        read_with(seen, writer.bytes, wire_size(&writer.w), i < ELEMENTS(logs) ? -EIO : 0);
        assert_string_equal(seen->log.text, logs[i < ELEMENTS(logs) ? i : i - 1]);
        seen_free(seen);
    }
}

static void read_until(struct writer *writer, double stops_at, int expected)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    seen->stops_at = stops_at;
    assert_false(writer->w.overflow);
    read_with(seen, writer->bytes, wire_size(&writer->w), expected);
    seen_free(seen);
}

// It is asked each 4096 packets or events, in both walks and between them.
static void progress_may_end_the_reading(void **state)
{
    (void)state;
    static struct writer writer;
    for (uint32_t n = 4095; n <= 4096; n++) {
        writer_start(&writer);
        for (uint32_t i = 0; i < n; i++)
            wire_bytes(&writer.w, FIELD_PACKET, "", 0);
        read_until(&writer, 1e-9, n < 4096 ? 0 : -ECANCELED);
        read_until(&writer, 0.3, 0);
    }
    for (uint32_t clock = 0; clock <= 5; clock += 5) { // 5: unknown, so that they wait
        writer_start(&writer);
        for (uint32_t i = 0; i < 4096; i++)
            write_sample(&writer.w, (struct sample){.ts = 1, .id = 1, .clock = clock});
        read_until(&writer, 0.3, -ECANCELED);
        read_until(&writer, 1.1, 0);
    }
}

static void times_before_the_clock_began_are_left_out(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_snapshot(&writer.w, 500, 1000);
    write_sample(&writer.w, (struct sample){.ts = 499, .id = 1, .clock = CLOCK_ID_MONOTONIC});
    write_sample(&writer.w, (struct sample){.ts = 500, .id = 2, .clock = CLOCK_ID_MONOTONIC});
    struct seen *seen = read_all(&writer);
    assert_non_null(strstr(seen->log.text, "| p2@0 ."));
    assert_int_equal(seen->problems[PROBLEM_TIME_NEGATIVE], 1);
    seen_free(seen);
}

// What has no time comes after the events before it, if one of them is the latest.
static void packets_without_time_come_after_events(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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

// An event at the time of the latest packet does not make what follows wait for it.
static void packets_without_time_stay_with_the_packet_before(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    write_sample(&writer.w, (struct sample){.ts = 50, .id = 1});
    write_sample(&writer.w, (struct sample){.id = 2});
    BUNDLE(&writer.w, 0, 50);
    write_sample(&writer.w, (struct sample){.id = 3});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@50 p2@50 p3@50 e0@50 .");
    seen_free(seen);
}

static void bundles_of_unknown_clocks_are_left_out(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    size_t bundle = wire_begin(&writer.w, PB_TracePacket_ftrace_events);
    wire_uint(&writer.w, PB_FtraceEventBundle_cpu, 0);
    wire_uint(&writer.w, PB_FtraceEventBundle_ftrace_clock, PB_FTRACE_CLOCK_MONO_RAW);
    size_t event = wire_begin(&writer.w, PB_FtraceEventBundle_event);
    wire_uint(&writer.w, PB_FtraceEvent_timestamp, 10);
    wire_end(&writer.w, event);
    wire_end(&writer.w, bundle);
    wire_end(&writer.w, packet);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    assert_int_equal(seen->problems[PROBLEM_CLOCK_UNKNOWN], 1);
    seen_free(seen);
}

// What is of a sequence is not applied to packets without one.
static void packets_without_a_sequence_share_nothing(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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

static void broken_packets_in_compressed_ones_are_damage(void **state)
{
    (void)state;
    struct writer inner, writer;
    uint8_t deflated[1024];
    writer_start(&inner);
    writer_start(&writer);
    write_sample(&inner.w, (struct sample){.ts = 10, .id = 1});
    wire_bytes(&inner.w, FIELD_PACKET, "abc", 3);
    inner.bytes[wire_size(&inner.w) - 4]++; // longer than what follows
    size_t n = deflate_packets(&inner, deflated, sizeof(deflated));
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_compressed_packets, deflated, n);
    wire_end(&writer.w, packet);
    write_sample(&writer.w, (struct sample){.ts = 20, .id = 2});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@10 p2@20 .");
    assert_int_equal(seen->problems[PROBLEM_COMPRESSED_DAMAGED], 1);
    assert_false(seen->result.truncated);
    seen_free(seen);
}

static void a_machine_that_is_refused_ends_the_reading(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
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

static void other_fields_of_the_trace_are_passed_over(void **state)
{
    (void)state;
    struct writer writer;
    writer_start(&writer);
    wire_uint(&writer.w, FIELD_PACKET, 7);
    wire_bytes(&writer.w, FIELD_PACKET + 1, "abc", 3);
    write_sample(&writer.w, (struct sample){.ts = 1, .id = 1});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@1 .");
    assert_int_equal(seen->result.n_packets, 1);
    assert_false(seen->result.truncated);
    seen_free(seen);
}

// A descriptor of the thread: {reference_timestamp_us: us}, by itself or in that of a track.
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
        struct writer writer;
        writer_start(&writer);
        size_t packet = wire_begin(&writer.w, FIELD_PACKET); // a track that is no thread's
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
        write_delta(&writer.w, PROFILE_DELTA, 10, 5000); // the same
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
        cmocka_unit_test(processors_are_merged),
        cmocka_unit_test(a_run_out_of_order_is_sorted),
        cmocka_unit_test(compact_switches_are_differences),
        cmocka_unit_test(compact_columns_must_have_one_length),
        cmocka_unit_test(machines_are_told_apart),
        cmocka_unit_test(machines_have_a_limit),
        cmocka_unit_test(a_packet_waits_for_its_clock),
        cmocka_unit_test(interned_data_holds_for_a_generation),
        cmocka_unit_test(a_gap_invalidates_state),
        cmocka_unit_test(compressed_packets_stand_in_place),
        cmocka_unit_test(compressed_packets_of_another_type_are_damaged),
        cmocka_unit_test(zstd_packets_stand_in_place),
        cmocka_unit_test(a_damaged_packet_is_skipped),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(packets_without_time_stay_behind_the_latest),
        cmocka_unit_test(state_without_a_sequence_is_a_problem),
        cmocka_unit_test(interned_data_behind_a_gap_is_ignored),
        cmocka_unit_test(defaults_have_a_largest_size),
        cmocka_unit_test(bundles_need_a_processor),
        cmocka_unit_test(events_need_a_time),
        cmocka_unit_test(data_is_complete_from_the_last_processor_on),
        cmocka_unit_test(descriptors_of_events_come_first),
        cmocka_unit_test(fields_that_are_left_out_are_told),
        cmocka_unit_test(a_field_may_be_wanted_twice),
        cmocka_unit_test(the_first_damage_is_told),
        cmocka_unit_test(compressed_packets_are_not_nested),
        cmocka_unit_test(failures_of_handlers_end_the_reading),
        cmocka_unit_test(progress_may_end_the_reading),
        cmocka_unit_test(times_before_the_clock_began_are_left_out),
        cmocka_unit_test(packets_without_time_come_after_events),
        cmocka_unit_test(packets_without_time_stay_with_the_packet_before),
        cmocka_unit_test(bundles_of_unknown_clocks_are_left_out),
        cmocka_unit_test(packets_without_a_sequence_share_nothing),
        cmocka_unit_test(broken_packets_in_compressed_ones_are_damage),
        cmocka_unit_test(a_machine_that_is_refused_ends_the_reading),
        cmocka_unit_test(other_fields_of_the_trace_are_passed_over),
        cmocka_unit_test(threads_have_clocks_of_their_own),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
