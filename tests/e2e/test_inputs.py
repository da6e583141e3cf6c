# SPDX-License-Identifier: Apache-2.0
"""mmsql convert on other inputs than one plain trace: several traces, archives, other files, old
databases."""
import contextlib
import gzip
import os
import pathlib
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

import lib
from protowire import varint

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"
SCHED = GOLDEN / "sched_deflate.pftrace"
HEAP = GOLDEN / "heap_continuous.pftrace"
BUGREPORT_TRACE = "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace"


def recording(trace, session, snapshot=1):
    """The bytes of `trace` as another recording: the last TraceUuid counts."""
    uuid = bytes([8, snapshot, 16, session])
    return trace.read_bytes() + bytes([10, len(uuid) + 3, 0xca, 5, len(uuid)]) + uuid


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="inputs-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = self.dir / "out.db"

    def convert(self, *files, code=0, db=None, **options):
        done = lib.run(lib.MMSQL, "convert", "-q", *files, "-o", db or self.db, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def query(self, sql, db=None):
        with contextlib.closing(sqlite3.connect(f"file:{db or self.db}?mode=ro",
                                                uri=True)) as handle:
            return handle.execute(sql).fetchall()

    def write(self, name, content):
        path = self.dir / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def zip(self, name, entries, method=zipfile.ZIP_DEFLATED):
        path = self.dir / name
        with zipfile.ZipFile(path, "w", method) as archive:
            for entry, content in entries.items():
                archive.writestr(entry, content)
        return path

    def nothing_left(self, *expected):
        """No working files are left beside the output."""
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), sorted(expected))


class SeveralTraces(Case):
    def test_rows_of_each_trace_lead_to_its_own(self):
        counts, alone = {}, {}
        for index, trace in enumerate((PRESSURE, HEAP, SCHED)):
            self.convert(trace)
            counts[index] = self.query("SELECT count(*) FROM process")[0][0]
            alone[index] = self.query(
                "SELECT t.name, p.pid, count(*) FROM sched_slice s JOIN thread t USING (utid) "
                "LEFT JOIN process p USING (upid) GROUP BY 1, 2 ORDER BY 1, 2")
        self.convert(PRESSURE, HEAP, SCHED)
        self.assertEqual(
            dict(self.query(
                "SELECT trace_id, count(*) FROM process JOIN trace_machine USING (machine_id) "
                "GROUP BY 1")),
            counts)
        for index, rows in alone.items():
            self.assertEqual(rows, self.query(
                "SELECT t.name, p.pid, count(*) FROM sched_slice s JOIN thread t USING (utid) "
                "JOIN trace_machine m ON m.machine_id = t.machine_id LEFT JOIN process p "
                f"USING (upid) WHERE trace_id = {index} GROUP BY 1, 2 ORDER BY 1, 2"))
        self.assertEqual(self.query("SELECT id, path, ts_shift FROM trace"),
                         [(0, str(PRESSURE), 0), (1, str(HEAP), 0), (2, str(SCHED), 0)])
        self.assertEqual({row[0] for row in self.query("SELECT DISTINCT trace_id FROM metadata")},
                         {0, 1, 2})
        self.assertEqual({row[0] for row in self.query("SELECT DISTINCT trace_id FROM stats")},
                         {0, 1, 2})
        self.assertEqual(self.query("SELECT min(start_ts), max(end_ts) FROM trace"),
                         self.query("SELECT * FROM trace_bounds"))
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])

    def test_events_keep_their_fields(self):
        sql = ("SELECT e.name, a.key, a.display_value, e.ts FROM ftrace_event e JOIN args a "
               "USING (arg_set_id) JOIN thread t USING (utid) JOIN trace_machine "
               f"USING (machine_id) JOIN trace r ON r.id = trace_id WHERE r.path = '{PRESSURE}' "
               "AND e.name LIKE 'mm_%' ORDER BY e.ts, e.name, a.key")
        self.convert(PRESSURE)
        alone = self.query(sql)
        self.assertTrue(alone)
        self.convert(SCHED, PRESSURE)
        self.assertEqual(self.query(sql), alone)

    def test_call_chains_stay_whole(self):
        sql = ("WITH RECURSIVE up(leaf, id, chain) AS (SELECT id, parent_id, frame_id "
               "FROM stack_profile_callsite UNION ALL SELECT leaf, c.parent_id, c.frame_id FROM up "
               "JOIN stack_profile_callsite c USING (id)) SELECT size, group_concat(f.name || '@' "
               "|| m.name) FROM heap_profile_allocation h JOIN up ON up.leaf = h.callsite_id "
               "JOIN stack_profile_frame f ON f.id = chain JOIN stack_profile_mapping m ON m.id = "
               "f.mapping GROUP BY h.id ORDER BY h.id")
        self.convert(HEAP)
        alone = self.query(sql)
        self.assertTrue(alone)
        self.convert(HEAP, self.write("again.pftrace", recording(HEAP, 9)))
        self.assertEqual(self.query(sql), alone * 2)

    def test_clocks_are_merged_by_real_time(self):
        self.convert("--merge-clocks", PRESSURE, HEAP, SCHED)
        (first, _), (second,
                     shift), (_, same) = self.query("SELECT realtime_offset, ts_shift FROM trace")
        self.assertEqual(shift, second - first)
        self.assertEqual(same, 0, "recorded in one boot")
        self.assertEqual(self.query("SELECT min(ts) + 0 FROM heap_profile_allocation")[0][0]
                         - shift,
                         self.alone("SELECT min(ts) FROM heap_profile_allocation", HEAP))

    def alone(self, sql, trace):
        self.convert(trace, db=self.dir / "alone.db")
        return self.query(sql, self.dir / "alone.db")[0][0]

    def test_clocks_that_nothing_joins_are_an_error(self):
        trace = self.write("bare.pftrace", bytes([10, 2, 64, 5]))
        said = self.convert("--merge-clocks", PRESSURE, trace, code=1)
        self.assertIn("bare.pftrace: its clock cannot be compared", said)
        self.assertFalse(self.db.exists())


class Repetitions(Case):
    """No trace is loaded twice."""

    def counts(self):
        return self.query(
            "SELECT (SELECT count(*) FROM trace), (SELECT count(*) FROM counter), (SELECT count(*) "
            "FROM process)")

    def test_the_same_file_twice(self):
        self.convert(PRESSURE)
        alone = self.counts()
        said = self.convert(PRESSURE, self.write("copy.gz", gzip.compress(PRESSURE.read_bytes())),
                            PRESSURE)
        self.assertIn(f"copy.gz: left out, {PRESSURE} has the same content\n", said)
        self.assertIn(f"{PRESSURE}: left out, given twice\n", said)
        self.assertEqual(self.counts(), alone)
        said = self.convert(
            PRESSURE, self.zip("a.zip", {"t": PRESSURE.read_bytes(), "u": PRESSURE.read_bytes()}))
        self.assertEqual(said.count("left out"), 2, said)
        self.assertEqual(self.counts(), alone)

    def test_appending_the_same_changes_nothing(self):
        archive = self.zip("a.zip", {"t": SCHED.read_bytes(), "perf-7.map": "1000 10 f\n"})
        pinlist = self.write("pinlist.meta", struct.pack(">II", 0, 4096))
        files = (PRESSURE, archive, "--pinlist", f"{pinlist}=/x")
        self.convert(*files)
        before, changed = self.db.read_bytes(), self.db.stat().st_mtime_ns
        said = self.convert("--append", *files)
        self.assertEqual(said.count("left out, the database has it already\n"), 3, said)
        self.assertIn("out.db: unchanged", said)
        self.assertEqual((self.db.read_bytes(), self.db.stat().st_mtime_ns), (before, changed))
        self.nothing_left("a.zip", "out.db", "pinlist.meta")

    def test_what_is_new_is_appended_beside_it(self):
        self.convert(PRESSURE)
        said = self.convert("--append", PRESSURE, SCHED)
        self.assertIn("left out", said)
        self.assertEqual(
            self.query("SELECT i.path, t.id FROM input_file i JOIN trace t ON t.id = i.trace_id"),
            [(str(PRESSURE), 0), (str(SCHED), 1)])

    def test_a_recording_in_other_bytes(self):
        """mmsql knows a trace that is cut, or has more packets at its end, by its trace_uuid.
        Without a trace_uuid, only equal bytes are known."""
        cut = self.write("cut.pftrace", PRESSURE.read_bytes()[:100000])
        said = self.convert(PRESSURE, cut)
        self.assertRegex(said,
                         r"cut.pftrace: left out, the same recording as \S+ \(trace_uuid \S+\), "
                         r"which has 86 packets, and this file has \d+\n")
        self.assertEqual(self.query("SELECT count(*) FROM trace"), [(1,)])
        said = self.convert(self.write("a", b"\x0a\x04\x08\x01\x50\x01"),
                            self.write("b", b"\x0a\x04\x08\x02\x50\x01"))
        self.assertEqual((said, self.query("SELECT uuid FROM trace")), ("", [(None,), (None,)]))

    def test_one_uuid_for_several_recordings(self):
        """A config may set the uuid. Recordings of other times are then other recordings."""
        said = self.convert(self.write("a", recording(PRESSURE, 9)),
                            self.write("b", recording(SCHED, 9)))
        self.assertEqual((said, self.query("SELECT count(*), count(DISTINCT uuid) FROM trace")),
                         ("", [(2, 1)]))

    def test_one_uuid_at_the_same_time(self):
        """Two recordings of one config run at the same time. They differ in the moment of their
        start."""
        def packet(ts, content):
            body = b"\x40" + varint(ts) + content
            return b"\x0a" + varint(len(body)) + body

        def started(ns):
            """A trace whose recorder started at that moment, with readings of nr_free_pages."""
            readings = (packet(ts, bytes.fromhex("3a06120408011005"))
                        for ts in (3_000_000, 3_000_900))
            uuid = bytes.fromhex("0a07ca050408011009")
            return packet(ns, bytes.fromhex("aa04021001")) + b"".join(readings) + uuid

        first = self.write("a", started(2_000_000))
        self.assertEqual(self.convert(first, self.write("b", started(2_000_001))), "")
        self.assertEqual(self.query("SELECT count(*), count(DISTINCT uuid) FROM trace"), [(2, 1)])
        said = self.convert(first, self.write("b", started(2_000_000) + packet(3_000_950, b"")))
        self.assertIn("b: left out, the same recording as", said)

    def test_snapshots_of_one_session(self):
        """All snapshots are loaded. A line for each later trace says that the trace overlaps."""
        files = [self.write(f"{i}.pftrace", recording(PRESSURE, 9, i)) for i in (1, 2, 3)]
        said = self.convert(*files)
        self.assertEqual(self.query(
            "SELECT count(*), count(DISTINCT uuid), count(DISTINCT substr(uuid, 20)) FROM trace"),
                         [(3, 3, 1)])
        lines = said.splitlines()
        self.assertEqual(len(lines), 2, said)
        self.assertRegex(lines[0],
                         r"2.pftrace: a snapshot of the same session as \S+/1.pftrace; "
                         r"both have the same 7.7 s; rows of these times")
        self.assertIn("1 more have other parts", lines[1])

    def test_files_that_are_alike_and_about_something_else(self):
        text = "1000 10 f\n"
        (self.dir / "other").mkdir()
        maps = [self.write(name, text) for name in ("perf-7.map", "perf-8.map", "other/perf-7.map")]
        said = self.convert(*maps)
        self.assertEqual(self.query("SELECT pid FROM perf_map"), [(7,), (8,)])
        self.assertIn("other/perf-7.map: left out", said)
        archive = self.zip("a.zip", {"perf-9.map": text, "perf-9.map.times": "123456 1000 10\n"})
        self.convert(archive)
        self.assertEqual(self.query("SELECT pid FROM perf_map WHERE pid = 9"), [(9,)])
        pinlist = self.write("pinlist.meta", struct.pack(">II", 0, 4096))
        self.convert("--pinlist", f"{pinlist}=/a", "--pinlist", f"{pinlist}=/b")
        self.assertEqual(self.query("SELECT target FROM pinlist"), [("/a",), ("/b",)])


class Append(Case):
    def test_append_equals_all_at_once(self):
        self.convert(PRESSURE)
        self.convert("--append", SCHED)
        appended = self.query("SELECT * FROM ftrace_event")
        self.convert(PRESSURE, SCHED)
        self.assertEqual(appended, self.query("SELECT * FROM ftrace_event"))
        self.assertEqual(len(self.query("SELECT * FROM trace")), 2)

    def test_append_makes_what_is_not_there(self):
        self.convert("-a", SCHED)
        self.assertEqual(len(self.query("SELECT * FROM trace")), 1)

    def test_a_failure_leaves_the_old_database(self):
        self.convert(PRESSURE)
        before = self.db.read_bytes()
        text = self.write("text", "no trace at all")
        self.assertIn("not a Perfetto trace", self.convert("-a", SCHED, text, code=1))
        self.convert("-a", SCHED, "/nonexistent", code=1)
        self.convert("-a", "--perf-map", self.write("perf-x.map", "10 10 f\n"), code=1)
        self.assertEqual(self.db.read_bytes(), before)
        self.nothing_left("out.db", "text", "perf-x.map")

    def test_foreign_databases_are_refused(self):
        with sqlite3.connect(self.db) as handle:
            handle.execute("CREATE TABLE t(a)")
        before = self.db.read_bytes()
        self.assertIn("not a database made by mmsql", self.convert("-a", SCHED, code=1))
        self.assertEqual(self.db.read_bytes(), before)

    def test_damaged_databases_are_refused(self):
        self.convert(PRESSURE)
        whole = self.db.read_bytes()
        for size in (50, 5000, len(whole) // 2, len(whole) - 1):
            self.db.write_bytes(whole[:size])
            said = self.convert("-a", HEAP, code=1)
            self.assertTrue(said.startswith(f"mmsql: {self.db}: "), said)
            self.assertEqual(self.db.read_bytes(), whole[:size])
            self.nothing_left("out.db")

    def test_databases_of_other_versions_are_refused(self):
        self.convert(PRESSURE)
        with sqlite3.connect(self.db) as handle:
            handle.execute("ALTER TABLE machine DROP COLUMN arch")
        handle.close()
        before = self.db.read_bytes()
        self.assertIn("another version of mmsql", self.convert("-a", SCHED, code=1))
        self.assertEqual(self.db.read_bytes(), before)

    def test_killed_at_any_moment(self):
        """After SIGKILL, the old database is unchanged, or the new one is complete."""
        self.convert(PRESSURE)
        before = self.db.read_bytes()
        argv = [lib.MMSQL, "convert", "-q", "-a", SCHED, PRESSURE, "-o", self.db]
        n_killed = 0
        for step in range(12):
            child = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
            time.sleep(step * 0.004)
            child.send_signal(signal.SIGKILL)
            if child.wait() == -signal.SIGKILL and self.db.read_bytes() == before:
                n_killed += 1
                self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
                continue
            self.assertEqual(len(self.query("SELECT * FROM trace")), 3)
            self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
            self.db.write_bytes(before)
        self.assertTrue(n_killed)
        self.convert("-a", SCHED)
        self.nothing_left("out.db")

    def test_files_of_other_conversions_stay(self):
        """Folders of killed conversions are removed. The folder of a running one stays, and files
        with similar names stay."""
        argv = [str(arg) for arg in (lib.MMSQL, "convert", "-q", "-", "-o", self.db)]
        children = [subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
                    for _ in range(2)]
        for child in children:
            child.stdin.write(SCHED.read_bytes()[:1000])
            child.stdin.flush()
        while len(list(self.dir.glob("out.db.mmsql-??????/database"))) < 2:
            time.sleep(0.01)
        self.write("out.db.mmsql-backup.db", "mine")
        self.write("out.db.mmsql-mine66", "mine")
        (self.dir / "other.db.mmsql-123456").mkdir()
        children[0].kill()
        children[0].communicate()
        self.convert(PRESSURE)
        self.assertEqual(len(list(self.dir.glob("out.db.mmsql-??????/database"))), 1)
        said = children[1].communicate(SCHED.read_bytes()[1000:])[1]
        self.assertEqual(children[1].returncode, 0, said)
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        self.nothing_left("out.db", "out.db.mmsql-backup.db", "out.db.mmsql-mine66",
                          "other.db.mmsql-123456")

    @lib.needs_namespaces
    def test_disk_full_and_read_only(self):
        """Mounts of all sizes have room for a part of the database; another mount is read-only."""
        self.convert(PRESSURE)
        size_kb = self.db.stat().st_size // 1024
        script = """
            set -eu
            mount -t tmpfs -o size=$((5 * $2))k tmpfs "$1/mount"
            cd "$1/mount"
            cp ../out.db . ; before=$(sha256sum < out.db); failed=0
            for left in 4 100 $2 $(($2 + 100)) $(($2 * 5 / 4)) $(($2 * 3 / 2)) $(($2 * 3)); do
                room=$(df --output=avail -k . | tail -1)
                head -c $((room - left))k /dev/zero > filler 2>/dev/null || true
                if "$3" convert -q -a "$4" "$5" -o out.db 2>> said; then cp -f ../out.db .
                else failed=$((failed + 1)); fi
                rm filler
                [ "$(sha256sum < out.db)" = "$before" ] || { echo changed with $left; exit 1; }
                [ "$(ls | grep -vc '^said$')" = 1 ] || { ls; exit 1; }
            done
            cat said; [ $failed -gt 2 ] || { echo "failed $failed times"; exit 1; }
            mount -o remount,ro tmpfs "$1/mount"
            if "$3" convert -q -a "$4" -o out.db; then exit 1; fi
            [ "$(sha256sum < out.db)" = "$before" ]
        """
        (self.dir / "mount").mkdir()
        done = lib.run("unshare", "-m", "sh", "-c", script, "sh", self.dir, size_kb, lib.MMSQL,
                       SCHED, HEAP)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "database or disk is full|no space left")
        self.assertIn("Read-only file system", done.stderr)

    def test_a_database_in_use_stays_as_it_is(self):
        self.convert(PRESSURE)
        with sqlite3.connect(self.db) as handle:
            handle.execute("PRAGMA journal_mode=WAL")
            handle.execute("CREATE TABLE note(text)")
            handle.execute("INSERT INTO note VALUES('mine')")
            handle.commit()
            for options in (("-a",), ()):
                self.assertIn("out.db: in use by another program",
                              self.convert(*options, SCHED, code=1))
            self.assertEqual(handle.execute("SELECT text FROM note").fetchall(), [("mine",)])
        handle.close()
        self.convert("-a", SCHED)
        self.assertEqual(self.query("SELECT text FROM note"), [("mine",)])
        self.assertEqual(len(self.query("SELECT * FROM trace")), 2)
        self.nothing_left("out.db")

    def test_somebody_opens_the_database_meanwhile(self):
        """SQLite must not take the journal of the other program for the journal of the new file."""
        self.convert(PRESSURE)
        n_events = self.query("SELECT count(*) FROM ftrace_event")
        for lock, code in (("BEGIN IMMEDIATE", 1), ("SELECT 1", 0)):
            argv = [lib.MMSQL, "convert", "-q", "-", "-o", self.db]
            with lib.Popen([str(arg) for arg in argv], stdin=subprocess.PIPE,
                           stderr=subprocess.PIPE) as child:
                child.stdin.write(SCHED.read_bytes()[:1000])
                child.stdin.flush()
                while not list(self.dir.glob("out.db.*")):
                    time.sleep(0.01)
                with contextlib.closing(sqlite3.connect(self.db, isolation_level=None)) as handle:
                    handle.execute("PRAGMA journal_mode=WAL")
                    handle.execute("CREATE TABLE note(text)")
                    handle.execute(lock)
                    child.stdin.write(SCHED.read_bytes()[1000:])
                    said = child.communicate()[1].decode()
                    self.assertEqual(child.returncode, code, said)
                    self.assertEqual("in use" in said, code == 1)
            self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
            self.assertEqual(self.query("SELECT count(*) FROM ftrace_event") == n_events, code == 1)
            self.assertEqual(len(self.query("SELECT name FROM sqlite_master WHERE name = 'note'")),
                             code)
            with contextlib.closing(sqlite3.connect(self.db, isolation_level=None)) as handle:
                handle.execute("PRAGMA journal_mode=DELETE")
                handle.execute("DROP TABLE IF EXISTS note")

    def test_a_journal_of_somebody_who_was_killed(self):
        """The journal's transaction is rolled back or completed before the conversion touches the
        database."""
        self.convert(PRESSURE)
        writer = (
            "import os, sqlite3, sys; h = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "h.execute('PRAGMA journal_mode=' + sys.argv[2]); h.execute('CREATE TABLE "
            "note(text)'); h.execute('PRAGMA cache_size=5'); h.execute('BEGIN'); "
            "h.execute(\"INSERT INTO note VALUES(zeroblob(1000000))\"); os.kill(os.getpid(), 9)")
        for mode in ("WAL", "DELETE"):
            subprocess.run(["python3", "-c", writer, str(self.db), mode], check=False)
            self.convert("-a", SCHED)
            self.assertEqual(self.query("SELECT count(*) FROM note"), [(0,)])
            self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
            with sqlite3.connect(self.db) as handle:
                handle.execute("DROP TABLE note")
            handle.close()


class OutputIsInput(Case):
    def test_an_input_is_not_replaced(self):
        """The output leads to an input by a link."""
        trace = self.write("a.pftrace", SCHED.read_bytes())
        other = self.write("b.pftrace", PRESSURE.read_bytes())
        link = self.dir / "link"
        link.symlink_to(other)
        for argv in (("report", other), ("report", trace, other), ("flamegraph", other),
                     ("flamegraph", trace, other), ("pprof", other),
                     ("export", other, "process")):
            with self.subTest(argv[0], n=len(argv)):
                done = lib.run(lib.MMSQL, *argv, "-o", link)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(
                    done.stderr,
                    f"mmsql: {link}: the output would replace the input {other} (choose another "
                    "name for the output)\n")
        self.assertEqual(other.read_bytes(), PRESSURE.read_bytes())
        self.nothing_left("a.pftrace", "b.pftrace", "link")


class Archives(Case):
    def test_bugreport(self):
        path = self.zip("bugreport.zip", {
            "version.txt": "2.0", "main_entry.txt": "dumpstate.txt",
            "dumpstate.txt": "file a\n" * 1000,
            "other.pftrace": SCHED.read_bytes(), BUGREPORT_TRACE: PRESSURE.read_bytes()})
        self.convert(path)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!{BUGREPORT_TRACE}",)])

    def test_any_zip_with_traces_and_more(self):
        path = self.zip("a.zip", {
            "one.trace": PRESSURE.read_bytes(), "sub/two": SCHED.read_bytes(),
            "three.pb.gz": gzip.compress(HEAP.read_bytes()),
            "README": "read me", "perf-7.map": "10 10 f\n",
            "app/pinlist.meta": struct.pack(">II", 4096, 4096)})
        self.convert(path)
        self.assertEqual(self.query("SELECT count(*) FROM trace"), [(3,)])
        self.assertEqual(self.query("SELECT pid, n_symbols FROM perf_map"), [(7, 1)])
        self.assertEqual(self.query("SELECT size_bytes FROM pinlist"), [(4096,)])

    def test_stored_and_piped(self):
        path = self.zip("s.zip", {"t": PRESSURE.read_bytes()}, zipfile.ZIP_STORED)
        with path.open("rb") as stream:
            self.convert("-", stdin=stream)
        self.assertEqual(self.query("SELECT path FROM trace"), [("standard input!t",)])

    def test_zip_in_gzip(self):
        path = self.zip("s.zip", {"t": PRESSURE.read_bytes()})
        self.convert(self.write("s.zip.gz", gzip.compress(path.read_bytes())))
        self.assertEqual(self.query("SELECT count(*) FROM trace"), [(1,)])

    def test_nothing_inside(self):
        path = self.zip("n.zip", {"README": "read me", "empty.pftrace": b""})
        self.assertIn("n.zip: no trace in this archive", self.convert(path, code=1))
        self.assertIn("no trace in this archive", self.convert(self.zip("e.zip", {}), code=1))

    def test_damaged(self):
        whole = self.zip("d.zip", {BUGREPORT_TRACE: PRESSURE.read_bytes()}).read_bytes()
        for cut in range(1, len(whole), len(whole) // 40):
            said = self.convert(self.write("cut.zip", whole[:cut]), code=1)
            self.assertTrue(said.startswith("mmsql: ") and "cut.zip" in said, said)
        for at in range(0, len(whole), len(whole) // 60):
            bad = bytearray(whole)
            bad[at] ^= 0x55
            done = lib.run(lib.MMSQL, "convert", "-q", self.write("bad.zip", bytes(bad)), "-o",
                           self.db)
            self.assertIn(done.returncode, (0, 1), done.stderr)

    def test_checksum(self):
        whole = bytearray(self.zip("c.zip", {"t": PRESSURE.read_bytes()},
                                   zipfile.ZIP_STORED).read_bytes())
        whole[5000] ^= 1
        self.assertIn("c.zip!t: the data is damaged",
                      self.convert(self.write("c.zip", bytes(whole)), code=1))

    def test_damaged_directory(self):
        whole = bytearray(
            self.zip("c.zip", {"t": PRESSURE.read_bytes(), "u": SCHED.read_bytes()}).read_bytes())
        whole[whole.rindex(b"PK\x01\x02")] ^= 1  # the second member's entry
        said = self.convert(self.write("c.zip", bytes(whole)), code=1)
        self.assertIn(
            "c.zip!(members after number 1): the directory of the archive is damaged; left out",
            said)
        self.assertEqual(self.query("select count(*) from trace"), [(1,)])

    def test_encrypted(self):
        whole = bytearray(self.zip("c.zip", {"t": PRESSURE.read_bytes()}).read_bytes())
        whole[6] |= 1
        whole[whole.rindex(b"PK\x01\x02") + 8] |= 1
        self.assertIn("c.zip!t: encrypted", self.convert(self.write("c.zip", bytes(whole)), code=1))


class Files(Case):
    LOG = ("+0,jthread[main], jclass[[I file: <UNKNOWN_FILE>], size[24, hex: 0x18]\n"
           "+1,main([Ljava/lang/String;)V\n+2,run()V\n+3,Ljava/lang/Thread;::run()V\n=4,0;1;2;3\n"
           "4\n4\n"
           "+5,jthread[a], jclass[ b]], jclass[Ljava/lang/String; file: String.java], size[40, "
           "hex: 0x28]\n=6,5\n6\n4\n")

    def test_alloc_log(self):
        self.convert("--alloc-log", self.write("log", self.LOG))
        self.assertEqual(
            self.query("SELECT thread_name, type, file, size_bytes FROM alloc_log_record"),
            [("main", "[I", None, 24), ("a], jclass[ b]", "Ljava/lang/String;", "String.java", 40)])
        self.assertEqual(
            self.query("SELECT key, record_id, n_frames, n_samples FROM alloc_log_stack"),
            [(4, 0, 3, 3), (6, 1, 0, 1)])
        self.assertEqual(
            self.query("SELECT depth, name FROM alloc_log_stack_frame f JOIN alloc_log_frame m "
                       "ON m.id = f.frame_id ORDER BY 1"),
            [(0, "main([Ljava/lang/String;)V"), (1, "run()V"), (2, "Ljava/lang/Thread;::run()V")])
        self.assertEqual(self.query("SELECT n_samples FROM alloc_log"), [(4,)])

    def test_alloc_log_with_wrong_lines(self):
        for lines, why in (("9\n", "line 12: key 9 is not a stack"),
                           ("+7\n", "line 12: no key after '+'"),
                           ("=7,0;99\n", "line 12: a stack with a key that is not defined"),
                           ("=7,1;2\n", "line 12: a stack that does not begin with a record"),
                           ("=7,0;4\n", "line 12: a stack with a key in it that is not a frame"),
                           ("=7,0;0\n", "line 12: a stack with a key in it that is not a frame"),
                           ("=7,0;;1\n", "line 12: a stack with something other"),
                           ("=7,7\n", "line 12: a stack with a key that is not defined"),
                           ("+1,f()\n", "line 12: key 1 is defined again"),
                           ("+7,jthread[x], size[1, hex: 0x1]\n",
                            "line 12: a record of thread, type and size"),
                           ("+7,jthread[x], jclass[y], size[99999999999999999999, hex: 0x1]\n",
                            "line 12: a record"),
                           ("\0\1\2\n", "line 12: no definition"),
                           ("+7,f\0()V\n", "line 12: binary data"),
                           ("4" * (2 << 20) + "\n", "longer than 1 MiB"),
                           ("99999999999999999999999\n", "line 12: no definition")):
            with self.subTest(lines[:40]):
                said = self.convert("--alloc-log", self.write("log", self.LOG + lines + "4\n"),
                                    code=1)
                self.assertIn(why, said)
                self.assertIn("the rest is loaded", said)
                self.assertEqual(self.query("SELECT n_samples, n_bad_lines FROM alloc_log"),
                                 [(5, 1)])

    def test_alloc_log_cut_in_its_last_line(self):
        self.convert("--alloc-log", self.write("log", self.LOG + "4"))
        self.assertEqual(self.query("SELECT n_samples FROM alloc_log"), [(5,)])
        for line in ("+7,Lfoo", "=7,0;1", "=7,", "+", "+7,jthread[ma"):
            with self.subTest(line):
                said = self.convert("--alloc-log", self.write("log", self.LOG + line), code=1)
                self.assertRegex(said, "line 12: the last line is cut; the rest is loaded")
                self.assertEqual(self.query("SELECT n_samples, n_bad_lines FROM alloc_log"),
                                 [(4, 1)])

    def test_perf_map(self):
        """Addresses with and without 0x, blanks in names, unsorted lines. The name of the file has
        the pid."""
        text = ("0x2000 0x20 LazyCompile:~f a.js:1\r\n1000 10 b\n\n  1800\t8\tc d \n"
                "ffffffffffff0000 ff e")
        self.convert(self.write("perf-123.map", text))
        self.assertEqual(self.query("SELECT start, size, name FROM perf_map_symbol"),
                         [(0x2000, 0x20, "LazyCompile:~f a.js:1"), (0x1000, 0x10, "b"),
                          (0x1800, 8, "c d"),
                          (-0x10000, 0xff, "e")])
        self.assertEqual(self.query("SELECT pid, upid, n_symbols, n_bad_lines FROM perf_map"),
                         [(123, None, 4, 0)])

    def test_perf_map_with_wrong_lines(self):
        for line, why in (("xyz 10 f", "no address"), ("10 zz f", "no size"), ("10", "no size"),
                          ("10 10", "no name"),
                          ("10 10 f\0g", "binary"),
                          ("ffffffffffffffff 2 f", "the code ends beyond the last address"),
                          ("11112222333344445555 1 f", "no address"),
                          ("1 1 " + "n" * (1 << 20), "longer than 1 MiB")):
            with self.subTest(line[:40]):
                path = self.write("perf-5.map", f"10 10 f\n{line}\n20 10 g\n")
                said = self.convert("--perf-map", path, code=1)
                self.assertIn(f"perf-5.map: line 2: {why}" if "MiB" not in why else why, said)
                self.assertEqual(self.query("SELECT n_symbols, n_bad_lines FROM perf_map"),
                                 [(2, 1)])

    def test_several_maps_and_logs_at_once_and_later(self):
        """The first rows are written as pages, past SQLite; rows that are added later go through
        SQLite."""
        maps = [self.write(f"perf-{pid}.map", "".join(f"{i:x} 10 f{pid}.{i}\n"
                                                      for i in range(3000))) for pid in (1, 2, 3)]
        logs = [self.write("log1", self.LOG), self.write("log2", self.LOG)]
        self.convert(maps[0], logs[0], maps[1])
        self.convert("-a", logs[1], maps[2])
        self.assertEqual(self.query(
            "SELECT pid, count(*), sum(s.name = 'f' || pid || '.' || start) FROM perf_map m "
            "JOIN perf_map_symbol s ON s.perf_map_id = m.id GROUP BY 1"),
                         [(1, 3000, 3000), (2, 3000, 3000), (3, 3000, 3000)])
        self.assertEqual(
            self.query("SELECT alloc_log_id, max(total_samples) FROM alloc_log_method GROUP BY 1"),
            [(0, 3), (1, 3)])
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])

    def test_perf_map_without_pid(self):
        self.assertIn("no process id",
                      self.convert("--perf-map", self.write("jit.map", "10 10 f\n"), code=1))

    def test_pinlist(self):
        content = struct.pack(">4I", 0x1000, 0x2000, 0xfffff000, 0x1000)
        self.convert("--pinlist", f"{self.write('list', content)}=/system/app.apk")
        self.assertEqual(self.query("SELECT target, n_ranges, size_bytes FROM pinlist"),
                         [("/system/app.apk", 2, 0x3000)])
        self.assertEqual(self.query("SELECT offset_bytes, size_bytes FROM pinlist_range"),
                         [(0x1000, 0x2000), (0xfffff000, 0x1000)])
        self.convert(self.write("by_content", content))
        self.assertEqual(self.query("SELECT target FROM pinlist"), [(None,)])
        said = self.convert("--pinlist", self.write("list", content[:-3]), code=1)
        self.assertIn(f"{self.dir}/list: ", said)

    def test_pinconfig(self):
        text = '# what to pin\nfile lib/libx.so\noffset 4096 len 8192\nfile "a b"\n'
        self.convert(self.write("c", text))
        self.assertEqual(
            self.query("SELECT line, pattern, offset_bytes, size_bytes FROM pinconfig_rule"),
            [(3, "lib/libx.so", 4096, 8192), (4, "a b", None, None)])
        said = self.convert("--pinconfig", self.write("c", text + "bogus\n"), code=1)
        self.assertIn("c:5:1: ", said)

    def test_by_option_whatever_it_looks_like(self):
        """An option that names the kind counts: a trace is then read as a perf map, and refused."""
        shutil.copy(SCHED, self.dir / "perf-1.map")
        self.assertIn("not a perf map", self.convert("--perf-map", self.dir / "perf-1.map", code=1))
        for option in ("--perf-map", "--pinlist", "--pinconfig", "--alloc-log"):
            self.assertIn("empty", self.convert(option, self.write("perf-1.map", b""), code=1))
            self.convert(option, "/nonexistent", code=1)
            self.convert(option, self.write("perf-1.map", os.urandom(4099)), code=1)

    def test_gzip(self):
        self.convert("--alloc-log", self.write("log.gz", gzip.compress(self.LOG.encode())))
        self.assertEqual(self.query("SELECT n_samples FROM alloc_log"), [(4,)])

    def test_with_a_trace_and_later(self):
        pid = self.pid_of_heap()
        self.convert(HEAP, self.write(f"perf-{pid}.map", "10 10 f\n"))
        self.assertEqual(self.query("SELECT p.pid FROM perf_map JOIN process p USING (upid)"),
                         [(pid,)])
        self.convert("--perf-map", self.dir / f"perf-{pid}.map")
        self.assertEqual(self.query("SELECT upid FROM perf_map"), [(None,)])
        self.convert("-a", HEAP)
        self.assertEqual(self.query("SELECT p.pid FROM perf_map JOIN process p USING (upid)"),
                         [(pid,)])

    def pid_of_heap(self):
        self.convert(HEAP)
        return self.query("SELECT p.pid FROM heap_profile_allocation JOIN process p USING (upid)")[
            0][0]


if __name__ == "__main__":
    unittest.main()
