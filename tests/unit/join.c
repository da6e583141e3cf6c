// SPDX-License-Identifier: Apache-2.0
//
// Joining databases: every column that could be an id is known, and ids still lead where they led.
#include "converter/tables/join.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/str.h"
#include "converter/tables/database.h"
#include "converter/tables/rows.h"
#include "tests/unit/unit.h"

static void test_every_id_has_a_meaning(void **state)
{
    (void)state;
    size_t n_missing = 0;
    for (enum table_id table = 0; table < N_TABLES; table++)
        for (size_t i = 0; i < table_defs[table].n_columns; i++) {
            const struct column_def *column = &table_defs[table].columns[i];
            if (!column_lacks_meaning(table, column))
                continue;
            n_missing++;
            print_error("%s.%s: add a row to converter/tables/meaning.c: the table of the id, or "
                        "PLAIN for a number of the kernel or of the trace\n",
                        table_defs[table].name, column->name);
        }
    assert_int_equal(n_missing, 0);
}

static void database_make(char *path, int64_t ts, const struct id_shifts *shifts)
{
    struct err err = {0};
    struct database *db;
    int64_t upid, utid, parent;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(database_create(path, &err, &db), 0);
    if (shifts)
        database_shift_ids(db, shifts);
    struct cell *row = database_row(db, TABLE_process, &upid);
    cell_int(row, COL_process_pid, 10);
    row = database_row(db, TABLE_process, &upid);
    cell_int(row, COL_process_pid, 11);
    cell_int(row, COL_process_machine_id, 0);
    row = database_row(db, TABLE_thread, &utid);
    cell_int(row, COL_thread_upid, upid);
    row = database_row(db, TABLE_slice, &parent);
    cell_int(row, COL_slice_ts, ts);
    cell_int(row, COL_slice_dur, -1);
    row = database_row(db, TABLE_slice, NULL);
    cell_int(row, COL_slice_ts, ts + 1);
    cell_int(row, COL_slice_parent_id, parent);
    row = database_row(db, TABLE_sched_slice, NULL);
    cell_int(row, COL_sched_slice_utid, utid);
    cell_int(row, COL_sched_slice_ucpu, 3);
    int64_t early = database_reserve_id(db, TABLE_counter); // waits for its turn
    row = database_row(db, TABLE_counter, NULL);
    cell_int(row, COL_counter_track_id, 1);
    cell_int(row, COL_counter_ts, ts);
    row = database_row_with_id(db, TABLE_counter, early);
    cell_int(row, COL_counter_track_id, 0);
    cell_int(row, COL_counter_ts, ts);
    database_row(db, TABLE__track, NULL);
    database_row(db, TABLE__track, NULL);
    row = database_row(db, TABLE_trace, NULL);
    cell_int(row, COL_trace_start_ts, ts);
    cell_int(row, COL_trace_end_ts, ts + 1);
    row = database_row(db, TABLE_trace_bounds, NULL);
    cell_int(row, COL_trace_bounds_start_ts, ts);
    assert_int_equal(database_finish(db, NULL, NULL, &err), 0);
    database_free(db);
}

static void join_and_check(bool shifted)
{
    char first[] = "/tmp/mmsql-join.XXXXXX", second[] = "/tmp/mmsql-join.XXXXXX";
    struct err err = {0};
    sqlite3 *handle;
    database_make(first, 1000, NULL);
    assert_int_equal(sqlite3_open(first, &handle), SQLITE_OK);
    struct id_shifts *shifts = calloc(1, sizeof(*shifts));
    assert_non_null(shifts);
    join_shifts_find(handle, shifts);
    database_make(second, 50, shifted ? shifts : NULL);
    free(shifts);
    assert_int_equal(database_same_schema(handle, first, &err), 0);
    struct join join = {.shifted = shifted, .trace_id = 1, .ts_shift = 7};
    if (database_join(handle, second, &join, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(sql_number(handle, "SELECT count(*) FROM process", -1), 4);
    assert_int_equal(sql_number(handle, "SELECT upid FROM thread WHERE utid = 1", -1), 3);
    assert_int_equal(sql_number(handle, "SELECT pid FROM process WHERE upid = 3", -1), 11);
    assert_int_equal(sql_number(handle, "SELECT machine_id FROM process WHERE upid = 3", -1), 1);
    assert_int_equal(sql_number(handle, "SELECT parent_id FROM slice WHERE id = 3", -1), 2);
    assert_int_equal(sql_number(handle, "SELECT ts FROM slice WHERE id = 3", -1), 58);
    assert_int_equal(sql_number(handle, "SELECT dur FROM slice WHERE id = 2", -1), -1);
    assert_int_equal(sql_number(handle, "SELECT parent_id FROM slice WHERE id = 2", -9), -9);
    assert_int_equal(sql_number(handle, "SELECT utid FROM sched_slice WHERE id = 1", -1), 1);
    assert_int_equal(sql_number(handle, "SELECT cpu FROM sched_slice WHERE id = 1", -1), 3);
    assert_int_equal(sql_number(handle, "SELECT ucpu FROM sched_slice WHERE id = 1", -1), 4099);
    assert_int_equal(sql_number(handle, "SELECT start_ts FROM trace WHERE id = 1", -1), 57);
    assert_int_equal(sql_number(handle, "SELECT start_ts FROM trace_bounds", -1), 57);
    assert_int_equal(sql_number(handle, "SELECT end_ts FROM trace_bounds", -1), 1001);
    assert_int_equal(sql_number(handle, "SELECT track_id FROM counter WHERE id = 2", -1), 2);
    assert_int_equal(sql_number(handle, "SELECT track_id FROM counter WHERE id = 3", -1), 3);
    assert_int_equal(sql_number(handle, "SELECT ts FROM counter WHERE track_id = 2", -1), 57);
    assert_int_equal(
        sql_number(handle, "SELECT integrity_check = 'ok' FROM pragma_integrity_check", -1), 1);
    sqlite3_close(handle);
    unlink(first);
    unlink(second);
}

static void test_join_moves_ids_and_times(void **state)
{
    (void)state;
    join_and_check(false);
}

static void test_ids_that_were_shifted_when_written(void **state)
{
    (void)state;
    join_and_check(true);
}

static void test_other_versions_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
    assert_int_equal(database_same_schema(handle, "old.db", &err), -EINVAL);
    assert_non_null(strstr(err.text, "old.db: another version"));
    sqlite3_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_id_has_a_meaning),
        cmocka_unit_test(test_join_moves_ids_and_times),
        cmocka_unit_test(test_ids_that_were_shifted_when_written),
        cmocka_unit_test(test_other_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
