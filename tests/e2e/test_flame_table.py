# SPDX-License-Identifier: Apache-2.0
"""__intrinsic_flamegraph: flame graphs of any tree, as a table."""
import collections
import random
import unittest

from test_graph_functions import Case, values

COLUMNS = ("id", "parent_id", "name", "value", "g", "s")


def source(rows):
    """A subquery that gives the rows. Their columns are id, parent_id, name, value[, g, s]."""
    n = len(rows[0])
    names = ", ".join(f"{letter} AS {name}" for letter, name in zip("abcdefg", COLUMNS[:n]))
    return f"(SELECT {names} FROM {values(rows)})"


# main calls a twice, and one of the two calls b; c is a second root.
ROWS = [(1, None, "main", 1), (2, 1, "a", 2), (3, 1, "a", 3), (4, 2, "b", 4), (5, None, "c", 5)]


class Flames(Case):
    def flames(self, rows, *config, what="name, depth, self_value, cumulative_value, x_start"):
        arguments = ", ".join("'" + str(c) + "'" for c in ("value", "value") + config)
        return self.rows(
            f"CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph({source(rows)});"
            f"SELECT {what} FROM f(__intrinsic_flamegraph_config({arguments}))")

    def test_views(self):
        self.assertEqual(self.flames(ROWS), [("main", 1, 1, 10, 0), ("c", 1, 5, 5, 10),
                                             ("a", 2, 5, 9, 0), ("b", 3, 4, 4, 0)])
        self.assertEqual(self.flames(ROWS, "view", "BOTTOM_UP"), [
            ("a", -1, 5, 5, 0), ("c", -1, 5, 5, 5), ("b", -1, 4, 4, 10), ("main", -1, 1, 1, 14),
            ("main", -2, 0, 5, 0), ("a", -2, 0, 4, 10), ("main", -3, 0, 4, 10)])
        self.assertEqual(self.flames(ROWS, "view", "PIVOT", "view_pattern", "^A$", "i"), [
            ("a", 1, 5, 9, 0), ("a", -1, 9, 9, 0), ("b", 2, 4, 4, 0), ("main", -2, 0, 9, 0)])
        self.assertEqual(self.flames(ROWS, "view", "FROM_FRAME", "view_pattern", "a", ""), [
            ("a", 1, 5, 9, 0), ("main", 1, 1, 1, 9), ("b", 2, 4, 4, 0)],
            "main has an a, too; the frame a inside begins anew")

    def test_parents_may_come_last(self):
        self.assertEqual(self.flames(list(reversed(ROWS)))[-1], ("b", 3, 4, 4, 0))

    def test_filters(self):
        self.assertEqual(self.flames(ROWS, "filter", "SHOW_STACK", "b", ""), [
            ("main", 1, 0, 4, 0), ("a", 2, 0, 4, 0), ("b", 3, 4, 4, 0)])
        self.assertEqual(self.flames(ROWS, "filter", "SHOW_STACK", "b", "", "filter", "SHOW_STACK",
                                     "c", ""), [])
        self.assertEqual(self.flames(ROWS, "filter", "HIDE_STACK", "^a", ""), [
            ("c", 1, 5, 5, 0), ("main", 1, 1, 1, 5)])
        self.assertEqual(self.flames(ROWS, "filter", "HIDE_FRAME", "^a", ""), [
            ("main", 1, 6, 10, 0), ("c", 1, 5, 5, 10), ("b", 2, 4, 4, 0)])
        self.assertEqual(self.flames(ROWS, "filter", "HIDE_FRAME", "main", "", what="name, depth"),
                         [("a", 1), ("c", 1), ("b", 2)], "a root without a frame has no weight")

    def test_properties(self):
        rows = [(1, None, "r", 0, None, 1), (2, 1, "x", 2, "m1", 0), (3, 1, "x", 3, "m2", 5)]
        self.assertEqual(
            self.flames(rows, "grouping", "g", "value", "s",
                        what="name, g, cumulative_value, self_s, cumulative_s"),
            [("r", None, 5, 1, 6), ("x", "m2", 3, 5, 5), ("x", "m1", 2, 0, 0)])
        self.assertEqual(
            self.flames(rows, "aggregate", "ONE_OR_SUMMARY", "g", "g", "aggregate", "SUM", "s",
                        "s", what="name, g, s, self_s"),
            [("r", None, 1, None), ("x", "m1 and 2 others", 5, None)])
        self.assertEqual(self.flames(rows, "aggregate", "CONCAT_WITH_COMMA", "s", "s",
                                     what="name, replace(s, ',', ' ')"),
                         [("r", 1), ("x", "0 5")])

    def test_super_root(self):
        what = "_tree_id, _tree_parent_id, depth, name, cumulative_value"
        sql = (f"CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph({source(ROWS)});"
               f"SELECT {what} FROM f(__intrinsic_flamegraph_config('value', 'value')) ")
        self.assertEqual(self.ask(sql + "WHERE __intrinsic_flamegraph_find(_tree_id, 'SUPER_ROOT')")
                         .splitlines()[1], "0,,0,,15.0")
        self.assertEqual(self.rows(sql + "LIMIT 1"), [(0, None, 1, "main", 10)])
        self.fails(sql + "WHERE __intrinsic_flamegraph_find(_tree_id, 'LEAF')", "SUPER_ROOT only")
        self.fails("SELECT __intrinsic_flamegraph_find(1, 'SUPER_ROOT')", "a condition")

    def test_many(self):
        """The sums of a random tree are equal to those of a simple computation."""
        random.seed(4)
        rows = [(i, None if i < 3 else random.randrange(max(0, i - 40), i), random.choice("abc"),
                 random.randrange(3)) for i in range(1500)]
        paths, down, up = [], collections.Counter(), collections.Counter()
        for i, parent, name, value in rows:
            paths.append((paths[parent] if parent is not None else ()) + (name,))
            for end in range(len(paths[i])):
                down[paths[i][:end + 1]] += value
                up[paths[i][::-1][:end + 1]] += value
        for want, view, sign in ((down, "TOP_DOWN", 1), (up, "BOTTOM_UP", -1)):
            got = {}
            lines = self.flames(rows, "view", view,
                                what="_tree_id, _tree_parent_id, name, depth, cumulative_value, "
                                     "x_start, x_end")
            by_id, ends = {}, {}
            for i, parent, name, depth, value, start, end in lines:
                by_id[i] = (by_id[parent] if parent is not None else ()) + (name,)
                self.assertEqual(depth, sign * len(by_id[i]))
                self.assertEqual(start, ends.get(parent, start if parent is not None else 0))
                ends[parent], ends[i] = end, start
                self.assertEqual(end - start, value)
                got[by_id[i]] = value
            self.assertEqual(got, {path: value for path, value in want.items() if value}, view)

    def test_nothing(self):
        sql = ("CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph((SELECT 1 AS id, 2 AS "
               "parent_id, '' AS name, 0 AS value, '' AS g WHERE FALSE));")
        call = "SELECT name, g FROM f(__intrinsic_flamegraph_config('value', 'value'))"
        self.assertEqual(self.rows(sql + call), [])

    def test_errors(self):
        def fails(why, rows, *config):
            with self.assertRaises(AssertionError) as error:
                self.flames(rows, *config)
            self.assertIn(why, str(error.exception))

        fails("non-negative", [(1, None, "a", -1)])
        fails("overflow", [(1, None, "a", 2**62), (2, 1, "b", 2**62)])
        fails("duplicate id", [(1, None, "a", 1), (1, None, "b", 1)])
        fails("cycle", [(1, 2, "a", 1), (2, 1, "b", 1)])
        fails("parent_id not found", [(1, 7, "a", 1)])
        fails("numbers and texts", [(1, None, "a", 1), (2, 1, "b", "x")])
        fails("must be numeric", [(1, None, "a", "x")])
        fails("there is no column nothing", ROWS, "grouping", "nothing")
        fails("require a view pattern", ROWS, "view", "PIVOT")
        fails("view is TOP_DOWN", ROWS, "view", "SIDEWAYS")
        fails("a ) is missing", ROWS, "filter", "SHOW_STACK", "(", "")
        fails("values are missing", ROWS, "filter", "SHOW_STACK")
        self.fails("CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph((SELECT 1 AS id))",
                   "must contain id, parent_id, name and value")
        self.fails("CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph", "one query is expected")
        self.fails("CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph((SELECT * FROM nothing))",
                   "nothing")

    def test_deep(self):
        """In a deep tree, the way up from each row has a limit, but the way down has no limit."""
        deep = ("(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
                "SELECT i AS id, nullif(i - 1, 0) AS parent_id, 'f' || i AS name, 1 AS value "
                "FROM n)")
        create = f"CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph({deep});"
        call = "SELECT count(*), max(depth) FROM f(__intrinsic_flamegraph_config('value', 'value'"
        self.assertEqual(self.rows(create + call + "))"), [(20000, 20000)])
        self.fails(create + call + ", 'view', 'BOTTOM_UP'))", "32 million frames")


if __name__ == "__main__":
    unittest.main()
