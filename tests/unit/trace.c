// SPDX-License-Identifier: Apache-2.0
//
// Traces of a few packets: framing, compression, damage, failures, and the calls of a handler.
#include <errno.h>
#include <zlib.h>

#include "common/elements.h"
#include "protos/fields.h"
#include "tests/unit/trace_fixture.h"

static size_t deflate_packets(const struct trace_writer *packets, uint8_t *to, size_t size)
{
    uLongf n = size;
    assert_int_equal(compress(to, &n, packets->bytes, wire_size(&packets->w)), Z_OK);
    return n;
}

static void compressed_packets_stand_in_place(void **state)
{
    (void)state;
    struct trace_writer inner, writer;
    trace_writer_start(&inner);
    trace_writer_start(&writer);
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
    struct trace_writer writer;
    trace_writer_start(&writer);
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

// Writes a zstd frame of one block that is not compressed. Returns its size.
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
    struct trace_writer first, second, writer;
    uint8_t frames[1024];
    trace_writer_start(&first);
    trace_writer_start(&second);
    trace_writer_start(&writer);
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
    struct trace_writer writer;
    trace_writer_start(&writer);
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
    struct trace_writer writer;
    trace_writer_start(&writer);
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

static void write_wanted(struct wire_writer *w, int64_t ts, uint32_t field, size_t n)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    wire_uint(w, PB_TracePacket_timestamp, (uint64_t)ts);
    for (size_t i = 0; i < n; i++)
        wire_bytes(w, field, "", 0);
    wire_end(w, packet);
}

// The reader handles eight fields of a packet at most. Fields of unknown kinds are named in a
// message.
static void fields_that_are_left_out_are_named(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_wanted(&writer.w, 1, PB_TracePacket_trace_uuid, 8);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now1 now1 now1 now1 now1 now1 now1 now1 | .");
    assert_int_equal(seen->problems[PROBLEM_FIELD_LEFT_OUT], 0);
    seen_free(seen);
    trace_writer_start(&writer);
    write_wanted(&writer.w, 1, PB_TracePacket_trace_uuid, 9);
    write_wanted(&writer.w, 1, PB_TracePacket_battery, 1);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now1 now1 now1 now1 now1 now1 now1 now1 | .");
    assert_int_equal(seen->problems[PROBLEM_FIELD_LEFT_OUT], 2);
    assert_int_equal(seen->details[PROBLEM_FIELD_LEFT_OUT], PB_TracePacket_battery);
    seen_free(seen);
    trace_writer_start(&writer);
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

// A packet may have a field that is handled at once and fields that are handled in order.
static void a_field_may_be_wanted_twice(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_wanted(&writer.w, 20, PB_TracePacket_process_stats, 1);
    write_sample(&writer.w, (struct sample){.ts = 10, .id = 1});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now20 | p1@10 p0@20 .");
    seen_free(seen);
    trace_writer_start(&writer); // one field at once, the other in order
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    wire_bytes(&writer.w, PB_TracePacket_trace_uuid, "", 0);
    wire_bytes(&writer.w, PB_TracePacket_sys_stats, "", 0);
    wire_end(&writer.w, packet);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "now0 | p0@0 .");
    seen_free(seen);
}

// The first of several damaged packets is reported, with the field if a message is damaged.
static void the_first_damage_is_reported(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
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
    trace_writer_start(&writer); // the damage of the first packet has no field
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
    struct trace_writer innermost, inner, writer;
    uint8_t deflated[2048];
    trace_writer_start(&innermost);
    trace_writer_start(&inner);
    trace_writer_start(&writer);
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

// A failure of any call of the handler ends the reading.
static void failures_of_handlers_end_the_reading(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
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

static void read_until(struct trace_writer *writer, double stops_at, int expected)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    seen->stops_at = stops_at;
    assert_false(writer->w.overflow);
    read_with(seen, writer->bytes, wire_size(&writer->w), expected);
    seen_free(seen);
}

// The handler is asked after each 4096 packets or events, in both walks and between them.
static void progress_may_end_the_reading(void **state)
{
    (void)state;
    static struct trace_writer writer;
    for (uint32_t n = 4095; n <= 4096; n++) {
        trace_writer_start(&writer);
        for (uint32_t i = 0; i < n; i++)
            wire_bytes(&writer.w, FIELD_PACKET, "", 0);
        read_until(&writer, 1e-9, n < 4096 ? 0 : -ECANCELED);
        read_until(&writer, 0.3, 0);
    }
    for (uint32_t clock = 0; clock <= 5; clock += 5) { // 5: an unknown clock, so that packets wait
        trace_writer_start(&writer);
        for (uint32_t i = 0; i < 4096; i++)
            write_sample(&writer.w, (struct sample){.ts = 1, .id = 1, .clock = clock});
        read_until(&writer, 0.3, -ECANCELED);
        read_until(&writer, 1.1, 0);
    }
}

static void broken_packets_in_compressed_ones_are_damage(void **state)
{
    (void)state;
    struct trace_writer inner, writer;
    uint8_t deflated[1024];
    trace_writer_start(&inner);
    trace_writer_start(&writer);
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

static void other_fields_of_the_trace_are_passed_over(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    wire_uint(&writer.w, FIELD_PACKET, 7);
    wire_bytes(&writer.w, FIELD_PACKET + 1, "abc", 3);
    write_sample(&writer.w, (struct sample){.ts = 1, .id = 1});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p1@1 .");
    assert_int_equal(seen->result.n_packets, 1);
    assert_false(seen->result.truncated);
    seen_free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_packets_stand_in_place),
        cmocka_unit_test(compressed_packets_of_another_type_are_damaged),
        cmocka_unit_test(zstd_packets_stand_in_place),
        cmocka_unit_test(a_damaged_packet_is_skipped),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(fields_that_are_left_out_are_named),
        cmocka_unit_test(a_field_may_be_wanted_twice),
        cmocka_unit_test(the_first_damage_is_reported),
        cmocka_unit_test(compressed_packets_are_not_nested),
        cmocka_unit_test(failures_of_handlers_end_the_reading),
        cmocka_unit_test(progress_may_end_the_reading),
        cmocka_unit_test(broken_packets_in_compressed_ones_are_damage),
        cmocka_unit_test(other_fields_of_the_trace_are_passed_over),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
