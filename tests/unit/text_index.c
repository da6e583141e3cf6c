// SPDX-License-Identifier: Apache-2.0
//
// The index of slices by name.
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/elements.h"
#include "tests/unit/database_fixture.h"

#define STAT                                                                                       \
    "SELECT substr(stat, 1, instr(stat, ' sz=200') - 1) FROM sqlite_stat1 "                        \
    "WHERE idx = 'slice_by_name'"
#define BY_NAME "SELECT count(*) FROM _slice INDEXED BY slice_by_name WHERE name "

// Adds a row whose name is a copy of the first `size` bytes of `text`; -1: no name.
static void slice_add(struct database *db, int64_t id, const char *text, int size)
{
    struct cell *row = database_row_with_id(db, TABLE_slice, id);
    cell_int(row, COL_slice_ts, id);
    cell_int(row, COL_slice_track_id, id % 3);
    if (size >= 0)
        cell_bytes(row, COL_slice_name, database_copy(db, text, (size_t)size), (size_t)size);
}

static int64_t expect_index(struct database *db, const char *stat)
{
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    query_is(handle, STAT, stat);
    return query_int(handle, BY_NAME ">= ''");
}

// At some of these sizes the head of a record, the record, or its place in a page changes. The last
// two are too long for a page: SQLite makes the index.
static void names_of_any_size_are_indexed(void **state)
{
    (void)state;
    enum { N = 4000 };
    static const int sizes[] = {0,   1,   56,  57,  58,  59,  110, 119, 120, 121, 122, 123, 124,
                                125, 126, 127, 128, 129, 300, 800, 986, 987, 988, 989, 2000};
    static char text[2000];
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        struct database *db = create();
        memset(text, 'a' + (int)i, sizeof(text));
        for (int k = 0; k < N; k++)
            slice_add(db, k, text, k % 10 ? sizes[i] : -1);
        assert_int_equal(expect_index(db, "4000 2000"), N * 9 / 10);
        database_free(db);
    }
}

// Long and short names alternate: each leaf and each page above has another number of entries.
static void names_of_many_sizes_are_in_order(void **state)
{
    (void)state;
    static char text[1000];
    for (int step = 1; step < 1000; step += 77) {
        struct database *db = create();
        for (int k = 0; k < 9000; k++) {
            snprintf(text, sizeof(text), "%03d", k * step % 1000);
            memset(text + 3, 'x', 900);
            slice_add(db, k, text, 3 + k * step % 1000 * 9 / 10);
        }
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, BY_NAME "= '000'"),
                         query_int(handle, "SELECT count(*) FROM _slice NOT INDEXED "
                                           "WHERE name = '000'"));
        assert_in_range(query_int(handle, BY_NAME "GLOB '7*'"), 1, 9000);
        assert_int_equal(query_int(handle, BY_NAME "GLOB '7*'"),
                         query_int(handle, "SELECT count(*) FROM _slice NOT INDEXED "
                                           "WHERE name GLOB '7*'"));
        database_free(db);
    }
}

// Bytes are compared without sign, and a text comes before its continuation.
static void names_are_ordered_as_sqlite_orders_them(void **state)
{
    (void)state;
    static const char texts[][8] = {"b",  "",  "\xc3\xa9", "a\0b", "a",
                                    "ab", "Z", "\x7f",     "a b",  "\xf0\x9f\x98\x80"};
    static const int sizes[] = {1, 0, 2, 3, 1, 2, 1, 1, 3, 4};
    struct database *db = create();
    for (int k = 0; k < 1000; k++)
        slice_add(db, k ^ 7, texts[k % ELEMENTS(texts)], sizes[k % ELEMENTS(texts)]);
    assert_int_equal(expect_index(db, "1000 100"), 1000);
    database_free(db);
}

// SQLite makes the index of more names than are kept in memory, and estimates their number.
static void many_names_are_indexed(void **state)
{
    (void)state;
    char text[16];
    static const int sizes[] = {65535, 65536, 65537};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        struct database *db = create();
        for (int k = 0; k < sizes[i]; k++) {
            int size = snprintf(text, sizeof(text), "name %d", k * 7919 % sizes[i]);
            slice_add(db, k, text, size);
        }
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, BY_NAME "GLOB 'name *'"), sizes[i]);
        snprintf(text, sizeof(text), "%d 1", sizes[i]);
        if (sizes[i] < 65537)
            query_is(handle, STAT, text);
        database_free(db);
    }
}

static void rows_come_in_the_order_of_ids(void **state)
{
    (void)state;
    enum { N = 20000 };
    char text[16];
    struct database *db = create();
    for (int k = 0; k < N; k++)
        slice_add(db, k, text, snprintf(text, sizeof(text), "name %d", 9 - k % 10));
    sqlite3 *handle = finish(db);
    query_is(handle, "SELECT name FROM slice LIMIT 1", "name 9");
    assert_int_equal(query_int(handle, "SELECT id FROM slice WHERE name = 'name 3'"), 6);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM (SELECT id, lag(id) OVER () AS before "
                                       "FROM (SELECT id, name FROM slice)) WHERE id < before"),
                     0);
    database_free(db);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_any_size_are_indexed),
        cmocka_unit_test(names_of_many_sizes_are_in_order),
        cmocka_unit_test(names_are_ordered_as_sqlite_orders_them),
        cmocka_unit_test(many_names_are_indexed),
        cmocka_unit_test(rows_come_in_the_order_of_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
