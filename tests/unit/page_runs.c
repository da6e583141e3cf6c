// SPDX-License-Identifier: Apache-2.0
#include "common/page_runs.h"
#include "common/elements.h"
#include "tests/unit/unit.h"

static void runs_come_back_as_they_were(void **state)
{
    (void)state;
    struct page_ranges ranges = {0}, back = {0};
    uint64_t page = 0, seed = 7;
    for (int i = 0; i < 1000; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        page += i ? 1 + (seed >> 33) % 300 : 0;
        uint64_t length = 1 + (seed >> 40) % 300;
        assert_int_equal(page_ranges_append(&ranges, page, page + length), 0);
        page += length;
    }
    uint8_t bytes[8192];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    assert_int_equal(page_runs_write(&w, &ranges, 0, 0, 0), ranges.n);
    assert_int_equal(wire_size(&w), page_runs_size(&ranges));
    assert_int_equal(page_runs_read(bytes, wire_size(&w), 0, &back), 0);
    assert_true(page_ranges_equal(&ranges, &back));

    // The runs are written in parts.
    page_ranges_clear(&back);
    size_t n_parts = 0;
    for (size_t first = 0; first < ranges.n; n_parts++) {
        uint64_t base = first ? ranges.items[first - 1].end : 0;
        w = wire_writer_over(bytes, 100);
        size_t n = page_runs_write(&w, &ranges, first, base, 10);
        assert_true(n > 0 && wire_room(&w) >= 10 && !w.overflow);
        assert_int_equal(page_runs_read(bytes, wire_size(&w), base, &back), 0);
        first += n;
    }
    assert_true(n_parts > 10);
    assert_true(page_ranges_equal(&ranges, &back));
    page_ranges_done(&ranges);
    page_ranges_done(&back);
}

static void bytes_have_the_documented_form(void **state)
{
    (void)state;
    struct page_ranges ranges = {0};
    page_ranges_append(&ranges, 3, 5);
    page_ranges_append(&ranges, 5 + 128, 5 + 129);
    const uint8_t want[] = {3, 2, 0x80, 0x01, 1};
    uint8_t bytes[64];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    assert_int_equal(page_runs_write(&w, &ranges, 0, 0, 0), 2);
    assert_int_equal(wire_size(&w), sizeof(want));
    assert_memory_equal(bytes, want, sizeof(want));
    page_ranges_done(&ranges);
}

static void damage_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[16];
        size_t size;
    } cases[] = {
        {{1}, 1},                                                           // half a pair
        {{1, 0}, 2},                                                        // an empty run
        {{1, 0x80}, 2},                                                     // a cut varint
        {{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 11}, // 2^64 - 1 pages
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1}, 11}, // beyond page 2^64
    };
    struct page_ranges ranges = {0};
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        page_ranges_clear(&ranges);
        assert_int_equal(page_runs_read(cases[i].bytes, cases[i].size, 0, &ranges), -EBADMSG);
    }
    const uint8_t pair[] = {0, 4};
    page_ranges_clear(&ranges);
    assert_int_equal(page_runs_read(pair, 2, 10, &ranges), 0);
    assert_int_equal(page_runs_read(pair, 2, 10, &ranges), -EBADMSG); // goes back
    assert_int_equal(page_runs_read(pair, 2, UINT64_MAX, &ranges), -EBADMSG);
    page_ranges_done(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_come_back_as_they_were),
        cmocka_unit_test(bytes_have_the_documented_form),
        cmocka_unit_test(damage_is_refused),
    };
    return cmocka_run_group_tests_name("page_runs", tests, NULL, NULL);
}
