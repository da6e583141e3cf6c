# SPDX-License-Identifier: Apache-2.0
"""mmsql flamegraph: folded text against known answers, and a picture that is well-formed."""
import pathlib
import shutil
import sqlite3
import tempfile
import unittest
import xml.etree.ElementTree

import lib

TRACE = lib.ROOT / "tests" / "golden" / "heap_continuous.pftrace"
SVG = "{http://www.w3.org/2000/svg}"


class Flamegraph(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="flamegraph-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)

    def draw(self, *options, trace=TRACE, code=0):
        done = lib.run(lib.MMSQL, "flamegraph", *options, trace)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def boxes(self, *options, trace=TRACE):
        root = xml.etree.ElementTree.fromstring(self.draw(*options, trace=trace).encode())
        return {g.get("data-n"): g for g in root.iter(SVG + "g")}

    def test_folded(self):
        for options, want in (
                ([], ["main;leaf_a 32768", "main;leaf_c 12288"]),
                (["--total"], ["main;leaf_a 65536", "main;leaf_b 8192", "main;leaf_c 12288"]),
                (["--count"], ["main;leaf_a 8", "main;leaf_c 3"]),
                (["--at", "1100000100"], ["main;leaf_a 65536"]),
                (["--diff", "1100000100", "1105000100"],
                 ["main;leaf_a 65536 32768", "main;leaf_c 0 12288"]),
                (["--reverse-stack"], ["leaf_a;main 32768", "leaf_c;main 12288"]),
                (["--depth-limit", "1", "--reverse-stack"], ["leaf_a 32768", "leaf_c 12288"]),
                (["--pid", "4321", "--heap", "libc.malloc", "--process", "*alloc*"],
                 ["main;leaf_a 32768", "main;leaf_c 12288"])):
            with self.subTest(options):
                self.assertEqual(self.draw("--folded", *options).splitlines(), want)

    def test_boxes_are_as_wide_as_their_weight(self):
        boxes = self.boxes("--total")
        self.assertEqual({n: float(g.get("data-w")) for n, g in boxes.items()},
                         {"all": 1200, "main": 1200, "leaf_a": 914.2857, "leaf_b": 114.2857,
                          "leaf_c": 171.4286})
        self.assertEqual(boxes["leaf_a"].find(SVG + "title").text,
                         "leaf_a\n65,536 bytes (76.19%), itself 65,536")
        self.assertEqual(set(self.boxes("--total", "--min-percent", "10")),
                         {"all", "main", "leaf_a", "leaf_c"})

    def test_titles(self):
        for options, want in ((["--total"], "Allocated: 84.0 KiB, 86,016 bytes"),
                              ([], "Retained: 44.0 KiB, 45,056 bytes"),
                              (["--count"], "Retained: 11 allocations"),
                              (["--diff", "1100000100", "1105000100"],
                               "Retained: -20.0 KiB, 65,536 to 45,056 bytes (-20,480)")):
            self.assertIn(f">{want}</text>", self.draw(*options))

    def test_allocation_logs(self):
        log = self.dir / "alloc.log"
        log.write_text("+0,jthread[main], jclass[[I file: <UNKNOWN_FILE>], size[24, hex: 0x18]\n"
                       "+1,LA;::run()V\n+2,LA;::make()V\n=3,0;1;2\n3\n3\n"
                       "+4,jthread[pool;1], jclass[LB; file: B.java], size[16, hex: 0x10]\n=5,4;1\n"
                       "5\n=6,4\n")
        db = self.dir / "alloc.db"
        lib.run(lib.MMSQL, "convert", "-q", log, "-o", db)
        for options, want in (
                ([], ["main;A.run();A.make();int[] 2", "pool?1;A.run();B 1"]),
                (["--use-size"], ["main;A.run();A.make();int[] 48", "pool?1;A.run();B 16"]),
                (["--ignore-type"], ["main;A.run();A.make() 2", "pool?1;A.run() 1"]),
                (["--type-only"], ["int[] 2", "B 1"]),
                (["--thread-only", "--use-size"], ["main 48", "pool?1 16"]),
                (["--reverse-stack"], ["int[];A.make();A.run();main 2", "B;A.run();pool?1 1"]),
                (["--depth-limit", "1"], ["main;A.make();int[] 2", "pool?1;A.run();B 1"])):
            with self.subTest(options):
                for trace in (log, db):
                    self.assertEqual(self.draw("--folded", *options, trace=trace).splitlines(),
                                     want)
        self.assertIn(">Sampled: 64 bytes</text>", self.draw("--use-size", trace=log))
        self.assertEqual(set(self.boxes("--type-only", trace=log)), {"all", "int[]", "B"})
        self.assertIn("together", self.draw("--use-size", "--total", trace=log, code=2))
        self.assertIn("no samples of allocations", self.draw("--alloc-log", code=1))
        self.assertIn("no heap profile", self.draw("--total", trace=log, code=1))

    def test_frames_without_a_name(self):
        db = self.dir / "unnamed.db"
        lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", db)
        with sqlite3.connect(db) as handle:
            handle.execute("UPDATE stack_profile_frame SET name = '' WHERE name = 'leaf_a'")
        self.assertIn("main;[allocator] 32768", self.draw("--folded", trace=db).splitlines())

    def test_difference(self):
        boxes = self.boxes("--diff", "1100000100", "1105000100")
        self.assertEqual(boxes["leaf_a"].find(SVG + "title").text,
                         "leaf_a\n65,536 to 32,768 bytes (-32,768)")
        colours = {n: boxes[n].find(SVG + "rect").get("fill").split(",")[0]
                   for n in ("leaf_a", "leaf_c")}
        self.assertEqual(colours, {"leaf_a": "hsl(215", "leaf_c": "hsl(5"})

    def test_difference_of_two_traces(self):
        early = self.dir / "early.db"
        lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", early)
        with sqlite3.connect(early) as handle:
            handle.execute("DELETE FROM heap_profile_allocation WHERE ts > 1100000100")
            handle.execute("UPDATE _process SET pid = 77")
        done = lib.run(lib.MMSQL, "flamegraph", "--folded", early, TRACE)
        self.assertEqual(done.stdout.splitlines(),
                         ["main;leaf_a 65536 32768", "main;leaf_c 0 12288"])
        done = lib.run(lib.MMSQL, "flamegraph", "--folded", TRACE, early)
        self.assertEqual(set(done.stdout.splitlines()),
                         {"main;leaf_a 32768 65536", "main;leaf_c 12288 0"})
        svg = xml.etree.ElementTree.fromstring(
            lib.run(lib.MMSQL, "flamegraph", early, TRACE).stdout.encode())
        self.assertIn("Retained: -20.0 KiB, 65,536 to 45,056 bytes", "".join(svg.itertext()))
        for options, said in ((("--diff", "1", "2", early, TRACE), "two moments of one trace"),
                              (("-", "-"), "'-' is there twice"),
                              ((early, TRACE, early), "or two for their difference")):
            done = lib.run(lib.MMSQL, "flamegraph", *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        empty = self.dir / "empty.db"
        lib.run(lib.MMSQL, "convert", "-q", TRACE.parent / "mm_pressure.pftrace", "-o", empty)
        done = lib.run(lib.MMSQL, "flamegraph", early, empty, "-o", self.dir / "none.svg")
        self.assertEqual(done.returncode, 1)
        self.assertIn("empty.db: no ", done.stderr)
        self.assertFalse((self.dir / "none.svg").exists())

    def test_names_are_escaped(self):
        db = self.dir / "names.db"
        lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", db)
        name = "a<b>&\"]]>'é;\x01\ud83d"
        with sqlite3.connect(db) as handle:
            handle.execute(
                "UPDATE stack_profile_frame SET name = CAST(? AS TEXT) WHERE name = 'leaf_a'",
                (name.encode("utf-8", "surrogatepass"),))
        found = [n for n in self.boxes(trace=db) if n.startswith("a<b>")]
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], r"""^a<b>&"\]\]>'é;\?+$""")
        self.assertIn("main;a<b>&\"]]>'é??",
                      lib.run(lib.MMSQL, "flamegraph", "--folded", db, errors="replace").stdout)

    def test_what_is_not_there(self):
        self.assertIn("no heap profile that matches", self.draw("--pid", "1", code=1))
        self.assertIn("--depth-limit 0: not a number from 1 ",
                      self.draw("--depth-limit", "0", code=2))
        self.assertIn("No such file", self.draw(trace="/nonexistent", code=1))


if __name__ == "__main__":
    unittest.main()
