// SPDX-License-Identifier: Apache-2.0
#include "common/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static void an_empty_map_has_nothing(void **state)
{
    (void)state;
    struct map64 map = {0};
    size_t cursor = 0;
    assert_null(map64_find(&map, 0));
    assert_false(map64_remove(&map, 0));
    assert_null(map64_next(&map, &cursor));
    map64_clear(&map);
    map64_done(&map);
}

static void set_replaces_and_get_or_add_does_not(void **state)
{
    (void)state;
    struct map64 map = {0};
    bool is_new;
    assert_int_equal(map64_set(&map, 5, 1), 0);
    assert_int_equal(map64_set(&map, 5, 2), 0);
    assert_int_equal(map.n, 1);
    assert_int_equal(*map64_get_or_add(&map, 5, 3, &is_new), 2);
    assert_false(is_new);
    assert_int_equal(*map64_get_or_add(&map, UINT64_MAX, 3, &is_new), 3);
    assert_true(is_new);
    assert_int_equal(*map64_get_or_add(&map, 0, 4, NULL), 4);
    map64_clear(&map);
    assert_null(map64_find(&map, 5));
    assert_int_equal(map.n, 0);
    map64_done(&map);
}

// Random insertions and removals are compared with a plain array. The keys are few, so that runs
// collide and wrap around the end of the table.
static void behaves_like_an_array(void **state)
{
    (void)state;
    enum { KEYS = 200 };
    struct map64 map = {0};
    uint64_t values[KEYS] = {0}, random = 1;
    bool present[KEYS] = {false};
    for (size_t step = 0; step < 50000; step++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        size_t k = (random >> 33) % KEYS;
        uint64_t key = k * 0x100000001ULL;
        if (random >> 62) {
            assert_int_equal(map64_set(&map, key, step), 0);
            present[k] = true;
            values[k] = step;
        } else {
            assert_int_equal(map64_remove(&map, key), present[k]);
            present[k] = false;
        }
        if (step % 97)
            continue;
        size_t n = 0, n_walked = 0, cursor = 0;
        for (size_t i = 0; i < KEYS; i++) {
            const uint64_t *found = map64_find(&map, i * 0x100000001ULL);
            assert_int_equal(found != NULL, present[i]);
            if (found)
                assert_int_equal(*found, values[i]);
            n += present[i];
        }
        for (const struct map64_slot *slot; (slot = map64_next(&map, &cursor)); n_walked++)
            assert_int_equal(slot->value, values[slot->key / 0x100000001ULL]);
        assert_int_equal(map.n, n);
        assert_int_equal(n_walked, n);
    }
    assert_true(map.capacity <= 512);
    map64_done(&map);
}

static void ids_count_up_and_stay(void **state)
{
    (void)state;
    struct strset set = {0};
    char text[32];
    assert_int_equal(strset_find(&set, "x", 1), STRSET_NONE);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            int size = snprintf(text, sizeof(text), "name %u", i);
            assert_int_equal(strset_add(&set, text, (size_t)size), i);
        }
    assert_int_equal(set.n, 5000);
    assert_string_equal(strset_text(&set, 4321), "name 4321");
    assert_int_equal(strset_find(&set, "name 77", 7), 77);
    assert_int_equal(strset_find(&set, "name 77", 6), 7);
    assert_int_equal(strset_find(&set, "name x", 6), STRSET_NONE);
    assert_null(strset_text(&set, 5000));
    strset_done(&set);
}

static void strings_may_hold_any_bytes(void **state)
{
    (void)state;
    struct strset set = {0};
    assert_int_equal(strset_add(&set, "", 0), 0);
    assert_int_equal(strset_add(&set, "\0", 1), 1);
    assert_int_equal(strset_add(&set, "\0\0", 2), 2);
    assert_int_equal(strset_add(&set, "", 0), 0);
    assert_int_equal(set.entries[2].size, 2);
    strset_done(&set);
}

static void hashes_depend_on_every_byte_and_on_size(void **state)
{
    (void)state;
    unsigned char bytes[40] = {0};
    uint64_t zero = hash_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 1;
        assert_int_not_equal(hash_bytes(bytes, sizeof(bytes)), zero);
        bytes[i] = 0;
    }
    for (size_t size = 0; size < sizeof(bytes); size++)
        assert_int_not_equal(hash_bytes(bytes, size), zero);
}

// -- keys that a stranger chose --

enum { CHOSEN = 40000, RUN_MAX = 1000 };

// The inverse of hash_u64().
static uint64_t number_of_hash(uint64_t hash)
{
    uint64_t inverse = 1;
    for (int i = 0; i < 6; i++) // doubles the bits that are right
        inverse *= 2 - HASH_FACTOR * inverse;
    uint64_t x = hash ^ hash >> 28 ^ hash >> 56;
    x *= inverse;
    x ^= x >> 32;
    x *= inverse;
    return x ^ x >> 32;
}

static bool is_used(const void *table, size_t i)
{
    return ((const uint8_t *)table)[i];
}

static bool is_filled(const void *table, size_t i)
{
    return ((const uint32_t *)table)[i];
}

// The longest row of slots in use, which a search may have to walk over. This measure does not
// depend on the hash function.
static size_t longest_run(bool (*used)(const void *, size_t), const void *table, size_t n)
{
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = used(table, i) ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static size_t run_of_keys(uint64_t (*key)(uint64_t, unsigned), unsigned shift)
{
    struct map64 map = {0};
    for (uint64_t i = 0; i < CHOSEN; i++)
        assert_int_equal(map64_set(&map, key(i, shift), i), 0);
    size_t longest = longest_run(is_used, map.used, map.capacity);
    map64_done(&map);
    return longest;
}

static uint64_t key_of_like_hash(uint64_t i, unsigned shift)
{
    return number_of_hash(i << shift);
}

static uint64_t key_in_steps(uint64_t i, unsigned shift)
{
    return i << shift;
}

static uint64_t key_of_two_halves(uint64_t i, unsigned shift)
{
    uint64_t half = i << shift % 16;
    return half << 32 | half;
}

static void no_chosen_numbers_share_their_slots(void **state)
{
    (void)state;
    assert_int_equal(hash_u64(number_of_hash(12345)), 12345);
    for (unsigned shift = 0; shift <= 48; shift += 4) {
        assert_in_range(run_of_keys(key_of_like_hash, shift), 1, RUN_MAX);
        assert_in_range(run_of_keys(key_in_steps, shift), 1, RUN_MAX);
        assert_in_range(run_of_keys(key_of_two_halves, shift), 1, RUN_MAX);
    }
}

// Eight bytes are mixed in two steps: the bytes, and an empty rest.
static void no_chosen_texts_share_their_slots(void **state)
{
    (void)state;
    struct strset set = {0};
    for (uint64_t i = 0; i < CHOSEN; i++) {
        uint64_t text = number_of_hash(number_of_hash(i << 32)) ^ 0x9e3779b97f4a7c15ULL ^ 8;
        assert_int_equal((uint32_t)hash_bytes(&text, sizeof(text)), 0);
        assert_int_equal(strset_add(&set, (const char *)&text, sizeof(text)), i);
    }
    assert_in_range(longest_run(is_filled, set.slots, set.n_slots), 1, RUN_MAX);
    strset_done(&set);
}

static void slots_are_sorted_by_key(void **state)
{
    (void)state;
    struct map64 map = {0};
    struct map64_slot *slots = map64_sorted(&map);
    assert_non_null(slots);
    free(slots);
    for (uint64_t i = 1000; i-- > 0;)
        assert_int_equal(map64_set(&map, i * 7, i), 0);
    slots = map64_sorted(&map);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(slots[i].key, i * 7);
        assert_int_equal(slots[i].value, i);
    }
    free(slots);
    map64_done(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_chosen_numbers_share_their_slots),
        cmocka_unit_test(no_chosen_texts_share_their_slots),
        cmocka_unit_test(slots_are_sorted_by_key),
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(set_replaces_and_get_or_add_does_not),
        cmocka_unit_test(behaves_like_an_array),
        cmocka_unit_test(ids_count_up_and_stay),
        cmocka_unit_test(strings_may_hold_any_bytes),
        cmocka_unit_test(hashes_depend_on_every_byte_and_on_size),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
