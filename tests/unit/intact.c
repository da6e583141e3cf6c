// SPDX-License-Identifier: Apache-2.0
#include "converter/decode/intact.h"

#include <stdlib.h>

#include "common/elements.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

static bool intact(const char *bytes, size_t size, uint16_t kind)
{
    return message_is_intact(wire_reader_over(bytes, size), kind);
}

static void kinds_come_from_the_schema(void **state)
{
    (void)state;
    uint16_t event = field_kind_of(packet_kind, PB_TracePacket_track_event);
    assert_true(event >= KIND_SHAPES);
    assert_int_equal(field_kind_of(event, PB_TrackEvent_category_iids), KIND_PACKED_VARINT);
    assert_int_equal(field_kind_of(event, PB_TrackEvent_extra_double_counter_values),
                     KIND_PACKED_64);
    assert_int_equal(field_kind_of(event, PB_TrackEvent_name), KIND_PLAIN);
    assert_int_equal(field_kind_of(event, 100000), KIND_PLAIN);
    assert_int_equal(field_kind_of(packet_kind, PB_TracePacket_battery), KIND_FLAT);
    assert_int_equal(field_kind_of(packet_kind, PB_TracePacket_compressed_packets), KIND_PLAIN);
    assert_int_equal(field_kind_of(packet_kind, PB_TracePacket_page_residency) >= KIND_SHAPES, 1);
    assert_int_equal(field_kind_of(event, PB_GpuTrackEvent_gpu_correlation) >= KIND_SHAPES, 1);
    assert_int_equal(field_kind_of(KIND_FLAT, 1), KIND_PLAIN);
    // The field number after the last one of a message: a sanitizer notices a read beyond the list.
    uint32_t n_kinds = message_shapes[event - KIND_SHAPES].n_kinds;
    assert_int_equal(field_kind_of(event, n_kinds), KIND_PLAIN);
}

static void nested_messages_are_looked_into(void **state)
{
    (void)state;
    uint16_t tree = field_kind_of(packet_kind, PB_TracePacket_process_tree);
    assert_true(intact("\x0a\x02\x08\x05", 4, tree));         // processes { pid: 5 }
    assert_false(intact("\x0a\x01\x08", 3, tree));            // the pid is cut
    assert_false(intact("\x0a\x03\x1a\x05\x61", 5, tree));    // a text longer than its message
    assert_true(intact("\x7a\x01\x08", 3, tree));             // an unknown field
    assert_true(intact("\x0b\x08\x05\x0c\x0a\x00", 6, tree)); // a group
    assert_false(intact("\x0b\x08\x05", 3, tree));            // a group without an end
    // The field number after the last one: a sanitizer notices a read beyond the list.
    char beyond[8];
    struct wire_writer w = wire_writer_over(beyond, sizeof(beyond));
    wire_bytes(&w, message_shapes[tree - KIND_SHAPES].n_kinds, "\x08", 1);
    assert_true(intact(beyond, wire_size(&w), tree));
}

static void packed_numbers_are_whole(void **state)
{
    (void)state;
    char many[40];
    memset(many, 1, sizeof(many));
    assert_true(intact(many, sizeof(many), KIND_PACKED_VARINT));
    many[sizeof(many) - 1] = (char)0x80;
    assert_false(intact(many, sizeof(many), KIND_PACKED_VARINT));
    memset(many, 0xff, 12); // eleven bytes or more are not a number
    many[sizeof(many) - 1] = 1;
    assert_false(intact(many, sizeof(many), KIND_PACKED_VARINT));
    assert_true(intact("", 0, KIND_PACKED_VARINT));
    assert_true(intact(many, 16, KIND_PACKED_64));
    assert_false(intact(many, 12, KIND_PACKED_64));
    assert_true(intact(many, 12, KIND_PACKED_32));
    assert_false(intact(many, 13, KIND_PACKED_32));
}

// Very deep messages neither fail nor exhaust the stack.
static void depth_is_bounded(void **state)
{
    (void)state;
    size_t size = 1 << 20;
    uint8_t *bytes = calloc(1, size);
    struct wire_writer w = wire_writer_over(bytes, size);
    size_t marks[2000];
    for (size_t i = 0; i < ELEMENTS(marks); i++)
        marks[i] = wire_begin(&w, PB_DebugAnnotation_array_values);
    for (size_t i = ELEMENTS(marks); i > 0; i--)
        wire_end(&w, marks[i - 1]);
    uint16_t event = field_kind_of(packet_kind, PB_TracePacket_track_event);
    uint16_t annotation = field_kind_of(event, PB_TrackEvent_debug_annotations);
    assert_true(message_is_intact(wire_reader_over(bytes, wire_size(&w)), annotation));
    free(bytes);
}

// The messages of the first hundred levels are checked, those below are not.
static void damage_is_found_down_to_the_last_checked_level(void **state)
{
    (void)state;
    for (size_t n = 99; n <= 101; n++) {
        uint8_t bytes[1024];
        struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
        size_t marks[101];
        for (size_t i = 0; i < n; i++)
            marks[i] = wire_begin(&w, PB_DebugAnnotation_array_values);
        wire_varint(&w, PB_DebugAnnotation_bool_value << 3); // without a value
        for (size_t i = n; i > 0; i--)
            wire_end(&w, marks[i - 1]);
        uint16_t event = field_kind_of(packet_kind, PB_TracePacket_track_event);
        uint16_t annotation = field_kind_of(event, PB_TrackEvent_debug_annotations);
        struct wire_reader message = wire_reader_over(bytes, wire_size(&w));
        assert_int_equal(message_is_intact(message, annotation), n > 100);
    }
}

// A flat message is whole exactly if the reader walks to its end.
static void the_reader_agrees_on_any_bytes(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    size_t n_whole = 0;
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[24];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes[i] = random & 1 ? (uint8_t)(random >> 8) : (uint8_t)(random >> 8 & 0x1f);
        }
        struct wire_reader reader = wire_reader_over(bytes, random >> 40 & 15);
        struct wire_reader whole = reader;
        struct wire_field field;
        wire_foreach(&reader, &field) {
        }
        assert_int_equal(message_is_intact(whole, KIND_FLAT), !reader.error);
        n_whole += !reader.error;
    }
    assert_true(n_whole > 10000 && n_whole < 190000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_come_from_the_schema),
        cmocka_unit_test(nested_messages_are_looked_into),
        cmocka_unit_test(packed_numbers_are_whole),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(damage_is_found_down_to_the_last_checked_level),
        cmocka_unit_test(the_reader_agrees_on_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
