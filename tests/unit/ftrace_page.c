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
        cmocka_unit_test(damage_ends_the_page),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(layouts_of_other_kernels),
    };
    return cmocka_run_group_tests_name("ftrace_page", tests, NULL, NULL);
}
