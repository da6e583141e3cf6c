// SPDX-License-Identifier: Apache-2.0
#include "common/pinlist.h"
#include "common/elements.h"

#include "common/cleanup.h"
#include "tests/unit/unit.h"

#define GIB (UINT64_C(1) << 30)

static void check(const struct pinlist *list, size_t n, const uint32_t (*want)[2])
{
    assert_int_equal(list->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(list->items[i].offset, want[i][0]);
        assert_int_equal(list->items[i].length, want[i][1]);
    }
}

#define CHECK(list, ...)                                                                           \
    check(list, ELEMENTS(((const uint32_t[][2]){__VA_ARGS__})), (const uint32_t[][2]){__VA_ARGS__})

static int make(struct pinlist *list, uint64_t quota, size_t n, const uint64_t (*pairs)[2],
                struct err *err)
{
    CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
    for (size_t i = 0; i < n; i++)
        assert_int_equal(page_ranges_push(&ranges, (struct page_range){pairs[i][0], pairs[i][1]}),
                         0);
    return pinlist_from_ranges(&ranges, 4096, quota, list, err);
}

#define MAKE(list, quota, err, ...)                                                                \
    make(list, quota, ELEMENTS(((const uint64_t[][2]){__VA_ARGS__})),                              \
         (const uint64_t[][2]){__VA_ARGS__}, err)

static void pairs_are_big_endian(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x00, 0x00, 0x10, 0x00, 0x80, 0x00, 0x00, 0x01,
                                    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x02};
    CLEANUP(pinlist_done) struct pinlist list = {0};
    CLEANUP(strbuf_done) struct strbuf again = {0};
    assert_int_equal(pinlist_parse(bytes, sizeof(bytes), "x", &list, NULL), 0);
    CHECK(&list, {0x1000, 0x80000001}, {0xffffffff, 2});
    assert_true(pinlist_total_bytes(&list) == 0x80000003);
    pinlist_encode(&list, &again);
    assert_int_equal(again.size, sizeof(bytes));
    assert_memory_equal(again.text, bytes, sizeof(bytes));

    CLEANUP(page_ranges_done) struct page_ranges set = {0};
    assert_int_equal(pinlist_to_ranges(&list, &set), 0);
    assert_int_equal(set.n, 2);
    assert_true(set.items[1].end == PINLIST_END_MAX + 1);
}

static void cut_pair_is_refused(void **state)
{
    (void)state;
    static const uint8_t bytes[17] = {0};
    CLEANUP(pinlist_done) struct pinlist list = {0};
    for (size_t size = 1; size <= sizeof(bytes); size++) {
        struct err err = {0};
        bool whole = size % 8 == 0;
        assert_int_equal(pinlist_parse(bytes, size, "odd.meta", &list, &err), whole ? 0 : -EBADMSG);
        assert_int_equal(list.n, whole ? size / 8 : 0);
        assert_true(whole || str_starts_with(err.text, "odd.meta: "));
    }
    assert_int_equal(pinlist_parse(NULL, 0, "empty", &list, NULL), 0);
    assert_int_equal(list.n, 0);
}

static void starts_are_aligned_and_ranges_merged(void **state)
{
    (void)state;
    CLEANUP(pinlist_done) struct pinlist list = {0};
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {21000, 34000}, {0, 500}, {5000, 10500}),
                     0);
    CHECK(&list, {0, 500}, {4096, 6404}, {20480, 13520});
    // overlap by alignment, touch, containment, and an empty range
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {700, 800}, {0, 500}), 0);
    CHECK(&list, {0, 800});
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {0, 4096}, {4096, 8192}, {9000, 9000}), 0);
    CHECK(&list, {0, 8192});
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {0, 90000}, {4096, 8192}), 0);
    CHECK(&list, {0, 90000});
}

static void quota_cuts_the_last_range(void **state)
{
    (void)state;
    CLEANUP(pinlist_done) struct pinlist list = {0};
    assert_int_equal(MAKE(&list, 700, NULL, {0, 100}, {8192, 8692}, {16384, 16684}), 0);
    CHECK(&list, {0, 100}, {8192, 500}, {16384, 100});
    assert_int_equal(MAKE(&list, 600, NULL, {0, 100}, {8192, 8692}, {16384, 16684}), 0);
    CHECK(&list, {0, 100}, {8192, 500}); // no empty range follows
    assert_int_equal(MAKE(&list, 0, NULL, {0, 100}), 0);
    assert_int_equal(list.n, 0);
}

static void beyond_4_gib_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    CLEANUP(pinlist_done) struct pinlist list = {0};
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {4 * GIB - 8192, 4 * GIB}), 0);
    CHECK(&list, {0xffffe000, 0x2000});
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, &err, {0, 4096}, {4 * GIB - 8192, 4 * GIB + 1}),
                     -EFBIG);
    assert_int_equal(list.n, 0);
    assert_non_null(strstr(err.text, "32 bits"));
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {5 * GIB, 5 * GIB + 1}), -EFBIG);
    assert_int_equal(MAKE(&list, PINLIST_NO_QUOTA, NULL, {0, 4 * GIB}), -EFBIG); // a 33 bit length
    assert_int_equal(MAKE(&list, 4096, NULL, {0, 4096}, {5 * GIB, 6 * GIB}), 0); // never reached
    CHECK(&list, {0, 4096});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_big_endian),
        cmocka_unit_test(cut_pair_is_refused),
        cmocka_unit_test(starts_are_aligned_and_ranges_merged),
        cmocka_unit_test(quota_cuts_the_last_range),
        cmocka_unit_test(beyond_4_gib_is_refused),
    };
    return cmocka_run_group_tests_name("pinlist", tests, NULL, NULL);
}
