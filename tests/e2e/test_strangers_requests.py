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
from strangers_daemon import ACTIVATE, CONFIG, ENABLE, INITIALIZE, QUERY_STATE
from strangers_member import AT_ONCE_S, Answers, Members, UID

BUFFER = field(1, field(1, 64))
SOURCE = field(2, field(1, field(1, b"linux.sys_stats")))
# ((a*)*){80} takes tens of milliseconds for a name of 255 characters
NAME, DEAR = b"a" * 255, b"((a*)*){80}"
NEVER = b"\x29" + struct.pack("<d", 1.0)  # skip_probability
ATTACK_S = 4
HEARD_BY_FIVE = rb"\x08\x05\x10[\x00\x05]\x18\x00"  # sessions 5, acted 0 or 5, held_back 0


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
    def attack(self, act, uids=(UID,)):
        """Returns the longest time until the daemon answers root meanwhile."""
        answers = Answers(self.daemon)
        others = [strangers.Stranger(act, self.daemon.run_dir, uid=uid) for uid in uids]
        for stranger in others:
            self.addCleanup(stranger.end)
        for stranger in others:
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

    def names_without_end(self, n_clients, uids):
        """Each frame is small enough, but a user has many connections."""
        def act(voice, run_dir):
            producers = [producer(run_dir) for _ in range(n_clients)]
            send_all_the_time(producers, invoke(3, ACTIVATE, field(1, b"") * 60000))
            voice.say("done")
            voice.stay()

        before, began = self.daemon.cpu_s(), time.monotonic()
        self.assertLess(self.attack(act, uids), AT_ONCE_S)
        share = (self.daemon.cpu_s() - before) / (time.monotonic() - began)
        strangers.figure(self, f"{len(uids)} users: the daemon takes {share:.2f} of a processor")
        lib.wait_for(lambda: "microseconds for requests a minute of" in self.daemon.said(),
                     "the limit of the strangers")

    def test_names_without_end(self):
        self.names_without_end(60, [UID + 1])

    def test_names_without_end_of_several_users(self):
        """Together, the users get no more than half of the loop."""
        self.names_without_end(30, [UID + i for i in range(1, 7)])

    def test_a_flood_of_other_names(self):
        """Two users fire triggers that no rule asks for. The rules of a member, with an expression,
        still hear the triggers of root."""
        rules = b"".join(field(2, field(1, b"rule%03d" % i)) for i in range(400))
        alarm = field(2, field(1, b"alarm") + field(2, b"go+d") + field(3, 600000))

        def record(voice, run_dir):
            config = BUFFER + SOURCE + field(17, field(1, 2) + rules + alarm + field(3, 600000))
            sessions = [socket.socket(socket.AF_UNIX) for _ in range(5)]
            for session in sessions:
                session.connect(str(run_dir / "consumer.sock"))
                answered(session, bind())
                answered(session, invoke(2, ENABLE, field(1, config)) + invoke(3, QUERY_STATE))
            voice.say("done")
            voice.stay()

        def flood(voice, run_dir):
            producers = [producer(run_dir) for _ in range(6)]
            voice.say("begun")
            send_all_the_time(producers, invoke(3, ACTIVATE, field(1, b"rule999") * 256))
            voice.say("done")
            voice.stay()

        member = strangers.Stranger(record, self.daemon.run_dir, uid=UID)
        self.addCleanup(member.end)
        self.assertEqual(member.hear(), "done")
        others = [strangers.Stranger(flood, self.daemon.run_dir, uid=UID + i) for i in (1, 2)]
        for stranger in others:
            self.addCleanup(stranger.end)
            self.assertEqual(stranger.hear(), "begun")
        with contextlib.closing(producer(self.daemon.run_dir, b"good")) as client:
            for _ in range(12):
                answer = answered(client, invoke(3, ACTIVATE, field(1, b"alarm")))
                self.assertRegex(answer, HEARD_BY_FIVE)
                time.sleep(0.2)
        for stranger in others:
            self.assertEqual(stranger.hear(), "done")

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
