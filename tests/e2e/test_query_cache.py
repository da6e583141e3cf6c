# SPDX-License-Identifier: Apache-2.0
"""The cache of converted traces: when its database answers, when the trace is converted again, its
bound, and the users that it trusts.

A test sees the origin of an answer: mark() removes all slices from the databases in the cache, so
that such a database answers 0 to COUNT.
"""
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

import lib
from protowire import field

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"
COUNT = "SELECT count(*) FROM slice"
CONVERTED, CACHED = "13", "0"  # answers to COUNT
NO_HEAP = "no heap profile|no samples of allocations"
STRANGER = 65534
COARSE = 5  # CLOCK_REALTIME_COARSE, which file systems take times from


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cache-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.home = self.dir / "home"
        self.home.mkdir()
        self.folder = self.home / "mmtrace"
        self.env = {**os.environ, "XDG_CACHE_HOME": str(self.home)}
        del self.env["MMTRACE_CACHE_SIZE"]
        self.trace = self.made("trace", PRESSURE.read_bytes())

    def made(self, name, content):
        """Makes a file, and waits for the next tick of the file system's clock: a later write then
        changes the times of the file."""
        path = self.dir / name
        path.write_bytes(content)
        self.settle(path)
        return path

    @staticmethod
    def settle(path):
        changed = path.stat().st_ctime_ns
        lib.wait_for(lambda: time.clock_gettime_ns(COARSE) > changed,
                     "the next tick of the file system's clock")

    def ask(self, trace=None, *options, sql=COUNT, program=lib.MMSQL, **settings):
        settings.setdefault("env", self.env)
        return lib.run(program, "query", "--csv", *options, trace or self.trace, sql, **settings)

    def answer(self, *argv, code=0, **settings):
        done = self.ask(*argv, **settings)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.splitlines()[-1]

    def entries(self, folder=None):
        return sorted((folder or self.folder).glob("*"))

    def mark(self, folder=None):
        """Removes the slices from all databases of the cache. Sizes and times stay."""
        entries = [entry for entry in self.entries(folder) if not entry.name.startswith("new.")]
        self.assertNotEqual(entries, [])
        for entry in entries:
            times = entry.stat()
            before = (entry / "database").stat().st_size
            with sqlite3.connect(entry / "database") as db:
                db.execute("PRAGMA journal_mode = MEMORY")
                table = db.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('slice', "
                    "'_slice')").fetchone()[0]
                db.execute(f"DELETE FROM {table}")
            db.close()
            self.assertEqual((entry / "database").stat().st_size, before)
            os.utime(entry, ns=(times.st_atime_ns, times.st_mtime_ns))

    def fill(self, *argv, **settings):
        """Asks for the first time, and marks the new database in the cache."""
        self.assertEqual(self.answer(*argv, **settings), CONVERTED)
        self.mark()


class Answers(Case):
    def test_the_second_question_converts_nothing(self):
        self.fill()
        self.assertEqual(self.answer(), CACHED)
        self.assertEqual(self.answer(sql="SELECT count(*) > 0 FROM counter"), "1")

    def test_all_verbs(self):
        self.fill()
        for argv in (["verdict"], ["verdict", "-q"]):
            self.assertEqual(lib.run(lib.MMSQL, *argv, self.trace, env=self.env).returncode, 0)
        self.assertEqual(len(self.entries()), 1)
        heap = self.made("heap", (GOLDEN / "heap_continuous.pftrace").read_bytes())
        first = lib.run(lib.MMSQL, "flamegraph", "--folded", heap, env=self.env)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(len(self.entries()), 2)
        entry, = [e for e in self.entries() if b"heap\0" in (e / "note").read_bytes()]
        with sqlite3.connect(entry / "database") as db:
            db.execute("PRAGMA journal_mode = MEMORY")
            db.execute("DELETE FROM heap_profile_allocation")
        db.close()
        for verb in (["flamegraph", "--folded"], ["pprof", "-o", self.dir / "pprof"], ["memory"]):
            with self.subTest(verb[0]):
                again = lib.run(lib.MMSQL, *verb, heap, env=self.env)
                self.assertRegex(again.stderr, NO_HEAP)
                anew = lib.run(lib.MMSQL, *verb, "--no-cache", heap, env=self.env)
                self.assertNotRegex(anew.stderr, NO_HEAP)
        self.assertEqual(len(self.entries()), 2)

    def test_a_confined_verdict_has_no_cache(self):
        done = lib.run(lib.MMSQL, "verdict", "--confined", PRESSURE, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.entries(self.home), [])

    def test_messages_come_again(self):
        trace = self.made("torn", PRESSURE.read_bytes()[:-100])
        first, second = self.ask(trace), self.ask(trace)
        self.assertIn("the trace ends or breaks at offset", first.stderr)
        self.assertEqual((first.returncode, first.stdout, first.stderr),
                         (second.returncode, second.stdout, second.stderr))
        self.mark()
        third = self.ask(trace)
        self.assertEqual((third.stdout.split()[-1], third.stderr), (CACHED, first.stderr))

    def test_losses_come_again(self):
        # trace_stats: buffer_stats: chunks_discarded
        lost = field(1, field(35, field(1, field(18, 7))))
        trace = self.made("trace", PRESSURE.read_bytes() + lost)
        first, second = self.ask(trace), self.ask(trace)
        self.assertRegex(first.stderr, "(?m)^mmsql: .*trace: ")
        self.assertEqual(first.stderr, second.stderr)
        self.mark()
        self.assertEqual(self.ask(trace).stderr, first.stderr)
        self.assertEqual(self.ask(trace, "-q").stderr, "")

    def test_only_the_user_reads_it(self):
        self.answer(umask=0)
        entry, = self.entries()
        modes = {path.name: oct(path.stat().st_mode & 0o777)
                 for path in (self.folder, entry, *entry.iterdir())}
        self.assertEqual(modes, {"mmtrace": "0o700", entry.name: "0o700", "database": "0o600",
                                 "note": "0o600"})

    def test_the_database_is_opened_for_reading(self):
        self.fill()
        done = self.ask(sql="DELETE FROM metadata")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "readonly|read-only|may not be modified")

    def test_a_pipe_and_a_database_are_not_kept(self):
        with PRESSURE.open("rb") as trace:
            self.assertEqual(self.answer("-", stdin=trace), CONVERTED)
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        with lib.Popen([lib.MMSQL, "query", "--csv", pipe, COUNT], env=self.env,
                       stdout=subprocess.PIPE, text=True) as process:
            pipe.write_bytes(PRESSURE.read_bytes())
            self.assertEqual(process.communicate(timeout=60)[0].splitlines()[-1], CONVERTED)
        self.assertEqual(self.entries(self.home), [])
        db = self.dir / "db"
        lib.run(lib.MMSQL, "convert", "-q", PRESSURE, "-o", db)
        self.assertEqual(self.answer(db), CONVERTED)
        self.assertEqual(self.entries(), [])
        self.home.chmod(0o777)
        self.assertEqual(self.ask(db).stderr, self.ask(db, "--no-cache").stderr,
                         "no word about a cache")

    def test_without_cache(self):
        self.assertEqual(self.answer(None, "--no-cache"), CONVERTED)
        self.assertEqual(self.answer(env={**self.env, "MMTRACE_CACHE_SIZE": "0"}), CONVERTED)
        self.assertEqual(self.entries(self.home), [])
        self.fill()
        self.assertEqual(self.answer(None, "--no-cache"), CONVERTED)
        self.assertEqual(self.answer(env={**self.env, "MMTRACE_CACHE_SIZE": "0"}), CONVERTED)
        self.assertEqual(self.answer(), CACHED)

    def test_a_size_that_is_not_valid(self):
        done = self.ask(env={**self.env, "MMTRACE_CACHE_SIZE": "much"})
        self.assertIn("MMTRACE_CACHE_SIZE=much: not a size", done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], CONVERTED)


class Keys(Case):
    def test_other_bytes_with_the_old_size_and_time(self):
        self.fill()
        times = self.trace.stat()
        with self.trace.open("r+b") as file:
            file.write(PRESSURE.read_bytes()[:1])
        os.utime(self.trace, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual(self.answer(), CONVERTED)

    def test_another_file_by_the_name(self):
        self.fill()
        other = self.made("other", PRESSURE.read_bytes())
        times = self.trace.stat()
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        other.rename(self.trace)
        self.assertEqual(self.answer(), CONVERTED)

    def test_another_name_of_the_file(self):
        """Tables and messages name the file as the question does."""
        self.fill()
        link = self.dir / "link"
        link.symlink_to(self.trace)
        self.assertEqual(self.answer(link), CONVERTED)
        self.assertEqual(self.answer("trace", cwd=self.dir), CONVERTED)
        self.assertEqual(self.answer(sql="SELECT path FROM input_file"), str(self.trace))
        self.assertEqual(self.answer(), CACHED)
        self.assertEqual(len(self.entries()), 3)

    def test_another_mmsql(self):
        self.fill()
        program = self.dir / "mmsql"
        shutil.copy2(lib.MMSQL, program)
        self.assertEqual(self.answer(program=program), CONVERTED)
        self.mark()
        self.assertEqual(self.answer(program=program), CACHED)
        (self.dir / "second").hardlink_to(program)
        self.assertEqual(self.answer(program=program), CACHED)
        os.utime(program)
        self.assertEqual(self.answer(program=program), CONVERTED)

    def test_options_that_change_the_conversion(self):
        self.fill()
        for option in (["--crop-track-events"], ["--max-memory", "512m"], ["--max-output", "64m"]):
            with self.subTest(option[0]):
                self.assertEqual(self.answer(None, *option), CONVERTED)
                self.mark()
                self.assertEqual(self.answer(None, *option), CACHED)
        self.assertEqual(self.answer(None, "--timing", "-q"), CACHED)

    def test_what_lies_beside_a_perf_map(self):
        log = self.made("perf-77.map", b"7f0000001000 20 void Shelf.take()\n")
        count = "SELECT count(*) FROM perf_map"
        first = self.answer(log, sql=count)
        n = len(self.entries())
        self.assertEqual((self.answer(log, sql=count), len(self.entries())), (first, n))
        self.made("perf-77.map.times", b"")
        self.answer(log, sql=count)
        self.assertEqual(len(self.entries()), n + 1)

    def test_a_file_that_may_still_change_unseen(self):
        """The kernel's clock for files can stand still for a tick, so two writes can have one time.
        Here the file has a time in the future, which the clock has not reached."""
        later = time.time_ns() + 3600 * 10**9
        os.utime(self.trace, ns=(later, later))
        for _ in range(2):
            self.assertEqual(self.answer(), CONVERTED)
        self.assertEqual(self.entries(), [])


class Bounds(Case):
    def sized(self, n):
        """An environment in which the cache holds n databases of the trace, and less than n + 1."""
        self.answer()
        size = sum(path.stat().st_blocks * 512 for path in self.entries()[0].iterdir())
        shutil.rmtree(self.folder)
        return {**self.env, "MMTRACE_CACHE_SIZE": str(size * n + size // 2)}

    def test_the_oldest_use_goes_first(self):
        env = self.sized(2)
        traces = [self.made(f"trace{i}", PRESSURE.read_bytes()) for i in range(4)]
        for trace in (0, 1, 0, 2):  # the second use of the first
            self.answer(traces[trace], env=env)
            self.settle(max(self.entries(), key=lambda entry: entry.stat().st_ctime_ns))
        self.assertEqual(len(self.entries()), 2)
        self.mark()
        self.assertEqual([self.answer(traces[i], env=env) for i in (0, 2)], [CACHED, CACHED])
        self.answer(traces[3], env=env)
        self.assertEqual(len(self.entries()), 2)
        self.assertEqual(self.answer(traces[2], env=env), CACHED)

    def test_a_smaller_bound_holds_from_the_next_conversion_on(self):
        env = self.sized(1)
        for i in range(3):
            self.answer(self.made(f"trace{i}", PRESSURE.read_bytes()))
        self.assertEqual(len(self.entries()), 3)
        self.answer(env=env)
        self.assertEqual(len(self.entries()), 1)
        self.mark()
        self.assertEqual(self.answer(env=env), CACHED)

    def test_a_database_above_the_bound(self):
        other = self.made("other", (GOLDEN / "counters_tracks.pftrace").read_bytes())
        env = {**self.env, "MMTRACE_CACHE_SIZE": "64k"}
        for trace, said in ((self.trace, CONVERTED), (other, "2")):
            self.assertEqual(self.answer(trace, env=env), said)
            self.assertEqual(self.entries(), [])

    def test_other_files_stay(self):
        env = self.sized(1)
        self.folder.mkdir(0o700)
        own = self.folder / "mine"
        own.write_bytes(bytes(1 << 22))
        self.answer(env=env)
        self.answer(self.made("other", PRESSURE.read_bytes()), env=env)
        self.assertEqual(len(self.entries()), 2)
        self.assertTrue(own.exists())


class Damage(Case):
    def damaged(self, change):
        self.fill()
        entry, = self.entries()
        change(entry)
        for _ in range(2):  # the first question finds the damage, the second one replaces the entry
            self.assertEqual(self.answer(), CONVERTED)
        self.mark()
        self.assertEqual(self.answer(), CACHED, "the entry is replaced")

    def test_a_database_that_lost_its_end(self):
        self.damaged(lambda entry: os.truncate(entry / "database",
                                               (entry / "database").stat().st_size - 4096))

    def test_no_database(self):
        self.damaged(lambda entry: (entry / "database").unlink())

    def test_a_file_that_is_not_a_database(self):
        self.damaged(lambda entry: (entry / "database").write_bytes(
            b"x" * (entry / "database").stat().st_size))

    def test_a_note_that_lost_its_end(self):
        self.damaged(lambda entry: os.truncate(entry / "note", 40))

    def test_a_note_of_another_key(self):
        """The note of an entry has another key, as if two keys had one hash."""
        self.damaged(lambda entry: (entry / "note").write_bytes(
            (entry / "note").read_bytes().replace(b"crop 0", b"crop 1")))

    def test_a_part_of_the_trace_is_not_kept(self):
        trace = self.made("large", PRESSURE.read_bytes() * 20)
        for _ in range(2):
            done = self.ask(trace, "--max-output", "2m")
            self.assertEqual(done.returncode, 1)
            self.assertIn("--max-output", done.stderr)
        self.assertEqual(self.entries(), [])

    def test_no_trace(self):
        text = self.made("text", b"no trace\n")
        for _ in range(2):
            done = self.ask(text)
            self.assertEqual(done.returncode, 1)
            self.assertIn("not a database; as a trace", done.stderr)
        self.assertEqual(self.entries(), [])


class Meanwhile(Case):
    def setUp(self):
        super().setUp()
        self.large = self.made("large", PRESSURE.read_bytes() * 30)

    def stopped(self):
        """Starts a question and stops it when its database is half made."""
        for _ in range(100):
            process = subprocess.Popen([lib.MMSQL, "query", "--csv", "--max-memory", "1g",
                                        self.large, COUNT], env=self.env,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while process.poll() is None and not list(self.folder.glob("new.*/new.*")):
                pass
            process.send_signal(signal.SIGSTOP)
            if process.poll() is None and list(self.folder.glob("new.*/new.*/database")):
                return process
            process.send_signal(signal.SIGCONT)
            process.communicate(timeout=60)
            shutil.rmtree(self.folder)
        return self.fail("the conversion was over each time, before it could be stopped")

    def test_a_killed_question_leaves_nothing(self):
        process = self.stopped()
        process.kill()
        process.communicate(timeout=60)
        lib.wait_for(lambda: self.entries() == [], "the keeper")

    def test_what_is_killed_with_its_keeper_leaves_nothing_lasting(self):
        process = self.stopped()
        tasks = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        keeper, = map(int, tasks.read_text().split())
        os.kill(keeper, signal.SIGKILL)
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual([path.name[:4] for path in self.entries()], ["new."])
        self.assertEqual(self.answer(), CONVERTED)
        self.assertEqual(len(self.entries()), 1)
        self.mark()
        self.assertEqual(self.answer(), CACHED)

    def test_an_interrupted_question_leaves_nothing(self):
        process = self.stopped()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        self.assertIn("interrupted", process.communicate(timeout=60)[1])
        self.assertEqual(self.entries(), [])

    def test_a_file_that_changes(self):
        process = self.stopped()
        with self.large.open("ab") as file:
            file.write(PRESSURE.read_bytes())
        process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.entries(), [])

    def test_a_question_that_stands_still_holds_up_no_other(self):
        process = self.stopped()
        try:
            self.fill()
            self.assertEqual(self.answer(), CACHED)
        finally:
            process.send_signal(signal.SIGCONT)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(self.entries()), 2, "the folder of a living process stays")

    def test_many_at_once(self):
        questions = [subprocess.Popen([lib.MMSQL, "query", "--csv", self.large, COUNT],
                                      env=self.env, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) for _ in range(6)]
        said = [question.communicate(timeout=120) for question in questions]
        self.assertEqual({question.returncode for question in questions}, {0}, said)
        self.assertEqual(len(set(said)), 1)
        self.assertEqual(len(self.entries()), 1)
        self.mark()
        self.assertEqual(self.answer(self.large), CACHED)

    def test_a_removed_entry_answers_to_the_end(self):
        self.answer()
        with subprocess.Popen([lib.MMSQL, "query", "--csv", self.trace], env=self.env, text=True,
                              stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdin.write(COUNT + ";\n")
            process.stdin.flush()
            while process.stdout.readline().strip() != CONVERTED:
                self.assertIsNone(process.poll())
            shutil.rmtree(self.folder)
            out, errors = process.communicate("SELECT count(*) > 0 FROM counter;\n", timeout=60)
        self.assertEqual((out.split()[-1], process.returncode), ("1", 0), errors)


class Folders(Case):
    def refused(self, why, **settings):
        """The answer is right, a line says why there is no cache, and nothing is written."""
        done = self.ask(**settings)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, CONVERTED),
                         done.stderr)
        self.assertIn(f"no cache of traces, because this folder {why}", done.stderr)

    def test_home(self):
        env = {k: v for k, v in self.env.items() if k != "XDG_CACHE_HOME"}
        for home, made in (({"HOME": str(self.home)}, True), ({"HOME": "/nonexistent/home"}, False),
                           ({"HOME": ""}, False),
                           ({"HOME": "relative"}, False), ({}, False)):
            with self.subTest(home):
                own = {k: v for k, v in env.items() if k != "HOME"}
                self.assertEqual(self.answer(env={**own, **home}, cwd=self.dir), CONVERTED)
                self.assertEqual((self.home / ".cache/mmtrace").exists(), made)
                shutil.rmtree(self.home / ".cache", ignore_errors=True)
        self.assertFalse((self.dir / "relative").exists())
        relative = {**env, "HOME": str(self.home), "XDG_CACHE_HOME": "relative"}
        self.assertEqual(self.answer(env=relative, cwd=self.dir), CONVERTED)
        self.assertTrue((self.home / ".cache/mmtrace").exists(),
                        "a relative XDG_CACHE_HOME counts as none")

    def test_a_link_to_the_folder_is_not_followed(self):
        aside = self.dir / "aside"
        aside.mkdir(0o700)
        self.folder.symlink_to(aside)
        self.refused("cannot be opened as a folder")
        self.assertEqual(self.entries(aside), [])

    def test_a_link_to_an_entry_is_not_followed(self):
        self.fill()
        entry, = self.entries()
        entry.rename(self.dir / "aside")
        entry.symlink_to(self.dir / "aside")
        self.assertEqual(self.answer(), CONVERTED)
        self.assertTrue((self.dir / "aside/database").exists(),
                        "nothing behind the link is removed")

    def test_a_link_to_a_database_is_not_followed(self):
        self.fill()
        entry, = self.entries()
        (entry / "database").rename(self.dir / "aside")
        (entry / "database").symlink_to(self.dir / "aside")
        self.assertEqual(self.answer(), CONVERTED)
        self.assertTrue((self.dir / "aside").exists())

    def test_a_file_in_place_of_the_folder(self):
        self.folder.write_bytes(b"")
        self.refused("cannot be opened as a folder")

    def test_others_may_write_into_the_folder(self):
        self.fill()
        self.folder.chmod(0o777)
        self.refused("can be changed by other users")
        self.folder.chmod(0o755)
        self.assertEqual(self.answer(), CACHED)
        self.assertEqual(self.folder.stat().st_mode & 0o777, 0o700)

    def test_others_may_write_into_a_folder_above(self):
        self.fill()
        self.home.chmod(0o777)
        self.refused("can be changed by other users")
        self.home.chmod(0o1777)
        self.assertEqual(self.answer(), CACHED)

    @lib.needs_root
    def test_the_folder_of_a_stranger(self):
        self.fill()
        os.chown(self.folder, STRANGER, STRANGER)
        self.refused("belongs to another user")

    @lib.needs_root
    def test_a_folder_below_a_stranger(self):
        os.chown(self.home, STRANGER, STRANGER)
        self.refused("belongs to another user")
        self.assertEqual(self.entries(self.home), [], "root makes nothing there")
        below = {**self.env, "XDG_CACHE_HOME": str(self.home / "cache")}
        self.refused("belongs to another user", env=below)
        self.assertEqual(self.entries(self.home), [])

    @lib.needs_root
    def test_a_link_of_a_stranger(self):
        """The link leads to a folder of root's, for instance to /run. There, the folder mmtrace has
        another purpose."""
        aside, link = self.dir / "aside", self.home / "link"
        aside.mkdir(0o755)
        link.symlink_to(aside)
        env = {**self.env, "XDG_CACHE_HOME": str(link)}
        self.assertEqual(self.answer(env=env), CONVERTED)
        self.mark(aside / "mmtrace")
        self.assertEqual(self.answer(env=env), CACHED, "a link of one's own is followed")
        shutil.rmtree(aside / "mmtrace")
        os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
        self.refused("is a link of another user", env=env)
        os.chown(link, 0, 0, follow_symlinks=False)
        os.chown(self.home, STRANGER, STRANGER)
        self.refused("belongs to another user", env=env)
        self.assertEqual(self.entries(aside), [])

    @lib.needs_root
    def test_a_file_of_a_stranger_in_the_folder(self):
        self.fill()
        entry, = self.entries()
        os.chown(entry / "database", STRANGER, STRANGER)
        self.assertEqual(self.answer(), CONVERTED)

    @lib.needs_root
    def test_a_user_does_not_use_the_folder_of_root(self):
        def become():
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
        self.answer()
        self.dir.chmod(0o755)
        try:
            done = self.ask(preexec_fn=become)
        except OSError:
            self.skipTest(
                "another user cannot run the build: it is in a folder that only its owner may "
                "enter")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], CONVERTED)
        own = self.dir / "own"
        own.mkdir()
        os.chown(own, STRANGER, STRANGER)
        env = {**self.env, "XDG_CACHE_HOME": str(own)}
        self.assertEqual(self.answer(env=env, preexec_fn=become), CONVERTED)
        self.mark(own / "mmtrace")
        self.assertEqual(self.answer(env=env, preexec_fn=become), CACHED)


class Disks(Case):
    def mounted(self, command, options, sql=COUNT):
        """The outcome of a question after `command`, with the cache's folder on a small file
        system."""
        script = (
            f'mount -t tmpfs -o {options} tmpfs "$1" && {command} && exec "$2" query --csv "$3" '
            '"$4"')
        return lib.run("unshare", "--mount", "sh", "-c", script, "sh", self.home, lib.MMSQL,
                       self.trace, sql, env=self.env)

    def test_no_room(self):
        self.check_without(self.mounted("true", "size=600k"))

    def test_no_room_for_a_file(self):
        """The conversion in the cache begins, and fails."""
        self.check_without(self.mounted("true", "nr_inodes=3"))

    def test_the_file_system_fills_up(self):
        done = self.mounted('head -c 17000k /dev/zero > "$1/other"', "size=17500k")
        self.check_without(done)

    def check_without(self, done):
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, [CONVERTED]),
                         done.stderr)
        self.assertEqual(done.stderr, self.ask(None, "--no-cache").stderr)

    def test_a_file_system_for_reading(self):
        self.check_without(self.mounted('mount -o remount,ro "$1"', "size=64m"))

    def test_a_full_cache_for_reading(self):
        self.fill()
        script = (
            'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" query --csv "$3" '
            '"$4"')
        done = lib.run("unshare", "--mount", "sh", "-c", script, "sh", self.home, lib.MMSQL,
                       self.trace, COUNT, env=self.env)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, [CACHED]),
                         done.stderr)


Disks = lib.needs_namespaces(Disks)


if __name__ == "__main__":
    unittest.main()
