# SPDX-License-Identifier: Apache-2.0
"""mmsql on hostile files that attack the program, the machine or the user with more than damaged
bytes."""
import contextlib
import ctypes
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

import lib

LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION = 444, 1
HAS_LANDLOCK = ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION) >= 2
COARSE = 5  # CLOCK_REALTIME_COARSE, which file systems take times from
TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"


class Untrusted(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="untrusted-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = self.dir / "out.db"

    def convert(self, *argv, code=0, **options):
        done = lib.run(lib.MMSQL, "convert", "-q", *argv, "-o", self.db, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def ask(self, sql, code=0):
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", self.db, sql)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr


class Databases(Untrusted):
    """Hostile databases: a schema is a program that SQLite runs."""

    def setUp(self):
        super().setUp()
        self.convert(TRACE)

    def change(self, *statements):
        with contextlib.closing(sqlite3.connect(self.db)) as handle:
            for statement in ("PRAGMA legacy_alter_table=ON", *statements):
                handle.execute(statement)
            handle.commit()

    def test_settings(self):
        self.assertEqual(self.ask("PRAGMA trusted_schema").split()[1], "0")
        self.assertEqual(self.ask("PRAGMA cell_size_check").split()[1], "1")
        self.assertEqual(self.ask("PRAGMA mmap_size").split()[1:], ["0"])

    def test_the_schema_is_not_writable(self):
        self.assertIn("may not be modified", self.ask(
            "CREATE TEMP TABLE t(a); PRAGMA writable_schema=ON; UPDATE temp.sqlite_master SET sql "
            "= 'x'", code=1))

    def test_a_query_writes_no_file(self):
        """`query` writes no file anywhere, whether the SQL is an argument, in a file or typed at
        the prompt."""
        other = self.dir / "other.db"
        shutil.copy(self.db, other)
        whole = self.db.read_bytes()
        for place in (self.dir / "new",
                      pathlib.Path(os.environ.get("TMPDIR", "/tmp"), f"new-{os.getpid()}")):
            for sql, why in ((f"VACUUM INTO '{place}'", "VACUUM: a query writes no files"),
                             (f" ;; \ufeff/* */ vacuum main into '{place}'; SELECT 1",
                              "VACUUM: a query writes no files"),
                             (f"ATTACH '{place}' AS n; CREATE TABLE n.t(a)", "unable to open"),
                             (f"ATTACH '{other}' AS n; CREATE TABLE n.t(a)", "readonly|read-only")):
                for env in (None, dict(os.environ, MMTRACE_SANDBOX="off")):
                    for argv, text in (([sql], ""), ([], sql + ";"), (["-f", "-"], sql)):
                        with self.subTest(sql=sql, argv=argv, env=env is None):
                            done = lib.run(lib.MMSQL, "query", "-q", self.db, *argv, input=text,
                                           env=env)
                            self.assertEqual(done.returncode, 1, done)
                            self.assertRegex(done.stderr, why)
                            self.assertEqual(done.stdout, "")
                            self.assertFalse(place.exists())
        self.assertEqual(self.db.read_bytes(), whole)
        self.assertEqual(other.read_bytes(), whole)

    def test_no_extension_is_loaded(self):
        extension = lib.BUILD / "converter" / "mmsql_functions.so"
        self.assertRegex(self.ask(f"SELECT load_extension('{extension}')", code=1),
                         "not authorized|no such function")

    def test_a_view_that_calls_a_function_that_reads_the_view(self):
        """Each call is a statement of its own, so only the stack would end the recursion."""
        self.change("ALTER TABLE trace_bounds RENAME TO t",
                    "CREATE VIEW trace_bounds AS SELECT trace_start() AS start_ts, 1 AS end_ts")
        for sql in ("SELECT start_ts FROM trace_bounds", "SELECT trace_start()"):
            self.assertIn("unsafe use of trace_start()", self.ask(sql, code=1))

    def test_triggers_do_not_fire(self):
        """`convert --append` copies an old database. Triggers of its tables do not fire."""
        self.change("CREATE TABLE fired(what)",
                    *(f"CREATE TRIGGER on_{t} AFTER INSERT ON {t} BEGIN INSERT INTO fired "
                      f"VALUES('{t}'); END"
                      for t in ("input_file", "trace", "verdict")))
        self.convert("--append", lib.ROOT / "tests" / "golden" / "counters_tracks.pftrace")
        with contextlib.closing(sqlite3.connect(self.db)) as handle:
            self.assertEqual(handle.execute("SELECT count(*) FROM trace").fetchall(), [(2,)])
            self.assertEqual(handle.execute("SELECT * FROM fired").fetchall(), [])


TAKEN_OVER = lib.BUILD / "tests" / "tools" / "taken_over.so"


@unittest.skipIf(lib.is_sanitized(), "a sanitizer wants to be loaded first")
@unittest.skipUnless(TAKEN_OVER.exists(), f"{TAKEN_OVER} is not built")
class TakenOver(Untrusted):
    """A parser that a file has taken over can do no harm: code in the program tries every way."""

    REFUSED = ("run", "socket", "signal", "trace", "user", "namespace")

    def setUp(self):
        super().setUp()
        self.secret, self.victim = self.dir / "private" / "secret", self.dir / "private" / "victim"
        self.secret.parent.mkdir()
        self.secret.write_text("s")
        self.victim.write_text("v")
        self.here = self.dir / "here"
        self.here.mkdir()
        self.db = self.here / "out.db"

    def attack(self, *argv, **more):
        env = dict(os.environ, LD_PRELOAD=str(TAKEN_OVER), TAKEN_OVER_SECRET=str(self.secret),
                   TAKEN_OVER_VICTIM=str(self.victim), TMPDIR=str(self.here), **more)
        done = lib.run(*argv, env=env, stdin=subprocess.DEVNULL)
        told = dict(line.split(": ", 2)[1:] for line in done.stderr.splitlines()
                    if line.startswith("taken over"))
        self.assertTrue(told, done.stderr)
        return told, done

    def refused(self, told, reads=False, writes=False):
        for what in self.REFUSED:
            self.assertEqual(told[what], "Operation not permitted", what)
        for what, may in (("read", reads), ("write", writes)):
            if not may and HAS_LANDLOCK:
                self.assertEqual(told[what], "Permission denied", what)

    def test_each_verb_of_mmsql(self):
        self.convert(TRACE)
        for argv in (("convert", "-q", TRACE, "-o", self.here / "new.db"),
                     ("convert", "-q", "--append", TRACE, "-o", self.db),
                     ("verdict", self.db), ("verdict", TRACE), ("verdict", "--confined", "-"),
                     ("memory", self.db), ("memory", TRACE),
                     ("pprof", self.db, "-o", self.here / "p"),
                     ("flamegraph", TRACE, "-o", self.here / "f")):
            with self.subTest(argv=argv[:2]):
                told, _ = self.attack(lib.MMSQL, *argv)
                self.refused(told)
                self.assertNotEqual(told["memory"], "worked")

    def test_many_files(self):
        """Only the files of the command line are open; all other descriptors are closed."""
        maps = [self.here / f"perf-{i}.map" for i in range(1, 1101)]
        for path in maps:
            path.write_text("1000 10 f\n")
        told, done = self.attack(lib.MMSQL, "convert", "-q", *maps, "-o", self.db)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(told)

    def test_few_descriptors(self):
        """If the sandbox cannot be made, the program ends with a message about the sandbox."""
        self.convert(TRACE)
        codes = set()
        for n in range(4, 24):
            bound = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
            for argv in (("convert", "-q", TRACE, "-o", self.here / "new.db"), ("memory", self.db),
                         ("query", "-q", self.db, "SELECT 1"), ("verdict", self.db)):
                with self.subTest(n=n, verb=argv[0]):
                    env = dict(os.environ, TMPDIR=str(self.here))
                    done = lib.run(lib.MMSQL, *argv, preexec_fn=bound, env=env)
                    codes.add(done.returncode)
                    self.assertNotIn("ermission denied", done.stderr)
                    if n == 4 and argv[0] == "convert":  # the path of the output comes first
                        self.assertIn(f"mmsql: {self.here / 'new.db'}: Too many open files",
                                      done.stderr)
                    elif n == 4 and HAS_LANDLOCK:
                        self.assertIn("mmsql: the sandbox cannot be entered: Too many open files "
                                      "(MMTRACE_SANDBOX=off runs without it)", done.stderr)
        self.assertEqual(codes, {0, 1})

    def test_query(self):
        """`query` reads the databases that SQL attaches, and runs a pager at a prompt."""
        for question in (("SELECT 1",), ()):
            told, done = self.attack(lib.MMSQL, "query", "-q", TRACE, *question)
            self.assertEqual(done.returncode, 0, done.stderr)
            if question:
                self.refused(told, reads=True)
            else:
                self.assertEqual((told["socket"], told["trace"], told["user"]),
                                 ("Operation not permitted",) * 3)

    def test_answers_about_other_traces(self):
        """The cache has the answers of later questions. A trace that takes over the conversion adds
        its own database, and changes no database of another trace."""
        home, others = self.dir / "home", (self.dir / "one", self.dir / "two", self.dir / "three")
        home.mkdir(0o700)
        for path in others:
            shutil.copy(TRACE, path)
            lib.wait_for(lambda: time.clock_gettime_ns(COARSE) > path.stat().st_ctime_ns,
                         "the next tick of the file system's clock")
        env = {"XDG_CACHE_HOME": str(home), "MMTRACE_CACHE_SIZE": "1g"}
        asked = lib.run(lib.MMSQL, "verdict", others[0], env=dict(os.environ, **env))
        self.assertEqual(asked.returncode, 0, asked.stderr)
        [entry] = (home / "mmtrace").iterdir()
        for n, argv in ((2, ("verdict", others[1])), (3, ("query", "-q", others[2], "SELECT 1"))):
            for self.victim in (entry / "database", entry / "note", entry.with_name("f" * 16)):
                told, done = self.attack(lib.MMSQL, *argv, **env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.refused(told, reads=argv[0] == "query")
            self.assertEqual(len(list((home / "mmtrace").iterdir())), n)

    def test_symbols_are_read_anywhere(self):
        for argv in (("convert", "-q", "--symbols", TRACE, "-o", self.here / "new.db"),
                     ("symbolize", TRACE, "-o", self.here / "new.pftrace")):
            with self.subTest(verb=argv[0]):
                told, _ = self.attack(lib.MMSQL, *argv)
                self.refused(told, reads=True)

    def test_pintool(self):
        if not lib.PINTOOL.exists():
            self.skipTest("this build has no pintool")
        (self.here / "pinlist.meta").write_bytes(bytes(8))
        for argv in (("pinlist", self.here / "pinlist.meta"),
                     ("pinlist", self.here / "pinlist.meta", "--json"),
                     ("preload", self.here / "pinlist.meta", TRACE)):
            with self.subTest(argv=argv[0]):
                told, _ = self.attack(lib.PINTOOL, *argv)
                self.refused(told, reads=True, writes=True)

    def test_the_environment_switches_it_off(self):
        told, done = self.attack(lib.MMSQL, "convert", "-q", TRACE, "-o", self.db,
                                 MMTRACE_SANDBOX="off")
        self.assertEqual(done.returncode, 0)
        self.assertEqual((told["run"], told["socket"], told["read"], told["write"]),
                         ("worked",) * 4)


if __name__ == "__main__":
    unittest.main()
