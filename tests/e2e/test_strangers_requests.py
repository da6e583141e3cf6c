# SPDX-License-Identifier: Apache-2.0
"""Requests of strangers that take long, or that stand in root's way (docs/threat-model.md)."""
import contextlib
import socket
import struct
import threading
import time

import lib
import strangers
from protowire import bind, field, invoke
from strangers_daemon import ACTIVATE, CONFIG, ENABLE, INITIALIZE
from strangers_member import AT_ONCE_S, Answers, Members, UID

BUFFER = field(1, field(1, 64))
SOURCE = field(2, field(1, field(1, b"linux.sys_stats")))
# ((a*)*){80} takes tens of milliseconds for a name of 255 characters
NAME, DEAR = b"a" * 255, b"((a*)*){80}"
NEVER = b"\x29" + struct.pack("<d", 1.0)  # skip_probability
ATTACK_S = 4


def answered(client, text, seconds=30):
    """Sends bytes, and waits for an answer."""
    client.settimeout(seconds)
    client.sendall(text)
    return client.recv(65536)


def producer(run_dir, name=b"x"):
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(run_dir / "producer.sock"))
    answered(client, bind(b"ProducerPort"))
    answered(client, invoke(2, INITIALIZE, field(3, name)))
    return client


def send_all_the_time(clients, message):
    def send(client):
        with contextlib.suppress(OSError):
            while time.monotonic() < ends:
                answered(client, message, ATTACK_S)

    ends = time.monotonic() + ATTACK_S
    threads = [threading.Thread(target=send, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@lib.needs_root
class Requests(Members):
    def attack(self, act, uid=UID):
        """Returns the longest time until the daemon answers root meanwhile."""
        answers = Answers(self.daemon)
        stranger = strangers.Stranger(act, self.daemon.run_dir, uid=uid)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "done")
        return answers.stop()

    def test_expressions_that_take_long(self):
        """The expressions are a member's, the triggers anybody's."""
        def act(voice, run_dir):
            trigger = field(2, field(1, b"x") + field(2, DEAR) + NEVER)
            config = BUFFER + SOURCE + field(17, field(1, 2) + trigger + field(3, 600000))
            sessions = []
            for _ in range(5):
                sessions.append(socket.socket(socket.AF_UNIX))
                sessions[-1].connect(str(run_dir / "consumer.sock"))
                answered(sessions[-1], bind())
                sessions[-1].sendall(invoke(2, ENABLE, field(1, config)))
            producers = [producer(run_dir, NAME) for _ in range(12)]
            send_all_the_time(producers, invoke(3, ACTIVATE, field(1, b"x") * 256))
            voice.say("done")
            voice.stay()

        self.assertLess(self.attack(act), AT_ONCE_S)

    def test_names_without_end(self):
        """Each frame is small enough, but a user has many connections."""
        def act(voice, run_dir):
            producers = [producer(run_dir) for _ in range(60)]
            send_all_the_time(producers, invoke(3, ACTIVATE, field(1, b"") * 60000))
            voice.say("done")
            voice.stay()

        self.assertLess(self.attack(act, UID + 1), AT_ONCE_S)
        self.assertIn("more than a quarter of the processor", self.daemon.said())

    def test_lists_outside_of_data_sources(self):
        for text in ("session_semaphores {} " * 600,
                     "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 "
                     + "".join(f"triggers {{ name: '{i}' }} " for i in range(600)) + "}"):
            with self.subTest(text[:40]):
                recorder = self.begin(text + ' data_sources { config { name: "linux.sys_stats" } }')
                said = recorder.communicate(timeout=60)[1]
                self.assertEqual(recorder.returncode, 1, said)
                self.assertIn("no more than 512 are allowed", said)

    def test_names_and_places_of_root(self):
        """Sessions of a member hold the name and the semaphore of root's session, and all places.
        Root's session does not notice them."""
        config = CONFIG + '''duration_ms: %d unique_session_name: "flight"
            session_semaphores { name: "one" max_other_session_count: 0 }'''
        taken = self.begin(config % 600000)
        lib.wait_for(lambda: "flight" in self.daemon.status(), self.daemon.said)
        (self.dir / "root.cfg").write_text(config % 300)
        done = lib.run(lib.MMTRACE, "record", "-c", self.dir / "root.cfg", "-o", self.dir / "root",
                       env=self.daemon.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(taken.poll())

    def test_lines_about_configs(self):
        """Each data source has a warning."""
        sources = 'data_sources { config { name: "linux.sys_stats" } } ' * 32
        before = len(self.daemon.said().splitlines())
        for i in range(12):
            recorder = self.begin(f"{sources} duration_ms: 1", name=f"lines{i}")
            recorder.communicate(timeout=60)
        n_lines = len(self.daemon.said().splitlines()) - before
        strangers.figure(self, f"{12 * 32} data sources with warnings, {n_lines} lines of the log")
        self.assertIn("the config sets no period", self.daemon.said())
        self.assertLess(n_lines, 150)
