# SPDX-License-Identifier: Apache-2.0
"""Packages for Debian: each installed file is in one package, and all versions are equal. The long
test builds the packages from the archive of `meson dist`."""
import collections
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import lib

DEBIAN = lib.ROOT / "debian"
PACKAGES = re.findall(r"^Package: (\S+)$", (DEBIAN / "control").read_text(), re.MULTILINE)

GOLDEN = lib.ROOT / "tests" / "golden"
# The promises of the descriptions in debian/control.
PROMISED = {
    "mmtrace": ("etc/mmtrace/armed/mm_events.cfg", "lib/systemd/system/mmtrace.service",
                "usr/bin/mmtrace", "usr/bin/pintool", "usr/lib/*/mmtrace/mmscreen.so",
                "usr/share/man/man1/mmtrace.1"),
    "mmtrace-agents": ("usr/lib/*/mmtrace/libmmheap.so", "usr/lib/*/mmtrace/libtiallocsample.so",
                       "usr/share/man/man3/libtiallocsample.3"),
    "mmsql": ("usr/bin/mmsql", "usr/lib/*/mmtrace/mmsql_functions.so",
              "usr/share/man/man1/mmsql.1", "usr/share/man/man3/mmsql_functions.3",
              "usr/share/man/man5/mmsql-tables.5"),
    "libmmheap-dev": ("usr/include/mmheap.h", "usr/lib/*/libmmheap.a",
                      "usr/lib/*/pkgconfig/mmheap.pc", "usr/share/man/man3/mmheap.3"),
}
POOL = """
#include <mmheap.h>
int main(void) { return mmheap_register("pool", 0, 0) ? 0 : 1; }
"""


def version():
    return re.search(r"version: '([^']+)'", (lib.ROOT / "meson.build").read_text())[1]


def rows_of(package):
    """The rows of a debian/*.install: (pattern, folder or None)."""
    for line in (DEBIAN / f"{package}.install").read_text().splitlines():
        pattern, *folder = line.split()
        yield pattern, folder[0] if folder else None


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_symlink() or path.is_file()}


def place(path, pattern, folder):
    """Where a row puts an installed file; None if the row is of other files."""
    for depth, parent in enumerate([path, *map(str, pathlib.PurePath(path).parents)]):
        if fnmatch.fnmatch(parent, pattern):
            kept = path.split("/")[-1 - depth:]
            return "/".join([folder, *kept]) if folder else path
    return None


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
        rows = {name: [pattern for pattern, _ in rows_of(name)] for name in PACKAGES}
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


@lib.long_test
@unittest.skipUnless((lib.ROOT / ".git").exists(), "meson dist needs a checkout of git")
@lib.needs_program("dh", "dpkg-buildpackage", "git", "lintian", "meson")
class Built(unittest.TestCase):
    """One build of the commit: meson dist, dpkg-buildpackage in the archive, meson install."""

    @classmethod
    def setUpClass(cls):
        # The path is the same in each run, because compiler caches tell paths apart.
        cls.dir = lib.BUILD / "packages"
        shutil.rmtree(cls.dir, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.dir.mkdir()
        cls.work(lib.BUILD, "meson", "dist", "--no-tests", "--allow-dirty", "--formats", "gztar")
        archive = lib.BUILD / "meson-dist" / f"mmtrace-{version()}.tar.gz"
        cls.addClassCleanup(shutil.rmtree, archive.parent)
        cls.archive = archive
        cls.work(cls.dir, "tar", "-xf", archive)
        cls.source = cls.dir / f"mmtrace-{version()}"
        lacks = lib.run("dpkg-checkbuilddeps", cwd=cls.source)
        if lacks.returncode:
            raise unittest.SkipTest(lacks.stderr.strip())
        cls.work(cls.source, "dpkg-buildpackage", "-b", "-us", "-uc")
        cls.installed = cls.dir / "installed"
        build, = cls.source.glob("obj-*")
        cls.work(build, "meson", "install", "--no-rebuild",
                 env={**os.environ, "DESTDIR": str(cls.installed)})
        cls.root = cls.dir / "root"
        (cls.dir / "each").mkdir()
        for name in PACKAGES:
            cls.work(cls.dir, "dpkg-deb", "-x", cls.deb(name), cls.dir / "each" / name)
            cls.work(cls.dir, "dpkg-deb", "-x", cls.deb(name), cls.root)

    @staticmethod
    def work(folder, *argv, **options):
        done = lib.run(*argv, cwd=folder, timeout_s=3600, **options)
        if done.returncode:
            raise AssertionError(f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    @classmethod
    def deb(cls, package):
        found, = cls.dir.glob(f"{package}_{version()}_*.deb")
        return found

    def files_of(self, package):
        """The files of a package, without those that each package has."""
        each = {f"usr/share/doc/{package}/{name}" for name in ("changelog.gz", "copyright")}
        files = files_below(self.dir / "each" / package)
        self.assertLessEqual(each, files)
        return {path.removesuffix(".gz") if path.startswith("usr/share/man/") else path
                for path in files - each}

    def test_lintian_has_nothing_to_say(self):
        changes, = self.dir.glob("*.changes")
        source = self.dir / "source"
        source.mkdir()
        self.work(source, "tar", "-xf", self.archive)
        self.work(source, "dpkg-source", "-b", self.source.name)
        for file in (changes, *source.glob("*.dsc")):
            done = lib.run("lintian", "--allow-root", "--tag-display-limit", "0", file,
                           timeout_s=600)
            self.assertEqual((done.stdout, done.returncode), ("", 0), done.stderr)

    def test_each_package_has_the_files_of_its_rows(self):
        installed = files_below(self.installed)
        owners = collections.Counter()
        for package in PACKAGES:
            placed = {path: place(path, *row) for path in installed for row in rows_of(package)
                      if place(path, *row)}
            owners.update(placed.keys())
            with self.subTest(package):
                self.assertEqual(self.files_of(package), set(placed.values()))
        self.assertEqual(owners, collections.Counter(installed), "each file is in one package")

    def test_packages_have_what_their_descriptions_promise(self):
        self.assertEqual(set(PROMISED), set(PACKAGES))
        for package, patterns in PROMISED.items():
            for pattern in patterns:
                with self.subTest(package, pattern=pattern):
                    self.assertEqual(len(fnmatch.filter(self.files_of(package), pattern)), 1)

    def test_recorder_and_converter_do_not_need_each_other(self):
        needs = {name: self.work(self.dir, "dpkg-deb", "-f", self.deb(name), "Depends")
                 for name in PACKAGES}
        self.assertIn("libsqlite3-0", needs["mmsql"])
        self.assertNotRegex(needs["mmsql"], "mmtrace|libunwind")
        self.assertNotRegex(needs["mmtrace"], "mmsql|libsqlite3|libunwind")
        self.assertIn(f"mmtrace (= {version()})", needs["mmtrace-agents"])

    def test_programs_run(self):
        programs = {name: self.root / "usr" / "bin" / name
                    for name in ("mmtrace", "pintool", "mmsql")}
        for name, program in programs.items():
            self.assertEqual(self.work(self.dir, program, "--version"), f"{name} {version()}\n")
        said = [self.work(self.dir, program, "verdict", GOLDEN / "mm_pressure.pftrace")
                for program in (programs["mmsql"], lib.MMSQL)]
        self.assertIn("Memory was short", said[0])
        self.assertEqual(said[0], said[1])

    def test_a_program_links_the_library_for_pools(self):
        (self.dir / "pool.c").write_text(POOL)
        folder, = self.root.glob("usr/lib/*/pkgconfig")
        flags = self.work(self.dir, "pkg-config", "--cflags", "--libs", "mmheap", env={
            **os.environ, "PKG_CONFIG_PATH": str(folder),
            "PKG_CONFIG_SYSROOT_DIR": str(self.root)}).split()
        self.assertTrue([flag for flag in flags if flag.startswith(f"-L{self.root}/")], flags)
        self.work(self.dir, "gcc", "pool.c", "-o", "pool", *flags)
        self.work(self.dir, "./pool")


if __name__ == "__main__":
    unittest.main()
