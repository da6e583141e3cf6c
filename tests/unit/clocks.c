// SPDX-License-Identifier: Apache-2.0
#include "converter/decode/clocks.h"

#include <errno.h>

#include "common/elements.h"
#include "tests/unit/unit.h"

#define SEQUENCE_CLOCK clock_key(64, 7, 0)

static void add(struct clocks *clocks, clock_key_t a, int64_t at_a, clock_key_t b, int64_t at_b)
{
    struct clock_reading readings[] = {
        {.clock = a, .timestamp = at_a, .unit_ns = 1},
        {.clock = b, .timestamp = at_b, .unit_ns = 1},
    };
    uint32_t id;
    assert_int_equal(clocks_add(clocks, readings, 2, &id), 0);
}

static int64_t convert(struct clocks *clocks, clock_key_t clock, int64_t timestamp)
{
    int64_t ts;
    assert_true(clocks_convert(clocks, clock, timestamp, &ts));
    return ts;
}

static void each_stretch_has_its_own_difference(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    // Suspended for 50 between the snapshots: the monotonic clock stood still.
    add(&clocks, CLOCK_ID_BOOTTIME, 1000, CLOCK_ID_MONOTONIC, 900);
    add(&clocks, CLOCK_ID_BOOTTIME, 2050, CLOCK_ID_MONOTONIC, 1900);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 800), 900); // before the first
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 900), 1000);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 1899), 1999);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 1900), 2050);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 5000), 5150);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 1000), 1100); // back again
    assert_int_equal(convert(&clocks, CLOCK_ID_BOOTTIME, 7), 7);
    clocks_done(&clocks);
}

static void unknown_clocks_are_refused(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    int64_t ts;
    assert_false(clocks_convert(&clocks, CLOCK_ID_MONOTONIC, 1, &ts));
    add(&clocks, CLOCK_ID_MONOTONIC, 1, CLOCK_ID_REALTIME, 2);
    assert_false(clocks_convert(&clocks, CLOCK_ID_MONOTONIC, 1, &ts)); // known, but not connected
    clocks_done(&clocks);
}

static void conversion_goes_over_other_clocks(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    add(&clocks, SEQUENCE_CLOCK, 10, CLOCK_ID_REALTIME, 1010);
    add(&clocks, CLOCK_ID_REALTIME, 1000, CLOCK_ID_MONOTONIC, 500);
    add(&clocks, CLOCK_ID_MONOTONIC, 500, CLOCK_ID_BOOTTIME, 600);
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 15), 615);
    int64_t ts;
    assert_false(clocks_convert(&clocks, clock_key(64, 8, 0), 15, &ts)); // another sequence's
    clocks_done(&clocks);
}

static void sources_are_not_compared(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    // The service's snapshots stand first in the file, a producer's older ones after them.
    add(&clocks, CLOCK_ID_BOOTTIME, 1000, CLOCK_ID_MONOTONIC, 900);
    add(&clocks, CLOCK_ID_BOOTTIME, 9000, CLOCK_ID_MONOTONIC, 8900);
    add(&clocks, CLOCK_ID_MONOTONIC, 2000, SEQUENCE_CLOCK, 1);
    add(&clocks, CLOCK_ID_MONOTONIC, 3000, SEQUENCE_CLOCK, 1001);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 5000), 5100);
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 501), 2600);
    clocks_done(&clocks);
}

static void units_and_differences(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    struct clock_reading readings[] = {
        {.clock = SEQUENCE_CLOCK, .timestamp = 100, .unit_ns = 1000, .incremental = true},
        {.clock = CLOCK_ID_BOOTTIME, .timestamp = 7000000, .unit_ns = 1},
    };
    uint32_t id;
    assert_int_equal(clocks_add(&clocks, readings, 2, &id), 0);
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 5), 7005000);
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 5), 7010000); // 5 more
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, -1), 7009000);
    clocks_done(&clocks);
}

static void contradictions_are_ignored(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    add(&clocks, CLOCK_ID_BOOTTIME, 1000, CLOCK_ID_MONOTONIC, 900);
    uint32_t id;
    struct clock_reading twice[] = {{.clock = 3, .unit_ns = 1}, {.clock = 3, .unit_ns = 1}};
    assert_int_equal(clocks_add(&clocks, twice, 2, &id), -EINVAL);
    struct clock_reading unit[] = {{.clock = 3, .timestamp = 1, .unit_ns = 1000},
                                   {.clock = 6, .timestamp = 2000, .unit_ns = 1}};
    assert_int_equal(clocks_add(&clocks, unit, 2, &id), -EINVAL);
    struct clock_reading back[] = {{.clock = 6, .timestamp = 10, .unit_ns = 1},
                                   {.clock = 3, .timestamp = 950, .unit_ns = 1}};
    assert_int_equal(clocks_add(&clocks, back, 2, &id), -EINVAL); // trace time runs backwards
    struct clock_reading global[] = {
        {.clock = 3, .timestamp = 10, .unit_ns = 1, .incremental = true}};
    assert_int_equal(clocks_add(&clocks, global, 1, &id), -EINVAL);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 950), 1050);
    clocks_done(&clocks);
}

static int add_reading(struct clocks *clocks, struct clock_reading reading)
{
    uint32_t id;
    const struct clock_reading readings[] = {
        {.clock = CLOCK_ID_MONOTONIC, .timestamp = 1, .unit_ns = 1}, reading};
    return clocks_add(clocks, readings, 2, &id);
}

// Only clocks of a sequence have differences. Trace time is in nanoseconds.
static void some_clocks_have_no_unit_or_differences(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    assert_int_equal(add_reading(&clocks, (struct clock_reading){.clock = CLOCK_ID_REALTIME,
                                                                 .unit_ns = 1,
                                                                 .incremental = true}),
                     -EINVAL);
    assert_int_equal(
        add_reading(&clocks, (struct clock_reading){.clock = CLOCK_ID_BOOTTIME, .unit_ns = 1000}),
        -EINVAL);
    assert_int_equal(
        add_reading(&clocks, (struct clock_reading){.clock = CLOCK_ID_REALTIME, .unit_ns = 1000}),
        0);
    assert_int_equal(add_reading(&clocks, (struct clock_reading){.clock = SEQUENCE_CLOCK,
                                                                 .unit_ns = 1000,
                                                                 .incremental = true}),
                     0);
    clocks_done(&clocks);
}

// Snapshots with ever more clocks are left out in the end, so memory is bounded.
static void clocks_have_a_largest_number(void **state)
{
    (void)state;
    enum { AT_MOST = 1024 };
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    for (uint32_t i = 0; i < 2 * AT_MOST; i++) {
        const struct clock_reading reading = {.clock = clock_key(64, i + 1, 0), .unit_ns = 1};
        // The monotonic clock is one of them, and a snapshot may bring two new clocks.
        assert_int_equal(add_reading(&clocks, reading), i < AT_MOST - 2 ? 0 : -EINVAL);
    }
    // Snapshots of known clocks go on.
    const struct clock_reading known = {.clock = clock_key(64, 1, 0), .timestamp = 5, .unit_ns = 1};
    assert_int_equal(add_reading(&clocks, known), 0);
    assert_int_equal(clocks.series.n, AT_MOST - 1);
    assert_int_equal(clocks.groups.n, AT_MOST - 2);
    clocks_done(&clocks);
}

static void a_clock_that_went_back_is_no_source(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    add(&clocks, CLOCK_ID_BOOTTIME, 1000, CLOCK_ID_REALTIME, 9000);
    add(&clocks, CLOCK_ID_BOOTTIME, 2000, CLOCK_ID_REALTIME, 5000);
    int64_t ts;
    assert_false(clocks_convert(&clocks, CLOCK_ID_REALTIME, 6000, &ts));
    clocks_done(&clocks);
}

// A path is searched again when a snapshot changes the connections.
static void ways_follow_the_snapshots(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    int64_t ts;
    add(&clocks, SEQUENCE_CLOCK, 10, CLOCK_ID_REALTIME, 1010);
    assert_false(clocks_convert(&clocks, SEQUENCE_CLOCK, 15, &ts));
    add(&clocks, CLOCK_ID_REALTIME, 1000, CLOCK_ID_BOOTTIME, 600);
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 15), 615);
    add(&clocks, CLOCK_ID_MONOTONIC, 1, SEQUENCE_CLOCK, 3);
    assert_true(clocks_connected(&clocks, CLOCK_ID_REALTIME, CLOCK_ID_MONOTONIC));
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 15), 615);
    add(&clocks, CLOCK_ID_REALTIME, 900, CLOCK_ID_BOOTTIME, 700); // goes back
    assert_false(clocks_convert(&clocks, SEQUENCE_CLOCK, 15, &ts));
    clocks_set_trace_clock(&clocks, CLOCK_ID_REALTIME);
    assert_int_equal(convert(&clocks, SEQUENCE_CLOCK, 15), 1015);
    clocks_done(&clocks);
}

// A search for each of these conversions would take minutes.
static void many_clocks_cost_no_searches(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    int64_t ts;
    for (uint32_t i = 0; i < 1000; i++)
        add(&clocks, CLOCK_ID_BOOTTIME, 1000, clock_key(64, i, 0), 5);
    add(&clocks, CLOCK_ID_REALTIME, 1, CLOCK_ID_MONOTONIC, 2); // not connected to them
    for (int i = 0; i < 100000; i++) {
        assert_false(clocks_convert(&clocks, CLOCK_ID_MONOTONIC, i, &ts));
        assert_int_equal(convert(&clocks, clock_key(64, i % 1000, 0), i), i + 995);
    }
    clocks_done(&clocks);
}

// A moment has at least one clock and not too many; equal times of the trace's clock are in order.
static void moments_have_bounds(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    struct clock_reading readings[CLOCK_READINGS_MAX + 1];
    uint32_t id;
    for (uint32_t i = 0; i <= CLOCK_READINGS_MAX; i++)
        readings[i] = (struct clock_reading){
            .clock = i ? clock_key(64 + i, 1, 0) : CLOCK_ID_BOOTTIME, .timestamp = 5, .unit_ns = 1};
    assert_int_equal(clocks_add(&clocks, readings, 0, &id), -EINVAL);
    assert_int_equal(clocks_add(&clocks, readings, CLOCK_READINGS_MAX + 1, &id), -EINVAL);
    assert_int_equal(clocks_add(&clocks, readings, CLOCK_READINGS_MAX, &id), 0);
    assert_int_equal(id, 2); // each has a number of its own
    assert_int_equal(clocks_add(&clocks, readings, CLOCK_READINGS_MAX, &id), 0);
    assert_int_equal(clocks_add(&clocks, readings, 1, &id), 0);
    assert_int_equal(convert(&clocks, readings[CLOCK_READINGS_MAX - 1].clock, 7), 7);
    readings[0].unit_ns = 2; // the trace's clock counts nanoseconds
    assert_int_equal(clocks_add(&clocks, readings, 1, &id), -EINVAL);
    readings[1].incremental = true; // the clock was not incremental before
    assert_int_equal(clocks_add(&clocks, readings + 1, 1, &id), -EINVAL);
    clocks_done(&clocks);
}

static void clocks_have_names(void **state)
{
    (void)state;
    assert_string_equal(clock_name(CLOCK_ID_BOOTTIME), "BOOTTIME");
    assert_null(clock_name(0));
    assert_null(clock_name(CLOCK_ID_BOOTTIME + 1));
    assert_null(clock_name(UINT32_MAX));
}

// The shift that is remembered holds from one snapshot to before the next one.
static void remembered_shifts_have_ends(void **state)
{
    (void)state;
    struct clocks clocks = {.trace_clock = CLOCK_ID_BOOTTIME};
    add(&clocks, CLOCK_ID_BOOTTIME, 1000, CLOCK_ID_MONOTONIC, 1000);
    add(&clocks, CLOCK_ID_BOOTTIME, 2100, CLOCK_ID_MONOTONIC, 2000);
    add(&clocks, CLOCK_ID_BOOTTIME, 3200, CLOCK_ID_MONOTONIC, 3000);
    static const int64_t times[][2] = {{1500, 1500}, {1999, 1999}, {2000, 2100}, {2001, 2101},
                                       {2999, 3099}, {3000, 3200}, {2999, 3099}, {2000, 2100},
                                       {1999, 1999}, {0, 0},       {9999, 10199}};
    for (size_t i = 0; i < ELEMENTS(times); i++)
        assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, times[i][0]), times[i][1]);
    clocks_set_trace_clock(&clocks, CLOCK_ID_MONOTONIC);
    assert_int_equal(convert(&clocks, CLOCK_ID_MONOTONIC, 2500), 2500);
    assert_int_equal(convert(&clocks, CLOCK_ID_BOOTTIME, 2100), 2000);
    assert_int_equal(convert(&clocks, CLOCK_ID_BOOTTIME, 2099), 2099);
    assert_true(clocks_know(&clocks, CLOCK_ID_BOOTTIME));
    assert_false(clocks_know(&clocks, CLOCK_ID_REALTIME));
    assert_true(clocks_connected(&clocks, CLOCK_ID_REALTIME, CLOCK_ID_REALTIME));
    assert_false(clocks_connected(&clocks, CLOCK_ID_REALTIME, CLOCK_ID_BOOTTIME));
    clocks_done(&clocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stretch_has_its_own_difference),
        cmocka_unit_test(unknown_clocks_are_refused),
        cmocka_unit_test(conversion_goes_over_other_clocks),
        cmocka_unit_test(sources_are_not_compared),
        cmocka_unit_test(units_and_differences),
        cmocka_unit_test(contradictions_are_ignored),
        cmocka_unit_test(some_clocks_have_no_unit_or_differences),
        cmocka_unit_test(clocks_have_a_largest_number),
        cmocka_unit_test(a_clock_that_went_back_is_no_source),
        cmocka_unit_test(ways_follow_the_snapshots),
        cmocka_unit_test(many_clocks_cost_no_searches),
        cmocka_unit_test(moments_have_bounds),
        cmocka_unit_test(clocks_have_names),
        cmocka_unit_test(remembered_shifts_have_ends),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
