// SPDX-License-Identifier: Apache-2.0
#include "common/map.h"

#include <stdio.h>
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

// Random insertions and removals of few keys, so that runs collide and wrap around the table's end,
// against a plain array.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(set_replaces_and_get_or_add_does_not),
        cmocka_unit_test(behaves_like_an_array),
        cmocka_unit_test(ids_count_up_and_stay),
        cmocka_unit_test(strings_may_hold_any_bytes),
        cmocka_unit_test(hashes_depend_on_every_byte_and_on_size),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
