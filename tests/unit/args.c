// SPDX-License-Identifier: Apache-2.0
//
// The view args shows sets of every kind: those of slices and of kernel events.
#include "converter/import/args.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "converter/import/ftrace/ftrace_rows.h"
#include "converter/tables/database.h"
#include "tests/unit/unit.h"

struct fixture {
    struct database *db;
    struct args args;
    struct ftrace_rows rows;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct err err = {0};
    if (!f || database_create(NULL, &err, &f->db) < 0 || args_init(&f->args, f->db) < 0)
        return -1;
    f->rows.db = f->db;
    f->rows.failure = database_failure(f->db);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    args_done(&f->args);
    ftrace_rows_done(&f->rows);
    database_free(f->db);
    free(f);
    return 0;
}

static sqlite3 *finish(struct fixture *f)
{
    struct err err = {0};
    if (database_finish(f->db, NULL, NULL, &err) < 0)
        fail_msg("%s", err.text);
    return database_handle(f->db);
}

// Asserts that the rows of the query are `want`: '|' between values, "-" for NULL, a line for each
// row.
static void expect(sqlite3 *handle, const char *want, const char *format, ...)
{
    char have[4096] = "", *at = have, *end = have + sizeof(have);
    va_list list;
    va_start(list, format);
    char *sql = sqlite3_vmprintf(format, list);
    va_end(list);
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
    while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *text = (const char *)sqlite3_column_text(statement, i);
            at += snprintf(at, (size_t)(end - at), "%s%s", i ? "|" : "", text ? text : "-");
        }
        at += snprintf(at, (size_t)(end - at), "\n");
    }
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    assert_string_equal(have, want);
}

#define VALUES                                                                                     \
    "SELECT key, flat_key, int_value, string_value, real_value, value_type, display_value "        \
    "FROM args WHERE arg_set_id = %lld ORDER BY id"

static void every_type_is_shown(void **state)
{
    struct fixture *f = *state;
    struct arg items[] = {
        arg_int("i", -5),
        arg_uint("u", UINT64_MAX),
        arg_text("t", "text", 4),
        {.key = "whole", .real = 3.0, .type = ARG_REAL},
        {.key = "half", .real = 0.5, .type = ARG_REAL},
        {.key = "p", .integer = 0x7f00, .type = ARG_POINTER},
        {.key = "yes", .integer = 1, .type = ARG_BOOL},
        {.key = "no", .integer = 0, .type = ARG_BOOL},
        {.key = "j", .text = "{}", .size = 2, .type = ARG_JSON},
        {.key = "nothing", .type = ARG_NULL},
        {.key = "nan", .real = __builtin_nan(""), .type = ARG_REAL},
        {.key = "list[1].x", .flat_key = "list.x", .integer = 1, .type = ARG_INT},
    };
    int64_t set = args_add(&f->args, items, ELEMENTS(items));
    expect(finish(f),
           "i|i|-5|-|-|int|-5\n"
           "u|u|-1|-|-|uint|18446744073709551615\n"
           "t|t|-|text|-|string|text\n"
           "whole|whole|-|-|3.0|real|3.0\n"
           "half|half|-|-|0.5|real|0.5\n"
           "p|p|32512|-|-|pointer|0x7f00\n"
           "yes|yes|1|-|-|bool|true\n"
           "no|no|0|-|-|bool|false\n"
           "j|j|-|{}|-|json|{}\n"
           "nothing|nothing|-|-|-|null|-\n"
           "nan|nan|-|-|-|real|-\n"
           "list[1].x|list.x|1|-|-|int|1\n",
           VALUES, (long long)set);
}

static void equal_sets_are_one_and_others_are_not(void **state)
{
    struct fixture *f = *state;
    struct arg a[] = {arg_int("order", 1), arg_text("name", "x", 1)};
    struct arg b[] = {arg_int("order", 2), arg_text("name", "x", 1)};
    struct arg c[] = {arg_uint("order", 1), arg_text("name", "x", 1)};
    struct arg d[] = {arg_text("order", "1", 1), arg_text("name", "x", 1)};
    int64_t sets[] = {args_add(&f->args, a, 2), args_add(&f->args, b, 2), args_add(&f->args, c, 2),
                      args_add(&f->args, d, 2)};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(sets[i], sets[k]);
    assert_int_equal(args_add(&f->args, a, 2), sets[0]);
    assert_int_equal(args_add(&f->args, d, 2), sets[3]);
    assert_int_equal(args_add(&f->args, a, 0), ARG_SET_NONE);
    sqlite3 *handle = finish(f);
    expect(handle, "8|4\n", "SELECT count(*), count(DISTINCT arg_set_id) FROM args");
    expect(handle, "3\n", "SELECT count(*) FROM _arg_kind"); // keys are stored once for each kind
}

static void the_last_of_equal_keys_counts(void **state)
{
    struct fixture *f = *state;
    struct arg items[] = {arg_int("a", 1), arg_int("b", 2), arg_int("a", 3)};
    int64_t set = args_add(&f->args, items, 3);
    expect(finish(f), "a|a|3|-|-|int|3\nb|b|2|-|-|int|2\n", VALUES, (long long)set);
}

static void a_fallback_counts_if_nothing_else_does(void **state)
{
    struct fixture *f = *state;
    struct arg items[] = {arg_int("a", 1), arg_int("a", 2), arg_int("b", 3)};
    items[1].is_fallback = items[2].is_fallback = true;
    int64_t set = args_add(&f->args, items, 3);
    expect(finish(f), "a|a|1|-|-|int|1\nb|b|3|-|-|int|3\n", VALUES, (long long)set);
}

static void equal_keys_of_long_sets_are_merged(void **state)
{
    enum { N = 1000 };
    struct fixture *f = *state;
    struct arg items[2 * N];
    char keys[2 * N][16];
    for (int i = 0; i < 2 * N; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key%d", i % N); // equal texts at other addresses
        items[i] = arg_int(keys[i], i);
    }
    assert_int_equal(args_merge(items, 2 * N, database_failure(f->db)), N);
    for (int i = 0; i < N; i++) {
        assert_string_equal(items[i].key, keys[i]);
        assert_int_equal(items[i].integer, N + i);
    }
}

static void args_that_are_added_again_and_again_stay_few(void **state)
{
    struct fixture *f = *state;
    struct merged_args merged = {0};
    for (int i = 0; i < 100000; i++) {
        struct arg items[] = {arg_int("count", i), arg_int("other", -i)};
        merged_args_add(&merged, items, 2, database_failure(f->db));
        assert_true(merged.args.n < 200);
    }
    assert_int_equal(args_merge(merged.args.items, merged.args.n, database_failure(f->db)), 2);
    assert_int_equal(merged.args.items[0].integer, 99999);
    assert_int_equal(merged.args.items[1].integer, -99999);
    merged_args_done(&merged);
}

// The sets have more arguments than a row has columns for.
static void long_sets_are_whole(void **state)
{
    enum { N = 1000 };
    struct fixture *f = *state;
    struct arg items[N];
    char keys[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof(keys[i]), "list[%d]", i);
        items[i] = arg_int(keys[i], i * 3);
        items[i].flat_key = "list";
    }
    int64_t first = args_add(&f->args, items, N);
    items[N - 1].integer = -1;
    int64_t second = args_add(&f->args, items, N);
    assert_int_not_equal(first, second);
    sqlite3 *handle = finish(f);
    expect(handle, "1000|1498500|1000|list[999]\n",
           "SELECT count(*), sum(int_value), count(DISTINCT id), (SELECT key FROM args WHERE "
           "arg_set_id = %lld AND int_value = 2997) FROM args WHERE arg_set_id = %lld AND "
           "key = 'list[' || (int_value / 3) || ']' AND flat_key = 'list'",
           (long long)first, (long long)first);
    expect(handle, "list[999]|-1\n",
           "SELECT key, int_value FROM args WHERE arg_set_id = %lld AND int_value < 0",
           (long long)second);
}

// Some kernel events lack fields. One has a text where others have a number.
static void events_are_sets(void **state)
{
    struct fixture *f = *state;
    struct arg number = arg_int("n", 7), text = arg_text("func", "schedule", 8);
    uint32_t kind = ftrace_kind_add(&f->rows, "work", 4);
    size_t n = ftrace_slot_of(&f->rows, kind, "n", ARG_INT);
    size_t func = ftrace_slot_of(&f->rows, kind, "func", ARG_UINT);
    size_t cpu = ftrace_slot_of(&f->rows, kind, "cpu", ARG_UINT);
    int64_t before = args_add(&f->args, &number, 1);
    struct cell *row = ftrace_row_add(&f->rows, kind, 100, 1, 20);
    ftrace_row_set(&f->rows, row, n, &number);
    ftrace_row_set(&f->rows, row, func, &text);
    row = ftrace_row_add(&f->rows, kind, 200, 2, 21);
    struct arg address = arg_uint("func", 0x1234), three = arg_uint("cpu", 3);
    ftrace_row_set(&f->rows, row, func, &address);
    ftrace_row_set(&f->rows, row, cpu, &three);
    ftrace_row_set(&f->rows, row, ARG_SLOTS_MAX, &three); // no column is left: the arg is left out
    ftrace_row_add(&f->rows, ftrace_kind_add(&f->rows, "empty", 5), 300, 0, 22);
    int64_t after = args_add(&f->args, &text, 1);
    sqlite3 *handle = finish(f);
    expect(handle, "100|work|1|20\n200|work|2|21\n300|empty|0|22\n",
           "SELECT ts, name, cpu, utid FROM ftrace_event");
    expect(handle,
           "100|n|7|-|int\n100|func|-|schedule|string\n"
           "200|func|4660|-|uint\n200|cpu|3|-|uint\n",
           "SELECT e.ts, a.key, a.int_value, a.string_value, a.value_type FROM ftrace_event e "
           "JOIN args a USING (arg_set_id) ORDER BY e.ts, a.id");
    expect(handle, "100|7|schedule|-\n200|-|4660|3\n",
           "SELECT ts, n, func, field_cpu FROM "
           "ftrace_work");
    expect(handle, "300|0\n", "SELECT ts, cpu FROM ftrace_empty");
    expect(handle, "n|7\n", "SELECT key, int_value FROM args WHERE arg_set_id = %lld",
           (long long)before);
    expect(handle, "func|schedule\n", "SELECT key, string_value FROM args WHERE arg_set_id = %lld",
           (long long)after);
    expect(handle, "0\n",
           "SELECT count(*) FROM ftrace_event WHERE arg_set_id IN (%lld, %lld) OR name IS NULL",
           (long long)before, (long long)after);
}

// SQLite finds a set by its id, and does not look at all sets, whatever the form of the query.
static void lookups_use_the_key(void **state)
{
    struct fixture *f = *state;
    sqlite3 *handle = finish(f);
    static const char *const asked[] = {
        "SELECT * FROM args WHERE arg_set_id = 5",
        "SELECT sum(a.int_value) FROM ftrace_event e JOIN args a USING (arg_set_id) "
        "WHERE e.name = 'x' AND a.key = 'nid'",
        "SELECT s.name, a.display_value FROM slice s JOIN args a USING (arg_set_id)",
        "SELECT (SELECT int_value FROM args a WHERE a.arg_set_id = c.arg_set_id AND key = 'x') "
        "FROM counter c",
        "SELECT a.key, max(a.int_value) FROM slice s JOIN args a USING (arg_set_id) GROUP BY a.key",
    };
    for (size_t i = 0; i < ELEMENTS(asked); i++) {
        char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", asked[i]);
        sqlite3_stmt *statement;
        int n_searched = 0;
        assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
        while (sqlite3_step(statement) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(statement, 3);
            n_searched += !strncmp(step, "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)", 44);
            assert_null(strstr(step, "MATERIALIZE"));
            assert_null(strstr(step, "CO-ROUTINE"));
            assert_null(strstr(step, "AUTOMATIC"));
        }
        assert_true(n_searched >= 1);
        sqlite3_finalize(statement);
        sqlite3_free(sql);
    }
}

// Names that a trace may have: the name of a table, odd names, two names that differ in case only.
static void odd_names_do_no_harm(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"event", "a\"; DROP TABLE slice; --", "", "Twice", "twice"};
    struct arg value = arg_int("x", 1);
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        uint32_t kind = ftrace_kind_add(&f->rows, names[i], strlen(names[i]));
        size_t odd = ftrace_slot_of(&f->rows, kind, "a \"b\" ]", ARG_INT);
        size_t id = ftrace_slot_of(&f->rows, kind, "ID", ARG_INT);
        struct cell *row = ftrace_row_add(&f->rows, kind, (int64_t)i, 0, 0);
        ftrace_row_set(&f->rows, row, odd, &value);
        ftrace_row_set(&f->rows, row, id, &value);
    }
    sqlite3 *handle = finish(f);
    expect(handle, "5|5\n", "SELECT count(*), count(name) FROM ftrace_event");
    expect(handle, "1|1\n", "SELECT \"a \"\"b\"\" ]\", field_ID FROM ftrace_event_");
    expect(handle, "0\n", "SELECT count(*) FROM slice");
}

// A text has no bytes if memory was out for its copy.
static void a_text_that_is_not_there_is_empty(void **state)
{
    (void)state;
    struct cell cell;
    cell_bytes(&cell, 0, NULL, 7);
    assert_int_equal(cell.size, 0);
    struct arg arg = arg_text("key", NULL, 7);
    assert_int_equal(arg.size, 0);
    assert_non_null(arg.text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_type_is_shown),
        TEST(equal_sets_are_one_and_others_are_not),
        TEST(the_last_of_equal_keys_counts),
        TEST(a_fallback_counts_if_nothing_else_does),
        TEST(equal_keys_of_long_sets_are_merged),
        TEST(args_that_are_added_again_and_again_stay_few),
        TEST(long_sets_are_whole),
        TEST(events_are_sets),
        TEST(lookups_use_the_key),
        TEST(odd_names_do_no_harm),
        TEST(a_text_that_is_not_there_is_empty),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
