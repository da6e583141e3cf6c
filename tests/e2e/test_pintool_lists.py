# SPDX-License-Identifier: Apache-2.0
"""Pinlists that must not get lost, that do not fit, or that are inside an APK; pinconfigs made from
probes."""
import os
import random
import re
import struct
import subprocess
import unittest
import zipfile

import lib
from test_pintool import (Case, PAGE, directory_entry, drops_pages, end_records, keep, local_header,
                          ranges)

GOOD = struct.pack(">4I", PAGE, 2 * PAGE, 5 * PAGE, PAGE)


def write_zip(path, *entries, stored=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w") as app:
        for name, data in entries:
            app.writestr(zipfile.ZipInfo(name), data, compress_type=stored)
    keep(path)


@unittest.skipUnless(drops_pages(), "the file system of /var/tmp does not drop pages when told to")
class ListCase(Case):
    def setUp(self):
        super().setUp()
        self.entries = [("lib/libapp.so", b"elf!" * 7500), ("lib/libapp.so.debug", b"dbg!" * 7500),
                        ("assets/a b.dat", b"data" * 5000)]
        write_zip(self.dir / "app.apk", *self.entries)
        # The entries of app.apk in other places, because another entry precedes them.
        write_zip(self.dir / "new.apk", ("added", b"n" * 9000), *self.entries)

    def good(self, name="good.meta"):
        path = self.dir / name
        path.write_bytes(GOOD)
        return path

    def pairs(self, name="good.meta"):
        data = (self.dir / name).read_bytes()
        return [struct.unpack_from(">II", data, at) for at in range(0, len(data), 8)]

    def probed(self, name="good.meta", pages=(1, 2, 5)):
        """A pinlist of these pages of app.apk, with the note about its source."""
        keep(self.dir / "app.apk", pages)
        self.pintool("file", "app.apk", "--zip", "--gen-probe", "-o", name)
        self.assertTrue((self.dir / f"{name}.source").exists())
        return self.pairs(name)


class NothingGetsLost(ListCase):
    def stays(self, *argv, because, **options):
        path = self.good()
        done = self.pintool(*argv, "-o", path.name, code=1, **options)
        self.assertEqual(path.read_bytes(), GOOD)
        self.assertIn(because, done.stderr)
        self.assertNotIn("Pinlist Writing", done.stdout)
        return done.stderr

    def test_cold_cache(self):
        for argv in (("file", "app.apk", "--zip", "--gen-probe"),
                     ("file", "app.apk", "--gen-probe"),
                     ("measure", "app.apk", "--zip", "--read-ahead")):
            with self.subTest(argv):
                tail = ("--", "true") if argv[0] == "measure" else ()
                path = self.good()
                done = self.pintool(*argv, "-o", path.name, *tail, code=1)
                self.assertEqual(path.read_bytes(), GOOD)
                self.assertIn(
                    "good.meta: the list would be empty: nothing of the file is in memory; "
                    "the old file stays as it was (--allow-empty", done.stderr)
                self.pintool(*argv, "-o", path.name, "--allow-empty", *tail)
                self.assertEqual(path.read_bytes(), b"")

    def test_pattern_that_matches_nothing(self):
        (self.dir / "pins.txt").write_text("file libgone.so\n")
        said = self.stays("file", "app.apk", "--zip", "--pinconfig", "pins.txt",
                          because="matches no entry")
        self.assertIn('pins.txt:1: "libgone.so" matches no entry of app.apk', said)
        self.pintool("file", "app.apk", "--zip", "--pinconfig", "pins.txt", "--allow-empty", "-o",
                     "good.meta")
        self.assertEqual((self.dir / "good.meta").read_bytes(), b"")

    def test_range_beyond_its_entry(self):
        (self.dir / "pins.txt").write_text("file libapp.so\noffset 999999\nlen 4096\n")
        said = self.stays("file", "app.apk", "--zip", "--pinconfig", "pins.txt",
                          because="have no bytes of the entries")
        self.assertIn(
            "pins.txt:2: the range at offset 999999 with 4096 bytes lies beyond the entry: ", said)

    def test_pinconfig_of_pages_that_are_cold(self):
        (self.dir / "pins.txt").write_text("file libapp.so\noffset 0\nlen 4096\n")
        keep(self.dir / "app.apk", [12])
        self.stays("file", "app.apk", "--zip", "--gen-probe", "--pinconfig", "pins.txt",
                   because="nothing that the pinconfig names is in memory")

    def test_probe_of_nothing(self):
        (self.dir / "empty.meta").write_bytes(b"")
        self.stays("file", "app.apk", "--zip", "--use-probe", "empty.meta",
                   because="names nothing of the file")

    def test_no_old_list(self):
        done = self.pintool("file", "app.apk", "--zip", "--gen-probe", "-o", "fresh.meta")
        self.assertIn("fresh.meta: the list is empty: nothing of the file is in memory",
                      done.stderr)
        self.assertEqual((self.dir / "fresh.meta").read_bytes(), b"")

    def test_file_that_is_no_list_is_no_place_for_an_empty_one(self):
        (self.dir / "notes.txt").write_text("thirteen bytes")
        self.pintool("file", "app.apk", "--zip", "--gen-probe", "-o", "notes.txt", code=1)
        self.assertEqual((self.dir / "notes.txt").read_text(), "thirteen bytes")

    def test_the_file_itself_is_not_overwritten(self):
        before = (self.dir / "app.apk").read_bytes()
        keep(self.dir / "app.apk", [1])
        (self.dir / "link").symlink_to("app.apk")
        for out in ("app.apk", "link"):
            for argv in (("file", "app.apk", "--gen-probe", "-o", out),
                         ("file", "app.apk", "--zip", "--gen-probe", "--emit-pinconfig", out)):
                done = self.pintool(*argv, code=1)
                self.assertIn("pintool looks at this very file", done.stderr)
        self.assertEqual((self.dir / "app.apk").read_bytes(), before)
        other = (self.dir / "new.apk").read_bytes()
        done = self.pintool("file", "app.apk", "--gen-probe", "-o", "new.apk", code=1)
        self.assertIn("new.apk: not written: a zip is there", done.stderr)
        self.assertEqual((self.dir / "new.apk").read_bytes(), other)

    def test_the_difference_to_a_replaced_list_is_reported(self):
        self.good()
        keep(self.dir / "app.apk", [1])
        done = self.pintool("file", "app.apk", "--zip", "--gen-probe", "-o", "good.meta")
        self.assertEqual(done.stderr,
                         f"pintool: good.meta: 1 range with {PAGE} bytes replaces 2 ranges with "
                         f"{3 * PAGE} bytes: less than half\n")
        self.assertEqual(self.pintool("file", "app.apk", "--zip", "--gen-probe", "-o",
                                      "good.meta").stderr, "")

    def test_stale_parts_are_named_and_the_rest_is_written(self):
        (self.dir / "pins.txt").write_text(
            "file libgone.so\nfile libapp.so\noffset 0 len 4096\noffset 29000 len 2000\noffset "
            "40000 len 1\n"
            "offset 8192 len 0\nfile libapp.so.debug\nfile dat\n")
        done = self.pintool("file", "app.apk", "--zip", "--pinconfig", "pins.txt", "-o", "new.meta")
        self.assertEqual(
            [re.sub(r"^pintool: pins.txt:", "", line) for line in done.stderr.splitlines()], [
                '1: "libgone.so" matches no entry of app.apk',
                "4: the range at offset 29000 with 2000 bytes is cut at the end of the "
                "entry: lib/libapp.so has 30000 bytes",
                "5: the range at offset 40000 with 1 bytes lies beyond the entry: lib/libapp.so "
                "has 30000 bytes",
                "6: the range at offset 8192 with 0 bytes is empty: lib/libapp.so has 30000 bytes",
                '7: "libapp.so.debug" gets no entry of app.apk: patterns above it match the same '
                'names',
            ])
        self.assertTrue(self.pairs("new.meta"))

    def test_a_pattern_is_stale_only_if_no_zip_has_it(self):
        (self.dir / "pins.txt").write_text("file added\nfile libapp.so\nfile gone\n")
        done = self.pintool("file", "app.apk", "new.apk", "--zip", "--pinconfig", "pins.txt",
                            "--dump")
        self.assertEqual(done.stderr, 'pintool: pins.txt:3: "gone" matches no entry of 2 zips\n')


class OtherBuilds(ListCase):
    def test_entries_that_moved(self):
        before = self.probed()
        looked = self.pintool("file", "new.apk", "--zip", "--use-probe", "good.meta", "--dump")
        self.assertRegex(looked.stderr,
                         r"^pintool: good.meta was made of another build of new.apk: lib/libapp.so "
                         r"is at byte 9078 with 30000 bytes, and was at 43 with 30000 \(1 of 1 "
                         r"entries differ\)")
        done = self.pintool("file", "new.apk", "--zip", "--use-probe", "good.meta", "-o",
                            "good.meta", code=1)
        self.assertIn("nothing is written", done.stderr)
        self.assertEqual(self.pairs(), before)
        held = self.pintool("preload", "good.meta", "new.apk")
        self.assertIn("another build of new.apk", held.stderr)
        self.assertEqual(self.pintool("preload", "good.meta", "app.apk").stderr, "")

    def test_changed_and_missing_entries_are_reported(self):
        self.probed()
        write_zip(self.dir / "new.apk", ("lib/libapp.so", b"ELF!" * 7500), *self.entries[1:])
        self.assertIn("lib/libapp.so has other data",
                      self.pintool("preload", "good.meta", "new.apk").stderr)
        write_zip(self.dir / "new.apk", *self.entries[1:])
        self.assertIn("lib/libapp.so is not in it",
                      self.pintool("preload", "good.meta", "new.apk").stderr)
        self.good("plain.bin")
        self.assertIn("lib/libapp.so is not in it",
                      self.pintool("preload", "good.meta", "plain.bin").stderr)

    def test_same_places_are_the_same_build(self):
        """A build puts the list and a signature into the archive after the probe."""
        self.probed()
        with zipfile.ZipFile(self.dir / "app.apk", "a") as app:
            app.writestr("META-INF/CERT.SF", b"signed")
            app.write(self.dir / "good.meta", "assets/pinlist.meta")
        for argv in (("file", "app.apk", "--zip", "--use-probe", "good.meta"),
                     ("preload", "good.meta", "app.apk")):
            self.assertEqual(self.pintool(*argv).stderr, "")

    def test_a_note_that_does_not_fit_the_list_is_ignored(self):
        self.probed()
        source = self.dir / "good.meta.source"
        text = source.read_text()
        self.good().write_bytes(GOOD[:8])
        self.assertEqual(self.pintool("preload", "good.meta", "new.apk").stderr, "")
        self.probed()
        for broken in ("", "x" * 100, text[:-20], text.replace("entry offset=", "entry offset=-"),
                       text[1:]):
            source.write_text(broken)
            self.assertEqual(self.pintool("preload", "good.meta", "new.apk").stderr, "", broken)
        source.write_text(text + "word from a later version\n")
        self.assertIn("another build", self.pintool("preload", "good.meta", "new.apk").stderr)

    def test_list_is_written_where_its_source_cannot_be(self):
        (self.dir / "good.meta.source").mkdir()
        keep(self.dir / "app.apk", [1])
        done = self.pintool("file", "app.apk", "--zip", "--gen-probe", "-o", "good.meta")
        self.assertIn("good.meta.source", done.stderr)
        self.assertEqual(self.pairs(), [(PAGE, PAGE)])

    def test_source_leads_nowhere(self):
        """The user does not choose the name of the .source file, so a link or a pipe of this name
        is replaced."""
        source, victim = self.dir / "good.meta.source", self.dir / "victim"
        victim.write_text("mine\n")
        source.symlink_to(victim)
        self.probed()
        self.assertEqual(victim.read_text(), "mine\n")
        self.assertFalse(source.is_symlink())
        source.unlink()
        os.mkfifo(source)
        self.assertEqual(self.pintool("preload", "good.meta", "new.apk").stderr, "")
        self.probed()
        self.assertTrue(source.is_file())
        self.assertEqual(list(self.dir.glob("*.tmp")), [])

    def test_probe_that_reaches_beyond_writes_nothing(self):
        (self.dir / "long.meta").write_bytes(struct.pack(">2I", PAGE, 1 << 20))
        done = self.pintool("file", "app.apk", "--zip", "--use-probe", "long.meta", "-o",
                            "good.meta", code=1)
        self.assertIn("beyond the end of app.apk", done.stderr)
        self.assertFalse((self.dir / "good.meta").exists())


class InsideAnApk(ListCase):
    def embed(self, data=GOOD, method=zipfile.ZIP_DEFLATED, times=1):
        for _ in range(times):
            with zipfile.ZipFile(self.dir / "app.apk", "a") as app:
                app.writestr("assets/pinlist.meta", data, compress_type=method)
        return self.dir / "app.apk"

    @lib.needs_root
    def test_stored_and_deflated(self):
        original = (self.dir / "app.apk").read_bytes()
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            (self.dir / "app.apk").write_bytes(original)
            app = self.embed(method=method)
            said = self.pintool("pinlist", "app.apk").stdout
            self.assertEqual(ranges(said, ("start", "bytes")), [(PAGE, 2 * PAGE), (5 * PAGE, PAGE)])
            with open(app, "rb") as file:
                self.assertEqual(self.pintool("pinlist", "-", stdin=file).stdout, said)
            probed = self.pintool("file", "app.apk", "--zip", "--use-probe", "app.apk",
                                  "--dump").stdout
            self.assertIn(f"zip_offset={PAGE} file_offset={PAGE - 43} total_bytes={2 * PAGE}\n",
                          probed)
            self.assertIn(f"locked ranges=2 bytes={3 * PAGE} ",
                          self.pintool("lock", "app.apk", "-t", "0.01s").stdout)
            self.assertIn(f"preloaded ranges=2 bytes={3 * PAGE} ",
                          self.pintool("preload", "app.apk").stdout)

    def test_looking_leaves_no_trace(self):
        app = self.embed()
        keep(app)
        self.pintool("pinlist", "app.apk")
        self.assertIn(" resident(B)=0 ", self.pintool("file", "app.apk", "--gen-probe").stdout)

    def test_list_of_an_older_build(self):
        self.embed()
        said = self.pintool("file", "new.apk", "--zip", "--use-probe", "app.apk", "--dump").stderr
        self.assertIn("app.apk was made of another build of new.apk: lib/libapp.so is at", said)

    def test_archives_without_a_usable_list(self):
        self.assertIn("no assets/pinlist.meta in it",
                      self.pintool("pinlist", "app.apk", code=1).stderr)
        self.assertIn("no assets/pinlist.meta in it",
                      self.pintool("lock", "app.apk", code=1).stderr)
        self.embed(data=GOOD[:-1])
        self.assertIn("not a whole number of pairs",
                      self.pintool("pinlist", "app.apk", code=1).stderr)
        write_zip(self.dir / "app.apk", *self.entries)
        self.embed(method=zipfile.ZIP_LZMA)
        self.assertIn("compressed by method 14", self.pintool("pinlist", "app.apk", code=1).stderr)
        self.good("fake.apk")
        self.assertIn("not a zip", self.pintool("pinlist", "fake.apk", code=1).stderr)

    def hostile(self, data, *, method=0, size=None, crc=0, times=1):
        """A zip with a pinlist that claims to be `size` bytes."""
        name = b"assets/pinlist.meta"
        body, directory = b"", b""
        for _ in range(times):
            at = len(body)
            body += local_header(name, len(data), method=method) + data
            entry = bytearray(directory_entry(name, len(data), at, method=method))
            struct.pack_into("<I", entry, 16, crc)
            struct.pack_into("<I", entry, 24, len(data) if size is None else size)
            directory += bytes(entry)
        (self.dir / "hostile.apk").write_bytes(
            body + directory + end_records(times, len(directory), len(body)))
        return self.pintool("pinlist", "hostile.apk", code=1).stderr

    def test_hostile(self):
        bomb = zipfile.zlib.compressobj(9, zipfile.zlib.DEFLATED, -15)
        bomb = bomb.compress(bytes(100 << 20)) + bomb.flush()
        self.assertIn("more data than the directory", self.hostile(bomb, method=8, size=4096))
        self.assertIn("larger than 64 MiB", self.hostile(bomb, method=8, size=100 << 20))
        self.assertIn("less data than the directory", self.hostile(GOOD, size=1 << 20))
        self.assertIn("more data than the directory", self.hostile(GOOD, size=8))
        self.assertIn("data are damaged", self.hostile(b"\xff" * 50, method=8))
        self.assertIn("checksum is wrong", self.hostile(GOOD, crc=1))
        self.assertIn("is there twice", self.hostile(GOOD, times=2))


class EmitPinconfig(ListCase):
    def test_ranges_hold_for_the_next_build(self):
        keep(self.dir / "app.apk", [1, 2, 5])
        self.pintool("file", "app.apk", "--zip", "--gen-probe", "--emit-pinconfig", "pins.txt")
        done = self.pintool("file", "new.apk", "--zip", "--pinconfig", "pins.txt", "--dump", "-o",
                            "new.meta")
        self.assertEqual(done.stderr, "")
        filtered = done.stdout.split("----Filtered file coverages----")[1]
        self.assertEqual([(int(m[1]), int(m[2]))
                          for m in re.finditer(r"file_offset=(\d+) total_bytes=(\d+)", filtered)],
                         [(PAGE - 43, 2 * PAGE), (5 * PAGE - 43, PAGE)])
        self.assertIn("lib/libapp.so.debug size(B)=30000 resident(B)=0 ", filtered)
        self.assertNotIn("a b.dat", filtered)

    def test_names_that_contain_each_other(self):
        chance = random.Random(7)
        parts = ["a", "b", "/", "so", " ", "#x", '"', "\r"]
        names = {"".join(chance.choices(parts, k=chance.randrange(1, 6))) for _ in range(120)}
        names = sorted(name for name in names if not name.endswith("/"))
        write_zip(self.dir / "odd.zip", *((name, bytes(700)) for name in names))
        pages = -(-(self.dir / "odd.zip").stat().st_size // PAGE)
        keep(self.dir / "odd.zip", chance.sample(range(pages), pages // 3))
        probed = self.pintool("file", "odd.zip", "--zip", "--gen-probe", "--dump", "-o",
                              "odd.meta").stdout
        want = {}
        said = subprocess.run([lib.PINTOOL, "file", "odd.zip", "--zip", "--use-probe", "odd.meta",
                               "--emit-pinconfig",
                               "pins.txt"], cwd=self.dir, capture_output=True, text=True,
                              timeout=60, check=False)
        unsayable = [name for name in names if '"' in name
                     and (" " in name or "\r" in name or name[0] == '"')]
        self.assertEqual(said.returncode, 1 if unsayable else 0, said.stderr)
        self.assertIn("cannot be written", said.stderr)
        for text, into in ((probed, want),
                           (self.pintool("file", "odd.zip", "--zip", "--pinconfig", "pins.txt",
                                          "--dump").stdout.split("----Filtered")[1], {})):
            for head, body in re.findall(
                    r"^(.*) size\(B\)=700 resident.*\nfile resident ranges\n((?:zip_.*\n)*)", text,
                    re.M):
                into[head] = body
            if into is not want:
                got = into
        shown = [name.replace("\r", "?") for name in names]
        for name, printed in zip(names, shown):
            if shown.count(printed) == 1 and not any(u in name
                                                     for u in unsayable) and name not in unsayable:
                self.assertEqual(got.get(printed, ""), want[printed], repr(name))
        self.assertGreater(sum(bool(body) for body in want.values()), 10)

    def test_whole_entries_and_measured_ones(self):
        size = (self.dir / "app.apk").stat().st_size
        keep(self.dir / "app.apk", range(-(-size // PAGE)))
        self.pintool("file", "app.apk", "--zip", "--gen-probe", "--emit-pinconfig", "pins.txt")
        self.assertEqual((self.dir / "pins.txt").read_text(),
                         'file lib/libapp.so.debug\nfile "assets/a b.dat"\nfile lib/libapp.so\n')
        self.pintool("measure", "app.apk", "--zip", "--read-ahead", "--emit-pinconfig",
                     "measured.txt", "--", "sh", "-c",
                     "cat app.apk > /dev/null")
        self.assertEqual((self.dir / "measured.txt").read_text(),
                         (self.dir / "pins.txt").read_text())

    def test_nothing_to_say(self):
        (self.dir / "pins.txt").write_text("file old\n")
        done = self.pintool("file", "app.apk", "--zip", "--gen-probe", "--emit-pinconfig",
                            "pins.txt", code=1)
        self.assertIn("no pinconfig is written", done.stderr)
        self.assertEqual((self.dir / "pins.txt").read_text(), "file old\n")
        for argv in (("--zip",), ("--gen-probe",), ("new.apk", "--zip", "--gen-probe")):
            self.assertIn("--emit-pinconfig",
                          self.pintool("file", "app.apk", *argv, "--emit-pinconfig", "x",
                                       code=2).stderr)


if __name__ == "__main__":
    unittest.main()
