# SPDX-License-Identifier: Apache-2.0
"""mmsql on page residency of other writers: traces that protoc makes from text, whole and
broken."""
import json
import pathlib
import shutil
import tempfile
import unittest

import lib

FILE = 'files { id: 1 path: "/data/a" device: 5 inode: 6 page_size_bytes: 4096 }'


def packet(ts, body, sequence=3):
    return (f"packet {{ trusted_packet_sequence_id: {sequence} timestamp: {ts} page_residency "
            f"{{ {body} }} }}\n"
            if ts
            else f"packet {{ trusted_packet_sequence_id: {sequence} page_residency {{ {body} }} "
                 f"}}\n")


def sample(body, file_id=1):
    return f"samples {{ file_id: {file_id} {body} }}"


def runs(field, *pairs):
    return " ".join(f"{field}: {n}" for pair in pairs for n in pair)


class Import(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="residency-import-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def convert(self, text):
        (self.dir / "trace").write_bytes(lib.encode(text))
        done = lib.run(lib.MMSQL, "convert", self.dir / "trace", "-o", self.dir / "db")
        self.assertEqual(done.returncode, 0, done.stderr)

    def query(self, sql):
        done = lib.run(lib.MMSQL, "query", "--json", self.dir / "db", sql)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    def samples(self):
        """(ts, detail, runs) of every sample."""
        ranges = self.query(
            "SELECT sample_id, start_page, end_page FROM page_residency_range ORDER BY 1, 2")
        return [(ts, detail, [(start, end) for i, start, end in ranges if i == sample_id])
                for sample_id, ts, detail
                in self.query("SELECT id, ts, detail FROM page_residency_sample ORDER BY id")]

    def lost(self):
        return self.query("SELECT value FROM stats WHERE name = 'mmsql_page_residency_base_lost'")[
            0][0]

    def test_lists_differences_and_spans(self):
        self.convert(
            packet(100, FILE)
            + packet(100,
                     sample("pages: 100 resident_pages: 30 dirty_pages: 2 evicted_pages: 7 "
                            "complete: true revision: 1 "
                            + runs("resident_runs", (0, 10), (10, 20))))
            + packet(200, sample("pages: 100 resident_pages: 25 revision: 2 "
                                 + runs("changed_runs", (5, 5)))
                     + " duration_ns: 9")
            + packet(300, sample("pages: 100 resident_pages: 25 revision: 3"))
            + packet(400, sample("pages: 100 resident_pages: 26 counts_only: true"))
            + packet(500, sample("pages: 120 resident_pages: 11 complete: true revision: 4 "
                                 + runs("resident_runs", (20, 10), (80, 1))))
            + packet(500, "round { files: 1 changed: 1 missed: 2 } duration_ns: 77")
            + packet(600, sample("gone: true")) + packet(600, "files { id: 1 ended: true }")
            + packet(700, "round { files: 0 }"))
        self.assertEqual(self.samples(), [
            (100, "exact", [(0, 10), (20, 40)]),
            (200, "exact", [(0, 5), (20, 40)]),
            (300, "exact", [(0, 5), (20, 40)]),
            (400, "counts", []),
            (500, "exact", [(20, 30), (110, 111)]),
            (600, "gone", [])])
        self.assertEqual(
            self.query("SELECT start_page, end_page, ts, dur, n_pages FROM page_residency_span "
                       "ORDER BY ts, start_page"),
            [(0, 10, 100, 100, 10), (20, 40, 100, 400, 20), (0, 5, 200, 300, 5),
             (20, 30, 500, 100, 10), (110, 111, 500, 100, 1)])
        self.assertEqual(self.query("SELECT ts, direction, start_byte, end_byte, size_bytes, path "
                                    "FROM page_residency_changes ORDER BY sample_id, direction, "
                                    "start_byte"),
                         [(200, "out", 5 * 4096, 10 * 4096, 5 * 4096, "/data/a"),
                          (500, "in", 110 * 4096, 111 * 4096, 4096, "/data/a"),
                          (500, "out", 0, 5 * 4096, 5 * 4096, "/data/a"),
                          (500, "out", 30 * 4096, 40 * 4096, 10 * 4096, "/data/a")])
        self.assertEqual(
            self.query("SELECT ts, dur, size_bytes, resident_bytes, resident_percent, dirty_bytes, "
                       "evicted_bytes FROM page_residency_over_time ORDER BY ts LIMIT 2"),
            [(100, 100, 409600, 122880, 30.0, 8192, 28672),
             (200, 100, 409600, 102400, 25.0, None, None)])
        self.assertEqual(
            self.query("SELECT path, device, inode, page_size_bytes, first_ts, gone_ts "
                       "FROM page_residency_file"), [("/data/a", 5, 6, 4096, 100, 600)])
        self.assertEqual(
            self.query("SELECT ts, dur, files, changed, missed FROM page_residency_round"),
            [(500, 77, 1, 1, 2), (700, 0, 0, 0, 0)])
        self.assertEqual(self.lost(), 0)

    def test_parts_make_one_list(self):
        self.convert(
            packet(100, FILE)
            + packet(100,
                     sample("pages: 100 resident_pages: 4 complete: true revision: 1 more: true "
                            + runs("resident_runs", (0, 1), (9, 1))))
            + packet(0, sample("complete: true revision: 1 part: 1 more: true first_page: 11 "
                               + runs("resident_runs", (9, 1))))
            + packet(0, sample("complete: true revision: 1 part: 2 first_page: 21 "
                               + runs("resident_runs", (9, 1))))
            + packet(200, sample("pages: 100 resident_pages: 2 revision: 2 more: true "
                                 + runs("changed_runs", (0, 1))))
            + packet(0,
                     sample("revision: 2 part: 1 first_page: 1 " + runs("changed_runs", (29, 1)))))
        self.assertEqual(self.samples(), [(100, "exact", [(0, 1), (10, 11), (20, 21), (30, 31)]),
                                          (200, "exact", [(10, 11), (20, 21)])])

    def test_lost_packets_never_lead_to_wrong_runs(self):
        base = (packet(100, FILE)
                + packet(100, sample("pages: 100 resident_pages: 10 complete: true revision: 1 "
                                     + runs("resident_runs", (0, 10)))))
        after = packet(
            300, sample("pages: 100 resident_pages: 8 revision: 3 " + runs("changed_runs", (8, 2))))
        again = packet(400, sample("pages: 100 resident_pages: 7 complete: true revision: 4 "
                                   + runs("resident_runs", (0, 7))))
        self.convert(base + after + again)  # revision 2 is missing
        self.assertEqual(self.samples(),
                         [(100, "exact", [(0, 10)]), (300, "counts", []), (400, "exact", [(0, 7)])])
        self.assertEqual(self.lost(), 1)

        first = packet(200,
                       sample("pages: 100 resident_pages: 3 complete: true revision: 2 more: true "
                              + runs("resident_runs", (0, 1))))
        last = packet(0, sample("complete: true revision: 2 part: 2 first_page: 50 "
                                + runs("resident_runs", (0, 1))))
        for broken in (first + last, first, last):  # a part is missing
            self.convert(base + broken + after + again)
            states = [s for s in self.samples() if s[1] == "exact"]
            self.assertEqual(states, [(100, "exact", [(0, 10)]), (400, "exact", [(0, 7)])])

        self.convert(after + again)  # never introduced
        self.assertEqual(self.samples(), [])
        self.assertEqual(self.lost(), 2)

    def test_damaged_runs_are_counts(self):
        for bad in (runs("resident_runs", (0, 0)), "resident_runs: 5",
                    runs("resident_runs", (0, 1 << 60)),
                    runs("resident_runs", ((1 << 64) - 1, 1)), "first_page: 18446744073709551615 "
                    + runs("resident_runs", (1, 1))):
            self.convert(packet(100, FILE) + packet(
                100, sample(f"pages: 9 resident_pages: 1 complete: true revision: 1 {bad}")))
            self.assertEqual(self.samples(), [(100, "counts", [])])

    def test_unknown_error_and_absurd_values(self):
        self.convert(
            packet(100, FILE) + packet(100, sample("pages: 5 unknown: true"))
            + packet(200, sample("error: 13"))
            + packet(300,
                     sample("pages: 18446744073709551615 resident_pages: 18446744073709551615 "
                            "counts_only: true"))
            # an equal id in another recording
            + packet(400, 'files { id: 1 path: "/other" device: 5 inode: 7 }')
            + packet(400, sample("pages: 1 resident_pages: 1 complete: true revision: 1 "
                                 + runs("resident_runs", (0, 1))))
            + packet(500, FILE, sequence=4)
            + packet(500, sample("pages: 2 resident_pages: 0 complete: true revision: 1"),
                     sequence=4))
        self.assertEqual([s[1] for s in self.samples()],
                         ["unknown", "error", "counts", "exact", "exact"])
        self.assertEqual(
            self.query("SELECT error FROM page_residency_sample WHERE detail = 'error'"), [(13,)])
        self.assertEqual(self.query(
            "SELECT resident_bytes FROM page_residency_sample WHERE ts = 300"), [(None,)])
        self.assertEqual(self.query("SELECT path FROM page_residency_file ORDER BY id"),
                         [("/data/a",), ("/other",), ("/data/a",)])
        self.assertEqual(
            self.query("SELECT resident_percent FROM page_residency_over_time WHERE ts >= 400"),
            [(100.0,), (0.0,)])


if __name__ == "__main__":
    unittest.main()
