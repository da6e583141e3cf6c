# SPDX-License-Identifier: Apache-2.0
"""mmtrace doctor: as root, as a user without rights, where something is missing, and where
something does not answer."""
import ctypes
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import socket
import struct
import tempfile
import time
import unittest

import lib
import peers

NAMES = ["kernel", "rights", "tracefs", "pressure", "cachestat", "perf", "perf limits", "symbols",
         "seccomp", "locked memory", "daemon", "armed configs", "disk", "heap profiles", "verdict"]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
CALL = {"x86_64": 298, "aarch64": 241}.get(platform.machine())  # perf_event_open
KILL, REFUSE = 0x80000000, 0x00050001  # SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM


def filter_perf(action):
    """Lets this process and its children make all calls but perf_event_open."""
    program = b"".join(struct.pack("HBBI", *row) for row in (
        (0x20, 0, 0, 0), (0x15, 0, 1, CALL), (0x06, 0, 0, action), (0x06, 0, 0, 0x7fff0000)))
    text = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", 4, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header):
        raise OSError(ctypes.get_errno(), "prctl")


class Doctor(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-"))
        self.dir.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def ask(self, *before, more=(), **options):
        """Name -> finding. Asserts that the exit code is 1 if a finding is a lack."""
        done = lib.run(*before, lib.MMTRACE, "doctor", "--json", *more, **options)
        self.assertEqual(done.stderr, "")
        answer = json.loads(done.stdout)
        self.assertEqual([check["name"] for check in answer["checks"]], NAMES)
        lacks = [check for check in answer["checks"] if check["is_lack"]]
        self.assertEqual(answer["n_lacks"], len(lacks))
        self.assertEqual(done.returncode, 1 if lacks else 0)
        for check in answer["checks"]:
            self.assertTrue(check["found"])
            self.assertEqual(check["is_lack"], bool(check.get("cost") and check.get("mend")))
        return {check["name"]: check for check in answer["checks"]}

    def test_text_says_what_json_says(self):
        found = self.ask()
        done = lib.run(lib.MMTRACE, "doctor")
        lines = re.findall(r"^(ok  |LACK)  (\S+(?: \S+)*)", done.stdout, re.MULTILINE)
        self.assertEqual([(name, mark == "LACK") for mark, name in
                          ((mark, re.match("|".join(sorted(NAMES, key=len, reverse=True)), text)[0])
                           for mark, text in lines)],
                         [(name, check["is_lack"]) for name, check in found.items()])
        for check in found.values():
            self.assertIn(check.get("mend", ""), done.stdout)
        n = sum(not check["is_lack"] for check in found.values())
        self.assertIn(f"\n{n} of {len(NAMES)} checks are ok", done.stdout)
        # A command, and a path without a blank, is on one line.
        self.assertEqual([line for line in done.stdout.splitlines()
                          if len(line) > 80 and "mend:" not in line and " " in line[20:]], [])

    @lib.needs_root
    def test_root_has_what_the_machine_has(self):
        found = self.ask()
        self.assertIn(os.uname().release, found["kernel"]["found"])
        if pathlib.Path("/proc/pressure/memory").exists():
            self.assertFalse(found["pressure"]["is_lack"])
        self.assertFalse(found["locked memory"]["is_lack"])
        self.assertFalse(found["verdict"]["is_lack"])

    @lib.needs_root
    def test_a_user_without_rights(self):
        found = self.ask(*NOBODY)
        self.assertIn("nobody (user id 65534)", found["rights"]["found"])
        for name in ("rights", "tracefs", "symbols"):
            self.assertTrue(found[name]["is_lack"], name)
        self.assertIn("sudo mmtrace", found["rights"]["mend"])

    def test_root_of_a_user_namespace(self):
        inside = ("unshare", "--user", "--map-root-user")
        if lib.run(*inside, "true").returncode:
            self.skipTest("no user namespace can be made")
        def lower():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        found = self.ask(*inside, preexec_fn=lower)
        self.assertEqual(found["rights"]["found"], "root of a user namespace")
        self.assertTrue(found["rights"]["is_lack"])
        self.assertEqual(found["locked memory"]["found"], "64 KB")

    @lib.needs_root
    def test_locked_memory(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        found = self.ask(*NOBODY, preexec_fn=lower)
        self.assertEqual(found["locked memory"]["found"], "64 KB")
        self.assertIn("ulimit -l unlimited", found["locked memory"]["mend"])

    @lib.needs_tracefs
    @lib.needs_namespaces
    def test_the_command_mends_the_lack(self):
        hidden = ("unshare", "--mount", "sh", "-c",
                  "umount -l /sys/kernel/debug/tracing 2> /dev/null; "
                  "umount -l /sys/kernel/tracing && {mend} exec \"$@\"", "sh")
        lack = self.ask(*(word.format(mend="") if "{" in word else word for word in hidden))
        mend = lack["tracefs"]["mend"].removeprefix("sudo ")
        self.assertEqual(mend, "mount -t tracefs tracefs /sys/kernel/tracing")
        found = self.ask(*(word.format(mend=mend + " &&") if "{" in word else word
                           for word in hidden))
        self.assertFalse(found["tracefs"]["is_lack"])

    @lib.needs_root
    def test_daemon(self):
        self.assertIn("no tracing service answers", self.ask()["daemon"]["found"])
        with peers.Daemon() as daemon:
            found = self.ask(env=daemon.env)["daemon"]
            self.assertRegex(found["found"], r"^mmtrace .*, sessions: 0$")
            self.assertFalse(found["is_lack"])

    def test_a_service_that_does_not_answer(self):
        """The checks after the hanging one go on."""
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(self.dir / "consumer.sock"))
            silent.listen()
            began = time.monotonic()
            found = self.ask(more=("--socket", self.dir))
            self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(found["daemon"]["found"], "no answer within 3 s")
        self.assertTrue(found["daemon"]["is_lack"])
        self.assertNotIn("no answer", found["disk"]["found"])

    def test_armed_configs(self):
        more = ("--armed", self.dir)
        found = self.ask(more=more)["armed configs"]
        self.assertIn(f"0 in {self.dir}", found["found"])
        if found["mend"].startswith("sudo "):
            config = pathlib.Path(found["mend"].split()[-1])
            self.assertTrue(config.is_absolute() and config.is_file(), found["mend"])
            self.assertTrue(found["mend"].startswith(f"sudo install -D -t {self.dir} "))
        else:  # neither installed nor built in the source tree
            self.assertNotIn(lib.ROOT, lib.BUILD.parents)
            self.assertIn("flight_recorder.cfg", found["mend"])
        shutil.copy(lib.ROOT / "configs" / "mm_events.cfg", self.dir)
        self.assertFalse(self.ask(more=more)["armed configs"]["is_lack"])
        (self.dir / "bad.cfg").write_text("buffers { size: 1 }")
        found = self.ask(more=more)["armed configs"]
        self.assertRegex(found["found"], "1 armed, 1 wrong: bad.cfg:1:11: unknown field")
        os.mkfifo(self.dir / "fifo.cfg")  # nobody writes
        self.assertIn("2 wrong", self.ask(more=more)["armed configs"]["found"])

    @lib.needs_root
    @lib.needs_namespaces
    def test_full_disk(self):
        found = self.ask("unshare", "--mount", "sh", "-c",
                         f"mount -t tmpfs -o size=64k tmpfs {self.dir} && exec \"$@\"", "sh",
                         more=("--traces", self.dir / "below"))
        self.assertTrue(found["disk"]["is_lack"])
        self.assertEqual(found["disk"]["found"], f"0.0 GB are free in {self.dir}")

    @unittest.skipUnless(CALL, "needs x86-64 or aarch64")
    def test_filters_of_system_calls(self):
        found = self.ask(preexec_fn=lambda: filter_perf(REFUSE))
        self.assertEqual(found["seccomp"]["found"], "a filter refuses perf_event_open")
        self.assertIn("perf_event_open: Operation not permitted", found["perf"]["found"])
        found = self.ask(preexec_fn=lambda: filter_perf(KILL))
        for name in ("perf", "seccomp"):
            self.assertIn("ended by a signal: Bad system call", found[name]["found"])
        self.assertNotIn("signal", found["disk"]["found"])

    def test_full_standard_output(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = lib.subprocess.run([lib.MMTRACE, "doctor", "--json"], stdout=full,
                                      stderr=lib.subprocess.PIPE, text=True, timeout=60,
                                      check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: No space left", done.stderr)


if __name__ == "__main__":
    unittest.main()
