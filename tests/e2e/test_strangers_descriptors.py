# SPDX-License-Identifier: Apache-2.0
"""Descriptors that strangers pass to the daemon (docs/threat-model.md)."""
import array
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import lib
import strangers
from protowire import field, frame, invoke
from strangers_daemon import CONFIG, Daemon, ENABLE, INITIALIZE, QUERY_STATE, SERVED_S


@lib.needs_root
class PassedDescriptors(unittest.TestCase):
    """H1: a write to a descriptor that a stranger passes, or the close of the descriptor, would
    block."""

    def setUp(self):
        self.daemon = Daemon(self, "--consumer-group", str(strangers.UID)).ready()
        self.daemon.status()

    def served(self, act, *arguments, **options):
        """Runs the stranger while root asks for the status; then ends the daemon. Returns the
        stranger's last line."""
        # before threads exist: a fork would lack them
        stranger = strangers.Stranger(act, *arguments, **options)
        self.addCleanup(stranger.end)
        others = strangers.Timed(self.daemon.status)
        try:
            heard = stranger.hear()
            if heard == "open":
                heard = stranger.hear()
            for _ in range(3):
                self.daemon.status()
        finally:
            longest, median = others.stop()
        self.assertEqual(others.errors, [])
        self.assertLess(longest, SERVED_S)
        strangers.figure(self,
                         f"status of root while under attack: {longest * 1e3:.0f} ms at most, "
                         f"{median * 1e3:.0f} ms median")
        self.assertEqual(self.daemon.end(), 0)
        return heard

    def fuse(self, path, service, request, deaf, **options):
        device = strangers.fuse_device(self.daemon.root)
        mount_on = self.daemon.root / "mounted"
        mount_on.touch()
        return self.served(strangers.pass_fuse, device, mount_on, path, service, request, deaf,
                           **options)

    def test_fuse_file_for_a_producer(self):
        self.fuse(self.daemon.run_dir / "producer.sock", b"ProducerPort",
                  invoke(2, INITIALIZE, field(3, b"x")), (strangers.FLUSH,))

    def test_fuse_file_for_the_recording_of_a_member(self):
        """Members of the consumer group may pass an output file on any file system."""
        source = field(2, field(1, field(1, b"linux.sys_stats")))
        config = field(1, field(1, 64)) + source + field(8, 1) + field(9, 100)
        self.fuse(self.daemon.run_dir / "consumer.sock", b"ConsumerPort",
                  invoke(2, ENABLE, field(1, config)),
                  (strangers.FLUSH, strangers.WRITE))

    def test_fuse_file_that_nobody_wanted(self):
        self.fuse(self.daemon.run_dir / "consumer.sock", b"ConsumerPort", invoke(2, QUERY_STATE),
                  (strangers.FLUSH, strangers.GETATTR))

    def test_socket_that_lingers(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.served(strangers.pass_lingering, self.daemon.run_dir / "producer.sock",
                        listener.getsockname()[1])

    def test_file_of_a_member(self):
        """The whole trace is in the member's file when the command ends."""
        config, out = self.daemon.root / "config", self.daemon.root / "out"
        out.mkdir()
        os.chown(out, strangers.UID, strangers.UID)
        for _ in range(3):
            for ms in lib.longer(1500):
                config.write_text(
                    CONFIG + f"duration_ms: {ms} write_into_file: true file_write_period_ms: 200\n")
                done = lib.run(lib.MMTRACE, "record", "-c", config, "-o", out / "trace",
                               env=self.daemon.env, user=strangers.UID,
                               group=strangers.UID, extra_groups=[])
                self.assertEqual((done.returncode, done.stderr.count("in this process")), (0, 0),
                                 done.stderr)
                packets = lib.decode(out / "trace")
                self.assertTrue([p for p in lib.of_kind(packets, "service_event")
                                 if "tracing_disabled" in p.one("service_event")])
                self.assertEqual((out / "trace").stat().st_uid, strangers.UID)
                if "too late" not in done.stderr:  # no reading was left out
                    break
            self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 15)


@lib.needs_program("cc")
class PassedDescriptorsBefore616(PassedDescriptors):
    """The tests of PassedDescriptors on a kernel that cannot refuse descriptors (before Linux
    6.16)."""

    def setUp(self):
        os.environ["LD_PRELOAD"] = str(strangers.old_kernel(self))
        try:
            self.daemon = Daemon(self, "--consumer-group", str(strangers.UID)).ready()
        finally:
            del os.environ["LD_PRELOAD"]
        del self.daemon.env["LD_PRELOAD"]

    test_file_of_a_member = None

    def test_triggers_arrive(self):
        done = lib.run(lib.MMTRACE, "trigger", "--optional", "x", env=self.daemon.env,
                       user=strangers.UID, group=strangers.UID,
                       extra_groups=[])
        self.assertEqual(done.returncode, 0, done.stderr)
        lib.wait_for(lambda: not list(
            pathlib.Path(f"/proc/{self.daemon.process.pid}/task/{self.daemon.process.pid}/children")
            .read_text().split()), "the end of the relay")

    def test_crowd(self):
        """Connections beyond what one user may have are refused, and root is served."""
        def come(voice, path):
            clients = [socket.socket(socket.AF_UNIX) for _ in range(24)]
            for client in clients:
                client.connect(str(path))
            voice.say("there")
            voice.stay()

        stranger = strangers.Stranger(come, self.daemon.run_dir / "producer.sock")
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "there")
        lib.wait_for(lambda: "a connection was refused: relays of user" in self.daemon.said(),
                     self.daemon.said)
        self.daemon.status()
        # Consumers have relays of their own, also those of the same user.
        done = lib.run(lib.MMTRACE, "status", env=self.daemon.env, user=strangers.UID,
                       group=strangers.UID, extra_groups=[])
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
