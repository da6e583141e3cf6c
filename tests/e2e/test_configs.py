# SPDX-License-Identifier: Apache-2.0
"""The configs that are installed: each is understood whole, and records."""
import pathlib
import tempfile
import unittest

import lib

CONFIGS = sorted((lib.ROOT / "configs").glob("*.cfg"))


class Configs(unittest.TestCase):
    def test_there_are_some(self):
        names = {path.name for path in CONFIGS}
        self.assertLessEqual({"mm_events.cfg", "residency.cfg", "full.cfg"}, names)

    def test_every_data_source_is_known(self):
        for path in CONFIGS:
            with self.subTest(path.name):
                done = lib.run(lib.MMTRACE, "record", "-c", path, "--check")
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    @lib.needs_root
    def test_records(self):
        for path in CONFIGS:
            with self.subTest(path.name), tempfile.TemporaryDirectory() as tmp:
                trace = pathlib.Path(tmp) / "trace.pftrace"
                done = lib.run(lib.MMTRACE, "record", "-c", path, "-t", "1s", "-o", trace)
                self.assertEqual(done.returncode, 0, done.stderr)
                packets = lib.decode(trace)
                self.assertTrue(lib.of_kind(packets, "trace_config"))
                sources = path.read_text()
                for name, kind in (("linux.sys_stats", "sys_stats"),
                                   ("linux.process_stats", "process_tree"),
                                   ("linux.ftrace", "ftrace_stats")):
                    if f'"{name}"' in sources:
                        self.assertTrue(lib.of_kind(packets, kind), kind)


if __name__ == "__main__":
    unittest.main()
