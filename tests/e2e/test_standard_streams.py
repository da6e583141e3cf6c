# SPDX-License-Identifier: Apache-2.0
"""'-' behind -o is standard output, '-' as an input is standard input: every verb of every program."""
import gzip
import io
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest
import zipfile

import lib

TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
HEAP = lib.ROOT / "tests" / "golden" / "heap_continuous.pftrace"
HEAP_LIBRARY = lib.BUILD / "producer" / "agents" / "heap" / "libmmheap.so"
CONFIG = """buffers { size_kb: 512 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { vmstat_period_ms: 100 } } }
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def run_bytes(self, program, *argv, code=0, stdin=b"", **options):
        """Bytes in, bytes out; and no file called '-' appears."""
        options.setdefault("cwd", self.dir)
        done = subprocess.run([str(arg) for arg in (program, *argv)], input=stdin, capture_output=True, timeout=60,
                              check=False, **options)
        self.assertEqual(done.returncode, code, f"{argv}: {done.stderr.decode()}")
        self.assertFalse((self.dir / "-").exists(), f"{argv} made a file called '-'")
        return done

    def refuse(self, program, *argv, because, code=2, **options):
        said = self.run_bytes(program, *argv, code=code, **options)
        self.assertIn(because, said.stderr.decode())
        self.assertEqual(said.stdout, b"")


class Mmtrace(Case):
    service = None

    def mmtrace(self, *argv, **options):
        return self.run_bytes(lib.MMTRACE, *argv, **options)

    def start_service(self):
        """A service with one recording session that a bugreport takes; its environment."""
        env = dict(os.environ, PERFETTO_CONSUMER_SOCK_NAME=str(self.dir / "consumer"),
                   PERFETTO_PRODUCER_SOCK_NAME=str(self.dir / "producer"))
        armed = self.dir / "armed"
        armed.mkdir()
        (armed / "s.cfg").write_text(f'''{CONFIG} unique_session_name: "s" bugreport_score: 9 trigger_config {{
            trigger_mode: STOP_TRACING trigger_timeout_ms: 60000 triggers {{ name: "t" stop_delay_ms: 1 }} }}''')
        daemon = subprocess.Popen([lib.MMTRACE, "daemon", "-a", armed, "-o", self.dir / "traces", "--state-dir",
                                   self.dir / "state", "--run-dir", self.dir / "run", "--kmem-events", "none"],
                                  env=env, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait, 20)
        self.addCleanup(daemon.terminate)
        deadline = time.monotonic() + 30
        while '"STARTED"' not in lib.run(lib.MMTRACE, "status", "--json", env=env).stdout:
            self.assertIsNone(daemon.poll(), "the service has ended")
            self.assertLess(time.monotonic(), deadline, "the session does not start")
            time.sleep(0.05)
        return env

    def decode(self, data):
        path = self.dir / "got.pftrace"
        path.write_bytes(data)
        return lib.decode(path)

    def test_record(self):
        done = self.mmtrace("record", "-c", "-", "-t", "300ms", "-o", "-", stdin=CONFIG.encode())
        self.assertGreater(len(lib.of_kind(self.decode(done.stdout), "sys_stats")), 1)
        self.refuse(lib.MMTRACE, "record", "-c", "-", "-d", "-o", "-", because="standard output")

    @lib.needs_root
    def test_clone_and_bugreport(self):
        env = self.start_service()
        done = self.mmtrace("clone", "s", "-o", "-", env=env)
        self.assertGreater(len(self.decode(done.stdout)), 3)
        done = self.mmtrace("bugreport", "-o", "-", env=env)
        with zipfile.ZipFile(io.BytesIO(done.stdout)) as report:
            self.assertIsNone(report.testzip())
            self.assertIn("index.txt", " ".join(report.namelist()))

    @unittest.skipUnless(HEAP_LIBRARY.exists(), "libmmheap.so is not in this build")
    def test_heap(self):
        done = self.mmtrace("heap", "-o", "-", "--", "sh", "-c", "echo seen $((40 + 2)); ls / > /dev/null",
                            env=dict(os.environ, TMPDIR=str(self.dir)))
        self.assertIn(b"seen 42", done.stderr)
        self.assertIn(b"Not freed:", done.stderr)
        self.assertNotIn(b"seen 42", done.stdout)
        self.assertGreater(len(lib.of_kind(self.decode(done.stdout), "profile_packet")), 0)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["got.pftrace"])

    def test_outputs_that_cannot_be_one_stream(self):
        self.refuse(lib.MMTRACE, "java", os.getpid(), "-o", "-", because="name a file")
        self.refuse(lib.MMTRACE, "daemon", "-o", "-", because="name a folder")


class Mmsql(Case):
    def mmsql(self, *argv, **options):
        return self.run_bytes(lib.MMSQL, *argv, **options)

    def database(self):
        self.mmsql("convert", TRACE, "-o", "t.db")
        return (self.dir / "t.db").read_bytes()

    def test_convert_from_and_to_a_pipe(self):
        done = self.mmsql("convert", "-", "-o", "-", stdin=TRACE.read_bytes(), env={"TMPDIR": str(self.dir)})
        self.assertEqual(done.stdout[:15], b"SQLite format 3")
        self.assertIn(b"standard output: ", done.stderr)
        self.assertEqual(list(self.dir.iterdir()), [], "something temporary stayed")
        (self.dir / "out.db").write_bytes(done.stdout)
        self.database()
        counts = []
        for name in ("out.db", "t.db"):
            handle = sqlite3.connect(self.dir / name)
            self.addCleanup(handle.close)
            counts.append(handle.execute("SELECT count(*), sum(value) FROM counter").fetchall())
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(counts[0][0][0], 1000)

    def test_convert_refuses(self):
        self.refuse(lib.MMSQL, "convert", "-", "-", "-o", "x.db", because="once only")
        self.refuse(lib.MMSQL, "convert", TRACE, "-a", "-o", "-", because="--append needs a file")
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([lib.MMSQL, "convert", TRACE, "-o", "-"], stdout=full, stderr=subprocess.PIPE,
                                  timeout=60, check=False, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: No space left", done.stderr)

    def test_query_takes_what_a_file_may_be(self):
        want = self.mmsql("query", "--csv", TRACE, "SELECT count(*) FROM counter").stdout
        database = self.database()
        for data in (TRACE.read_bytes(), database, gzip.compress(TRACE.read_bytes())):
            done = self.mmsql("query", "--csv", "-", "SELECT count(*) FROM counter", stdin=data)
            self.assertEqual(done.stdout, want)
        for name in (TRACE, self.dir / "t.db"):
            with open(name, "rb") as file:
                done = subprocess.run([lib.MMSQL, "query", "--csv", "-", "SELECT count(*) FROM counter"], stdin=file,
                                      capture_output=True, timeout=60, check=True)
            self.assertEqual(done.stdout, want)

    def test_database_whose_begin_comes_in_pieces(self):
        database = self.database()
        process = subprocess.Popen([lib.MMSQL, "query", "--csv", "-", "SELECT 7 AS n"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdin.write(database[:5])
        process.stdin.flush()
        time.sleep(0.05)
        out, _ = process.communicate(database[5:], timeout=60)
        self.assertEqual((process.returncode, out), (0, b"n\n7\n"))

    def test_sql_from_standard_input(self):
        self.database()
        for argv in (("t.db", "-"), ("t.db", "-f", "-"), ("t.db",)):
            self.assertEqual(self.mmsql("query", "--csv", *argv, stdin=b"SELECT 7 AS n").stdout, b"n\n7\n")
        self.refuse(lib.MMSQL, "query", "-", "-", because="once only")
        self.refuse(lib.MMSQL, "query", "-", "-f", "-", because="once only")
        self.refuse(lib.MMSQL, "query", "-", because="SQL is needed")

    def test_other_questions(self):
        heap = HEAP.read_bytes()
        for argv in (("flamegraph", "-o", "-"), ("flamegraph", "--folded", "-o", "-"), ("pprof", "-o", "-"), ("memory",)):
            with self.subTest(argv):
                from_pipe = self.mmsql(*argv, "-", stdin=heap)
                self.assertEqual(from_pipe.stdout, self.mmsql(*argv, HEAP).stdout)
                self.assertGreater(len(from_pipe.stdout), 20)


if __name__ == "__main__":
    unittest.main()
