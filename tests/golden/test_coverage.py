#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is every kind of packet converted, or listed as left out?

usage: test_coverage.py MMSQL SOURCE_ROOT

A trace with an empty packet of every kind that tests/data/facts lists is converted. The kinds that
the converter counts as left out must be those that docs/convert.md lists, by name and number.
"""
import csv
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from protowire import field  # noqa: E402 (found by the line above)

MMSQL, SOURCE = "", pathlib.Path()


def packet(number):
    """A packet of that kind at some time, of a sequence."""
    return field(1, field(8, 1000 + number) + field(10, 1) + field(number, b""))


def kinds():
    """The numbers of the fields of TracePacket that hold data, by name."""
    with open(SOURCE / "tests/data/facts/perfetto-messages.csv", encoding="utf-8",
              newline="") as file:
        return {
            row["field"]: int(row["number"])
            for row in csv.DictReader(file)
            if row["message"] == "TracePacket" and row["label"] == "oneof data"
        }


def left_out(numbers):
    with tempfile.TemporaryDirectory() as folder:
        trace, path = pathlib.Path(folder, "trace"), pathlib.Path(folder, "db")
        trace.write_bytes(b"".join(map(packet, numbers)))
        # Packets that cannot be empty make it a damaged trace; it is converted all the same.
        subprocess.run([MMSQL, "convert", "-q", trace, "-o", path], check=False,
                       stderr=subprocess.DEVNULL)
        rows = sqlite3.connect(path).execute(
            "SELECT idx, value FROM stats WHERE name = 'mmsql_packets_left_out'")
        return dict(rows)


class CoverageTest(unittest.TestCase):
    maxDiff = None

    def test_kinds(self):
        known = kinds()
        self.assertGreater(len(known), 80)
        text = (SOURCE / "docs/convert.md").read_text(encoding="utf-8")
        documented = {name: int(number)
                      for name, number in re.findall(r"^\| (\w+) \| (\d+) \|", text, re.M)}
        counted = left_out(known.values())
        self.assertEqual({name: number for name, number in known.items() if number in counted},
                         documented)
        self.assertEqual(set(counted.values()), {1})

    def test_numbers(self):
        """Unknown numbers are counted, too; all numbers from 10000 on count as one."""
        self.assertEqual(left_out([199, 9999, 10000, 10001, 1 << 28]), {199: 1, 9999: 1, 10000: 3})


if __name__ == "__main__":
    MMSQL, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
