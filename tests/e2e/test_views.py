# SPDX-License-Identifier: Apache-2.0
"""The views of converter/sql/memory.sql, on traces made for the purpose; and every example of
docs/views.md."""
import pathlib
import re
import shutil
import sqlite3
import struct
import tempfile
import unittest

import lib

GOLDEN = lib.ROOT / "tests" / "golden"
MS = 1_000_000


def event(ts, pid, body):
    return f"event {{ timestamp: {ts * MS} pid: {pid} {body} }}"


def bundle(*events):
    return (f"packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {' '.join(events)} "
            f"}} }}\n")


def stats(ts, body):
    return (f"packet {{ trusted_packet_sequence_id: 2 timestamp: {ts * MS} sys_stats {{ {body} }} "
            f"}}\n")


TREE = ("packet { trusted_packet_sequence_id: 3 timestamp: 1 process_tree { processes { pid: 10 "
        "ppid: 1 cmdline: 'app' } processes { pid: 20 ppid: 2 cmdline: 'kswapd0' } "
        "threads { tid: 11 tgid: 10 name: 'worker' } } }\n")


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="views-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = self.dir / "out.db"

    def encode(self, text, name="trace"):
        (self.dir / name).write_bytes(lib.encode(text))
        return self.dir / name

    def convert(self, *files, text=None):
        if text is not None:
            files = (self.encode(text), *files)
        done = lib.run(lib.MMSQL, "convert", "-q", *files, "-o", self.db)
        self.assertEqual(done.returncode, 0, done.stderr)

    def query(self, sql):
        with sqlite3.connect(f"file:{self.db}?mode=ro", uri=True) as handle:
            return handle.execute(sql).fetchall()


class Reclaim(Case):
    def test_episodes(self):
        self.convert(text=TREE + bundle(
            event(10, 11, "mm_vmscan_direct_reclaim_begin { order: 2 gfp_flags: 7 }"),
            event(13, 20, "mm_vmscan_kswapd_wake { nid: 0 order: 1 }"),
            event(14, 20, "mm_vmscan_kswapd_wake { nid: 0 order: 0 }"),
            event(15, 11, "mm_vmscan_direct_reclaim_end { nr_reclaimed: 33 }"),
            event(20, 20, "mm_vmscan_kswapd_sleep { nid: 0 }"),
            event(21, 10,
                  "mm_compaction_begin { zone_start: 1 migrate_pfn: 100 free_pfn: 900 "
                  "zone_end: 1000 }"),
            event(24, 10,
                  "mm_compaction_end { zone_start: 1 migrate_pfn: 150 free_pfn: 870 zone_end: 1000 "
                  "status: 5 }"),
            event(30, 20, "mm_vmscan_kswapd_wake { nid: 0 order: 0 }"),
            event(32, 11, "mm_vmscan_direct_reclaim_begin { order: 0 }"),
            event(40, 10, "mm_vmscan_kswapd_sleep { nid: 1 }")))
        rows = self.query(
            "SELECT kind, ts / 1000000, dur / 1000000, process_name, thread_name, "
            "allocation_order, gfp_flags, reclaimed_pages, scanned_pages FROM reclaim_episode "
            "ORDER BY ts")
        self.assertEqual(rows, [
            ("direct reclaim", 10, 5, "app", "worker", 2, 7, 33, None),
            ("kswapd", 13, 7, "kswapd0", rows[1][4], 1, None, None, None),
            ("compaction", 21, 3, "app", rows[2][4], None, None, None, 80),
            ("kswapd", 30, 10, "kswapd0", rows[1][4], 0, None, None, None),
            ("direct reclaim", 32, 8, "app", "worker", 0, 0, None, None)])
        self.assertEqual(self.query(
            "SELECT process_name, episodes, dur / 1000000, max_dur / 1000000, reclaimed_pages "
            "FROM reclaim_by_process WHERE kind = 'direct reclaim'"), [("app", 2, 13, 8, 33)])

    def test_pressure(self):
        """Stalls, reclaim and allocation stalls of one time are one row. Much later stalls are
        another row."""
        self.convert(text=TREE
            + "".join(stats(ts, f"psi {{ resource: PSI_RESOURCE_MEMORY_SOME total_ns: {ns * MS} }}")
                      for ts, ns in ((100, 5), (200, 5), (300, 25), (400, 25), (1000, 25),
                                     (1100, 30)))
            + "".join(stats(ts, f"vmstat {{ key: VMSTAT_ALLOCSTALL value: {n} }}")
                      for ts, n in ((100, 1), (400, 4)))
            + bundle(event(320, 11, "mm_vmscan_direct_reclaim_begin { order: 0 }"),
                     event(350, 11, "mm_vmscan_direct_reclaim_end { nr_reclaimed: 9 }")))
        self.assertEqual(
            self.query(
                "SELECT ts / 1000000, dur / 1000000, some_stall_ns / 1000000, direct_reclaims, "
                "direct_reclaim_dur / 1000000, reclaimed_pages, allocation_stalls, processes "
                "FROM pressure_episode"),
            [(100, 300, 20, 1, 30, 9, 3, "app"), (1000, 100, 5, 0, 0, None, None, None)])


class Counters(Case):
    def test_vmstat_rate(self):
        self.convert(text="".join(
            stats(ts,
                  f"vmstat {{ key: VMSTAT_PGSCAN_DIRECT value: {a} }} "
                  f"vmstat {{ key: VMSTAT_NR_FREE_PAGES value: {b} }}")
            for ts, a, b in ((1000, 10, 100), (1500, 60, 50), (3500, 5, 70))))
        self.assertEqual(
            self.query(
                "SELECT name, dur / 1000000, change, per_second, is_level FROM vmstat_rate "
                "ORDER BY 1, ts"), [
                    ("nr_free_pages", 500, -50, -100, 1), ("nr_free_pages", 2000, 20, 10, 1),
                    ("pgscan_direct", 500, 50, 100, 0), ("pgscan_direct", 2000, None, None, 0)])

    def test_reclaim_counter(self):
        """The counters of the total: all reclaim if the kernel counts it, else the sum of parts."""
        parts = ("PGSCAN_KSWAPD_DMA", "PGSCAN_KSWAPD_NORMAL", "PGSCAN_DIRECT_MOVABLE",
                 "PGSCAN_DIRECT_THROTTLE", "PGSTEAL_DIRECT")
        of_parts = [("reclaimed", 0, "pgsteal_direct"),
                    ("scanned", 0, "pgscan_direct_movable,pgscan_kswapd_dma,pgscan_kswapd_normal")]
        for more, totals in (
                ((), of_parts),
                (("PGSTEAL_FILE",), of_parts),  # without pgsteal_anon this is no total
                (("PGSCAN_FILE", "PGSCAN_ANON", "PGSTEAL_FILE", "PGSTEAL_ANON"),
                 [("reclaimed", 1, "pgsteal_anon,pgsteal_file"),
                  ("scanned", 1, "pgscan_anon,pgscan_file")])):
            with self.subTest(more):
                self.convert(text=stats(1000, " ".join(
                    f"vmstat {{ key: VMSTAT_{name} value: 1 }}" for name in parts + more)))
                self.assertEqual(self.query(
                    "SELECT quantity, has_memcg, group_concat(name) FROM (SELECT * FROM "
                    "reclaim_counter WHERE in_total ORDER BY name) GROUP BY quantity"),
                                 totals)

    def test_process_memory(self):
        self.convert(text=TREE + "".join(
            f"packet {{ trusted_packet_sequence_id: 4 timestamp: {ts * MS} process_stats "
            f"{{ processes {{ pid: 10 vm_rss_kb: {kb} }} }} }}\n"
            for ts, kb in ((10, 100), (30, 300))))
        self.assertEqual(self.query(
            "SELECT ts / 1000000, dur / 1000000, pid, process_name, size_bytes, change_bytes "
            "FROM process_memory WHERE name = 'mem.rss'"),
                         [(10, 20, 10, "app", 102400, None), (30, 0, 10, "app", 307200, 204800)])


def psi(ts, ms, machine=""):
    return (f"packet {{ trusted_packet_sequence_id: 2 timestamp: {ts * MS} {machine} "
            f"sys_stats {{ psi {{ resource: PSI_RESOURCE_MEMORY_SOME total_ns: {ms * MS} }} "
            f"vmstat {{ key: VMSTAT_PGSCAN_DIRECT value: {ms} }} }} }}\n")


def rss(ts, kb, pid=10, machine=""):
    return (f"packet {{ trusted_packet_sequence_id: 4 timestamp: {ts * MS} {machine} process_stats "
            f"{{ processes {{ pid: {pid} vm_rss_kb: {kb} }} }} }}\n")


class Bounds(Case):
    """Ended slices stay ended, open slices end with their own trace, and machines are not mixed."""

    def test_a_dead_process_has_no_memory(self):
        self.convert(text=TREE + rss(10, 100) + rss(10, 50, 20) + rss(30, 300) + bundle(
            event(40, 10, "sched_process_free { comm: 'app' pid: 10 prio: 1 }")) + rss(90, 60, 20))
        self.assertEqual(
            self.query(
                "SELECT process_name, ts / 1000000, dur / 1000000, size_bytes / 1024 "
                "FROM process_memory ORDER BY upid, ts"),
            [("app", 10, 20, 100), ("app", 30, 10, 300), ("kswapd0", 10, 80, 50),
             ("kswapd0", 90, 0, 60)])
        for at, want in ((35, 350), (50, 50)):
            self.assertEqual(self.query(
                "SELECT sum(size_bytes) / 1024 FROM process_memory WHERE name = 'mem.rss' "
                f"AND ts <= {at * MS} AND ts + dur > {at * MS}"), [(want,)])

    def test_an_end_that_a_poll_saw(self):
        """The end is that of the process that had the pid at last_seen. When a poll reports the
        end, the pid may be free or may belong to another process."""
        ended = ("packet {{ trusted_packet_sequence_id: 4 timestamp: {0} process_stats {{ ended "
                 "{{ pid: {1} last_seen: {2} }} }} }}\n")
        self.convert(text=TREE + rss(10, 100) + rss(10, 50, 20) + rss(90, 60, 20)
                     + ended.format(40 * MS, 10, 30 * MS)
                     + bundle(event(20, 5, "task_newtask { pid: 30 comm: 'new' clone_flags: 0 }"),
                              event(21, 5, "task_newtask { pid: 40 comm: 'newer' clone_flags: 0 }"),
                              event(25, 40, "sched_process_free { comm: 'newer' pid: 40 prio: 1 }"))
                     + ended.format(41 * MS, 30, 10 * MS) + ended.format(42 * MS, 40, 24 * MS)
                     + ended.format(43 * MS, 999, 24 * MS))
        self.assertEqual(
            self.query(
                "SELECT process_name, ts / 1000000, dur / 1000000 FROM process_memory "
                "ORDER BY upid, ts"),
            [("app", 10, 30), ("kswapd0", 10, 80), ("kswapd0", 90, 0)])
        self.assertEqual(
            self.query(
                "SELECT pid, end_ts / 1000000 FROM process WHERE pid IN (10, 20, 30, 40, 999) "
                "ORDER BY pid"),
            [(10, 40), (20, None), (30, None), (40, 25)])

    def test_processes_that_die_in_reclaim(self):
        self.convert(text=TREE + bundle(
            event(10, 11, "mm_vmscan_direct_reclaim_begin { order: 0 }"),
            event(12, 10,
                  "mm_compaction_begin { zone_start: 1 migrate_pfn: 1 free_pfn: 9 zone_end: 10 }"),
            event(15, 11, "sched_process_free { comm: 'worker' pid: 11 prio: 1 }"),
            event(19, 10, "sched_process_free { comm: 'app' pid: 10 prio: 1 }"),
            event(100, 20, "mm_vmscan_kswapd_sleep { }")))
        self.assertEqual(
            self.query("SELECT kind, ts / 1000000, dur / 1000000 FROM reclaim_episode ORDER BY ts"),
            [("direct reclaim", 10, 5), ("compaction", 12, 7)])

    def test_two_traces(self):
        """The second trace begins during the first, and goes on for long."""
        open_ends = bundle(event(210, 11, "mm_vmscan_direct_reclaim_begin { order: 0 }"),
                           event(220, 20, "mm_vmscan_kswapd_wake { nid: 0 order: 0 }"))
        first = TREE + psi(100, 0) + rss(110, 100) + psi(200, 40) + open_ends + psi(300, 130)
        second = TREE + psi(250, 60) + psi(350, 150) + rss(360, 200) + psi(1000, 150)
        self.convert(self.encode(first, "first"), self.encode(second, "second"))
        self.assertEqual(self.query("SELECT trace_id, end_ts / 1000000 FROM machine_bounds"),
                         [(0, 300), (1, 1000)])
        self.assertEqual(
            self.query(
                "SELECT machine_id, ts / 1000000, dur / 1000000, some_stall_ns / 1000000, "
                "direct_reclaims, kswapd_dur / 1000000 FROM pressure_episode"),
            [(0, 100, 200, 130, 1, 80), (1, 250, 100, 90, 0, 0)])
        self.assertEqual(self.query("SELECT kind, dur / 1000000 FROM reclaim_episode ORDER BY ts"),
                         [("direct reclaim", 90), ("kswapd", 80)])
        self.assertEqual(
            self.query("SELECT machine_id, ts / 1000000, dur / 1000000 FROM process_memory"),
            [(0, 110, 190), (1, 360, 640)])
        self.assertEqual(
            self.query("SELECT machine_id, count(*), sum(change) FROM vmstat_rate GROUP BY 1"),
            [(0, 2, 130), (1, 2, 90)])

    def test_several_machines(self):
        guest = "machine_id: 7"
        self.convert(text=TREE + psi(100, 0) + psi(110, 0, guest) + psi(200, 50)
                     + psi(210, 80, guest) + psi(700, 50)
                     + rss(300, 10) + rss(310, 20, 10, guest))
        self.assertEqual(self.query(
            "SELECT machine_id, ts / 1000000, dur / 1000000, some_stall_ns / 1000000 FROM "
            "pressure_episode"), [(0, 100, 100, 50), (1, 110, 100, 80)])
        self.assertEqual(self.query(
            "SELECT machine_id, ts / 1000000, dur / 1000000, size_bytes / 1024 FROM process_memory "
            "ORDER BY ts"), [(0, 300, 400, 10), (1, 310, 390, 20)])

    def test_residency_ends_with_the_file_and_its_trace(self):
        file = ("packet { trusted_packet_sequence_id: 3 timestamp: %d page_residency { files "
                "{ id: 1 path: '/f' device: 1 inode: 2 page_size_bytes: 4096 } "
                "samples { file_id: 1 pages: 100 resident_pages: 10 complete: true revision: 1 "
                "resident_runs: 0 resident_runs: 10 } } }\n")
        gone = ("packet { trusted_packet_sequence_id: 3 timestamp: %d page_residency { samples "
                "{ file_id: 1 gone: true } } }\n")
        self.convert(self.encode(file % (10 * MS) + gone % (30 * MS) + rss(50, 1), "first"),
                     self.encode(file % (20 * MS) + rss(90, 1), "second"))
        rows = self.query(
            "SELECT f.machine_id, o.ts / 1000000, o.dur / 1000000 FROM page_residency_over_time o "
            "JOIN page_residency_file f ON f.id = o.file_id WHERE o.detail = 'exact' ORDER BY 1")
        self.assertEqual(rows, [(0, 10, 20), (1, 20, 70)])

    def steps(self, sql):
        """Returns how many hundred instructions of its virtual machine SQLite runs for a query."""
        with sqlite3.connect(f"file:{self.db}?mode=ro", uri=True) as handle:
            n = 0

            def count():
                nonlocal n
                n += 1
            handle.set_progress_handler(count, 100)
            self.assertTrue(handle.execute(sql).fetchall(), sql)
            return n

    def test_a_question_about_one_thing_reads_that_alone(self):
        tree = "".join(f"processes {{ pid: {pid} ppid: 1 cmdline: 'p{pid}' }} "
                       for pid in range(10, 50))
        readings = "".join(
            f"packet {{ trusted_packet_sequence_id: 4 timestamp: {(i + 1) * MS} process_stats {{ "
            + "".join(f"processes {{ pid: {pid} vm_rss_kb: {i} }} " for pid in range(10, 50))
            + "} }\n"
            for i in range(100))
        vmstat = "".join(stats(i + 1, "".join(f"vmstat {{ key: {key} value: {i} }} "
                                              for key in range(1, 41))) for i in range(100))
        self.convert(
            text=f"packet {{ trusted_packet_sequence_id: 3 timestamp: 1 process_tree {{ {tree} }} "
                 f"}}\n"
            + readings + vmstat)
        for view, conditions in (
                ("process_memory", ("upid = 5 AND name = 'mem.rss'", "pid = 20",
                                    "process_name = 'p20'", "process_name GLOB '*20'")),
                ("vmstat_rate", ("name = 'nr_free_pages'", "name GLOB 'nr_alloc*'"))):
            whole = self.steps(f"SELECT * FROM {view}")
            for condition in conditions:
                self.assertLess(self.steps(f"SELECT * FROM {view} WHERE {condition}"), whole / 8,
                                condition)


def residency(ts, body):
    return (f"packet {{ trusted_packet_sequence_id: 3 timestamp: {ts} page_residency {{ {body} }} "
            f"}}\n")


def sample(revision, resident, *pairs):
    numbers = " ".join(f"resident_runs: {n}" for pair in pairs for n in pair)
    return (f"samples {{ file_id: 1 pages: 100 resident_pages: {resident} complete: true "
            f"revision: {revision} {numbers} }}")


class Pins(Case):
    """A file of 100 pages. 0-9, 20-29, 40-44 and 98-99 are pinned; the pinlist goes on beyond the
    end of the file. A run of pages is a pair: the gap before the run, and its length."""

    def setUp(self):
        super().setUp()
        pins = ((0, 8), (5, 5), (20, 10), (40, 5), (98, 50))
        (self.dir / "pinlist.meta").write_bytes(
            b"".join(struct.pack(">II", a * 4096, n * 4096) for a, n in pins))
        text = (residency(100,
                          'files { id: 1 path: "/data/app/base.apk" device: 5 inode: 6 '
                          'page_size_bytes: 4096 }')
                + residency(100, sample(1, 35, (0, 35)))                      # 0-34
                + residency(200, sample(2, 30, (5, 25), (30, 5)))             # 5-29, 60-64
                + residency(400, sample(3, 25, (0, 10), (5, 10), (35, 5))))   # 0-9, 15-24, 60-64
        text += stats(0, "").replace("timestamp: 0", "timestamp: 700").replace(
            "sys_stats {  }", "sys_stats { num_forks: 1 }")
        self.convert("--pinlist", f"{self.dir}/pinlist.meta=app/base.apk", text=text)

    def test_coverage(self):
        self.assertEqual(self.query(
            "SELECT ts, dur, pinned_pages, resident_pages, resident_percent FROM pin_coverage"),
                         [(100, 100, 27, 20, 74.1), (200, 200, 27, 15, 55.6),
                          (400, 300, 27, 15, 55.6)])

    def test_ranges_are_merged(self):
        self.assertEqual(self.query("SELECT start_page, end_page FROM pin_range"),
                         [(0, 10), (20, 30), (40, 45), (98, 148)])

    def test_evictions(self):
        self.assertEqual(
            self.query("SELECT ts, start_page, end_page FROM pin_eviction ORDER BY 1, 2"),
            [(200, 0, 5), (400, 25, 30)])

    def test_candidates(self):
        rows = self.query(
            "SELECT start_page, end_page, resident_percent FROM pin_candidate ORDER BY 1")
        pages = {page: percent for start, end, percent in rows for page in range(start, end)}
        self.assertEqual({p for p, percent in pages.items() if percent == 100}, set(range(15, 20)))
        self.assertEqual({p for p, percent in pages.items() if percent == 16.7}, set(range(30, 35)))
        self.assertEqual({p for p, percent in pages.items() if percent == 50}, set(range(10, 15)))
        self.assertEqual({p for p, percent in pages.items() if percent == 83.3}, set(range(60, 65)))
        self.assertEqual(len(pages), 20)

    def test_candidates_that_were_read_back(self):
        """60-64 are there at first, go and come back twice; 70-74 come later, go, come; 80-84 come
        only once."""
        text = residency(100,
                         'files { id: 1 path: "/data/app/base.apk" device: 5 inode: 6 '
                         'page_size_bytes: 4096 }')
        for i, runs in enumerate(((60,), (70, 80), (60, 80), (70,), (60, 70))):
            pairs = [(start - end, 5) for start, end in zip(runs, (0, *(run + 5 for run in runs)))]
            text += residency(100 * (i + 1), sample(i + 1, 5 * len(runs), *pairs))
        text += stats(0, "").replace("timestamp: 0", "timestamp: 600").replace(
            "sys_stats {  }", "sys_stats { num_forks: 1 }")
        self.convert("--pinlist", f"{self.dir}/pinlist.meta=app/base.apk", text=text)
        self.assertEqual(self.query(
            "SELECT start_page, end_page, resident_ns, resident_percent, times_resident, "
            "times_evicted, times_read_back FROM pin_candidate ORDER BY 1"),
                         [(60, 65, 300, 60, 3, 2, 2), (70, 75, 300, 60, 3, 1, 1),
                          (80, 85, 200, 40, 2, 1, 0)])

    def test_other_targets_do_not_match(self):
        self.convert("--pinlist", f"{self.dir}/pinlist.meta=ase.apk", self.dir / "trace")
        self.assertEqual(self.query("SELECT * FROM pin_coverage"), [])


class Heaps(Case):
    def test_growth(self):
        self.convert(GOLDEN / "heap_continuous.pftrace")
        rows = self.query(
            "SELECT function, previous_ts IS NULL, self_bytes, growth_bytes, growth_count, "
            "total_bytes FROM heap_growth ORDER BY 1, ts")
        self.assertEqual(rows, [("leaf_a", 1, 65536, 65536, 16, 65536),
                                ("leaf_a", 0, -32768, -32768, -8, 32768),
                                ("leaf_b", 1, 0, 0, 0, 0), ("leaf_c", 0, 12288, 12288, 3, 12288),
                                ("main", 1, 0, 65536, 16, 65536),
                                ("main", 0, 0, -20480, -5, 45056)])

    def test_recursion_counts_once(self):
        (self.dir / "log").write_text(
            "+0,jthread[a], jclass[[I file: <UNKNOWN_FILE>], size[8, hex: 0x8]\n+1,f()\n+2,g()\n"
            "=3,0;1;2;1;2\n3\n3\n=4,0;1\n4\n=5,0\n5\n")
        self.convert(self.dir / "log")
        self.assertEqual(self.query("SELECT * FROM alloc_log_method ORDER BY 2"),
                         [(0, "f()", 1, 3, 8, 24), (0, "g()", 2, 2, 16, 16)])
        self.assertEqual(self.query("SELECT type, samples, bytes FROM alloc_log_type"),
                         [("[I", 4, 32)])
        self.assertEqual(self.query("SELECT thread_name, samples, bytes FROM alloc_log_thread"),
                         [("a", 4, 32)])


class Examples(Case):
    def test_every_example_runs_on_plain_sqlite(self):
        self.convert(GOLDEN / "mm_pressure.pftrace")
        text = (lib.ROOT / "docs" / "views.md").read_text()
        examples = re.findall(r"\n((?:    .*\n)+)", text)
        self.assertGreater(len(examples), 15)
        for sql in examples:
            with self.subTest(sql.strip()):
                self.query(sql)

    def test_every_view_has_an_example_and_every_column_a_meaning(self):
        script = (lib.ROOT / "converter" / "sql" / "memory.sql").read_text()
        examples = "".join(re.findall(r"\n((?:    .*\n)+)",
                                      (lib.ROOT / "docs" / "views.md").read_text()))
        views = re.findall(r"CREATE VIEW (\w+)", script)
        self.assertGreater(len(views), 15)
        for view in views:
            self.assertRegex(examples, rf"\b{view}\b")
            lines = lib.run(lib.MMSQL, "tables", view).stdout.splitlines()[2:]
            self.assertTrue(lines, view)
            for line in lines:
                self.assertGreater(len(line.split()), 2, f"{view}: {line}")


if __name__ == "__main__":
    unittest.main()
