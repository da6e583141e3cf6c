# SPDX-License-Identifier: Apache-2.0
"""'-' after -o is standard output, '-' as an input is standard input: every verb of every
program."""
import gzip
import io
import os
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import unittest
import zipfile

import lib
import states
from test_pintool import PAGE, drops_pages, keep

LIST = struct.pack(">2I", PAGE, PAGE)
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
        done = subprocess.run([str(arg) for arg in (program, *argv)], input=stdin,
                              capture_output=True, timeout=60,
                              check=False, **options)
        self.assertEqual(done.returncode, code, f"{argv}: {done.stderr.decode()}")
        self.assertFalse((self.dir / "-").exists(), f"{argv} made a file called '-'")
        return done

    def refuse(self, program, *argv, because, code=2, **options):
        said = self.run_bytes(program, *argv, code=code, **options)
        self.assertIn(because, said.stderr.decode())
        self.assertEqual(said.stdout, b"")


class Terminal(Case):
    def test_a_page_is_not_printed_on_a_terminal(self):
        for argv, code in (((), 2), (("-o", "-"), 2), (("--text",), 0), (("-o", "page"), 0)):
            with self.subTest(argv):
                ours, terminal = os.openpty()
                self.addCleanup(os.close, ours)
                with open(terminal, "wb") as stdout:
                    done = subprocess.run([lib.MMSQL, "report", TRACE, *argv], stdout=stdout,
                                          stderr=subprocess.PIPE, cwd=self.dir, timeout=60,
                                          check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("-o FILE is needed, or --text" in done.stderr.decode(), code == 2)


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
        (armed / "s.cfg").write_text(f'''{CONFIG} unique_session_name: "s" bugreport_score: 9
            trigger_config {{ trigger_mode: STOP_TRACING trigger_timeout_ms: 60000
            triggers {{ name: "t" stop_delay_ms: 1 }} }}''')
        daemon = subprocess.Popen([lib.MMTRACE, "daemon", "-a", armed, "-o", self.dir / "traces",
                                   "--state-dir",
                                   self.dir / "state", "--run-dir", self.dir / "run",
                                   "--kmem-events", "none"],
                                  env=env, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait, 60)
        self.addCleanup(daemon.terminate)
        lib.wait_for(lambda: daemon.poll() is not None or
                     '"STARTED"' in lib.run(lib.MMTRACE, "status", "--json", env=env).stdout,
                     "the session starts")
        self.assertIsNone(daemon.poll(), "the service has ended")
        return env

    def decode(self, data):
        path = self.dir / "got.pftrace"
        path.write_bytes(data)
        return lib.decode(path)

    def test_record(self):
        done = self.mmtrace("record", "-c", "-", "-t", "300ms", "-o", "-", stdin=CONFIG.encode())
        self.assertGreater(len(lib.of_kind(self.decode(done.stdout), "sys_stats")), 0)
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
        done = self.mmtrace("heap", "-o", "-", "--", "sh", "-c",
                            "echo seen $((40 + 2)); ls / > /dev/null",
                            env=dict(os.environ, TMPDIR=str(self.dir)))
        self.assertIn(b"seen 42", done.stderr)
        self.assertIn(b"Not freed:", done.stderr)
        self.assertNotIn(b"seen 42", done.stdout)
        self.assertGreater(len(lib.of_kind(self.decode(done.stdout), "profile_packet")), 0)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["got.pftrace"])

    @lib.needs_root
    def test_cpu_and_faults(self):
        program = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo seen $((40 + 2))"
        for verb, *options in (["cpu"], ["faults", "-c", "1"]):
            done = self.mmtrace(verb, *options, "-o", "-", "--", "sh", "-c", program,
                                env=dict(os.environ, TMPDIR=str(self.dir)))
            self.assertIn(b"seen 42", done.stderr)
            self.assertNotIn(b"seen 42", done.stdout)
            self.assertGreater(len(lib.of_kind(self.decode(done.stdout), "perf_sample")), 0, verb)
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
        done = self.mmsql("convert", "-", "-o", "-", stdin=TRACE.read_bytes(),
                          env={"TMPDIR": str(self.dir)})
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
            done = subprocess.run([lib.MMSQL, "convert", TRACE, "-o", "-"], stdout=full,
                                  stderr=subprocess.PIPE,
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
                done = subprocess.run([lib.MMSQL, "query", "--csv", "-",
                                       "SELECT count(*) FROM counter"], stdin=file,
                                      capture_output=True, timeout=60, check=True)
            self.assertEqual(done.stdout, want)

    def test_database_whose_begin_comes_in_pieces(self):
        database = self.database()
        process = subprocess.Popen([lib.MMSQL, "query", "--csv", "-", "SELECT 7 AS n"],
                                   stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdin.write(database[:5])
        process.stdin.flush()
        states.wait_for_program(process.pid, "mmsql")  # it waits for the rest
        out, _ = process.communicate(database[5:], timeout=60)
        self.assertEqual((process.returncode, out), (0, b"n\n7\n"))

    def test_sql_from_standard_input(self):
        self.database()
        for argv in (("t.db", "-"), ("t.db", "-f", "-"), ("t.db",)):
            self.assertEqual(self.mmsql("query", "--csv", *argv, stdin=b"SELECT 7 AS n").stdout,
                             b"n\n7\n")
        self.refuse(lib.MMSQL, "query", "-", "-", because="once only")
        self.refuse(lib.MMSQL, "query", "-", "-f", "-", because="once only")
        self.refuse(lib.MMSQL, "query", "-", because="SQL is needed")

    def test_other_questions(self):
        heap = HEAP.read_bytes()
        for argv in (("flamegraph", "-o", "-"), ("flamegraph", "--folded", "-o", "-"),
                     ("pprof", "-o", "-"), ("memory",)):
            with self.subTest(argv):
                from_pipe = self.mmsql(*argv, "-", stdin=heap)
                self.assertEqual(from_pipe.stdout, self.mmsql(*argv, HEAP).stdout)
                self.assertGreater(len(from_pipe.stdout), 20)

    def test_file_that_is_there_is_not_lost(self):
        """A profile that cannot be written leaves the old one."""
        old = self.dir / "old"
        for verb in ("pprof", "flamegraph"):
            with self.subTest(verb):
                old.write_bytes(b"old")
                self.mmsql(verb, TRACE, "-o", "old", code=1)
                self.assertEqual(old.read_bytes(), b"old")
                (self.dir / "link").unlink(missing_ok=True)
                (self.dir / "link").symlink_to("old")
                self.mmsql(verb, HEAP, "-o", "link")
                self.assertTrue((self.dir / "link").is_symlink())
                self.assertEqual(old.read_bytes(), self.mmsql(verb, HEAP).stdout)
                self.assertIn(b"No space left",
                              self.mmsql(verb, HEAP, "-o", "/dev/full", code=1).stderr)
                self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["link", "old"])


@unittest.skipUnless(drops_pages(), "the file system of /var/tmp does not drop pages when told to")
class Pintool(Case):
    def setUp(self):
        super().setUp()
        self.app = self.dir / "app.apk"
        with zipfile.ZipFile(self.app, "w") as app:
            app.writestr("lib/a.so", bytes(10 * PAGE))
            app.writestr("assets/pinlist.meta", LIST)
        keep(self.app, [1])

    def pintool(self, *argv, **options):
        keep(self.app, [1])
        return self.run_bytes(lib.PINTOOL, *argv, **options)

    def test_file(self):
        done = self.pintool("file", "app.apk", "--zip", "--gen-probe", "--dump", "-v", "-o", "-")
        self.assertEqual(done.stdout, LIST)
        self.assertIn(b"file resident ranges", done.stderr)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["app.apk"])
        self.assertEqual(self.pintool("file", "app.apk", "--json", "-o", "-").stdout, LIST)
        self.assertEqual(self.pintool("file", "app.apk", "--gen-probe", "--svg", "-").stdout[:4],
                         b"<svg")
        emitted = self.pintool("file", "app.apk", "--zip", "--use-probe", "-", "--emit-pinconfig",
                               "-", stdin=LIST)
        self.assertTrue(emitted.stdout.startswith(b"file lib/a.so\noffset "), emitted.stdout)
        again = self.pintool("file", "app.apk", "--zip", "--pinconfig", "-", "-o", "-",
                             stdin=emitted.stdout)
        self.assertEqual(again.stdout, LIST)

    def test_file_refuses(self):
        zipped = ("file", "app.apk", "--zip")
        self.refuse(lib.PINTOOL, "file", "-", "--gen-probe", because="./- is the file called -")
        self.refuse(lib.PINTOOL, *zipped, "--use-probe", "-", "--pinconfig", "-",
                    because="once only")
        self.refuse(lib.PINTOOL, *zipped, "--gen-probe", "-o", "-", "--svg", "-",
                    because="'-' is there twice")
        keep(self.app)
        self.refuse(lib.PINTOOL, *zipped, "--gen-probe", "-o", "-", because="would be empty",
                    code=1)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([lib.PINTOOL, *zipped, "-o", "-"], cwd=self.dir, stdout=full,
                                  stderr=subprocess.PIPE,
                                  timeout=60, check=False, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: No space left", done.stderr)

    def test_measure(self):
        done = self.pintool("measure", "app.apk", "--read-ahead", "-o", "-", "--", "sh", "-c",
                            "echo heard; head -c 5000 app.apk > /dev/null")
        self.assertIn(b"heard", done.stderr)
        self.assertEqual(len(done.stdout) % 8, 0)
        self.assertEqual(done.stdout[:4], bytes(4))
        self.refuse(lib.PINTOOL, "measure", "-", "--", "true", because="./- is the file called -")

    def test_lists_from_a_pipe(self):
        text = self.pintool("pinlist", "-", "--json", stdin=LIST).stdout
        self.assertIn(b'"total_bytes": %d' % PAGE, text)
        self.assertEqual(self.pintool("pinlist", "-", stdin=self.app.read_bytes()).stdout,
                         self.pintool("pinlist", "app.apk").stdout)
        self.assertIn(b"ranges=1 ",
                      self.pintool("lock", "-", "app.apk", "-t", "0.01s", stdin=LIST).stdout)
        self.assertIn(b"ranges=1 ", self.pintool("preload", "-", "app.apk", stdin=LIST).stdout)
        for verb in ("lock", "preload"):
            self.refuse(lib.PINTOOL, verb, "app.apk", "-", because="./- is the file called -")
            self.refuse(lib.PINTOOL, verb, "-", because="a file is needed")

    def test_suggest(self):
        """The list of a recording that says nothing of the file is empty: nothing goes to standard
        output."""
        argv = ("--file", "app.apk", "--quota", "1MB")
        self.refuse(lib.PINTOOL, "suggest", "-", *argv, "-o", "-", stdin=TRACE.read_bytes(), code=1,
                    because="app.apk")
        self.refuse(lib.PINTOOL, "suggest", TRACE, "--file", "-", "--quota", "1MB", "-o", "-",
                    because="name the file")


# The meaning of '-' for each verb: (after -o, as an input). None: the verb has no -o; "refused": a
# clear error.
STREAMS = {
    lib.MMTRACE: {
        "record": ("stream", "the config"), "heap": ("stream", None), "java": ("refused", None),
        "cpu": ("stream", None), "faults": ("stream", None),
        "daemon": ("refused", None), "trigger": (None, None), "clone": ("stream", None),
        "status": (None, None), "doctor": (None, None), "top": (None, None),
        "bugreport": ("stream", None), "sources": (None, None),
    },
    lib.MMSQL: {
        "convert": ("stream", "traces"), "query": (None, "a trace, a database, SQL"),
        "tables": (None, None),
        "flamegraph": ("stream", "a trace, a database"), "memory": (None, "a trace, a database"),
        "pprof": ("stream", "a trace, a database"), "verdict": (None, "a trace"),
        "report": ("stream", "a trace, a database"), "open": (None, None),
        "export": ("stream", "a trace, a database"), "symbolize": ("stream", "a trace"),
    },
    lib.PINTOOL: {
        "file": ("stream", "a probe, a pinconfig"), "pinlist": (None, "a list"),
        "measure": (None, None),
        "suggest": ("stream", "a trace"), "lock": (None, "a list"), "preload": (None, "a list"),
    },
}


class EveryVerb(Case):
    """The table above is complete: a new verb, or a new -o, needs a row."""

    def test_table_has_all_verbs_and_outputs(self):
        for program, verbs in STREAMS.items():
            overview = lib.run(program, "--help").stdout
            names = set(re.findall(rf"^  (?:{program.name} )?([a-z]+)\b(?=  |$| [A-Z\[-])",
                                   overview, re.MULTILINE))
            self.assertEqual(names - {program.name}, set(verbs))
            for verb, (output, _) in verbs.items():
                text = lib.run(program, verb, "--help").stdout
                self.assertEqual(bool(re.search(r"^\s+-o\b", text, re.MULTILINE)),
                                 output is not None, verb)

    def test_no_output_is_a_file_called_dash(self):
        """Even where the rest of the command line is wrong or the work fails."""
        for program, verbs in STREAMS.items():
            for verb, (output, _) in verbs.items():
                if output == "refused":
                    self.refuse(program, verb, *(["1"] if verb == "java" else []), "-o", "-",
                                because="-o -: ")
                elif output:
                    with self.subTest(f"{program.name} {verb}"):
                        subprocess.run([program, verb, "-o", "-", "nothing-of-this-name"],
                                       cwd=self.dir, timeout=60,
                                       stdin=subprocess.DEVNULL, capture_output=True, check=False)
                        self.assertEqual(list(self.dir.iterdir()), [])

    def test_input_is_never_a_file_called_dash(self):
        """The message says that standard input is empty, not that a file is missing."""
        inputs = {
            (lib.MMTRACE, "record"): ("-c", "-", "-o", "x"),
            (lib.MMSQL, "convert"): ("-", "-o", "x"),
            (lib.MMSQL, "query"): ("-", "SELECT 1"), (lib.MMSQL, "flamegraph"): ("-",),
            (lib.MMSQL, "memory"): ("-",),
            (lib.MMSQL, "pprof"): ("-", "-o", "x"), (lib.MMSQL, "verdict"): ("-",),
            (lib.MMSQL, "report"): ("-", "-o", "x"),
            (lib.MMSQL, "symbolize"): ("-", "--symbols-only", "-o", "x"),
            (lib.MMSQL, "export"): ("-", "process"),
            (lib.PINTOOL, "file"): ("app.apk", "--zip", "--use-probe", "-"),
            (lib.PINTOOL, "pinlist"): ("-",),
            (lib.PINTOOL, "suggest"): ("-", "--file", "app.apk", "--quota", "1M", "-o", "x"),
            (lib.PINTOOL, "lock"): ("-", "app.apk", "-t", "0.01s"),
            (lib.PINTOOL, "preload"): ("-", "app.apk"),
        }
        with zipfile.ZipFile(self.dir / "app.apk", "w") as app:
            app.writestr("a", b"a")
        self.assertEqual(set(inputs), {(program, verb) for program, verbs in STREAMS.items()
                                       for verb, (_, given) in verbs.items() if given})
        for (program, verb), argv in inputs.items():
            with self.subTest(f"{program.name} {verb}"):
                done = subprocess.run([program, verb, *argv], cwd=self.dir,
                                      stdin=subprocess.DEVNULL, timeout=60,
                                      capture_output=True, text=True, check=False)
                self.assertNotIn("No such file", done.stderr)
                self.assertIn(done.returncode, (0, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
