// SPDX-License-Identifier: Apache-2.0
#include "converter/verdict/intervals.h"

#include <stdbool.h>

#include "common/cleanup.h"
#include "tests/unit/unit.h"

#define GAP 10

static void add(struct intervals *intervals, int64_t ts, int64_t end)
{
    assert_int_equal(intervals_add(intervals, ts, end, GAP), 0);
}

static void is(const struct intervals *intervals, size_t n, const struct interval *wanted)
{
    assert_int_equal(intervals->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(intervals->items[i].ts, wanted[i].ts);
        assert_int_equal(intervals->items[i].end, wanted[i].end);
    }
}

static void test_merging(void **state)
{
    CLEANUP(intervals_done) struct intervals intervals = {0};
    (void)state;
    assert_int_equal(intervals_sum(&intervals), 0);
    add(&intervals, 100, 120);
    add(&intervals, 130, 140); // exactly the gap after the first: joined
    is(&intervals, 1, (struct interval[]){{100, 140}});
    add(&intervals, 151, 160);
    add(&intervals, 300, 300);
    is(&intervals, 3, (struct interval[]){{100, 140}, {151, 160}, {300, 300}});
    assert_int_equal(intervals_sum(&intervals), 49);
    add(&intervals, 141, 142); // between two intervals: joins all three
    is(&intervals, 2, (struct interval[]){{100, 160}, {300, 300}});
    add(&intervals, 110, 115); // inside
    is(&intervals, 2, (struct interval[]){{100, 160}, {300, 300}});
}

static void test_out_of_order(void **state)
{
    CLEANUP(intervals_done) struct intervals intervals = {0};
    (void)state;
    add(&intervals, 500, 510);
    add(&intervals, 100, 110);
    add(&intervals, 300, 310);
    is(&intervals, 3, (struct interval[]){{100, 110}, {300, 310}, {500, 510}});
    add(&intervals, 90, 505);
    is(&intervals, 1, (struct interval[]){{90, 510}});
    add(&intervals, 0, 1000);
    is(&intervals, 1, (struct interval[]){{0, 1000}});
}

// The intervals are compared with an array that marks each point of time.
static void test_against_points(void **state)
{
    enum { END = 2000 };
    (void)state;
    for (unsigned seed = 1; seed < 200; seed++) {
        CLEANUP(intervals_done) struct intervals intervals = {0};
        bool marked[END + GAP + 1] = {0};
        unsigned random = seed;
        for (int i = 0; i < 20; i++) {
            random = random * 1103515245 + 12345;
            int64_t ts = (random >> 8) % (END - 100), end = ts + (random >> 20) % 100;
            add(&intervals, ts, end);
            for (int64_t at = ts; at < end + GAP; at++)
                marked[at] = true;
        }
        int64_t sum = 0;
        for (size_t i = 0; i < END + GAP; i++)
            sum += marked[i];
        assert_int_equal(intervals_sum(&intervals) + (int64_t)intervals.n * GAP, sum);
        for (int64_t ts = 0; ts < END; ts += 7) {
            bool near = false;
            for (size_t i = 0; i < intervals.n; i++)
                near |= intervals.items[i].ts - 3 <= ts + 5 && intervals.items[i].end + 3 >= ts;
            assert_int_equal(intervals_are_near(&intervals, ts, ts + 5, 3), near);
        }
        for (size_t i = 1; i < intervals.n; i++)
            assert_true(intervals.items[i].ts - intervals.items[i - 1].end > GAP);
    }
}

static void test_near(void **state)
{
    CLEANUP(intervals_done) struct intervals intervals = {0};
    (void)state;
    assert_false(intervals_are_near(&intervals, 0, 1000, 5));
    add(&intervals, 100, 110);
    add(&intervals, 300, 310);
    assert_true(intervals_are_near(&intervals, 115, 120, 5)); // exactly the gap
    assert_false(intervals_are_near(&intervals, 116, 294, 5));
    assert_true(intervals_are_near(&intervals, 116, 295, 5));
    assert_true(intervals_are_near(&intervals, 0, 1000, 0)); // around both
    assert_false(intervals_are_near(&intervals, 311, 400, 0));
}

// Each of many spans is found again, much faster than by a walk through all spans.
static void test_many(void **state)
{
    enum { N = 1000000 };
    CLEANUP(intervals_done) struct intervals intervals = {0};
    (void)state;
    for (int64_t i = 0; i < N; i++)
        add(&intervals, i * 100, i * 100 + 10);
    for (int64_t i = 0; i < N; i++)
        add(&intervals, i * 100 + 5, i * 100 + 15);
    assert_int_equal(intervals.n, N);
    assert_int_equal(intervals_sum(&intervals), N * 15);
    for (int64_t i = 0; i < N; i++)
        assert_false(intervals_are_near(&intervals, i * 100 + 40, i * 100 + 50, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merging),        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_against_points), cmocka_unit_test(test_near),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
