# SPDX-License-Identifier: Apache-2.0
"""No new process or thread (ulimit -u), and read-only disks: each program does its work,
or says what is missing and leaves nothing half-written."""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest
import zipfile

import lib

TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
FREE_UID = 160000 + os.getpid() % 60000  # only this test's processes have this uid
CONFIG = """
buffers { size_kb: 256 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 20 } } }
duration_ms: 100
"""


def contents(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes()
            for path in folder.rglob("*")}


class Poor(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="poor-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.out = self.dir / "out"
        self.out.mkdir()
        (self.dir / "config").write_text(CONFIG)
        (self.dir / "long").write_text("write_into_file: true file_write_period_ms: 100\n" + CONFIG)
        self.db = self.dir / "in.db"
        done = lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", self.db)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.verbs = {
            "convert": (lib.MMSQL, "convert", "-q", TRACE, "-o", self.out / "db"),
            "query of a database": (lib.MMSQL, "query", "-q", self.db,
                                    "SELECT count(*) FROM thread"),
            "query of a trace": (lib.MMSQL, "query", "-q", TRACE, "SELECT count(*) FROM thread"),
            "record": (lib.MMTRACE, "record", "--no-daemon", "-c", self.dir / "config", "-o",
                       self.out / "trace"),
            "record into a file": (lib.MMTRACE, "record", "-q", "--no-daemon", "-c",
                                   self.dir / "long", "-o", self.out / "long"),
            "bugreport": (lib.MMTRACE, "bugreport", "-q", "--traces", self.dir, "-o",
                          self.out / "zip"),
        }

    def whole(self, path):
        """Fails for an output that readers do not accept."""
        if path.name in ("trace", "long"):
            lib.decode(path)
        elif path.name == "zip":
            with zipfile.ZipFile(path) as archive:
                self.assertIsNone(archive.testzip())
        else:
            self.assertEqual(lib.run(lib.MMSQL, "query", "-q", path,
                                     "PRAGMA integrity_check").returncode, 0)


class NoProcesses(Poor):
    def alone(self, n):
        """A preexec_fn that limits a program to n processes and threads."""
        def become():
            os.setgroups([])
            os.setgid(FREE_UID)
            resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
            os.setuid(FREE_UID)
        return become

    def setUp(self):
        super().setUp()
        os.chown(self.out, FREE_UID, FREE_UID)
        try:
            runs = lib.run(lib.MMSQL, "--version", preexec_fn=self.alone(1)).returncode == 0
        except OSError:
            runs = False
        if not runs:
            self.skipTest(
                "another user cannot run the build: it is in a folder that only its owner may "
                "enter")

    @lib.needs_root
    def test_each_program(self):
        codes = {}
        for name, argv in self.verbs.items():
            for n in (1, 2, 3, 4):
                with self.subTest(verb=name, n=n):
                    done = lib.run(*argv, preexec_fn=self.alone(n), timeout_s=60)
                    codes[name, n] = done.returncode
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    for path in self.out.iterdir():
                        self.whole(path)
                    if done.returncode:
                        self.assertRegex(done.stderr,
                                         "^mm(sql|trace): .*no (thread|process) can be "
                                         "started: Resource temporarily unavailable")
                        self.assertEqual(list(self.out.iterdir()), [])
                    for path in self.out.iterdir():
                        path.unlink()
        self.assertEqual([codes["convert", 1], codes["convert", 2]], [1, 0])
        self.assertEqual(codes["query of a database", 1], 0)
        self.assertEqual({codes[name, 4] for name in self.verbs}, {0}, codes)

    @lib.needs_root
    def test_daemon(self):
        """The daemon serves, or ends with a message; it ends at SIGTERM in any case."""
        for n in (1, 2, 3, 4):
            with self.subTest(n=n):
                log = self.dir / f"log{n}"
                with open(log, "wb") as stderr:
                    daemon = subprocess.Popen([lib.MMTRACE, "daemon", "--armed", "none",
                                               "--kmem-events", "none", "--psi", "none",
                                               "--no-perfetto-sockets", "--state-dir",
                                               self.out / "state", "--run-dir",
                                               self.out / f"run{n}"], stderr=stderr,
                                              preexec_fn=self.alone(n))
                try:
                    lib.wait_for(lambda: daemon.poll() is not None or lib.run(
                        lib.MMTRACE, "status", "--socket", self.out / f"run{n}",
                        env={**os.environ, "MMTRACE_SERVER_UID": str(FREE_UID)}).returncode == 0,
                                 log.read_text)
                    if daemon.poll() is None:
                        daemon.send_signal(signal.SIGTERM)
                        self.assertEqual(daemon.wait(30), 0, log.read_text())
                    else:
                        self.assertEqual(daemon.returncode, 1)
                        self.assertRegex(log.read_text(),
                                         "(?m)^mmtrace: .*Resource temporarily unavailable")
                finally:
                    daemon.kill()
                    daemon.wait()


@lib.needs_namespaces
class ReadOnly(Poor):
    def read_only(self, *argv, tmp=None):
        """Runs a program where self.out and `tmp` are read-only."""
        script = (
            'for folder in $FOLDERS; do mount --bind $folder $folder && mount -o remount,bind,ro '
            '$folder || exit 99; done; exec "$@"')
        env = {**os.environ, "FOLDERS": f"{self.out} {tmp or ''}",
               **({"TMPDIR": str(tmp), "SQLITE_TMPDIR": str(tmp)} if tmp else {})}
        done = lib.run("unshare", "--mount", "sh", "-c", script, "sh", *argv, env=env, timeout_s=60)
        if done.returncode == 99:
            self.skipTest(f"no folder can be mounted read-only: {done.stderr}")
        return done

    def test_outputs(self):
        for is_there in (False, True):
            for name, argv in self.verbs.items():
                with self.subTest(verb=name, is_there=is_there):
                    if is_there and str(argv[-1]).startswith(str(self.out)):
                        shutil.copy(self.db, argv[-1])
                    before = contents(self.out)
                    done = self.read_only(*argv)
                    if name.startswith("query"):
                        self.assertEqual(done.returncode, 0, done.stderr)
                    else:
                        self.assertEqual(done.returncode, 1, done.stderr)
                        self.assertRegex(done.stderr,
                                         f"(?m)^mm(sql|trace): {argv[-1]}[^ ]*: Read-only file "
                                         "system")
                        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertEqual(contents(self.out), before)

    def test_inputs(self):
        """Inputs may be on a read-only disk."""
        for path in (TRACE, self.db, self.dir / "config"):
            shutil.copy(path, self.out)
        for name in ("query of a database", "query of a trace", "convert", "record"):
            argv = [str(word).replace(str(self.dir / "in.db"), str(self.out / "in.db")).replace(
                str(TRACE), str(self.out / TRACE.name))
                    .replace(str(self.out / "db"), str(self.dir / "made")).replace(
                        str(self.out / "trace"), str(self.dir / "made"))
                    for word in self.verbs[name]]
            with self.subTest(verb=name):
                done = self.read_only(*argv)
                self.assertEqual(done.returncode, 0, done.stderr)
                (self.dir / "made").unlink(missing_ok=True)

    def test_temporary_files(self):
        tmp = self.dir / "tmp"
        tmp.mkdir()
        done = self.read_only(*self.verbs["query of a trace"], tmp=tmp)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"{tmp}[^ ]*: Read-only file system")
        done = self.read_only(*self.verbs["query of a database"], tmp=tmp)
        self.assertEqual(done.returncode, 0, done.stderr)

    @lib.needs_root
    def test_daemon(self):
        for option in ("--state-dir", "--run-dir"):
            with self.subTest(option):
                other = {"--state-dir": self.dir / "state", "--run-dir": self.dir / "run",
                         option: self.out / "folder"}
                done = self.read_only(lib.MMTRACE, "daemon", "--armed", "none", "--kmem-events",
                                      "none", "--psi", "none",
                                      "--no-perfetto-sockets",
                                      *(word for pair in other.items() for word in pair))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr,
                                 f"(?m)^mmtrace: .*{self.out / 'folder'}.*: Read-only file system")
                self.assertEqual(contents(self.out), {})


if __name__ == "__main__":
    unittest.main()
