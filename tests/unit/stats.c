// SPDX-License-Identifier: Apache-2.0
#include "converter/import/stats.h"

#include <stdio.h>

#include "tests/unit/database_fixture.h"

static struct failure failure;
static struct stats stats;

static int setup(void **state)
{
    (void)state;
    failure = (struct failure){0};
    stats = (struct stats){.failure = &failure};
    stats_enter_machine(&stats, 0);
    return failure.code;
}

static int teardown(void **state)
{
    (void)state;
    stats_done(&stats);
    return 0;
}

static void numbers_are_set_and_added_up(void **state)
{
    (void)state;
    assert_int_equal(stats_get(&stats, STAT_misplaced_end_event), 0);
    stats_add(&stats, STAT_misplaced_end_event, 3);
    stats_add(&stats, STAT_misplaced_end_event, 4);
    assert_int_equal(stats_get(&stats, STAT_misplaced_end_event), 7);
    stats_set(&stats, STAT_misplaced_end_event, 2);
    assert_int_equal(stats_get(&stats, STAT_misplaced_end_event), 2);
    stats_add(&stats, STAT_misplaced_end_event, INT64_MAX); // the sum wraps around
    assert_int_equal(stats_get(&stats, STAT_misplaced_end_event), INT64_MIN + 1);
}

static void indexes_are_apart(void **state)
{
    (void)state;
    int64_t value = -1;
    assert_false(stats_get_at(&stats, STAT_mmsql_packets_left_out, 5, &value));
    assert_int_equal(value, -1);
    stats_add_at(&stats, STAT_mmsql_packets_left_out, 5, 1);
    stats_add_at(&stats, STAT_mmsql_packets_left_out, UINT32_MAX, 10);
    stats_add_at(&stats, STAT_mmsql_packets_left_out, 5, 2);
    stats_set_at(&stats, STAT_heapprofd_client_error, 5, 100);
    assert_true(stats_get_at(&stats, STAT_mmsql_packets_left_out, 5, &value));
    assert_int_equal(value, 3);
    assert_true(stats_get_at(&stats, STAT_mmsql_packets_left_out, UINT32_MAX, &value));
    assert_int_equal(value, 10);
    assert_true(stats_get_at(&stats, STAT_heapprofd_client_error, 5, &value));
    assert_int_equal(value, 100);
}

static void machines_are_apart_but_for_what_is_of_all(void **state)
{
    (void)state;
    int64_t value;
    stats_add(&stats, STAT_misplaced_end_event, 1);
    stats_add(&stats, STAT_invalid_clock_snapshots, 1);
    stats_add_at(&stats, STAT_mmsql_packets_left_out, 5, 1);
    stats_enter_machine(&stats, 2);
    assert_int_equal(stats_get(&stats, STAT_misplaced_end_event), 0);
    assert_int_equal(stats_get(&stats, STAT_invalid_clock_snapshots), 1);
    assert_false(stats_get_at(&stats, STAT_mmsql_packets_left_out, 5, &value));
    stats_add(&stats, STAT_misplaced_end_event, 10);
    stats_add(&stats, STAT_invalid_clock_snapshots, 10);
    stats_enter_machine(&stats, 0);
    assert_int_equal(stats_get(&stats, STAT_misplaced_end_event), 1);
    assert_int_equal(stats_get(&stats, STAT_invalid_clock_snapshots), 11);
}

static int64_t ask(sqlite3 *handle, const char *what, const char *where)
{
    char sql[200];
    snprintf(sql, sizeof(sql), "SELECT %s FROM stats WHERE %s", what, where);
    return query_int(handle, sql);
}

static void rows_are_there_for_all_numbers_and_for_indexes_that_were_set(void **state)
{
    (void)state;
    struct database *db = create();
    stats_set(&stats, STAT_misplaced_end_event, 7);
    stats_set_at(&stats, STAT_mmsql_packets_left_out, 9, 2);
    stats_set_at(&stats, STAT_mmsql_packets_left_out, 5, 1);
    stats_enter_machine(&stats, 1);
    stats_set_at(&stats, STAT_mmsql_packets_left_out, 1, 3);
    stats_write(&stats, db);
    assert_int_equal(failure.code, 0);
    sqlite3 *handle = finish(db);
    assert_int_equal(ask(handle, "value", "name = 'misplaced_end_event' AND machine_id = 0"), 7);
    assert_int_equal(ask(handle, "value", "name = 'misplaced_end_event' AND machine_id = 1"), 0);
    assert_int_equal(ask(handle, "severity = 'data_loss' AND source = 'analysis'",
                         "name = 'misplaced_end_event'"),
                     1);
    assert_int_equal(ask(handle,
                         "group_concat(machine_id || '/' || idx || '=' || value) = "
                         "'0/5=1,0/9=2,1/1=3'",
                         "name = 'mmsql_packets_left_out'"),
                     1);
    assert_int_equal(ask(handle, "count(*)", "description = ''"), 0);
    assert_int_equal(ask(handle, "count(*)", "name = 'heapprofd_client_error'"), 0);
    assert_int_equal(ask(handle, "count(*)", "name = 'invalid_clock_snapshots'"), 1);
    assert_int_equal(
        ask(handle, "machine_id IS NULL AND trace_id IS NULL", "name = 'invalid_clock_snapshots'"),
        1);
    database_free(db);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(numbers_are_set_and_added_up),
        T(indexes_are_apart),
        T(machines_are_apart_but_for_what_is_of_all),
        T(rows_are_there_for_all_numbers_and_for_indexes_that_were_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
