// SPDX-License-Identifier: Apache-2.0
#include "common/ranges.h"
#include "common/elements.h"
#include "tests/unit/unit.h"

static struct page_ranges make(size_t n, const uint64_t (*pairs)[2])
{
    struct page_ranges ranges = {0};
    for (size_t i = 0; i < n; i++)
        assert_int_equal(page_ranges_append(&ranges, pairs[i][0], pairs[i][1]), 0);
    return ranges;
}

#define MAKE(...)                                                                                  \
    make(ELEMENTS(((const uint64_t[][2]){__VA_ARGS__})), (const uint64_t[][2]){__VA_ARGS__})

static void append_joins_what_touches(void **state)
{
    (void)state;
    struct page_ranges ranges = MAKE({0, 2}, {2, 4}, {3, 5}, {7, 7}, {8, 9});
    assert_int_equal(ranges.n, 2);
    assert_int_equal(ranges.items[0].end, 5);
    assert_int_equal(page_ranges_count(&ranges), 6);
    page_ranges_done(&ranges);
}

// The ranges are those that appending page by page gives, for all kinds of lengths, starts and
// densities.
static void bytes_become_runs(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252;
    for (unsigned round = 0; round < 3000; round++) {
        struct page_ranges got = {0}, want = {0};
        uint64_t at = round % 7;
        for (unsigned part = 0; part < 3; part++) {
            uint8_t bytes[300];
            size_t n = round * 31 % sizeof(bytes);
            for (size_t i = 0; i < n; i++) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                bool set = seed % 1000 < (part + round) % 11 * 100;
                bytes[i] = (uint8_t)((seed >> 32 & 0xfe) | set);
                if (set)
                    assert_int_equal(page_ranges_append(&want, at + i, at + i + 1), 0);
            }
            assert_int_equal(page_ranges_append_bytes(&got, at, bytes, n), 0);
            at += n + round % 2;
        }
        assert_true(page_ranges_equal(&got, &want));
        page_ranges_done(&got);
        page_ranges_done(&want);
    }
}

static void normalize_sorts_and_joins(void **state)
{
    (void)state;
    struct page_ranges ranges = {0};
    page_ranges_push(&ranges, (struct page_range){10, 12});
    page_ranges_push(&ranges, (struct page_range){0, 3});
    page_ranges_push(&ranges, (struct page_range){3, 10});
    page_ranges_normalize(&ranges);
    assert_int_equal(ranges.n, 1);
    assert_int_equal(ranges.items[0].start, 0);
    assert_int_equal(ranges.items[0].end, 12);
    page_ranges_done(&ranges);
}

static void xor_takes_one_set_to_the_other(void **state)
{
    (void)state;
    struct page_ranges a = MAKE({0, 4}, {6, 8}, {20, 30}), b = MAKE({2, 6}, {8, 9}, {20, 30});
    struct page_ranges difference = {0}, applied = {0}, want = MAKE({0, 2}, {4, 9});
    assert_int_equal(page_ranges_xor(&a, &b, &difference), 0);
    assert_true(page_ranges_equal(&difference, &want));
    assert_int_equal(page_ranges_xor(&a, &difference, &applied), 0);
    assert_true(page_ranges_equal(&applied, &b));
    page_ranges_done(&a);
    page_ranges_done(&b);
    page_ranges_done(&difference);
    page_ranges_done(&applied);
    page_ranges_done(&want);
}

static void and_keeps_what_both_have(void **state)
{
    (void)state;
    struct page_ranges a = MAKE({0, 4}, {6, 8}), b = MAKE({2, 7}), both = {0},
                       want = MAKE({2, 4}, {6, 7});
    assert_int_equal(page_ranges_and(&a, &b, &both), 0);
    assert_true(page_ranges_equal(&both, &want));
    page_ranges_done(&a);
    page_ranges_done(&b);
    page_ranges_done(&both);
    page_ranges_done(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(append_joins_what_touches),
        cmocka_unit_test(bytes_become_runs),
        cmocka_unit_test(normalize_sorts_and_joins),
        cmocka_unit_test(xor_takes_one_set_to_the_other),
        cmocka_unit_test(and_keeps_what_both_have),
    };
    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
