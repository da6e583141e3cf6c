# SPDX-License-Identifier: Apache-2.0
"""The fuzz targets as programs of libFuzzer (docs/reliability.md)."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import lib


def runtime():
    """The archive of libFuzzer that clang links, or None."""
    if not shutil.which("clang"):
        return None
    name = f"libclang_rt.fuzzer-{os.uname().machine}.a"
    path = subprocess.run(["clang", f"-print-file-name={name}"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return path if os.path.exists(path) else None


@lib.needs_program("clang", "meson", "ninja")
@unittest.skipUnless(runtime(),
                     "needs the runtime of clang's sanitizers (libclang-rt), which "
                     "scripts/install-deps installs")
class LibFuzzer(unittest.TestCase):
    def test_it_links_and_runs(self):
        """The target needs no program, so that little has to be built."""
        build = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-libfuzzer-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, build)
        options = ["-Dlibfuzzer=enabled", "-Db_lundef=false",
                   *(f"-D{name}=disabled" for name in ("producer", "converter", "java"))]
        done = lib.run("meson", "setup", build, lib.ROOT, *options,
                       env={**os.environ, "CC": "clang"}, timeout_s=300)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        done = lib.run("ninja", "-C", build, "tests/fuzz/libfuzzer_wire", timeout_s=300)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        done = lib.run(build / "tests" / "fuzz" / "libfuzzer_wire", "-runs=2000")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("Done 2000 runs", done.stderr)


if __name__ == "__main__":
    unittest.main()
