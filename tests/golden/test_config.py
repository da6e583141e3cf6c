#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trace configs with known answers, and protoc as an independent judge of the same text.

usage: test_config.py CONFIG_TOOL PROTOC SOURCE_ROOT [--update]

config/good/NAME.cfg loads; NAME.print is how it prints, NAME.warnings what its check says (absent:
nothing). config/fail/NAME.cfg is refused with NAME.err on standard error. --update writes these
files anew, to be read before they are committed. PROTOC may be empty, then its tests are skipped.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOL, PROTOC, SOURCE, UPDATE = "", "", pathlib.Path(), False


def run(*argv, **options):
    return subprocess.run([str(arg) for arg in argv], capture_output=True, timeout=60, **options)


def tool(verb, path):
    return run(TOOL, verb, path)


def protoc(mode, data):
    return run(
        PROTOC, f"-I{SOURCE}", f"--{mode}=perfetto.protos.TraceConfig",
        "protos/config/trace_config.proto", input=data
    )


def configs(pattern):
    found = sorted((SOURCE / "tests/golden").glob(pattern))
    assert found, pattern
    return found


class Case(unittest.TestCase):
    maxDiff = None

    def compare(self, path, have):
        """`have` equals the file `path`; without a file it is empty."""
        if UPDATE:
            if have:
                path.write_text(have, encoding="utf-8")
            else:
                path.unlink(missing_ok=True)
        self.assertEqual(have, path.read_text(encoding="utf-8") if path.exists() else "")


class GoodTest(Case):
    def test_print_and_warnings(self):
        for path in configs("config/good/*.cfg"):
            with self.subTest(path.name):
                printed, checked = tool("print", path), tool("check", path)
                self.assertEqual((printed.returncode, printed.stderr), (0, b""))
                self.assertEqual((checked.returncode, checked.stderr), (0, b""))
                self.compare(path.with_suffix(".print"), printed.stdout.decode())
                self.compare(path.with_suffix(".warnings"), checked.stdout.decode())

    def test_print_is_a_fixed_point(self):
        for path in configs("config/good/*.cfg"):
            with self.subTest(path.name), tempfile.TemporaryDirectory() as scratch:
                text, binary = pathlib.Path(scratch) / "text", pathlib.Path(scratch) / "binary"
                text.write_bytes(tool("print", path).stdout)
                binary.write_bytes(tool("encode", path).stdout)
                self.assertEqual(tool("print", text).stdout, text.read_bytes())
                self.assertEqual(tool("encode", text).stdout, binary.read_bytes())
                self.assertEqual(tool("print", binary).stdout, text.read_bytes())
                self.assertEqual(tool("encode", binary).stdout, binary.read_bytes())

    def test_every_config_here_passes(self):
        for path in configs("*.cfg") + sorted(SOURCE.glob("configs/*.cfg")):
            with self.subTest(path.name):
                self.assertEqual(tool("check", path).stderr, b"")

    def test_forced_text(self):
        binary = tool("encode", SOURCE / "tests/golden/mm_pressure.cfg").stdout
        with tempfile.NamedTemporaryFile() as file:
            file.write(binary)
            file.flush()
            self.assertEqual(run(TOOL, "print", file.name).returncode, 0)
            refused = run(TOOL, "print", "--txt", file.name)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(b" outside of a string\n", refused.stderr)


class FailTest(Case):
    def test_errors(self):
        for path in configs("config/fail/*.cfg"):
            with self.subTest(path.name):
                result = tool("check", path)
                self.assertEqual(result.returncode, 1)
                self.compare(path.with_suffix(".err"), result.stderr.decode())


class ProtocTest(Case):
    def setUp(self):
        if not PROTOC:
            self.skipTest("protoc is not installed")

    def test_same_bytes(self):
        for path in configs("config/good/*.cfg") + configs("*.cfg"):
            with self.subTest(path.name):
                judge = protoc("encode", path.read_bytes())
                self.assertEqual((judge.returncode, judge.stderr), (0, b""))
                self.assertEqual(tool("encode", path).stdout, judge.stdout)

    def test_reads_what_is_printed(self):
        for path in configs("config/good/*.cfg"):
            with self.subTest(path.name):
                judge = protoc("encode", tool("print", path).stdout)
                self.assertEqual(judge.stderr, b"")
                self.assertEqual(judge.stdout, tool("encode", path).stdout)

    def test_prints_what_is_read(self):
        for path in configs("config/good/*.cfg"):
            encoded = tool("encode", path).stdout
            with self.subTest(path.name), tempfile.NamedTemporaryFile() as text:
                text.write(protoc("decode", encoded).stdout)
                text.flush()
                self.assertEqual(tool("encode", text.name).stdout, encoded)

    def test_refuses_the_same_texts(self):
        """Errors with a position are errors of the text; all others concern its meaning."""
        for path in configs("config/fail/*.cfg"):
            error = path.with_suffix(".err").read_text(encoding="utf-8")
            if "neither text nor" in error:
                continue
            with self.subTest(path.name):
                is_text_error = re.search(r"\.cfg:\d+:\d+: ", error) is not None
                judge = protoc("encode", path.read_bytes())
                self.assertEqual(judge.returncode != 0, is_text_error, judge.stderr)


if __name__ == "__main__":
    TOOL, PROTOC, SOURCE = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    UPDATE = "--update" in sys.argv[4:]
    unittest.main(argv=sys.argv[:1])
