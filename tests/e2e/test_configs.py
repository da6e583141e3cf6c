# SPDX-License-Identifier: Apache-2.0
"""The installed configs: each field is understood, and each config records."""
import pathlib
import tempfile
import re
import shutil
import unittest

import lib

CONFIGS = sorted((lib.ROOT / "configs").glob("*.cfg"))


class Configs(unittest.TestCase):
    def test_there_are_some(self):
        names = {path.name for path in CONFIGS}
        self.assertLessEqual({"flight_recorder.cfg", "mm_events.cfg", "residency.cfg", "full.cfg"},
                             names)

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
                # only tasks that occur in events are named
                if "scan_all_processes_on_start" not in sources:
                    sources = sources.replace('"linux.process_stats"', "")
                for name, kind in (("linux.sys_stats", "sys_stats"),
                                   ("linux.process_stats", "process_tree"),
                                   ("linux.ftrace", "ftrace_stats")):
                    if f'"{name}"' in sources:
                        self.assertTrue(lib.of_kind(packets, kind), kind)


@lib.needs_program("systemd-analyze")
class Units(unittest.TestCase):
    """Checks the systemd units that systemd-analyze can check without a manager."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-units-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        text = (lib.BUILD / "configs" / "mmtrace.service").read_text()
        (self.dir / "mmtrace.service").write_text(
            re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={lib.MMTRACE}", text))
        for unit in (lib.ROOT / "configs" / "systemd").glob("*.socket"):
            shutil.copy(unit, self.dir)
        self.units = sorted(self.dir.iterdir())

    def test_they_are_understood(self):
        done = lib.run("systemd-analyze", "verify", *self.units)
        # systemd ignores calls that it does not know in a filter. The programs work without these
        # calls.
        complaints = [line for line in done.stderr.splitlines() if "cachestat" not in line]
        ours = [line for line in complaints if "mmtrace" in line]
        self.assertEqual(ours, [])
        self.assertEqual(len(self.units), 3)

    def test_little_is_exposed(self):
        done = lib.run("systemd-analyze", "--no-pager", "security", "--offline=true",
                       "--threshold=19", self.dir / "mmtrace.service")
        if "offline" in done.stderr:
            self.skipTest("this systemd-analyze judges no files (systemd 250)")
        self.assertEqual(done.returncode, 0, done.stdout[-200:] + done.stderr)


if __name__ == "__main__":
    unittest.main()
