// SPDX-License-Identifier: Apache-2.0
//
// The engine of PerfettoSQL on an empty database: the results of statements and macros, and the
// places that errors name.
#include "converter/perfetto_sql/engine.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/failing_memory.h"
#include "tests/unit/perfetto_sql_fixture.h"

static void statements_end_where_their_text_does(void **state)
{
    struct fixture *f = *state;
    is(f, "", "");
    is(f, " ;; -- nothing\n/* ; */ ;", "");
    is(f, "SELECT 1; SELECT 2", "1 2 ");
    is(f, "SELECT ';', \";\" FROM (SELECT 3 AS \";\") /* ; */ -- ;\n; SELECT 4;", ";|3 4 ");
    is(f, "SELECT 'it''s; one' -- at the end", "it's; one ");
    is(f,
       "CREATE TABLE t(x); CREATE TABLE u(x);"
       "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN"
       "  INSERT INTO u SELECT CASE WHEN new.x THEN 1 ELSE 2 END; INSERT INTO u VALUES(5); END;"
       "INSERT INTO t VALUES(0); SELECT x FROM u",
       "2 5 ");
    is(f, "SELECT 'no end",
       "unrecognized token: \"'no end\"\n"
       "  line 1, column 8: SELECT 'no end\n"
       "                           ^");
}

static void macros_expand_in_macros(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO MACRO twice(x Expr) RETURNS Expr AS ($x * 2);"
           "CREATE PERFETTO MACRO four(x Expr) RETURNS Expr AS twice!(twice!($x));"
           "CREATE PERFETTO MACRO pair(a Expr, b Expr) RETURNS Expr AS $a || '-' || $b;"
           "CREATE PERFETTO MACRO rows(t TableOrSubquery, c ColumnName) RETURNS TableOrSubquery AS "
           "(SELECT $c + 1 AS more FROM $t);"
           "CREATE PERFETTO MACRO none() RETURNS Expr AS 7");
    is(f, "SELECT four!(3), twice! (4), twice!(four!(1) + 1)", "12|8|6 ");
    is(f, "SELECT pair!('a,b)', ((1, 2) = (1, 2))), pair!(max(1, 2), ')(')", "a,b)-1|2-)( ");
    is(f, "SELECT pair!(/* , */ 1 -- )\n, 2)", "1-2 ");
    is(f, "SELECT more FROM rows!((SELECT 1 AS x UNION ALL SELECT 2), x)", "2 3 ");
    is(f, "SELECT none!(), none!( )", "7|7 ");
    is(f, "SELECT 1 != (2), 'twice!(3)', \"twice!(1)\" FROM (SELECT 5 AS \"twice!(1)\")",
       "1|twice!(3)|5 ");
    // `$a` and `$b` are the caller's arguments, although the called macro has arguments of these
    // names.
    is(f,
       "CREATE PERFETTO MACRO swap(a Expr, b Expr) RETURNS Expr AS pair!($b, $a);"
       "SELECT swap!(1, 2)",
       "2-1 ");
}

static void macros_are_replaced_and_dropped(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO MACRO m() RETURNS Expr AS 1");
    is(f, "CREATE PERFETTO MACRO m() RETURNS Expr AS 2",
       "CREATE PERFETTO MACRO: there is a macro of this name already (CREATE OR REPLACE)\n"
       "  line 1, column 23: CREATE PERFETTO MACRO m() RETURNS Expr AS 2\n"
       "                                           ^");
    // Upper and lower case tell names apart.
    is(f, "CREATE PERFETTO MACRO M() RETURNS Expr AS 2; SELECT m!(), M!()", "1|2 ");
    is(f, "CREATE PERFETTO MACRO empty() RETURNS Expr AS ; SELECT 4 empty!()", "4 ");
    fails(f, "CREATE PERFETTO MACRO x(a Expr) RETURNS LONG AS 2",
          "CREATE PERFETTO MACRO: the type is not known (there are Expr, TableOrSubquery, "
          "ColumnName, ColumnNameList, ExprList, UnparenExprList, _ProjectionFragment and "
          "_TableNameList)");
    is(f, "CREATE PERFETTO MACRO x(a ColumnName,\n b Statement) RETURNS Expr AS 2",
       "CREATE PERFETTO MACRO: the type is not known (there are Expr, TableOrSubquery, "
       "ColumnName, ColumnNameList, ExprList, UnparenExprList, _ProjectionFragment and "
       "_TableNameList)\n"
       "  line 2, column 4:  b Statement) RETURNS Expr AS 2\n"
       "                       ^");
    is(f, "CREATE OR REPLACE PERFETTO MACRO m(x Expr) RETURNS Expr AS $x; SELECT m!(3)", "3 ");
    is(f, "DROP PERFETTO MACRO m", "");
    fails(f, "SELECT m!(3)", "macro m!: there is no macro of this name");
    fails(f, "DROP PERFETTO MACRO m", "DROP PERFETTO MACRO: there is no macro m!");
    is(f, "DROP PERFETTO MACRO IF EXISTS m", "");
}

static void lists_are_applied(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO MACRO plus(x Expr) RETURNS Expr AS $x + 1;"
           "CREATE PERFETTO MACRO same(x Expr, y Expr) RETURNS Expr AS $x = $y;"
           "CREATE PERFETTO MACRO positive(x Expr) RETURNS Expr AS $x > 0");
    is(f, "SELECT __intrinsic_token_apply!(plus, (1, 2, 3))", "2|3|4 ");
    is(f, "SELECT 0 __intrinsic_token_apply_prefix!(plus, (1, (2)))", "0|2|3 ");
    is(f, "SELECT 0 __intrinsic_token_apply_prefix!(plus, ())", "0 ");
    is(f, "SELECT __intrinsic_token_apply_and!(same, (1, 2), (1, 2))", "1 ");
    is(f, "SELECT __intrinsic_token_apply!(same, (1, 2), (1))", "1 "); // the shorter list
    is(f, "SELECT 1 __intrinsic_token_apply_and_prefix!(positive, (5, -1))", "0 ");
    is(f, "SELECT 1 __intrinsic_token_apply_and_prefix!(positive, ())", "1 ");
    is(f, "SELECT __intrinsic_stringify!(a, b)",
       "macro __intrinsic_stringify!: the number of arguments is wrong\n"
       "  line 1, column 8: SELECT __intrinsic_stringify!(a, b)\n"
       "                           ^");
    is(f, "SELECT __intrinsic_stringify!((a  +b)), __intrinsic_stringify!(x)", "(a  +b)|x ");
    fails(f, "SELECT __intrinsic_token_apply!(plus, 1)",
          "macro __intrinsic_token_apply!: its arguments are not lists");
    fails(f, "SELECT __intrinsic_token_apply!(nothing, (1))",
          "macro nothing!: there is no macro of this name");
}

static void calls_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO MACRO one(x Expr) RETURNS Expr AS $x;"
           "CREATE PERFETTO MACRO endless(x Expr) RETURNS Expr AS 1 + endless!($x);"
           "CREATE PERFETTO MACRO ping() RETURNS Expr AS pong!();"
           "CREATE PERFETTO MACRO pong() RETURNS Expr AS ping!();"
           "CREATE PERFETTO MACRO grow(x Expr) RETURNS Expr AS "
           "one!($x $x $x $x $x $x $x $x $x $x $x $x $x $x $x $x)");
    fails(f, "SELECT one!()", "macro one!: the number of arguments is wrong");
    fails(f, "SELECT one!(1, 2)", "macro one!: the number of arguments is wrong");
    fails(f, "SELECT one!(1", "macro one!: the list of arguments has no end");
    fails(f, "SELECT nobody!(1)", "macro nobody!: there is no macro of this name");
    fails(f, "SELECT endless!(1)", "macro endless!: calls are nested too deeply");
    fails(f, "SELECT ping!()", "macro ping!: calls are nested too deeply");
    fails(f, "SELECT grow!(grow!(grow!(grow!(grow!(grow!(grow!(1)))))))",
          "macro grow!: the statement grows too large");
    is(f, "SELECT one!(1)", "1 "); // the engine goes on
}

// Each macro calls the macro before it twice: a short statement makes 2^30 calls.
static void calls_that_multiply(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO MACRO m0(x Expr) RETURNS Expr AS 1;"
           "CREATE PERFETTO MACRO s0(x Expr) RETURNS Expr AS ($x+$x)");
    for (int i = 1; i <= 30; i++) {
        char sql[256];
        snprintf(sql, sizeof(sql),
                 "CREATE PERFETTO MACRO m%d(x Expr) RETURNS Expr AS m%d!(m%d!($x));"
                 "CREATE PERFETTO MACRO s%d(x Expr) RETURNS Expr AS s%d!(s%d!($x))",
                 i, i - 1, i - 1, i, i - 1, i - 1);
        ask(f, sql);
    }
    fails(f, "SELECT m30!(1)", "macro m0!: the statement grows too large");
    fails(f, "SELECT s30!(1)", "macro s0!: the statement grows too large");
    is(f, "SELECT m10!(1), s3!(1)", "1|256 ");
}

static void errors_name_their_place(void **state)
{
    struct fixture *f = *state;
    is(f, "SELECT 1;\nSELECT 2,\n  nil",
       "no such column: nil\n"
       "  line 3, column 3:   nil\n"
       "                      ^");
    ask(f, "CREATE PERFETTO MACRO inner(x Expr) RETURNS Expr AS\n  wrong + $x;\n"
           "CREATE PERFETTO MACRO outer(x Expr) RETURNS Expr AS inner!($x)");
    is(f, "SELECT outer!(1)",
       "no such column: wrong\n"
       "  line 2, column 3:   wrong + $x;\n"
       "                      ^\n"
       "  in macro inner!, called here:\n"
       "  line 3, column 53: CREATE PERFETTO MACRO outer(x Expr) RETURNS Expr AS inner!($x)\n"
       "                                                                         ^\n"
       "  in macro outer!, called here:\n"
       "  line 1, column 8: SELECT outer!(1)\n"
       "                           ^");
    // An error in an argument has the place where the argument was written.
    is(f, "CREATE PERFETTO MACRO good(x Expr) RETURNS Expr AS $x; SELECT good!(bad)",
       "no such column: bad\n"
       "  line 1, column 69: CREATE PERFETTO MACRO good(x Expr) RETURNS Expr AS $x; SELECT "
       "good!(bad)\n"
       "                                                                                         "
       "^");
    fails(f, "CREATE PERFETTO VIEW v(a LONG) AS SELECT 1 AS a, 2 AS b",
          "v: the SQL has a column b, which is not declared");
    fails(f, "CREATE PERFETTO TABLE t(a LONG, b LONG) AS SELECT 1 AS a",
          "t: the SQL has no column b, which is declared");
    is(f, "SELECT count() FROM sqlite_temp_schema WHERE name IN ('v', 't')", "0 ");
    fails(f, "CREATE PERFETTO FUNCTION f() RETURNS INT AS SELECT 1, 2",
          "function f: its SQL returns 2 columns instead of one");
}

static void modules_are_included_once(void **state)
{
    struct fixture *f = *state;
    module_add(f, "a.one", "CREATE TABLE one(x); CREATE PERFETTO MACRO m() RETURNS Expr AS 1");
    module_add(f, "a.two", "INCLUDE PERFETTO MODULE a.one; CREATE TABLE two(x)");
    module_add(f, "a.two.three", "CREATE TABLE three(x)");
    is(f, "INCLUDE PERFETTO MODULE a.two; INCLUDE PERFETTO MODULE a.one; SELECT m!()", "1 ");
    is(f, "SELECT group_concat(name) FROM sqlite_temp_schema", "one,two ");
    is(f, "INCLUDE PERFETTO MODULE a.*; SELECT count() FROM three", "0 ");
    is(f, "INCLUDE PERFETTO MODULE *", "");
    is(f, "INCLUDE PERFETTO MODULE a.nothing.*", "");
    fails(f, "INCLUDE PERFETTO MODULE nothing.*",
          "INCLUDE PERFETTO MODULE: there is no module nothing.* (the table "
          "__intrinsic_stdlib_modules lists all)");
    fails(f, "INCLUDE PERFETTO MODULE A.One",
          "INCLUDE PERFETTO MODULE: there is no module A.One (did you mean a.one? the table "
          "__intrinsic_stdlib_modules lists all)");
    is(f, "INCLUDE PERFETTO MODULE a.two.four",
       "INCLUDE PERFETTO MODULE: there is no module a.two.four (the table "
       "__intrinsic_stdlib_modules lists all)\n"
       "  line 1, column 25: INCLUDE PERFETTO MODULE a.two.four\n"
       "                                             ^");
}

static void errors_name_modules(void **state)
{
    struct fixture *f = *state;
    module_add(f, "a.macros",
               "-- Documentation.\n"
               "CREATE PERFETTO MACRO broken(c ColumnName) RETURNS Expr AS\n"
               "$c + lacks");
    module_add(f, "a.user",
               "INCLUDE PERFETTO MODULE a.macros;\n\n"
               "CREATE PERFETTO TABLE t AS\n  SELECT broken!(x) FROM (SELECT 1 AS x)");
    static const char wanted[] = "no such column: lacks\n"
                                 "  module a.macros line 3, column 6: $c + lacks\n"
                                 "                                         ^\n"
                                 "  in macro broken!, called here:\n"
                                 "  module a.user line 4, column 10:   SELECT broken!(x) FROM "
                                 "(SELECT 1 AS x)\n"
                                 "                                            ^\n"
                                 "  included here:\n"
                                 "  line 1, column 1: INCLUDE PERFETTO MODULE a.user\n"
                                 "                    ^";
    is(f, "INCLUDE PERFETTO MODULE a.user", wanted);
    is(f, "INCLUDE PERFETTO MODULE a.user", wanted); // a module that failed fails again
}

static void rows_have_numbers(void **state)
{
    struct fixture *f = *state;
    ask(f, "CREATE PERFETTO TABLE t AS SELECT column1 AS x FROM (VALUES ('c'), ('a'), ('b')) "
           "ORDER BY x;"
           "CREATE PERFETTO MACRO number(t ColumnName) RETURNS Expr AS $t._auto_id + 0");
    is(f, "SELECT _auto_id, x FROM t", "0|a 1|b 2|c ");
    is(f, "SELECT l.x, r.x FROM t l JOIN t r ON l._auto_id = r . _Auto_Id + 1", "b|a c|b ");
    is(f, "SELECT number!(t) FROM t WHERE t._auto_id > 0 ORDER BY _auto_id DESC", "2 1 ");
    is(f, "SELECT x AS _auto_id FROM t WHERE temp.t._auto_id = 1", "b ");
    is(f, "SELECT '_auto_id', my_auto_id FROM (SELECT 1 AS my_auto_id)", "_auto_id|1 ");
    is(f, "CREATE PERFETTO TABLE u AS SELECT _auto_id FROM t; SELECT max(u._auto_id) FROM u", "2 ");
    is(f,
       "CREATE PERFETTO TABLE v(_auto_id LONG, x STRING) AS SELECT _auto_id, x FROM t WHERE x > "
       "'a';"
       "SELECT group_concat(x) FROM v",
       "b,c ");
    is(f, "SELECT 1,\n   _auto_id + wrong FROM t",
       "no such column: wrong\n"
       "  line 2, column 15:    _auto_id + wrong FROM t\n"
       "                                   ^");
    is(f, "SELECT 1 +\n _auto_id",
       "no such column: _rowid_\n"
       "  line 2, column 2:  _auto_id\n"
       "                     ^");
}

static void tables_may_be_called(void **state)
{
    struct fixture *f = *state;
    is(f,
       "CREATE PERFETTO TABLE t AS SELECT 1 AS a; CREATE PERFETTO TABLE u AS SELECT a + 1 AS a "
       "FROM T ( ); SELECT x.a, u.a, 't()' FROM t() AS x JOIN u() ON u.a > x.a",
       "1|2|t() ");
    is(f,
       "CREATE PERFETTO VIEW of_t AS SELECT a FROM t(); CREATE PERFETTO FUNCTION rows_of_t(n LONG) "
       "RETURNS TABLE(a LONG) AS SELECT a + $n AS a FROM t(); CREATE PERFETTO FUNCTION t_times(n "
       "LONG) RETURNS LONG AS SELECT iif($n = 0, 0, a + t_times($n - 1)) FROM t(); "
       "SELECT v.a, r.a, t_times(3) FROM of_t v, rows_of_t(4) r",
       "1|5|3 ");
    fails(f, "SELECT 1 FROM t(1)", "'t' is not a function");
    is(f, "SELECT b FROM t()",
       "no such column: b\n"
       "  line 1, column 8: SELECT b FROM t()\n"
       "                           ^");
}

static void functions_of_the_older_kind(void **state)
{
    struct fixture *f = *state;
    module_add(f, "a.one", "CREATE PERFETTO FUNCTION seven() RETURNS INT AS SELECT 7");
    is(f,
       "SELECT CREATE_FUNCTION('f(x INT)', 'INT', 'SELECT $x + 1'); SELECT f(1);"
       "SELECT CREATE_FUNCTION('f(x INT)', 'INT', 'SELECT $x + 2'); SELECT f(1)",
       "2 3 ");
    is(f, "SELECT CREATE_FUNCTION('g()', 'STRING', 'SELECT ''it''''s'''); SELECT g()", "it's ");
    is(f,
       "SELECT CREATE_VIEW_FUNCTION('h(n INT)', 'a INT, b INT', 'SELECT $n AS a, 2 AS b');"
       "SELECT a, b FROM h(1)",
       "1|2 ");
    is(f, "SELECT IMPORT('a.one'); SELECT seven()", "7 ");
    is(f, "SELECT IMPORT('a.one') AS done", "NULL ");
    fails(f, "SELECT IMPORT('a.two')",
          "INCLUDE PERFETTO MODULE: there is no module a.two (the "
          "table __intrinsic_stdlib_modules lists all)");
    fails(f, "SELECT EXPERIMENTAL_MEMOIZE('nobody')",
          "EXPERIMENTAL_MEMOIZE: there is no function nobody with one LONG argument");
    fails(f, "SELECT CREATE_FUNCTION('k()', 'INT', 'SELECT lacks')", "no such column: lacks");
    fails(f, "SELECT CREATE_FUNCTION('k()', 'INT', NULL)", "the arguments must be texts");
}

static void the_prelude_leaves_out_what_lacks_a_table(void **state)
{
    struct fixture *f = *state;
    f->packages.has_prelude = f->packages.is_foreign = true;
    module_add(f, "prelude.after_eof.a",
               "CREATE PERFETTO VIEW events(id ID) AS SELECT id FROM __intrinsic_events;"
               "CREATE PERFETTO VIEW lost(id ID) AS SELECT id FROM __intrinsic_nothing;"
               "CREATE PERFETTO TABLE more(id ID) AS SELECT id FROM lost;"
               "CREATE PERFETTO TABLE kept(id ID) AS SELECT id FROM events");
    module_add(f, "lib.user", "CREATE PERFETTO TABLE mine AS SELECT id FROM more");
    assert_int_equal(sqlite3_exec(f->handle,
                                  "CREATE TABLE events(id, cpu); INSERT INTO events VALUES(4, 0);"
                                  "CREATE TABLE _hidden(id); INSERT INTO _hidden VALUES(5)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    module_add(f, "lib.hidden", "CREATE PERFETTO VIEW seen AS SELECT * FROM __intrinsic_hidden");
    is(f, "SELECT id FROM kept; SELECT * FROM __intrinsic_events", "4 4|0 ");
    is(f, "INCLUDE PERFETTO MODULE lib.hidden; SELECT id FROM seen", "5 ");
    fails(f, "INCLUDE PERFETTO MODULE lib.user",
          "no such table: more, which is made of __intrinsic_nothing: mmsql does not have that "
          "table");
    is(f, "INCLUDE PERFETTO MODULE *", "");
    // The database's own table stays.
    is(f, "SELECT count() FROM sqlite_temp_schema WHERE name = 'events'", "0 ");
}

static void other_errors_of_the_prelude_stay(void **state)
{
    struct fixture *f = *state;
    f->packages.has_prelude = f->packages.is_foreign = true;
    module_add(f, "prelude.a", "CREATE PERFETTO VIEW v(id ID) AS SELECT id FROM no_internal_table");
    fails(f, "SELECT 1", "no such table: no_internal_table");
}

static void internal_tables_come_without_a_library_where_one_is_named(void **state)
{
    struct fixture *f = *state;
    module_add(f, "lib.user",
               "CREATE PERFETTO VIEW v AS SELECT a.id FROM __intrinsic_events a, __intrinsic_more");
    assert_int_equal(sqlite3_exec(f->handle,
                                  "CREATE TABLE events(id); INSERT INTO events VALUES(4);"
                                  "CREATE TABLE _more(x); INSERT INTO _more VALUES(1), (2)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    is(f, "SELECT count() FROM sqlite_temp_schema", "0 ");
    fails(f, "SELECT * FROM __intrinsic_nothing", "no such table: __intrinsic_nothing");
    fails(f, "SELECT * FROM nobody", "no such table: nobody");
    is(f, "INCLUDE PERFETTO MODULE lib.user; SELECT id FROM v", "4 4 ");
    fails(f, "SELECT count() FROM __intrinsic_jit_frame",
          "no such table: __intrinsic_jit_frame, which is made of perf_map_frame: mmsql does not "
          "have that table");
}

// Memory runs out at the first allocation, in the next run at the second, and so on. Each time, the
// engine reports the error or answers in full.
static void memory_runs_out(void **state)
{
    struct fixture *f = *state;
    static const char sql[] =
        "CREATE OR REPLACE PERFETTO MACRO m(x Expr, y Expr) RETURNS Expr AS $x + $y;"
        "CREATE OR REPLACE PERFETTO TABLE t(a LONG) AS SELECT m!(1, m!(2, 3)) AS a;"
        "CREATE OR REPLACE PERFETTO FUNCTION f(x INT) RETURNS INT AS SELECT $x + 1;"
        "CREATE OR REPLACE PERFETTO FUNCTION g(x INT) RETURNS TABLE(y INT) AS SELECT $x AS y;"
        "SELECT a, f(a), _auto_id FROM t;"
        "SELECT y FROM g(__intrinsic_token_apply!(m, (1), (2)))";
    bool was_enough = false;
    for (size_t k = 0; !was_enough; k++) {
        assert_in_range(k, 0, 2000);
        n_until_failure = k;
        const char *answer = ask(f, sql);
        was_enough = n_until_failure != SIZE_MAX;
        n_until_failure = SIZE_MAX;
        if (was_enough)
            assert_string_equal(answer, "6|7|0 3 ");
        else if (!f->answer.failed && strcmp(answer, "6|7|0 3 ") != 0)
            assert_non_null(strstr(answer, "memory"));
        strbuf_done(&f->answer);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(statements_end_where_their_text_does),
        TEST(macros_expand_in_macros),
        TEST(macros_are_replaced_and_dropped),
        TEST(lists_are_applied),
        TEST(calls_that_cannot_be),
        TEST(calls_that_multiply),
        TEST(errors_name_their_place),
        TEST(modules_are_included_once),
        TEST(errors_name_modules),
        TEST(rows_have_numbers),
        TEST(tables_may_be_called),
        TEST(functions_of_the_older_kind),
        TEST(the_prelude_leaves_out_what_lacks_a_table),
        TEST(other_errors_of_the_prelude_stay),
        TEST(internal_tables_come_without_a_library_where_one_is_named),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
