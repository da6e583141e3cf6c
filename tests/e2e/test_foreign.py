# SPDX-License-Identifier: Apache-2.0
"""Files of other tools that mmsql reads as traces: ftrace text, systrace, text of perf, perf.data,
simpleperf's reports.

The answers are those of trace_processor_shell for the same files. Comments give the exceptions.
"""
import contextlib
import gzip
import pathlib
import shutil
import sqlite3
import tempfile
import unittest
import zipfile
import zlib

import foreign_files as ff
import lib


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="foreign-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = self.dir / "out.db"

    def convert(self, content, name="input", code=0):
        path = self.dir / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.db.unlink(missing_ok=True)
        done = lib.run(lib.MMSQL, "convert", "-q", path, "-o", self.db)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as handle:
            return handle.execute(sql).fetchall()

    def stat(self, name):
        return self.query(f"SELECT sum(value) FROM stats WHERE name = '{name}'")[0][0]

    def trace_type(self):
        return self.query("SELECT str_value FROM metadata WHERE name = 'trace_type'")[0][0]

    def chains(self):
        """The call chain of each sample, outermost frame first: (ts, [(mapping, name or
        address)])."""
        rows = self.query("""
            WITH RECURSIVE chain(sample, ts, id) AS (
                SELECT id, ts, callsite_id FROM _profiler_sample
                UNION ALL SELECT sample, ts, parent_id FROM chain
                JOIN stack_profile_callsite c USING (id) WHERE parent_id NOT NULL)
            SELECT sample, ts, m.name, f.name, f.rel_pc FROM chain
            JOIN stack_profile_callsite c USING (id) JOIN stack_profile_frame f ON f.id = c.frame_id
            JOIN stack_profile_mapping m ON m.id = f.mapping
            ORDER BY sample, depth""")
        found = {}
        for sample, ts, mapping, name, rel_pc in rows:
            found.setdefault((sample, ts), []).append((mapping, name or hex(rel_pc)))
        return [(ts, frames) for (_, ts), frames in sorted(found.items())]


HEAD = """# tracer: nop
#
# entries-in-buffer/entries-written: 2/2   #P:4
#
"""
EVENTS = """\
          <idle>-0     (-----) [002] dn.3 51.312502: sched_waking: comm=ksoftirqd/2 pid=20 \
prio=120 target_cpu=002
          <idle>-0     (-----) [002] d..2 51.312510: sched_switch: prev_comm=swapper/2 prev_pid=0 \
prev_prio=120 prev_state=R ==> next_comm=ksoftirqd/2 next_pid=20 next_prio=120
     ksoftirqd/2-20    (   20) [002] d..2 51.312610: sched_switch: prev_comm=ksoftirqd/2 \
prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=Binder 1 next_pid=1500 next_prio=120
        Binder 1-1500  ( 1400) [002] ...1 51.312700: tracing_mark_write: B|1400|hello world
        Binder 1-1500  ( 1400) [002] ...1 51.312702: tracing_mark_write: C|1400|mem|1234
        Binder 1-1500  ( 1400) [002] ...1 51.312703: tracing_mark_write: S|1400|async|7
        Binder 1-1500  ( 1400) [002] ...1 51.312704: rss_stat: size=8437760 member=1 curr=1 \
mm_id=2824390453
        Binder 1-1500  ( 1400) [002] ...1 51.312740: cpu_frequency: state=1500000 cpu_id=2
        Binder 1-1500  ( 1400) [002] ...1 51.312741: cpu_idle: state=4294967295 cpu_id=2
        Binder 1-1500  ( 1400) [002] ...1 51.312742: cpu_frequency_limits: min=100 max=200 cpu_id=2
        Binder 1-1500  ( 1400) [002] ...1 51.312743: clock_set_rate: gpu_clk state=19200 cpu_id=0
        Binder 1-1500  ( 1400) [002] ...1 51.312744: sched_blocked_reason: pid=20 iowait=1 \
caller=foo_bar+0x10/0x20
        Binder 1-1500  ( 1400) [002] ...1 51.312750: workqueue_execute_start: work struct ffff880: \
function vmstat_update
        Binder 1-1500  ( 1400) [002] ...1 51.312755: workqueue_execute_end: work struct ffff880
        Binder 1-1500  ( 1400) [002] ...1 51.312760: tracing_mark_write: E|1400
        Binder 1-1500  ( 1400) [002] ...1 51.312770: tracing_mark_write: F|1400|async|7
        Binder 1-1500  ( 1400) [002] ...1 51.312790: binder_transaction: transaction=123 \
dest_node=4 dest_proc=77 dest_thread=0 reply=0 flags=0x10 code=0x1
"""


class FtraceText(Case):
    def check_events(self, before=0):
        """`before`: the number of threads that the file names before its events."""
        ms = 51312000000
        one, two = 1 + before, 2 + before
        self.assertEqual(self.trace_type(), "systrace")
        self.assertEqual(self.query("SELECT ts, dur, cpu, utid, end_state, priority FROM sched"),
                         [(ms + 510000, 100000, 2, one, "S", 120),
                          (ms + 610000, -1, 2, two, None, 120)])
        self.assertEqual(
            self.query("SELECT ts, dur, state, utid, io_wait, blocked_function FROM thread_state"),
            [(ms + 502000, 8000, "R", one, None, None),
             (ms + 510000, 100000, "Running", one, None, None),
             (ms + 610000, -1, "S", one, 1, "foo_bar+0x10/0x20"),
             (ms + 610000, -1, "Running", two, None, None)])
        self.assertEqual(self.query("SELECT ts, dur, name, depth FROM slice"),
                         [(ms + 700000, 60000, "hello world", 0), (ms + 703000, 67000, "async", 0),
                          (ms + 750000, 5000, "vmstat_update", 1),
                          (ms + 790000, -1, "binder transaction", 0)])
        self.assertEqual(
            self.query(
                "SELECT ts, value, name FROM counter c JOIN counter_track t ON t.id = c.track_id "
                "ORDER BY ts, name DESC"),
            [(ms + 702000, 1234, "mem"), (ms + 704000, 8437760, "mem.rss.anon"),
             (ms + 740000, 1500000, "cpufreq"),
             (ms + 741000, 4294967295, "cpuidle"), (ms + 742000, 100, "Cpu 2 Min Freq Limit"),
             (ms + 742000, 200, "Cpu 2 Max Freq Limit"), (ms + 743000, 19200, "gpu_clk Frequency")])
        self.assertEqual(self.query("SELECT tid, name FROM thread WHERE tid NOT IN (1, 1400)"),
                         [(0, "swapper"), (20, "ksoftirqd/2"), (1500, "Binder 1")])
        self.assertEqual(
            self.query(
                "SELECT t.tid, pid FROM thread t JOIN process USING (upid) WHERE pid > 20 "
                "AND tid != pid"),
            [(1500, 1400)])
        # trace_processor makes no rows of events
        self.assertEqual(self.query("SELECT count(*) FROM ftrace_event"), [(EVENTS.count("\n"),)])

    def test_forms(self):
        """The text has or lacks TGID, flags and header, or is of trace-cmd, atrace, or a web
        page."""
        plain = EVENTS.replace("(-----) ", "").replace("(   20) ", "").replace("( 1400) ", "")
        page = ("<!DOCTYPE html>\n<html>\n<script>code</script>\n"
                '<script class="trace-data" type="application/text">\nPROCESS DUMP\n'
                "USER PID PPID VSZ RSS WCHAN PC S NAME COMM\nroot 1400 1 9 9 0 0 S system_server "
                "system_server\n</script>\n"
                '<script class="trace-data" type="application/text">\n'
                + HEAD + "#  TASK-PID  CPU#\n" + EVENTS + "</script>\n</html>\n")
        noflags = EVENTS
        for flags in ("dn.3", "d..2", "...1"):
            noflags = noflags.replace(f" {flags} ", "  ")
        for name, content in {"header": HEAD + EVENTS, "plain": HEAD + plain, "bare": EVENTS,
                              "noflags": HEAD + noflags,
                              "five": EVENTS.replace("...1 ", "...1. "),
                              "nogap": EVENTS.replace("...1 ", "...1."),
                              "cpus": "cpus=4\n" + EVENTS,
                              "atrace": "capturing trace... done\nTRACE:\n" + HEAD + EVENTS,
                              "crlf": (HEAD + EVENTS).replace("\n", "\r\n"),
                              "page": page}.items():
            with self.subTest(name):
                self.assertEqual(self.convert(content), "")
                self.check_events(2 if name == "page" else 0)
        self.assertEqual(
            self.query("SELECT pid, name, parent_upid FROM process WHERE name = 'system_server'"),
            [(1400, "system_server", 1)])

    def test_compressed_and_in_archives(self):
        self.convert(gzip.compress((HEAD + EVENTS).encode()))
        self.check_events()
        with zipfile.ZipFile(self.dir / "a.zip", "w") as archive:
            archive.writestr("systrace.txt", HEAD + EVENTS)
        self.convert((self.dir / "a.zip").read_bytes(), "b.zip")
        self.check_events()

    def test_compressed_by_atrace(self):
        """`atrace -z`: text after TRACE: is a zlib stream."""
        packed = b"capturing trace... done\nTRACE:\n" + zlib.compress((HEAD + EVENTS).encode())
        self.convert(packed)
        self.check_events()
        said = self.convert(packed[:-40], code=1)
        self.assertIn("the compressed text ends or breaks", said)
        self.assertGreater(self.query("SELECT count(*) FROM ftrace_event")[0][0], 0)

    def lines(self, *events):
        return "".join(f"  bash-7  (  7) [001] .... 5.{i:06}: {event}\n"
                       for i, event in enumerate(events))

    def test_memory(self):
        """Events about memory go to the tables to which the events of a trace go."""
        self.convert(HEAD + self.lines(
            "mm_vmscan_direct_reclaim_begin: order=3 may_writepage=1 "
            "gfp_flags=GFP_KERNEL|__GFP_ZERO",
            "mm_vmscan_direct_reclaim_end: nr_reclaimed=32",
            "rss_stat: mm_id=2824390453 curr=1 type=MM_ANONPAGES size=4096B",
            "rss_stat: mm_id=2824390453 curr=1 type=MM_SHMEMPAGES size=8192B",
            "oom_score_adj_update: pid=7 comm=bash oom_score_adj=900",
            "mark_victim: pid=7",
            "mm_compaction_begin: zone_start=0x10 migrate_pfn=0x20 free_pfn=0x30 zone_end=0x40, "
            "mode=sync",
            "mm_vmscan_kswapd_wake: nid=1 order=2"))
        self.assertEqual(self.query("SELECT ts, dur, name FROM slice"),
                         [(5000000000, 1000, "mm_vmscan_direct_reclaim"),
                          (5000005000, 0, "mem.oom_kill")])
        self.assertEqual(self.query(
            "SELECT name, value FROM counter c JOIN counter_track t ON t.id = c.track_id"),
                         [("mem.rss.anon", 4096), ("mem.rss.shmem", 8192), ("oom_score_adj", 900)])
        self.assertEqual(
            self.query(
                "SELECT key, int_value FROM args JOIN ftrace_event USING (arg_set_id) "
                "WHERE name = 'mm_compaction_begin'"),
            [("zone_start", 16), ("migrate_pfn", 32), ("free_pfn", 48), ("zone_end", 64),
             ("sync", 1)])
        self.assertEqual(
            self.query(
                "SELECT key, int_value FROM args JOIN ftrace_event USING (arg_set_id) "
                "WHERE name = 'mm_vmscan_kswapd_wake'"),
            [("nid", 1), ("order", 2)])

    def test_interrupts_and_syscalls(self):
        self.convert(HEAD + self.lines("irq_handler_entry: irq=16 name=uart 1",
                                       "irq_handler_exit: irq=16 ret=handled",
                                       "softirq_entry: vec=9 [action=RCU]",
                                       "softirq_exit: vec=9 [action=RCU]",
                                       "sys_enter: NR 63 (3, 7f60, 0)", "sys_exit: NR 63 = -11",
                                       "suspend_resume: freeze[3] begin"))
        self.assertEqual(self.query("SELECT dur, name FROM slice"),
                         [(1000, "IRQ (uart 1)"), (1000, "RCU"), (1000, "sys_63"),
                          (-1, "freeze(3)")])
        self.assertEqual(
            self.query(
                "SELECT int_value FROM args JOIN slice USING (arg_set_id) WHERE key = 'ret' "
                "AND slice.name LIKE 'sys%'"), [(-11,)])

    def test_trace_cmd(self):
        """trace-cmd prints tasks in a form of its own, and nanoseconds if asked."""
        self.convert(
            "cpus=2\n          a b-7     [001]   5.000001234: sched_switch:         a b:7 [120] S "
            "==> c:d:8 [97]\n"
            "            c:d-8     [001]   5.000002: sched_wakeup:         a b:7 [120] CPU:001\n"
            "            c:d-8     [001]   5.000003: print:                tracing_mark_write: "
            "B|8|x\n")
        self.assertEqual(self.query("SELECT ts, utid, priority FROM sched"), [(5000001234, 2, 97)])
        self.assertEqual(self.query("SELECT tid, name FROM thread WHERE utid"),
                         [(7, "a b"), (8, "c:d")])
        self.assertEqual(self.query("SELECT ts, name FROM slice"), [(5000003000, "x")])

    def test_unknown_events_keep_their_args(self):
        self.convert(HEAD + self.lines("my_event: first foo=12 bar=text with blanks x==> baz=0x12",
                                       "other: just words", "third:"))
        self.assertEqual(
            self.query(
                "SELECT name, key, int_value, string_value FROM ftrace_event LEFT JOIN args "
                "USING (arg_set_id)"),
            [("my_event", "args", None, "first"), ("my_event", "foo", 12, None),
             ("my_event", "bar", None, "text with blanks x==>"),
             ("my_event", "baz", None, "0x12"), ("other", "args", None, "just words"),
             ("third", None, None, None)])

    def test_order_of_lines_counts_at_equal_times(self):
        """Microseconds are coarse: events of two processors often have equal times."""
        self.convert(
            HEAD + "  a-7 [001] .... 5.000001: tracing_mark_write: B|7|outer\n  a-7 [000] .... "
                   "5.000001: tracing_mark_write: B|7|inner\n"
                   "  a-7 [001] .... 5.000001: tracing_mark_write: E|7\n  a-7 [000] .... "
                   "5.000002: tracing_mark_write: E|7\n")
        self.assertEqual(self.query("SELECT name, depth, dur FROM slice"),
                         [("outer", 0, 1000), ("inner", 1, 0)])

    def test_names_are_odd(self):
        for task in ("a-b", "a [3] b", "(x) y", "x: 1.2: y", "-1", "<...>"):
            with self.subTest(task):
                self.convert(
                    HEAD + f"{task}-77 (  70) [003] .... 5.1: tracing_mark_write: I|70|here\n")
                self.assertEqual(self.query("SELECT tid, name FROM thread WHERE tid = 77"),
                                 [(77, None if task == "<...>" else task)])
                self.assertEqual(self.query("SELECT ts, name FROM slice"), [(5100000000, "here")])

    def test_damage(self):
        said = self.convert(HEAD + EVENTS + "no event\n\0\xff\n" + "CPU:2 [LOST 12 EVENTS]\n"
                            + EVENTS[:40], code=1)
        self.assertIn("line 22 is not an ftrace event; 3 such lines are left out", said)
        self.assertEqual((self.stat("systrace_parse_failure"),
                          self.stat("ftrace_cpu_has_data_loss")), (3, 1))
        self.assertEqual(self.query("SELECT count(*) FROM ftrace_event"), [(EVENTS.count("\n"),)])
        for end in range(len(HEAD), len(HEAD + EVENTS), 97):
            cut = (HEAD + EVENTS)[:end]
            path = self.dir / "cut"
            path.write_text(cut)
            done = lib.run(lib.MMSQL, "convert", "-q", path, "-o", self.db)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertIn(self.query("SELECT count(*) FROM ftrace_event")[0][0] - cut.count("\n")
                          + HEAD.count("\n"), (0, 1))


PERF_TEXT = """\
trace_processor 3962131 303057.417513:          1 cpu_atom/cycles/Pu:
        ffffffff8 _start+0x10 (/usr/lib/ld-linux-x86-64.so.2)

trace_processor 3962131 303057.417514:          1 cpu_atom/cycles/Pu:
        7f0011 leaf+0x1 (/usr/lib/libfoo.so)
        7f0012 [unknown] ([unknown])
        7f0013 main+0x2 (inlined) (/bin/a)

a b c 12/13 [003] 303058.417514:          1 cycles:

x 12/14 [003] 303059.417516:          1 cycles:
        7f0011 leaf+0x1 (/usr/lib/libfoo.so)
        7f0011 foo(int, bar+1)+0x10 (/usr/lib/libfoo.so)

"""


class PerfText(Case):
    def test_samples(self):
        self.convert(PERF_TEXT)
        self.assertEqual(self.trace_type(), "perf_text")
        self.assertEqual(self.chains(), [
            (303057417513000, [("/usr/lib/ld-linux-x86-64.so.2", "_start")]),
            (303057417514000,
             [("/bin/a", "main"), ("[unknown]", "[unknown]"), ("/usr/lib/libfoo.so", "leaf")]),
            (303059417516000,
             [("/usr/lib/libfoo.so", "foo(int, bar+1)"), ("/usr/lib/libfoo.so", "leaf")])])
        self.assertEqual(self.query("SELECT tid, name FROM thread WHERE tid"),
                         [(3962131, "trace_processor"), (12, None), (14, "x")])
        self.assertEqual(
            self.query("SELECT id, name, mapping, rel_pc, symbol_set_id FROM stack_profile_frame"),
            [(0, "_start", 0, 0, 0), (1, "leaf", 1, 0, 1), (2, "[unknown]", 2, 0, 2),
             (3, "main", 3, 0, 3), (4, "foo(int, bar+1)", 1, 0, 4)])
        self.assertEqual(self.stat("perf_text_importer_sample_no_frames"), 1)
        self.assertEqual(self.query(
            "SELECT count(*), count(DISTINCT utid) FROM cpu_profile_stack_sample"), [(3, 2)])

    def test_other_forms(self):
        """trace_processor refuses these forms: comments, nanoseconds, a frame on the line of its
        sample, tasks that ended."""
        self.convert(
            "# captured on: today\n\n  x\t12/-1 [003] 3.000001234:  1 cycles:u:  7f00 f+0x1 "
            "(/lib/a)\n"
            ":-1    -1 [001] 4.000001:  1 cycles:\n\t7f g (/lib/b)\nbash 5 5.0000005: 1 "
            "page-faults: \n\t7f h (/lib/b)\n")
        self.assertEqual(self.chains(),
                         [(3000001234, [("/lib/a", "f")]), (4000001000, [("/lib/b", "g")]),
                          (5000000500, [("/lib/b", "h")])])

    def test_names_are_whole(self):
        """Names of threads may be longer than the kernel's. Several blanks between words become one
        blank. The outermost frame has depth 0."""
        name = "  ".join(f"{letter}" * 60 for letter in "abc")
        self.convert(
            f"{name} 12/13 [003] 3.000001:  1 cycles:\n\t7f g (/lib/b)\n\t7f main (/lib/b)\n")
        self.assertEqual(self.query("SELECT name FROM thread WHERE tid = 13"),
                         [(name.replace("  ", " "),)])
        self.assertEqual(
            self.query(
                "SELECT depth, name FROM stack_profile_callsite c JOIN stack_profile_frame f ON "
                "f.id = frame_id ORDER BY c.id"),
            [(0, "main"), (1, "g")])

    def test_damage(self):
        """trace_processor gives up at the first wrong line."""
        said = self.convert(PERF_TEXT + "wrong\n" + PERF_TEXT.replace("30305", "30306")
                            + PERF_TEXT[:150], code=1)
        self.assertIn("line 15 is neither a sample nor a frame; 2 such lines are left out", said)
        self.assertEqual(self.stat("mmsql_perf_text_lines_left_out"), 2)
        self.assertEqual(len(self.chains()), 7)

    def test_last_frame_ends_the_last_page(self):
        """The last line has no newline, and nothing may be read after it."""
        head, tail = "x 12 [003] 3.000001:  1 cycles:\n\t7f g (/lib/b)\n#", "\n\t7f h /lib/a)"
        said = self.convert(head + "x" * (4096 - len(head) - len(tail)) + tail, code=1)
        self.assertIn("line 4 is neither a sample nor a frame", said)
        self.assertEqual(self.chains(), [(3000001000, [("/lib/b", "g")])])


def whole_perf_data():
    events = [(ff.attr(), "cpu-clock", [1, 2]), (ff.attr(config=2, period=1), "page-faults", [3])]
    records = [
        ff.mmap2(0xffffffff, 0xffffffff81000000, 0x200000, 0xffffffff81000000,
                 "[kernel.kallsyms]_text", misc=ff.KERNEL, event_id=0),
        ff.comm(10, 10, "main", event_id=0),
        ff.mmap2(10, 0x400000, 0x3000, 0x1000, "/bin/a", event_id=0),
        ff.mmap2(10, 0x7f0000, 0x1000, 0, "/lib/b.so", event_id=0, build_id=bytes(range(20))),
        ff.sample(10, 11, 2000, [ff.CONTEXT_KERNEL, 0xffffffff81000100, 0xffffffff81000201,
                                 ff.CONTEXT_USER, 0x7f0010, 0x400021, 0x999999],
                  misc=ff.KERNEL, cpu=1),
        ff.mmap2(10, 0x401000, 0x1000, 0x500, "/lib/c.so", ts=2500),
        ff.comm(10, 11, "worker", ts=2600),
        ff.sample(10, 11, 3000, [0x401010, 0x400021], cpu=1, period=500, event_id=2),
        ff.sample(10, 10, 4000, [0x400020], event_id=3, period=1),
    ]
    features = {2: ff.build_ids((-1, bytes(range(100, 120)), "/bin/a")), 4: ff.sized("6.1.0"),
                11: ff.cmdline("perf", "record", "-g"),
                12: ff.event_desc(*events), 13: b"x"}
    return events, records, features


CHAINS = [(2000, [("", "0x999998"), ("/bin/a", "0x1020"), ("/lib/b.so", "0xf"),
                  ("[kernel.kallsyms]_text", "0x200"),
                  ("[kernel.kallsyms]_text", "0x100")]),
          (3000, [("/bin/a", "0x1020"), ("/lib/c.so", "0x510")]), (4000, [("/bin/a", "0x1020")])]


class PerfData(Case):
    def test_file(self):
        self.convert(ff.perf_data(*whole_perf_data()))
        self.assertEqual(self.trace_type(), "perf")
        self.assertEqual(self.chains(), CHAINS)
        self.assertEqual(
            self.query("SELECT ts, utid, cpu, cpu_mode, perf_session_id FROM perf_sample"),
            [(2000, 2, 1, "kernel", 0), (3000, 2, 1, "user", 0), (4000, 1, 0, "user", 1)])
        self.assertEqual(self.query("SELECT tid, name, upid FROM thread WHERE tid"),
                         [(10, "main", 1), (11, "worker", 1)])
        self.assertEqual(self.query("SELECT pid, name FROM process WHERE pid"), [(10, "main")])
        self.assertEqual(self.query(
            "SELECT name, build_id, exact_offset, end - start FROM stack_profile_mapping"),
                         [("[kernel.kallsyms]_text", "", 0, 0x200000),
                          ("/bin/a", bytes(range(100, 120)).hex(), 0x1000, 0x3000),
                          ("/lib/b.so", bytes(range(20)).hex(), 0, 0x1000), ("", "", 0, -1),
                          ("/lib/c.so", "", 0x500, 0x1000)])
        self.assertEqual(
            self.query("SELECT name, cpu, is_timebase, perf_session_id FROM perf_counter_track"),
            [("cpu-clock", 1, 1, 0), ("page-faults", 0, 1, 1)])
        self.assertEqual(self.query("SELECT ts, value FROM counter"),
                         [(2000, 1000), (3000, 1500), (4000, 1)])
        self.assertEqual(self.query("SELECT id, timebase_unit, cmdline FROM _profiler_session"),
                         [(0, "ns", "perf record -g"), (1, "count", "perf record -g")])
        self.assertEqual(self.query(
            "SELECT idx, value FROM stats WHERE name = 'perf_features_skipped'"), [(13, 1)])
        self.assertEqual(self.query("SELECT str_value FROM metadata WHERE name = 'system_release'"),
                         [("6.1.0",)])

    def test_symbols_of_simpleperf(self):
        events, records, _ = whole_perf_data()
        features = {128: b"",
                    129: b"event_type_info\0cpu-clock,1,0\n"
                         b"page-faults,1,2\0simpleperf_version\0001\0",
                    132: ff.symbol_file("/bin/a", 2, (0x2000, 0x30, "early"),
                                        (0x2020, 0x100, "late"), min_vaddr=0x1000)
                    + ff.symbol_file("[kernel.kallsyms]", 0, (0xffffffff81000200, 8, "in_kernel"))
                    + ff.symbol_file("/lib/b.so", 5, (0, 0x1000, "of an unknown kind"))}
        self.convert(ff.perf_data(events, records, features))
        # simpleperf's callers are addresses of calls already
        self.assertEqual(self.chains(), [
            (2000, [("", "0x999999"), ("/bin/a", "late"), ("/lib/b.so", "0x10"),
                    ("[kernel.kallsyms]_text", "in_kernel"), ("[kernel.kallsyms]_text", "0x100")]),
            (3000, [("/bin/a", "late"), ("/lib/c.so", "0x510")]), (4000, [("/bin/a", "late")])])
        self.assertEqual(self.query("SELECT DISTINCT name FROM perf_counter_track"),
                         [("cpu-clock",), ("page-faults",)])
        self.assertIn("the list of symbols",
                      self.convert(ff.perf_data(events, records, {132: features[132][:-3]}),
                                   code=1))
        self.assertEqual(self.chains()[2], (4000, [("/bin/a", "late")]))

    def test_stream(self):
        """`perf record -o -`: trace_processor does not read it."""
        events, records, _ = whole_perf_data()
        self.convert(ff.perf_stream(events, records))
        self.assertEqual(self.chains(), CHAINS)

    def test_counters_read_with_a_sample(self):
        leader = ff.attr(sample_type=ff.IDENTIFIER | ff.IP | ff.TID | ff.TIME | ff.READ,
                         read_format=4 | 8)
        events = [(leader, "cycles", [5]), (leader, "instructions", [6])]

        def read(ts, *values):
            body = ff.struct.pack("<QQIIQQ", 5, 0x400000, 9, 9, ts, len(values)) + b"".join(
                ff.struct.pack("<QQ", value, number) for number, value in values)
            return ff.record(9, ff.USER, body)
        self.convert(ff.perf_data(events, [read(100, (5, 10), (6, 20)), read(200, (5, 15), (6, 29)),
                                           read(300, (5, 16), (77, 1))],
                                  {12: ff.event_desc(*events)}))
        self.assertEqual(
            self.query(
                "SELECT c.ts, t.name, c.value, t.cpu FROM counter c JOIN perf_counter_track t ON "
                "t.id = c.track_id ORDER BY c.ts, t.id"),
            [(100, "cycles", 10, None), (100, "instructions", 20, None), (200, "cycles", 15, None),
             (200, "instructions", 29, None)])
        self.assertEqual(
            self.query("SELECT idx, value FROM stats WHERE name = 'perf_record_skipped'"), [(9, 1)])

    def test_cut_anywhere(self):
        """All records before the cut are kept, and a message says what happened."""
        whole = ff.perf_data(*whole_perf_data())
        n_before = 0
        for end in range(8, len(whole), 61):
            path = self.dir / "cut"
            path.write_bytes(whole[:end])
            done = lib.run(lib.MMSQL, "convert", "-q", path, "-o", self.db)
            self.assertEqual(done.returncode, 1, f"{end}: {done.stderr}")
            self.assertRegex(done.stderr, "the file ends|cannot be read|break", str(end))
            nothing = "nothing before it could be read" in done.stderr
            n = 0 if nothing else len(self.chains())
            self.assertGreaterEqual(n, n_before, f"{end}")
            n_before = n
        self.assertEqual(n_before, 3)

    def test_unfinished(self):
        """The recorder died: the size of the records is 0."""
        events, records, _ = whole_perf_data()
        content = bytearray(ff.perf_data(events, records))
        content[48:56] = bytes(8)
        self.assertIn("the recorder did not finish the file", self.convert(bytes(content), code=1))
        self.assertEqual(self.chains(), CHAINS)

    def test_bad_records(self):
        """A bad record is counted, and those after it are read. trace_processor gives up."""
        events, records, features = whole_perf_data()
        bad = [ff.sample(10, 10, 2100, [1], event_id=99), ff.record(9, ff.USER, bytes(16)),
               ff.record(2, 0, ff.struct.pack("<QQ", 1, 17)
                      + ff.sample_id(10, 10, 2200, 1))]
        self.convert(ff.perf_data(events, records[:5] + bad + records[5:], features))
        self.assertEqual(self.chains(), CHAINS)
        self.assertEqual(
            self.query(
                "SELECT name, idx, value FROM stats WHERE name IN ('perf_record_skipped', "
                "'perf_unknown_record_type', 'mmsql_perf_samples_lost')"),
            [("perf_record_skipped", 9, 2), ("perf_unknown_record_type", 2, 1),
             ("mmsql_perf_samples_lost", None, 17)])

    def test_texts_of_many_events(self):
        """Each event has the name and the command line, which the file has once. A small file
        does not become a large database."""
        events = [(ff.attr(), "", [n + 1]) for n in range(1000)]
        name = b"n" * (1 << 20)
        names = ff.struct.pack("<IIII", 1, 0, len(events), len(name)) + name + ff.struct.pack(
            f"<{len(events)}Q", *range(1, len(events) + 1))
        features = {11: ff.struct.pack("<II", 1, len(name)) + name, 12: names}
        said = self.convert(ff.perf_data(events, whole_perf_data()[1], features), code=1)
        self.assertIn("texts of its events are cut off after 67108 bytes", said)
        self.assertEqual(
            self.query(
                "SELECT count(*), min(length(cmdline)), max(length(cmdline)) "
                "FROM _profiler_session"), [(1000, 67108, 67108)])

    def test_ids_that_all_events_share(self):
        """All events name the same bytes as their ids. The time does not grow with the product of
        the numbers of events and ids."""
        events = [(ff.attr(), "", [1] * (1 << 19 if n == 0 else 0)) for n in range(20000)]
        content = bytearray(ff.perf_data(events, whole_perf_data()[1]))
        size = ff.ATTR_SIZE + 16
        ids = content[104 + size - 16:104 + size]
        for n in range(len(events)):
            content[104 + (n + 1) * size - 16:104 + (n + 1) * size] = ids
        self.assertIn("its events have too many ids", self.convert(bytes(content), code=1))

    def test_names_of_simpleperf_for_many_events(self):
        events = [(ff.attr(), "", []) for n in range(60000)]
        names = (b"event_type_info\0" + b"a,1,0\n" * 4096 + b"\0") * 100
        said = self.convert(ff.perf_data(events, whole_perf_data()[1], {129: names}), code=1)
        self.assertIn("its events have too many names", said)

    @lib.needs_program("perf")
    @lib.needs_root
    def test_real_recordings(self):
        """The number of samples is the number that perf counts, plain and compressed."""
        for options in ((), ("-z",)):
            data = self.dir / "perf.data"
            done = lib.run("perf", "record", "-qN", *options, "-e", "cpu-clock", "-F", "997", "-g",
                           "-a", "-o", data, "--", "sleep", "0.3")
            if done.returncode:
                self.skipTest(done.stderr)
            script = lib.run("perf", "script", "-i", data, "-F", "time", "-G").stdout
            want = sum(1 for line in script.splitlines() if line.strip().endswith(":"))
            self.convert(data.read_bytes())
            self.assertEqual(self.query("SELECT count(*) FROM perf_sample"), [(want,)])
            self.assertGreater(
                self.query(
                    "SELECT count(*) FROM stack_profile_frame f JOIN stack_profile_mapping m ON "
                    "m.id = f.mapping WHERE m.name != ''")[0][0], 0)


REPORT = (ff.field(5, ff.field(1, b"cpu-cycles")),
          ff.simpleperf_sample(1000000000, 1234, (0x1000, 1, 0), (0x2000, 1, 1)),
          ff.simpleperf_sample(2000000000, 1234, (0x1000, 1, -1), (0x2000, 2, 1)),
          ff.simpleperf_sample(2500000000, 1234, (0x1000, 9, -1)),
          ff.simpleperf_thread(1234, 5678, "MyThread"),
          ff.field(2, ff.field(1, 100) + ff.field(2, 3)),
          ff.simpleperf_file(1, "/system/lib64/libc.so", "malloc", "free"),
          ff.simpleperf_file(2, "/system/lib64/libm.so", "sin", "cos"))


class Simpleperf(Case):
    def test_report(self):
        self.convert(ff.simpleperf(*REPORT))
        self.assertEqual(self.trace_type(), "simpleperf_proto")
        self.assertEqual(self.chains(), [(1000000000, [("/system/lib64/libc.so", "free"),
                                                       ("/system/lib64/libc.so", "malloc")]),
                                         (2000000000, [("/system/lib64/libm.so", "cos"),
                                                       ("/system/lib64/libc.so", "0x1000")])])
        self.assertEqual(
            self.query(
                "SELECT t.tid, t.name, p.pid FROM thread t JOIN process p USING (upid) "
                "WHERE tid = 1234"), [(1234, "MyThread", 5678)])
        self.assertEqual((self.stat("simpleperf_missing_file_mapping"),
                          self.stat("mmsql_perf_samples_lost")), (1, 3))
        self.assertEqual(self.query(
            "SELECT count(*), count(DISTINCT utid) FROM cpu_profile_stack_sample"), [(2, 1)])

    def test_empty(self):
        self.convert(ff.simpleperf())
        self.assertEqual(self.query("SELECT count(*) FROM trace_bounds"), [(1,)])

    def test_damage(self):
        """trace_processor gives up where the file ends too early."""
        whole = ff.simpleperf(*REPORT)
        self.assertIn("the file ends in record 9", self.convert(whole[:-2], code=1))
        self.assertEqual(len(self.chains()), 2)
        self.assertIn("record 1 cannot be read",
                      self.convert(ff.simpleperf(b"\xff\xff", *REPORT), code=1))
        self.assertEqual((len(self.chains()), self.stat("mmsql_simpleperf_records_left_out")),
                         (2, 1))
        self.assertIn("version 7", self.convert(whole[:10] + b"\7\0" + whole[12:], code=1))
        for end in range(12, len(whole) - 1, 7):
            self.convert(whole[:end], code=1)


if __name__ == "__main__":
    unittest.main()
