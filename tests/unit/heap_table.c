// SPDX-License-Identifier: Apache-2.0
#include "producer/heap/sample_table.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

static struct address_table *table;

static int make_table(void **state)
{
    (void)state;
    table = calloc(1, sizeof(*table));
    if (table)
        table->slots = calloc(1, HEAP_TABLE_BYTES);
    return table && table->slots ? 0 : -1;
}

static int free_table(void **state)
{
    (void)state;
    free(table->slots);
    free(table);
    return 0;
}

static bool may_have(uint64_t address)
{
    return table_may_have(table, (const void *)(uintptr_t)address);
}

static void come_and_go(uint32_t shift)
{
    table->shift = shift;
    for (uint64_t i = 1; i <= 1000000; i++)
        assert_true(table_add(table, i * 48));
    for (uint64_t i = 1; i <= 1000000; i++)
        assert_true(may_have(i * 48));
    assert_false(table_remove(table, 49));
    for (uint64_t i = 1; i <= 1000000; i++)
        assert_true(table_remove(table, i * 48));
    assert_false(table_remove(table, 48));
    for (uint64_t i = 1; i <= 1000000; i++)
        assert_false(may_have(i * 48));
}

// At a shift of 8 there are ten times as many addresses for a line as the line has slots.
static void addresses_come_and_go(void **state)
{
    (void)state;
    come_and_go(HEAP_TABLE_SHIFT_MIN);
    come_and_go(0);
    come_and_go(8);
}

// The distances are random, as the distances of samples are: nearly all addresses are in their
// line.
static void samples_are_in_their_lines(void **state)
{
    (void)state;
    uint64_t n = 200000, n_beyond = 0, random = 1, address = 0;
    table->shift = 8;
    for (uint64_t i = 0; i < n; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        address += 16 + (random >> 32) % 8160;
        assert_true(table_add(table, address));
    }
    for (uint32_t i = 0; i < 1u << TABLE_LINE_BITS; i++)
        n_beyond += table->counts.beyond[i];
    assert_in_range(n_beyond, 0, n / 1000);
}

static void an_address_is_there_once(void **state)
{
    (void)state;
    assert_true(table_add(table, 4096));
    assert_true(table_add(table, 4096));
    assert_true(table_slots_have(table->slots, table->shift, 4096));
    assert_true(table_remove(table, 4096));
    assert_false(table_slots_have(table->slots, table->shift, 4096));
    assert_false(table_remove(table, 4096));
    assert_false(may_have(4096));
}

static uint64_t n_removed, last_removed;

static void count_removed(void *userdata, uint64_t address)
{
    assert_ptr_equal(userdata, &n_removed);
    n_removed++;
    last_removed = address;
}

static void check_range(uint64_t mask, uint64_t start, uint64_t size, uint64_t n)
{
    n_removed = 0;
    table_remove_range(table, mask, start, size, count_removed, &n_removed);
    assert_int_equal(n_removed, n);
}

// table_remove_range() searches small ranges stretch by stretch, and large ranges slot by slot.
static void remove_ranges(uint32_t shift)
{
    const uint64_t masks[] = {0, HEAP_KEY(3, 0)};
    table->shift = shift;
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t address = 1000; address < 2000; address++)
            assert_true(table_add(table, address ^ masks[i]));
        check_range(masks[i] ^ HEAP_KEY(9, 0), 1000, 1000, 0);
        check_range(masks[i], 1003, 0, 0);
        check_range(masks[i], 1003, 1, 1);
        assert_int_equal(last_removed, 1003 ^ masks[i]);
        check_range(masks[i], 1000, 100, 99);
        check_range(masks[i], 0, 1200, 100);
        check_range(masks[i], 1500, UINT64_C(1) << 30, 500);
        check_range(masks[i], 0, UINT64_C(1) << 40, 300);
    }
}

static void what_is_in_a_range_is_removed(void **state)
{
    (void)state;
    for (uint32_t shift = 0; shift <= HEAP_TABLE_SHIFT_MIN; shift += 2)
        remove_ranges(shift);
}

// An address may be any number, also without memory behind it.
static void a_range_ends_at_the_last_address(void **state)
{
    (void)state;
    const uint64_t sizes[] = {100, UINT64_C(1) << 30, UINT64_MAX};
    assert_true(table_add(table, 5));
    for (size_t i = 0; i < 3; i++) {
        assert_true(table_add(table, UINT64_MAX - 3));
        assert_true(table_add(table, UINT64_MAX));
        check_range(0, UINT64_MAX - 7, sizes[i], 2);
    }
    assert_true(table_remove(table, 5));
}

// An address without room is refused, and no other entry changes.
static void a_full_table_refuses(void **state)
{
    (void)state;
    table->shift = HEAP_TABLE_SHIFT_MIN;
    uint64_t n = 0, refused = 0, tries = (UINT64_C(1) << HEAP_TABLE_BITS) * 2;
    for (uint64_t i = 1; i <= tries; i++) {
        bool added = table_add(table, i << 4);
        n += added;
        refused += !added;
    }
    assert_true(refused > 0);
    assert_in_range(n, (UINT64_C(1) << HEAP_TABLE_BITS) / 2, UINT64_C(1) << HEAP_TABLE_BITS);
    for (uint64_t i = 1; i <= tries; i++)
        n -= table_remove(table, i << 4);
    assert_int_equal(n, 0);
}

static void *add_and_remove(void *base)
{
    uint64_t first = (uint64_t)(uintptr_t)base;
    for (int round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < 10000; i++)
            if (!table_add(table, first + i * 64))
                return "no room";
        for (uint64_t i = 0; i < 10000; i++)
            if (!table_remove(table, first + i * 64))
                return "lost";
    }
    return NULL;
}

static void threads_do_not_lose_addresses(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_remove,
                                        (void *)(uintptr_t)(0x10000 + 16 * i)),
                         0);
    for (int i = 0; i < 4; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        assert_null(failure);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_table, free_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(addresses_come_and_go),
        TEST(samples_are_in_their_lines),
        TEST(an_address_is_there_once),
        TEST(what_is_in_a_range_is_removed),
        TEST(a_full_table_refuses),
        TEST(threads_do_not_lose_addresses),
        TEST(a_range_ends_at_the_last_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
