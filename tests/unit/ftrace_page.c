// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "common/elements.h"
#include "producer/sources/ftrace/page.h"
#include "tests/unit/unit.h"

static const struct page_layout layout = {.commit_size = 8, .data_offset = 16, .data_size = 112};

// A page of 128 bytes with header and records, zeroes after.
struct page_bytes {
    uint8_t bytes[128];
};

static struct page_bytes page_of(uint32_t commit, const uint8_t *records, size_t size)
{
    struct page_bytes page = {{
        0x00, 0x10, 0, 0, 0, 0, 0, 0, // timestamp 0x1000
    }};
    memcpy(page.bytes + 8, &commit, sizeof(commit));
    if (size)
        memcpy(page.bytes + 16, records, size);
    return page;
}

#define PAGE(flags, records) page_of((flags) | sizeof(records), records, sizeof(records))

static void small_records_carry_their_length_in_words(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x02 | 0x05 << 5,
        0x00,
        0x00,
        0x00, // type_len 2: 8 bytes of data; delta 5
        0x34,
        0x12,
        1,
        2, // id 0x1234
        3,
        4,
        5,
        6, //
        0x41,
        0x01,
        0x00,
        0x00, // type_len 1: 4 bytes; delta 10
        0x78,
        0x56,
        7,
        8, // id 0x5678
    };
    struct page_bytes bytes = PAGE(0, records);
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_false(page.lost);
    assert_true(page_next(&page, &record));
    assert_int_equal(record.id, 0x1234);
    assert_int_equal(record.size, 8);
    assert_int_equal(record.timestamp, 0x1005);
    assert_ptr_equal(record.data, bytes.bytes + 20);
    assert_true(page_next(&page, &record));
    assert_int_equal(record.id, 0x5678);
    assert_int_equal(record.timestamp, 0x100f);
    assert_false(page_next(&page, &record));
    assert_int_equal(page.status, PAGE_OK);
}

static void big_records_carry_their_length_before_their_data(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x20, 0x00, 0x00, 0x00, // type_len 0, delta 1
        12,   0,    0,    0,    // length: this word and 8 bytes
        0x01, 0x00, 9,    9,    // id 1
        9,    9,    9,    9,    //
    };
    struct page_bytes bytes = PAGE(0, records);
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.size, 8);
    assert_int_equal(record.timestamp, 0x1001);
    assert_false(page_next(&page, &record));
    assert_int_equal(page.status, PAGE_OK);
}

static void times_are_extended_and_set(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x3e, 0x00, 0x00, 0x00, // type 30, delta 1
        0x02, 0,    0,    0,    // and 2 << 27
        0x21, 0x00, 0x00, 0x00, // type_len 1, delta 1
        0x01, 0x00, 0,    0,    // id 1
        0x7f, 0x00, 0x00, 0x00, // type 31, delta 3
        0x05, 0,    0,    0,    // and 5 << 27: that time
        0x01, 0x00, 0x00, 0x00, // type_len 1, delta 0
        0x02, 0x00, 0,    0,    // id 2
    };
    struct page_bytes bytes = PAGE(0, records);
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.timestamp, 0x1000 + 1 + (UINT64_C(2) << 27) + 1);
    assert_true(page_next(&page, &record));
    assert_int_equal(record.timestamp, (UINT64_C(5) << 27) + 3);

    // A clock that stepped back is not an overflow of the stamp.
    bytes.bytes[4] = 1; // 0x100001000
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.timestamp, (UINT64_C(5) << 27) + 3);
    bytes.bytes[4] = 0;

    // The page's time has bits above the 59 of an absolute stamp: they stay.
    bytes.bytes[7] = 0x10; // 0x1000000000001000
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.timestamp, (UINT64_C(0x10) << 56) + (UINT64_C(5) << 27) + 3);
}

static void padding_is_skipped(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x5d, 0x00, 0x00, 0x00, // type 29, delta 2: a discarded record
        0x0c, 0,    0,    0,    // 12 bytes with this word
        9,    9,    9,    9,    //
        9,    9,    9,    9,    //
        0x21, 0x00, 0x00, 0x00, // type_len 1, delta 1
        0x01, 0x00, 0,    0,    // id 1
    };
    struct page_bytes bytes = PAGE(0, records);
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.id, 1);
    assert_int_equal(record.timestamp, 0x1003);
}

static void losses_are_reported(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x21, 0x00, 0x00, 0x00, // type_len 1, delta 1
        0x01, 0x00, 0,    0,    // id 1
        0x2a, 0,    0,    0,    // after the committed records: 42 lost events
        0,    0,    0,    0,    //
    };
    struct page_reader page;
    struct page_bytes bytes = page_of(8 | UINT32_C(1) << 31, records, sizeof(records));
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page.lost);
    assert_int_equal(page.n_lost, 0);

    bytes = page_of(8 | UINT32_C(3) << 30, records, sizeof(records));
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page.lost);
    assert_int_equal(page.n_lost, 42);

    // A page that ends with the number, and one that ends before: no byte behind the page is read.
    assert_true(page_open(&page, &layout, &bytes, 16 + sizeof(records)));
    assert_int_equal(page.n_lost, 42);
    assert_true(page_open(&page, &layout, &bytes, 16 + sizeof(records) - 1));
    assert_true(page.lost);
    assert_int_equal(page.n_lost, 0);

    // A kernel of 32 bits has a number of 32 bits.
    const struct page_layout narrow = {.commit_size = 4, .data_offset = 12, .data_size = 116};
    const uint32_t commit = 8 | UINT32_C(3) << 30;
    static const uint8_t number[] = {0x2a, 0, 0, 0, 1, 0, 0, 0}; // 42, and what is no part of it
    memset(&bytes, 0, sizeof(bytes));
    memcpy(bytes.bytes + 8, &commit, sizeof(commit));
    memcpy(bytes.bytes + 12, records, 8);
    memcpy(bytes.bytes + 20, number, sizeof(number));
    assert_true(page_open(&page, &narrow, &bytes, 24));
    assert_int_equal(page.n_lost, 42);
    assert_true(page_open(&page, &narrow, &bytes, 23));
    assert_int_equal(page.n_lost, 0);
}

// Padding may have no bytes of its own, and may be the last in the page. An event has at least its
// id.
static void lengths_at_their_bounds_are_good(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x3d, 0x00, 0x00, 0x00, // type 29, delta 1
        4,    0,    0,    0,    // 4 bytes: this word
        0x20, 0x00, 0x00, 0x00, // type_len 0, delta 1
        6,    0,    0,    0,    // 6 bytes: this word and the id
        0x09, 0x00,             // id 9
        0x3d, 0x00, 0x00, 0x00, // type 29, delta 1
        10,   0,    0,    0,    // to the end of the page
        1,    2,    3,    4,    //
        5,    6,
    };
    struct page_bytes bytes = PAGE(0, records);
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.id, 9);
    assert_int_equal(record.size, 2);
    assert_false(page_next(&page, &record));
    assert_int_equal(page.status, PAGE_OK);
    // All of the room is committed.
    assert_true(page_open(&page, &layout, &bytes, 16 + sizeof(records)));
    assert_false(page_open(&page, &layout, &bytes, 16 + sizeof(records) - 1));
}

// An absolute time has 59 bits. The same time twice is no overflow.
static void times_of_59_bits_overflow(void **state)
{
    (void)state;
    static const uint8_t records[] = {
        0x1f, 0x00, 0x00, 0x00, // type 31, delta 0
        0x05, 0,    0,    0,    // and 5 << 27
        0x01, 0x00, 0x00, 0x00, // type_len 1, delta 0
        0x01, 0x00, 0,    0,    // id 1
        0x1f, 0x00, 0x00, 0x00, // the same time
        0x05, 0,    0,    0,    //
        0x01, 0x00, 0x00, 0x00, //
        0x02, 0x00, 0,    0,    // id 2
        0x1f, 0x00, 0x00, 0x00, // an earlier one: the upper bits have grown
        0x04, 0,    0,    0,    //
        0x01, 0x00, 0x00, 0x00, //
        0x03, 0x00, 0,    0,    // id 3
    };
    struct page_bytes bytes = PAGE(0, records);
    const uint64_t high = UINT64_C(1) << 59;
    memcpy(bytes.bytes, &high, sizeof(high));
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
    const uint64_t times[] = {high | UINT64_C(5) << 27, high | UINT64_C(5) << 27,
                              (high << 1) + (UINT64_C(4) << 27)};
    for (size_t i = 0; i < ELEMENTS(times); i++) {
        assert_true(page_next(&page, &record));
        assert_int_equal(record.id, i + 1);
        assert_true(record.timestamp == times[i]);
    }
}

static void damage_ends_the_page(void **state)
{
    (void)state;
    static const struct {
        enum page_status status;
        uint8_t size;
        uint8_t records[16];
    } cases[] = {
        {PAGE_SHORT_EVENT_HEADER, 2, {0x21, 0}},
        {PAGE_NULL_PADDING, 4, {0x1d, 0, 0, 0}},
        {PAGE_SHORT_PADDING_LENGTH, 4, {0x3d, 0, 0, 0}},
        {PAGE_BAD_PADDING_LENGTH, 8, {0x3d, 0, 0, 0, 3, 0, 0, 0}},
        {PAGE_BAD_PADDING_LENGTH, 8, {0x3d, 0, 0, 0, 5, 0, 0, 0}},
        {PAGE_SHORT_TIME_EXTEND, 4, {0x3e, 0, 0, 0}},
        {PAGE_SHORT_TIME_STAMP, 6, {0x3f, 0, 0, 0, 1, 0}},
        {PAGE_SHORT_DATA_LENGTH, 4, {0x20, 0, 0, 0}},
        {PAGE_ZERO_DATA_LENGTH, 8, {0x20, 0, 0, 0, 0, 0, 0, 0}},
        {PAGE_BAD_DATA_LENGTH, 8, {0x20, 0, 0, 0, 3, 0, 0, 0}},
        {PAGE_SHORT_EVENT_ID, 8, {0x20, 0, 0, 0, 4, 0, 0, 0}},
        {PAGE_END_OVERFLOW, 8, {0x22, 0, 0, 0, 1, 0, 0, 0}},
        {PAGE_END_OVERFLOW, 8, {0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct page_bytes bytes = page_of(cases[i].size, cases[i].records, cases[i].size);
        struct page_reader page;
        struct page_record record;
        assert_true(page_open(&page, &layout, &bytes, sizeof(bytes)));
        assert_false(page_next(&page, &record));
        assert_int_equal(page.status, cases[i].status);
        assert_false(page_next(&page, &record));
    }
}

static void broken_headers_are_refused(void **state)
{
    (void)state;
    struct page_reader page;
    struct page_bytes bytes = page_of(0, NULL, 0);
    assert_false(page_open(&page, &layout, &bytes, sizeof(bytes))); // nothing committed
    assert_int_equal(page.status, PAGE_BAD_HEADER);
    bytes = page_of(113, NULL, 0);
    assert_false(page_open(&page, &layout, &bytes, sizeof(bytes))); // more than the page has
    bytes = page_of(8, NULL, 0);
    assert_false(page_open(&page, &layout, &bytes, 15));
}

static void layouts_of_other_kernels(void **state)
{
    (void)state;
    static const char text[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
                               "\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
                               "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
                               "\tfield: char data;\toffset:12;\tsize:4084;\tsigned:1;\n";
    struct page_layout narrow;
    assert_int_equal(page_layout_parse(text, sizeof(text) - 1, &narrow, NULL), 0);
    assert_int_equal(narrow.commit_size, 4);
    assert_int_equal(narrow.data_offset, 12);
    assert_int_equal(narrow.data_size, 4084);
    static const uint8_t bytes[] = {
        1,    0,    0,    0,    0, 0, 0, 0, // timestamp 1
        8,    0,    0,    0,                // 8 bytes of records
        0x21, 0x00, 0x00, 0x00,             // type_len 1, delta 1
        0x07, 0x00, 0,    0,                // id 7
    };
    struct page_reader page;
    struct page_record record;
    assert_true(page_open(&page, &narrow, bytes, sizeof(bytes)));
    assert_true(page_next(&page, &record));
    assert_int_equal(record.id, 7);
    assert_int_equal(record.timestamp, 2);

    struct err err = {0};
    assert_int_equal(page_layout_parse("what?\n", 6, &narrow, &err), -EINVAL);
    assert_int_equal(page_layout_default(8, 4096).data_size, 4080);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_records_carry_their_length_in_words),
        cmocka_unit_test(big_records_carry_their_length_before_their_data),
        cmocka_unit_test(times_are_extended_and_set),
        cmocka_unit_test(padding_is_skipped),
        cmocka_unit_test(losses_are_reported),
        cmocka_unit_test(lengths_at_their_bounds_are_good),
        cmocka_unit_test(times_of_59_bits_overflow),
        cmocka_unit_test(damage_ends_the_page),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(layouts_of_other_kernels),
    };
    return cmocka_run_group_tests_name("ftrace_page", tests, NULL, NULL);
}
