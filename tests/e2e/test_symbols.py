# SPDX-License-Identifier: Apache-2.0
"""Symbols of frames from real ELF files: by build id, by path, stripped, with inlined functions,
and wrong symbols."""
import csv
import gzip
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import damaged_dwarf
import lib

SOURCE = r"""
volatile int sink;
static inline __attribute__((always_inline)) void leaf(int x) { sink = x * 3; }
namespace app { struct Cache { __attribute__((noinline)) void grow(int n); }; }
void app::Cache::grow(int n) {
    sink = 1;
    leaf(n);
}
extern "C" void plain(int n) { app::Cache c; c.grow(n); sink = n; }
"""
INLINED_LINE = 3  # of leaf()'s body
SHELL = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")
IN_ORDER = ("SELECT f.rel_pc, s.name, s.source_file, s.line_number FROM stack_profile_frame f "
            "JOIN stack_profile_symbol s ON s.symbol_set_id = f.symbol_set_id "
            "ORDER BY f.rel_pc, s.id")


@unittest.skipUnless(lib.has_libdw(), "mmsql is built without libdw")
@lib.needs_program("g++", "objcopy")
class Symbols(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="symbols-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        (self.dir / "app.cc").write_text(SOURCE)
        self.lib = self.dir / "build" / "libapp.so"
        self.lib.parent.mkdir()
        self.tool("g++", "-g", "-O2", "-shared", "-fPIC", "-Wl,--build-id", "-o", self.lib,
                  self.dir / "app.cc")
        self.build_id = re.search(r"Build ID: (\w+)", self.tool("readelf", "-n", self.lib))[1]
        self.addresses = {name: int(at, 16) for at, name in
                          re.findall(r"^(\w+) \w (\w+)$", self.tool("nm", self.lib), re.M)}
        self.whole = self.dir / "whole.so"  # never changes
        shutil.copy(self.lib, self.whole)
        self.db = self.dir / "out.db"

    def tool(self, *argv):
        return subprocess.run([str(a) for a in argv], check=True, capture_output=True,
                              text=True).stdout

    def convert(self, *options, build_id=None, path="data/app/libapp.so", names=("", "", ""),
                code=0):
        """Converts a heap profile with frames in plain(), in grow(), and in the body of leaf() that
        is inlined in grow()."""
        grow = self.addresses["_ZN3app5Cache4growEi"]
        inlined = grow
        for at in range(grow, grow + 64):
            where = self.tool("addr2line", "-i", "-e", self.whole, hex(at)).split()
            if len(where) == 2 and where[0].endswith(f":{INLINED_LINE}"):
                inlined = at
                break
        pcs = (self.addresses["plain"], grow, inlined)
        octets = "".join(f"\\x{octet:02x}" for octet
                         in bytes.fromhex(self.build_id if build_id is None else build_id))
        frames = " ".join(
            f"function_names {{ iid: {i} str: '{name}' }} frames {{ iid: {i} mapping_id: 1 "
            f"rel_pc: {pc} function_name_id: {i} }} callstacks {{ iid: {i} frame_ids: {i} }}"
            for i, (pc, name) in enumerate(zip(pcs, names), 1))
        text = ("packet { clock_snapshot { clocks { clock_id: 6 timestamp: 1 } "
                "clocks { clock_id: 4 timestamp: 1 } } }\n"
                "packet { trusted_packet_sequence_id: 2 timestamp: 2000 sequence_flags: 1 "
                "interned_data { "
                f"mapping_paths {{ iid: 1 str: '{path}' }} build_ids {{ iid: 1 str: '{octets}' }} "
                f"mappings {{ iid: 1 build_id: 1 start: 4096 end: 1048576 path_string_ids: 1 }} "
                f"{frames} }} }}\n"
                "packet { trusted_packet_sequence_id: 2 timestamp: 3000 sequence_flags: 2 "
                "profile_packet { process_dumps { pid: 9 timestamp: 2500 "
                + " ".join(f"samples {{ callstack_id: {i} self_allocated: 8 alloc_count: 1 }}"
                           for i in (1, 2, 3))
                + " } } }\n")
        (self.dir / "trace").write_bytes(lib.encode(text))
        done = lib.run(lib.MMSQL, "convert", "-q", *options, self.dir / "trace", "-o", self.db)
        self.assertEqual(done.returncode, code, done.stderr)
        return pcs

    def query(self, sql):
        with sqlite3.connect(f"file:{self.db}?mode=ro", uri=True) as handle:
            return handle.execute(sql).fetchall()

    def names(self):
        return [name for (name,) in self.query("SELECT name FROM stack_profile_frame ORDER BY id")]

    def demangled(self, name):
        """A C++ name as this build of mmsql prints it."""
        has = lib.run(lib.MMSQL, "query", "--csv", self.db, "SELECT demangle('_Z1fv')").stdout
        readable = {"_ZN3app5Cache4growEi": "app::Cache::grow(int)"}[name]
        return readable if "f()" in has else name

    def test_by_name_in_a_folder(self):
        self.convert("--symbol-path", self.lib.parent)
        grow = self.demangled("_ZN3app5Cache4growEi")
        self.assertEqual(self.names(), ["plain", grow, grow])
        rows = self.query(
            "SELECT f.rel_pc, s.name, s.line_number, s.inlined, s.source_file "
            "FROM stack_profile_frame f JOIN stack_profile_symbol s USING (symbol_set_id) "
            "ORDER BY f.id, s.id")
        self.assertTrue(all(source.endswith("app.cc") for *_, source in rows))
        self.assertEqual([(name, line, inlined) for _, name, line, inlined, _ in rows[-2:]],
                         [("leaf", INLINED_LINE, 1), (grow, 7, 0)])
        self.assertEqual(self.query("SELECT function, source FROM stack_frame WHERE frame_id = 0"),
                         [("plain", "symbols")])
        inlined = (
            "SELECT inline_depth, function, line_number FROM stack_frame WHERE frame_id = 2 "
            "ORDER BY 1")
        self.assertEqual(self.query(inlined), [(0, "leaf", INLINED_LINE), (1, grow, 7)])
        stack = ("SELECT depth, function FROM call_stack_frame WHERE sample_id = "
                 "(SELECT max(sample_id) FROM call_stack_frame) ORDER BY 1")
        self.assertEqual(self.query(stack), [(0, "leaf"), (1, grow)])
        grown = "SELECT self_bytes, growth_bytes FROM heap_growth WHERE function = 'leaf'"
        self.assertEqual(self.query(grown), [(8, 8)])
        folded = lib.run(lib.MMSQL, "flamegraph", "--folded", self.db)
        self.assertIn(f"{grow};leaf 8", folded.stdout.splitlines())

    def test_by_path_below_a_folder(self):
        target = self.dir / "root" / "data" / "app" / "libapp.so"
        target.parent.mkdir(parents=True)
        shutil.move(self.lib, target)
        self.lib = target
        self.convert("--symbol-path", self.dir / "root")
        self.assertEqual(self.names()[0], "plain")

    def test_by_build_id(self):
        target = self.dir / "debug" / ".build-id" / self.build_id[:2] / f"{self.build_id[2:]}.debug"
        target.parent.mkdir(parents=True)
        self.tool("objcopy", "--only-keep-debug", self.lib, target)
        self.convert("--symbol-path", self.dir / "debug", path="somewhere/else.so")
        self.assertEqual(self.names()[0], "plain")

    def test_stripped_file_with_debug_data_apart(self):
        debug = self.dir / "debug" / ".build-id" / self.build_id[:2] / f"{self.build_id[2:]}.debug"
        debug.parent.mkdir(parents=True)
        self.tool("objcopy", "--only-keep-debug", self.lib, debug)
        stripped = self.dir / "stripped" / "libapp.so"
        stripped.parent.mkdir()
        self.tool("strip", "-o", stripped, self.lib)
        self.convert("--symbol-path", stripped.parent, "--symbol-path", self.dir / "debug")
        self.assertTrue(self.query("SELECT 1 FROM stack_profile_symbol WHERE inlined"))

    def test_where_it_was_mapped(self):
        self.convert("--symbols", path=str(self.lib)[1:])
        self.assertEqual(self.names()[0], "plain")

    def test_not_without_being_asked(self):
        self.convert(path=str(self.lib)[1:])
        self.assertEqual(self.names(), ["", "", ""])

    def test_another_build_is_not_believed(self):
        self.convert("--symbol-path", self.lib.parent, build_id="00" * 20)
        self.assertEqual(self.query("SELECT count(*) FROM stack_profile_symbol"), [(0,)])

    def test_without_build_id_only_in_the_folders(self):
        self.convert("--symbols", build_id="", path=str(self.lib)[1:])
        self.assertEqual(self.names()[0], "")
        self.convert("--symbol-path", self.lib.parent, build_id="")
        self.assertEqual(self.names()[0], "plain")

    def test_recorded_names_stay(self):
        self.convert("--symbol-path", self.lib.parent, names=("mine", "", ""))
        self.assertEqual(self.names()[0], "mine")
        self.assertEqual(self.query("SELECT function FROM stack_frame WHERE frame_id = 0"),
                         [("plain",)])

    def test_damaged_files(self):
        whole = self.lib.read_bytes()
        broken = self.dir / "broken"
        broken.mkdir()
        for at in range(0, len(whole), max(1, len(whole) // 60)):
            bad = bytearray(whole)
            bad[at:at + 8] = os.urandom(8)
            (broken / "libapp.so").write_bytes(bad)
            self.convert("--symbol-path", broken)
        for size in (0, 3, 64, 200, len(whole) // 2):
            (broken / "libapp.so").write_bytes(whole[:size])
            self.convert("--symbol-path", broken)

    def test_debug_data_without_end(self):
        """Each namespace is a sibling of its own parent; many units share a long list of ranges."""
        broken = self.dir / "without_end"
        broken.mkdir()
        for name, text in (("namespaces", damaged_dwarf.nested_namespaces(60)),
                           ("ranges", damaged_dwarf.ranges(1000, 10000))):
            with self.subTest(name):
                source = broken / f"{name}.s"
                source.write_text(text)
                self.tool("gcc", "-shared", "-nostdlib", f"-Wl,--build-id=0x{self.build_id}",
                          source, "-o", broken / "libapp.so")
                self.convert("--symbol-path", broken)
                self.assertEqual(self.query("SELECT count(*) FROM stack_profile_frame"), [(3,)])

    def test_paths_do_not_lead_out(self):
        self.convert("--symbol-path", self.lib.parent / "none", path="../../build/libapp.so",
                     build_id="")
        self.assertEqual(self.names()[0], "")

    def apart(self):
        """Moves the debug data of the library into a file that the library names; returns the
        file."""
        debug = self.lib.parent / "libapp.debug"
        self.tool("objcopy", "--only-keep-debug", self.lib, debug)
        self.tool("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", self.lib)
        return debug

    def test_debug_data_that_the_file_names(self):
        debug = self.apart()
        for place in (debug, debug.parent / ".debug" / debug.name):
            place.parent.mkdir(exist_ok=True)
            os.replace(debug, place)
            debug = place
            self.convert("--symbols", path=str(self.lib)[1:])
            self.assertEqual(self.query("SELECT count(*) FROM stack_profile_symbol WHERE inlined"),
                             [(1,)], place)
        # debug data of another file
        debug.write_bytes(debug.read_bytes().replace(bytes.fromhex(self.build_id), bytes(20)))
        self.convert("--symbols", path=str(self.lib)[1:])
        self.assertEqual(self.query("SELECT count(*) FROM stack_profile_symbol WHERE inlined"),
                         [(0,)])

    def test_nobody_waits_at_a_fifo(self):
        """The trace names the first FIFO, and the mapped file names the second."""
        named = self.dir / "named"
        os.mkfifo(named)
        self.convert("--symbols", path=str(named)[1:])
        self.assertEqual(self.names(), ["", "", ""])
        debug = self.apart()
        debug.unlink()
        os.mkfifo(debug)
        self.convert("--symbols", path=str(self.lib)[1:])
        self.assertEqual(self.query("SELECT count(*) FROM stack_profile_symbol WHERE inlined"),
                         [(0,)])

    def test_nobody_waits_at_a_fifo_that_debug_data_share(self):
        fifo, section = self.dir / "shared", self.dir / "section"
        os.mkfifo(fifo)
        section.write_bytes(bytes(fifo) + b"\0" + b"\1" * 20)
        self.tool("objcopy", f"--add-section=.gnu_debugaltlink={section}", self.lib)
        self.convert("--symbols", path=str(self.lib)[1:])
        self.assertEqual(self.query("SELECT count(*) FROM stack_profile_symbol WHERE inlined"),
                         [(1,)])

    def test_a_packed_file_is_not_unpacked(self):
        packed = self.lib.parent / "packed"
        packed.write_bytes(gzip.compress(self.lib.read_bytes()))
        self.convert("--symbols", path=str(packed)[1:])
        self.assertEqual(self.names(), ["", "", ""])

    def symbolize(self, *options, path="trace", output="out", code=0):
        done = lib.run(lib.MMSQL, "symbolize", "--symbol-path", self.lib.parent, *options,
                       self.dir / path, "-o", self.dir / output)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_a_copy_of_the_trace_has_what_a_conversion_finds(self):
        self.convert("--symbol-path", self.lib.parent)
        wanted = self.query(IN_ORDER)
        self.assertEqual(len(wanted), 4)
        self.symbolize()
        trace, copy = ((self.dir / name).read_bytes() for name in ("trace", "out"))
        self.assertTrue(copy.startswith(trace))
        lib.run(lib.MMSQL, "convert", "-q", self.dir / "out", "-o", self.db)
        self.assertEqual(self.query(IN_ORDER), wanted)
        if SHELL:
            (self.dir / "q").write_text(IN_ORDER)
            rows = csv.reader(self.tool(SHELL, "-q", self.dir / "q", self.dir / "out").splitlines())
            self.assertEqual([*rows][1:], [[str(cell) for cell in row] for row in wanted])

    def test_a_trace_gets_symbols_alone(self):
        self.convert("--symbol-path", self.lib.parent)
        self.symbolize(output="copy")
        packed = self.dir / "trace.gz"
        packed.write_bytes(gzip.compress((self.dir / "trace").read_bytes()))
        self.assertIn("not a plain trace", self.symbolize(path="trace.gz", code=1))
        self.symbolize("--symbols-only", path="trace.gz")
        self.assertEqual((self.dir / "trace").read_bytes() + (self.dir / "out").read_bytes(),
                         (self.dir / "copy").read_bytes())

    def test_a_part_of_a_packet_at_the_end(self):
        """The new packets would become the rest of it."""
        self.convert("--symbol-path", self.lib.parent)
        self.symbolize(output="copy")
        whole, symbols = (self.dir / "trace").read_bytes(), (self.dir / "copy").read_bytes()
        symbols = symbols[len(whole):]
        part = b"\x0a\xe8\x07torn"
        for n in range(1, len(part) + 1):
            (self.dir / "trace").write_bytes(whole + part[:n])
            self.assertIn(f"the copy leaves out {n} bytes", self.symbolize())
            self.assertEqual((self.dir / "out").read_bytes(), whole + symbols)
            self.assertIn("the last packet is not whole", self.symbolize("--symbols-only", code=1))

    def test_the_copy_does_not_grow_the_trace(self):
        self.convert("--symbol-path", self.lib.parent)
        with open(self.dir / "trace", "ab") as trace:
            for options in ((), ("--symbols-only",)):
                done = subprocess.run([lib.MMSQL, "symbolize", *options, "--symbol-path",
                                       self.lib.parent, self.dir / "trace", "-o", "-"],
                                      stdout=trace, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(done.returncode, 0 if options else 1, done.stderr)
        self.symbolize(output="copy")  # of a trace that has the packets now

    def test_no_copy_is_written_without_symbols(self):
        self.convert("--symbol-path", self.lib.parent, build_id="00" * 20)
        (self.dir / "out").write_text("old")
        self.assertIn("no symbols were found", self.symbolize(code=1))
        self.assertEqual((self.dir / "out").read_text(), "old")
        self.assertIn("would replace the input", self.symbolize(output="trace", code=1))


if __name__ == "__main__":
    unittest.main()
