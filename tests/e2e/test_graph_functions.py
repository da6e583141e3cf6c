# SPDX-License-Identifier: Apache-2.0
"""Functions on graphs and trees: walks, dominators, scans, partitions, critical paths."""
import time
import unittest

import test_query

MILLION = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)"


def values(rows):
    """A subquery with columns a, b, c... that has the rows."""
    names = "abcdefg"[:len(rows[0])]
    texts = ["(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows]
    return f"(WITH v({', '.join(names)}) AS (VALUES {', '.join(texts)}) SELECT * FROM v)"


def graph(rows):
    return f"(SELECT __intrinsic_graph_agg(a, b) FROM {values(rows)})"


def array(numbers):
    return f"(SELECT __intrinsic_array_agg(a) FROM {values([(n,) for n in numbers])})"


def table(value, *columns, what="*", tail=""):
    binds = " AND ".join(f"__intrinsic_table_ptr_bind(c{i}, '{name}')"
                         for i, name in enumerate(columns))
    names = ", ".join(f"c{i} AS \"{name}\"" for i, name in enumerate(columns))
    return (f"SELECT {what} FROM (SELECT {names} FROM __intrinsic_table_ptr({value}) "
            f"WHERE {binds}) {tail}")


class Case(test_query.Case):
    def rows(self, sql):
        return [tuple(None if c == "" else int(c) if c.lstrip("-").isdigit() else c
                      for c in line.split(","))
                for line in self.ask(sql).splitlines()[1:]]

    def fails(self, sql, why):
        self.assertIn(why, self.ask(sql, code=1), sql)


class Walks(Case):
    def walk(self, name, edges, starts):
        return self.rows(table(f"__intrinsic_{name}({graph(edges)}, {array(starts)})", "node_id",
                               "parent_node_id"))

    def test_depth_first(self):
        edges = [(1, 2), (1, 3), (2, 4), (3, 4), (4, 1)]
        self.assertEqual(self.walk("dfs", edges, [1]), [(1, None), (2, 1), (4, 2), (3, 1)])
        self.assertEqual(self.walk("dfs", edges, [1, 3]), [(3, None), (4, 3), (1, 4), (2, 1)],
                         "the last start is the first one")

    def test_breadth_first(self):
        edges = [(1, 2), (1, 3), (2, 4), (3, 4), (4, 1), (4, 5)]
        self.assertEqual(self.walk("bfs", edges, [1]), [(1, None), (2, 1), (3, 1), (4, 2), (5, 4)])
        self.assertEqual(self.walk("bfs", edges, [3, 2, 3]),
                         [(3, None), (2, None), (4, 3), (1, 4), (5, 4)])

    def test_any_number_is_an_id(self):
        least, most = -2**63, 2**63 - 1
        edges = [(most, least), (least, -1), (-1, 4294967296)]
        want = [(most, None), (least, most), (-1, least), (4294967296, -1)]
        # repr() of the least integer is not a literal of SQL
        for name in ("dfs", "bfs"):
            sql = (f"__intrinsic_{name}((SELECT __intrinsic_graph_agg(a, b) FROM ("
                   + " UNION ALL ".join(
                       f"SELECT {a} AS a, {b} AS b" for a, b in edges).replace(
                           str(least), "-9223372036854775807 - 1") + f")), {array([most])})")
            self.assertEqual(self.rows(table(sql, "node_id", "parent_node_id")), want)
        self.assertEqual(sorted(self.walk("dfs", [(1, 2)], [2**40, 1])),
                         [(1, None), (2, 1), (2**40, None)], "a start beside the graph")

    def test_null_and_nothing(self):
        self.assertEqual(self.walk("dfs", [(2, 1), (1, None), (0, None)], [2]), [(2, None), (1, 2)])
        none = f"(SELECT __intrinsic_graph_agg(a, b) FROM {values([(1, 2)])} WHERE 0)"
        for name in ("dfs", "bfs"):
            for a, b in ((none, array([1])), (graph([(1, 2)]), "NULL"), ("NULL", "NULL"),
                         ("7", array([1])), (array([1]), graph([(1, 2)]))):
                self.assertEqual(self.rows(table(f"__intrinsic_{name}({a}, {b})", "node_id",
                                                 "parent_node_id")), [])

    def test_wrong_values(self):
        for sql, why in (("SELECT __intrinsic_array_agg(NULL)", "a value is NULL"),
                         ("SELECT __intrinsic_array_agg(x'00')", "a value is a BLOB"),
                         (f"SELECT __intrinsic_array_agg(a) FROM {values([(1,), ('x',)])}",
                          "different types"),
                         ("SELECT __intrinsic_struct('a')", "as many values"),
                         ("SELECT __intrinsic_struct(1, 2)", "must be texts"),
                         ("SELECT __intrinsic_struct('a', x'00')", "BLOB"),
                         ("SELECT __intrinsic_row_dataframe_agg('a')", "pairs of a name"),
                         ("SELECT __intrinsic_row_dataframe_agg('a', x'00')", "BLOB"),
                         ("SELECT __intrinsic_row_dataframe_agg(1, 1)", "name of a column"),
                         (f"SELECT __intrinsic_row_dataframe_agg('{'a' * 64}', 1)", "less than 64"),
                         (table(f"__intrinsic_dfs({graph([(1, 2)])}, {array([1])})", "other"),
                          "no column other")):
            self.fails(sql, why)
        self.ask("SELECT __intrinsic_struct('a', 'b', 1, NULL), __intrinsic_struct()")

    def bounded(self, edges, roots, is_floor):
        def column(rows, name):
            return f"(SELECT RepeatedField({name}) FROM {values(rows)})"
        return self.rows(
            f"SELECT * FROM __intrinsic_dfs_weight_bounded({column(edges, 'a')}, "
            f"{column(edges, 'b')}, {column(edges, 'c')}, {column(roots, 'a')}, "
            f"{column(roots, 'b')}, {is_floor})")

    def test_bounded_by_weight(self):
        edges = [(1, 2, 1), (2, 3, 1), (3, 4, 1), (2, 5, 0)]
        self.assertEqual(self.bounded(edges, [(1, 1), (3, 9), (77, 5)], 0),
                         [(1, 1, None), (1, 2, 1), (3, 3, None), (3, 4, 3), (77, 77, None)])
        self.assertEqual(self.bounded(edges, [(1, 1), (3, 0)], 1),
                         [(1, 1, None), (1, 2, 1), (1, 3, 2), (3, 3, None), (3, 4, 3)])
        self.assertEqual(self.bounded([(1, 2, -1), (1, 3, 2**40)], [(1, 5)], 0), [(1, 1, None)],
                         "no weight is negative")
        self.assertEqual(self.bounded([(1, 1, 0), (1, 2, 0), (2, 1, 0)], [(1, 0)], 0),
                         [(1, 1, None), (1, 2, 1)])

    def test_bounded_arguments(self):
        one = "(SELECT RepeatedField(1))"
        two = "(SELECT RepeatedField(a) FROM (SELECT 1 AS a UNION ALL SELECT 2))"
        self.assertEqual(self.rows(
            "SELECT * FROM __intrinsic_dfs_weight_bounded(NULL, NULL, NULL, NULL, NULL, 0)"), [])
        self.assertEqual(self.rows(
            f"SELECT * FROM __intrinsic_dfs_weight_bounded(NULL, NULL, NULL, {one}, {one}, 0)"), [])
        for arguments in (f"{one}, {two}, {one}, {one}, {one}",
                          f"{one}, {one}, {two}, {one}, {one}",
                          f"{one}, {one}, {one}, {one}, {two}",
                          f"x'00', {one}, {one}, {one}, {one}",
                          f"'text', {one}, {one}, {one}, {one}"):
            self.fails(f"SELECT * FROM __intrinsic_dfs_weight_bounded({arguments}, 0)",
                       "made by RepeatedField")

    def test_a_million_edges(self):
        begin = time.monotonic()
        make = (f"CREATE PERFETTO TABLE e AS {MILLION} SELECT i * 4294967311 AS s, ((i * 7919) % "
                "1000000 + 1) * 4294967311 AS d FROM n; ")
        for name in ("dfs", "bfs"):
            out = self.ask(
                make + table(
                    f"__intrinsic_{name}((SELECT __intrinsic_graph_agg(s, d) "
                    "FROM e), (SELECT __intrinsic_array_agg(s) FROM e))",
                    "node_id", what="count(*) AS n, count(DISTINCT node_id) AS d"))
            self.assertEqual(out, "n,d\n1000000,1000000\n")
        out = self.ask(
            make + "SELECT count(*) AS n FROM __intrinsic_dfs_weight_bounded((SELECT "
                   "RepeatedField(s) FROM e), (SELECT RepeatedField(d) "
                   "FROM e), (SELECT RepeatedField(1) FROM e), (SELECT RepeatedField(s) "
                   "FROM e), (SELECT RepeatedField(0) FROM e), 0)")
        self.assertEqual(out, "n\n1000000\n")
        self.assertLess(time.monotonic() - begin, 120)


class Dominators(Case):
    def tree(self, edges, root):
        return self.rows(
            table(f"(SELECT __intrinsic_dominator_tree(a, b, {root}) FROM {values(edges)})",
                  "node_id", "dominator_node_id"))

    def test_the_tree(self):
        self.assertEqual(self.tree([(1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 4)], 1),
                         [(1, None), (2, 1), (4, 1), (5, 4), (3, 1)])
        self.assertEqual(self.tree([(0, 10), (10, 10), (10, 11), (11, 10)], 0),
                         [(0, None), (10, 0), (11, 10)])
        self.assertEqual(self.tree([(0, 1), (1, 2), (99, 2), (98, 99)], 0),
                         [(0, None), (1, 0), (2, 1)], "98 and 99 are not reached")
        self.assertEqual(self.tree([(-7, 2**50), (2**50, -2**50)], -7),
                         [(-7, None), (2**50, -7), (-2**50, 2**50)])

    def test_against_the_definition(self):
        """A node dominates another if no walk from the root reaches the other without it."""
        seed = 1
        for _ in range(12):
            edges = []
            for _ in range(24):
                seed = (seed * 1103515245 + 12345) % 2**31
                edges.append((seed // 65536 % 12, seed // 1048576 % 12))
            edges.append((0, 1))
            reach = self.reached(edges, None)
            want = set()
            for node in reach - {0}:
                above = {other for other in reach - {node}
                         if node not in self.reached(edges, other)}
                # the nearest dominator is dominated by all other dominators
                want.add((node,
                          max(above, key=lambda d: sum(d not in self.reached(edges, o)
                                                       for o in above - {d}))))
            self.assertEqual(set(self.tree(edges, 0)), want | {(0, None)}, edges)

    @staticmethod
    def reached(edges, without):
        seen, stack = set(), [0]
        while stack:
            node = stack.pop()
            if node != without and node not in seen:
                seen.add(node)
                stack += [b for a, b in edges if a == node]
        return seen

    def test_wrong_roots(self):
        self.fails(table(f"(SELECT __intrinsic_dominator_tree(a, b, 9) FROM {values([(1, 2)])})",
                         "node_id"), "no edge of the graph has the root")
        self.fails(table(f"(SELECT __intrinsic_dominator_tree(a, b, 2) FROM {values([(1, 2)])})",
                         "node_id"), "to another node")
        self.assertEqual(
            self.rows(table(
                f"(SELECT __intrinsic_dominator_tree(a, b, NULL) FROM {values([(1, 2)])} WHERE 0)",
                "node_id")), [])

    def test_a_long_chain_with_edges_back(self):
        begin = time.monotonic()
        out = self.ask(
            f"{MILLION}, e(s, d) AS (SELECT i, i + 1 FROM n UNION ALL SELECT i + 1, i FROM n) " +
            table("(SELECT __intrinsic_dominator_tree(s, d, 1) FROM e)", "node_id",
                  "dominator_node_id",
                  what="count(*) AS n, sum(node_id - dominator_node_id) AS s"))
        self.assertEqual(out, "n,s\n1000001,1000000\n")
        self.assertLess(time.monotonic() - begin, 120)


class Scans(Case):
    def scan(self, name, edges, init, step, columns):
        names = ", ".join(f"'{c}', {'abcdefg'[i]}" for i, c in enumerate(("id",) + columns))
        value = (f"__intrinsic_graph_{name}({graph(edges)}, (SELECT "
                 f"__intrinsic_row_dataframe_agg({names}) FROM {values(init)}), '{step}', "
                 f"'({', '.join(columns)})')")
        return table(value, "id", *columns,
                     tail="ORDER BY " + ", ".join(str(i + 1) for i in range(len(columns) + 1)))

    def test_a_row_for_each_path(self):
        sql = self.scan("scan", [(0, 1), (0, 2), (1, 2), (2, 3)], [(0, 0, "x"), (1, 0, "y")],
                        "(SELECT id, depth + 1 AS depth, name FROM $table)",
                        ("depth", "name"))
        self.assertEqual(self.rows(sql), [(0, 0, "x"), (1, 0, "y"), (1, 1, "x"), (2, 1, "x"),
                                          (2, 1, "y"), (2, 2, "x"), (3, 2, "x"), (3, 2, "y"),
                                          (3, 3, "x")])
        sql = self.scan("scan", [(1, 2), (2, 1)], [(1, 0)],
                        "(SELECT id, n + 1 AS n FROM $table WHERE n < 3)", ("n",))
        self.assertEqual(self.rows(sql), [(1, 0), (1, 2), (2, 1), (2, 3)], "the query ends a cycle")

    def test_a_row_for_each_node(self):
        sql = self.scan("aggregating_scan", [(0, 1), (0, 2), (1, 2), (2, 3), (4, 5)],
                        [(0, 0), (4, 0)],
                        "(SELECT id, max(n) + 1 AS n FROM $table GROUP BY id)", ("n",))
        self.assertEqual(self.rows(sql), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (5, 1)])
        sql = self.scan("aggregating_scan", [(1, 2), (2, 1), (2, 2)], [(1, 0)],
                        "(SELECT id, sum(n) + 1 AS n FROM $table GROUP BY id)", ("n",))
        self.assertEqual(self.rows(sql)[0], (1, 0), "a cycle ends")

    def test_kinds_of_values(self):
        step = "(SELECT id, x / 2.0 AS x, nullif(t, ''b'') AS t FROM $table)"
        sql = self.scan("scan", [(1, 2), (2, -3)], [(1, 3, "a"), (2, None, "b")], step, ("x", "t"))
        self.assertEqual(sorted(map(str, self.rows(sql))),
                         sorted(map(str, [(-3, None, None), (-3, "0.75", "a"), (1, "3.0", "a"),
                                          (2, None, "b"),
                                          (2, "1.5", "a")])))
        sql = self.scan("scan", [(1, 2)], [(1, "a")], "(SELECT id, 5 AS x FROM $table)", ("x",))
        self.fails(sql, "the column x has values that no column can have together")
        sql = self.scan("scan", [(1, 2)], [(1, 2**60)], "(SELECT id, 0.5 AS x FROM $table)", ("x",))
        self.fails(sql, "the column x has values that no column can have together")
        self.fails(self.scan("scan", [(1, 2)], [(1, 1)], "(SELECT id, x''00'' AS x FROM $table)",
                             ("x",)), "a step gave a BLOB")

    def test_the_table_may_be_read_twice(self):
        sql = self.scan("scan", [(1, 2), (1, 3)], [(1, 1)],
                        "(SELECT a.id, a.n + b.n AS n FROM $table a JOIN $table b "
                        "WHERE a.id <= b.id)", ("n",))
        self.assertEqual(self.rows(sql), [(1, 1), (2, 2), (2, 2), (3, 2)])

    def test_nothing(self):
        for name in ("scan", "aggregating_scan"):
            empty = ("(SELECT __intrinsic_row_dataframe_agg('id', a, 'n', a) "
                     f"FROM {values([(1,)])} WHERE 0)")
            self.assertEqual(
                self.rows(table(
                    f"__intrinsic_graph_{name}({graph([(1, 2)])}, {empty}, '(SELECT * "
                    "FROM $table)', '(n)')", "id", "n")), [])
            rows = "(SELECT __intrinsic_row_dataframe_agg('id', 5, 'n', 6))"
            self.assertEqual(
                self.rows(table(
                    f"__intrinsic_graph_{name}(NULL, {rows}, '(SELECT id, n FROM $table)', '(n)')",
                    "id", "n")), [(5, 6)])

    def test_errors(self):
        for name in ("scan", "aggregating_scan"):
            for init, step, columns, why in (("'id', 1, 'n', 1",
                                              "(SELECT id, nope AS n FROM $table)", "(n)",
                                              "no such column: nope"),
                                             ("'id', 1, 'n', 1", "(SELECT id FROM $table)", "(n)",
                                              "columns of the first rows"),
                                             ("'id', 1, 'n', 1", "(SELECT id, n FROM $table)",
                                              "(m)",
                                              "the column id and then those of the list (m)"),
                                             ("'n', 1, 'id', 1", "(SELECT id, n FROM $table)",
                                              "(n)", "the column id and then"),
                                             ("'id', 'x', 'n', 1", "(SELECT id, n FROM $table)",
                                              "(n)", "must be integers"),
                                             ("'id', 1, 'n', 1", "(SELECT 1 AS id, 1 AS n)", "(n)",
                                              "must read $table"),
                                             ("'id', 1, 'n', 1",
                                              "(SELECT id, abs(-9223372036854775807 - 1) AS n "
                                              "FROM $table)", "(n)", "overflow")):
                rows = f"(SELECT __intrinsic_row_dataframe_agg({init}))"
                self.fails(
                    table(f"__intrinsic_graph_{name}({graph([(1, 2)])}, {rows}, '{step}', "
                          f"'{columns}')", "id", "n"), why)
            self.fails(table(f"__intrinsic_graph_{name}(NULL, NULL, NULL, '(n)')", "id"), "is NULL")
        rows = "(SELECT __intrinsic_row_dataframe_agg('id', 1, 'n', 1))"
        self.fails(
            table(f"__intrinsic_graph_aggregating_scan({graph([(1, 2)])}, {rows}, '(SELECT id, "
                  "n AS other FROM $table)', '(n)')", "id", "n"),
            "columns of the first rows")

    def test_a_million_rows(self):
        begin = time.monotonic()
        make = (f"CREATE PERFETTO TABLE e AS {MILLION} SELECT i AS s, i / 100 * 100 AS d, i - 1 AS "
                "p FROM n; ")
        step = "(SELECT id, sum(n) AS n FROM $table GROUP BY id)"
        for edge in ("s, d", "s, p"):
            if edge == "s, d":
                want, count = 100, 1010001
            else:
                want, count = 1000000, 2000000
            out = self.ask(
                make + table(
                    f"__intrinsic_graph_aggregating_scan((SELECT __intrinsic_graph_agg({edge}) "
                    "FROM e), (SELECT __intrinsic_row_dataframe_agg('id', s, 'n', 1) "
                    f"FROM e), '{step}', '(n)')", "id", "n",
                    what="count(*) AS c, max(n) AS m"))
            self.assertEqual(out, f"c,m\n{count},{want}\n", edge)
        self.assertLess(time.monotonic() - begin, 180)

    def test_steps_that_join_a_large_table(self):
        """2000 steps: if each step built an index of 200000 ids anew, the steps would take
        minutes."""
        begin = time.monotonic()
        make = ("CREATE PERFETTO TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                "SELECT i + 1 FROM n WHERE i < 200000) SELECT i AS id, iif(i % 2000 = 1, NULL, "
                "i - 1) AS parent_id, 1 AS x FROM n; ")
        out = self.ask(
            make + table(
                "__intrinsic_graph_scan((SELECT __intrinsic_graph_agg(parent_id, id) FROM t "
                "WHERE parent_id IS NOT NULL), (SELECT __intrinsic_row_dataframe_agg('id', id, "
                "'n', x) FROM t WHERE parent_id IS NULL), '(SELECT s.id, s.n + t.x AS n "
                "FROM $table s JOIN t USING (id))', '(n)')", "id", "n",
                what="count(*) AS c, sum(n) AS s"))
        self.assertEqual(out, "c,s\n200000,200100000\n")
        self.assertLess(time.monotonic() - begin, 60)


class Trees(Case):
    COLUMNS = ("_tree_id", "_tree_parent_id", "id", "parent_id", "name")

    def dominated(self, rows):
        """Rows of (id, parent_id, self_size, native_size, self_count)."""
        names = ("id", "parent_id", "self_size", "native_size", "self_count")
        pairs = ", ".join(f"'{name}', {letter}" for name, letter in zip(names, "abcde"))
        return self.rows(table(
            f"__intrinsic_tree_dominator_summary((SELECT __intrinsic_tree_from_table({pairs}) "
            f"FROM {values(rows)} WHERE a IS NOT NULL))", "id", "idom_id", "dominated_obj_count",
            "dominated_size_bytes", "dominated_native_size_bytes", "depth"))

    def test_dominator_summary(self):
        self.assertEqual(self.dominated([(9, 4, 8, None, 1), (4, None, 1, 16, 1), (5, 4, 2, 0, 1),
                                         (7, None, 3, 0, 1)]),
                         [(4, None, 3, 11, 16, 1), (9, 4, 1, 8, 0, 2), (5, 4, 1, 2, 0, 2),
                          (7, None, 1, 3, 0, 1)])
        self.assertEqual(self.dominated([(None, 1, 1, 1, 1)]), [], "no rows")
        with self.assertRaises(AssertionError) as error:
            self.dominated([(1, None, "x", 1, 1)])
        self.assertIn("of integers", str(error.exception))

    def tree(self, rows):
        return table(
            "__intrinsic_tree_to_table((SELECT __intrinsic_tree_from_table('id', a, 'parent_id', "
            f"b, 'name', c) FROM {values(rows)}))",
            *self.COLUMNS)

    def test_parents_come_first(self):
        self.assertEqual(self.rows(self.tree([(30, 10, "x"), (10, None, None), (21, 20, "y"),
                                              (20, None, "x"), (11, 10, "z")])),
                         [(0, None, 10, None, None), (1, 0, 30, 10, "x"), (2, None, 20, None, "x"),
                          (3, 2, 21, 20, "y"), (4, 0, 11, 10, "z")])
        self.assertEqual(self.rows(self.tree([(-10, None, "a"), (10**10, -10, "b")])),
                         [(0, None, -10, None, "a"), (1, 0, 10**10, -10, "b")])

    def test_errors(self):
        for rows, why in (([(1, None, "a"), (1, None, "b")], "duplicate id"),
                          ([(1, 1, "a")], "cycle detected"),
                          ([(1, 2, "a"), (2, 3, "b"), (3, 1, "c")], "cycle detected"),
                          ([(1, 7, "a")], "parent_id not found"),
                          ([("x", None, "a")], "an id is not an integer"),
                          ([(1, "x", "a")], "a parent_id is not an integer"),
                          ([(1, None, "a"), (2, 1, 5)],
                           "a column has values that no column can have together")):
            self.fails(self.tree(rows), why)
        self.fails("SELECT __intrinsic_tree_to_table(5)", "not a tree")
        self.fails("SELECT __intrinsic_tree_from_table('id', 1)", "id, parent_id and up to 28")
        self.fails("SELECT __intrinsic_tree_from_table('id', 1, 'parent_id', NULL, 'x')",
                   "pairs of a name")
        self.assertEqual(self.ask(
            "SELECT __intrinsic_tree_from_table('id', 1, 'parent_id', NULL) AS x WHERE 0"), "x\n\n")

    def partition(self, rows):
        return table(f"(SELECT __intrinsic_structural_tree_partition(a, b, c) FROM {values(rows)})",
                     "node_id", "parent_node_id", "group_key")

    def test_partition(self):
        rows = [(1, None, 1), (2, 1, 1), (3, 2, 2), (4, 2, 2), (5, 4, 1), (6, 4, -3), (7, 4, 2),
                (2**50, 4, 1), (99, 98, 1)]
        self.assertEqual(self.rows(self.partition(rows)),
                         [(1, None, 1), (2, 1, 1), (4, None, 2), (2**50, 2, 1), (7, 4, 2),
                          (6, None, -3), (5, 2, 1),
                          (3, None, 2)])
        self.assertEqual(self.rows(self.partition([(7, None, None)])), [(7, None, 0)])
        none = ("(SELECT __intrinsic_structural_tree_partition(a, b, c) "
                f"FROM {values([(7, None, 1)])} WHERE 0)")
        self.assertEqual(self.rows(table(none, "node_id")), [])

    def test_partition_errors(self):
        for rows, why in (([(1, None, 1), (2, None, 1)], "several rows have no parent"),
                          ([(1, 2, 1)], "no row is without a parent"),
                          ([(1, None, 1), (2, 1, 1), (1, 2, 1)], "the same id")):
            self.fails(self.partition(rows), why)

    def test_a_long_chain(self):
        begin = time.monotonic()
        make = (f"CREATE PERFETTO TABLE t AS {MILLION} SELECT i AS id, iif(i = 1, NULL, i - 1) AS "
                "parent_id, i % 7 AS g FROM n ORDER BY i DESC; ")
        out = self.ask(
            make + table(
                "__intrinsic_tree_to_table((SELECT __intrinsic_tree_from_table('id', id, "
                "'parent_id', parent_id, 'g', 'g' || g) FROM t))",
                "_tree_id", "id", "g",
                what="count(*) AS n, sum(_tree_id = id - 1) AS same, max(g) AS g"))
        self.assertEqual(out, "n,same,g\n1000000,1000000,g6\n")
        out = self.ask(
            make + table("(SELECT __intrinsic_structural_tree_partition(id, parent_id, g) FROM t)",
                         "node_id", "parent_node_id",
                         what="count(*) AS n, sum(node_id - parent_node_id = 7) AS same"))
        self.assertEqual(out, "n,same\n1000000,999993\n")
        self.assertLess(time.monotonic() - begin, 120)


class Forests(Case):
    def sums(self, rows):
        return table(f"(SELECT __intrinsic_forest_sums(a, b, c) FROM {values(rows)})", "id", "self",
                     "total")

    def reach(self, rows):
        return table(f"(SELECT __intrinsic_forest_reach(a, b, c) FROM {values(rows)})", "group_id",
                     "id", tail="ORDER BY 1, 2")

    def test_sums(self):
        tree = [(1, None, 1), (2, 1, None), (3, 2, 5), (4, 2, 7), (5, 1, None), (6, None, None)]
        self.assertEqual(self.rows(self.sums(tree)), [(1, 1, 13), (2, 0, 12), (3, 5, 5), (4, 7, 7)])
        # Values of a node add up; rows stand in any order; ids are any numbers; a parent may have
        # no row.
        far = -2**62
        self.assertEqual(self.rows(self.sums([(far, 2**62, 3), (far, None, 4), (2**62, 99, 0),
                                              (far, 2**62, None)])), [(far, 7, 7), (2**62, 0, 7)])
        self.assertEqual(self.ask(self.sums([(1, None, 2), (2, 1, 0.5)])),
                         "id,self,total\n1,2.0,2.5\n2,0.5,0.5\n")
        self.assertEqual(self.rows(self.sums([(None, None, 2), (1, None, 0)])), [(1, 0, 0)])
        self.assertEqual(self.rows(table("(SELECT __intrinsic_forest_sums(1, 2, 3) WHERE 0)", "id",
                                         "self", "total")), [])

    def test_reach(self):
        tree = [(1, None, None), (2, 1, None), (3, 2, None), (4, 1, None)]
        self.assertEqual(self.rows(self.reach(tree + [(3, None, 7), (4, None, 7), (3, None, 7),
                                                      (4, None, -1), (2, None, 7)])),
                         [(-1, 1), (-1, 4), (7, 1), (7, 2), (7, 3), (7, 4)])
        self.assertEqual(self.rows(self.reach(tree)), [])
        self.assertEqual(self.rows(self.reach([(2**60, None, 1), (-5, 2**60, 2)])),
                         [(1, 2**60), (2, -5), (2, 2**60)])

    def test_errors(self):
        for make in (self.sums, self.reach):
            self.fails(make([(1, 2, 1), (2, 1, None)]),
                       "forest: the parents of nodes form a circle")
            self.fails(make([(1, 1, 1)]), "forest: the parents of nodes form a circle")
            self.fails(make([(1, 2, 1), (1, 3, None), (2, None, 1), (3, None, 1)]),
                       "forest: a node has two parents")
        self.fails(self.reach([(1, None, 0.5)]), "forest: a group is not an integer")

    def test_a_million_nodes(self):
        begin = time.monotonic()
        chain = (f"(SELECT {{}}(i, i - 1, iif(i % 2, {{}}, NULL)) FROM ({MILLION} SELECT i FROM n "
                 "ORDER BY i DESC))")
        self.assertEqual(
            self.rows(table(chain.format("__intrinsic_forest_sums", "i"), "id", "self", "total",
                            what="count(*), sum(self), max(total)")),
            [(999999, 250000000000, 250000000000)])
        self.assertEqual(self.rows(table(chain.format("__intrinsic_forest_reach", "i % 4"),
                                         "group_id", "id", what="group_id, count(*)",
                                         tail="GROUP BY 1")), [(1, 999997), (3, 999999)])
        self.assertLess(time.monotonic() - begin, 120)


class CriticalPaths(Case):
    COLUMNS = ("root_id", "depth", "ts", "dur", "blocker_id", "blocker_utid", "parent_id")

    def path(self, nodes, roots):
        value = ("__intrinsic_critical_path_walk((SELECT __intrinsic_wakeup_graph_agg(a, b, c, d, "
                 f"e, f, g) FROM {values(nodes)}), {array(roots)})")
        return self.rows(table(value, *self.COLUMNS, tail="ORDER BY root_id, ts"))

    def test_sleep_belongs_to_the_waker(self):
        # id, utid, ts, dur, idle_dur, waker_id, prev_id
        nodes = [(1, 10, 100, 50, 20, None, None), (2, 20, 160, 40, 80, 1, None),
                 (3, 30, 300, 10, 50, 2, None)]
        self.assertEqual(self.path(nodes, [2]),
                         [(2, 1, 100, 50, 1, 10, 2), (2, 0, 160, 40, 2, 20, 2)])
        self.assertEqual(self.path(nodes, [3, 77]), [(3, 0, 300, 10, 3, 30, 3)])

    def test_what_lies_before(self):
        nodes = [(1, 10, 100, 30, None, None, None), (2, 10, 200, 30, 50, None, 1),
                 (3, 30, 300, 10, 250, 2, None)]
        self.assertEqual(self.path(nodes, [3]),
                         [(3, 1, 100, 30, 1, 10, 3), (3, 1, 150, 50, 2, 10, 3),
                          (3, 1, 200, 30, 2, 10, 3),
                          (3, 0, 300, 10, 3, 30, 3)])

    def test_cycles_and_large_numbers_end(self):
        self.assertEqual(self.path([(1, 1, 10, 5, 4, 2, 2), (2, 2, 10, 5, 4, 1, 1)], [1]),
                         [(1, 0, 10, 5, 1, 1, 1)])
        self.assertEqual(self.path([(1, 1, 10, 5, 2, None, 1), (2, 2, 20, 5, 18, 1, None)],
                                   [2])[-1], (2, 0, 20, 5, 2, 2, 2))
        most = 2**63 - 1
        self.assertEqual(len(self.path([(-1, 1, most, most, most, -1, -1)], [-1])), 0)
        self.assertEqual(self.path([(-1, 1, -most, most, most, -1, -1)], [-1]),
                         [(-1, 0, -most, most, -1, 1, -1)])

    def test_nothing(self):
        for a, b in (("NULL", array([1])), ("NULL", "NULL"), (graph([(1, 2)]), array([1]))):
            self.assertEqual(
                self.rows(table(f"__intrinsic_critical_path_walk({a}, {b})", *self.COLUMNS)), [])

    def test_flat_has_no_gaps(self):
        def flat(nodes, roots):
            value = ("__intrinsic_critical_path_flat((SELECT __intrinsic_wakeup_graph_agg(a, b, "
                     f"c, d, e, f, g) FROM {values(nodes)}), {array(roots)})")
            return self.rows(table(value, "root_id", "root_utid", "id", "utid", "ts", "dur"))

        nodes = [(1, 10, 100, 30, None, None, None), (2, 10, 200, 30, 50, None, 1),
                 (3, 30, 300, 10, 250, 2, None)]
        self.assertEqual(flat(nodes, [3]), [(3, 30, 1, 10, 100, 30), (3, 30, 3, 30, 130, 20),
                                            (3, 30, 2, 10, 150, 50), (3, 30, 2, 10, 200, 30),
                                            (3, 30, 3, 30, 230, 70), (3, 30, 3, 30, 300, 10)])
        self.assertEqual(flat(nodes, [77, 1]), [(1, 10, 1, 10, 100, 30)])
        self.assertEqual(flat(nodes, [77]), [])

    def test_spans_between_sleeps(self):
        # id, utid, ts, dur, state, waker_id, is_irq
        states = [(1, 1, 0, 10, "Running", None, 0), (2, 2, 0, 5, "R", None, 0),
                  (3, 2, 5, 5, "Running", None, 0), (4, 2, 10, 20, "S", None, 0),
                  (5, 1, 10, 5, "R+", None, 0), (6, 1, 15, 25, "Running", None, 0),
                  (7, 2, 30, 2, "R", 6, 0), (8, 2, 32, 8, "Running", None, 0),
                  (9, 2, 40, 10, "D", None, 0), (10, 2, 50, 1, "R", 6, 1),
                  (11, 2, 51, 9, "Running", None, 0), (12, 2, 60, 10, "S", None, 0),
                  (13, 1, 65, 5, "R", 11, 0), (14, 2, 70, 1, "R", 11, 0),
                  (15, 2, 71, -1, "Running", None, 0)]
        value = f"(SELECT __intrinsic_wakeup_spans_agg(a, b, c, d, e, f, g) FROM {values(states)})"
        names = ("id", "utid", "waker_id", "ts", "idle_state", "idle_id", "idle_dur", "prev_id",
                 "dur")
        self.assertEqual(self.rows(table(value, *names)), [
            (2, 2, None, 0, None, None, None, None, 10), (7, 2, None, 30, ord("S"), 4, 20, 2, 10),
            (10, 2, None, 50, 0, 9, 10, 7, 10),
            (14, 2, 10, 70, ord("S"), 12, 10, 10, 1)])
        none = (f"(SELECT __intrinsic_wakeup_spans_agg(a, b, c, d, e, f, g) FROM {values(states)} "
                "WHERE 0)")
        self.assertEqual(self.rows(table(none, *names)), [])

    def test_states_before(self):
        # id, utid, runs, is_wakeup
        states = [(1, 1, 1, 0), (2, 1, 0, 1), (3, 2, 0, 0), (4, 1, 1, 0), (5, 1, 0, 0),
                  (6, 2, 1, 0), (7, 1, 1, 0)]
        value = f"(SELECT __intrinsic_previous_runnable_agg(a, b, c, d) FROM {values(states)})"
        self.assertEqual(
            self.rows(table(value, "id", "prev_runnable_id", "prev_wakeup_runnable_id")),
            [(1, None, None), (4, 2, 2), (6, 3, None), (7, 5, 2)])

    def test_a_million_wakeups(self):
        begin = time.monotonic()
        out = self.ask(f"CREATE PERFETTO TABLE w AS {MILLION} SELECT i FROM n; " + table(
            "__intrinsic_critical_path_walk((SELECT __intrinsic_wakeup_graph_agg(i, i % 50, "
            "i * 10, 8, 5, iif(i % 3 = 0, i - 1, NULL), i - 50) "
            "FROM w), (SELECT __intrinsic_array_agg(i) FROM w))", *self.COLUMNS,
            what="count(*) AS n, sum(dur) AS dur"))
        self.assertEqual(out, "n,dur\n2000000,12333334\n")
        self.assertLess(time.monotonic() - begin, 120)


class Stacks(Case):
    def test_cat_stacks(self):
        for arguments, want in (("'A', 'B'", "0A030A01420A030A0141"),
                                ("'A', cat_stacks('B', NULL, 'C')",
                                 "0A030A01430A030A01420A030A0141"), ("NULL", ""),
                                ("", ""), ("'" + "x" * 200 + "'", "0ACB010AC801" + "78" * 200)):
            self.assertEqual(self.value(f"hex(cat_stacks({arguments}))").strip('"'), want)
        self.fails("SELECT cat_stacks('A', 1)", "not numbers")

    def heap(self, sql, code=0):
        return self.ask(sql, db=test_query.GOLDEN / "heap_continuous.pftrace", code=code)

    def test_stacks_of_the_database(self):
        self.assertEqual(
            self.heap(
                "SELECT hex(stack_from_stack_profile_callsite(id)) AS a, "
                "hex(stack_from_stack_profile_callsite(id, 1)) AS b, "
                "hex(stack_from_stack_profile_frame(frame_id)) AS c FROM stack_profile_callsite "
                "WHERE id = 1"),
            "a,b,c\n0A021001,0A021801,0A022001\n")
        self.assertEqual(
            self.heap(
                "SELECT stack_from_stack_profile_callsite(NULL) AS a, "
                "stack_from_stack_profile_frame(NULL) AS b"), "a,b\n,\n")
        for call, why in (("callsite(99)", "no row of the table"),
                          ("frame(-1)", "no row of the table"),
                          ("callsite('x')", "must be integers"),
                          ("callsite()", "id of a callsite")):
            self.assertIn(why, self.heap(f"SELECT stack_from_stack_profile_{call}", code=1))

    def profile(self, sql):
        """{names of a stack, innermost first: values} of the profile that a query returns."""
        fields = list(
            messages(bytes.fromhex(self.heap(f"SELECT hex(p) AS p FROM ({sql})").splitlines()[1])))
        texts = [data.decode() for number, data in fields if number == 6]
        functions = {f[1]: texts[f[2]] for number, data in fields if number == 5
                     for f in [dict(messages(data))]}
        locations = {f[1]: functions[dict(messages(f[4]))[1]] for number, data in fields
                     if number == 4 for f in [dict(messages(data))]}
        samples = [dict(messages(data)) for number, data in fields if number == 2]
        return {",".join(locations[i] for i in s[1]): list(s[2]) for s in samples}

    def test_profile(self):
        rows = values([("A", "B", 4), ("A", "B", 8), ("A", "C", 16), ("C", "B", 23)])
        self.assertEqual(
            self.profile(
                "SELECT experimental_profile(cat_stacks(a, b), 'type', 'unit', c, 't', 'u', 1) AS "
                f"p FROM {rows}"),
            {"B,A": [12, 2], "C,A": [16, 1], "B,C": [23, 1]})
        self.assertEqual(
            self.profile(
                "SELECT experimental_profile(cat_stacks('top', "
                "stack_from_stack_profile_callsite(id))) AS p FROM stack_profile_callsite"),
            {"main,top": [1], "leaf_a,main,top": [1], "leaf_b,main,top": [1],
             "leaf_c,main,top": [1]})

    def test_errors_of_profiles(self):
        for arguments, why in (("1", "must be a BLOB"), ("x'0a', 'a'", "triples"),
                               ("x'', 'a', 'b', 1.5", "an integer"),
                               ("x'', 1, 'b', 1", "must be texts"),
                               ("x'0a05'", "damaged"), ("x'0a030a05'", "damaged"),
                               ("x'0a021063'", "that the tables lack")):
            self.assertIn(why, self.heap(f"SELECT experimental_profile({arguments})", code=1),
                          arguments)
        self.assertIn("too large",
                      self.heap(
                          "SELECT experimental_profile(cat_stacks('a'), 'a', 'b', x) "
                          "FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 1)", code=1))
        self.assertEqual(self.heap("SELECT experimental_profile(x'', 'a', 'b', 1) AS x WHERE 0"),
                         "x\n\n")


def messages(data):
    """(number of the field, value) of a message; packed numbers are bytes below 128 here."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value

    at = 0
    while at < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size
        else:
            yield key >> 3, varint()


if __name__ == "__main__":
    unittest.main()
