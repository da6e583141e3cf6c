// SPDX-License-Identifier: Apache-2.0
#include "common/wire.h"
#include "common/elements.h"
#include "tests/unit/unit.h"

static void put_everything(struct wire_writer *w)
{
    wire_uint(w, 1, 300);
    wire_int(w, 2, -1);
    wire_sint(w, 3, -65);
    wire_fixed32(w, 4, 0x01020304);
    wire_fixed64(w, 5, 0x0102030405060708);
    wire_double(w, 6, 0.5);
    wire_string(w, 7, "abc");
    size_t mark = wire_begin(w, (1u << 29) - 1);
    wire_varint(w, UINT64_MAX);
    wire_end(w, mark);
}

static void bytes_are_as_the_format_has_them(void **state)
{
    (void)state;
    static const uint8_t want[] = {
        0x08, 0xac, 0x02,                                                 // 1: 300
        0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, // 2: -1
        0x18, 0x81, 0x01,                                                 // 3: zigzag of -65
        0x25, 0x04, 0x03, 0x02, 0x01,                                     // 4: little-endian
        0x29, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,             // 5
        0x31, 0,    0,    0,    0,    0,    0,    0xe0, 0x3f,             // 6: 0.5
        0x3a, 3,    'a',  'b',  'c',                                      // 7
        0xfa, 0xff, 0xff, 0xff, 0x0f,                                     // the last number
        10,   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
    };
    uint8_t memory[128];
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    put_everything(&w);
    assert_false(w.overflow);
    assert_int_equal(wire_size(&w), sizeof(want));
    assert_memory_equal(memory, want, sizeof(want));
}

static void reader_returns_what_was_written(void **state)
{
    (void)state;
    uint8_t memory[128];
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    put_everything(&w);
    struct wire_reader reader = wire_reader_over(memory, wire_size(&w));
    struct wire_field field;
    uint32_t numbers[8], n = 0;
    wire_foreach(&reader, &field) {
        assert_in_range(n, 0, 7);
        numbers[n++] = field.number;
        if (field.number == 2)
            assert_int_equal((int64_t)field.value, -1);
        if (field.number == 3)
            assert_int_equal(wire_unzigzag(field.value), -65);
        if (field.number == 6)
            assert_true(wire_to_double(field.value) == 0.5);
        if (field.number == 7)
            assert_memory_equal(field.data, "abc", field.size);
    }
    assert_false(reader.error);
    assert_int_equal(n, 8);
    assert_int_equal(numbers[7], (1u << 29) - 1);
}

static void zigzag_keeps_the_ends(void **state)
{
    (void)state;
    static const int64_t values[] = {0, -1, 1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(wire_unzigzag(wire_zigzag(values[i])), values[i]);
    assert_int_equal(wire_zigzag(-1), 1);
    assert_int_equal(wire_zigzag(INT64_MIN), UINT64_MAX);
}

static void varint_sizes_are_right_at_every_border(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 64; bits++) {
        uint64_t values[] = {(uint64_t)1 << bits, ((uint64_t)1 << bits) - 1};
        for (size_t i = 0; i < 2; i++) {
            uint8_t memory[WIRE_VARINT_MAX] = {0};
            const uint8_t *pos = memory;
            uint64_t back;
            size_t size = (size_t)(wire_put_varint(memory, values[i]) - memory);
            assert_int_equal(size, wire_varint_size(values[i]));
            assert_true(wire_get_varint(&pos, memory + size, &back));
            assert_int_equal(back, values[i]);
            pos = memory;
            assert_true(wire_get_long_varint(&pos, memory + sizeof(memory), &back));
            assert_int_equal(back, values[i]);
            assert_ptr_equal(pos, memory + size);
            pos = memory;
            assert_false(wire_get_varint(&pos, memory + size - 1, &back));
            assert_false(wire_get_long_varint(&pos, memory + size - 1, &back));
            assert_ptr_equal(pos, memory);
        }
    }
}

// For every size of memory: nothing is written past its end, and overflow is set exactly when the
// message does not fit.
static void overflow_is_noticed_at_every_size(void **state)
{
    (void)state;
    uint8_t whole[128];
    struct wire_writer w = wire_writer_over(whole, sizeof(whole));
    put_everything(&w);
    size_t needed = wire_size(&w);
    for (size_t size = 0; size <= needed; size++) {
        uint8_t memory[128];
        memset(memory, 0xaa, sizeof(memory));
        w = wire_writer_over(memory, size);
        put_everything(&w);
        assert_int_equal(w.overflow, size < needed);
        for (size_t i = size; i < sizeof(memory); i++)
            assert_int_equal(memory[i], 0xaa);
    }
}

static void after_an_overflow_nothing_is_written(void **state)
{
    (void)state;
    uint8_t memory[32] = {0};
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    wire_bytes(&w, 1, memory, 100);
    assert_true(w.overflow);
    size_t size = wire_size(&w);
    wire_uint(&w, 2, 1);
    wire_fixed64(&w, 3, 1);
    assert_int_equal(wire_size(&w), size);
}

static void rollback_undoes_an_overflow(void **state)
{
    (void)state;
    uint8_t memory[16];
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    size_t mark = wire_begin(&w, 1);
    wire_uint(&w, 1, 7);
    size_t checkpoint = wire_checkpoint(&w);
    wire_bytes(&w, 2, "0123456789abcdef", 16);
    assert_true(w.overflow);
    wire_rollback(&w, checkpoint);
    assert_false(w.overflow);
    wire_end(&w, mark);
    static const uint8_t want[] = {0x0a, 2, 0x08, 7};
    assert_int_equal(wire_size(&w), sizeof(want));
    assert_memory_equal(memory, want, sizeof(want));
}

// Bodies around the sizes where the length needs one byte more, nested so that both levels move.
static void long_bodies_nest(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,   1,   120,   124,   125,   126,  127,
                                   128, 129, 16379, 16383, 16384, 16390};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        static uint8_t memory[20000], body[20000];
        for (size_t k = 0; k < sizes[i]; k++)
            body[k] = (uint8_t)(k * 7);
        struct wire_writer w = wire_writer_over(memory, sizeof(memory));
        size_t outer = wire_begin(&w, 1), inner = wire_begin(&w, 2);
        wire_bytes(&w, 3, body, sizes[i]);
        wire_end(&w, inner);
        wire_uint(&w, 4, 5);
        wire_end(&w, outer);
        assert_false(w.overflow);

        struct wire_reader reader = wire_reader_over(memory, wire_size(&w)), sub;
        struct wire_field field;
        assert_true(wire_next(&reader, &field));
        sub = wire_sub(&field);
        assert_true(wire_next(&sub, &field));
        struct wire_reader innermost = wire_sub(&field);
        assert_true(wire_next(&sub, &field));
        assert_int_equal(field.value, 5);
        assert_false(wire_next(&sub, &field) || sub.error);
        assert_true(wire_next(&innermost, &field));
        assert_int_equal(field.size, sizes[i]);
        assert_memory_equal(field.data, body, sizes[i]);
        assert_false(wire_next(&innermost, &field) || innermost.error);
        assert_false(wire_next(&reader, &field) || reader.error);
    }
}

static void a_long_body_without_room_for_its_length_overflows(void **state)
{
    (void)state;
    uint8_t memory[2 + 130], body[126] = {0};
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    size_t mark = wire_begin(&w, 1);
    wire_bytes(&w, 2, body, sizeof(body));
    wire_uint(&w, 3, 0);
    assert_false(w.overflow);
    assert_int_equal(wire_room(&w), 0);
    wire_end(&w, mark);
    assert_true(w.overflow);
}

static void damage_ends_the_walk(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size, damaged_at;
    } cases[] = {
        {"\x08", 1, 0},     // a tag and no value
        {"\x08\x80", 2, 0}, // half a varint
        {"\x80", 1, 0},     // half a tag
        {"\x00\x01", 2, 0}, // field 0
        {"\x00", 1, 0},     // field 0 at the end
        {"\x0a\x05"
         "abc",
         5, 0},                                                      // bytes missing
        {"\x0d\x01\x02", 3, 0},                                      // half a fixed32
        {"\x09\x01\x02\x03\x04\x05\x06\x07", 8, 0},                  // half a fixed64
        {"\x0e\x01", 2, 0},                                          // wire type 6
        {"\x0f", 1, 0},                                              // wire type 7
        {"\x0c", 1, 0},                                              // the end of no group
        {"\x0b", 1, 0},                                              // a group without end
        {"\x0b\x14", 2, 0},                                          // the end of another group
        {"\x08\x01\x0a\x7f", 4, 2},                                  // damage after a good field
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, 0}, // a varint of 11 bytes
        {"\xf8\xff\xff\xff\xff\x01\x00", 7, 0},                      // a number above 2^29-1
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct wire_reader reader = wire_reader_over(cases[i].bytes, cases[i].size);
        const uint8_t *start = reader.pos;
        struct wire_field field;
        wire_foreach(&reader, &field)
            ;
        assert_true(reader.error);
        assert_int_equal(reader.pos - start, cases[i].damaged_at);
        assert_false(wire_next(&reader, &field));
    }
}

static void groups_are_skipped(void **state)
{
    (void)state;
    // group 1 { 1: 1, group 2 { 3: "x" } } 4: 9
    static const uint8_t bytes[] = {0x0b, 0x08, 1, 0x13, 0x1a, 1, 'x', 0x14, 0x0c, 0x20, 9};
    struct wire_reader reader = wire_reader_over(bytes, sizeof(bytes));
    struct wire_field field;
    assert_true(wire_next(&reader, &field));
    assert_int_equal(field.number, 4);
    assert_int_equal(field.value, 9);
    assert_false(wire_next(&reader, &field));
    assert_false(reader.error);
}

static void groups_nest_only_so_deep(void **state)
{
    (void)state;
    for (size_t depth = 16; depth <= 17; depth++) {
        uint8_t bytes[64];
        memset(bytes, 0x0b, depth);
        memset(bytes + depth, 0x0c, depth);
        struct wire_reader reader = wire_reader_over(bytes, 2 * depth);
        struct wire_field field;
        assert_false(wire_next(&reader, &field));
        assert_int_equal(reader.error, depth > 16);
    }
}

static void repeated_scalars_packed_or_not(void **state)
{
    (void)state;
    // 1: 5; 1: [6, 300]; 2: fixed32 [1, 2]; 2: damaged
    static const uint8_t bytes[] = {0x08, 5, 0x0a, 3, 6, 0xac, 0x02, 0x12, 8, 1, 0, 0,
                                    0,    2, 0,    0, 0, 0x12, 5,    3,    0, 0, 0, 4};
    static const uint64_t want[] = {5, 6, 300, 1, 2, 3};
    struct wire_reader reader = wire_reader_over(bytes, sizeof(bytes));
    struct wire_field field;
    size_t n = 0;
    bool damaged = false;
    wire_foreach(&reader, &field) {
        struct wire_packed cursor = {0};
        uint64_t value;
        while (wire_packed_next(&cursor, &field, field.number == 1 ? WIRE_VARINT : WIRE_FIXED32,
                                &value)) {
            assert_in_range(n, 0, 5);
            assert_int_equal(value, want[n++]);
        }
        damaged |= cursor.reader.error;
    }
    assert_int_equal(n, 6);
    assert_true(damaged);
}

static void a_scalar_of_another_type_is_no_element(void **state)
{
    (void)state;
    struct wire_field field = {.number = 1, .type = WIRE_FIXED64, .value = 5};
    struct wire_packed cursor = {0};
    uint64_t value;
    assert_false(wire_packed_next(&cursor, &field, WIRE_VARINT, &value));
}

static void assert_text(const char *text, size_t size, const char *expected)
{
    uint8_t bytes[80];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    wire_text(&w, 1, text, size);
    assert_false(w.overflow);
    assert_int_equal(wire_size(&w), 2 + size);
    assert_int_equal(bytes[1], size);
    assert_memory_equal(bytes + 2, expected, size);
}

static void text_is_made_utf8_in_place(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"cut\xe2\x82", "cut??"},
        {"\x80\xffz\xc3", "??z?"},
        {"\xc0\xaf", "??"},
        {"\xed\xa0\x80", "???"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xc3(\xc3\xa4", "?(\xc3\xa4"},
    };
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_text(texts[i][0], strlen(texts[i][0]), texts[i][1]);
    // One broken byte at each place of each length.
    for (size_t size = 1; size <= 40; size++) {
        for (size_t at = 0; at < size; at++) {
            char text[40], expected[40];
            memset(text, 'a', sizeof(text));
            memset(expected, 'a', sizeof(expected));
            text[at] = '\xfe';
            expected[at] = '?';
            assert_text(text, size, expected);
        }
    }
    uint8_t bytes[4] = {0xff, 0xff, 0xff, 0xff};
    struct wire_writer w = wire_writer_over(bytes, 3);
    wire_string(&w, 1, "\xff\xff");
    assert_true(w.overflow);
    assert_int_equal(bytes[3], 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_the_format_has_them),
        cmocka_unit_test(reader_returns_what_was_written),
        cmocka_unit_test(zigzag_keeps_the_ends),
        cmocka_unit_test(varint_sizes_are_right_at_every_border),
        cmocka_unit_test(overflow_is_noticed_at_every_size),
        cmocka_unit_test(after_an_overflow_nothing_is_written),
        cmocka_unit_test(rollback_undoes_an_overflow),
        cmocka_unit_test(long_bodies_nest),
        cmocka_unit_test(a_long_body_without_room_for_its_length_overflows),
        cmocka_unit_test(damage_ends_the_walk),
        cmocka_unit_test(groups_are_skipped),
        cmocka_unit_test(groups_nest_only_so_deep),
        cmocka_unit_test(repeated_scalars_packed_or_not),
        cmocka_unit_test(a_scalar_of_another_type_is_no_element),
        cmocka_unit_test(text_is_made_utf8_in_place),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
