# SPDX-License-Identifier: Apache-2.0
"""Processes of a user without rights that pretend to be Java VMs, and want root's `mmtrace java` to
write, remove or wait where their user may not."""
import ctypes
import mmap
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import lib
import states
import strangers
from strangers import UID
from test_java import AGENT

MS_BIND = 4096
VMS_EACH = 16  # VMs of one user that are asked at the same time
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def pretend(voice, jvm, places=None):
    """Maps a library with the name of a VM's, and catches SIGQUIT as a VM does. `places`: name of a
    folder -> the folder that a mount of the process shows there."""
    with open(jvm, "rb") as file:
        library = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
    asked = []

    def ask(number, frame):
        if not asked:
            voice.say("asked")
        asked.append(number)

    signal.signal(signal.SIGQUIT, ask)
    if places:
        libc = strangers.enter_namespaces(voice)
        for name, place in places.items():
            if libc.mount(os.fsencode(place), os.fsencode(name), None, MS_BIND, None) < 0:
                voice.say(f"cannot: mount {name}: {os.strerror(ctypes.get_errno())}")
                os._exit(0)
    voice.say("ready")
    voice.stay()
    library.close()


@lib.needs_root
@unittest.skipUnless(AGENT.exists(), "the agent of Java VMs is not in this build")
class Pretenders(unittest.TestCase):
    def setUp(self):
        # the strangers' mounts hide /tmp and /var/tmp
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-pretenders-", dir="/var/lib"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.dir.chmod(0o755)
        self.jvm = self.dir / "libjvm.so"
        self.jvm.write_bytes(bytes(4096))

    def pretender(self, places=None, uid=UID):
        stranger = strangers.Stranger(pretend, self.jvm, places, uid=uid)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "ready")
        return stranger

    def test_many_that_never_answer(self):
        """VMs of one user that were asked for a profile and never answer leave room for VMs of
        other users."""
        strange = {vm.pid: vm for vm in (self.pretender() for _ in range(2 * VMS_EACH))}
        honest = self.pretender(uid=UID + 1)
        pids = " ".join(f"pid: {pid}" for pid in (*strange, honest.pid))
        config = self.dir / "config"
        config.write_text(
            'buffers { size_kb: 1024 } data_sources { config { name: "linux.heap" heapprofd_config '
            f'{{ heaps: "com.android.art" sampling_interval_bytes: 4096 {pids} }} }} }}')
        said = self.dir / "said"
        with open(said, "wb") as stderr:
            recorder = subprocess.Popen([lib.MMTRACE, "record", "--no-verdict", "-c", config, "-o",
                                         self.dir / "trace"], stderr=stderr)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        most = 0

        def helpers():
            """The number of strange VMs that are being asked."""
            nonlocal most
            children = states.proc_text(recorder.pid, f"task/{recorder.pid}/children").split()
            lines = [states.proc_text(child, "cmdline").split("\0") for child in children]
            n = sum(len(line) > 1 and line[1].isdigit() and int(line[1]) in strange
                    for line in lines)
            most = max(most, n)
            return n

        lib.wait_for(lambda: helpers() >= VMS_EACH, lambda: f"helpers: {most} at most")
        heard = []
        thread = threading.Thread(target=lambda: heard.append(honest.hear()))
        thread.start()
        self.addCleanup(thread.join)
        lib.wait_for(lambda: (helpers(), heard)[1],
                     lambda: f"the signal to the other's VM; the recorder said: {said.read_text()}")
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)
        self.assertLess(most, len(strange))
        self.assertEqual(heard, ["asked"])

    def folder_of_root(self):
        """Makes a folder that only root may write into."""
        folder = self.dir / "of_root"
        folder.mkdir(mode=0o755)
        return folder

    def begin(self, pid):
        return subprocess.Popen([lib.MMTRACE, "java", str(pid)], stderr=subprocess.PIPE, text=True)

    def test_folders_of_roots_under_the_names_of_its_own(self):
        """Root makes no file where the VM's user may make none."""
        folder = self.folder_of_root()
        nothing = self.dir / "nothing"
        nothing.mkdir(mode=0o755)
        vm = self.pretender({**dict.fromkeys(FOLDERS, folder), AGENT.parent: nothing})
        before = folder.stat().st_mtime_ns
        done = lib.run(lib.MMTRACE, "java", vm.pid, timeout_s=30)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(folder.stat().st_mtime_ns, before, done.stderr)
        self.assertIn("a folder for the agent", done.stderr)

    def test_files_of_roots_under_the_name_of_the_mark(self):
        """Root removes no file that the VM's user may not remove."""
        folder = self.folder_of_root()
        vm = self.pretender({"/tmp": folder})
        mark = folder / f".attach_pid{vm.pid}"
        mark.write_text("precious")
        done = lib.run(lib.MMTRACE, "java", vm.pid, timeout_s=30)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(mark.read_text(), "precious")
        self.assertIn(f"/tmp/.attach_pid{vm.pid}: ", done.stderr)

    def test_a_mark_of_another_user_in_tmp_is_replaced(self):
        vm = self.pretender()
        mark = pathlib.Path(f"/tmp/.attach_pid{vm.pid}")
        mark.write_text("")
        os.chown(mark, UID + 1, UID + 1)
        self.addCleanup(mark.unlink, missing_ok=True)
        with self.begin(vm.pid) as command:
            lib.wait_for(lambda: (mark.exists() and mark.stat().st_uid == UID)
                         or command.poll() is not None, "the mark")
            if command.poll() is not None:
                self.fail(f"the command has ended: {command.stderr.read()}")
            command.send_signal(signal.SIGINT)
            command.communicate(timeout=20)
        self.assertFalse(mark.exists())

    def test_a_link_to_a_socket_of_roots(self):
        """Nothing is said to a socket of another process, even if all may connect to it."""
        vm = self.pretender()
        with socket.socket(socket.AF_UNIX) as of_root:
            of_root.bind(str(self.dir / "socket"))
            (self.dir / "socket").chmod(0o777)
            of_root.listen(8)
            of_root.settimeout(30)
            link = pathlib.Path(f"/tmp/.java_pid{vm.pid}")
            link.symlink_to(self.dir / "socket")
            self.addCleanup(link.unlink)
            with self.begin(vm.pid) as command:
                for _ in range(3):
                    connection, _ = of_root.accept()
                    with connection:
                        connection.settimeout(30)
                        self.assertEqual(connection.recv(100), b"")
                command.send_signal(signal.SIGINT)
                command.communicate(timeout=20)

    def test_a_fifo_in_the_place_of_the_socket(self):
        vm = self.pretender()
        path = pathlib.Path(f"/tmp/.java_pid{vm.pid}")
        os.mkfifo(path, 0o666)
        self.addCleanup(path.unlink)
        with self.begin(vm.pid) as command:
            mark = pathlib.Path(f"/tmp/.attach_pid{vm.pid}")
            lib.wait_for(lambda: mark.exists() or command.poll() is not None, "the mark")
            command.send_signal(signal.SIGINT)
            said = command.communicate(timeout=20)[1]
        self.assertEqual(command.returncode, 1, said)

    def test_a_tmp_that_never_answers(self):
        """The command ends at SIGINT."""
        strangers.fuse_device(self.dir)
        theirs = self.dir / "theirs"
        theirs.mkdir()
        os.chown(theirs, UID, UID)
        code = ("import mmap, signal, time; signal.signal(3, lambda *_: 0); "
                f"f = open('{self.jvm}', 'rb'); m = mmap.mmap(f.fileno(), 4096, prot=1); "
                "time.sleep(80)")
        deaf = strangers.start_program("deaf", theirs, "/tmp", ".java_pid", "/usr/bin/python3",
                                       "-c", code)
        self.addCleanup(deaf.stdout.close)
        self.addCleanup(deaf.wait)
        self.addCleanup(deaf.kill)
        self.assertEqual(strangers.hear_program(deaf).strip(), "ready")

        def child():
            text = states.proc_text(deaf.pid, f"task/{deaf.pid}/children").split()
            return int(text[0]) if text else 0
        lib.wait_for(lambda: child() and "libjvm.so" in states.proc_text(child(), "maps"), "the VM")
        with self.begin(child()) as command:
            self.assertIn("asked for .java_pid", strangers.hear_program(deaf))
            began = time.monotonic()
            command.send_signal(signal.SIGTERM)
            said = command.communicate(timeout=20)[1]
            strangers.figure(self, f"the command ends in {time.monotonic() - began:.1f} s")
        self.assertEqual(command.returncode, 1, said)
        self.assertIn("a look-up or read of its files took too long", said)


if __name__ == "__main__":
    unittest.main()
