#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is damage inside a packet reported, for every kind of message?

usage: test_damage.py MMSQL PROTOC SOURCE_ROOT BUILD_ROOT

A packet can hold many messages of protos/, at any depth. For each message the test makes a packet
in which this message breaks in the middle of a field; all lengths around the message are right. The
converter has to count each of these packets, to name the first, and to end with exit code 1. The
test takes the messages from protoc's view of the schema, so a new message needs no change here.
"""
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import test_schema
from protowire import field

MMSQL = ""
BROKEN = b"\x08"  # a number's tag without the number
COUNTED = (
    "SELECT sum(value) FROM stats WHERE name IN ('mmsql_packets_damaged', "
    "'ftrace_bundle_tokenizer_errors')")


def resolve(messages, scope, name):
    while scope:
        if f"{scope}.{name}" in messages:
            return f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    return name if name in messages else None


def message_paths(messages):
    """Returns the shortest way to every message below TracePacket, as [(message, number of its
    field)]."""
    ways, queue = {"TracePacket": []}, ["TracePacket"]
    for outer in queue:
        for number, _, kind in messages[outer].values():
            inner = resolve(messages, outer, kind)
            if inner and inner not in ways:
                ways[inner] = [*ways[outer], (outer, number)]
                queue.append(inner)
    del ways["TracePacket"]
    return ways


def packet(way):
    content = BROKEN
    for outer, number in reversed(way):
        content = field(number, content)
        if outer == "FtraceEvent":  # the event has its own fields, too
            content = field(1, 1000) + field(2, 7) + content
    return field(1, field(8, 1000) + field(10, 1) + content)


class DamageTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.packets = {name: packet(way)
                       for name, way in message_paths(test_schema.load_schema().messages).items()}

    def convert(self, packets):
        """Returns the exit code, the messages, and the number of packets that are counted."""
        with tempfile.TemporaryDirectory() as folder:
            trace, path = pathlib.Path(folder, "trace"), pathlib.Path(folder, "db")
            trace.write_bytes(b"".join(packets))
            argv = [MMSQL, "convert", "-q", trace, "-o", path]
            done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)
            return done.returncode, done.stderr, sqlite3.connect(path).execute(COUNTED).fetchone()[
                0]

    def test_every_message(self):
        n = len(self.packets)
        self.assertGreater(n, 800)
        code, text, counted = self.convert(self.packets.values())
        if f"; {n} are damaged in all" not in text:
            self.assertEqual(
                [name for name, bytes in self.packets.items() if self.convert([bytes])[0] != 1], [])
        self.assertIn("packet 0 at offset 0 is damaged", text)
        self.assertEqual(code, 1)
        self.assertGreaterEqual(counted, n)

    def test_the_message_names_the_field(self):
        """The fourth packet has a process tree (field 2) that breaks."""
        whole = field(1, field(8, 1000))
        code, text, counted = self.convert([whole] * 3 + [self.packets["ProcessTree.Process"]])
        self.assertEqual((code, counted), (1, 1))
        self.assertIn(
            f"packet 3 at offset {3 * len(whole)} is damaged: a message in it cannot be read to "
            "its end"
            " (field 2 of TracePacket); what could be read is converted", text)

    def test_rows_before_the_damage_stay(self):
        """The first of two processes in a packet is whole."""
        process = field(1, field(1, 77) + field(3, b"whole"))
        tree = field(1, field(8, 1000) + field(2, process + field(1, BROKEN)))
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace")
            trace.write_bytes(tree)
            argv = [MMSQL, "query", trace, "SELECT name FROM process WHERE pid = 77"]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        self.assertIn("is damaged", done.stderr)
        self.assertIn("whole", done.stdout)


if __name__ == "__main__":
    MMSQL, test_schema.PROTOC = sys.argv[1:3]
    test_schema.SOURCE, test_schema.BUILD = map(pathlib.Path, sys.argv[3:5])
    unittest.main(argv=sys.argv[:1])
