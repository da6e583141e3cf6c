// SPDX-License-Identifier: Apache-2.0
//
// SQL of newer versions of SQLite becomes SQL of an older one.
#include <string.h>

#include "common/cleanup.h"
#include "converter/perfetto_sql/engine_state.h"
#include "tests/unit/failing_memory.h"
#include "tests/unit/unit.h"

static int replace(struct sql_rope *rope, const char *sql, int version)
{
    static char no_name[] = "";
    static struct sql_text text = {.name = no_name};
    text.sql = (char *)sql;
    text.size = strlen(sql);
    rope_add_text(rope, &text, 0, text.size, 0);
    return rope->sql.failed ? -1 : newer_sql_replace(rope, version);
}

static void becomes(int version, const char *sql, const char *wanted)
{
    CLEANUP(rope_done) struct sql_rope rope = {0};
    assert_int_equal(replace(&rope, sql, version), 0);
    assert_string_equal(rope.sql.text, wanted);
}

static void stays(const char *sql)
{
    becomes(3040000, sql, sql);
}

static void aggregates_are_sorted(void **state)
{
    (void)state;
    becomes(3040000, "SELECT f(x ORDER BY y) AS z",
            "SELECT __mmsql_sorted('f', 1, __mmsql_sort('1a+f=',x , y)) AS z");
    becomes(3040000, "SELECT 1 + \"f g\"(x, (1, 2) ORDER BY a DESC, b COLLATE nocase NULLS LAST)",
            "SELECT 1 + __mmsql_sorted('f g', 2, __mmsql_sort('2a-l=+ln',x, (1, 2) , a , b COLLATE "
            "nocase ))");
    becomes(3040000, "SELECT 1 + f(DISTINCT x ORDER BY x) FILTER (WHERE y)",
            "SELECT 1 + __mmsql_sorted('f', 1, __mmsql_sort('1d+f=', x , x) FILTER (WHERE y))");
    becomes(3040000, "SELECT 1 + count(* ORDER BY x)",
            "SELECT 1 + __mmsql_sorted('count', 0, __mmsql_sort('0a+f=', x))");
    becomes(3040000, "SELECT 1 + f(g(x ORDER BY 1_0) ORDER BY h(y ORDER BY 2)) + 1_1",
            "SELECT 1 + __mmsql_sorted('f', 1, __mmsql_sort('1a+f=',__mmsql_sorted('g', 1, "
            "__mmsql_sort('1a+f=',x , 10)) , __mmsql_sorted('h', 1, __mmsql_sort('1a+f=',y , "
            "2)))) + 11");
    becomes(3044000, "SELECT f(x ORDER BY y)", "SELECT f(x ORDER BY y)");
}

static void columns_keep_their_names(void **state)
{
    (void)state;
    becomes(3040000, "SELECT f(x ORDER BY \"y\"), 1",
            "SELECT __mmsql_sorted('f', 1, __mmsql_sort('1a+f=',x , \"y\")) AS \"f(x ORDER BY "
            "\"\"y\"\")\", 1");
    becomes(3040000, "SELECT 1, string_agg(x, y) FROM t ORDER BY 2, string_agg(x, y)",
            "SELECT 1, group_concat(x, y) AS \"string_agg(x, y)\" FROM t ORDER BY 2, "
            "group_concat(x, y)");
    becomes(3040000, "SELECT g(1, string_agg(x, y), 2) AS z",
            "SELECT g(1, group_concat(x, y), 2) AS z");
}

static void names_and_numbers_are_replaced(void **state)
{
    (void)state;
    becomes(3040000, "SELECT 1_000 + jsonb(x) + string_agg(x, ',' ORDER BY y) + a_1 AS z",
            "SELECT 1000 + json(x) + __mmsql_sorted('group_concat', 2, __mmsql_sort('2a+f=',x, "
            "',' , y)) + a_1 AS z");
    becomes(3044000, "SELECT 1_000 + jsonb(x) + string_agg(x, ',') AS z",
            "SELECT 1000 + json(x) + string_agg(x, ',') AS z");
    becomes(3048000, "SELECT 1_000, if(x, y)", "SELECT 1_000, if(x, y)");
    becomes(3046000, "SELECT iif(x, y) + iif(x, y, z) + if(x, if(y, z), 3, 4) + if(1, 2, 3) AS a",
            "SELECT CASE WHEN x THEN  y END + iif(x, y, z) + CASE WHEN x THEN  CASE WHEN y THEN  z "
            "END WHEN  3 THEN  4 END + CASE WHEN 1 THEN  2 ELSE  3 END AS a");
    becomes(3040000, "SELECT datetime(x, 'subsec') AS a, time('SUBSECOND') AS b",
            "SELECT strftime('%Y-%m-%d %H:%M:%f', x) AS a, strftime('%H:%M:%f', 'now') AS b");
    becomes(3040000, "SELECT unixepoch(f(x, y), 'utc', 'subsec') AS a",
            "SELECT round((julianday(f(x, y),  'utc') - 2440587.5) * 86400, 3) AS a");
}

static void other_sql_stays(void **state)
{
    (void)state;
    stays("SELECT f(x) OVER (PARTITION BY y ORDER BY z) FROM (SELECT x ORDER BY y) -- 1_0");
    stays("SELECT x FROM t WHERE x IN (SELECT y FROM u ORDER BY z LIMIT 1) WINDOW w AS (a ORDER "
          "BY b)");
    stays("WITH t(x) AS (VALUES (1) ORDER BY 1) SELECT 'f(x ORDER BY y) 1_0'");
    stays("SELECT f(x ORDER BY y) OVER ()");
    stays("SELECT f(x ORDER BY y COLLATE strange)");
    stays("SELECT f(x ORDER BY y");
    stays("SELECT f(x ORDER BY y) FILTER (WHERE z");
    stays(")) SELECT (1");
    stays("SELECT g('subsec', string_agg)");
}

static void calls_nest_within_bounds(void **state)
{
    (void)state;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    CLEANUP(rope_done) struct sql_rope rope = {0};
    strbuf_add_str(&sql, "SELECT ");
    for (int i = 0; i < 2000; i++)
        strbuf_add_str(&sql, "f(");
    strbuf_add_str(&sql, "x");
    for (int i = 0; i < 2000; i++)
        strbuf_add_str(&sql, " ORDER BY y)");
    assert_int_equal(replace(&rope, sql.text, 3040000), 0);
    assert_non_null(strstr(rope.sql.text, "__mmsql_sort('1a+f=',f("));
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const char sql[] = "SELECT f(g(x ORDER BY 1_0) ORDER BY y), 1";
    bool was_enough = false;
    for (size_t k = 0; !was_enough; k++) {
        CLEANUP(rope_done) struct sql_rope rope = {0};
        assert_in_range(k, 0, 200);
        n_until_failure = k;
        int r = replace(&rope, sql, 3040000);
        was_enough = n_until_failure != SIZE_MAX;
        n_until_failure = SIZE_MAX;
        assert_int_equal(r == 0, was_enough);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aggregates_are_sorted),
        cmocka_unit_test(columns_keep_their_names),
        cmocka_unit_test(names_and_numbers_are_replaced),
        cmocka_unit_test(other_sql_stays),
        cmocka_unit_test(calls_nest_within_bounds),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
