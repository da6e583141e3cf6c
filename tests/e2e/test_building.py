# SPDX-License-Identifier: Apache-2.0
"""docs/building.md: the packages of `scripts/install-deps build` are enough for `meson setup`."""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import lib

# Hides the libraries that only the tests need.
PKG_CONFIG = """#!{python}
import os, sys
if set(sys.argv[1:]) & set({hidden}):
    sys.exit(1)
os.execvp("pkg-config", ["pkg-config", *sys.argv[1:]])
"""


def packages_of_tests():
    text = (lib.ROOT / "scripts" / "install-deps").read_text()
    return re.search(r'^test="\$build ([^"]*)"', text, re.MULTILINE)[1].split()


@lib.needs_program("dpkg", "meson", "pkg-config")
class Setup(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-building-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir)

    def setup_without_the_packages_of_tests(self, *options):
        files = lib.run("dpkg", "-L", *packages_of_tests()).stdout.split("\n")
        hidden = [pathlib.Path(f).stem for f in files if f.endswith(".pc")]
        self.assertIn("cmocka", hidden)
        pkg_config = self.dir / "pkg-config"
        pkg_config.write_text(PKG_CONFIG.format(python=sys.executable, hidden=hidden))
        pkg_config.chmod(0o755)
        machine = self.dir / "machine.ini"
        machine.write_text(f"[binaries]\npkgconfig = '{pkg_config}'\ncmake = 'false'\n")
        return lib.run("meson", "setup", self.dir / "build", lib.ROOT, "--native-file", machine,
                       *options, timeout_s=300)

    def test_a_setup_for_use(self):
        done = self.setup_without_the_packages_of_tests()
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        rules = (self.dir / "build" / "build.ninja").read_text()
        is_built = [name in rules for name in ("build producer/mmtrace:", "tests/unit/test_")]
        self.assertEqual(is_built, [True, False])

    def test_a_setup_for_tests(self):
        done = self.setup_without_the_packages_of_tests("-Dtests=enabled")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('Dependency "cmocka" not found', done.stdout)


if __name__ == "__main__":
    unittest.main()
