# SPDX-License-Identifier: Apache-2.0
"""Hostile archives: bombs, lies about sizes, names that lead elsewhere."""
import pathlib
import struct
import unittest
import zipfile
import zlib

import lib
from test_inputs import PRESSURE, SCHED, Case, recording

BOMB_BYTES = 3 << 29  # an archive of this bomb may hold 1.4 GiB


class HostileArchives(Case):
    def entries_archive(self, entries):
        """A zip of entries (name, method, flags, crc, packed data, claimed size, offset). With the
        offset None, the entry has data of its own."""
        data, directory = b"", b""
        for name, method, flags, crc, packed, size, offset in entries:
            common = struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 0, crc, len(packed), size,
                                 len(name), 0)
            if offset is None:
                offset = len(data)
                data += b"PK\x03\x04" + common + name + packed
            directory += b"PK\x01\x02\x14\x00" + common + struct.pack(
                "<HHHII", 0, 0, 0, 0, offset) + name
        n = len(entries)
        return data + directory + b"PK\x05\x06" + struct.pack(
            "<HHHHIIH", 0, 0, n & 0xffff, n & 0xffff, len(directory), len(data), 0)

    @staticmethod
    def deflated(content):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(content) + packer.flush()

    def bomb(self, size):
        """An entry that begins as a trace and inflates to `size` bytes of zeros."""
        packer, chunk = zlib.compressobj(9, zlib.DEFLATED, -15), bytes(1 << 20)
        head = bytes([10, 0xff, 0xff, 0xff, 0x7f, 8])
        crc, packed = zlib.crc32(head), [packer.compress(head)]
        for _ in range(size >> 20):
            packed.append(packer.compress(chunk))
            crc = zlib.crc32(chunk, crc)
        return (b"bomb", 8, 0, crc, b"".join(packed) + packer.flush(), size + len(head), None)

    def test_bomb(self):
        """The entries before and after a bomb are read."""
        bomb = self.bomb(BOMB_BYTES)
        path = self.write("bomb.zip", self.entries_archive([bomb]))
        self.assertLess(path.stat().st_size, 4 << 20)
        self.assertIn("bomb.zip!bomb: it inflates to far more", self.convert(path, code=1))
        self.nothing_left("bomb.zip")
        goods = [(name, 0, 0, zlib.crc32(data), data, len(data), None)
                 for name, data in ((b"before", PRESSURE.read_bytes()),
                                    (b"after", SCHED.read_bytes()))]
        path = self.write("bomb.zip", self.entries_archive([goods[0], bomb, goods[1]]))
        said = self.convert(path, code=1)
        self.assertRegex(said, r"bomb.zip!bomb: it inflates to far more .*\(unpack it yourself if "
                               r"you trust it\); left out")
        self.assertEqual(self.query("SELECT path FROM trace ORDER BY id"),
                         [(f"{path}!before",), (f"{path}!after",)])

    def test_an_entry_that_is_no_trace(self):
        """The entry begins like a trace."""
        content, other = bytes([10, 0xff, 0xff, 0xff, 0x7f, 8]) + bytes(1000), PRESSURE.read_bytes()
        bad = (b"bad", 0, 0, zlib.crc32(content), content, len(content), None)
        good = (b"good", 0, 0, zlib.crc32(other), other, len(other), None)
        path = self.dir / "a.zip"
        for entries in ((bad, good), (good, bad)):
            said = self.convert(self.write("a.zip", self.entries_archive(entries)), code=1)
            self.assertIn(
                "a.zip!bad: not a Perfetto trace (it does not begin with a packet); left out\n",
                said)
            self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!good",)])
        self.db.unlink()
        self.assertIn("a.zip!bad: not a Perfetto trace",
                      self.convert(self.write("a.zip", self.entries_archive([bad])), code=1))
        self.nothing_left("a.zip")

    def test_entries_that_share_their_bytes(self):
        """If an archive names the same bytes several times, their inflated size counts each
        time."""
        content = bytes([10, 0xff, 0xff, 0xff, 0x7f, 8]) + bytes(64 << 20)
        packed, crc = self.deflated(content), zlib.crc32(content)
        one = (b"t", 8, 0, crc, packed, len(content))
        small = SCHED.read_bytes()
        trace = (b"good", 0, 0, zlib.crc32(small), small, len(small), None)
        path = self.write("overlap.zip",
                          self.entries_archive([one + (None,)] + [one + (0,)] * 40 + [trace]))
        said = self.convert(path, code=1)
        self.assertIn("overlap.zip!t: not a Perfetto trace", said)
        self.assertIn("overlap.zip!t: it inflates to far more than an archive of ", said)
        self.assertIn("and 9 further files in it; left out", said)
        self.assertEqual(self.query("SELECT path FROM trace "), [(f"{path}!good",)])

    def test_gzip_in_archives(self):
        """The size of gzip entries counts as inflated, like the size of other entries."""
        packer, chunk = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(1 << 20)
        packed = packer.compress(bytes([10, 0xff, 0xff, 0xff, 0x7f, 8]))
        packed += b"".join(packer.compress(chunk) for _ in range(128)) + packer.flush()
        one = (b"trace.gz", 0, 0, zlib.crc32(packed), packed, len(packed))
        small = SCHED.read_bytes()
        trace = (b"good", 0, 0, zlib.crc32(small), small, len(small), None)
        path = self.write("nested.zip",
                          self.entries_archive([one + (None,)] + [one + (0,)] * 9 + [trace]))
        self.assertLess(path.stat().st_size, 1 << 20)
        said = self.convert(path, code=1)
        self.assertIn("nested.zip!trace.gz: not a Perfetto trace", said)
        self.assertEqual(
            said.count(
                "nested.zip!trace.gz: it inflates to far more than an archive of "
                f"{path.stat().st_size} "), 2)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!good",)])

    def test_archives_in_archives(self):
        """Archives in an archive are read, too; all count against the limit of the outermost."""
        inner = self.zip("inner.zip", {"t": PRESSURE.read_bytes()}).read_bytes()
        path = self.zip("outer.zip", {"inner.zip": inner, "u": SCHED.read_bytes()})
        self.convert(path)
        self.assertEqual(self.query("SELECT path FROM trace ORDER BY 1"),
                         [(f"{path}!inner.zip!t",), (f"{path}!u",)])
        empty = self.zip("inner.zip", {"notes": b"nothing"}).read_bytes()
        said = self.convert(self.zip("outer.zip", {"inner.zip": empty, "u": SCHED.read_bytes()}),
                            code=1)
        self.assertIn(
            "outer.zip!inner.zip: no trace in this archive (nor another file that mmsql reads); "
            "left out", said)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!u",)])
        bomb = self.entries_archive([self.bomb(800 << 20)])
        path = self.zip("outer.zip", {"a.zip": bomb, "b.zip": bomb, "u": SCHED.read_bytes()},
                        zipfile.ZIP_STORED)
        said = self.convert(path, code=1)
        self.assertIn("outer.zip!a.zip!bomb: not a Perfetto trace", said)
        self.assertIn(
            "outer.zip!b.zip!bomb: it inflates to far more than an archive of "
            f"{path.stat().st_size} bytes", said)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!u",)])

    def test_bugreports_that_lie(self):
        """Entries that stand for files of /proc are bounded; a mistake in an entry costs only that
        file."""
        index = ("bugreport of mmtrace \x1b[31m\nuptime 99999999999999999999 s\nproc -1.5 s after "
                 "boot, 2026-99-99T99:99:99Z\n"
                 "host \x1b]0;x\x07\nkernel " + "k" * 9000 + "\n")
        path = self.zip("r.zip", {
            "index.txt": index, "FS/proc/vmstat": "nr_free_pages 1\n" * (2 << 20),
            "FS/proc/meminfo": "MemTotal: 18446744073709551615 kB\n" + "x" * 2000000 + ": 5\n",
            "FS/proc/zoneinfo": "Node 99999999999999999999, zone A\nNode 0, zone\n",
            "FS/proc/slabinfo": "slabinfo - version: 2.1\n",
            "FS/proc/buddyinfo": "Node 0, zone A" + " 1" * 65 + "\nNode 0, zone A"
            + " 9223372036854775807" * 2 + "\n",
            "FS/proc/pressure/memory": "some avg10=1e300 avg60=0.00 avg300=0.00 total=1\nfull "
                                       "avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
            "FS/proc/swaps": "Filename Type\n1 2 3 -\n",
            "FS/proc/version": "Linux version " + "9" * 9000, "kernel.log": "<9>[1.0] x\n"})
        said = self.convert(path, code=1)
        self.assertNotIn("\x1b", said)
        self.assertIn("FS/proc/vmstat: line 1: the file is larger than any of /proc", said)
        self.assertEqual(
            self.query("SELECT program, host, ts, realtime_ns, kernel FROM proc_snapshot"),
            [("mmtrace ?[31m", "?]0;x?", None, None, None)])
        counts = {table: self.query(f"SELECT count(*) FROM {table}")[0][0] for table in (
            "proc_vmstat", "proc_meminfo", "proc_zoneinfo", "proc_slabinfo", "proc_buddyinfo",
            "proc_pressure", "proc_swap")}
        self.assertEqual({table for table, n in counts.items() if n}, {"proc_pressure"})
        self.assertEqual(self.query("SELECT kind, total_ns FROM proc_pressure"), [("full", 7000)])

    def test_bugreports_of_others(self):
        """Bugreports of dumpstate: many files are not traces. If the usual folder has no trace,
        mmsql finds traces in other folders."""
        entries = {"main_entry.txt": "bugreport-x.txt", "bugreport-x.txt": "== dumpstate\n" * 100,
                   "version.txt": "2.0",
                   "FS/proc/1/mountinfo": "21 1 0:19 / /proc rw\n",
                   "FS/proc/version": "Linux version 6.6.1\n",
                   "FS/proc/vmstat": "nr_free_pages 1\n", "FS/data/anr/anr_1": "pid 1",
                   "FS/data/x.pftrace": SCHED.read_bytes()}
        self.convert(self.zip("a.zip", entries))
        self.assertEqual(
            self.query("SELECT (SELECT count(*) FROM trace), count(*), kernel FROM proc_snapshot"),
            [(1, 1, "Linux version 6.6.1")])
        entries["FS/data/misc/perfetto-traces/bugreport/systrace.pftrace"] = PRESSURE.read_bytes()
        self.convert(self.zip("a.zip", entries))
        self.assertEqual(self.query("SELECT size_bytes FROM trace"), [(PRESSURE.stat().st_size,)])
        self.assertEqual(self.query("SELECT value FROM proc_vmstat"), [(1,)])

    def test_verbs_about_traces_say_what_a_bugreport_without_traces_needs(self):
        path = self.zip("a.zip", {"main_entry.txt": "bugreport-x.txt",
                                  "bugreport-x.txt": "== dumpstate\n" * 100, "version.txt": "2.0",
                                  "FS/proc/version": "Linux version 6.6.1\n",
                                  "FS/proc/vmstat": "nr_free_pages 1\n"})
        for argv in (("verdict", path), ("report", "--text", path), ("report", path)):
            done = lib.run(lib.MMSQL, *argv)
            self.assertEqual((done.returncode, done.stderr), (
                1, f"mmsql: {path}: there is no trace in it ('mmsql convert {path} -o x.db' makes "
                   "a database of what it has)\n"))
        self.convert(path)
        done = lib.run(lib.MMSQL, "verdict", self.db)
        self.assertIn(f"('mmsql query {self.db}' shows what the database has)", done.stderr)

    def test_entry_that_is_left_out(self):
        """A message names the entry, although other entries were read."""
        content = SCHED.read_bytes()
        trace = (b"t", 0, 0, zlib.crc32(content), content, len(content), None)
        said = self.convert(
            self.write("a.zip", self.entries_archive([(b"odd", 77, 0, 0, b"x", 1, None), trace])))
        self.assertIn(
            "a.zip!odd: its method of compression or encryption is not supported; left out\n", said)
        damaged = (b"bad", 8, 0, 0, b"\xff" * 50, 50, None)
        self.assertIn("a.zip!bad: the data is damaged; left out\n",
                      self.convert(self.write("a.zip", self.entries_archive([damaged, trace])),
                                   code=1))
        other = PRESSURE.read_bytes()
        packed, crc = self.deflated(other), zlib.crc32(other)
        wrong = [(b"sum", 8, 0, crc ^ 1, packed, len(other), None),
                 (b"half", 8, 0, crc, packed[:len(packed) // 2], len(other), None)]
        for bad in (wrong, wrong[:1] * 20, [damaged] * 20):
            said = self.convert(self.write("a.zip", self.entries_archive([*bad, trace])), code=1)
            self.assertEqual(said.count("; left out\n"), min(len(bad), 17))
            self.assertEqual("a.zip!half: the data is damaged" in said, bad is wrong)
            self.assertEqual("and 4 further files in it; left out" in said, len(bad) == 20)
            self.assertEqual(self.query("SELECT path FROM trace"), [(f"{self.dir}/a.zip!t",)])
            self.assertEqual(self.query("SELECT count(*) > 100 FROM sched_slice"), [(1,)])

    def test_sizes_that_lie(self):
        content = PRESSURE.read_bytes()
        packed, crc = self.deflated(content), zlib.crc32(content)
        for size, why in ((1, "no trace in this archive"),
                          (len(content) - 1, "lie.zip!t: the data is damaged")):
            path = self.write("lie.zip",
                              self.entries_archive([(b"t", 8, 0, crc, packed, size, None)]))
            self.assertIn(why, self.convert(path, code=1))
            self.nothing_left("lie.zip")
        for size in (len(content) + 1, 0xfffffffe):  # the checksum says that nothing is missing
            self.convert(self.write("lie.zip",
                                    self.entries_archive([(b"t", 8, 0, crc, packed, size, None)])))
            self.assertEqual(
                self.query("SELECT int_value FROM metadata WHERE name = 'trace_size_bytes'"),
                [(len(content),)])
        path = self.write("lie.zip",
                          self.entries_archive([(b"t", 8, 0, crc ^ 1, packed, len(content), None)]))
        self.assertIn("its checksum is wrong", self.convert(path, code=1))
        path = self.write(
            "lie.zip", self.entries_archive([(b"t", 8, 0, crc, packed[:1000], len(content), None)]))
        self.assertIn("the data is damaged", self.convert(path, code=1))

    def test_methods(self):
        for method, known in ((zipfile.ZIP_STORED, True), (zipfile.ZIP_DEFLATED, True),
                              (zipfile.ZIP_LZMA, False)):
            path = self.zip("m.zip", {"t": PRESSURE.read_bytes()}, method)
            said = self.convert(path, code=0 if known else 1)
            if not known:
                self.assertIn("m.zip!t: its method of compression or encryption is not supported",
                              said)
        content = PRESSURE.read_bytes()
        path = self.write("m.zip",
                          self.entries_archive([(b"t", 77, 0, zlib.crc32(content), content,
                                                 len(content), None)]))
        self.assertIn("m.zip!t: its method", self.convert(path, code=1))

    def test_zip64(self):
        path = self.dir / "64.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(
                "t", "w", force_zip64=True) as entry:
            entry.write(PRESSURE.read_bytes())
        self.convert(path)
        self.assertEqual(self.query("SELECT count(*) FROM trace"), [(1,)])

    def test_names_lead_nowhere(self):
        """Names are only shown: nothing is written to the places they name, and no control
        characters reach the terminal."""
        names = ("../../outside", "/tmp/absolute-outside", "a\x1b[31m\x07b", "x" * 3000)
        path = self.zip("n.zip", {name: recording(PRESSURE, i) for i, name in enumerate(names, 1)})
        self.convert(path)
        self.assertEqual(self.query("SELECT count(*) FROM trace"), [(4,)])
        self.assertFalse((self.dir.parent.parent / "outside").exists()
                         or pathlib.Path("/tmp/absolute-outside").exists())
        path = self.zip("n.zip", {"../\x1b[31mred": b"\x0a\xff\xff\xff\x7f\x08" + bytes(10)},
                        zipfile.ZIP_STORED)
        self.assertNotIn("\x1b", self.convert(path, code=1))

    def test_thousands_of_entries(self):
        content = PRESSURE.read_bytes()
        notes = [(b"n%d" % i, 0, 0, zlib.crc32(b"text"), b"text", 4, None) for i in range(20000)]
        trace = (b"t", 0, 0, zlib.crc32(content), content, len(content), None)
        self.convert(self.write("many.zip", self.entries_archive(notes + [trace])))
        self.assertEqual(self.query("SELECT count(*) FROM trace"), [(1,)])
        small = b"\x0a\x04\x08\x01\x50\x01"
        traces = [(b"t%d" % i, 0, 0, zlib.crc32(small), small, len(small), None)
                  for i in range(4097)]
        self.assertIn("more than 4096 files",
                      self.convert(self.write("many.zip", self.entries_archive(traces)), code=1))
        self.nothing_left("many.zip", "out.db")

    def test_directory_that_lies(self):
        content = PRESSURE.read_bytes()
        whole = self.entries_archive(
            [(b"t", 0, 0, zlib.crc32(content), content, len(content), None)])
        end = whole.rindex(b"PK\x05\x06")
        for at, form, value in ((8, "<H", 9), (10, "<H", 9), (10, "<H", 0), (12, "<I", 0),
                                (12, "<I", 2**32 - 1),
                                (16, "<I", 0), (16, "<I", 2**32 - 1), (20, "<H", 500)):
            with self.subTest(at=at, value=value):
                bad = bytearray(whole)
                struct.pack_into(form, bad, end + at, value)
                done = lib.run(lib.MMSQL, "convert", "-q", self.write("bad.zip", bytes(bad)), "-o",
                               self.db)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                if done.returncode:
                    self.assertIn("bad.zip", done.stderr)


if __name__ == "__main__":
    unittest.main()
