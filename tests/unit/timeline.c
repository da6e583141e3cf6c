// SPDX-License-Identifier: Apache-2.0
#include "converter/decode/timeline.h"

#include <stdlib.h>

#include "common/elements.h"
#include "common/wire.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

static struct timeline_item packet_at(int64_t ts, uint16_t queue)
{
    static const uint8_t nothing[1];
    return (struct timeline_item){
        .ts = ts, .data = nothing, .queue = queue, .kind = TIMELINE_PACKET};
}

// Adds `n` random times out of `n_times`, so that many are equal, and asserts that they come out in
// order.
static void walk(size_t n, uint64_t n_times)
{
    struct timeline timeline = {0};
    uint64_t seed = n;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        struct timeline_item item = packet_at((int64_t)((seed >> 33) % n_times), seed >> 63);
        assert_int_equal(timeline_add(&timeline, item), 0);
    }
    assert_int_equal(timeline_sort(&timeline), 0);
    const struct timeline_item *item;
    const struct run_record *record;
    struct timeline_item last = {.ts = -1};
    int64_t ts;
    size_t n_seen = 0;
    while (timeline_next(&timeline, &item, &record, &ts) > 0) {
        assert_null(record);
        assert_int_equal(ts, item->ts);
        assert_true(ts >= last.ts);
        if (ts == last.ts)
            assert_true(item->queue > last.queue ||
                        (item->queue == last.queue && item->order > last.order));
        last = *item;
        if (++n_seen % 10000 == 0)
            timeline_forget(&timeline);
        assert_int_equal(timeline.n_begun, n_seen);
    }
    assert_int_equal(n_seen, n);
    timeline_done(&timeline);
}

static void few_items_stay_in_memory(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 1000, 32768};
    for (size_t i = 0; i < ELEMENTS(sizes); i++)
        walk(sizes[i], 700);
}

static void many_items_come_back_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {32769, 65536, 65537, 300000};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        walk(sizes[i], 3);
        walk(sizes[i], UINT64_C(1) << 31);
    }
}

static bool keep_time(void *userdata, const struct timeline_item *item, int64_t ts, int64_t *ret)
{
    (void)userdata, (void)item;
    *ret = ts;
    return true;
}

// Many processors have several runs each, whose times overlap.
static void runs_of_many_processors_are_merged(void **state)
{
    (void)state;
    enum { N_CPUS = 60, N_RUNS = 8, N_EVENTS = 5, RUN_BYTES = 128 };
    static uint8_t bytes[N_CPUS * N_RUNS][RUN_BYTES];
    struct timeline timeline = {.convert = keep_time};
    uint64_t seed = 1;
    for (uint32_t i = 0; i < N_CPUS * N_RUNS; i++) {
        struct timeline_item item = {.data = bytes[i], .kind = RUN_EVENTS, .sorted = 1};
        struct wire_writer w = wire_writer_over(bytes[i], RUN_BYTES);
        int64_t ts = 0;
        for (int n = 0; n < N_EVENTS; n++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            ts += (int64_t)(seed >> 33) % 1000 + (n == 0);
            item.ts = n == 0 ? ts : item.ts;
            size_t mark = wire_begin(&w, PB_FtraceEventBundle_event);
            wire_uint(&w, PB_FtraceEvent_timestamp, (uint64_t)ts);
            wire_end(&w, mark);
        }
        item.size = (uint32_t)wire_size(&w);
        assert_int_equal(timeline_queue(&timeline, RUN_EVENTS, i % N_CPUS, &item.queue), 0);
        assert_int_equal(timeline_add(&timeline, item), 0);
    }
    assert_int_equal(timeline_sort(&timeline), 0);
    const struct timeline_item *item;
    const struct run_record *record;
    int64_t ts, last = 0;
    size_t n_seen = 0;
    for (; timeline_next(&timeline, &item, &record, &ts) > 0; n_seen++) {
        assert_int_equal(record->ts, ts);
        assert_true(ts >= last);
        last = ts;
    }
    assert_int_equal(n_seen, N_CPUS * N_RUNS * N_EVENTS);
    timeline_done(&timeline);
}

static void a_missing_folder_is_reported(void **state)
{
    (void)state;
    struct timeline timeline = {.folder = "/nonexistent"};
    int r = 0;
    for (size_t i = 0; i < 40000 && r == 0; i++)
        r = timeline_add(&timeline, packet_at(1, 0));
    assert_int_equal(r, -ENOENT);
    timeline_done(&timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_items_stay_in_memory),
        cmocka_unit_test(many_items_come_back_in_order),
        cmocka_unit_test(runs_of_many_processors_are_merged),
        cmocka_unit_test(a_missing_folder_is_reported),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
