// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/elements.h"
#include "converter/tables/bulk.h"
#include "converter/tables/pages.h"
#include "tests/unit/database_fixture.h"

// SQLite keeps its locks in the bytes from 1 GiB on, and refuses a file that uses that page.
static void the_page_of_locks_is_left_out(void **state)
{
    (void)state;
    enum { LOCKS = (1 << 30) / PAGE_BYTES + 1, N = 6 };
    for (uint32_t first = LOCKS - N - 1; first <= LOCKS + 1; first++) {
        uint8_t page[PAGE_BYTES] = {0}, back;
        uint32_t numbers[N];
        struct pages pages;
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_int_equal(pages_init(&pages, fileno(file), first), 0);
        for (uint32_t i = 0; i < N; i++)
            numbers[i] = pages_number(&pages, i);
        for (uint32_t i = 0; i < N; i++) {
            uint32_t expected = first + i + (first <= LOCKS && first + i >= LOCKS);
            page[0] = (uint8_t)(i + 1);
            assert_int_equal(pages_number(&pages, 0), expected);
            assert_int_equal(pages_add(&pages, page), expected);
            assert_int_equal(numbers[i], expected);
        }
        assert_int_equal(pages_finish(&pages, 0), 0);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(pread(fileno(file), &back, 1, (off_t)(numbers[i] - 1) * PAGE_BYTES),
                             1);
            assert_int_equal(back, i + 1);
        }
        pages_done(&pages);
        fclose(file);
    }
}

static void pages_have_numbers_of_32_bits(void **state)
{
    (void)state;
    static const uint8_t page[PAGE_BYTES];
    struct pages pages;
    assert_int_equal(pages_init(&pages, -1, 0xfffffffd), 0);
    assert_int_equal(pages_add(&pages, page), 0xfffffffd);
    assert_int_equal(pages.failure, 0);
    assert_int_equal(pages_add(&pages, page), 0);
    assert_int_equal(pages.failure, -EFBIG);
    assert_int_equal(pages_finish(&pages, 0), -EFBIG);
    pages_done(&pages);
}

static void free_pages_fill_several_trunks(void **state)
{
    (void)state;
    enum { N = 3000, LEAVES_MAX = 1016 };
    static const uint8_t page[PAGE_BYTES];
    struct pages pages;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(pages_init(&pages, fileno(file), 2), 0);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(pages_free(&pages, pages_add(&pages, page)), 0);
    assert_int_equal(pages_finish(&pages, 0), 0);
    uint8_t head[PAGE_BYTES];
    assert_int_equal(pages_read(&pages, 1, head), 0);
    uint32_t n = 0, n_trunks = 0;
    for (uint32_t trunk = get_u32(head + 32); trunk; trunk = get_u32(head)) {
        assert_int_equal(pages_read(&pages, trunk, head), 0);
        assert_in_range(get_u32(head + 4), n_trunks < 2 ? 1 : LEAVES_MAX, LEAVES_MAX);
        n += 1 + get_u32(head + 4);
        n_trunks++;
    }
    assert_int_equal(n, N);
    assert_int_equal(n_trunks, 3);
    pages_done(&pages);
    fclose(file);
}

static void a_failure_stays(void **state)
{
    (void)state;
    static const uint8_t page[PAGE_BYTES];
    uint8_t back[PAGE_BYTES];
    struct pages pages;
    int fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pages_init(&pages, fd, 2), 0);
    uint32_t number = pages_add(&pages, page); // stays in memory
    assert_int_equal(number, 2);
    assert_int_equal(pages_free(&pages, number), 0);
    assert_int_equal(pages_read(&pages, number, back), -ENOSPC);
    assert_int_equal(pages_put(&pages, page), 0);
    assert_int_equal(pages_add(&pages, page), 0);
    assert_int_equal(pages_finish_grown(&pages), -ENOSPC);
    assert_int_equal(pages_finish(&pages, 0), -ENOSPC);
    pages_done(&pages);
    close(fd);
    // A page that is not there, and a file that cannot be read.
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(pages_init(&pages, fileno(file), 2), 0);
    assert_int_equal(pages_read(&pages, 5, back), -EIO);
    pages_done(&pages);
    fclose(file);
    assert_int_equal(pages_init(&pages, -1, 2), 0);
    assert_int_equal(pages_read(&pages, 5, back), -EBADF);
    pages_done(&pages);
}

// At some of these sizes a tree gets another page or another level.
static void trees_of_every_height_are_whole(void **state)
{
    (void)state;
    static const int sizes[] = {0, 1, 2, 50, 170, 171, 172, 340, 341, 342, 343, 511, 60000, 200000};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        struct database *db = create();
        for (int k = 0; k < sizes[i]; k++)
            cell_int(database_row(db, TABLE_state, NULL), COL_state_ts, 1000000 + k);
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM state"), sizes[i]);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM state WHERE ts = 1000000 + id"),
                         sizes[i]);
        char sql[80];
        snprintf(sql, sizeof(sql), "SELECT ts FROM state WHERE id = %d", sizes[i] / 2);
        if (sizes[i])
            assert_int_equal(query_int(handle, sql), 1000000 + sizes[i] / 2);
        database_free(db);
    }
}

// Some of the texts share a page, others take several pages each.
static void texts_of_every_size_are_kept(void **state)
{
    (void)state;
    enum { SIZE_MAX_TRIED = 13000, STEP = 7 };
    struct database *db = create();
    char *text = malloc(SIZE_MAX_TRIED);
    for (size_t i = 0; i < SIZE_MAX_TRIED; i++)
        text[i] = (char)('a' + i % 26);
    int n = 0;
    for (size_t size = 0; size < SIZE_MAX_TRIED; size += STEP, n++) {
        struct cell *row = database_row(db, TABLE_metadata, NULL);
        cell_int(row, COL_metadata_int_value, (int64_t)size);
        cell_bytes(row, COL_metadata_str_value, text, size);
    }
    for (size_t size = 4000; size < 4200; size++, n++) { // around the end of a page
        struct cell *row = database_row(db, TABLE_metadata, NULL);
        cell_int(row, COL_metadata_int_value, (int64_t)size);
        cell_bytes(row, COL_metadata_str_value, text, size);
    }
    sqlite3 *handle = finish(db);
    free(text);
    expect_integrity(handle);
    assert_int_equal(
        query_int(handle, "SELECT count(*) FROM metadata WHERE length(str_value) = int_value"), n);
    assert_int_equal(query_int(handle,
                               "SELECT count(*) FROM metadata WHERE int_value = 0 OR "
                               "unicode(substr(str_value, -1)) = 97 + (int_value - 1) % 26"),
                     n);
    database_free(db);
}

static void numbers_are_kept(void **state)
{
    (void)state;
    struct database *db = create();
    for (int bit = 0; bit < 64; bit++)
        for (int delta = -1; delta <= 1; delta++)
            for (int sign = -1; sign <= 1; sign += 2) {
                uint64_t value = ((UINT64_C(1) << bit) + (uint64_t)(int64_t)delta) * (uint64_t)sign;
                char text[32];
                snprintf(text, sizeof(text), "%lld", (long long)value);
                struct cell *row = database_row(db, TABLE_metadata, NULL);
                cell_int(row, COL_metadata_int_value, (int64_t)value);
                cell_bytes(row, COL_metadata_str_value, database_copy(db, text, strlen(text)),
                           strlen(text));
            }
    static const double reals[] = {
        0.0, -0.0, 0.5, -1.0, 4096.0, 1e15, -1e15, 1e300, 140737488355327.0, 140737488355328.0};
    enum { N_REALS = ELEMENTS(reals) };
    for (size_t i = 0; i < N_REALS; i++)
        cell_real(counter_add(db, (int64_t)i, 0), COL_counter_value, reals[i]);
    cell_real(counter_add(db, N_REALS, 0), COL_counter_value, __builtin_nan(""));
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM metadata WHERE "
                                       "CAST(int_value AS TEXT) = str_value"),
                     64 * 3 * 2);
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(handle, "SELECT value FROM counter", -1, &statement, NULL),
                     SQLITE_OK);
    for (size_t i = 0; i < N_REALS; i++) {
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_int_equal(sqlite3_column_type(statement, 0), SQLITE_FLOAT);
        assert_true(sqlite3_column_double(statement, 0) == reals[i]);
    }
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_type(statement, 0), SQLITE_NULL);
    sqlite3_finalize(statement);
    database_free(db);
}

// The ids are shuffled and have holes; the first id comes last.
static void rows_may_come_in_any_order(void **state)
{
    (void)state;
    enum { N = 30000, STEP = 7919, HOLE = 10 };
    struct database *db = create();
    int64_t sum = 0, n = 0;
    for (int64_t i = 1; i <= N; i++) {
        int64_t id = i * STEP % N;
        if (id % HOLE == 3)
            continue;
        cell_int(database_row_with_id(db, TABLE_slice, id), COL_slice_ts, id * 2);
        sum += id * 2;
        n++;
    }
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM slice"), n);
    assert_int_equal(query_int(handle, "SELECT sum(ts) FROM slice WHERE ts = id * 2"), sum);
    database_free(db);
}

// At some of these sizes the index gets another page or level. Values repeat, and some groups are
// absent. integrity_check compares an index with its table.
static void indexes_are_whole(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 200, 240, 250, 260, 300, 480, 520, 40000, 70000};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        struct database *db = create();
        for (int k = 0; k < sizes[i]; k++) {
            struct cell *row = database_row(db, TABLE_slice, NULL);
            cell_int(row, COL_slice_ts, INT64_C(1) << 40 | k / 3);
            cell_int(row, COL_slice_track_id, k % 7 * 40);
        }
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY "
                                           "slice_by_track WHERE track_id >= 0"),
                         sizes[i]);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY "
                                           "slice_by_track WHERE track_id = 40"),
                         (sizes[i] + 5) / 7);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY slice_by_time "
                                           "WHERE ts BETWEEN 1 << 40 AND (1 << 40) + 9"),
                         sizes[i] < 30 ? sizes[i] : 30);
        database_free(db);
    }
}

// The last leaf of the index is filled more or less in each database.
static void indexes_of_any_size_are_whole(void **state)
{
    (void)state;
    for (int n = 100; n < 1200; n += 3) {
        struct database *db = create();
        for (int k = 0; k < n; k++) {
            struct cell *row = database_row(db, TABLE_slice, NULL);
            cell_int(row, COL_slice_ts, k);
            cell_int(row, COL_slice_track_id, 1);
        }
        sqlite3 *handle = finish(db);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY "
                                           "slice_by_track WHERE track_id = 1"),
                         n);
        if (n % 50 == 0)
            expect_integrity(handle);
        database_free(db);
    }
}

static void sets_are_found_by_kind(void **state)
{
    (void)state;
    struct database *db = create();
    for (int k = 0; k < 30000; k++)
        cell_int(database_row(db, TABLE__arg_set, NULL), COL__arg_set_kind_id,
                 k % 1000 ? k % 3 : 7);
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _arg_set INDEXED BY arg_set_by_kind "
                                       "WHERE kind_id = 7 AND id % 1000 = 0"),
                     30);
    assert_int_equal(query_int(handle, "SELECT max(id) FROM _arg_set INDEXED BY arg_set_by_kind "
                                       "WHERE kind_id = 2"),
                     29999);
    database_free(db);
}

// Returns whether sqlite_stat1 has a row with `stat` for a table or an index.
static int64_t stat_of(sqlite3 *handle, const char *name, const char *stat)
{
    char sql[160];
    snprintf(sql, sizeof(sql), "SELECT max(stat = '%s') FROM sqlite_stat1 WHERE %s = '%s'", stat,
             strchr(name, '_') && strstr(name, "_by_") ? "idx" : "tbl", name);
    return query_int(handle, sql);
}

// Times, lengths and states are in any order, and some are missing; a state is seldom equal to the
// state of the row before.
static void indexes_of_four_columns_are_whole(void **state)
{
    (void)state;
    static const char *const states[] = {"S", "R", "R+", "Running", "", "R (Preempted) of state 1"};
    for (int n = 1; n < 60000; n = n * 3 + 1) {
        struct database *db = create();
        for (int k = 0; k < n; k++) {
            struct cell *row = database_row(db, TABLE_thread_state, NULL);
            cell_int(row, COL_thread_state_utid, k % 5);
            if (k % 11)
                cell_int(row, COL_thread_state_ts, (k / 20 * 20 + k * 7 % 20) / 3);
            if (k % 13)
                cell_int(row, COL_thread_state_dur, k % 3 - 1);
            if (k % 17)
                cell_text(row, COL_thread_state_state, states[k * 5 % 6]);
        }
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _thread_state INDEXED BY "
                                           "thread_state_by_thread WHERE utid >= 0"),
                         n);
        database_free(db);
    }
}

// Rows are written at the ends of slices, so that an inner slice comes before its outer slice.
static void rows_that_come_early_are_moved(void **state)
{
    (void)state;
    enum { N = 20000, DEPTH = 10 };
    struct database *db = create();
    for (int outer = 0; outer < N; outer += DEPTH)
        for (int k = DEPTH - 1; k >= 0; k--) {
            struct cell *row = database_row_with_id(db, TABLE_slice, outer + k);
            cell_int(row, COL_slice_ts, outer + k);
            cell_int(row, COL_slice_track_id, outer / DEPTH % 4);
        }
    sqlite3 *handle = finish(db);
    expect_integrity(handle);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY slice_by_track "
                                       "WHERE track_id = 1 AND ts BETWEEN 10 AND 59"),
                     2 * DEPTH);
    assert_true(stat_of(handle, "slice_by_track", "20000 5000 1"));
    assert_true(stat_of(handle, "slice_by_time", "20000 1"));
    database_free(db);
}

// A slice may have no time, come before slices that began earlier, or wait for the end of others.
static void times_of_any_kind_are_indexed(void **state)
{
    (void)state;
    enum { N = 9000 };
    for (int has_real = 0; has_real < 2; has_real++)
        for (int waits = 0; waits < 2; waits++) {
            struct database *db = create();
            for (int k = 0; k < N; k++) {
                struct cell *row = database_row_with_id(db, TABLE_slice, waits ? k ^ 15 : k);
                if (k % 7)
                    cell_int(row, COL_slice_ts, k % 1000 ? k - N / 2 : k / 2);
                if (has_real && k == N / 2)
                    cell_real(row, COL_slice_ts, 0.5);
                if (k % 3)
                    cell_text(row, COL_slice_name, "a name");
            }
            sqlite3 *handle = finish(db);
            expect_integrity(handle);
            int64_t n = query_int(handle, "SELECT count(*) FROM _slice NOT INDEXED WHERE ts < 9");
            assert_in_range(n, N / 3, N);
            assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY "
                                               "slice_by_time WHERE ts < 9"),
                             n);
            database_free(db);
        }
}

static void figures_are_what_sqlite_would_find(void **state)
{
    (void)state;
    struct database *db = create();
    for (int k = 0; k < 3000; k++) {
        struct cell *row = database_row(db, TABLE_slice, NULL);
        cell_int(row, COL_slice_ts, k / 30);
        cell_int(row, COL_slice_track_id, k % 10);
    }
    for (int k = 0; k < 7; k++)
        database_row(db, TABLE_thread, NULL);
    for (int k = 0; k < 9; k++)
        database_row(db, TABLE_stats, NULL);
    sqlite3 *handle = finish(db);
    assert_true(stat_of(handle, "slice_by_track", "3000 300 3"));
    assert_true(stat_of(handle, "stats", "9"));
    assert_true(stat_of(handle, "_thread", "7 7"));
    assert_int_equal(sqlite3_exec(handle,
                                  "CREATE TEMP TABLE before AS SELECT tbl, idx, "
                                  "replace(stat, ' sz=200', '') FROM sqlite_stat1;"
                                  "PRAGMA analysis_limit=0; ANALYZE",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM (SELECT * FROM before EXCEPT "
                                       "SELECT * FROM sqlite_stat1)"),
                     0);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM (SELECT * FROM sqlite_stat1 EXCEPT "
                                       "SELECT * FROM before)"),
                     0);
    database_free(db);
}

// A query for a window of time reads a part of the index, although the index begins with the track.
static void windows_of_time_use_the_index(void **state)
{
    (void)state;
    struct database *db = create();
    for (int k = 0; k < 3000; k++) {
        struct cell *row = database_row(db, TABLE_counter, NULL);
        cell_int(row, COL_counter_ts, k);
        cell_int(row, COL_counter_track_id, k % 10);
    }
    sqlite3 *handle = finish(db);
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(handle,
                                        "EXPLAIN QUERY PLAN SELECT sum(value) FROM counter WHERE "
                                        "ts BETWEEN 100 AND 200",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const char *plan = (const char *)sqlite3_column_text(statement, 3);
    assert_non_null(strstr(plan, "USING PRIMARY KEY (ANY(track_id) AND ts>? AND ts<?)"));
    sqlite3_finalize(statement);
    database_free(db);
}

// SQLite makes the index if rows are far out of order, or if their numbers are of the wrong kind.
static void rows_out_of_order_are_indexed_too(void **state)
{
    (void)state;
    for (int how = 0; how < 5; how++) {
        struct database *db = create();
        for (int k = 0; k < 1000; k++) {
            struct cell *row = database_row(db, TABLE_slice, NULL);
            if (how != 0 || k != 500)
                cell_int(row, COL_slice_ts,
                         how == 1 && k == 700   ? 5
                         : how == 3             ? 1000 - k
                         : how == 4 && k == 300 ? INT64_MIN
                                                : k);
            cell_int(row, COL_slice_track_id, how == 2 ? INT64_C(1) << 40 : k % 3);
        }
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _slice INDEXED BY "
                                           "slice_by_track WHERE track_id >= 0"),
                         1000);
        database_free(db);
    }
}

// The tables have few or many rows, in order or not, with or without the last column.
static void clustered_tables_are_whole(void **state)
{
    (void)state;
    static const int sizes[] = {0, 1, 2, 150, 160, 170, 180, 5000, 60000};
    for (size_t i = 0; i < ELEMENTS(sizes); i++)
        for (int how = 0; how < 3; how++) {
            struct database *db = create();
            for (int k = 0; k < sizes[i]; k++) {
                int64_t ts = how == 0 ? k : how == 1 ? -k : k * 7919 % 60013;
                struct cell *row = counter_add(db, ts, k % 5 * 300);
                cell_real(row, COL_counter_value, k % 3 ? k : k + 0.5);
                if (k % 2)
                    cell_int(row, COL_counter_arg_set_id, k);
            }
            sqlite3 *handle = finish(db);
            expect_integrity(handle);
            assert_int_equal(query_int(handle, "SELECT count(*) FROM counter WHERE "
                                               "track_id = id % 5 * 300 AND "
                                               "value = iif(id % 3, id, id + 0.5) AND "
                                               "arg_set_id IS iif(id % 2, id, NULL)"),
                             sizes[i]);
            assert_int_equal(query_int(handle, "SELECT count(*) FROM (SELECT ts, lag(ts) OVER "
                                               "(PARTITION BY track_id) AS before FROM counter) "
                                               "WHERE ts < before"),
                             0);
            database_free(db);
        }
}

// Rows of two tracks go to a third track, which has rows of its own or no rows.
static void rows_move_to_another_track(void **state)
{
    (void)state;
    for (int64_t to = 2; to < 200; to += 197) {
        struct database *db = create();
        for (int k = 0; k < 9000; k++)
            counter_add(db, k, k % 4);
        database_move_track(db, TABLE_counter, 0, (uint32_t)to);
        database_move_track(db, TABLE_counter, 3, (uint32_t)to);
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM counter"), 9000);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM counter WHERE track_id IN (0, 3)"),
                         0);
        assert_int_equal(query_int(handle,
                                   "SELECT count(*) FROM counter WHERE track_id IN (2, 199) "
                                   "AND ts = id AND id % 4 <> 1"),
                         6750);
        database_free(db);
    }
}

// One text is too long, or there are too many texts.
static void odd_texts_are_indexed_too(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct database *db = create();
        for (int k = 0; k < 300; k++) {
            struct cell *row = database_row(db, TABLE_thread_state, NULL);
            char text[40];
            int n = snprintf(text, sizeof(text), "%0*d", how ? 3 : k == 100 ? 25 : 1, how ? k : 1);
            cell_int(row, COL_thread_state_utid, k % 5);
            cell_int(row, COL_thread_state_ts, k);
            cell_bytes(row, COL_thread_state_state, database_copy(db, text, (size_t)n), (size_t)n);
        }
        sqlite3 *handle = finish(db);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM _thread_state INDEXED BY "
                                           "thread_state_by_thread WHERE utid = 0"),
                         60);
        database_free(db);
    }
}

static void an_id_is_used_once(void **state)
{
    (void)state;
    struct err err = {0};
    for (int64_t other = 0; other < 2; other++) { // written already, and waiting
        struct database *db = create();
        database_row_with_id(db, TABLE_slice, other * 5);
        database_row_with_id(db, TABLE_slice, other * 5);
        assert_int_equal(database_finish(db, NULL, NULL, &err), -EEXIST);
        database_free(db);
    }
}

static void broken_utf8_is_mended(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"caf\xc3", "caf\xef\xbf\xbd"},
        {"a long one that ends badly \xff", "a long one that ends badly \xef\xbf\xbd"},
        {"\x80 begins badly, by eight", "\xef\xbf\xbd begins badly, by eight"},
    };
    enum { N = ELEMENTS(texts) };
    struct database *db = create();
    for (size_t i = 0; i < N; i++)
        cell_text(database_row(db, TABLE_metadata, NULL), COL_metadata_name, texts[i][0]);
    sqlite3_stmt *statement;
    assert_int_equal(
        sqlite3_prepare_v2(finish(db), "SELECT name FROM metadata", -1, &statement, NULL),
        SQLITE_OK);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(statement, 0), texts[i][1]);
    }
    sqlite3_finalize(statement);
    database_free(db);
}

static sqlite3 *file_make(char *path)
{
    struct err err = {0};
    struct database *db;
    sqlite3 *handle;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(database_create(path, &err, &db), 0);
    counter_add(db, 77, 0);
    assert_int_equal(database_finish(db, NULL, NULL, &err), 0);
    database_free(db);
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    return handle;
}

static const enum table_id map_tables[] = {TABLE_perf_map, TABLE_perf_map_symbol};

// The new tree has no, one or two levels above its leaves. Its root takes the page of the old root.
static void empty_tables_are_filled_in_bulk(void **state)
{
    (void)state;
    static const int sizes[] = {0, 1, 2, 200, 400, 60000, 100000};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        char path[] = "/tmp/bulk.XXXXXX";
        struct err err = {0};
        struct bulk *bulk;
        sqlite3 *handle = file_make(path);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM perf_map_symbol"), 0);
        assert_int_equal(bulk_open(handle, map_tables, 2, NULL, &err, &bulk), 0);
        assert_non_null(bulk);
        assert_true(bulk_has(bulk, TABLE_perf_map));
        assert_false(bulk_has(bulk, TABLE_counter));
        for (int k = 0; k < sizes[i]; k++) {
            struct cell row[N_COL_perf_map_symbol] = {0};
            cell_int(row, COL_perf_map_symbol_start, 1000 + k);
            cell_text(row, COL_perf_map_symbol_name, "\xc3\xa4\xff");
            assert_int_equal(bulk_put(bulk, TABLE_perf_map_symbol, row), k);
        }
        assert_int_equal(bulk_finish(bulk, &err), 0);
        bulk_free(bulk);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM perf_map_symbol WHERE "
                                           "start = 1000 + id AND name = char(228, 65533)"),
                         sizes[i]);
        assert_int_equal(
            sqlite3_exec(handle, "INSERT INTO perf_map_symbol(start) VALUES(1)", NULL, NULL, NULL),
            SQLITE_OK);
        expect_integrity(handle);
        assert_int_equal(query_int(handle, "SELECT ts FROM counter"), 77);
        sqlite3_close(handle);
        unlink(path);
    }
}

// Numbers have every width, alternate with single rows, and are more than a batch holds.
static void numbers_are_filled_in_bulk(void **state)
{
    (void)state;
    enum { N_NUMBERS = 50000, N_ROUNDS = 5 };
    static const enum table_id table = TABLE__alloc_log_stack_frame;
    char path[] = "/tmp/bulk.XXXXXX", sql[200];
    struct err err = {0};
    struct bulk *bulk;
    sqlite3 *handle = file_make(path);
    int64_t *numbers = calloc(N_NUMBERS, sizeof(*numbers));
    assert_non_null(numbers);
    assert_int_equal(bulk_open(handle, &table, 1, NULL, &err, &bulk), 0);
    for (int64_t i = 0; i < N_NUMBERS; i++)
        numbers[i] = (int64_t)((uint64_t)(i % 1000 - 500) << i % 64 >> i % 3);
    for (int64_t i = 0; i < N_ROUNDS; i++) {
        struct cell row[N_COL__alloc_log_stack_frame] = {0};
        cell_int(row, COL__alloc_log_stack_frame_frame_id, i);
        assert_int_equal(bulk_put_numbers(bulk, table, numbers, N_NUMBERS), i * (N_NUMBERS + 1));
        assert_int_equal(bulk_put_numbers(bulk, table, numbers, 0), (i + 1) * (N_NUMBERS + 1) - 1);
        assert_int_equal(bulk_put(bulk, table, row), (i + 1) * (N_NUMBERS + 1) - 1);
    }
    assert_int_equal(bulk_finish(bulk, &err), 0);
    bulk_free(bulk);
    expect_integrity(handle);
    assert_int_equal(query_int(handle, "SELECT count(*) FROM _alloc_log_stack_frame"),
                     N_ROUNDS * (N_NUMBERS + 1));
    for (int64_t i = 0; i <= N_NUMBERS; i += 125) {
        snprintf(sql, sizeof(sql),
                 "SELECT frame_id FROM _alloc_log_stack_frame WHERE id = 3 * %d + %d",
                 N_NUMBERS + 1, (int)i);
        assert_true(query_int(handle, sql) == (i < N_NUMBERS ? numbers[i] : 3));
    }
    free(numbers);
    sqlite3_close(handle);
    unlink(path);
}

static void tables_with_rows_or_indexes_take_no_bulk(void **state)
{
    (void)state;
    static const char *const statements[] = {
        "INSERT INTO perf_map(pid) VALUES(1)",
        "CREATE INDEX symbols ON perf_map_symbol(start)",
    };
    for (size_t i = 0; i < ELEMENTS(statements); i++) {
        char path[] = "/tmp/bulk.XXXXXX";
        struct err err = {0};
        struct bulk *bulk;
        sqlite3 *handle = file_make(path);
        assert_int_equal(sqlite3_exec(handle, statements[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(bulk_open(handle, map_tables, 2, NULL, &err, &bulk), 0);
        assert_null(bulk);
        assert_false(bulk_has(bulk, TABLE_perf_map));
        sqlite3_close(handle);
        unlink(path);
    }
}

// The room ends in the middle of rows, at the last pages, or at the roots.
static void a_bulk_without_room_leaves_the_file_as_it_was(void **state)
{
    (void)state;
    static const uint64_t n_rooms[] = {0, 63, 64, 65, 95, 100, 200};
    for (size_t i = 0; i < ELEMENTS(n_rooms); i++) {
        uint64_t room = n_rooms[i] * PAGE_BYTES;
        char path[] = "/tmp/bulk.XXXXXX";
        struct err err = {0};
        struct bulk *bulk;
        struct budget budget = {.output_max = room, .memory_max = UINT64_MAX};
        sqlite3 *handle = file_make(path);
        int64_t n_pages = query_int(handle, "PRAGMA page_count");
        assert_int_equal(bulk_open(handle, map_tables, 2, &budget, &err, &bulk), 0);
        assert_non_null(bulk);
        for (int k = 0; k < 20000; k++) {
            struct cell row[N_COL_perf_map_symbol] = {0};
            cell_int(row, COL_perf_map_symbol_start, 1000 + k);
            cell_text(row, COL_perf_map_symbol_name, "name");
            bulk_put(bulk, TABLE_perf_map_symbol, row);
        }
        int r = bulk_finish(bulk, &err);
        bulk_free(bulk);
        expect_integrity(handle);
        assert_true(r == 0 || r == -EDQUOT);
        assert_int_equal(query_int(handle, "SELECT count(*) FROM perf_map_symbol"),
                         r == 0 ? 20000 : 0);
        assert_true(r == 0 || query_int(handle, "PRAGMA page_count") == n_pages);
        assert_true(r == 0 || room < 100 * PAGE_BYTES);
        assert_int_equal(query_int(handle, "SELECT ts FROM counter"), 77);
        sqlite3_close(handle);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bulk_without_room_leaves_the_file_as_it_was),
        cmocka_unit_test(empty_tables_are_filled_in_bulk),
        cmocka_unit_test(numbers_are_filled_in_bulk),
        cmocka_unit_test(tables_with_rows_or_indexes_take_no_bulk),
        cmocka_unit_test(the_page_of_locks_is_left_out),
        cmocka_unit_test(pages_have_numbers_of_32_bits),
        cmocka_unit_test(free_pages_fill_several_trunks),
        cmocka_unit_test(a_failure_stays),
        cmocka_unit_test(trees_of_every_height_are_whole),
        cmocka_unit_test(texts_of_every_size_are_kept),
        cmocka_unit_test(numbers_are_kept),
        cmocka_unit_test(rows_may_come_in_any_order),
        cmocka_unit_test(indexes_are_whole),
        cmocka_unit_test(indexes_of_any_size_are_whole),
        cmocka_unit_test(indexes_of_four_columns_are_whole),
        cmocka_unit_test(rows_that_come_early_are_moved),
        cmocka_unit_test(times_of_any_kind_are_indexed),
        cmocka_unit_test(figures_are_what_sqlite_would_find),
        cmocka_unit_test(windows_of_time_use_the_index),
        cmocka_unit_test(sets_are_found_by_kind),
        cmocka_unit_test(rows_out_of_order_are_indexed_too),
        cmocka_unit_test(clustered_tables_are_whole),
        cmocka_unit_test(rows_move_to_another_track),
        cmocka_unit_test(odd_texts_are_indexed_too),
        cmocka_unit_test(an_id_is_used_once),
        cmocka_unit_test(broken_utf8_is_mended),
    };
    return cmocka_run_group_tests_name("table_pages", tests, NULL, NULL);
}
