# SPDX-License-Identifier: Apache-2.0
"""Sockets of a daemon without a free descriptor: no client is served, the daemon rests, and later
serves all clients."""
import os
import resource
import select
import socket
import subprocess
import unittest

import lib
import states
from protowire import bind
from strangers_daemon import Daemon

HEAP = """
buffers { size_kb: 64 }
data_sources { config { name: "linux.heap"
  heapprofd_config { process_cmdline: "nobody-has-this-name" heaps: "libc.malloc"
  heaps: "com.android.art" sampling_interval_bytes: 4096 } } }
"""
SHARE_MAX = 0.1  # of a processor, for a daemon that rests


def first_free(pid):
    """The number that the next descriptor would get."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return min(set(range(len(taken) + 1)) - taken)


@lib.needs_root
class WithoutDescriptors(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.daemon.kill(self.daemon.process)
        self.daemon.argv.remove("--no-perfetto-sockets")
        self.daemon.env.update(PERFETTO_CONSUMER_SOCK_NAME=str(self.daemon.root / "consumer"),
                               PERFETTO_PRODUCER_SOCK_NAME=str(self.daemon.root / "producer"))
        self.daemon.start().ready()
        self.pid = self.daemon.process.pid

    def connect(self, path, kind, question):
        client = socket.socket(socket.AF_UNIX, kind)
        self.addCleanup(client.close)
        client.settimeout(60)
        client.connect(str(path))
        if question:
            client.sendall(question)
        return client

    def is_served(self, client):
        """Whether the client has an answer, or the end of the connection."""
        return bool(select.select([client], [], [], 0)[0])

    def take_descriptors(self):
        """Waits until the daemon has closed the descriptors of former clients, and lowers its limit
        to the descriptors that it has."""
        hard, seen = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)[1], []

        def is_at_rest():
            """A daemon that waits for a processor, or for a helper, may have descriptors that it
            closes later."""
            works = not states.sleeps(self.pid, 0) or states.names_of_children(self.pid)
            seen.append(None if works else first_free(self.pid))
            return len(seen) > 10 and len(set(seen[-10:])) == 1 and seen[-1]
        lib.wait_for(is_at_rest, "descriptors at rest")
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (seen[-1], hard))

    def starve(self, path, kind=socket.SOCK_STREAM, question=b""):
        limits = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        self.take_descriptors()
        try:
            clients = [self.connect(path, kind, question) for _ in range(3)]
            states.wait_for_rest(self.pid, SHARE_MAX, lambda: states.wait_for_turns(self.pid, 2))
            self.assertFalse(any(self.is_served(client) for client in clients))
        finally:
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, limits)
        lib.wait_for(lambda: all(self.is_served(client) for client in clients),
                     "an answer for those who waited")
        self.daemon.status()

    def test_consumer_and_producer(self):
        for port, name in (("ConsumerPort", "consumer"), ("ProducerPort", "producer")):
            for path in (self.daemon.root / name, self.daemon.run_dir / f"{name}.sock"):
                with self.subTest(path=path.name):
                    self.starve(path, question=bind(port.encode()))

    def test_heap(self):
        config = self.daemon.root / "config"
        config.write_text(HEAP)
        recorder = subprocess.Popen([lib.MMTRACE, "record", "-c", config, "-o",
                                     self.daemon.root / "trace"], env=self.daemon.env)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        sockets = [self.daemon.run_dir / "heap.sock", self.daemon.run_dir / "heap.sock.java"]
        for path in sockets:
            with self.subTest(path=path.name):
                lib.wait_for(path.exists, "the socket")
                self.starve(path, socket.SOCK_SEQPACKET)


if __name__ == "__main__":
    unittest.main()
