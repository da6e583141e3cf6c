# SPDX-License-Identifier: Apache-2.0
"""PerfettoSQL: macros, functions, indexes, modules and packages, and the places of errors."""
import contextlib
import re
import sqlite3
import time
import unittest

import lib
import test_query


class Language(test_query.Case):
    def test_macros(self):
        out = self.ask("""
            CREATE PERFETTO MACRO same(a Expr) RETURNS Expr AS $a;
            CREATE PERFETTO MACRO less(a Expr, b Expr)
              RETURNS TableOrSubquery AS (SELECT same!($a) - $b AS x, '$a' AS t);
            SELECT x, t FROM less!(max(7, same ! (9)), same!(length('a,(b')));
            CREATE OR REPLACE PERFETTO MACRO same(a Expr) RETURNS Expr AS -($a);
            SELECT same!(1 + 1) AS y;
            DROP PERFETTO MACRO same""")
        self.assertEqual(out, "x,t\n5,$a\n\ny\n-2\n")

    def test_functions_that_are_left_out_say_what_to_do(self):
        self.assertIn("INCLUDE PERFETTO MODULE",
                      self.ask("SELECT RUN_METRIC('android/cpu_info.sql')", code=1))
        self.assertIn("--json", self.ask("SELECT EXPORT_JSON('file')", code=1))

    def test_macros_that_make_lists(self):
        make = ("CREATE PERFETTO MACRO m(a Expr) RETURNS Expr AS $a + 1; CREATE PERFETTO MACRO "
                "two(a Expr, b Expr) RETURNS Expr AS $a = $b; ")
        self.assertEqual(self.ask("__intrinsic_token_apply!(nothing, ()); SELECT 1 AS x"), "x\n1\n")
        self.assertIn("not lists", self.ask("__intrinsic_token_apply!(m, )", code=1))
        for call, want in (("__intrinsic_token_apply!(m, (1, 2, (3)))", "2|3|4"),
                           ("0 __intrinsic_token_apply_prefix!(m, (5))", "0|6"),
                           ("0 __intrinsic_token_apply_prefix!(m, ())", "0"),
                           ("__intrinsic_token_apply_and!(two, (1, 2), (1, 2, 3))", "1"),
                           ("1 __intrinsic_token_apply_and_prefix!(two, (1), (2))", "0"),
                           ("__intrinsic_stringify!(a  'b' || c)", "a  b || c")):
            if "stringify" in call:
                call = call.replace("'b'", "b")
            self.assertEqual(self.ask(f"{make} SELECT {call}").splitlines()[1].replace(",", "|"),
                             want, call)

    def test_errors_of_macros(self):
        make = ("CREATE PERFETTO MACRO m(a Expr) RETURNS Expr AS $a;\nCREATE PERFETTO MACRO r(a "
                "Expr) RETURNS Expr AS r!($a); ")
        for sql, why in (("SELECT nothing!(1)", "macro nothing!: there is no macro of this name"),
                         ("SELECT m!(1, 2)", "macro m!: the number of arguments is wrong"),
                         ("SELECT m!(1", "has no end"),
                         ("SELECT r!(1)", "nested too deeply"),
                         ("CREATE PERFETTO MACRO m() RETURNS Expr AS 1", "already"),
                         ("SELECT __intrinsic_token_apply!(m, 1)", "not lists"),
                         ("DROP PERFETTO MACRO x", "no macro x!")):
            self.assertIn(why, self.ask(make + sql, code=1), sql)

    def test_statements_grow_within_bounds(self):
        make = "CREATE PERFETTO MACRO d(a Expr) RETURNS Expr AS $a + $a; "
        call = "1"
        for _ in range(40):
            call = f"d!({call})"
        begin = time.monotonic()
        self.assertIn("grows too large", self.ask(f"{make} SELECT {call}", code=1))
        self.assertLess(time.monotonic() - begin, 60)

    def test_places_of_errors(self):
        err = self.ask(
            "CREATE PERFETTO MACRO inner(t Expr) RETURNS Expr AS\n(SELECT missing FROM $t);\n"
            "CREATE PERFETTO MACRO outer(t Expr) RETURNS Expr AS inner!($t);\nSELECT *\n"
            "FROM outer!(slice)", code=1)
        self.assertRegex(err,
                         r"(?s)no such column: missing\n  line 2, column 9: .*in macro inner!, "
                         r"called here:\n  line 3, column 53: .*in macro outer!, called here:\n  "
                         r"line 5, column 6: FROM outer!\(slice\)\n {25}\^")
        err = self.ask(
            "CREATE PERFETTO MACRO m(t Expr) RETURNS Expr AS (SELECT $t);\nSELECT m!(missing)",
            code=1)
        self.assertIn("line 2, column 11: SELECT m!(missing)", err)
        self.assertNotIn("in macro", err)

    def test_functions(self):
        self.assertEqual(
            self.ask("CREATE PERFETTO FUNCTION fact(n LONG) RETURNS LONG AS SELECT iif($n < 2, 1, "
                     "$n * fact($n - 1)); SELECT fact(20) AS x"), "x\n2432902008176640000\n")
        self.assertEqual(
            self.ask("CREATE PERFETTO FUNCTION big(a ANY...) RETURNS ANY DELEGATES TO max; "
                     "SELECT big(1, 5, 3) AS x, big(2, 1) AS y"),
            "x,y\n5,2\n")
        self.assertEqual(
            self.ask("CREATE PERFETTO FUNCTION up(n LONG) RETURNS TABLE(x LONG) AS "
                     "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < $n) "
                     "SELECT x FROM c; SELECT sum(a.x * b.x) AS s FROM up(3) a, up(a.x) b"),
            "s\n25\n")
        self.assertEqual(
            self.ask("CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT 1 WHERE 0; "
                     "SELECT f() AS x"), "x\n\n")
        self.assertIn("more than one row",
                      self.ask("CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT 1 UNION "
                               "SELECT 2; SELECT f()", code=1))
        self.assertIn("returns 2 columns",
                      self.ask("CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT 1, 2", code=1))
        self.assertIn("too often",
                      self.ask("CREATE PERFETTO FUNCTION f(n LONG) RETURNS LONG AS "
                               "SELECT f($n + 1); SELECT f(1)", code=1))

    def test_table_functions_need_their_arguments(self):
        self.assertIn(
            "ancestor_slice is a function of 1 argument: write FROM ancestor_slice(value)",
            self.ask("SELECT * FROM ancestor_slice", code=1))
        self.assertIn("no query solution",
                      self.ask("SELECT * FROM ancestor_slice WHERE dur > 1", code=1))

    def test_results_are_kept(self):
        out = self.ask(
            "SELECT create_function('fib(n INT)', 'INT', 'SELECT iif($n < 2, $n, fib($n - 1) + "
            "fib($n - 2))'); SELECT experimental_memoize('fib'); SELECT fib(80) AS x")
        self.assertEqual(out, "x\n23416728348467685\n")
        self.assertIn("no function", self.ask("SELECT experimental_memoize('nothing')", code=1))

    def test_tables_and_indexes(self):
        out = self.ask(
            "CREATE PERFETTO TABLE t(a LONG, b STRING) AS SELECT value AS a, 'x' AS b "
            "FROM json_each('[3,1,2]'); CREATE PERFETTO INDEX i ON t(a); CREATE OR REPLACE "
            "PERFETTO INDEX i ON t(a, b); EXPLAIN QUERY PLAN "
            "SELECT b FROM t WHERE a = 2; DROP PERFETTO INDEX i ON t; DROP PERFETTO TABLE t; "
            "SELECT * FROM t", code=1)
        self.assertIn("no such table: t", out)
        out = self.ask(
            "CREATE PERFETTO TABLE t AS SELECT 1 AS a; CREATE PERFETTO INDEX i ON t(a); "
            "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 2")
        self.assertIn("USING COVERING INDEX t.i", out)
        self.assertIn("already exists",
                      self.ask("CREATE PERFETTO TABLE t AS SELECT 1 AS a; CREATE PERFETTO TABLE t "
                               "AS SELECT 2 AS a", code=1))
        self.assertIn("slice is not a table made by CREATE PERFETTO TABLE",
                      self.ask("CREATE PERFETTO INDEX i ON slice(ts)", code=1))
        self.assertIn("no column c, which is declared",
                      self.ask("CREATE PERFETTO TABLE t(a LONG, c LONG) AS SELECT 1 AS a", code=1))
        self.assertIn("a column b, which is not declared",
                      self.ask("CREATE PERFETTO VIEW t(a LONG) AS SELECT 1 AS a, 2 AS b", code=1))

    def test_percentiles(self):
        values = "FROM json_each('[4, 1, null, 3.0, 2]')"
        for call, want in (("percentile(value, 50)", "2.5"), ("percentile(value, 0)", "1.0"),
                           ("percentile(value, 100)", "4.0"),
                           ("percentile_cont(value, 0.1)", "1.3"),
                           ("percentile_disc(value, 0.5)", "2.0"), ("median(value)", "2.5"),
                           ("percentile(NULL, 50)", "")):
            self.assertEqual(self.ask(f"SELECT {call} AS x {values}"), f"x\n{want}\n", call)
        self.assertEqual(self.ask("SELECT median(value) AS x FROM json_each('[]')"), "x\n\n")
        for call, why in (("percentile(value, 101)", "a number from 0 to 100"),
                          ("percentile_cont(value, 'x')", "a number from 0 to 1"),
                          ("percentile(value, value)", "the same for all rows"),
                          ("median('x')", "not a finite number")):
            self.assertIn(why, self.ask(f"SELECT {call} {values}", code=1), call)

    def test_sql_of_a_newer_sqlite(self):
        rows = "FROM (SELECT 'b' x, 1 y UNION ALL SELECT 'a', 3 UNION ALL SELECT 'B', NULL) "
        for column, want in (
                ("group_concat(x, '' ORDER BY x)", "Bab"),
                ("string_agg(x, '-' ORDER BY y DESC)", "a-b-B"),
                ("group_concat(x, '' ORDER BY y NULLS LAST) FILTER (WHERE x != 'a')", "bB"),
                ("group_concat(x, '' ORDER BY x COLLATE NOCASE DESC, y)", "Bba"),
                ("group_concat(DISTINCT upper(x) ORDER BY upper(x) DESC)", '"B,A"'),
                ("json_group_array(json_array(x) ORDER BY x)", '"[[""B""],[""a""],[""b""]]"'),
                ("count(x ORDER BY x)", "3"),
                ("json(jsonb_group_array(y))", '"[1,3,null]"')):
            self.assertEqual(self.ask(f"SELECT {column} AS v {rows}"), f"v\n{want}\n", column)
        self.assertEqual(
            self.ask(f"SELECT json_group_array(x ORDER BY x), 1_000 AS n {rows} WHERE 0"),
            "json_group_array(x ORDER BY x),n\n[],1000\n")
        self.assertEqual(
            self.ask("CREATE PERFETTO FUNCTION f(n LONG) RETURNS STRING AS SELECT group_concat("
                     f"x, '' ORDER BY y) {rows} WHERE y < $n; SELECT f(9) AS a, f(2) AS b"),
            "a,b\nba,b\n")
        self.assertIn("abs", self.ask(f"SELECT abs(y ORDER BY x) {rows}", code=1))

    def test_functions_of_a_newer_sqlite(self):
        for call, want in (
                ("concat('a', NULL, 1, 2.5)", "a12.5"), ("concat_ws('-', 1, NULL, 3)", "1-3"),
                ("concat_ws(NULL, 1, 2)", ""), ("iif(1, 2)", "2"), ("iif(0, 2)", ""),
                ("if(0, 1, 2)", "2"), ("iif(0, 1, 'x', 2, 5)", "5"),
                ("octet_length('\u00e4b')", "3"), ("octet_length(x'00')", "1"),
                ("octet_length(12)", "2"), ("octet_length(NULL)", ""),
                (r"unistr('a\00e4\u20ac\+01F600\\b')", "a\u00e4\u20ac\U0001f600\\b"),
                ("unistr_quote(char(10) || '''\\')", r"unistr('\u000a''" + "\\\\')"),
                ("unistr_quote(x'ab')", "X'AB'"), ("unistr_quote('a')", "'a'"),
                ("time('01:02:03.456', 'subsec')", "01:02:03.456")):
            self.assertEqual(self.value(call), want, call)
        self.assertIn("escape", self.ask(r"SELECT unistr('\12')", code=1))

    def test_silent_results(self):
        self.assertEqual(self.ask("SELECT 1 AS suppress_query_output; SELECT 2 AS a"), "a\n2\n")


class Packages(test_query.Case):
    def write(self, path, text):
        path = self.dir / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def setUp(self):
        self.write("mine/spans.sql",
                   "INCLUDE PERFETTO MODULE mine.deep.more;\nCREATE PERFETTO MACRO longest(t "
                   "TableOrSubquery) RETURNS TableOrSubquery AS\n"
                   "(SELECT * FROM $t ORDER BY dur DESC LIMIT 1);\nCREATE PERFETTO TABLE spans AS "
                   "SELECT n FROM more;\n")
        self.write("mine/deep/more.sql", "CREATE PERFETTO VIEW more AS SELECT 5 AS n;\n")
        self.write("mine/deep/again.sql", "-- Other.\nINCLUDE PERFETTO MODULE mine.spans;\n")
        self.write("mine/round/one.sql", "INCLUDE PERFETTO MODULE mine.round.two;\n")
        self.write("mine/round/two.sql", "INCLUDE PERFETTO MODULE mine.round.one;\n")
        self.write("mine/rows.sql", "SELECT 1;\n")
        self.write("mine/broken.sql",
                   "CREATE PERFETTO TABLE fine AS SELECT 1 AS x;\n\nCREATE PERFETTO TABLE bad AS\n"
                   "SELECT missing FROM fine;\n")
        self.write("mine/notes.txt", "no module")

    def test_a_package(self):
        out = self.ask(
            "INCLUDE PERFETTO MODULE mine.spans; INCLUDE PERFETTO MODULE mine.spans; "
            "SELECT n FROM spans; SELECT dur FROM longest!(slice)",
            "--add-sql-package", self.dir / "mine")
        self.assertTrue(out.startswith("n\n5\n\ndur\n"), out)
        self.assertEqual(
            self.ask("INCLUDE PERFETTO MODULE other.deep.*; SELECT count(*) AS n FROM more",
                     "--add-sql-package", f"{self.dir / 'mine'}@other",
                     code=1).splitlines()[0],
            "mmsql: INCLUDE PERFETTO MODULE: there is no module mine.spans "
            "(did you mean other.spans? the table __intrinsic_stdlib_modules lists all)")

    def test_a_package_has_the_name_of_its_folder(self):
        for path, module in ((".", "mine.spans"), ("deep/..", "mine.spans"), ("deep", "deep.more"),
                             (".//", "mine.spans"), (".@x", "x.deep.more")):
            done = lib.run(lib.MMSQL, "query", "-q", "--csv", "--add-sql-package", path,
                           test_query.TRACKS, f"INCLUDE PERFETTO MODULE {module}; SELECT 1 AS a",
                           cwd=self.dir / "mine")
            self.assertEqual((done.returncode, done.stdout), (0, "a\n1\n"), done.stderr)
        self.assertIn("/: this folder has no name for a package (DIR@NAME gives one)",
                      self.ask("SELECT 1", "--add-sql-package", "/", code=1))

    def test_modules_that_cannot_be_included(self):
        for module, why in (("mine.round.one", "mine.round.one is included by a module that it "
                                               "includes"),
                            ("mine.rows", "module mine.rows returns rows"),
                            ("Mine.Spans", "there is no module Mine.Spans"),
                            ("nothing.*", "there is no module nothing.*")):
            err = self.ask(f"SELECT 1 AS a;\nINCLUDE PERFETTO MODULE {module}",
                           "--add-sql-package", self.dir / "mine", code=1)
            self.assertIn(why, err)
            self.assertIn("line 2, column", err)
        self.ask("INCLUDE PERFETTO MODULE mine.nothing.*", "--add-sql-package", self.dir / "mine")

    def test_errors_name_the_module(self):
        err = self.ask("INCLUDE PERFETTO MODULE mine.broken", "--add-sql-package",
                       self.dir / "mine", code=1)
        self.assertIn(
            "no such column: missing\n  module mine.broken line 4, column 8: SELECT missing "
            "FROM fine;\n", err)
        self.assertIn("  included here:\n  line 1, column 1: INCLUDE PERFETTO MODULE mine.broken",
                      err)
        path = self.write("question.sql", "SELECT 1;\nSELECT 2 + FROM;\n")
        err = self.ask(None, "-f", path, code=1)
        self.assertIn(f"{path} line 2, column 12: SELECT 2 + FROM;", err)

    def test_packages_that_are_there(self):
        self.write("slices/hierarchy.sql", "CREATE PERFETTO TABLE own AS SELECT 'own' AS x;")
        self.assertIn("--override-sql-package replaces it",
                      self.ask("SELECT 1", "--add-sql-package", self.dir / "slices", code=1))
        ask = "INCLUDE PERFETTO MODULE slices.hierarchy; SELECT x FROM own"
        self.assertEqual(self.ask(ask, "--override-sql-package", self.dir / "slices"), "x\nown\n")
        self.assertIn("there is no module slices.with_context",
                      self.ask("INCLUDE PERFETTO MODULE slices.with_context",
                               "--override-sql-package",
                               self.dir / "slices", code=1))
        self.assertIn("No such file",
                      self.ask("SELECT 1", "--add-sql-package", self.dir / "nothing", code=1))
        self.assertIn("Not a directory", self.ask("SELECT 1", "--override-stdlib",
                                                  self.dir / "mine" / "notes.txt", code=1))

    def test_a_library(self):
        self.write("library/prelude/before_eof/first.sql",
                   "CREATE PERFETTO TABLE slice(id LONG, ts TIMESTAMP) AS SELECT 1 AS id, "
                   "2 AS ts;\n"
                   "CREATE PERFETTO TABLE one AS SELECT 1 AS x;")
        self.write("library/prelude/after_eof/second.sql",
                   "CREATE PERFETTO VIEW two AS SELECT x + 1 AS y FROM one;")
        self.write("library/area/module.sql",
                   "CREATE PERFETTO FUNCTION three() RETURNS LONG AS SELECT y + 1 FROM two;")
        out = self.ask(
            "INCLUDE PERFETTO MODULE area.*; SELECT three() AS z, y, (SELECT count(*) "
            "FROM slice) > 1 AS own FROM two",
            "--override-stdlib", self.dir / "library")
        self.assertEqual(out, "z,y,own\n3,2,1\n")

    def test_internal_tables_of_a_library(self):
        self.write("library/prelude/after_eof/first.sql",
                   "CREATE PERFETTO VIEW lost(id ID) AS SELECT id FROM __intrinsic_nothing;")
        self.write("library/area/module.sql",
                   "SELECT 1 FROM __intrinsic_slice JOIN __intrinsic_profiler_sample "
                   "USING (id) LIMIT 1;")
        text = (lib.ROOT / "converter/sql/intrinsics.sql").read_text(encoding="utf-8")
        names = re.findall(r"^CREATE (?:OR REPLACE PERFETTO VIEW|TABLE IF NOT EXISTS) (\w+)", text,
                           re.M)
        self.assertGreater(len(names), 20)
        asks = ", ".join(f"(SELECT count(*) FROM {name}) AS {name}" for name in names)
        library = ("--override-stdlib", self.dir / "library")
        counts = dict(
            zip(*(line.split(",") for line in self.ask(f"SELECT {asks}", *library).splitlines())))
        self.assertEqual(counts["_trace_bounds"], "1")
        self.assertEqual(counts["__intrinsic_jit_frame"], "0")
        out = self.ask(
            "SELECT (SELECT count(*) FROM __intrinsic_slice) = (SELECT count(*) FROM slice) AS a, "
            "(SELECT count(*) FROM __intrinsic_track WHERE event_type = 'counter') = (SELECT "
            "count(*) FROM counter_track) AS b, (SELECT count(*) FROM __intrinsic_profiler_sample) "
            "AS c",
            *library)
        self.assertEqual(out, "a,b,c\n1,1,0\n")
        self.assertIn("no such table: lost, which is made of __intrinsic_nothing",
                      self.ask("SELECT * FROM lost", *library, code=1))

    def test_internal_tables_that_are_empty(self):
        self.write("library/prelude/after_eof/a.sql", "CREATE PERFETTO TABLE x AS SELECT 1 AS a;")
        self.write("library/area/power.sql", "CREATE PERFETTO TABLE curves AS SELECT * FROM "
                   "__intrinsic_wattson_curves_cpu_1d(); CREATE PERFETTO VIEW windows AS SELECT id "
                   "FROM __intrinsic_windowmanager;")
        self.assertEqual(
            self.ask("INCLUDE PERFETTO MODULE area.power; SELECT count(device) AS n, (SELECT "
                     "count(*) FROM windows()) AS w FROM curves()", "--override-stdlib",
                     self.dir / "library"), "n,w\n0,0\n")

    def test_internal_tables_without_a_library(self):
        same = ("(SELECT count(*) FROM __intrinsic_{0}) = (SELECT count(*) FROM {0}) "
                "AND (SELECT count(*) FROM {0}) > 0")
        out = self.ask(
            f"SELECT {same.format('slice')} AS a; SELECT {same.format('counter')} AS b, (SELECT "
            "count(*) FROM __intrinsic_jit_frame) AS c; CREATE PERFETTO VIEW v AS "
            "SELECT count(*) > 0 AS d FROM __intrinsic_thread; SELECT d FROM v")
        self.assertEqual(out, "a\n1\n\nb,c\n1,0\n\nd\n1\n")
        self.assertIn("no such table: __intrinsic_nothing",
                      self.ask("SELECT * FROM __intrinsic_slice, __intrinsic_nothing", code=1))

    def test_the_library_has_docs(self):
        out = self.ask(
            "SELECT object_type, name, exposed, short_description FROM __intrinsic_stdlib_objects "
            "WHERE module = 'mine.docs' AND name IS NOT NULL; SELECT json_extract(cols, "
            "'$[0].description') AS d, json_extract(args, '$[0].type') AS t, return_description AS "
            "r FROM __intrinsic_stdlib_objects WHERE module = 'mine.docs' AND name = 'f'",
            "--add-sql-package", self.docs())
        self.assertEqual(out,
                         "object_type,name,exposed,short_description\nTABLE_FUNCTION,f,1,\"Doubles "
                         "\"\"things\"\".\"\nMACRO,_m,0,\"\"\n\nd,t,r\nTwo lines.,LONG,\"\"\n")

    def docs(self):
        self.write("mine/docs.sql",
                   "-- A heading.\n\n-- Doubles \"things\". More\n-- text.\nCREATE PERFETTO "
                   "FUNCTION f(a LONG) RETURNS TABLE(\n  -- Two\n  -- lines.\n"
                   "  b LONG\n) AS SELECT $a AS b;\n\nCREATE PERFETTO MACRO _m() RETURNS Expr AS "
                   "1;\n")
        return self.dir / "mine"


class Stored(test_query.Case):
    """mmsql convert --include: modules as tables for any SQLite."""

    def convert(self, *options, code=0):
        done = lib.run(lib.MMSQL, "convert", "-q", test_query.PRESSURE, "-o",
                       self.dir / "stored.db", *options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def rows(self, sql):
        with contextlib.closing(sqlite3.connect(self.dir / "stored.db")) as handle:
            return handle.execute(sql).fetchall()

    def test_tables_for_any_sqlite(self):
        self.convert("--include", "slices.with_context")
        own = self.ask(
            "INCLUDE PERFETTO MODULE slices.with_context; SELECT count(*) AS n, sum(dur) AS d "
            "FROM thread_slice")
        self.assertEqual(own.splitlines()[1],
                         ",".join(str(value) for value
                                  in self.rows("SELECT count(*), sum(dur) FROM thread_slice")[0]))
        names = {name for name, in self.rows("SELECT name FROM stored_module_table")}
        self.assertLessEqual({"thread_slice", "process_slice"}, names)
        self.assertEqual(
            self.rows(
                "SELECT count(*) FROM sqlite_master WHERE name = 'thread_slice' "
                "AND type = 'table'"), [(1,)])
        (self.dir / "stored.db").unlink()

    def test_modules_without_tables(self):
        for names, empty in (("prelude.*", "prelude.*"), ("slices.with_context", None),
                             ("std.metasql.unparenthesize,slices.with_context,prelude.after_eof.*",
                              "std.metasql.unparenthesize, prelude.after_eof.*")):
            said = self.convert("--include", names)
            self.assertEqual("nothing to store" in said, empty is not None, said)
            self.assertIn(f"--include {empty}: nothing to store" if empty else "", said)
            (self.dir / "stored.db").unlink()

    def test_tables_are_made_anew(self):
        self.convert("--include", "slices.with_context")
        done = lib.run(lib.MMSQL, "convert", "-q", "-a", test_query.TRACKS, "-o",
                       self.dir / "stored.db", "--include", "slices.*")
        self.assertEqual(done.returncode, 0, done.stderr)
        own = lib.run(lib.MMSQL, "query", "-q", "--csv", self.dir / "stored.db",
                      "SELECT count(*) FROM slice JOIN thread_track ON slice.track_id = "
                      "thread_track.id JOIN thread USING (utid)").stdout
        self.assertEqual(self.rows("SELECT count(*) FROM thread_slice"),
                         [(int(own.splitlines()[1]),)])
        (self.dir / "stored.db").unlink()

    def test_a_module_that_is_not_there(self):
        self.convert()
        before = (self.dir / "stored.db").read_bytes()
        self.assertIn("--include nothing: there is no such module",
                      self.convert("--include", "slices.flow,nothing", code=1))
        self.assertEqual((self.dir / "stored.db").read_bytes(), before)
        (self.dir / "stored.db").unlink()


if __name__ == "__main__":
    unittest.main()
