# SPDX-License-Identifier: Apache-2.0
"""mmsql convert of perf maps beside traces: frames in anonymous memory take the maps' names."""
import unittest

import lib
from test_inputs import Case


def heap_trace(mappings, frames, pid=99):
    """Text of a heap profile: a stack per frame, each allocating 100 bytes."""
    lines = ["packet { clock_snapshot { clocks { clock_id: 6 timestamp: 1000 } "
             "clocks { clock_id: 1 timestamp: 5000 } clocks { clock_id: 4 timestamp: 1000 } } "
             "trusted_packet_sequence_id: 1 }",
             "packet { trusted_packet_sequence_id: 2 timestamp: 2000 sequence_flags: 1 "
             "interned_data {"]
    for index, (start, end, path) in enumerate(mappings, 1):
        lines.append(
            f"mapping_paths {{ iid: {index} str: '{path}' }} mappings {{ iid: {index} "
            f"start: {start} end: {end} path_string_ids: {index} }}")
    for index, (mapping, rel_pc, name) in enumerate(frames, 1):
        lines.append(
            f"function_names {{ iid: {index} str: '{name}' }} frames {{ iid: {index} "
            f"mapping_id: {mapping} rel_pc: {rel_pc} function_name_id: {index} }} "
            f"callstacks {{ iid: {index} frame_ids: {index} }}")
    lines.append("} }")
    samples = " ".join(f"samples {{ callstack_id: {i} self_allocated: 100 alloc_count: 1 }}"
                       for i in range(1, len(frames) + 1))
    lines.append(
        f"packet {{ trusted_packet_sequence_id: 2 timestamp: 3000 sequence_flags: 2 profile_packet "
        f"{{ process_dumps {{ pid: {pid} timestamp: 2500 heap_name: 'libc.malloc' {samples} }} }} "
        f"}}")
    return "\n".join(lines)


class PerfMapFrames(Case):
    def convert_text(self, text, *files, code=0):
        self.convert(self.write("heap.pftrace", lib.encode(text)), *files, code=code)

    def names(self):
        return dict(self.query("SELECT rel_pc, name FROM stack_profile_frame"))

    def test_frames_in_anonymous_memory_take_names(self):
        text = heap_trace([(0x10000, 0x20000, ""), (0x30000, 0x40000, "usr/lib/libx.so"),
                           (0x50000, 0x60000, "memfd:jit"),
                           (0x70000, 0x80000, "[anon:v8]")],
                          [(1, 0x100, ""), (1, 0x10f, ""), (1, 0x110, ""), (1, 0x200, "known"),
                           (2, 0x101, ""), (3, 0x10, ""),
                           (4, 0x700, "")])
        where = self.write("perf-99.map",
                           "10100 10 old\n30100 10 in_file\n50010 8 in_memfd\n70700 8 in_anon\n"
                           "10200 8 unused\n10100 10 new\n")
        self.convert_text(text, where)
        self.assertEqual(self.names(), {0x100: "new", 0x10f: "new", 0x110: "", 0x200: "known",
                                        0x101: "", 0x10: "in_memfd",
                                        0x700: "in_anon"})
        rows = self.query("SELECT f.rel_pc, s.name, p.first_ts FROM perf_map_frame p "
                          "JOIN stack_profile_frame f ON f.id = p.frame_id JOIN perf_map_symbol s "
                          "ON s.id = symbol_id ORDER BY 1")
        self.assertEqual(rows, [(0x10, "in_memfd", 2500), (0x100, "new", 2500),
                                (0x10f, "new", 2500), (0x200, "unused", 2500),
                                (0x700, "in_anon", 2500)])

    def test_a_file_and_code_at_one_address(self):
        """A library is unloaded and code is generated at its place: each keeps its own names."""
        text = heap_trace([(0x10000, 0x20000, "usr/lib/libx.so"), (0x10000, 0x20000, "")],
                          [(1, 0x100, ""), (1, 0x200, "of_libx"), (2, 0x100, ""), (2, 0x200, "")])
        self.convert_text(text, self.write("perf-99.map", "10100 10 made\n10200 10 made_too\n"))
        self.assertEqual(self.query("SELECT m.name, rel_pc, f.name FROM stack_profile_frame f "
                                    "JOIN stack_profile_mapping m ON m.id = f.mapping "
                                    "ORDER BY f.id"),
                         [("/usr/lib/libx.so", 0x100, ""), ("/usr/lib/libx.so", 0x200, "of_libx"),
                          ("/", 0x100, "made"), ("/", 0x200, "made_too")])

    def test_maps_of_other_processes_do_not_count(self):
        text = heap_trace([(0x10000, 0x20000, "")], [(1, 0x100, "")])
        self.convert_text(text, self.write("perf-98.map", "10100 10 other\n"))
        self.assertEqual(self.names(), {0x100: ""})

    def timed(self, name, map_text, times, seen_ms=1):
        """A trace with a map and the runtime's times. Dumps are at 2500 and 12500 ns, and samples
        of perf between them."""
        text = heap_trace([(0x10000, 0x20000, "")],
                          [(1, 0x100, ""), (1, 0x200, ""), (1, 0x300, "")])
        stacks = " ".join(f"samples {{ callstack_id: {i} self_allocated: 300 alloc_count: 3 }}"
                          for i in (1, 2, 3))
        text += ("\npacket { trusted_packet_sequence_id: 2 timestamp: 13000 sequence_flags: 2 "
                 "profile_packet { process_dumps { "
                 f"pid: 99 timestamp: 12500 heap_name: 'libc.malloc' {stacks} }} }} }}")
        for ts in (5000, 6000, 7000, 8000):
            text += (f"\npacket {{ trusted_packet_sequence_id: 2 timestamp: {ts} sequence_flags: 2 "
                     "perf_sample { pid: 99 tid: 99 callstack_iid: 1 } }")
        text += (f"\npacket {{ trusted_packet_sequence_id: 3 timestamp: {seen_ms * 1000000} "
                 f"perf_map {{ pid: 99 map_id: 1 offset: 0 path: '/tmp/perf-99.map' "
                 f"text: '{map_text}' times_offset: 0 times: '{times}' }} }}")
        self.convert_text(text)
        return [(rel, ts, function) for rel, ts, function in self.query(
            "SELECT rel_pc, ts, function FROM call_stack_frame JOIN stack_profile_frame f ON f.id "
            f"= frame_id WHERE kind = '{name}' ORDER BY 1, 2")]

    def test_reused_addresses_stay_apart_by_time(self):
        lines = r"10100 10 one\n10100 10 two\n10200 10 gone\n10300 10 stays\n"
        times = (r"0 10300 10\n1000 10100 10\n1000 10200 10\n2000 10200\n5500 10100\n6500 10100 "
                 r"10\n7500 10100\n")
        self.assertEqual(self.timed("linux.perf", lines, times),
                         [(0x100, 5000, "one"), (0x100, 6000, None), (0x100, 7000, "two"),
                          (0x100, 8000, None)])
        self.assertEqual(
            self.query("SELECT name, first_ts, last_ts FROM perf_map_symbol ORDER BY id"),
            [("one", 1000, 5500), ("two", 6500, 7500), ("gone", 1000, 2000), ("stays", None, None)])
        # A dump stands for the time since the dump before it.
        self.assertEqual(self.timed("heap profile", lines, times),
                         [(0x100, 2500, "one"), (0x100, 12500, "two"), (0x200, 2500, "gone"),
                          (0x200, 12500, None),
                          (0x300, 2500, "stays"), (0x300, 12500, "stays")])
        self.assertEqual(self.names(), {0x100: "", 0x200: "", 0x300: "stays"})
        self.assertEqual(dict(self.query(
            "SELECT function, allocated_bytes || ' ' || perf_samples FROM perf_map_function")),
                         {"one": "100 1", "two": "200 1", "gone": "100 0", "stays": "300 0"})
        folded = lib.run(lib.MMSQL, "flamegraph", "--folded", "--total", self.db).stdout
        self.assertEqual(set(folded.splitlines()), {"two 300", "gone 300", "stays 300"})

    def test_a_map_without_times_holds_for_samples_before_it_was_seen(self):
        lines = r"10100 10 old\n10100 10 new\n"
        self.assertEqual(self.timed("linux.perf", lines, ""),
                         [(0x100, ts, "new") for ts in (5000, 6000, 7000, 8000)])

    def test_times_beside_a_map(self):
        where = self.write("perf-99.map", "10100 10 old\n10100 10 new\n10200 8 gone\n")
        self.write("perf-99.map.times",
                   "100 10100 10\n200 10200 8\n900 10200\n2600 10100 10\nnoise\n")
        self.convert_text(heap_trace([(0x10000, 0x20000, "")], [(1, 0x100, ""), (1, 0x200, "")]),
                          where, code=1)
        self.assertEqual(
            self.query("SELECT name, first_ts, last_ts FROM perf_map_symbol ORDER BY id"),
            [("old", 100, None), ("new", 2600, None), ("gone", 200, 900)])
        self.assertEqual(self.names(), {0x100: "old", 0x200: "gone"})

    def test_overlaps(self):
        """The last symbol of the map wins, however the symbols overlap."""
        text = heap_trace([(0x10000, 0x20000, "")], [(1, at, "") for at in range(0, 0x60, 0x10)])
        self.convert_text(text,
                          self.write("perf-99.map",
                                     "10000 50 all\n10010 20 inner\n10000 8 first\n10028 20 "
                                     "late\n"))
        self.assertEqual(self.names(), {0: "first", 0x10: "inner", 0x20: "inner", 0x30: "late",
                                        0x40: "late", 0x50: ""})


if __name__ == "__main__":
    unittest.main()
