// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/heap/code_map.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static void what_was_added_last_counts(void **state)
{
    (void)state;
    struct code_map map = {0};
    assert_int_equal(code_map_find(&map, 10), CODE_MAP_NONE);
    assert_int_equal(code_map_add(&map, 10, 20, 1), 0);
    assert_int_equal(code_map_add(&map, 30, 40, 2), 0);
    assert_int_equal(code_map_add(&map, 13, 15, 3), 0); // inside
    assert_int_equal(code_map_add(&map, 35, 50, 4), 0); // over an end
    assert_int_equal(code_map_add(&map, 60, 60, 5), 0); // nothing
    assert_int_equal(code_map_add(&map, 70, 60, 5), 0);
    static const struct code_range expected[] = {
        {10, 13, 1}, {13, 15, 3}, {15, 20, 1}, {30, 35, 2}, {35, 50, 4}};
    assert_int_equal(map.ranges.n, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(map.ranges.items[i].start, expected[i].start);
        assert_int_equal(map.ranges.items[i].end, expected[i].end);
        assert_int_equal(map.ranges.items[i].number, expected[i].number);
    }
    assert_int_equal(code_map_find(&map, 9), CODE_MAP_NONE);
    assert_int_equal(code_map_find(&map, 10), 1);
    assert_int_equal(code_map_find(&map, 14), 3);
    assert_int_equal(code_map_find(&map, 20), CODE_MAP_NONE);
    assert_int_equal(code_map_find(&map, 49), 4);
    assert_int_equal(code_map_find(&map, UINT64_MAX), CODE_MAP_NONE);
    assert_int_equal(code_map_add(&map, 0, UINT64_MAX, 6), 0); // over all
    assert_int_equal(map.ranges.n, 1);
    assert_int_equal(code_map_find(&map, 14), 6);
    code_map_clear(&map);
    assert_int_equal(code_map_find(&map, 14), CODE_MAP_NONE);
    code_map_done(&map);
}

// The map is compared with an array that has a number for each address.
static void any_ranges_are_found_as_by_a_walk(void **state)
{
    enum { N_ADDRESSES = 200, N_RANGES = 60, N_ROUNDS = 300 };
    (void)state;
    srand(1);
    for (int round = 0; round < N_ROUNDS; round++) {
        struct code_map map = {0};
        uint32_t plain[N_ADDRESSES];
        memset(plain, 0xff, sizeof(plain));
        for (uint32_t number = 0; number < N_RANGES; number++) {
            uint64_t start = (uint64_t)rand() % N_ADDRESSES;
            uint64_t end = start + (uint64_t)rand() % 40;
            assert_int_equal(code_map_add(&map, start, end, number), 0);
            for (uint64_t i = start; i < end && i < N_ADDRESSES; i++)
                plain[i] = number;
            assert_true(map.ranges.n <= 2 * (number + (size_t)1));
        }
        for (uint64_t i = 0; i < N_ADDRESSES; i++)
            assert_int_equal(code_map_find(&map, i), plain[i]);
        code_map_done(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_last_counts),
        cmocka_unit_test(any_ranges_are_found_as_by_a_walk),
    };
    return cmocka_run_group_tests_name("code_map", tests, NULL, NULL);
}
