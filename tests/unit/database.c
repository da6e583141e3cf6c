// SPDX-License-Identifier: Apache-2.0
#include "converter/tables/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "converter/import/args.h"
#include "tests/unit/database_fixture.h"

static char folder[64], path[96];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/mmsql-test.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/a.db", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); // fails if anything else was left
}

static void file_write(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void batches_lose_nothing(void **state)
{
    (void)state;
    struct database *db = create();
    enum { N = 2000 }; // several batches and a part
    for (int i = 0; i < N; i++) {
        int64_t id;
        struct cell *row = database_row(db, TABLE_counter, &id);
        assert_int_equal(id, i);
        cell_int(row, COL_counter_ts, i * 10);
        cell_int(row, COL_counter_track_id, i % 3);
        cell_real(row, COL_counter_value, i * 0.5);
    }
    assert_int_equal(database_n_rows(db, TABLE_counter), N);
    sqlite3 *handle = finish(db);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM counter"), N);
    assert_int_equal(query_int(handle, "SELECT sum(ts) FROM counter"), 10 * (N - 1) * N / 2);
    assert_int_equal(query_int(handle, "SELECT sum(value = id * 0.5) FROM counter"), N);
    assert_int_equal(query_int(handle, "SELECT count(arg_set_id) FROM counter"), 0); // all NULL
    database_free(db);
}

static void texts_keep_their_bytes(void **state)
{
    (void)state;
    struct database *db = create();
    char text[] = "caf\xc3\xa9 'q' \"d\"";
    struct cell *row = database_row(db, TABLE_metadata, NULL);
    cell_bytes(row, COL_metadata_name, database_copy(db, text, 5), 5);
    cell_bytes(row, COL_metadata_str_value, database_copy(db, text, sizeof(text) - 1),
               sizeof(text) - 1);
    memset(text, 0, sizeof(text));
    assert_int_equal(query_int(finish(db),
                               "SELECT name = 'caf' || char(233) AND str_value = 'caf' || "
                               "char(233) || ' ''q'' \"d\"' FROM metadata"),
                     1);
    database_free(db);
}

static void ids_may_be_taken_before_rows(void **state)
{
    (void)state;
    struct database *db = create();
    int64_t outer = database_reserve_id(db, TABLE_slice), inner;
    database_row(db, TABLE_slice, &inner);
    assert_int_equal(inner, outer + 1);
    database_row_with_id(db, TABLE_slice, outer);
    assert_int_equal(query_int(finish(db), "SELECT count(*) FROM slice WHERE id IN (0, 1)"), 2);
    database_free(db);
}

static void a_file_appears_only_when_finished(void **state)
{
    (void)state;
    struct err err = {0};
    struct database *db;
    assert_int_equal(database_create(path, &err, &db), 0);
    database_row(db, TABLE_counter, NULL);
    assert_int_not_equal(access(path, F_OK), 0);
    database_free(db); // given up: leaves no file, as the teardown checks

    assert_int_equal(database_create(path, &err, &db), 0);
    assert_int_equal(database_finish(db, NULL, NULL, &err), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(database_n_bytes(db), st.st_size);
    database_free(db);
}

static void only_own_files_are_replaced(void **state)
{
    (void)state;
    struct err err = {0};
    struct database *db;
    file_write("notes");
    assert_int_equal(database_create(path, &err, &db), -EEXIST);
    assert_non_null(strstr(err.text, "not a database made by mmsql"));
    unlink(path);

    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    sqlite3_exec(handle, "CREATE TABLE precious(a)", NULL, NULL, NULL);
    sqlite3_close(handle);
    assert_int_equal(database_create(path, &err, &db), -EEXIST); // another program's database
    unlink(path);

    file_write("");
    for (int i = 0; i < 2; i++) { // over an empty file, then over its own
        assert_int_equal(database_create(path, &err, &db), 0);
        assert_int_equal(database_finish(db, NULL, NULL, &err), 0);
        database_free(db);
    }
}

static void a_missing_folder_is_reported(void **state)
{
    (void)state;
    struct err err = {0};
    struct database *db;
    assert_int_equal(database_create("/nonexistent/a.db", &err, &db), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/a.db"));
}

static void equal_sets_of_args_are_one(void **state)
{
    (void)state;
    struct err err = {0};
    struct database *db;
    struct args args;
    assert_int_equal(database_create(NULL, &err, &db), 0);
    assert_int_equal(args_init(&args, db), 0);
    struct arg a[] = {arg_int("order", 1), arg_text("name", "x", 1)};
    struct arg b[] = {arg_int("order", 2), arg_text("name", "x", 1)};
    struct arg twice[] = {arg_int("order", 3), arg_int("order", 4)};
    int64_t first = args_add(&args, a, 2);
    assert_int_equal(args_add(&args, b, 2), first + 1);
    assert_int_equal(args_add(&args, a, 2), first);
    int64_t last = args_add(&args, twice, 2);
    assert_int_equal(args_add(&args, a, 0), ARG_SET_NONE);
    args_done(&args);
    sqlite3 *handle = finish(db);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM args"), 5);
    char sql[96];
    snprintf(sql, sizeof(sql), "SELECT int_value FROM args WHERE arg_set_id = %d", (int)last);
    assert_int_equal(query_int(handle, sql), 4);
    database_free(db);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(batches_lose_nothing),         TEST(texts_keep_their_bytes),
        TEST(ids_may_be_taken_before_rows), TEST(a_file_appears_only_when_finished),
        TEST(only_own_files_are_replaced),  TEST(a_missing_folder_is_reported),
        TEST(equal_sets_of_args_are_one),
    };
    return cmocka_run_group_tests_name("database", tests, NULL, NULL);
}
