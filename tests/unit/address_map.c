// SPDX-License-Identifier: Apache-2.0
#include "converter/import/foreign/address_map.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "tests/unit/unit.h"

#define ADDRESSES 4096
#define RANGES    20000

static void as_an_array_of_all_addresses(void **state)
{
    CLEANUP(address_map_done) struct address_map map = {0};
    int64_t all[ADDRESSES];
    uint32_t seed = 1;
    (void)state;
    memset(all, 0xff, sizeof(all)); // ADDRESS_NONE
    for (int64_t k = 0; k < RANGES; k++) {
        seed = seed * 1103515245 + 12345;
        uint64_t start = (seed >> 8) % ADDRESSES;
        seed = seed * 1103515245 + 12345;
        // Mostly small ranges, so that the map needs several blocks.
        uint64_t size = (seed >> 8) % (k % 500 == 0 ? ADDRESSES : 4);
        assert_int_equal(address_map_put(&map, start, size, k), 0);
        for (uint64_t i = start; i < start + size && i < ADDRESSES; i++)
            all[i] = k;
        for (uint64_t i = k % 64 == 0 ? 0 : start; i < ADDRESSES; i += k % 64 == 0 ? 1 : ADDRESSES)
            assert_int_equal(address_map_find(&map, i), all[i]);
    }
    for (size_t i = 0; i < map.blocks.n; i++)
        assert_true(map.blocks.items[i]->n > 0);
    assert_true(map.blocks.n > 2);
}

static void at_the_last_addresses(void **state)
{
    CLEANUP(address_map_done) struct address_map map = {0};
    (void)state;
    assert_int_equal(address_map_find(&map, 5), ADDRESS_NONE);
    assert_int_equal(address_map_put(&map, UINT64_MAX - 9, 100, 1), 0);
    assert_int_equal(address_map_find(&map, UINT64_MAX), 1);
    assert_int_equal(address_map_find(&map, UINT64_MAX - 10), ADDRESS_NONE);
    assert_int_equal(address_map_put(&map, UINT64_MAX - 4, 2, 2), 0);
    assert_int_equal(address_map_find(&map, UINT64_MAX - 3), 2);
    assert_int_equal(address_map_find(&map, UINT64_MAX - 2), 1);
    assert_int_equal(address_map_put(&map, 0, UINT64_MAX, 3), 0);
    assert_int_equal(address_map_find(&map, UINT64_MAX - 1), 3);
    assert_int_equal(address_map_find(&map, UINT64_MAX), 1);
    assert_int_equal(address_map_put(&map, 7, 0, 4), 0);
    assert_int_equal(address_map_find(&map, 7), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_an_array_of_all_addresses),
        cmocka_unit_test(at_the_last_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
