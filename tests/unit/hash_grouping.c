// SPDX-License-Identifier: Apache-2.0
//
// GROUP BY with a hash table gives the rows of plain SQLite in the same order. A statement that
// hash grouping does not understand stays as it is.
#include "common/elements.h"
#include "converter/functions/functions.h"
#include "converter/functions/hash_groups.h"
#include "tests/unit/failing_memory.h"
#include "tests/unit/perfetto_sql_fixture.h"

// Values of all types in `mixed`: 1 and 1.0, 0 and -0.0, the text and the bytes of '1', NULL.
static const char tables[] =
    "CREATE TABLE rows AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE "
    "i < 2999) SELECT i AS id, i * 7919 % 13 AS k, 'name ' || (i * 31 % 17) AS name, "
    "CASE i * 17 % 11 WHEN 0 THEN 1.0 WHEN 1 THEN 1 WHEN 2 THEN '1' WHEN 3 THEN x'31' WHEN 4 THEN "
    "NULL WHEN 5 THEN 0 WHEN 6 THEN -0.0 WHEN 7 THEN 2.5 WHEN 8 THEN '' WHEN 9 THEN "
    "9223372036854775807 ELSE 1e300 END AS mixed, i * 1.25 AS r, "
    "CASE WHEN i % 3 THEN i - 1500 END AS v, i % 50 AS other FROM n;"
    "CREATE TABLE others(id INTEGER PRIMARY KEY, name TEXT, fold TEXT COLLATE NOCASE);"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39) "
    "INSERT INTO others SELECT i, 'other ' || i % 4, char(65 + i % 3 + 32 * (i % 2)) FROM n;"
    "CREATE TABLE typed(i INTEGER, t TEXT, r DECIMAL(5,2), b BLOB, x);"
    "INSERT INTO typed SELECT id % 7, id % 7, id % 7, CAST(id % 7 AS TEXT), id % 7 FROM rows;"
    "CREATE VIEW casts AS SELECT CAST(i AS TEXT) AS t, i AS j, id FROM typed JOIN rows ON "
    "typed.rowid = rows.rowid;"
    "CREATE TABLE any_values(a ANY) STRICT; INSERT INTO any_values SELECT id % 7 FROM rows;"
    "CREATE VIEW unions AS SELECT i + 1 AS c FROM typed UNION ALL SELECT i FROM typed;"
    "CREATE TABLE words(k INTEGER, text TEXT, first INTEGER, last REAL);"
    "INSERT INTO words SELECT k, 'w' || id % 5, id % 60, id FROM rows;"
    "CREATE TABLE descending(a INTEGER, b INTEGER, d); CREATE INDEX by_a_down ON descending(a "
    "DESC);"
    "INSERT INTO descending SELECT id % 5, id, 1 FROM rows;"
    "CREATE TABLE other_order(a INTEGER, b INTEGER, d); CREATE INDEX by_b ON other_order(b, a);"
    "INSERT INTO other_order SELECT id % 5, id % 3, 1 FROM rows;"
    "CREATE TABLE ordered(a, b); CREATE INDEX by_a ON ordered(a);"
    "INSERT INTO ordered SELECT k, id FROM rows;"
    "CREATE TABLE folded(a TEXT COLLATE NOCASE, b); CREATE INDEX folded_by_a ON folded(a);"
    "INSERT INTO folded VALUES ('x', 1), ('X', 2), ('y', 3)";

static int setup_with_tables(void **state)
{
    setup(state);
    struct fixture *f = *state;
    assert_int_equal(functions_register(f->handle), SQLITE_OK);
    assert_int_equal(table_functions_register(f->handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(f->handle, tables, NULL, NULL, NULL), SQLITE_OK);
    return 0;
}

// Appends the names of the columns, then the rows: the type and the text of each value.
static void answer_add(sqlite3_stmt *statement, struct strbuf *ret)
{
    int n = sqlite3_column_count(statement), code;
    for (int i = 0; i < n; i++)
        strbuf_addf(ret, "%s|", sqlite3_column_name(statement, i));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        for (int i = 0; i < n; i++) {
            strbuf_addf(ret, "%s%d:", i ? "|" : "\n", sqlite3_column_type(statement, i));
            const char *text = (const char *)sqlite3_column_text(statement, i);
            strbuf_add_str(ret, text ? text : "NULL");
        }
    if (code != SQLITE_DONE)
        strbuf_addf(ret, "\n%s", sqlite3_errmsg(sqlite3_db_handle(statement)));
}

// Compares the engine's answer with the answer of plain SQLite. `hashes`: a hash table must group
// the rows.
static void compare(struct fixture *f, const char *sql, bool hashes)
{
    struct strbuf answer = {0}, plain = {0};
    sqlite3_stmt *statement = NULL;
    const struct sql_text *text = sql_engine_text(f->engine, "", sql);
    size_t at = 0;
    assert_non_null(text);
    if (sql_engine_next(f->engine, text, &at, &statement) <= 0)
        fail_msg("%s: %s", sql, sql_engine_error(f->engine));
    assert_non_null(statement);
    if ((strstr(sqlite3_sql(statement), "__mmsql_groups") != NULL) != hashes)
        fail_msg("%s becomes %s", sql, sqlite3_sql(statement));
    answer_add(statement, &answer);
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_prepare_v2(f->handle, sql, -1, &statement, NULL), SQLITE_OK);
    answer_add(statement, &plain);
    sqlite3_finalize(statement);
    assert_false(answer.failed || plain.failed);
    if (strcmp(answer.text, plain.text) != 0)
        fail_msg("%s\nanswers %s\ninstead of %s", sql, answer.text, plain.text);
    strbuf_done(&answer);
    strbuf_done(&plain);
}

static void groups_are_those_of_sqlite(void **state)
{
    static const char *const statements[] = {
        "SELECT k, count(*) FROM rows GROUP BY k",
        "SELECT name, count(*), count(v), sum(v), total(v), avg(v), min(v), max(v) FROM rows GROUP "
        "BY name",
        "SELECT mixed, count(*), min(id) FROM rows GROUP BY mixed",
        "SELECT k, min(mixed), max(mixed), count(mixed) FROM rows GROUP BY k",
        "SELECT k, sum(r), avg(r), total(r), sum(mixed) > 0 FROM rows GROUP BY k",
        "SELECT k, sum(v + 0.5), sum('2'), sum('x'), avg(name) FROM rows GROUP BY k",
        "SELECT k, sum(NULL), avg(NULL), total(NULL), min(NULL), count(NULL), count() FROM rows "
        "GROUP BY 1",
        "SELECT name, k, sum(id) FROM rows GROUP BY 2, 1",
        "SELECT upper(name), k FROM rows GROUP BY name, k",
        "SELECT count(*) FROM rows GROUP BY k, other",
        "SELECT id % 10, sum(id) FROM rows GROUP BY id % 10",
        "SELECT id % 10 AS digit, sum(id) AS s FROM rows GROUP BY digit ORDER BY s DESC",
        "SELECT sum(id) s, id % 10 digit FROM rows GROUP BY digit HAVING s > 450100 ORDER BY 1",
        "SELECT k, sum(id) AS id FROM rows GROUP BY k ORDER BY id DESC LIMIT 3 OFFSET 1",
        "SELECT name, max(id) - min(id) FROM rows WHERE id IS DISTINCT FROM 3 GROUP BY name",
        "SELECT lower(name) AS name, count(*) FROM rows GROUP BY name ORDER BY name DESC",
        "SELECT k, count(*) * 100.0 / 3000, round(avg(id), 2) || ' ms' FROM rows GROUP BY k",
        "SELECT k, CASE WHEN count(*) > 230 THEN 'many' ELSE 'few' END AS n FROM rows GROUP BY k",
        "SELECT k, max(sum(id), 5), iif(min(v) < -1490, .5, -1) FROM rows GROUP BY k",
        "SELECT k, sum(max(id, 1000)), sum((SELECT 1)) IS NULL FROM others JOIN rows USING (id) "
        "GROUP BY k",
        "SELECT a, sum(b) FROM ordered GROUP BY a", // SQLite would look up each row
        "SELECT o.name, sum(r.id) FROM rows r JOIN others o ON r.k = o.id GROUP BY o.name",
        "SELECT o.name, r.name, count(*) FROM rows r LEFT JOIN others o ON r.id = o.id GROUP BY "
        "1, 2 ORDER BY count(*) DESC, o.name, r.name",
        "WITH small AS (SELECT * FROM rows WHERE id < 100) SELECT name, count(*) FROM small GROUP "
        "BY name",
        "SELECT name, total FROM (SELECT name, sum(id) AS total FROM rows GROUP BY name) GROUP BY "
        "name, total",
        "SELECT count(*) FROM rows WHERE id < 0 GROUP BY name",
        "SELECT name FROM others GROUP BY name HAVING count(*) > 176 OR name = 'other 3'",
        "SELECT i = '5', i IS '5', i IN ('5'), i < '5', '5' = i, count(*) FROM typed GROUP BY i",
        "SELECT t = 5, t BETWEEN 2 AND 4, CASE t WHEN 5 THEN 1 END, max(i) FROM typed GROUP BY t",
        "SELECT r = '5', b = 5, b = '5', i = t, t != b, b = r, count(*) FROM typed GROUP BY r, b, "
        "i, t",
        "SELECT i AS n, t AS s, typeof(i), sum(r) FROM typed GROUP BY i, t HAVING n > '3' AND s = "
        "max(i) ORDER BY n = '5', s < 6 DESC",
        "SELECT t = sum(i), t = max(t), i = max(t), i + 0 = '5' FROM typed GROUP BY t, i",
        "SELECT j = '5', count(*) FROM casts GROUP BY j",
        "SELECT i + 1 AS n, count(*) FROM typed GROUP BY n HAVING n > '3'",
        "SELECT x, sum(i = '5'), x || 'a' FROM typed GROUP BY x",
        "SELECT CAST(i AS TEXT) AS s, count(*) FROM typed GROUP BY s ORDER BY s",
        "SELECT k, max(v) AS k FROM rows GROUP BY k ORDER BY k LIMIT 2", // two results are `k`
        "SELECT k, max(v) AS k FROM rows GROUP BY k ORDER BY k + 1 LIMIT 2",
        "SELECT v IS NULL missing, count(*) FROM rows GROUP BY 1",
        "SELECT other, k, k NOTNULL other FROM rows GROUP BY other, k ORDER BY 1 DESC LIMIT 2",
        "SELECT k, text txt, count(*) FROM words GROUP BY k, text HAVING count(*) > 1",
        "SELECT text, max(last) last FROM words GROUP BY 1 ORDER BY text IS 'w1', 2",
        "SELECT i AS form, count(*) FROM typed GROUP BY i HAVING form > 3",
        "SELECT mixed, mixed || '', count(*) > 5 FROM rows GROUP BY mixed ORDER BY mixed",
        "SELECT name AS \"the \"\"name\"\"\", sum ( id ) FROM rows -- a comment\nGROUP BY name -- "
        "end",
        "SELECT \"name\", count(*) FROM rows GROUP BY \"name\"",
        "SELECT 'it''s', count(*), NULL, 1.5 FROM rows GROUP BY name",
        "SELECT CAST(sum(v) AS TEXT), CAST(name AS BLOB) IS NULL FROM rows GROUP BY name",
        "SELECT name, count(*) FROM rows GROUP BY name ORDER BY sum(id) DESC NULLS LAST",
        // SQLite sorts groups that are equal for ORDER BY in the direction of ORDER BY, if both
        // clauses have the same number of terms.
        "SELECT name, count(*) FROM rows GROUP BY name ORDER BY count(*) > 0 DESC",
        "SELECT k, name FROM rows GROUP BY k, name ORDER BY 1 > 0, count(*) > 0 DESC LIMIT 5",
        "SELECT k, name FROM rows GROUP BY k, name ORDER BY count(*) > 0 DESC LIMIT 5",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ELEMENTS(statements); i++)
        compare(f, statements[i], strstr(statements[i], "(SELECT 1)") == NULL);
}

static void other_statements_stay(void **state)
{
    static const char *const statements[] = {
        "SELECT a, count(*) FROM ordered GROUP BY a",       // comes from the index
        "SELECT a, sum(b) FROM ordered GROUP BY a LIMIT 3", // reads a part of the table
        "SELECT a, sum(b) FROM folded GROUP BY a",          // the index has another collation
        "SELECT count(*) FROM rows",
        "SELECT DISTINCT k, count(*) FROM rows GROUP BY k",
        "SELECT k, id FROM rows WHERE id < 13 GROUP BY k", // any row of the group
        "SELECT k, max(id), name FROM rows GROUP BY k",    // the row with the maximum
        "SELECT k, group_concat(name) FROM rows GROUP BY k",
        "SELECT name, group_concat(name) FROM rows GROUP BY name",
        "SELECT k, count(DISTINCT name) FROM rows GROUP BY k",
        "SELECT k, count(*) FILTER (WHERE id > 5) FROM rows GROUP BY k",
        "SELECT k, sum(count(*)) OVER () FROM rows GROUP BY k",
        "SELECT k, count(*) FROM rows GROUP BY k UNION ALL SELECT 1, 2 FROM rows GROUP BY name",
        "SELECT name COLLATE NOCASE, count(*) FROM rows GROUP BY name COLLATE NOCASE",
        "SELECT fold, count(*) FROM others GROUP BY fold", // by the collation of the column
        "SELECT name, max(fold) FROM others GROUP BY name",
        "SELECT k, (SELECT max(id) FROM others) FROM rows GROUP BY k",
        "SELECT k, ?1 FROM rows GROUP BY k",
        "SELECT k, sum(id) AS id FROM rows GROUP BY k HAVING id > 5", // `id` is the column here
        "SELECT * FROM (SELECT 1 AS a, 2 AS b FROM rows) GROUP BY a",
        "SELECT k, rowid > 0, count(*) FROM rows GROUP BY k",
        "SELECT k, count(*) FROM rows GROUP BY k LIMIT (SELECT 2)",
        "SELECT x = '5', count(*) FROM typed GROUP BY x", // may be a column with an affinity
        "SELECT a, a = '5', count(*) FROM any_values GROUP BY a",
        "SELECT c, c = '5', count(*) FROM unions GROUP BY c",
        "SELECT (t) AS n, count(*) FROM casts GROUP BY t HAVING n = 5",
        "SELECT t AS n, count(*) FROM typed WHERE n GLOB '[3-9]*' GROUP BY n", // an alias in WHERE
        "SELECT k * 2 AS \"kk\", count(*) FROM rows WHERE \"kk\" < 5 GROUP BY k",
        "SELECT i * 2 AS kk, count(*) FROM typed GROUP BY i, kk + 1 HAVING i > '3'",
        "SELECT i AS rowid, count(*) FROM typed GROUP BY i HAVING rowid > 3",
        "SELECT k, sum(first) AS first FROM words GROUP BY k HAVING first > 100",
        "SELECT a, sum(b), max(d) FROM descending GROUP BY a",
        "SELECT a, b, sum(d) FROM other_order GROUP BY a, b",
        "SELECT t = 5, count(*) FROM casts GROUP BY t",
        "SELECT CAST(i AS TEXT) AS s, count(*) FROM typed GROUP BY s HAVING s = 5",
        "EXPLAIN QUERY PLAN SELECT k, count(*) FROM rows GROUP BY k",
        "SELECT k, count(*), 1 AS a1, 2 AS a2, 3 AS a3, 4 AS a4, 5 AS a5, 6 AS a6, 7 AS a7, 8 AS "
        "a8, 9 AS a9, 10 AS a10, 11 AS a11, 12 AS a12, 13 AS a13, 14 AS a14, 15 AS a15 FROM rows "
        "GROUP BY k",
        ("SELECT min(1), max(2), min(3), max(4), min(5), max(6), min(7), max(8), min(9), max(10), "
         "min(11), max(12), min(13), max(14), min(15), max(16) FROM rows GROUP BY k"),
        "WITH x AS (SELECT k, count(*) FROM rows GROUP BY k) SELECT * FROM x",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ELEMENTS(statements); i++)
        compare(f, statements[i], false);
}

// SQLite sorts the groups if there are too many for the hash table.
static void too_many_groups_are_sorted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(sqlite3_exec(f->handle,
                                  "CREATE TABLE many AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL "
                                  "SELECT i + 1 FROM n WHERE i < 19999) SELECT i * 7919 % 20000 AS "
                                  "i, 'text ' || i AS name FROM n",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    compare(f, "SELECT i, name, count(*), sum(i) FROM many GROUP BY i, name", true);
    compare(f, "SELECT i, sum(i) / 2, max(name) FROM many GROUP BY i HAVING sum(i) % 3", true);
    compare(f, "SELECT i, sum(i) / 2 FROM many GROUP BY i ORDER BY sum(i) > 0 DESC", true);
    compare(f,
            "SELECT i % 80 AS j, length(max(zeroblob(1000000 + i))) FROM many WHERE i < 160 "
            "GROUP BY j",
            true); // more than 64 MiB
    compare(f, "SELECT i % 4000 AS j, max(name) FROM many GROUP BY j ORDER BY 2", true);
}

static void an_overflow_is_an_error_of_sqlite(void **state)
{
    struct fixture *f = *state;
    compare(f, "SELECT k, sum(9223372036854775807) FROM rows GROUP BY k", true);
    compare(f,
            "SELECT k, avg(9223372036854775807), total(9223372036854775807) FROM rows GROUP BY k",
            true);
    compare(f, "SELECT k, sum(abs(-9223372036854775807 - (id > 2000))) FROM rows GROUP BY k", true);
    fails(f, "SELECT k, sum(9223372036854775807) FROM rows GROUP BY k", "integer overflow");
}

// A view of a database must not run SQL from texts.
static void the_table_belongs_to_statements(void **state)
{
    struct fixture *f = *state;
    fails(f, "SELECT * FROM __mmsql_groups('+:', 'SELECT 1')", "no query solution");
    fails(f, "SELECT * FROM __mmsql_groups('+:q', 'SELECT 1', 'SELECT 1')",
          "__mmsql_groups: wrong arguments");
    fails(f, "SELECT * FROM __mmsql_groups('17:', 'SELECT 1', 'SELECT 1')",
          "__mmsql_groups: wrong arguments");
    fails(f, "SELECT * FROM __mmsql_groups('+:', 'SELECT __mmsql_group(?1)', 'SELECT 1')",
          "__mmsql_group is a part of __mmsql_groups");
    fails(f, "SELECT __mmsql_group(1, 2)", "__mmsql_group is a part of __mmsql_groups");
    fails(f, "SELECT * FROM __mmsql_groups('+:', 'SELECT x', 'SELECT 1')", "no such column: x");
    is(f, "SELECT __g0 FROM __mmsql_groups('+:', 'SELECT ?1', 'SELECT 1')", "");
    assert_int_equal(sqlite3_exec(f->handle,
                                  "PRAGMA trusted_schema=OFF; CREATE VIEW main.v AS SELECT * FROM "
                                  "__mmsql_groups('+:', 'SELECT 1', 'SELECT 1')",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    fails(f, "SELECT * FROM v", "unsafe use of virtual table \"__mmsql_groups\"");
}

static void memory_runs_out(void **state)
{
    struct fixture *f = *state;
    static const char sql[] = "SELECT name, max(name), sum(id) FROM rows WHERE id < 200 GROUP BY 1 "
                              "ORDER BY 3 LIMIT 1";
    static const char wanted[] = "name 12|name 12|1078 ";
    bool was_enough = false;
    is(f, sql, wanted);
    for (size_t k = 0; !was_enough; k++) {
        assert_in_range(k, 0, 5000);
        n_until_failure = k;
        const char *answer = ask(f, sql);
        was_enough = n_until_failure != SIZE_MAX;
        n_until_failure = SIZE_MAX;
        if (was_enough || (!f->answer.failed && strcmp(answer, wanted) != 0))
            assert_non_null(strstr(answer, was_enough ? wanted : "memory"));
        strbuf_done(&f->answer);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_with_tables, teardown)
    const struct CMUnitTest tests[] = {
        TEST(groups_are_those_of_sqlite),      TEST(other_statements_stay),
        TEST(too_many_groups_are_sorted),      TEST(an_overflow_is_an_error_of_sqlite),
        TEST(the_table_belongs_to_statements), TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
