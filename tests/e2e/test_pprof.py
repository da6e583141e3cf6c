# SPDX-License-Identifier: Apache-2.0
"""mmsql pprof: profiles that protoc decodes, against known answers, and that pprof itself shows."""
import gzip
import pathlib
import shutil
import sqlite3
import tempfile
import unittest

import lib

TRACE = lib.ROOT / "tests" / "golden" / "heap_continuous.pftrace"
TYPES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
FIRST_DUMP = "1100000100"


def has_pprof():
    return shutil.which("go") and \
        "usage" in lib.run("go", "tool", "pprof", "-h").stderr.lower()


class Pprof(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="pprof-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.out = cls.dir / "heap.pb.gz"

    def write(self, *options, trace=TRACE):
        done = lib.run(lib.MMSQL, "pprof", "-o", self.out, *options, trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        return lib.decode_as("mmtrace.pprof.Profile", "converter/profile/pprof.proto",
                             gzip.decompress(self.out.read_bytes()))

    def samples(self, profile):
        """Stack, outermost first -> values."""
        texts = profile["string_table"]
        functions = {f.one("id"): texts[f.one("name")] for f in profile.all("function")}
        places = {p.one("id"): ",".join(functions[i] for i in p.all("line", "function_id"))
                  for p in profile.all("location")}
        return {";".join(places[i] for i in reversed(s["location_id"])): s["value"]
                for s in profile.all("sample")}

    def test_samples(self):
        profile = self.write()
        texts = profile["string_table"]
        self.assertEqual(texts[0], "")
        self.assertEqual([texts[t.one("type")] for t in profile.all("sample_type")], TYPES)
        self.assertEqual(texts[profile.one("default_sample_type")], "inuse_space")
        self.assertEqual(self.samples(profile), {
            "main;leaf_a": [16, 65536, 8, 32768], "main;leaf_b": [2, 8192, 0, 0],
            "main;leaf_c": [3, 12288, 3, 12288]})

    def test_mappings_labels_and_times(self):
        profile = self.write()
        texts = profile["string_table"]
        mapping, = profile.all("mapping")
        self.assertEqual((texts[mapping.one("filename")], texts[mapping.one("build_id")]),
                         ("/usr/bin/allocator", "8f123456aabbccdd"))
        start, limit = mapping.one("memory_start"), mapping.one("memory_limit")
        self.assertEqual((start, limit, mapping.one("file_offset")),
                         (94000000000000, 94000000100000, 4096))
        # The frames' addresses are offsets in the file here: 256, 512, ... beyond the mapping.
        self.assertEqual([p.one("address") - start for p in profile.all("location")],
                         [256, 512, 768, 1024])
        labels = {texts[v.one("key")]: texts[v.one("str")] if "str" in v else v.one("num")
                  for v in profile.all("sample")[0].all("label")}
        self.assertEqual(labels,
                         {"pid": 4321, "process": "/usr/bin/allocator", "heap": "libc.malloc"})
        # Boot time 900 ms is 1.7e18 of real time.
        self.assertEqual(profile.one("time_nanos"), 1700000000000000000 + 1105000100 - 900000000)
        self.assertEqual(profile.one("duration_nanos"), 5000000)

    def test_moments(self):
        before = self.samples(self.write("--at", FIRST_DUMP))
        since = self.samples(self.write("--from", FIRST_DUMP))
        whole = self.samples(self.write())
        self.assertEqual(before["main;leaf_a"], [16, 65536, 16, 65536])
        self.assertEqual(since["main;leaf_a"], [0, 0, -8, -32768])
        for stack, values in whole.items():
            parts = [part.get(stack, [0] * 4) for part in (before, since)]
            self.assertEqual(values, [sum(v) for v in zip(*parts)])

    def test_choice_of_processes(self):
        whole = self.samples(self.write())
        for options in (["--pid", "1,4321"], ["--process", "*alloc*"], ["--heap", "libc.malloc"]):
            self.assertEqual(self.samples(self.write(*options)), whole)
        kept = self.out.read_bytes()
        for options in (["--pid", "432,21,1"], ["--process", "alloc"], ["--heap", "art"]):
            done = lib.run(lib.MMSQL, "pprof", "-o", self.out, *options, TRACE)
            self.assertEqual((done.returncode, "no heap profile that matches" in done.stderr),
                             (1, True), done.stderr)
            self.assertEqual(self.out.read_bytes(), kept,
                             "a profile that matches nothing replaced the old one")

    def test_inlined_functions(self):
        db = self.dir / "inlined.db"
        lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", db)
        with sqlite3.connect(db) as handle:
            handle.execute("UPDATE stack_profile_frame SET symbol_set_id = 5 WHERE name = 'leaf_a'")
            handle.executemany(
                "INSERT INTO stack_profile_symbol(symbol_set_id, name, source_file, line_number, "
                "inlined)"
                " VALUES (5, ?, 'a.c', ?, ?)", [("inner", 10, 1), ("leaf_a", 20, 0)])
        profile = self.write(trace=db)
        self.assertEqual(self.samples(profile)["main;inner,leaf_a"], [16, 65536, 8, 32768])
        self.assertEqual(sorted(profile.all("location", "line", "line"))[-2:], [10, 20])
        mapping, = profile.all("mapping")
        self.assertEqual({k for k in mapping if k.startswith("has_")},
                         {"has_functions", "has_inline_frames"})

    def test_mistakes(self):
        for argv, code, text in ((["--pid", "x", TRACE], 2, "--pid x: not a number from 0"),
                                 ([], 2, "one database or trace"),
                                 ([TRACE, "-o", "/nonexistent/x"], 1, "No such file"),
                                 ([TRACE, "-o", "/dev/full"], 1, "No space left")):
            done = lib.run(lib.MMSQL, "pprof", *argv)
            self.assertEqual((done.returncode, text in done.stderr), (code, True), done.stderr)
        self.assertTrue(pathlib.Path("/dev/full").exists())

    @unittest.skipUnless(has_pprof(), "needs Go's pprof: scripts/install-deps installs golang-go")
    def test_pprof_reads_it(self):
        self.write()
        done = lib.run("go", "tool", "pprof", "-top", "-sample_index=alloc_space", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()
                if line.endswith(("leaf_a", "leaf_c", "main"))]
        self.assertEqual([(r[0], r[3], r[-1]) for r in rows],
                         [("64kB", "64kB", "leaf_a"), ("12kB", "12kB", "leaf_c"),
                          ("0", "84kB", "main")])
        raw = lib.run("go", "tool", "pprof", "-raw", self.out)
        self.assertIn("/usr/bin/allocator 8f123456aabbccdd [FN]", raw.stdout)


if __name__ == "__main__":
    unittest.main()
