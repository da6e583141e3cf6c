// SPDX-License-Identifier: Apache-2.0
//
// Refusals of PerfettoSQL: types, names that are taken, changes of tables; and the place of an
// error of a statement that runs.
#include "common/elements.h"
#include "converter/functions/functions.h"
#include "tests/unit/failing_memory.h"
#include "tests/unit/perfetto_sql_fixture.h"

static int setup_with_functions(void **state)
{
    setup(state);
    struct fixture *f = *state;
    assert_int_equal(functions_register(f->handle), SQLITE_OK);
    assert_int_equal(table_functions_register(f->handle), SQLITE_OK);
    return 0;
}

static void a_column_has_values_of_one_type(void **state)
{
    struct fixture *f = *state;
    is(f, "CREATE PERFETTO TABLE t AS\n SELECT 1 AS a UNION ALL SELECT NULL UNION ALL SELECT 'x'",
       "t: the column a has texts and numbers (row 3 is the first of the other type)\n"
       "  line 1, column 1: CREATE PERFETTO TABLE t AS\n"
       "                    ^");
    is(f, "SELECT count() FROM sqlite_temp_schema", "0 ");
    fails(f, "CREATE PERFETTO TABLE t AS SELECT 5 AS b, x'00' AS a",
          "t: the column a has blobs, which such a table cannot have");
    fails(f, "CREATE PERFETTO TABLE t(a STRING) AS SELECT 1 AS a",
          "t: the column a is declared STRING, but row 1 has a LONG");
    fails(f, "CREATE PERFETTO TABLE t(b STRING, a TIMESTAMP) AS SELECT 'x' AS a, 'y' AS b",
          "t: the column a is declared LONG, but row 1 has a STRING");
    fails(f, "CREATE PERFETTO TABLE t(a DOUBLE) AS SELECT 'x' AS a",
          "t: the column a is declared DOUBLE, but row 1 has a STRING");
    is(f,
       "CREATE PERFETTO TABLE n(a STRING, b LONG) AS SELECT NULL AS a, NULL AS b; SELECT * FROM n",
       "NULL|NULL ");
    is(f, "CREATE PERFETTO TABLE e(a STRING) AS SELECT 1 AS a WHERE 0; SELECT count() FROM e",
       "0 ");
    is(f,
       "CREATE PERFETTO TABLE v(a bool, b JOINID(x.id), c float) AS SELECT 1 AS a, 2 AS b, 3.5 AS "
       "c;"
       "SELECT * FROM v",
       "1|2|3.5 ");
    // A wide table is read in parts.
    struct strbuf sql = {0};
    strbuf_add_str(&sql, "CREATE PERFETTO TABLE w AS SELECT 0 AS c0");
    for (int i = 1; i < 250; i++)
        strbuf_addf(&sql, ", %d AS c%d", i, i);
    strbuf_add_str(&sql, " UNION ALL SELECT 0");
    for (int i = 1; i < 250; i++)
        strbuf_addf(&sql, ", %s", i == 240 ? "'x'" : "1.5");
    fails(f, sql.text,
          "w: the column c240 has texts and numbers (row 2 is the first of the other type)");
    strbuf_done(&sql);
}

static void numbers_of_a_column_become_real(void **state)
{
    struct fixture *f = *state;
    is(f, "CREATE PERFETTO TABLE t AS SELECT 1 AS a UNION ALL SELECT 2.5; SELECT a, a / 2 FROM t",
       "1.0|0.5 2.5|1.25 ");
    is(f, "CREATE PERFETTO TABLE d(b LONG, a DOUBLE) AS SELECT 3 AS a, 3 AS b; SELECT a, b FROM d",
       "3.0|3 ");
    // SQLite would declare the column as integer.
    is(f,
       "CREATE PERFETTO TABLE c(a DOUBLE) AS SELECT CAST(x AS INTEGER) AS a FROM (SELECT '7' AS x);"
       "SELECT a, a / 2 FROM c",
       "7.0|3.5 ");
    fails(f, "CREATE PERFETTO TABLE l AS SELECT 9007199254740993 AS a UNION ALL SELECT 0.5",
          "l: the column a is of the type DOUBLE, and has an integer that is too large for it");
    is(f, "SELECT count() FROM sqlite_temp_schema WHERE name NOT IN ('t', 'd', 'c')", "0 ");
}

static void columns_have_names(void **state)
{
    struct fixture *f = *state;
    fails(f, "CREATE PERFETTO TABLE t AS SELECT 1 AS a, 2 AS b, 3 AS A",
          "t: two columns have the name A");
    fails(f, "CREATE PERFETTO TABLE t AS SELECT count() FROM sqlite_schema",
          "t: the column \"count()\" needs a name of letters, digits and _ (AS name)");
    fails(f, "CREATE PERFETTO TABLE t AS SELECT 1 AS \"1a\"",
          "t: the column \"1a\" needs a name of letters, digits and _ (AS name)");
    fails(f, "CREATE PERFETTO TABLE t(A LONG) AS SELECT 1 AS a",
          "t: the SQL has no column A, which is declared");
    fails(f, "CREATE PERFETTO VIEW v(a LONG) AS SELECT 1 AS a, 2 AS a",
          "v: two columns have the name a");
    is(f, "CREATE PERFETTO VIEW v AS SELECT count() FROM sqlite_temp_schema; SELECT * FROM v",
       "1 ");
    fails(f, "CREATE PERFETTO TABLE t() AS SELECT 1 AS a", "the name of a column is expected");
    is(f, "CREATE PERFETTO TABLE t(\n  a INTEGER) AS SELECT 1 AS a",
       "a: there is no type INTEGER (there are LONG, DOUBLE, STRING, BOOL, BYTES, ANY, TIMESTAMP, "
       "DURATION, ID, JOINID and ARGSETID)\n"
       "  line 2, column 5:   a INTEGER) AS SELECT 1 AS a\n"
       "                        ^");
    fails(f, "CREATE PERFETTO TABLE t(a ANY) AS SELECT 1 AS a",
          "t: a column of such a table cannot have the type ANY");
    fails(f, "CREATE PERFETTO TABLE t USING sqlite AS SELECT 1 AS a", "dataframe is expected");
}

static void names_are_taken_once(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO TABLE t AS SELECT 1 AS a; CREATE PERFETTO VIEW v AS SELECT 2 AS a;"
           "CREATE PERFETTO FUNCTION g() RETURNS TABLE(x LONG) AS SELECT 1 AS x;"
           "CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT $x");
    is(f, "SELECT 1;\nCREATE PERFETTO TABLE t AS SELECT 2 AS a",
       "table t already exists (CREATE OR REPLACE)\n"
       "  line 2, column 23: CREATE PERFETTO TABLE t AS SELECT 2 AS a\n"
       "                                           ^");
    fails(f, "CREATE OR REPLACE PERFETTO TABLE v AS SELECT 2 AS a",
          "v: the name is that of a view (DROP VIEW removes it)");
    fails(f, "CREATE OR REPLACE PERFETTO VIEW t AS SELECT 2 AS a",
          "t: the name is that of a table (DROP TABLE removes it)");
    fails(f, "CREATE PERFETTO TABLE g AS SELECT 2 AS a",
          "g: the name is that of a function that returns a table");
    fails(f, "CREATE PERFETTO FUNCTION F(y STRING) RETURNS LONG AS SELECT 1",
          "function F: the name exists already (CREATE OR REPLACE)");
    fails(f, "CREATE PERFETTO FUNCTION g() RETURNS TABLE(x LONG) AS SELECT 1 AS x",
          "function g: the name exists already (CREATE OR REPLACE)");
    fails(f, "CREATE PERFETTO FUNCTION t() RETURNS TABLE(x LONG) AS SELECT 1 AS x",
          "t: the name is that of a table (DROP TABLE removes it)");
    is(f,
       "CREATE PERFETTO FUNCTION f(x LONG, y LONG) RETURNS LONG AS SELECT $x + $y;"
       "SELECT f(1), f(1, 2)",
       "1|3 ");
    is(f, "CREATE OR REPLACE PERFETTO TABLE t AS SELECT a + 1 AS a FROM t; SELECT a FROM t", "2 ");
    fails(f, "CREATE OR REPLACE PERFETTO TABLE t AS SELECT lacks FROM t", "no such column: lacks");
    is(f, "SELECT a FROM t", "2 ");
    fails(f, "CREATE OR REPLACE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT lacks",
          "no such column: lacks");
    // A function that failed may be made once more.
    is(f, "CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT 9; SELECT f(1)", "9 ");
}

static void indexes_have_names(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE TABLE p(x); CREATE PERFETTO TABLE t AS SELECT 1 AS a, 2 AS b;"
           "CREATE PERFETTO TABLE u AS SELECT 1 AS a; CREATE PERFETTO INDEX i ON t(a)");
    is(f, "CREATE PERFETTO INDEX i\n ON u(a)",
       "CREATE PERFETTO INDEX: there is an index i already (CREATE OR REPLACE)\n"
       "  line 1, column 23: CREATE PERFETTO INDEX i\n"
       "                                           ^");
    is(f, "CREATE OR REPLACE PERFETTO INDEX i ON u(a); CREATE PERFETTO INDEX j ON t(a, b)", "");
    fails(f, "CREATE PERFETTO INDEX k ON p(x)",
          "CREATE PERFETTO INDEX: p is not a table made by CREATE PERFETTO TABLE");
    fails(f, "CREATE PERFETTO INDEX k ON t(lacks)", "no such column: lacks");
    fails(f, "CREATE PERFETTO INDEX k ON t(a, B)",
          "CREATE PERFETTO INDEX: the table has no column B");
    fails(f, "DROP PERFETTO INDEX j", "ON is expected");
    fails(f, "CREATE PERFETTO INDEX k ON t()", "the name of a column is expected");
    is(f,
       "DROP PERFETTO INDEX i ON t; SELECT group_concat(name) FROM sqlite_temp_schema WHERE "
       "type = 'index'",
       "t.j ");
    fails(f, "DROP PERFETTO INDEX i ON t", "DROP PERFETTO INDEX: there is no index i");
}

static void tables_are_not_changed(void **state)
{
    struct fixture *f = *state;
    static const char *const changes[] = {
        "INSERT INTO t VALUES(2)",
        "UPDATE t SET a = 2",
        "DELETE FROM T",
        "REPLACE INTO temp.t VALUES(2)",
        "WITH x AS (SELECT 5 AS a) INSERT INTO t SELECT a FROM x",
        "ALTER TABLE t ADD COLUMN b",
        "ALTER TABLE t RENAME TO u",
        "CREATE INDEX i ON t(a)",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
    };
    ask(f, "CREATE PERFETTO TABLE t AS SELECT 1 AS a; CREATE TABLE p AS SELECT 1 AS x");
    for (size_t i = 0; i < ELEMENTS(changes); i++)
        fails(f, changes[i],
              "t: a table of CREATE PERFETTO TABLE cannot be changed (CREATE OR REPLACE PERFETTO "
              "TABLE makes it anew, CREATE TABLE makes a table that can be changed)");
    is(f,
       "SELECT a FROM t; INSERT INTO p SELECT a + 1 FROM t; DELETE FROM p WHERE x = 1;"
       "SELECT x FROM p",
       "1 2 ");
    is(f, "DROP TABLE t; CREATE TABLE t(a); INSERT INTO t VALUES(7); SELECT a FROM t", "7 ");
    // The engine checks each value of a table that CREATE TABLE made.
    fails(f,
          "CREATE TABLE q(x INT); INSERT INTO q VALUES(1), ('a'); CREATE PERFETTO TABLE r AS "
          "SELECT x FROM q",
          "r: the column x has texts and numbers (row 2 is the first of the other type)");
}

static void arguments_have_types(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO FUNCTION l(x LONG, b ANY) RETURNS LONG AS SELECT $x;"
           "CREATE PERFETTO FUNCTION s(x STRING) RETURNS STRING AS SELECT $x;"
           "CREATE PERFETTO FUNCTION d(x DOUBLE) RETURNS DOUBLE AS SELECT $x;"
           "CREATE PERFETTO FUNCTION y(x BYTES) RETURNS LONG AS SELECT length($x);"
           "CREATE PERFETTO FUNCTION n(x LONG) RETURNS LONG AS SELECT coalesce($lacks, $X, 5)");
    is(f, "SELECT l(5, 'a'), s('a'), d(1.5), y(x'0102'), n(1)", "5|a|1.5|2|5 ");
    is(f, "SELECT l(NULL, NULL), s(NULL), d(NULL), y(NULL)", "NULL|NULL|NULL|NULL ");
    is(f, "SELECT 1,\n l('5', 1)",
       "function l: the argument x is a LONG, but a value is a STRING: 5 (CAST converts values)\n"
       "  line 1, column 1: SELECT 1,\n"
       "                    ^");
    fails(f, "SELECT l(5.0, 1)",
          "function l: the argument x is a LONG, but a value is a DOUBLE: "
          "5.0 (CAST converts values)");
    fails(f, "SELECT s(1)",
          "function s: the argument x is a STRING, but a value is a LONG: 1 "
          "(CAST converts values)");
    fails(f, "SELECT d(1)",
          "function d: the argument x is a DOUBLE, but a value is a LONG: 1 "
          "(CAST converts values)");
    fails(f, "SELECT y('a')",
          "function y: the argument x is a BYTES, but a value is a STRING: a "
          "(CAST converts values)");
    fails(f, "CREATE PERFETTO FUNCTION z(x LNG) RETURNS LONG AS SELECT 1",
          "x: there is no type LNG (there are LONG, DOUBLE, STRING, BOOL, BYTES, ANY, TIMESTAMP, "
          "DURATION, ID, JOINID and ARGSETID)");
    fails(f, "CREATE PERFETTO FUNCTION z() RETURNS LNG AS SELECT 1",
          "function z: there is no type LNG");
    fails(f, "CREATE PERFETTO FUNCTION z(a ANY...) RETURNS LONG AS SELECT 1",
          "function z: only the last argument, and only with DELEGATES TO, takes any number of "
          "values");
    fails(f, "CREATE PERFETTO FUNCTION z(a ANY...) RETURNS LONG DELEGATES TO nosuch",
          "function z: there is no function nosuch");
    fails(f, "CREATE PERFETTO FUNCTION z(a LONG) RETURNS TABLE(x LONG) DELEGATES TO nosuch",
          "no such table: nosuch");
    fails(f, "CREATE PERFETTO FUNCTION z(a ANY..., b LONG) RETURNS LONG DELEGATES TO hash",
          "function z: only the last argument, and only with DELEGATES TO, takes any number of "
          "values");
}

static void functions_return_what_they_declare(void **state)
{
    struct fixture *f = *state;
    fails(f, "CREATE PERFETTO FUNCTION g() RETURNS TABLE(x LONG, y LONG) AS SELECT 1 AS x",
          "function g: its SQL returns 1 columns, but 2 are declared");
    is(f, "CREATE PERFETTO FUNCTION g() RETURNS TABLE(x LONG,\n y LONG) AS SELECT 1 AS x, 2 AS z",
       "function g: column 2 of its SQL is z, but y is declared\n"
       "  line 2, column 2:  y LONG) AS SELECT 1 AS x, 2 AS z\n"
       "                     ^");
    is(f, "CREATE PERFETTO FUNCTION g(n LONG) RETURNS TABLE(x LONG) AS\nSELECT $m AS x",
       "function g: there is no argument $m (arguments are written $name)\n"
       "  line 2, column 8: SELECT $m AS x\n"
       "                           ^");
    fails(f, "CREATE PERFETTO FUNCTION g(n LONG) RETURNS TABLE(x LONG) AS SELECT ? AS x",
          "function g: there is no argument ? (arguments are written $name)");
    fails(f, "CREATE PERFETTO FUNCTION g() RETURNS TABLE() AS SELECT 1",
          "the name of a column is expected");
    is(f,
       "CREATE PERFETTO FUNCTION g(n LONG) RETURNS TABLE(x LONG) AS SELECT $n + 1 AS x;"
       "SELECT x FROM g WHERE in_n = 4; SELECT x FROM g(NULL)",
       "5 NULL ");
}

static void errors_of_calls_have_a_traceback(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO FUNCTION two() RETURNS LONG AS\n SELECT 1 UNION ALL SELECT 2;\n"
           "CREATE PERFETTO FUNCTION t() RETURNS TABLE(x LONG) AS\nSELECT two() AS x");
    is(f, "SELECT 1 AS a;\nSELECT *\nFROM t()",
       "function two: its SQL returns more than one row\n"
       "  line 2, column 2:  SELECT 1 UNION ALL SELECT 2;\n"
       "                     ^\n"
       "  in function two, called here:\n"
       "  line 4, column 1: SELECT two() AS x\n"
       "                    ^\n"
       "  in function t, called here:\n"
       "  line 2, column 1: SELECT *\n"
       "                    ^");
    is(f, "CREATE PERFETTO TABLE x AS\n  SELECT two() AS a",
       "function two: its SQL returns more than one row\n"
       "  line 2, column 2:  SELECT 1 UNION ALL SELECT 2;\n"
       "                     ^\n"
       "  in function two, called here:\n"
       "  line 2, column 3:   SELECT two() AS a\n"
       "                      ^");
    // An error that follows an error of a call does not have the call's lines.
    is(f, "SELECT abs(-9223372036854775807 - 1)",
       "integer overflow\n"
       "  line 1, column 1: SELECT abs(-9223372036854775807 - 1)\n"
       "                    ^");
    is(f, "SELECT *\nFROM lacks",
       "no such table: lacks\n"
       "  line 1, column 1: SELECT *\n"
       "                    ^");
    is(f, "SELECT 5;\nCREATE VIRTUAL TABLE s USING span_join(lacks, t)",
       "SPAN_JOIN: no such table: lacks\n"
       "  line 2, column 1: CREATE VIRTUAL TABLE s USING span_join(lacks, t)\n"
       "                    ^");
    module_add(f, "a.calls", "CREATE PERFETTO TABLE y AS SELECT two() AS a");
    module_add(f, "a.user", "-- First.\nINCLUDE PERFETTO MODULE a.calls");
    is(f, "INCLUDE PERFETTO MODULE a.user",
       "function two: its SQL returns more than one row\n"
       "  line 2, column 2:  SELECT 1 UNION ALL SELECT 2;\n"
       "                     ^\n"
       "  in function two, called here:\n"
       "  module a.calls line 1, column 28: CREATE PERFETTO TABLE y AS SELECT two() AS a\n"
       "                                                               ^\n"
       "  included here:\n"
       "  module a.user line 2, column 1: INCLUDE PERFETTO MODULE a.calls\n"
       "                                  ^\n"
       "  included here:\n"
       "  line 1, column 1: INCLUDE PERFETTO MODULE a.user\n"
       "                    ^");
}

static void modules_only_define(void **state)
{
    struct fixture *f = *state;
    module_add(f, "a.rows", "CREATE TABLE t(x);\nSELECT 1");
    module_add(f, "a.silent",
               "SELECT 1 AS suppress_query_output; SELECT 1 WHERE 0;"
               "SELECT CREATE_FUNCTION('f()', 'INT', 'SELECT 3')");
    module_add(f, "b.one", "INCLUDE PERFETTO MODULE b.two");
    module_add(f, "b.two", "INCLUDE PERFETTO MODULE b.one");
    is(f, "INCLUDE PERFETTO MODULE a.silent; SELECT f()", "3 ");
    fails(f, "INCLUDE PERFETTO MODULE a.rows", "module a.rows returns rows: a module only defines");
    fails(f, "INCLUDE PERFETTO MODULE b.one",
          "INCLUDE PERFETTO MODULE: b.one is included by a module that it includes");
}

static void kept_results_need_no_stack(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO FUNCTION sum(n LONG) RETURNS LONG AS SELECT iif($n < 1, 0, $n + "
           "sum($n - 1)); SELECT EXPERIMENTAL_MEMOIZE('sum');"
           "CREATE PERFETTO FUNCTION odd(n LONG) RETURNS LONG AS SELECT odd($n);"
           "SELECT EXPERIMENTAL_MEMOIZE('odd');"
           "CREATE PERFETTO FUNCTION text(n STRING) RETURNS LONG AS SELECT 1");
    is(f, "SELECT sum(100000), sum(3)", "5000050000|6 ");
    fails(f, "SELECT odd(1)", "the function calls itself too often");
    fails(f, "SELECT EXPERIMENTAL_MEMOIZE('text')",
          "EXPERIMENTAL_MEMOIZE: there is no function text with one LONG argument");
}

// Memory runs out at the first allocation, in the next run at the second, and so on. Each time, the
// engine reports the error or answers in full.
static void memory_runs_out(void **state)
{
    struct fixture *f = *state;
    static const char sql[] =
        "CREATE OR REPLACE PERFETTO TABLE t(a DOUBLE) AS SELECT 1 AS a UNION ALL SELECT 2.5;"
        "CREATE OR REPLACE PERFETTO INDEX i ON t(a);"
        "CREATE OR REPLACE PERFETTO FUNCTION g(x LONG) RETURNS TABLE(y LONG) AS SELECT $x AS y;"
        "CREATE OR REPLACE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT iif($x < 1, 0, "
        "f($x - 1) + 1); SELECT EXPERIMENTAL_MEMOIZE('f');"
        "SELECT sum(a), f(5), y FROM t, g(4)";
    bool was_enough = false;
    for (size_t k = 0; !was_enough; k++) {
        assert_in_range(k, 0, 3000);
        n_until_failure = k;
        const char *answer = ask(f, sql);
        was_enough = n_until_failure != SIZE_MAX;
        n_until_failure = SIZE_MAX;
        if (was_enough)
            assert_string_equal(answer, "3.5|5|4 ");
        else if (!f->answer.failed && strcmp(answer, "3.5|5|4 ") != 0)
            assert_non_null(strstr(answer, "memory"));
        strbuf_done(&f->answer);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_with_functions, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_column_has_values_of_one_type),
        TEST(numbers_of_a_column_become_real),
        TEST(columns_have_names),
        TEST(names_are_taken_once),
        TEST(indexes_have_names),
        TEST(tables_are_not_changed),
        TEST(arguments_have_types),
        TEST(functions_return_what_they_declare),
        TEST(errors_of_calls_have_a_traceback),
        TEST(modules_only_define),
        TEST(kept_results_need_no_stack),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
