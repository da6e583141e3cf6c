# SPDX-License-Identifier: Apache-2.0
"""The converter on traces of a few megabytes in which small packets refer to large data again and
again.

The data that packets refer to must not be read, searched or written anew for each packet: time and
size of the database grow with the trace, not with its square.
"""
import resource
import unittest

import faults_verbs
import lib
from test_hostile import START, Converted, number, packet, text, varint

CPU_MAX_S = 15  # sanitizers are slow; without bounds these traces take more, mostly minutes
PERF_SAMPLE, PROFILE, RENDER_STAGE, SYMBOLS, DEOBFUSCATION = 66, 37, 53, 61, 64
FUNCTION_NAMES, FRAMES, CALLSTACKS, PATHS, MAPPINGS = 5, 6, 7, 17, 19


def state(body, **more):
    """A packet of interned data or defaults."""
    return packet(12, body, **more)


def frame(iid, name=1, mapping=1, address=8):
    return text(FRAMES, number(1, iid) + number(2, name) + number(3, mapping) + number(4, address))


def ids(field, values):
    return text(field, b"".join(varint(value) for value in values))


MAPPING = text(PATHS, number(1, 1)
               + text(2, b"lib")) + text(MAPPINGS, number(1, 1) + number(5, 4096) + number(7, 1))
NAME = text(FUNCTION_NAMES, number(1, 1) + text(2, b"f"))


class Growth(Converted):
    def convert(self, trace, size_max=64 << 20, code=0):
        path = self.dir / "trace"
        path.write_bytes(START + trace)
        done = lib.run("prlimit", f"--cpu={CPU_MAX_S}", lib.MMSQL, "convert", "-q", path, "-o",
                       self.db, timeout_s=120)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertLess(self.db.stat().st_size, size_max)

    @staticmethod
    def samples(n, callstack, first_ts=2000):
        sample = number(2, 5) + number(3, 5) + number(4, callstack)
        return b"".join(packet(PERF_SAMPLE, number(1, 0) + sample, ts=first_ts + i)
                        for i in range(n))

    def test_a_long_name_of_many_events(self):
        """A long text is written up to a limit, and then the loss is counted; short texts are
        always written."""
        n = 10000
        names = text(2, number(1, 1)
                     + text(2, b"x" * 2**20)) + text(2, number(1, 2) + text(2, b"short"))
        event = number(9, 3) + number(11, 1)
        self.convert(state(names) + packet(60, number(1, 1) + text(2, b"t")) +
                     b"".join(packet(11, event + number(10, 1 + i % 2), ts=2000 + i)
                              for i in range(2 * n)),
                     size_max=600 << 20)
        named = self.query("SELECT count(*) FROM slice WHERE length(name) = 1048576")[0][0]
        self.assertGreater(named, 0)
        self.assertEqual(self.stat("mmsql_interned_data_withheld"), n - named)
        self.assertEqual(self.query("SELECT count(*) FROM slice WHERE name = 'short'"), [(n,)])

    def test_a_long_name_of_a_track(self):
        n = 20000
        begin, end = number(9, 1) + number(11, 1) + text(23, b"e"), number(9, 2) + number(11, 1)
        self.convert(packet(60, number(1, 1) + text(2, "ä".encode() * 2**20)) +
                     b"".join(packet(11, end if i % 2 else begin, ts=2000 + i)
                              for i in range(2 * n)))
        self.assertEqual(self.query("SELECT count(*), min(dur) FROM slice"), [(n, 1)])
        self.assertEqual(self.query(
            "SELECT DISTINCT t.name FROM slice JOIN track t ON t.id = track_id"), [("ä" * 2048,)])

    def test_long_names_in_stages_of_gpus(self):
        n = 20000
        name = text(1, b"x" * 2**20) + text(2, b"y" * 2**20)
        stage = number(2, 1) + number(3, 0) + number(4, 0) + number(8, 7)
        self.convert(packet(65, text(1, number(3, 24) + number(4, 7) + text(5, b"z" * 2**20))) +
                     packet(RENDER_STAGE, text(7, text(2, name) + text(3, name))) +
                     b"".join(packet(RENDER_STAGE, number(1, i) + stage, ts=2000 + i)
                              for i in range(n)),
                     size_max=256 << 20)
        self.assertEqual(self.query("SELECT count(*), max(length(name)) FROM slice"), [(n, 4096)])
        self.assertEqual(self.query("SELECT max(length(string_value)) FROM args"), [(4096,)])

    def test_defaults_that_are_long(self):
        event = number(9, 3) + number(11, 1) + text(23, b"e")
        self.convert(packet(59, number(99, 1) * 500000) + packet(60, number(1, 1) + text(2, b"t")) +
                     b"".join(packet(11, event, ts=2000 + i) for i in range(50000)), code=1)
        self.assertEqual(self.query("SELECT count(*) FROM slice"), [(50000,)])
        self.assertEqual(self.stat("mmsql_packets_damaged"), 1)

    def test_code_of_one_long_function(self):
        """A script of V8 is read once, however much code refers to it."""
        n = 20000
        isolate = text(35,
                       number(1, 1) + number(2, 7) + text(4, number(1, 4096) + number(2, 1 << 40)))
        script = text(33, number(1, 1) + text(5, text(1, b"s" * 2**20)) + number(99, 1) * 300000)
        name = text(31, number(1, 1) + text(2, b"n" * 2**20))
        function = text(32, number(1, 1) + number(2, 1) + number(3, 1) + number(99, 1) * 300000)
        code = number(1, 1) + number(2, 7) + number(3, 1) + number(4, 5) + number(6, 16)
        self.convert(state(isolate + script + name + function) +
                     b"".join(packet(99, code + number(5, 4096 + 16 * i), ts=2000 + i)
                              for i in range(n)),
                     size_max=512 << 20)
        self.assertEqual(self.query("SELECT count(*), max(length(function_name)) FROM jit_code"),
                         [(n, 4096)])
        self.assertEqual(self.query("SELECT length(source) FROM v8_js_script"), [(2**20,)])
        self.assertEqual(self.query("SELECT length(name) FROM v8_js_function"), [(2**20,)])

    def test_code_of_a_long_function_that_lacks_its_script(self):
        n = 20000
        isolate = text(35,
                       number(1, 1) + number(2, 7) + text(4, number(1, 4096) + number(2, 1 << 40)))
        function = text(32, number(1, 1) + number(2, 1) + number(3, 1) + number(99, 1) * 300000)
        code = number(1, 1) + number(2, 7) + number(3, 1) + number(4, 5) + number(5, 4096) + number(
            6, 16)
        self.convert(state(isolate + function)
                     + b"".join(packet(99, code, ts=2000 + i) for i in range(n)))
        self.assertEqual(self.stat("v8_intern_errors"), n)

    def test_a_long_name_of_the_recorders_work(self):
        n = 20000
        self.convert(packet(49, text(10, number(1, 1) + text(2, b"x" * 2**20))) +
                     b"".join(packet(49, number(11, 1) + number(5, 7), ts=2000 + i)
                              for i in range(n)),
                     size_max=256 << 20)
        self.assertEqual(self.query("SELECT count(*) FROM slice"), [(n,)])
        self.assertGreater(self.stat("mmsql_interned_data_withheld"), n - 100)

    def test_long_keys_of_the_recorders_work(self):
        """Each element of an array has a key of its own. Elements beyond a limit are left out and
        counted."""
        n = 100000
        names = text(10, number(1, 1)
                     + text(2, b"k" * 4000)) + text(10, number(1, 2) + text(2, b"short"))
        few = text(7, number(3, 2) + text(2, b"a")) + text(7, number(3, 2) + text(2, b"b"))
        many = text(7, number(3, 1) + number(4, 2)) * n
        self.convert(packet(49, names) + packet(49, text(8, b"many") + many, ts=2000) +
                     packet(49, text(8, b"few") + few, ts=2001), size_max=8 << 20)
        self.assertEqual(
            self.query("SELECT key, string_value FROM args WHERE flat_key = 'short' ORDER BY key"),
            [("short[0]", "a"), ("short[1]", "b")])
        self.assertEqual(self.stat("mmsql_interned_data_withheld"), 1)

    def test_long_texts_of_a_modem(self):
        n = 20000
        texts = (b"TOKENS\0\0" + b"\1\0\0\0" + bytes(4) + b"\1\0\0\0\xff\xff\xff\xff"
                 + b"%31d" * 2**18 + b"\0")
        event = text(1, b"\1\0\0\0" + b"\2" * 60) + number(2, 5000)
        self.convert(packet(111, text(1, texts)) + packet(110, event * n), size_max=512 << 20)
        self.assertEqual(self.query("SELECT count(*) FROM slice"), [(n,)])

    def test_a_path_of_many_parts(self):
        path = ids(7, [2] * 60000)
        n = 40000
        interned = (text(PATHS, number(1, 2) + text(2, b"")) + text(MAPPINGS, number(1, 1) + path)
                    + NAME +
                    b"".join(frame(i, address=i) for i in range(1, n)) +
                    text(CALLSTACKS, number(1, 1) + ids(2, range(1, n))))
        self.convert(state(interned) + self.samples(1, 1))
        self.assertEqual(self.query("SELECT count(*) FROM stack_profile_frame"), [(n - 1,)])
        self.assertLessEqual(
            self.query("SELECT max(length(name)) FROM stack_profile_mapping")[0][0], 4096)

    def test_long_callstacks_that_lack_a_frame(self):
        """Each use is counted; later entries are found, and earlier entries are not read again."""
        n, depth = 20000, 300000
        stack = text(CALLSTACKS, number(1, 1) + ids(2, [1] * depth + [2, 1]))
        self.convert(state(MAPPING + NAME + frame(1) + stack) + self.samples(n, 1))
        self.assertEqual(self.stat("stackprofile_invalid_frame_id"), n)
        self.assertEqual(self.query("SELECT count(*) FROM perf_sample WHERE callsite_id IS NULL"),
                         [(n,)])

    def test_long_callstacks_of_two_sequences_by_turns(self):
        n, depth = 20000, 100000
        stack = state(MAPPING + NAME + frame(1) + text(CALLSTACKS,
                                                       number(1, 1) + ids(2, [1] * depth)))
        sample = text(PERF_SAMPLE, number(1, 0) + number(2, 5) + number(3, 5) + number(4, 1))

        def of(sequence, body, ts):
            return text(1, number(8, ts) + number(10, sequence) + body)

        other = of(2, number(13, 1) + text(12, MAPPING + NAME + frame(1) +
                                           text(CALLSTACKS, number(1, 1) + ids(2, [1] * depth))),
                   1001)
        self.convert(stack + other + b"".join(of(1 + i % 2, sample, 2000 + i) for i in range(n)))
        self.assertEqual(
            self.query("SELECT count(*), count(DISTINCT callsite_id) FROM perf_sample"), [(n, 1)])

    def test_long_callstacks_in_profile_packets(self):
        n, depth = 20000, 100000
        interned = (text(1, number(1, 1) + text(2, b"f")) + text(4, number(1, 1) + number(5, 4096))
                    +
                    text(2, number(1, 1) + number(2, 1) + number(3, 1) + number(4, 8)) +
                    text(3, number(1, 1) + ids(2, [1] * depth)))
        sample = text(2, number(1, 1) + number(2, 10) + number(5, 1))
        self.convert(packet(PROFILE, interned + text(5, number(1, 5) + sample * n)))
        self.assertEqual(self.query("SELECT count, size FROM heap_profile_allocation"),
                         [(n, 10 * n)])

    def test_stages_that_all_run_at_once(self):
        n = 300000
        self.convert(b"".join(packet(RENDER_STAGE, number(1, i) + number(2, 10**9) + number(3, 0),
                                     ts=2000 + i)
                              for i in range(n)), size_max=160 << 20)
        self.assertEqual(self.query("SELECT count(*), count(DISTINCT track_id) FROM slice"),
                         [(n, n)])

    def test_symbols_of_one_address(self):
        """Many frames at one place: each gets the symbol that came last."""
        n = 60000
        names = b"".join(text(FUNCTION_NAMES, number(1, i) + text(2, b"%d" % i))
                         for i in range(1, n))
        frames = b"".join(frame(i, name=i) for i in range(1, n))
        stack = text(CALLSTACKS, number(1, 1) + ids(2, range(1, n)))
        symbols = b"".join(text(3, number(1, 8) + text(2, text(1, b"s%d" % i))) for i in range(n))
        self.convert(state(MAPPING + names + frames + stack) + self.samples(1, 1) +
                     packet(SYMBOLS, text(1, b"/lib") + symbols))
        self.assertEqual(self.query(
            "SELECT s.name, count(*) FROM stack_profile_frame f JOIN stack_profile_symbol s "
            "USING (symbol_set_id) GROUP BY 1"), [(f"s{n - 1}", n - 1)])

    def test_methods_of_other_packages(self):
        n = 60000
        frames = b"".join(frame(i, address=i) for i in range(1, n))
        path = text(PATHS, number(1, 1)
                    + text(2, b"data")) + text(PATHS, number(1, 2) + text(2, b"app")) + text(
                        PATHS, number(1, 3)
                        + text(2, b"own.app-1")) + text(PATHS, number(1, 4) + text(2, b"base.apk"))
        mapping = text(MAPPINGS, number(1, 1) + number(5, 2**40) + ids(7, [1, 2, 3, 4]))
        name = text(FUNCTION_NAMES, number(1, 1) + text(2, b"A.a"))
        stack = text(CALLSTACKS, number(1, 1) + ids(2, range(1, n)))

        def methods(package, names):
            members = b"".join(text(4, text(1, b"a") + text(2, name)) for name in names)
            return packet(DEOBFUSCATION,
                          text(1, package) + text(3, text(1, b"A") + text(2, b"Real") + members))

        self.convert(state(path + mapping + name + frames + stack) + self.samples(1, 1) +
                     methods(b"own.app", [b"mine"])
                     + methods(b"other.app", (b"m%d" % i for i in range(n))))
        self.assertEqual(
            self.query("SELECT deobfuscated_name, count(*) FROM stack_profile_frame GROUP BY 1"),
            [("Real.mine", n - 1)])

    def test_lines_of_ftrace_that_each_name_an_event(self):
        """The events have rows and args; the first 2,000 have views, too."""
        n = 20000
        path = self.dir / "trace"
        path.write_text("# tracer: nop\n#\n" + "".join(
            f" c-1 [000] ...1 {1 + i / 1e6:.6f}: ev{i}: a{i}=1\n" for i in range(n)))
        done = lib.run("prlimit", f"--cpu={CPU_MAX_S}", lib.MMSQL, "convert", "-q", path, "-o",
                       self.db, timeout_s=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.query("SELECT count(DISTINCT name) FROM ftrace_event"), [(n,)])
        self.assertEqual(self.query("SELECT count(*) FROM sqlite_master WHERE type = 'view' AND "
                                    "name GLOB 'ftrace_ev[0-9]*'"), [(2000,)])
        self.assertEqual(self.query("SELECT a7 FROM ftrace_ev7"), [(1,)])

    @staticmethod
    def number_of_hash(value):
        """The inverse of hash_u64() (common/map.h), which is not a secret."""
        factor = pow(0xe9846af9b1a615d, -1, 2**64)
        value ^= value >> 28 ^ value >> 56
        for _ in range(2):
            value = value * factor % 2**64
            value ^= value >> 32
        return value

    def cpu_s(self, trace):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.convert(trace)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def test_ids_that_a_file_chose(self):
        """Ids and texts whose published hashes are alike take no more time than other ids and
        texts."""
        n = 40000
        plain, chosen = (
            b"".join(packet(60, number(1, uuid) + text(2, name)) for uuid, name in pairs)
            for pairs in (
                ((1 + i * 7, b"track %d" % i) for i in range(n)),
                ((self.number_of_hash(i << 32), (self.number_of_hash(self.number_of_hash(i << 32))
                                                 ^ 0x9e3779b97f4a7c15 ^ 8).to_bytes(8, "little"))
                 for i in range(n))))
        self.assertLess(self.cpu_s(chosen), 5 * self.cpu_s(plain) + 0.5)

    def test_each_run_gives_the_same_rows(self):
        """The order of rows does not depend on the random numbers of a process."""
        faults_verbs.every_packet(self.dir)
        rows = set()
        for _ in range(3):
            self.db.unlink(missing_ok=True)
            done = lib.run(lib.MMSQL, "convert", "-q", self.dir / "trace", "-o", self.db)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows.add(faults_verbs.logical(self.db))
        self.assertEqual(len(rows), 1)


if __name__ == "__main__":
    unittest.main()
