# SPDX-License-Identifier: Apache-2.0
"""experimental_flamegraph: flame graphs of heap profiles, CPU samples, heap graphs; and the profile
for Firefox."""
import csv
import io
import json
import pathlib
import shutil
import tempfile
import unittest

import lib
from test_library_system import HEAP, packet

CLOCKS = packet("clock_snapshot { " + " ".join(
    f"clocks {{ clock_id: {i} timestamp: 1000 }}" for i in (1, 3, 4, 6)) + " }")
# leaf is called by main twice, once through an inlined function; cold has no weight.
STACKS = packet("""sequence_flags: 1 interned_data {
    mapping_paths { iid: 1 str: "lib" } mappings { iid: 1 path_string_ids: 1 }
    function_names { iid: 1 str: "main" } function_names { iid: 2 str: "leaf" }
      function_names { iid: 3 str: "cold" }
    frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: 16 }
      frames { iid: 2 function_name_id: 2 mapping_id: 1 rel_pc: 32 }
      frames { iid: 3 function_name_id: 2 mapping_id: 1 rel_pc: 48 }
      frames { iid: 4 function_name_id: 3 mapping_id: 1 rel_pc: 64 }
    callstacks { iid: 1 frame_ids: 1 frame_ids: 2 } callstacks { iid: 2 frame_ids: 1 frame_ids: 3 }
      callstacks { iid: 3 frame_ids: 4 } }""", 7)
SYMBOLS = packet("""module_symbols { path: "/lib" build_id: "" address_symbols { address: 48
    lines { function_name: "in" source_file_name: "in.c" line_number: 7 }
    lines { function_name: "leaf" source_file_name: "leaf.c" line_number: 9 } } }""", 7)
NATIVE = packet("""timestamp: 5000 profile_packet { index: 0 process_dumps { pid: 100
    timestamp: 5000
    samples { callstack_id: 1 self_allocated: 60 self_freed: 20 alloc_count: 3 free_count: 1 }
    samples { callstack_id: 2 self_allocated: 9 alloc_count: 1 } } }""", 7)
PERF = "".join(packet(f"timestamp: {ts} perf_sample {{ cpu: 0 pid: {pid} tid: {pid} "
                      f"callstack_iid: {stack} }}", 7)
               for ts, pid, stack in ((6000, 100, 1), (7000, 100, 1), (8000, 100, 2), (9000, 7, 3)))


class Flamegraph(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="flames-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "trace"
        self.trace.write_bytes(lib.encode(CLOCKS + HEAP + STACKS + NATIVE + PERF + SYMBOLS))

    def ask(self, arguments, columns, code=0):
        upid = "(SELECT upid FROM process WHERE pid = 100)"
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", self.trace,
                       f"SELECT {columns} FROM experimental_flamegraph("
                       f"{arguments.replace('UPID', upid)})")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else [
            ",".join(row) for row in csv.reader(io.StringIO(done.stdout))][1:]

    def test_heap_profile(self):
        columns = ("id, parent_id, depth, name, map_name, size, cumulative_size, count, "
                   "cumulative_count, alloc_size, cumulative_alloc_count, source_file, line_number")
        self.assertEqual(self.ask("'native', 5000, NULL, UPID, NULL, NULL", columns), [
            "0,,0,main,/lib,0,49,0,3,0,4,,", "1,0,1,leaf,/lib,40,49,2,3,60,4,,",
            "2,1,2,in,/lib,9,9,1,1,9,1,in.c,7", "3,,0,cold,/lib,0,0,0,0,0,0,,"])
        self.assertEqual(
            self.ask("'native', 5000, NULL, UPID, NULL, 'IN'", "name, parent_id, cumulative_size"),
            ["main,,49", "leaf,0,49", "in,1,9"], "main has the letters, too")
        self.assertEqual(
            self.ask("'native', 5000, NULL, UPID, NULL, 'cold'", "name, ts, profile_type"),
            ["cold,5000,native"])

    def test_samples(self):
        columns = "ts, name, size, cumulative_count, upid, upid_group"
        self.assertEqual(self.ask("'perf', NULL, '>=6000,<8000', UPID, NULL, 'leaf'", columns), [
            "6000,main,0,2,1,", "7000,leaf,2,2,1,", "6000,in,0,0,1,"])
        self.assertEqual(self.ask("'perf', NULL, '>6000', NULL, '5,1', NULL", columns), [
            "6001,main,0,2,,5,1", "7000,leaf,1,2,,5,1", "8000,in,1,1,,5,1",
            "6001,cold,0,0,,5,1"])

    def test_heap_graph(self):
        self.assertEqual(
            self.ask("'graph', 5000, NULL, UPID, NULL, NULL",
                     "id, parent_id, depth, name, map_name, count, size, cumulative_size"),
            ["0,,0,A [ROOT_JNI_GLOBAL],JAVA,1,100,160", "1,0,1,A,JAVA,1,10,40",
             "2,0,1,B,JAVA,1,20,20", "3,1,2,B,JAVA,1,30,30"])

    def test_rows_of_a_heap_graph_are_in_the_order_of_its_objects(self):
        self.trace.write_bytes(lib.encode(CLOCKS + packet("""timestamp: 5000 heap_graph { pid: 100
            roots { root_type: ROOT_JNI_GLOBAL object_ids: 1 object_ids: 3 }
            objects { id: 1 type_id: 1 self_size: 100 reference_object_id: 2 }
            objects { id: 2 type_id: 2 self_size: 10 }
            objects { id: 3 type_id: 2 self_size: 20 }
            types { id: 1 class_name: "A" } types { id: 2 class_name: "B" } }""", 5)))
        self.assertEqual(
            self.ask("'graph', 5000, NULL, UPID, NULL, NULL",
                     "id, parent_id, depth, name, cumulative_size"),
            ["0,,0,A [ROOT_JNI_GLOBAL],110", "1,0,1,B,10", "2,,0,B [ROOT_JNI_GLOBAL],20"])

    def test_firefox_profile(self):
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", self.trace,
                       "INCLUDE PERFETTO MODULE export.to_firefox_profile; "
                       "SELECT hex(export_to_firefox_profile()) AS h")
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = json.loads(bytes.fromhex(done.stdout.splitlines()[1]))
        self.assertEqual(profile["meta"]["preprocessedProfileVersion"], 48)
        thread = next(t for t in profile["threads"] if t["pid"] == 100)
        stacks, frames = thread["stackTable"], thread["frameTable"]
        names = thread["stringArray"]
        self.assertEqual(thread["funcTable"]["name"], list(range(len(names))))

        def stack(at):
            name = names[frames["func"][stacks["frame"][at]]]
            prefix = stacks["prefix"][at]
            return name if prefix is None else stack(prefix) + ";" + name

        samples = thread["samples"]
        self.assertEqual(list(zip(samples["time"], map(stack, samples["stack"]))),
                         [(6000, "main;leaf"), (7000, "main;leaf"), (8000, "main;leaf;in")])
        for table in (stacks, frames, samples, thread["funcTable"]):
            self.assertEqual({len(v) for v in table.values() if isinstance(v, list)},
                             {table["length"]})

    def test_errors(self):
        for arguments, why in (
                ("'heap', 1, NULL, UPID, NULL, NULL", "native, perf or graph, not heap"),
                ("'perf', NULL, NULL, UPID, NULL, NULL", "one of ts and the time constraints"),
                ("'perf', 1, NULL, NULL, NULL, NULL", "one of upid and the group"),
                ("'graph', NULL, '>1', UPID, NULL, NULL", "graph needs ts and upid"),
                ("'graph', 1, NULL, UPID, NULL, NULL", "no heap graph of that time"),
                ("'native', 1, NULL, UPID, NULL, NULL", "no heap profile before"),
                ("'perf', NULL, '!5', UPID, NULL, NULL", "begins with"),
                ("'perf', NULL, '>x', UPID, NULL, NULL", "ends with a number"),
                ("'perf', NULL, '>1,>1,>1,>1,>1,>1,>1,>1,>1', UPID, NULL, NULL", "too many"),
                ("'perf', 'x', NULL, UPID, NULL, NULL", "the arguments are")):
            self.assertIn(why, self.ask(arguments, "1", code=1), arguments)


if __name__ == "__main__":
    unittest.main()
