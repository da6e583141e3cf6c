// SPDX-License-Identifier: Apache-2.0
//
// Leaves of indexes that are filled while rows are added, and rows of kernel events.
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/database_fixture.h"

// A group has leaves in the file when a row comes that belongs before them. With `give_up`, the
// group of the last row is not a number, so that SQLite makes the index.
static void late_rows_are_sorted_into_leaves(void **state)
{
    (void)state;
    static const char *const states[] = {"S", "R", NULL, "Running"};
    enum { N = 30000, GROUPS = 3 };
    for (int give_up = 0; give_up < 2; give_up++)
        for (int late = 1000; late < N; late += 9001) {
            struct database *db = create();
            for (int k = 0; k < N; k++) {
                struct cell *row = database_row(db, TABLE_thread_state, NULL);
                cell_int(row, COL_thread_state_utid,
                         give_up && k == N - 1 ? INT64_C(1) << 40 : k % GROUPS);
                cell_int(row, COL_thread_state_ts, k == late ? 7 : k);
                if (k % 5)
                    cell_int(row, COL_thread_state_dur, k % 7 - 1);
                cell_text(row, COL_thread_state_state, states[k % 4]);
            }
            sqlite3 *handle = finish(db);
            expect_integrity(handle);
            assert_int_equal(query_int(handle, "SELECT count(*) FROM _thread_state INDEXED BY "
                                               "thread_state_by_thread WHERE utid >= 0"),
                             N);
            if (!give_up)
                assert_int_equal(query_int(handle, "SELECT stat LIKE '30000 10000 %' FROM "
                                                   "sqlite_stat1 WHERE idx = "
                                                   "'thread_state_by_thread'"),
                                 1);
            database_free(db);
        }
}

// The rows have values of every kind. In the first database a row comes late, in the second a group
// joins another group, and in the third a group gets a new number.
static void leaves_of_clustered_tables_are_sorted_again(void **state)
{
    (void)state;
    enum { N = 40000, GROUPS = 4 };
    for (int how = 0; how < 3; how++) {
        struct database *db = create();
        for (int k = 0; k < N; k++) {
            struct cell *row = counter_add(db, how == 0 && k == 20002 ? 1 : k, k % GROUPS);
            if (k % 5)
                cell_real(row, COL_counter_value, k % 3 ? k : k + 0.5);
            if (k % 2)
                cell_int(row, COL_counter_arg_set_id, k);
        }
        if (how > 0)
            database_move_track(db, TABLE_counter, 1, how == 1 ? 3 : 9);
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM counter WHERE "
                                           "value IS iif(id % 5, iif(id % 3, id, id + 0.5), NULL) "
                                           "AND arg_set_id IS iif(id % 2, id, NULL)"),
                         N);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM (SELECT ts, lag(ts) OVER "
                                           "(PARTITION BY track_id) AS before FROM counter) "
                                           "WHERE ts < before"),
                         0);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM counter WHERE track_id = 1"),
                         how ? 0 : N / GROUPS);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM counter WHERE track_id = 3"),
                         how == 1 ? 2 * N / GROUPS : N / GROUPS);
        database_free(db);
    }
}

// There are more groups than the index fills leaves for.
static void many_groups_are_whole(void **state)
{
    (void)state;
    enum { GROUPS = 700, EACH = 400 };
    struct database *db = create();
    for (int k = 0; k < GROUPS * EACH; k++)
        counter_add(db, k, k % GROUPS);
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM counter WHERE track_id = id % 700 "
                                       "AND ts = id"),
                     GROUPS * EACH);
    database_free(db);
}

static void event_add(struct database *db, const struct event_layout *layout, int64_t ts,
                      const char *message, size_t size)
{
    struct event_row row = {.ts = ts,
                            .message = (const uint8_t *)message,
                            .layout = layout,
                            .size = (uint32_t)size,
                            .utid = 5,
                            .ucpu = 1};
    database_event(db, &row);
}

#define EVENT(message) event_add(db, &layout, 100, message, sizeof(message) - 1)

// The messages are as those of kernel events, or unusual in one way each.
static void events_are_rows(void **state)
{
    (void)state;
    static const struct event_layout layout = {
        .kind = 3, .n_slots = 3, .fields = {[1] = {1, false}, [2] = {2, true}, [4] = {3, false}}};
    struct database *db = create();
    EVENT("\x08\x07\x12\x03"
          "abc\x20\x96\x01");
    EVENT("");
    EVENT("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); // -1, after fields that are missing
    EVENT("\x20\x05\x08\x07");                             // not in order
    EVENT("\x08\x01\x08\x02");                             // twice: the last counts
    EVENT("\x12\x02\xc3\x28");                             // not UTF-8
    EVENT("\x08\x01\x20\x96");                             // damaged at the end
    EVENT("\x08\x01\x12\x09z");
    EVENT("\x10\x05\x0a\x01q\x18\x05\x20\x02"); // wrong types, unknown numbers
    EVENT("\x0d\x01\x02\x03\x04");              // four bytes are a number, too
    EVENT("\x92\x01\x01q\x08\x09");             // a number of two bytes
    char text[3 + EVENT_MESSAGE_MAX] = "\x12\xbc\x02";
    memset(text + 3, 'x', 316);
    event_add(db, &layout, INT64_C(1) << 60, text, 3 + 316);
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    query_is(handle,
             "SELECT group_concat(printf('%d:%s,%s,%s', id, quote(value_0), quote(value_1), "
             "quote(value_2)), ' ') FROM _arg_set WHERE id < 11",
             "0:7,'abc',150 1:NULL,NULL,NULL 2:NULL,NULL,-1 3:7,NULL,5 4:2,NULL,NULL "
             "5:NULL,'\xef\xbf\xbd(',NULL 6:1,NULL,NULL 7:1,NULL,NULL 8:NULL,NULL,2 "
             "9:67305985,NULL,NULL 10:9,NULL,NULL");
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _arg_set WHERE kind_id = 3 AND "
                                       "utid = 5 AND ucpu = 1 AND common_flags IS NULL"),
                     12);
    assert_int_equal(query_int(handle, "SELECT length(value_1) FROM _arg_set WHERE ts = 1 << 60"),
                     316);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _arg_set INDEXED BY arg_set_by_kind "
                                       "WHERE kind_id = 3 AND ts = 100"),
                     11);
    database_free(db);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_rows_are_sorted_into_leaves),
        cmocka_unit_test(leaves_of_clustered_tables_are_sorted_again),
        cmocka_unit_test(many_groups_are_whole),
        cmocka_unit_test(events_are_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
