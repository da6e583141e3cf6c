# SPDX-License-Identifier: Apache-2.0
"""Compares the tables that mmsql and Perfetto's trace_processor_shell make of a trace: every public
table, row by row.

tests/golden/test_peer.py makes rows comparable: the ids of rows are each program's own, so a
reference stands for the row behind it. one_truth.csv beside this file lists what else may differ,
one entry a line:

    recording   which recordings, globs with | between them
    table       which table
    column      this column is not compared; with =- after it, where the peer has NULL; empty: see
                rows
    rows        rows that match this regular expression are not compared
    reason      why

An entry that makes no difference in any recording of a whole run is an error: remove the entry.
"""
import collections
import contextlib
import csv
import fnmatch
import os
import pathlib
import re
import shutil
import sqlite3
import sys

import lib

sys.path.insert(0, str(lib.ROOT / "tests" / "golden"))
import test_peer  # noqa: E402 (found by the line above)

SHELL = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")
DIFFERENCES = pathlib.Path(__file__).with_name("one_truth.csv")
SHOWN = 8  # differing rows of a table
# Each program has stats of its own. Either may leave out stats that are 0.
DROPPED = {"stats": "value = 0 OR name LIKE 'mmsql%'"}
ERRORS = (
    "SELECT name FROM stats WHERE value != 0 AND severity IN ('error', 'data_loss') GROUP BY name")

# A busy machine writes the file too late for the ring. Both programs must report this loss.
BUSY = {"long_trace_mode_bytes_overwritten"}


class Difference:
    def __init__(self, row):
        self.recording, self.table, self.column, self.reason = (
            row[k] for k in ("recording", "table", "column", "reason"))
        self.column, _, self.where = self.column.partition("=")
        self.recordings = self.recording.split("|")
        self.rows = re.compile(row["rows"]) if row["rows"] else None
        self.used = self.met = False
        if bool(self.column) == bool(self.rows) or not self.reason:
            raise ValueError(f"one_truth.csv: {row}: a column or rows, and a reason")

    def __str__(self):
        return f"{self.recording} {self.table} {self.column or self.rows.pattern}"

    def is_about(self, recording):
        return any(fnmatch.fnmatchcase(recording, glob) for glob in self.recordings)

    def without_column(self, line, is_peer):
        fields = (field for field in line
                  if not field.startswith(self.column + "=")
                  or (self.where and is_peer and field != f"{self.column}={self.where}"))
        return tuple(fields)

    def apply(self, lines, is_peer):
        left = collections.Counter()
        for line, n in lines.items():
            if self.column:
                left[self.without_column(line, is_peer)] += n
            elif not self.rows.search(" ".join(line)):
                left[line] += n
        return left


def readable(line):
    fields = []
    for word in line.split(" "):
        name, _, value = word.partition("=")
        fields.append(
            f"{name}={value if value == '-' else bytes.fromhex(value).decode(errors='replace')}")
    return tuple(fields)


def cancel(missing, more):
    """Both counters without their common rows."""
    return missing - more, more - missing


class Comparison:
    """All recordings of a run."""

    def __init__(self):
        with open(DIFFERENCES, encoding="utf-8", newline="") as file:
            self.differences = [Difference(row) for row in csv.DictReader(file)]
        self.questions = {table: test_peer.question(table, columns, DROPPED)
                          for table, columns in sorted(test_peer.tables().items())}
        self.recordings = self.tables = self.rows = self.unexplained = 0

    def table(self, recording, table, want, got):
        """The differences of a table that one_truth.csv does not list, as text."""
        if table in test_peer.ONCE:
            want, got = set(want), set(got)
        want, got = collections.Counter(want), collections.Counter(got)
        missing, more = cancel(want, got)
        if want or got:
            self.tables += 1
            self.rows += max(sum(want.values()), sum(got.values()))
        if not missing and not more:
            return []
        missing, more = (collections.Counter({readable(line): n for line, n in lines.items()})
                         for lines in (missing, more))
        for difference in self.differences:
            if difference.table != table or not difference.is_about(recording):
                continue
            after = cancel(difference.apply(missing, True), difference.apply(more, False))
            difference.used |= (sum(after[0].values()), sum(after[1].values())) != (
                sum(missing.values()), sum(more.values()))
            missing, more = after
        if not missing and not more:
            return []
        self.unexplained += 1
        return [f"{recording} {table}: {sum(missing.values())} rows missing, {sum(more.values())} "
                f"too many of {sum(want.values())}",
                *(f"  {sign} {' '.join(line)}"[:1500]
                  for sign, lines in (("-", missing), ("+", more))
                  for line in sorted(lines)[:SHOWN])]

    def compare(self, recording, trace, folder, converted=None, filled=(), losses=()):
        """Differences that are not listed, errors in the stats except `losses`, and tables in
        `filled` that are empty."""
        database = pathlib.Path(folder, f"{recording}.db")
        done = lib.run(lib.MMSQL, "convert", "-q", converted or trace, "-o", database)
        said = [] if done.returncode == 0 else [f"{recording}: mmsql: {done.stderr}"]
        self.recordings += 1
        for difference in self.differences:
            difference.met |= difference.is_about(recording)
        answers = test_peer.peer_tables(SHELL, trace, self.questions)
        with contextlib.closing(sqlite3.connect(database)) as db:
            for table, (want, error) in answers.items():
                if error is not None:
                    said.append(f"{recording} {table}: the peer says {error}")
                    continue
                said += self.table(recording, table, want,
                                   [row[0] for row in db.execute(self.questions[table])])
                if table in filled and not want:
                    said.append(f"{recording} {table}: empty")
            ours = {row[0] for row in db.execute(ERRORS)}
        rows, error = test_peer.peer_rows(
            SHELL, trace, {"stats": ERRORS.replace("SELECT name", "SELECT name AS line")})
        theirs = {row[1] for row in rows or []}
        for who, names in (("mmsql", ours), ("the peer", theirs)):
            unexpected = {name for name in names - (BUSY & ours & theirs)
                          if not any(fnmatch.fnmatchcase(name, loss) for loss in losses)}
            if unexpected:
                said.append(f"{recording}: errors in {who}: {sorted(unexpected)}")
        return said

    def needless(self):
        """Entries that made no difference, though recordings that they are about were compared."""
        return [str(difference) for difference in self.differences if difference.met
                and not difference.used]

    def __str__(self):
        return (f"{self.recordings} recordings, {self.tables} tables, {self.rows} rows compared, "
                f"{self.unexplained} tables with unexplained differences")
