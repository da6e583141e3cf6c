# SPDX-License-Identifier: Apache-2.0
"""The output of pintool, compared with pintool/NAME.stdout and NAME.stderr.

usage: test_pintool.py PINTOOL [--write]

The files whose residency is printed are made here, with the pages that each case needs in the page
cache and no others, in /var/tmp, since a tmpfs has no other place for its pages. --write makes the
golden files anew.
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

GOLDEN = pathlib.Path(__file__).resolve().parent / "pintool"
PAGE = 4096
PINTOOL = None
WRITE = False

# Name -> arguments and exit code. They run in this order, in one directory.
CASES = {
    "plain": (["file", "plain.so", "--gen-probe", "--dump"], 0),
    "plain_pinlist": (["file", "plain.so", "--gen-probe", "-o", "plain.meta"], 0),
    "plain_pinlist_dump": (["pinlist", "plain.meta", "--dump", "-v"], 0),
    "plain_json": (["file", "plain.so", "--gen-probe", "--json"], 0),
    "absent": (["file", "absent.so", "--gen-probe", "--dump"], 0),
    "empty": (["file", "empty.so", "--gen-probe", "--dump"], 0),
    "several": (["file", "plain.so", "absent.so", "--gen-probe"], 0),
    "several_map": (["file", "plain.so", "absent.so", "empty.so", "--gen-probe", "--map"], 0),
    "directory": (["file", "libs", "--gen-probe"], 0),
    "directory_dump": (["file", "libs", "--gen-probe", "--dump"], 0),
    "zip_quiet": (["file", "app.apk", "--zip", "--gen-probe"], 0),
    "zip": (["file", "app.apk", "--zip", "--gen-probe", "--dump"], 0),
    "zip_again": (["file", "app.apk", "--zip", "--gen-probe", "--dump"], 0),
    "zip_pinlist": (["file", "app.apk", "--zip", "--gen-probe", "--dump", "-o", "pinlist.meta"], 0),
    "zip_pinlist_dump": (["pinlist", "pinlist.meta", "--dump", "--summary"], 0),
    "zip_filtered": (["file", "app.apk", "--zip", "--gen-probe", "--pinconfig", "pinconfig.txt",
                      "--dump",
                      "-o", "filtered.meta", "-v"], 0),
    "zip_filtered_dump": (["pinlist", "filtered.meta", "--dump"], 0),
    "zip_wanted": (["file", "app.apk", "--zip", "--pinconfig", "pinconfig.txt", "--dump", "-o",
                    "wanted.meta"], 0),
    "zip_wanted_summary": (["pinlist", "wanted.meta", "--summary"], 0),
    "zip_quota": (["file", "app.apk", "--zip", "--pinconfig", "pinconfig.txt", "-o", "quota.meta",
                   "--quota",
                   "10000"], 0),
    "zip_quota_at_border": (["file", "app.apk", "--zip", "--pinconfig", "pinconfig.txt", "-o",
                             "quota.meta",
                             "--quota", "4K"], 0),
    "zip_older_probe": (["file", "app.apk", "--zip", "--use-probe", "wanted.meta", "--dump"], 0),
    "zip_older_probe_verbose": (["file", "app.apk", "--zip", "--use-probe", "wanted.meta", "-o",
                                 "again.meta", "-v"],
                                0),
    "zip_other_version": (["file", "app.apk", "--zip", "--use-probe", "longer.meta", "--dump"], 0),
    "zip_stale": (["file", "app.apk", "--zip", "--pinconfig", "stale.txt", "-o", "stale.meta"], 0),
    "zip_replaced": (["file", "app.apk", "--zip", "--gen-probe", "-o", "stale.meta"], 0),
    "zip_emit_pinconfig": (["file", "app.apk", "--zip", "--gen-probe", "--emit-pinconfig", "-"], 0),
    "zip_emit_pinconfig_filtered": (["file", "app.apk", "--zip", "--use-probe", "wanted.meta",
                                     "--pinconfig",
                                     "pinconfig.txt", "--emit-pinconfig", "-"], 0),
    "zip_other_build": (["file", "rebuilt.apk", "--zip", "--use-probe", "wanted.meta"], 0),
    "zip_embedded": (["file", "rebuilt.apk", "--zip", "--use-probe", "rebuilt.apk", "--dump"], 0),
    "pinlist_embedded": (["pinlist", "rebuilt.apk", "--dump", "--summary"], 0),
    "lock_other_build": (["lock", "wanted.meta", "rebuilt.apk", "-t", "0.01s"], 0),
    "preload_embedded": (["preload", "rebuilt.apk"], 0),
    "zip_json": (["file", "app.apk", "--zip", "--gen-probe", "--pinconfig", "pinconfig.txt",
                  "--json", "-o",
                  "json.meta"], 0),
    "zip_map": (["file", "app.apk", "--zip", "--gen-probe", "--map"], 0),
    "pinlist_json": (["pinlist", "filtered.meta", "--json"], 0),
    "fail_nothing_to_look_at": (["file", "plain.so"], 2),
    "fail_no_file": (["file", "--gen-probe"], 2),
    "fail_missing": (["file", "missing.so", "plain.so", "--gen-probe"], 1),
    "fail_argument_missing": (["file", "plain.so", "--gen-probe", "-o"], 2),
    "fail_probe_argument_missing": (["file", "app.apk", "--zip", "--use-probe"], 2),
    "fail_unknown_option": (["file", "plain.so", "--gen-prope"], 2),
    "fail_two_probes": (["file", "app.apk", "--zip", "--gen-probe", "--use-probe", "wanted.meta"],
                        2),
    "fail_probe_without_zip": (["file", "plain.so", "--use-probe", "wanted.meta"], 2),
    "fail_quota": (["file", "plain.so", "--gen-probe", "-o", "no.meta", "--quota", "much"], 2),
    "fail_pinlist_of_two": (["file", "plain.so", "absent.so", "--gen-probe", "-o", "no.meta"], 2),
    "fail_pinlist_of_directory": (["file", "libs", "--gen-probe", "-o", "no.meta"], 2),
    "fail_no_zip": (["file", "plain.so", "--zip", "--gen-probe", "--dump", "-o", "no.meta"], 1),
    "fail_pinconfig": (["file", "app.apk", "--zip", "--pinconfig", "bad.txt", "--dump", "-o",
                        "no.meta"], 1),
    "fail_pinconfig_empty": (["file", "app.apk", "--zip", "--pinconfig", "empty.so", "-o",
                              "no.meta"], 1),
    "fail_no_match": (["file", "app.apk", "--zip", "--pinconfig", "nomatch.txt", "--dump", "-o",
                       "no.meta"], 1),
    "fail_empty": (["file", "absent.so", "--gen-probe", "-o", "plain.meta"], 1),
    "fail_empty_filtered": (["file", "app.apk", "--zip", "--pinconfig", "beyond.txt", "-o",
                             "plain.meta"], 1),
    "empty_allowed": (["file", "absent.so", "--gen-probe", "-o", "spare.meta", "--allow-empty"], 0),
    "empty_first": (["file", "absent.so", "--gen-probe", "-o", "first.meta"], 0),
    "fail_other_build": (["file", "rebuilt.apk", "--zip", "--use-probe", "wanted.meta", "-o",
                          "no.meta"], 1),
    "fail_not_embedded": (["pinlist", "app.apk"], 1),
    "fail_itself": (["file", "plain.so", "--gen-probe", "-o", "plain.so"], 1),
    "fail_streams": (["file", "app.apk", "--zip", "--use-probe", "-", "--pinconfig", "-"], 2),
    "fail_odd_probe": (["file", "app.apk", "--zip", "--use-probe", "odd.meta", "--dump", "-o",
                        "no.meta"], 1),
    "fail_odd_pinlist": (["pinlist", "odd.meta", "--dump"], 1),
    "fail_overlap": (["file", "overlap.zip", "--zip", "--gen-probe", "--dump", "-o", "no.meta"], 1),
    "fail_mode": (["fil", "plain.so"], 2),
}


def keep(path, pages):
    """Leave exactly these pages of a file in the page cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for page in pages:
            os.pread(fd, 1, page * PAGE)
    finally:
        os.close(fd)


def write_app(path):
    """Stored, aligned, compressed and empty entries. bzip2 compresses everywhere alike, zlib does
    not."""
    with zipfile.ZipFile(path, "w") as app:
        app.writestr(zipfile.ZipInfo("AndroidManifest.xml"), b"m" * 100)
        library = zipfile.ZipInfo("lib/arm64-v8a/libapp.so")
        library.extra = bytes(2 * PAGE - app.fp.tell() - 30 - len(library.filename))
        app.writestr(library, b"elf!" * 7500)
        other = zipfile.ZipInfo("lib/arm64-v8a/libother.so")
        app.writestr(other, b"data" * 5000)
        dex = zipfile.ZipInfo("classes.dex")
        dex.compress_type = zipfile.ZIP_BZIP2
        app.writestr(dex, b"dex\n" * 4096 * 10)
        app.writestr(zipfile.ZipInfo("res/"), b"")
        app.writestr(zipfile.ZipInfo("res/evil\x1b[2J"), b"x" * 3000)


def write_rebuilt(path):
    """The entries of app.apk after a new entry, and with a pinlist inside, as Android wants it."""
    with zipfile.ZipFile(path, "w") as app:
        app.writestr(zipfile.ZipInfo("AndroidManifest.xml"), b"m" * 5000)
        app.writestr(zipfile.ZipInfo("lib/arm64-v8a/libapp.so"), b"elf!" * 7500)
        app.writestr(zipfile.ZipInfo("lib/arm64-v8a/libother.so"), b"data" * 5000)
        app.writestr(zipfile.ZipInfo("assets/pinlist.meta"),
                     struct.pack(">4I", 4096, 8192, 20480, 4096))


def write_overlapping(path):
    """Two names for the same bytes; the second one's header lies in the data of the first."""
    def local(name, size):
        return struct.pack("<IHHHIIIIHH", 0x04034b50, 20, 0, 0, 0, 7, size, size, len(name),
                           0) + name

    def central(name, size, offset):
        return struct.pack("<IHHHHIIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 7, size, size,
                           len(name),
                           0, 0, 0, 0, 0, offset) + name

    inner = local(b"inner", 1000) + bytes(1000)
    outer = local(b"outer", len(inner))
    directory = central(b"outer", len(inner), 0) + central(b"inner", 1000, len(outer))
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 2, 2, len(directory), len(outer + inner), 0)
    path.write_bytes(outer + inner + directory + end)


def golden(name, what):
    path = GOLDEN / f"{name}.{what}"
    return path.read_bytes() if path.exists() else b""


class Pintool(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        (cls.dir / "libs" / "deep").mkdir(parents=True)
        for name, size in (("plain.so", 40 * PAGE - 96), ("absent.so", 3 * PAGE), ("empty.so", 0),
                           ("libs/b.so", 2 * PAGE), ("libs/a.so", PAGE),
                           ("libs/deep/c.so", PAGE + 1)):
            (cls.dir / name).write_bytes(bytes(size))
        write_app(cls.dir / "app.apk")
        write_overlapping(cls.dir / "overlap.zip")
        write_rebuilt(cls.dir / "rebuilt.apk")
        (cls.dir / "stale.txt").write_text(
            "file libold.so\noffset 0 len 10\nfile libapp.so\noffset 4096 len 8192\n"
            "offset 70000 len 4096\nfile arm64-v8a/libapp\n")
        (cls.dir / "beyond.txt").write_text("file libapp.so\noffset 70000\nlen 4096\n")
        (cls.dir / "spare.meta").write_bytes(struct.pack(">2I", 0, PAGE))
        (cls.dir / "pinconfig.txt").write_text(
            "file libapp.so\noffset 4096\nlen 8192\noffset 25000\nlength 90000\n"
            "file .so\nfile .dex\n")
        (cls.dir / "nomatch.txt").write_text("file libnothing.so\n")
        (cls.dir / "bad.txt").write_text("file libapp.so\n  offset 4096\n  size 8192\n")
        (cls.dir / "odd.meta").write_bytes(struct.pack(">3I", 0, PAGE, 2 * PAGE))
        (cls.dir / "longer.meta").write_bytes(struct.pack(">4I", 8192, 4096, 65536, 65536))
        cls.set_residency()

    @classmethod
    def set_residency(cls):
        keep(cls.dir / "plain.so", [0, 1, 5, 39])
        keep(cls.dir / "absent.so", [])
        keep(cls.dir / "libs/a.so", [0])
        keep(cls.dir / "libs/b.so", [1])
        keep(cls.dir / "libs/deep/c.so", [1])
        keep(cls.dir / "app.apk", [2, 3, 5, 9, 13])
        keep(cls.dir / "overlap.zip", [0])
        keep(cls.dir / "rebuilt.apk", [])

    def run_case(self, name, argv):
        """Runs a case again if its output differs: the kernel may have reclaimed pages
        meanwhile."""
        for _ in range(3):
            done = self.run_once(argv)
            if WRITE or (done.stdout, done.stderr) == (golden(name, "stdout"),
                                                       golden(name, "stderr")):
                break
        return done

    def run_once(self, argv):
        self.set_residency()
        done = subprocess.run([PINTOOL, *argv], cwd=self.dir, capture_output=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
        # Only some kernels have these lines, and their figures depend on the machine.
        done.stdout = re.sub(rb',\s*"(dirty|writeback|evicted|recently_evicted)": \d+', b"",
                             done.stdout)
        return done

    def compare(self, name, what, got):
        path = GOLDEN / f"{name}.{what}"
        if WRITE:
            path.unlink(missing_ok=True)
            if got:
                path.write_bytes(got)
        self.assertEqual(got.decode(), golden(name, what).decode(), f"{name}: {what}")

    def test_cases(self):
        for name, (argv, code) in CASES.items():
            with self.subTest(name):
                done = self.run_case(name, argv)
                self.compare(name, "stderr", done.stderr)
                self.compare(name, "stdout", done.stdout)
                self.assertEqual(done.returncode, code)
        self.assertFalse((self.dir / "no.meta").exists(),
                         "a pinlist was written though something failed")

    def test_no_golden_file_is_left_over(self):
        names = {path.name.rsplit(".", 1)[0] for path in GOLDEN.glob("*.std*")}
        self.assertEqual(names - set(CASES), set())


def filesystem_keeps_pages():
    """True if a file in /var/tmp has no pages in memory once they are dropped."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        file.write(bytes(PAGE))
        file.flush()
        keep(file.name, [])
        done = subprocess.run([PINTOOL, "file", file.name, "--gen-probe"], capture_output=True,
                              text=True,
                              timeout=60, check=False)
        return " resident(B)=0 " not in done.stdout


if __name__ == "__main__":
    PINTOOL = pathlib.Path(sys.argv[1]).resolve()
    WRITE = "--write" in sys.argv[2:]
    if os.sysconf("SC_PAGE_SIZE") != PAGE:
        print("skipped: the golden files are for pages of 4 KiB")
        sys.exit(77)
    if filesystem_keeps_pages():
        print("skipped: the file system of /var/tmp does not drop pages, or does not tell")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
