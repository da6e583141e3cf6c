# SPDX-License-Identifier: Apache-2.0
"""Packages for Debian: each installed file is in one package, and all versions are equal. The test
does not build the packages, because this takes minutes."""
import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import unittest

import lib

DEBIAN = lib.ROOT / "debian"
PACKAGES = re.findall(r"^Package: (\S+)$", (DEBIAN / "control").read_text(), re.MULTILINE)


def version():
    return re.search(r"version: '([^']+)'", (lib.ROOT / "meson.build").read_text())[1]


def introspect(what):
    done = subprocess.run(["meson", "introspect", what, lib.BUILD], text=True, capture_output=True,
                          check=True)
    return json.loads(done.stdout)


class Packages(unittest.TestCase):
    def test_version(self):
        self.assertEqual(lib.run(lib.MMTRACE, "--version").stdout, f"mmtrace {version()}\n")
        self.assertEqual(lib.run(lib.MMSQL, "--version").stdout, f"mmsql {version()}\n")
        self.assertEqual(lib.run(lib.PINTOOL, "--version").stdout, f"pintool {version()}\n")
        newest = re.search(r"^## (\S+)$", (lib.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertEqual(newest[1], version(), "CHANGELOG.md")
        changes = re.match(r"mmtrace \(([^)]+)\)", (DEBIAN / "changelog").read_text())
        self.assertEqual(changes[1], version(), "debian/changelog")

    def test_version_is_written_in_no_source(self):
        found = [str(path.relative_to(lib.ROOT)) for folder in ("common", "producer", "converter")
                 for path in lib.ROOT.glob(f"{folder}/**/*.[ch]")
                 if f'"{version()}"' in path.read_text(errors="replace")]
        self.assertEqual(found, [])

    def test_each_package_has_its_files(self):
        self.assertEqual({f"{name}.install" for name in PACKAGES},
                         {path.name for path in DEBIAN.glob("*.install")})

    @unittest.skipUnless(shutil.which("meson"), "needs meson")
    def test_each_file_is_in_one_package(self):
        options = {option["name"]: option["value"] for option in introspect("--buildoptions")}
        prefix, libraries = options["prefix"], options["libdir"] + "/"
        rows = {name: [line.split()[0] for line in (DEBIAN / f"{name}.install").read_text()
                       .splitlines()] for name in PACKAGES}
        used = set()
        for place in introspect("--installed").values():
            below = str(pathlib.PurePath(place).relative_to(prefix))
            # The path as debian/rules sets it.
            path = below if below.startswith("etc/") else \
                "lib/systemd/system" if below.startswith("lib/systemd/") else \
                f"usr/lib/any/{below.removeprefix(libraries)}" if below.startswith(libraries) else \
                f"usr/{below}"
            owners = {(name, row) for name in PACKAGES for row in rows[name]
                      if fnmatch.fnmatch(path, row) or fnmatch.fnmatch(path, f"{row}/*")}
            with self.subTest(path):
                self.assertEqual(len({name for name, _ in owners}), 1,
                                 "a row of one debian/*.install is wanted")
            used |= owners
        # A script that completes several programs has one row in the list of meson.
        unused = {(name, row) for name in PACKAGES for row in rows[name]} - used
        self.assertEqual({(name, row) for name, row in unused
                          if "bash-completion" not in row}, set())


if __name__ == "__main__":
    unittest.main()
