# SPDX-License-Identifier: Apache-2.0
"""Root converts into a folder that a stranger owns. The stranger changes the folder meanwhile, so
that root writes to, or removes, a file of root's."""
import contextlib
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest

import lib
import strangers
from protowire import field

TRACE = b"".join(field(1, field(8, n) + field(900, field(1, b"x" * 200))) for n in range(1, 4000))
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
PENDING_BYTE = 0x40000000


def wait_for_go(folder):
    """Waits until the test says that root's conversion has its working folder. Returns the
    folder."""
    while not (folder.parent / "go").exists():
        time.sleep(0.01)
    return next(folder.glob("out.db.mmsql-*"))


def replace_later(voice, folder, secret):
    """Replaces the working folder by the stranger's folder, and each file that root makes there by
    a link to the secret file."""
    working = wait_for_go(folder)
    working.rename(folder / "gone")
    working.mkdir()
    voice.say("swapped")
    while True:
        with contextlib.suppress(OSError):
            for name in os.listdir(working):
                if not (working / name).is_symlink():
                    os.symlink(secret, folder / "link")
                    os.rename(folder / "link", working / name)


def link_with_journal(voice, folder, secret):
    """Replaces the output by a link to the secret database, with a journal beside the link."""
    wait_for_go(folder)
    os.symlink(secret, folder / "link")
    os.rename(folder / "link", folder / "out.db")
    (folder / "out.db-wal").touch()
    voice.say("swapped")


def swap_folder(voice, folder, secret):
    """Replaces the folder of the output by a link to the secret file's folder."""
    wait_for_go(folder)
    folder.rename(folder.parent / "gone")
    folder.symlink_to(secret.parent)
    voice.say("swapped")


def journal_of(database, named):
    """The journal of an unfinished transaction of the database. The journal says that it belongs to
    another journal, `named`."""
    page_bytes = struct.unpack_from(">H", database, 16)[0]
    head = JOURNAL_MAGIC + struct.pack(">IIIII", 0, 1, len(database) // page_bytes, 512,
                                       page_bytes)
    name = os.fsencode(named)
    return (head.ljust(512, b"\0") + struct.pack(">I", PENDING_BYTE // page_bytes + 1) + name +
            struct.pack(">II", len(name), sum(name)) + JOURNAL_MAGIC)


@lib.needs_root
class Outputs(unittest.TestCase):
    # The sandbox of kernels with Landlock would refuse files of other folders anyway.
    ENV = {**os.environ, "MMTRACE_SANDBOX": "off"}

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="strangers-outputs-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.dir.chmod(0o755)
        self.theirs, self.secret = self.dir / "theirs", self.dir / "secret"
        self.theirs.mkdir()
        os.chown(self.theirs, strangers.UID, strangers.UID)
        self.out = self.theirs / "out.db"
        with contextlib.closing(sqlite3.connect(self.secret)) as connection:
            connection.executescript("CREATE TABLE mine(x); INSERT INTO mine VALUES(1)")
        self.secret.chmod(0o600)
        self.before = self.secret.read_bytes()
        (self.dir / "trace").write_bytes(TRACE)

    def theirs_too(self, path):
        os.chown(path, strangers.UID, strangers.UID, follow_symlinks=False)

    def check_secret(self):
        self.assertEqual((self.secret.read_bytes(), self.secret.stat().st_mode & 0o777),
                         (self.before, 0o600))

    def convert(self, *options):
        return lib.run(lib.MMSQL, "convert", "-q", self.dir / "trace", "-o", self.out, *options,
                       env=self.ENV)

    def convert_while(self, act):
        """Converts while the stranger acts, before and after the trace has come."""
        stranger = strangers.Stranger(act, self.theirs, self.secret)
        self.addCleanup(stranger.end)
        root = subprocess.Popen([lib.MMSQL, "convert", "-q", "-", "-o", self.out], env=self.ENV,
                                stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with root:
            self.addCleanup(root.kill)
            lib.wait_for(lambda: list(self.theirs.glob("out.db.mmsql-*/database")),
                         "the working file")
            (self.theirs.parent / "go").touch()
            self.assertEqual(stranger.hear(), "swapped")
            said = root.communicate(TRACE, timeout=60)[1]
        self.check_secret()
        return root.returncode, said.decode()

    def check_answer(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.out}?mode=ro", uri=True)) as done:
            self.assertEqual(done.execute("SELECT count(*) FROM trace").fetchall(), [(1,)])
        self.assertEqual((self.out.is_symlink(), self.out.stat().st_uid), (False, 0))

    def test_a_working_folder_that_is_replaced(self):
        self.assertEqual(self.convert_while(replace_later), (0, ""))
        self.check_answer()

    def test_a_link_with_a_journal(self):
        self.convert_while(link_with_journal)

    def test_a_journal_that_names_another_file(self):
        """SQLite removes the journal that a journal names, if no other journal names it."""
        self.assertEqual(self.convert().returncode, 0)
        journal = self.theirs / "out.db-journal"
        for options in ((), ("--append",)):
            journal.write_bytes(journal_of(self.out.read_bytes(), self.secret))
            for path in (self.out, journal):
                self.theirs_too(path)
            self.convert(*options)
            self.check_secret()

    def test_a_link_in_the_place_of_the_output(self):
        """A link of root's own is followed, a link of a stranger is not."""
        real = self.dir / "real.db"
        real.touch()
        self.out.symlink_to(real)
        self.assertEqual(self.convert().returncode, 0)
        self.assertGreater(real.stat().st_size, 0)
        real.write_bytes(b"")
        self.theirs_too(self.out)
        for done in (self.convert(),
                     lib.run(lib.MMSQL, "export", "--format", "csv", self.secret, "SELECT 1",
                             "-o", self.out)):
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"is a link of user {strangers.UID}", done.stderr)
        self.assertEqual(real.read_bytes(), b"")

    def roots_file(self, end):
        """Makes a file of root's in the stranger's folder, as if the stranger had renamed it."""
        path = self.theirs / f"out.db{end}"
        path.write_bytes(b"of root alone" * 100)
        path.chmod(0o600)
        return path

    def test_files_of_root_beside_the_database(self):
        """SQLite would take these files for its own, overwrite them and give them to the database's
        owner."""
        self.assertEqual(self.convert().returncode, 0)
        with contextlib.closing(sqlite3.connect(self.out)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript("CREATE TABLE theirs(x)")
        self.theirs_too(self.out)
        for end in ("-wal", "-shm", "-journal"):
            for what in (("query", self.out, "SELECT 1"), ("verdict", self.out),
                         ("convert", "-q", self.dir / "trace", "-o", self.out, "--append")):
                with self.subTest(end=end, verb=what[0]):
                    mine = self.roots_file(end)
                    lib.run(lib.MMSQL, *what, env=self.ENV)
                    self.assertEqual((mine.stat().st_uid, mine.read_bytes()),
                                     (0, b"of root alone" * 100))
                    mine.unlink()

    def test_a_journal_that_never_answers(self):
        self.assertEqual(self.convert().returncode, 0)
        self.theirs_too(self.out)
        for end in ("-wal", "-journal"):
            os.mkfifo(self.theirs / f"out.db{end}")
            self.theirs_too(self.theirs / f"out.db{end}")
            for what in (("query", self.out, "SELECT 1"),
                         ("convert", "-q", self.dir / "trace", "-o", self.out),
                         ("convert", "-q", self.dir / "trace", "-o", self.out, "--append")):
                with self.subTest(end=end, what=what):
                    lib.run(lib.MMSQL, *what, env=self.ENV)
            (self.theirs / f"out.db{end}").unlink()

    def test_a_folder_of_root_with_the_name_of_a_working_folder(self):
        folder = self.theirs / "out.db.mmsql-aaaaaa"
        folder.mkdir(mode=0o700)
        (folder / "mine").write_text("of root")
        self.assertEqual(self.convert().returncode, 0)
        self.assertEqual((folder / "mine").read_text(), "of root")

    def test_a_folder_that_becomes_a_link(self):
        roots, above = self.dir / "roots", self.theirs
        roots.mkdir()
        self.secret = self.secret.rename(roots / "out.db")
        self.theirs = above / "dir"
        self.theirs.mkdir()
        self.theirs_too(self.theirs)
        self.out = self.theirs / "out.db"
        self.assertEqual(self.convert_while(swap_folder), (0, ""))
        self.out = above / "gone" / "out.db"
        self.check_answer()

    def test_a_link_in_the_middle_of_the_path(self):
        """A folder in the path of the output is a link to root's folder."""
        roots, own = self.dir / "roots", self.dir / "own"
        roots.mkdir()
        own.symlink_to(roots)
        strangers.make_link(roots, self.theirs / "dir")
        mine = [roots / name for name in ("out.db", "trace.csv")]
        self.out = own / "out.db"
        self.assertEqual(self.convert().returncode, 0)
        (roots / "trace.csv").write_text("mine")
        before = [path.read_bytes() for path in mine]
        source = shutil.copy(mine[0], self.dir / "source.db")
        self.out = self.theirs / "dir" / "out.db"
        for done in (self.convert(), self.convert("--append"),
                     lib.run(lib.MMSQL, "export", "--format", "csv", source, "SELECT 1",
                             "-o", self.out),
                     lib.run(lib.MMSQL, "export", mine[0], "trace", "--folder",
                             self.theirs / "dir")):
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr,
                             f"{self.theirs}/dir:? is a link of user {strangers.UID}")
        self.assertEqual([path.read_bytes() for path in mine], before)
        done = lib.run(lib.MMSQL, "export", mine[0], "trace", "--folder",
                       self.theirs / "dir" / "new" / "below")
        self.assertIn(f"the folder {self.theirs}/dir is a link of user {strangers.UID}",
                      done.stderr)
        self.assertEqual((done.returncode, list(roots.glob("new"))), (1, []))


if __name__ == "__main__":
    unittest.main()
