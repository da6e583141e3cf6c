# SPDX-License-Identifier: Apache-2.0
"""pintool on files with known pages in the page cache, and on hostile zips."""
import ctypes
import json
import mmap
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
import zipfile

import lib

PAGE = os.sysconf("SC_PAGE_SIZE")
GIB = 1 << 30
NOBODY = 65534
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def keep(path, pages=()):
    """Leave exactly these pages of a file in the page cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        touch(fd, pages)
    finally:
        os.close(fd)


def touch(fd, pages):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for page in pages:
        os.pread(fd, 1, page * PAGE)


def resident(path):
    """The pages that mincore(2) calls resident, asked independently of pintool."""
    size = os.path.getsize(path)
    n = -(-size // PAGE)
    vector = ctypes.create_string_buffer(n)
    fd = os.open(path, os.O_RDONLY)
    try:
        at = LIBC.mmap(None, size, 0, mmap.MAP_SHARED, fd, 0)
        if at == ctypes.c_void_p(-1).value or LIBC.mincore(at, size, vector) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        LIBC.munmap(at, size)
    finally:
        os.close(fd)
    return [i for i in range(n) if vector.raw[i] & 1]


def runs(pages, size):
    """Pages as (offset, bytes), cut at the end of the file."""
    found = []
    for page in pages:
        if found and found[-1][1] == page * PAGE:
            found[-1][1] += PAGE
        else:
            found.append([page * PAGE, (page + 1) * PAGE])
    return [(start, min(end, size) - start) for start, end in found]


def ranges(text, words=("file_offset", "total_bytes")):
    return [tuple(map(int, m))
            for m in re.findall(rf"\b{words[0]}=(\d+) {words[1]}=(\d+)$", text, re.M)]


def local_header(name, size, extra=b"", method=0, zip64=False):
    shown = 0xFFFFFFFF if zip64 else size
    if zip64:
        extra = struct.pack("<HHQQ", 1, 16, size, size) + extra
    return struct.pack("<IHHHIIIIHH", 0x04034B50, 45, 0, method, 0, 7, shown, shown, len(name),
                       len(extra)) + name + extra


def directory_entry(name, size, offset, method=0, zip64=False):
    shown, extra = (0xFFFFFFFF,
                    struct.pack("<HHQQQ", 1, 24, size, size, offset)) if zip64 else (size, b"")
    return struct.pack("<IHHHHIIIIHHHHHII", 0x02014B50, 45, 45, 0, method, 0, 7, shown, shown,
                       len(name),
                       len(extra), 0, 0, 0, 0, 0xFFFFFFFF if zip64 else offset) + name + extra


def end_records(n, size, offset, zip64=False):
    end = b""
    if zip64:
        end = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, n, n, size, offset)
        end += struct.pack("<IIQI", 0x07064B50, 0, offset + size, 1)
    return end + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, min(n, 0xFFFF), min(n, 0xFFFF),
                             min(size, 0xFFFFFFFF), min(offset, 0xFFFFFFFF), 0)


def drops_pages():
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        file.write(bytes(PAGE))
        file.flush()
        keep(file.name)
        return resident(file.name) == []


@unittest.skipUnless(drops_pages(), "the file system of /var/tmp does not drop pages when told to")
class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    program = lib.PINTOOL

    def pintool(self, *argv, code=0, **options):
        options.setdefault("cwd", self.dir)
        done = lib.run(self.program, *argv, **options)
        self.assertEqual(done.returncode, code, f"{argv}: {done.stdout} {done.stderr}")
        return done

    def file(self, name, size):
        path = self.dir / name
        path.write_bytes(os.urandom(size))
        keep(path)
        return path


class Probe(Case):
    def test_random_holes(self):
        chance = random.Random(5)
        for n_pages, share in ((1, 1), (300, 0.5), (3000, 0.01), (3000, 0.5), (5000, 0.99)):
            with self.subTest(pages=n_pages, share=share):
                path = self.file("holes", n_pages * PAGE - chance.randrange(PAGE))
                keep(path, [i for i in range(n_pages) if chance.random() < share])
                want = runs(resident(path), path.stat().st_size)
                done = self.pintool("file", path, "--gen-probe", "--dump")
                self.assertEqual(ranges(done.stdout), want)
                head = re.search(r" size\(B\)=(\d+) resident\(B\)=(\d+) resident\(%\)=(\S+)$",
                                 done.stdout, re.M)
                total = sum(n for _, n in want)
                self.assertEqual(head.groups()[:2], (str(path.stat().st_size), str(total)))
                self.assertAlmostEqual(float(head[3]), 100 * total / path.stat().st_size,
                                       delta=1e-3)

    def test_touched_mapping(self):
        path = self.file("mapped.so", 64 * PAGE)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as map_:
            map_.madvise(mmap.MADV_RANDOM)
            for page in (3, 4, 40):
                map_[page * PAGE]
            done = self.pintool("file", path, "--gen-probe", "--dump")
        self.assertEqual(ranges(done.stdout), [(3 * PAGE, 2 * PAGE), (40 * PAGE, PAGE)])

    def test_json_says_what_text_says(self):
        path = self.file("a.so", 50 * PAGE + 10)
        keep(path, [0, 7, 8, 50])
        said = json.loads(self.pintool("file", path, "--gen-probe", "--json").stdout)["files"]
        self.assertEqual(len(said), 1)
        self.assertEqual([(r["file_offset"], r["bytes"]) for r in said[0]["ranges"]],
                         ranges(self.pintool("file", path, "--gen-probe").stdout))
        self.assertEqual(said[0]["resident_bytes"], 3 * PAGE + 10)
        self.assertEqual(said[0]["pages"]["total"], 51)
        self.assertEqual(said[0]["pages"]["cached"], 4)

    def test_name_that_is_no_utf8(self):
        path = os.path.join(os.fsencode(self.dir), b"\xffname\n")
        with open(path, "wb") as file:
            file.write(b"x")
        said = json.loads(self.pintool("file", os.fsdecode(path), "--json").stdout)["files"]
        self.assertEqual(os.fsencode(said[0]["path"]), path)
        self.assertIn("?name?", self.pintool("file", os.fsdecode(path), "--gen-probe").stdout)

    def test_paths_that_are_no_files(self):
        os.mkfifo(self.dir / "fifo")
        done = self.pintool("file", "fifo", "/dev/null", "--gen-probe", code=1)
        self.assertEqual(done.stderr.count("not a regular file"), 2)
        self.assertEqual(self.pintool("file", ".", "--gen-probe").stdout, "")

    def test_standard_output_that_is_full(self):
        path = self.file("a.so", PAGE)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([lib.PINTOOL, "file", path, "--gen-probe"], stdout=full,
                                  stderr=subprocess.PIPE,
                                  text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: No space left", done.stderr)


@lib.needs_root
class Unknown(Case):
    """mincore(2) calls every page resident if the caller neither owns the file nor may write to
    it."""

    def setUp(self):
        super().setUp()
        self.path = self.file("secret.so", 10 * PAGE)
        self.path.chmod(0o644)
        self.dir.chmod(0o755)
        keep(self.path, [1])
        # The build may be in a folder that other users may not enter.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pathlib.Path(folder.name).chmod(0o755)
        self.program = pathlib.Path(folder.name) / "pintool"
        shutil.copy(lib.PINTOOL, self.program)

    def as_nobody(self, *argv, code):
        return self.pintool(*argv, code=code, user=NOBODY, group=NOBODY, extra_groups=[])

    def test_never_all(self):
        done = self.as_nobody("file", "secret.so", "--gen-probe", "--dump", code=1)
        self.assertRegex(done.stdout,
                         r"^secret.so size\(B\)=\d+ resident\(B\)=unknown resident\(%\)=unknown\n")
        self.assertNotIn("total_bytes=", done.stdout)
        self.assertIn("unknown", done.stderr)
        said = json.loads(self.as_nobody("file", "secret.so", "--json", code=1).stdout)["files"][0]
        self.assertEqual(said["probe"], "unknown")
        self.assertIsNone(said["resident_bytes"])
        self.assertIn("????", self.as_nobody("file", "secret.so", "--map", code=1).stdout)

    def test_no_pinlist_of_it(self):
        self.dir.chmod(0o777)
        self.as_nobody("file", "secret.so", "--gen-probe", "-o", "out.meta", code=1)
        self.assertFalse((self.dir / "out.meta").exists())

    def test_found_files_are_no_failure(self):
        done = self.as_nobody("file", ".", "--gen-probe", code=0)
        self.assertIn("resident(B)=unknown", done.stdout)
        self.assertIn("1 files: the kernel does not tell", done.stderr)

    def test_zip(self):
        with zipfile.ZipFile(self.dir / "a.apk", "w") as app:
            app.writestr("entry", b"x" * 100)
        done = self.as_nobody("file", "a.apk", "--zip", "--gen-probe", "--dump", code=1)
        self.assertIn("entry size(B)=100 resident(B)=unknown", done.stdout)

    def test_owner_and_writer_are_reported(self):
        for change in (lambda: os.chown(self.path, NOBODY, NOBODY), lambda: self.path.chmod(0o666)):
            os.chown(self.path, 0, 0)
            self.path.chmod(0o644)
            change()
            keep(self.path, [1])
            done = self.as_nobody("file", "secret.so", "--gen-probe", code=0)
            self.assertEqual(ranges(done.stdout), [(PAGE, PAGE)])


class Zip(Case):
    def app(self, name="app.apk", prefix=b""):
        path = self.dir / name
        with zipfile.ZipFile(path, "w") as app:
            app.writestr("AndroidManifest.xml", os.urandom(333))
            library = zipfile.ZipInfo("lib/arm64-v8a/libapp.so")
            library.extra = bytes(4 * PAGE - app.fp.tell() - 30 - len(library.filename))
            app.writestr(library, os.urandom(20 * PAGE))
            app.writestr("classes.dex", os.urandom(9 * PAGE).hex(),
                         compress_type=zipfile.ZIP_DEFLATED)
            app.writestr("classes2.dex", os.urandom(PAGE), compress_type=zipfile.ZIP_LZMA)
            with app.open("big", "w", force_zip64=True) as big:
                big.write(os.urandom(5 * PAGE))
            app.comment = b"the end"
        if prefix:
            path.write_bytes(prefix + path.read_bytes())
        keep(path)
        return path

    def entries(self, path):
        """name -> (offset of the data, size), by Python's zipfile and the local headers."""
        found = {}
        with zipfile.ZipFile(path) as app, open(path, "rb") as file:
            for info in app.infolist():
                file.seek(info.header_offset + 26)
                n_name, n_extra = struct.unpack("<HH", file.read(4))
                found[info.filename] = (info.header_offset + 30 + n_name + n_extra,
                                        info.compress_size)
        return found

    def test_places_of_data(self):
        for prefix in (b"", b"#!/bin/sh\nexit 0\n" * 300):
            path = self.app(prefix=prefix)
            said = json.loads(self.pintool("file", path, "--zip",
                                           "--json").stdout)["files"][0]["entries"]
            self.assertEqual({e["name"]: (e["zip_offset"], e["size_bytes"]) for e in said},
                             self.entries(path))
            self.assertTrue(all(e["resident_bytes"] == e["size_bytes"] for e in said))

    def test_coverage(self):
        path = self.app()
        keep(path, [0, 4, 5, 9, 24, 26, 30])
        pages = resident(path)
        said = json.loads(self.pintool("file", path, "--zip", "--gen-probe",
                                       "--json").stdout)["files"][0]
        for entry in said["entries"]:
            start, end = entry["zip_offset"], entry["zip_offset"] + entry["size_bytes"]
            want = []
            for offset, size in runs(pages, path.stat().st_size):
                low, high = max(offset, start), min(offset + size, end)
                if low < high:
                    want.append((low, low - start, high - low))
            got = [(r["zip_offset"], r["file_offset"], r["bytes"]) for r in entry["ranges"]]
            self.assertEqual(got, want, entry["name"])
            self.assertEqual(entry["resident_bytes"], sum(n for _, _, n in want))

    def test_looking_leaves_no_trace(self):
        path = self.app()
        for pages in ([], [7, 8]):
            keep(path, pages)
            for _ in range(2):
                self.pintool("file", path, "--zip", "--gen-probe", "--dump", "-o", "pinlist.meta")
                self.assertEqual(resident(path), pages)

    def test_pinlist_round_trip(self):
        path = self.app()
        keep(path, [1, 2, 4, 5, 9, 24, 26, 30])
        (self.dir / "pins.txt").write_text('file libapp.so offset 0 len 4100\nfile "classes.dex"\n')
        self.pintool("file", path, "--zip", "--gen-probe", "--pinconfig", "pins.txt", "-o",
                     "pinlist.meta")
        raw = (self.dir / "pinlist.meta").read_bytes()
        pairs = [struct.unpack_from(">II", raw, at) for at in range(0, len(raw), 8)]
        self.assertEqual(pairs[0], (4 * PAGE, 4100))
        self.assertEqual(ranges(self.pintool("pinlist", "pinlist.meta", "--dump").stdout,
                                ("start", "bytes")), pairs)
        self.assertEqual(pairs, sorted(pairs))
        self.assertTrue(all(offset % PAGE == 0 for offset, _ in pairs))
        again = self.pintool("file", path, "--zip", "--use-probe", "pinlist.meta", "--dump").stdout
        self.assertIn(f"zip_offset={4 * PAGE} file_offset=0 total_bytes=4100", again)

    def test_pattern_without_ranges_takes_each_entry_whole(self):
        with zipfile.ZipFile(self.dir / "a.zip", "w") as app:
            for i, size in enumerate((PAGE, 5 * PAGE, 100)):
                app.writestr(f"{i}.so", bytes(size))
        (self.dir / "pins.txt").write_text("file .so\n")
        said = json.loads(self.pintool("file", "a.zip", "--zip", "--pinconfig", "pins.txt",
                                       "--json").stdout)
        self.assertEqual([e["resident_bytes"] for e in said["files"][0]["filtered"]],
                         [PAGE, 5 * PAGE, 100])

    def test_directory_of_zips(self):
        (self.dir / "apps").mkdir()
        self.app("apps/a.apk")
        self.app("apps/b.apk")
        (self.dir / "apps" / "note.txt").write_text("no zip")
        done = self.pintool("file", "apps", "--zip", "--gen-probe", "--dump")
        self.assertEqual(done.stdout.count("----Unfiltered file coverages----"), 2)
        self.assertIn("1 files could not be looked at; the first: apps/note.txt: not a zip",
                      done.stderr)


class HostileZip(Case):
    def run_zip(self, data, code):
        path = self.dir / "hostile.zip"
        path.write_bytes(data)
        before = time.monotonic()
        done = self.pintool("file", path, "--zip", "--gen-probe", "--dump", "-o", "out.meta",
                            code=code)
        self.assertLess(time.monotonic() - before, 50)
        if code:
            self.assertFalse((self.dir / "out.meta").exists())
        return done

    def test_a_million_entries(self):
        names = [b"%07d" % i for i in range(1_000_000)]
        body = b"".join(local_header(name, 4) + b"data" for name in names)
        each = 30 + 7 + 4
        directory = b"".join(directory_entry(name, 4, i * each) for i, name in enumerate(names))
        done = self.run_zip(
            body + directory + end_records(len(names), len(directory), len(body), zip64=True), 0)
        self.assertEqual(done.stdout.count(" size(B)=4 "), len(names))
        self.assertIn(f"\n0999999 size(B)=4 resident(B)=4 resident(%)=100\nfile resident ranges\n"
                      f"zip_offset={999_999 * each + 37} file_offset=0 total_bytes=4\n",
                      done.stdout)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 512 * 1024)

    def test_a_million_names_for_the_same_bytes(self):
        body = local_header(b"x", 100_000) + bytes(100_000)
        directory = directory_entry(b"x", 100_000, 0) * 1_000_000
        done = self.run_zip(
            body + directory + end_records(1_000_000, len(directory), len(body), zip64=True), 1)
        self.assertEqual(done.stdout.count("x size(B)=100000 "), 1)
        self.assertIn('(999999); the first: "x" overlaps another entry', done.stderr)

    def test_entry_beyond_the_end(self):
        body = local_header(b"good", 100) + bytes(100)
        far = local_header(b"far", 1_000_000)
        directory = directory_entry(b"good", 100, 0) + directory_entry(b"far", 1_000_000, len(body))
        data = body + far + directory + end_records(2, len(directory), len(body + far))
        done = self.run_zip(data, 1)
        self.assertIn("good size(B)=100 ", done.stdout)
        self.assertIn('"far" reaches beyond the data of the zip', done.stderr)

    def test_header_beyond_the_end(self):
        for offset in (1 << 20, 0xFFFFFFFE, (1 << 64) - 40):
            zip64 = offset > 0xFFFFFFFF
            directory = directory_entry(b"lost", 100, offset, zip64=zip64)
            done = self.run_zip(directory + end_records(1, len(directory), 0), 1)
            self.assertIn('"lost" is not where the directory says', done.stderr)

    def test_sizes_that_wrap(self):
        body = local_header(b"huge", (1 << 64) - 1, zip64=True)
        directory = directory_entry(b"huge", (1 << 64) - 1, 0, zip64=True)
        done = self.run_zip(body + directory + end_records(1, len(directory), len(body)), 1)
        self.assertIn('"huge" reaches beyond the data of the zip', done.stderr)

    def test_bad_directories(self):
        body = local_header(b"a", 100) + bytes(100)
        directory = directory_entry(b"a", 100, 0)
        good = body + directory
        for end in (end_records(2, len(directory), len(body)),
                    end_records(1, len(directory) - 1, len(body)),
                    end_records(1, 1 << 30, 0), end_records(1, len(directory), 1 << 30),
                    end_records(1, 1 << 62, 1 << 62, zip64=True),
                    end_records(1 << 63, len(directory), len(body),
                                zip64=True)):
            self.assertIn("directory of the zip", self.run_zip(good + end, 1).stderr)

    def test_every_cut_of_a_zip(self):
        with zipfile.ZipFile(self.dir / "whole.zip", "w") as whole:
            whole.writestr("a", b"x" * 50)
            whole.writestr("b", b"y" * 50, compress_type=zipfile.ZIP_DEFLATED)
        data = (self.dir / "whole.zip").read_bytes()
        for size in range(0, len(data), 3):
            self.assertIn("not a zip", self.run_zip(data[:size], 1).stderr)


class Beyond4GiB(Case):
    def sparse(self, name, parts, size):
        path = self.dir / name
        with open(path, "wb") as file:
            for offset, data in parts:
                file.seek(offset)
                file.write(data)
            file.truncate(size)
        keep(path)
        return path

    def test_plain_file(self):
        path = self.sparse("large", [], 5 * GIB)
        page = (4 * GIB + GIB // 2) // PAGE
        keep(path, [3, page])
        self.assertEqual(ranges(self.pintool("file", path, "--gen-probe", "--dump").stdout),
                         [(3 * PAGE, PAGE), (page * PAGE, PAGE)])
        (self.dir / "out.meta").write_bytes(b"an old one")
        done = self.pintool("file", path, "--gen-probe", "-o", "out.meta", code=1)
        self.assertIn("32 bits", done.stderr)
        self.assertEqual((self.dir / "out.meta").read_bytes(), b"an old one")
        self.assertEqual(sorted(f.name for f in self.dir.iterdir()), ["large", "out.meta"])
        self.pintool("file", path, "--gen-probe", "-o", "out.meta", "--quota", PAGE)
        self.assertEqual((self.dir / "out.meta").read_bytes(), struct.pack(">II", 3 * PAGE, PAGE))

    def test_zip64(self):
        low = local_header(b"low.so", 10 * PAGE) + bytes(10 * PAGE)
        huge_size, high_at = 4 * GIB + 5, 4 * GIB + 64 * PAGE
        huge = local_header(b"huge.bin", huge_size, zip64=True)
        high = local_header(b"high.so", 3 * PAGE)
        directory_at = high_at + len(high) + 3 * PAGE
        directory = directory_entry(b"low.so", 10 * PAGE, 0)
        directory += directory_entry(b"huge.bin", huge_size, len(low), zip64=True)
        directory += directory_entry(b"high.so", 3 * PAGE, high_at, zip64=True)
        end = end_records(3, len(directory), directory_at, zip64=True)
        path = self.sparse("large.apk",
                           [(0, low + huge), (high_at, high), (directory_at, directory + end)],
                           directory_at + len(directory + end))
        keep(path, [1, 2, high_at // PAGE + 1])
        said = json.loads(self.pintool("file", path, "--zip", "--gen-probe",
                                       "--json").stdout)["files"][0]
        self.assertEqual([(e["name"], e["zip_offset"], e["size_bytes"], e["resident_bytes"])
                          for e in said["entries"]],
                         [("low.so", 36, 10 * PAGE, 2 * PAGE),
                          ("huge.bin", len(low + huge), huge_size, 0),
                          ("high.so", high_at + 37, 3 * PAGE, PAGE)])
        done = self.pintool("file", path, "--zip", "--gen-probe", "-o", "out.meta", code=1)
        self.assertIn("32 bits", done.stderr)
        self.assertFalse((self.dir / "out.meta").exists())
        (self.dir / "pins.txt").write_text("file low.so\n")
        self.pintool("file", path, "--zip", "--pinconfig", "pins.txt", "-o", "out.meta")
        self.assertEqual((self.dir / "out.meta").read_bytes(),
                         struct.pack(">II", 0, 36 + 10 * PAGE))


class Output(Case):
    def setUp(self):
        super().setUp()
        self.path = self.file("a.so", 4 * PAGE)
        keep(self.path, [2])

    def write(self, out, code=0):
        return self.pintool("file", "a.so", "--gen-probe", "-o", out, code=code)

    def test_links_and_modes_stay(self):
        (self.dir / "real.meta").write_bytes(b"x" * 100)
        (self.dir / "real.meta").chmod(0o640)
        (self.dir / "link.meta").symlink_to("real.meta")
        self.write("link.meta")
        self.assertTrue((self.dir / "link.meta").is_symlink())
        self.assertEqual((self.dir / "real.meta").read_bytes(), struct.pack(">II", 2 * PAGE, PAGE))
        self.assertEqual((self.dir / "real.meta").stat().st_mode & 0o777, 0o640)

    @lib.needs_root
    def test_a_stranger_chooses_no_place(self):
        victim, folder = self.file("victim", 1), self.dir / "open"
        folder.mkdir()
        folder.chmod(0o777)
        link = folder / "list.meta"
        link.symlink_to(victim)
        os.lchown(link, 65534, 65534)
        done = self.write("open/list.meta", code=1)
        self.assertIn("is a link of user 65534", done.stderr)
        self.assertTrue(link.is_symlink())
        os.lchown(link, os.geteuid(), -1)
        self.write("open/list.meta")
        self.assertEqual(victim.read_bytes(), struct.pack(">II", 2 * PAGE, PAGE))
        # A file that a stranger put at this place is replaced, together with its mode.
        (folder / "theirs.meta").write_bytes(b"")
        os.chown(folder / "theirs.meta", 65534, 65534)
        (folder / "theirs.meta").chmod(0o6777)
        self.write("open/theirs.meta")
        self.assertEqual((folder / "theirs.meta").stat().st_mode & 0o6002, 0)
        self.assertEqual(list(folder.glob("*.tmp")), [])

    def test_no_room(self):
        self.assertIn("No space left", self.write("/dev/full", code=1).stderr)
        self.assertIn("nowhere/out.meta", self.write("nowhere/out.meta", code=1).stderr)

    def test_nothing_resident_is_an_empty_list(self):
        keep(self.path)
        self.write("empty.meta")
        self.assertEqual((self.dir / "empty.meta").read_bytes(), b"")
        self.assertEqual(self.pintool("pinlist", "empty.meta", "--summary").stdout,
                         "--pinlist summary--\ntotal_bytes_to_pin=0\n")

    def test_svg(self):
        with zipfile.ZipFile(self.dir / "app.apk", "w") as app:
            app.writestr("a<b>&.so", bytes(8 * PAGE))
            app.writestr("none.so", b"")
        keep(self.dir / "app.apk", [1, 2])
        self.pintool("file", "app.apk", "--zip", "--gen-probe", "--svg", "map.svg")
        tree = xml.etree.ElementTree.parse(self.dir / "map.svg")
        svg = "{http://www.w3.org/2000/svg}"
        self.assertEqual(tree.getroot().tag, svg + "svg")
        titles = [title.text for title in tree.iter(svg + "title")]
        self.assertEqual(titles[0],
                         f"app.apk, {(self.dir / 'app.apk').stat().st_size} bytes, {2 * PAGE} "
                         "resident")
        self.assertEqual(titles[1], f"a<b>&.so, {8 * PAGE} bytes, {2 * PAGE} resident")
        self.assertEqual(titles[2], "none.so, 0 bytes, 0 resident")
        # A quarter of the entry's bar is full: 600 cells for 8 pages and the header before them.
        full = [path.get("d") for path in tree.iter(svg + "path") if path.get("class") == "d8"][1]
        self.assertAlmostEqual(sum(map(int, re.findall(r"h(\d+)v", full))), 150, delta=2)


class Process(Case):
    child = "\n".join((
        "import mmap, os, sys",
        "fd = os.open(sys.argv[1], os.O_RDONLY)",
        "m = mmap.mmap(fd, int(sys.argv[3]), prot=mmap.PROT_READ, offset=int(sys.argv[2]))",
        "os.close(fd)",
        "print('ready', flush=True)",
        "sys.stdin.read()",
    ))

    def start(self, path, offset, size):
        process = subprocess.Popen([sys.executable, "-c", self.child, path, str(offset), str(size)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end():
            process.stdin.close()
            process.stdout.close()
            process.wait(10)
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def line_of(self, process, path, *argv):
        done = self.pintool("file", "--pid", process.pid, *argv)
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"{path} ")]
        self.assertEqual(len(lines), 1, done.stdout)
        return lines[0], done.stdout

    def test_mapped_files(self):
        path = self.file("mapped.bin", 40 * PAGE)
        process = self.start(path, 16 * PAGE, 8 * PAGE)
        keep(path, [0, 17, 18, 30])
        line, _ = self.line_of(process, path)
        self.assertEqual(line, f"{path} size(B)={40 * PAGE} resident(B)={4 * PAGE} resident(%)=10 "
                               f"mapped(B)={8 * PAGE} mapped_resident(B)={2 * PAGE}")
        _, text = self.line_of(process, path, "--dump")
        self.assertIn(
            f"{line}\nfile mapped ranges\nfile_offset={16 * PAGE} total_bytes={8 * PAGE}\n"
            f"file resident ranges\nfile_offset=0 total_bytes={PAGE}\n", text)
        said = json.loads(self.pintool("file", "--pid", process.pid, "--json").stdout)["files"]
        mine = next(file for file in said if file["path"] == str(path))
        self.assertEqual(mine["mapped_bytes"], 8 * PAGE)
        self.assertEqual(mine["mapped_resident_bytes"], 2 * PAGE)
        self.assertEqual(mine["mapped_ranges"], [{"file_offset": 16 * PAGE, "bytes": 8 * PAGE}])

    @lib.needs_root
    def test_file_that_was_replaced(self):
        path = self.file("lib.so", 10 * PAGE)
        process = self.start(path, 0, 10 * PAGE)
        keep(path, [4])
        os.rename(self.file("new.so", PAGE), path)
        line, _ = self.line_of(process, f"{path} (deleted)")
        self.assertIn(f" size(B)={10 * PAGE} resident(B)={PAGE} ", line)

    def test_pid_without_a_process(self):
        gone = subprocess.Popen(["true"])
        gone.wait(10)
        done = self.pintool("file", "--pid", gone.pid, code=1)
        self.assertIn(f"process {gone.pid} does not exist", done.stderr)
        self.pintool("file", "--pid", "many", code=2)


class Watch(Case):
    def watch(self, *argv):
        process = subprocess.Popen([lib.PINTOOL, "file", *argv, "--watch", "0.1"], cwd=self.dir,
                                   text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def end(self, process, by):
        process.send_signal(by)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, err), (0, ""))
        return out

    def test_came_and_went(self):
        path = self.file("a.so", 20 * PAGE)
        keep(path, [1, 2])
        process = self.watch("a.so")
        head = r"\d\d:\d\d:\d\d\.\d{3} a\.so "
        self.assertRegex(process.stdout.readline(),
                         rf"^{head}resident\(B\)={2 * PAGE} came\(B\)=0 went\(B\)=0$")
        with open(path, "rb") as file:
            touch(file.fileno(), [9])
            self.assertRegex(process.stdout.readline(),
                             rf"^{head}resident\(B\)={3 * PAGE} came\(B\)={PAGE} went\(B\)=0$")
            self.assertEqual(process.stdout.readline(),
                             f"came file_offset={9 * PAGE} total_bytes={PAGE}\n")
            os.posix_fadvise(file.fileno(), 0, 2 * PAGE, os.POSIX_FADV_DONTNEED)
        self.assertRegex(process.stdout.readline(),
                         rf"^{head}resident\(B\)={2 * PAGE} came\(B\)=0 went\(B\)={PAGE}$")
        self.assertEqual(process.stdout.readline(), f"went file_offset={PAGE} total_bytes={PAGE}\n")
        path.unlink()
        self.assertRegex(process.stdout.readline(), rf"^{head}gone$")
        self.file("a.so", 5 * PAGE)
        self.assertRegex(process.stdout.readline(),
                         rf"^{head}resident\(B\)=\d+ came\(B\)=0 went\(B\)=0$")
        self.end(process, signal.SIGINT)

    def test_entries_as_json(self):
        with zipfile.ZipFile(self.dir / "app.apk", "w") as app:
            app.writestr("one", bytes(3 * PAGE))
            app.writestr("two", bytes(3 * PAGE))
        keep(self.dir / "app.apk")
        process = self.watch("app.apk", "--zip", "--json")
        first = json.loads(process.stdout.readline())
        self.assertEqual((first["path"], first["resident_bytes"], first["came"]),
                         ("app.apk", 0, []))
        with open(self.dir / "app.apk", "rb") as file:
            touch(file.fileno(), [3])
            second = json.loads(process.stdout.readline())
        self.assertEqual((second["resident_bytes"], second["came_bytes"], second["went"]),
                         (PAGE, PAGE, []))
        self.assertEqual([r["name"] for r in second["came"]], ["one", "two"])
        # the second one's header
        self.assertEqual(sum(r["bytes"] for r in second["came"]), PAGE - 33)
        self.end(process, signal.SIGTERM)

    def test_files_that_are_new(self):
        (self.dir / "libs").mkdir()
        self.file("libs/old.so", 2 * PAGE)
        process = self.watch("libs")
        self.assertIn(" libs/old.so resident(B)=0 ", process.stdout.readline())
        self.file("new.so", 2 * PAGE).rename(self.dir / "libs" / "new.so")
        self.assertIn(" libs/new.so resident(B)=0 came(B)=0 ", process.stdout.readline())
        (self.dir / "libs" / "old.so").unlink()
        self.assertRegex(process.stdout.readline(), r" libs/old\.so gone$")
        self.end(process, signal.SIGINT)

    def test_directory_of_zips(self):
        (self.dir / "apps").mkdir()
        (self.dir / "apps" / "note.txt").write_text("no zip")
        with zipfile.ZipFile(self.dir / "apps" / "a.apk", "w") as app:
            app.writestr("one", bytes(PAGE))
        done = self.pintool("file", "apps", "--zip", "--watch", "0.1", "--times", "2")
        self.assertEqual(done.stdout.count("\n"), 1)
        self.assertIn(" apps/a.apk resident(B)=", done.stdout)
        self.assertIn("not a zip",
                      self.pintool("file", "apps/note.txt", "--zip", "--watch", "1", code=1).stderr)

    def test_process_that_ends(self):
        path = self.file("mapped.bin", 4 * PAGE)
        child = subprocess.Popen([sys.executable, "-c", Process.child, path, "0", str(4 * PAGE)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"ready\n")
        process = self.watch("--pid", str(child.pid))
        while f" {path} resident(B)=0 " not in process.stdout.readline():
            pass
        child.communicate(b"", timeout=20)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual([line for line in out.splitlines() if line.endswith(f" {path} gone")], [])

    def test_zip_that_is_written_anew(self):
        for size in (3 * PAGE, 9 * PAGE):
            with zipfile.ZipFile(self.dir / "app.apk", "w") as app:  # the same inode
                app.writestr("first" if size == 3 * PAGE else "second", bytes(size))
            keep(self.dir / "app.apk")
            if size == 3 * PAGE:
                process = self.watch("app.apk", "--zip")
                process.stdout.readline()
        while "resident(B)=0 " not in process.stdout.readline():
            pass
        with open(self.dir / "app.apk", "rb") as file:
            touch(file.fileno(), [7])
            while not (line := process.stdout.readline()).startswith("came zip_offset="):
                pass
        self.assertRegex(
            line, rf"^came zip_offset={7 * PAGE} file_offset=\d+ total_bytes={PAGE} name=second$")
        self.end(process, signal.SIGINT)

    def test_file_that_is_no_zip_for_a_while(self):
        path = self.dir / "app.apk"
        with zipfile.ZipFile(path, "w") as app:
            app.writestr("one", bytes(3 * PAGE))
        data = path.read_bytes()
        process = self.watch("app.apk", "--zip")
        process.stdout.readline()
        path.write_bytes(data[:PAGE])
        while not process.stdout.readline().endswith(" app.apk no zip\n"):
            self.assertIsNone(process.poll())
        path.write_bytes(data)
        while " app.apk resident(B)=" not in process.stdout.readline():
            self.assertIsNone(process.poll())
        self.end(process, signal.SIGINT)

        path.write_bytes(data[:PAGE])
        done = self.pintool("file", "app.apk", "--zip", "--watch", "100ms", code=1)
        self.assertIn("not a zip", done.stderr)

    def test_so_many_looks(self):
        self.file("a.so", PAGE)
        before = time.monotonic()
        (self.dir / "empty.so").touch()
        done = self.pintool("file", "a.so", "empty.so", "--watch", "100ms", "--times", "3")
        self.assertGreaterEqual(time.monotonic() - before, 0.2)
        self.assertEqual(done.stdout.count(" resident(B)=0 came(B)=0 went(B)=0\n"), 2)
        self.assertEqual(done.stdout.count("\n"), 2)


if __name__ == "__main__":
    unittest.main()
