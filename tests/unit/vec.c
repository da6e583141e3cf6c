// SPDX-License-Identifier: Apache-2.0
#include "common/vec.h"

#include "tests/unit/unit.h"

struct triple {
    uint32_t a, b, c;
};

VEC_DEFINE(triples, struct triple);

static void pushes_keep_order(void **state)
{
    (void)state;
    struct triples v = {0};
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(triples_push(&v, (struct triple){i, i + 1, i + 2}), 0);
    assert_int_equal(v.n, 1000);
    uint32_t next = 0;
    vec_foreach(&v, item) {
        assert_int_equal(item->a, next);
        assert_int_equal(item->c, next + 2);
        next++;
    }
    assert_int_equal(next, 1000);
    size_t capacity = v.capacity;
    triples_clear(&v);
    assert_int_equal(v.n, 0);
    assert_int_equal(v.capacity, capacity);
    triples_done(&v);
    assert_null(v.items);
    triples_done(&v);
}

static void reserve_gives_at_least_what_was_asked(void **state)
{
    (void)state;
    struct triples v = {0};
    assert_int_equal(triples_reserve(&v, 100), 0);
    assert_true(v.capacity >= 100);
    const struct triple *items = v.items;
    assert_int_equal(triples_reserve(&v, 50), 0);
    for (uint32_t i = 0; i < 100; i++)
        triples_push(&v, (struct triple){i, 0, 0});
    assert_ptr_equal(v.items, items);
    triples_done(&v);
}

static void absurd_sizes_fail_and_change_nothing(void **state)
{
    (void)state;
    struct triples v = {0};
    triples_push(&v, (struct triple){1, 2, 3});
    assert_int_equal(triples_reserve(&v, SIZE_MAX), -ENOMEM);
    assert_int_equal(triples_reserve(&v, SIZE_MAX / sizeof(struct triple)), -ENOMEM);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.items[0].b, 2);
    triples_done(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_keep_order),
        cmocka_unit_test(reserve_gives_at_least_what_was_asked),
        cmocka_unit_test(absurd_sizes_fail_and_change_nothing),
    };
    return cmocka_run_group_tests_name("vec", tests, NULL, NULL);
}
