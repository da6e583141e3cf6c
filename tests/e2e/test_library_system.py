# SPDX-License-Identifier: Apache-2.0
"""Modules of the library about Android, Linux, the service, call stacks and heaps, on traces made
for the purpose."""
import csv
import io
import pathlib
import re
import shutil
import tempfile
import time
import unittest

import lib

GOLDEN = lib.ROOT / "tests" / "golden"
LIBRARY = lib.ROOT / "converter" / "sql" / "library"
MS = 1_000_000
S = 1_000_000_000
KB = 1024


def packet(body, sequence=1):
    return f"packet {{ trusted_packet_sequence_id: {sequence} {body} }}\n"


def ftrace(*events, cpu=0):
    body = " ".join(f"event {{ timestamp: {ts} pid: {pid} {body} }}" for ts, pid, body in events)
    return packet(f"ftrace_events {{ cpu: {cpu} {body} }}")


def text(words):
    return f'print {{ buf: "{words}\\n" }}'


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="library-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "trace"

    def make(self, *packets):
        self.trace.write_bytes(lib.encode("".join(packets)))

    def ask(self, module, sql, trace=None):
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", trace or self.trace,
                       f"INCLUDE PERFETTO MODULE {module};\n{sql}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [",".join(row) for row in csv.reader(io.StringIO(done.stdout))][1:]


PROCESSES = packet("""timestamp: 1 process_tree {
    processes { pid: 1 ppid: 0 cmdline: "init" } processes { pid: 2 ppid: 0 cmdline: "kthreadd" }
    processes { pid: 3 ppid: 2 cmdline: "kworker/0" }
      processes { pid: 50 ppid: 1 cmdline: "zygote64" }
    processes { pid: 100 ppid: 50 cmdline: "com.app:remote" uid: 10001 }
      processes { pid: 60 ppid: 1 cmdline: "surfaceflinger" uid: 1000 } }""", 2)


def memory(ts, *processes):
    return packet(
        f"timestamp: {ts} process_stats {{ {' '.join(f'processes {{ {p} }}' for p in processes)} "
        f"}}", 2)


class AndroidMemory(Case):
    def setUp(self):
        super().setUp()
        self.make(PROCESSES,
                  packet('timestamp: 2 packages_list { packages { name: "com.app" uid: 10001 '
                         'version_code: 7 } packages { name: "com.google.android.gms" uid: 10002 } '
                         'packages { name: "com.a" uid: 10002 } }', 2),
                  memory(10 * MS, "pid: 50 rss_anon_kb: 10000",
                         "pid: 60 rss_anon_kb: 7 oom_score_adj: -900",
                         "pid: 100 rss_anon_kb: 30000 rss_file_kb: 5000 vm_swap_kb: 1000 "
                         "oom_score_adj: 900"),
                  ftrace((15 * MS, 1, "oom_score_adj_update { oom_score_adj: 0 pid: 100 }"),
                         (30 * MS, 70, text("N|70|lowmemorykiller|lmk,100,3,900"))),
                  memory(20 * MS, "pid: 100 rss_anon_kb: 40000 rss_file_kb: 5000 vm_swap_kb: 1000"),
                  memory(40 * MS, "pid: 100 rss_anon_kb: 20000 rss_file_kb: 5000 vm_swap_kb: 1000"))

    def test_scores(self):
        self.assertEqual(self.ask("android.oom_adjuster",
                                  "SELECT ts, dur, score, bucket, process_name "
                                  "FROM android_oom_adj_intervals WHERE process_name GLOB 'com*' "
                                  "ORDER BY ts"),
                         [f"{10 * MS},{5 * MS},900,cached,com.app:remote",
                          f"{15 * MS},{25 * MS},0,foreground,com.app:remote"])
        names = self.ask("android.oom_adjuster",
                         "SELECT android_oom_adj_score_to_bucket_name(column1), "
                         "android_oom_adj_score_to_detailed_bucket_name(column1, 10001) FROM "
                         "(VALUES (-1000), (-1), (0), (99), (100), (199), (200), (201), (249), "
                         "(250), (899), (900), (950), (NULL))")
        self.assertEqual(names, ["system,native", "system,unknown_app", "foreground,foreground_app",
                                 "foreground,unknown_app", "bfgs,visible_app",
                                 "bfgs,visible_app", "foreground_service,perceptible_app",
                                 "job,perceptible_app", "job,perceptible_medium_app",
                                 "background,perceptible_low_app", "background,service_b",
                                 "cached,cached_app", "cached,cached_app_lmk_first",
                                 ",unknown_app"])

    def test_the_update_before_a_score_explains_it(self):
        self.make(
            packet('timestamp: 1 process_tree { processes { pid: 5 cmdline: "system_server" } '
                   'processes { pid: 6 cmdline: "a" } }', 2),
            ftrace((100, 5, text("B|5|outside")), (110, 5, text("B|5|updateOomAdj_start")),
                   (120, 1, "oom_score_adj_update { oom_score_adj: 5 pid: 6 }"),
                   (130, 5, text("E|5")), (140, 5, text("E|5")),
                   (150, 5, text("B|5|updateOomAdj_end")), (160, 5, text("E|5")),
                   (170, 1, "oom_score_adj_update { oom_score_adj: 6 pid: 6 }"),
                   (200, 5, text("I|5|x"))))
        self.assertEqual(self.ask("android.oom_adjuster",
                                  "SELECT score, oom_adj_ts, oom_adj_dur, oom_adj_reason, "
                                  "oom_adj_trigger FROM android_oom_adj_intervals"),
                         ["5,110,20,start,outside", "6,150,10,end,"])

    def test_kills(self):
        self.assertEqual(self.ask("android.memory.lmk",
                                  "SELECT ts, pid, process_name, oom_score_adj, kill_reason, "
                                  "kill_reason_raw FROM android_lmk_events"),
                         [f"{30 * MS},100,com.app:remote,900,LOW_MEM_AND_SWAP,3"])
        self.assertEqual(self.ask("android.memory.lmk",
                                  "SELECT _android_lmk_kill_reason_string(column1) "
                                  "FROM (VALUES (0), (9), (10), (1000), (2000), (-1), (NULL))"),
                         ["PRESSURE_AFTER_KILL", "DIRECT_RECL_STUCK", "UNKNOWN", "VENDOR_REASON",
                          "UNKNOWN", "UNKNOWN", "UNKNOWN"])

    def test_kills_of_the_first_lmkd(self):
        self.make(PROCESSES, ftrace((10, 1, "oom_score_adj_update { oom_score_adj: 800 pid: 100 }"),
                                    (20, 70, text("C|70|kill_one_process|100")),
                                    (30, 1,
                                     "oom_score_adj_update { oom_score_adj: 900 pid: 100 }")))
        self.assertEqual(self.ask("android.memory.lmk",
                                  "SELECT ts, pid, oom_score_adj, kill_reason, kill_reason_raw "
                                  "FROM android_lmk_events"),
                         ["20,100,800,UNKNOWN,"])

    def test_memory_over_time(self):
        self.assertEqual(self.ask("linux.memory.process",
                                  "SELECT ts, dur, anon_rss / 1024, shmem_rss, rss / 1024, "
                                  "anon_rss_and_swap / 1024, rss_and_swap / 1024 "
                                  "FROM memory_rss_and_swap_per_process WHERE pid = 100 "
                                  "ORDER BY ts"),
                         [f"{10 * MS},{10 * MS},30000,,35000,31000,36000",
                          f"{20 * MS},{20 * MS},40000,,45000,41000,46000",
                          f"{40 * MS},1,20000,,25000,21000,26000"])
        self.assertEqual(self.ask("linux.memory.high_watermark",
                                  "SELECT ts, dur, rss_high_watermark / 1024 FROM "
                                  "memory_rss_high_watermark_per_process "
                                  "WHERE pid = 100 ORDER BY ts"),
                         [f"{10 * MS},{10 * MS},35000", f"{20 * MS},{20 * MS},45000",
                          f"{40 * MS},0,45000"])

    def test_memory_beside_the_score(self):
        rows = self.ask("android.memory.process",
                        "SELECT ts, dur, bucket, anon_rss / 1024 "
                        "FROM memory_oom_score_with_rss_and_swap_per_process WHERE pid = 100 "
                        "AND dur > 1 ORDER BY ts")
        self.assertEqual(rows,
                         [f"{10 * MS},{5 * MS},cached,30000",
                          f"{15 * MS},{5 * MS},foreground,30000",
                          f"{20 * MS},{20 * MS},foreground,40000"])

    def test_the_share_of_the_zygote_is_left_out(self):
        rows = self.ask("android.memory.memory_breakdown",
                        "SELECT pid, ts, value / 1024, zygote_adjusted_value / 1024 FROM "
                        "android_process_memory_intervals "
                        "WHERE memory_track_name = 'mem.rss.anon' ORDER BY pid, ts")
        self.assertEqual(rows, [f"50,{10 * MS},10000,10000", f"60,{10 * MS},7,7",
                                f"100,{10 * MS},30000,20000", f"100,{20 * MS},40000,30000"])
        rows = self.ask("android.memory.memory_breakdown",
                        "SELECT ts, dur, bucket, value / 1024 "
                        "FROM android_process_memory_intervals_by_oom_bucket WHERE pid = 100 "
                        "AND memory_track_name = 'mem.rss.anon' ORDER BY ts")
        self.assertEqual(rows,
                         [f"{10 * MS},{5 * MS},cached,30000",
                          f"{15 * MS},{5 * MS},foreground,30000",
                          f"{20 * MS},{20 * MS},foreground,40000"])

    def test_packages_and_kernel_threads(self):
        self.assertEqual(self.ask("android.process_metadata",
                                  "SELECT pid, package_name, version_code, is_kernel_task FROM "
                                  "android_process_metadata WHERE pid IN (3, 100) ORDER BY pid"),
                         ["3,,,1", "100,com.app,7,0"])
        self.assertEqual(self.ask("android.package_lookup",
                                  "SELECT android_package_lookup(column1) FROM (VALUES (10001), "
                                  "(1010002), (1000), (1093), (0), (10003), (50001), (99999), "
                                  "(NULL))"),
                         ["com.app", "com.google.android.gms", "AID_SYSTEM_USER", "AID_UPROBESTATS",
                          "AID_ROOT", "uid=10003", "SHARED_GID", "ISOLATED_UID", ""])
        self.assertEqual(self.ask("linux.threads",
                                  "SELECT pid, process_name FROM linux_kernel_threads "
                                  "ORDER BY pid"), ["2,kthreadd", "3,kworker/0"])

    def test_shared_buffers(self):
        self.make(PROCESSES,
                  ftrace((10, 100, "dma_heap_stat { inode: 7 len: 4096 total_allocated: 4096 }"),
                         (20, 60, "dma_heap_stat { inode: 7 len: -4096 total_allocated: 0 }"),
                         (30, 60, "dma_heap_stat { inode: 8 len: -10 total_allocated: 0 }")))
        self.assertEqual(self.ask("android.memory.dmabuf", "SELECT ts, buf_size, inode, pid FROM "
                                  "android_dmabuf_allocs"), ["10,4096,7,100", "20,-4096,7,100"])
        self.assertEqual(self.ask("android.memory.dmabuf",
                                  "SELECT ts, value FROM android_memory_cumulative_dmabuf"),
                         ["10,4096", "20,0"])


class Collections(Case):
    def test_what_they_brought_and_cost(self):
        def switch(before, after):
            return (f'sched_switch {{ prev_comm: "a" prev_pid: {before} prev_prio: 120 prev_state: '
                    f'{int(before > 0)} next_comm: "b" next_pid: {after} next_prio: 120 }}')
        self.make(
            packet('timestamp: 1 process_tree { processes { pid: 5 cmdline: "app" } '
                   'processes { pid: 9 cmdline: "system_server" } threads { tid: 6 tgid: 5 '
                   'name: "HeapTaskDaemon" } }', 2),
            packet("system_info { android_sdk_version: 35 }", 2),
            ftrace(*((ms * MS, pid, body) for ms, pid, body in (
                (1000, 5, text("C|5|Heap size (KB)|10000")), (1100, 0, switch(0, 6)),
                (1200, 6, text("B|5|Background young concurrent mark compact GC")),
                (1250, 9, text("S|9|launchingActivity#1|0")),
                (1300, 5, text("C|5|Heap size (KB)|14000")),
                (1350, 9, text("F|9|launchingActivity#1|0")),
                (1351, 9, text("I|9|launchingActivity#1:completed-warm:com.x")),
                (1400, 6, switch(6, 0)), (1450, 0, switch(0, 6)), (1500, 6, text("E|5")),
                (1600, 5, text("C|5|Heap size (KB)|6000")),
                (1700, 6, text("B|5|Explicit concurrent copying GC")), (1800, 6, text("E|5")),
                (1900, 5, text("C|5|Heap size (KB)|8000")), (2000, 6, switch(6, 0))))))
        self.assertEqual(self.ask("android.garbage_collection",
                                  "SELECT gc_type, is_mark_compact, min_heap_mb, max_heap_mb, "
                                  "gc_dur / 1000000, gc_running_dur / 1000000, gc_int_dur / "
                                  "1000000 FROM android_garbage_collection_events"),
                         ["young,1,6.0,14.0,300,250,50", "explicit,0,6.0,8.0,100,100,0"])
        self.assertEqual(self.ask("android.garbage_collection",
                                  "SELECT ts / 1000000, dur / 1000000, heap_allocated_mb, "
                                  "gc_running_dur / 1000000, gc_during_android_startup_dur / "
                                  "1000000, total_android_startup_dur / 1000000 "
                                  "FROM _android_garbage_collection_stats"),
                         ["1000,900,6.0,350,100,100"])


class AndroidPower(Case):
    def test_states(self):
        self.make(ftrace((S, 1, text("C|1000|battery_stats.wifi|1")),
                         (3 * S, 1, text("C|1000|battery_stats.wifi|0")),
                         (2 * S, 1, text('N|1000|battery_stats.top|+top=123:\\"mail\\"')),
                         (4 * S, 1, text('N|1000|battery_stats.top|-top=123:\\"mail\\"')),
                         (5 * S, 1, text('N|1000|battery_stats.job|-job=4:\\"early\\"')),
                         (6 * S, 1, text('N|1000|battery_stats.job|+job=5:\\"late\\"')),
                         (S, 1, text("C|1000|domain@0 Frequency|100")),
                         (2 * S, 1, text("C|1000|domain@0 Frequency|400")),
                         (7 * S, 1, text("I|1|end"))))
        self.assertEqual(self.ask("android.battery_stats",
                                  "SELECT ts, dur, safe_dur, track_name, value, value_name FROM "
                                  "android_battery_stats_state ORDER BY ts"),
                         [f"{S},{2 * S},{2 * S},battery_stats.wifi,1,on",
                          f"{3 * S},-1,{4 * S},battery_stats.wifi,0,off"])
        self.assertEqual(self.ask("android.battery_stats",
                                  "SELECT ts, dur, safe_dur, str_value, int_value FROM "
                                  "android_battery_stats_event_slices ORDER BY int_value"),
                         [f"{S},{4 * S},{4 * S},early,4", f"{6 * S},-1,{S},late,5",
                          f"{2 * S},{2 * S},{2 * S},mail,123"])
        self.assertEqual(self.ask("android.battery_stats",
                                  "SELECT android_battery_stats_counter_to_string(column1, "
                                  "column2) FROM (VALUES ('battery_stats.audio', 1.0), "
                                  "('battery_stats.audio', 2.0), "
                                  "('battery_stats.data_conn', 20.0), "
                                  "('battery_stats.other', 3.0))"),
                         ["active", "unknown", "5G (NR)", "3.0"])
        self.assertEqual(self.ask("android.dvfs",
                                  "SELECT name, min, max, wgt_avg FROM android_dvfs_counter_stats"),
                         ["domain@0 "
                          "Frequency,100.0,400.0,350.0"])
        self.assertEqual(self.ask("android.dvfs",
                                  "SELECT value, dur, round(pct, 1) "
                                  "FROM android_dvfs_counter_residency"),
                         [f"100.0,{S},16.7", f"400.0,{5 * S},83.3"])

    def test_suspended_times(self):
        self.make(ftrace((S, 1, text("I|1|begin")),
                         (2 * S, 1,
                          'suspend_resume { action: "timekeeping_freeze" val: 0 start: 1 }'),
                         (3 * S, 1,
                          'suspend_resume { action: "timekeeping_freeze" val: 0 start: 0 }'),
                         (5 * S, 1, text("I|1|end"))))
        self.assertEqual(self.ask("android.suspend",
                                  "SELECT ts, dur, power_state FROM android_suspend_state"),
                         [f"{S},{S},awake", f"{2 * S},{S},suspended", f"{3 * S},{2 * S},awake"])


    def test_wakelocks(self):
        def held(ts, *ms):
            return packet(
                f"timestamp: {ts} kernel_wakelock_data {{ wakelock_id: 1 wakelock_id: 2 "
                f"{' '.join(f'time_held_millis: {n}' for n in ms)} }}", 7)
        self.make(
            packet("timestamp: 1 sequence_flags: 1 kernel_wakelock_data { wakelock { wakelock_id: "
                   "1 wakelock_name: 'a' wakelock_type: WAKELOCK_TYPE_KERNEL } "
                   "wakelock { wakelock_id: 2 wakelock_name: 'b' wakelock_type: "
                   "WAKELOCK_TYPE_NATIVE } wakelock_id: 1 wakelock_id: 2 time_held_millis: 0 "
                   "time_held_millis: 0 }", 7),
            held(10 * S + 1, 1000, 9000), held(20 * S + 1, 6000, 0),
            ftrace((2 * S, 1, 'suspend_resume { action: "timekeeping_freeze" val: 0 start: 1 }'),
                   (7 * S, 1, 'suspend_resume { action: "timekeeping_freeze" val: 0 start: 0 }')))
        rows = self.ask("android.kernel_wakelocks",
                        "SELECT ts, dur, awake_dur, name, type, held_dur, held_ratio "
                        "FROM android_kernel_wakelocks WHERE name = 'a'")
        self.assertEqual(rows, [f"1,{10 * S},{5 * S},a,kernel,{S},0.2",
                                f"{10 * S + 1},{10 * S},{10 * S},a,kernel,{6 * S},0.6"])


class Processors(Case):
    def setUp(self):
        super().setUp()

        def switch(before, after):
            return (f'sched_switch {{ prev_comm: "a" prev_pid: {before} prev_prio: 120 prev_state: '
                    f'1 next_comm: "b" next_pid: {after} next_prio: 120 }}')
        at = S + S // 2
        self.make(PROCESSES, ftrace((S, 0, "cpu_frequency { state: 1000000 cpu_id: 0 }"),
                                    (S, 0, switch(0, 100)), (S, 100, text("B|100|all of it")),
                                    (S + S // 4, 0, "cpu_frequency { state: 2000000 cpu_id: 0 }"),
                                    (at, 100, text("E|100")), (at, 100, switch(100, 0)),
                                    (at, 0, "cpu_idle { state: 1 cpu_id: 0 }"),
                                    (at + S // 4, 0, "cpu_idle { state: 4294967295 cpu_id: 0 }"),
                                    (at + S // 4 + 10, 0,
                                     'irq_handler_entry { irq: 7 name: "eth" }'),
                                    (at + S // 4 + 30, 0, "irq_handler_exit { irq: 7 ret: 1 }"),
                                    (at + S // 4 + 40, 0, "softirq_entry { vec: 1 }"),
                                    (at + S // 4 + 45, 0, "softirq_exit { vec: 1 }"),
                                    (2 * S, 0, switch(0, 100)), (2 * S + 1, 100, switch(100, 0))))

    def test_frequencies_and_idle_states(self):
        self.assertEqual(self.ask("linux.cpu.frequency",
                                  "SELECT ts, dur, freq, cpu FROM cpu_frequency_counters"),
                         [f"{S},{S // 4},1000000,0", f"{S + S // 4},{3 * S // 4 + 1},2000000,0"])
        self.assertEqual(self.ask("linux.cpu.idle",
                                  "SELECT dur, idle FROM cpu_idle_counters ORDER BY ts"),
                         [f"{S // 4},1", f"{S // 4 + 1},-1"])
        self.assertEqual(self.ask("linux.cpu.idle_stats",
                                  "SELECT cpu, state, count, dur, avg_dur, round(idle_percent, 3) "
                                  "FROM cpu_idle_stats"),
                         [f"0,2,1,{S // 4},{S // 4},50.0"])

    def test_cycles(self):
        columns = "millicycles, megacycles, runtime, min_freq, max_freq, avg_freq"
        want = "750000002000,750,500000001,1000000,2000000,1500000"
        self.assertEqual(self.ask("linux.cpu.utilization.thread_cpu",
                                  f"SELECT {columns} FROM cpu_cycles_per_thread_per_cpu"), [want])
        self.assertEqual(self.ask("linux.cpu.utilization.thread",
                                  f"SELECT {columns} FROM cpu_cycles_per_thread"), [want])
        self.assertEqual(self.ask("linux.cpu.utilization.process",
                                  f"SELECT {columns} FROM cpu_cycles_per_process"), [want])
        self.assertEqual(self.ask("linux.cpu.utilization.system",
                                  f"SELECT {columns} FROM cpu_cycles_per_cpu"), [want])
        half = "250000000000,250,250000000,1000000,1000000,1000000"
        for module, function in (("thread_cpu", "thread_per_cpu"), ("thread", "thread"),
                                 ("process", "process"), ("system", "cpu")):
            self.assertEqual(self.ask(f"linux.cpu.utilization.{module}",
                                      f"SELECT {columns} "
                                      f"FROM cpu_cycles_per_{function}_in_interval({S}, {S // 4})"),
                             [half])
        self.assertEqual(self.ask("linux.cpu.utilization.slice",
                                  "SELECT name, millicycles, megacycles "
                                  "FROM cpu_cycles_per_thread_slice"),
                         ["all of it,750000000000,750"])
        self.assertEqual(self.ask("linux.cpu.utilization.slice",
                                  "SELECT name, millicycles "
                                  f"FROM cpu_cycles_per_thread_slice_in_interval({S}, {S // 4})"),
                         ["all of it,250000000000"])

    def test_shares(self):
        self.assertEqual(self.ask("linux.cpu.utilization.system",
                                  "SELECT ts, utilization, unnormalized_utilization "
                                  "FROM cpu_utilization_per_second"),
                         [f"{S},0.5,0.5", f"{2 * S},1e-09,1e-09"])
        utid = "(SELECT utid FROM thread WHERE tid = 100)"
        self.assertEqual(self.ask("linux.cpu.utilization.thread",
                                  "SELECT ts, utilization "
                                  f"FROM cpu_thread_utilization_per_period({S // 4}, {utid}) LIMIT "
                                  "1"), [f"{S},1.0"])
        self.assertEqual(self.ask("linux.cpu.utilization.process",
                                  f"SELECT u.ts, u.utilization FROM process p, "
                                  "cpu_process_utilization_per_second(p.upid) u "
                                  "WHERE pid = 100 LIMIT 1"),
                         [f"{S},0.5"])

    def test_interrupts(self):
        self.assertEqual(self.ask("linux.irqs",
                                  "SELECT dur, name, is_soft_irq FROM linux_irqs ORDER BY ts"),
                         ["20,IRQ (eth),0", "5,TIMER,1"])

    def test_active_processors(self):
        self.assertEqual(self.ask("android.cpu.cluster_type",
                                  "SELECT count(*) FROM _active_cpu_count_for_cluster_type('big')"),
                         ["0"])

    def test_operations_of_devices(self):
        self.make(ftrace(
            (10, 1, "block_io_start { dev: 271581189 sector: 1 nr_sector: 2 bytes: 3 ioprio: 0 }"),
            (20, 1, "block_io_start { dev: 271581189 sector: 9 nr_sector: 2 bytes: 3 ioprio: 0 }"),
            (30, 1, "block_io_done { dev: 271581189 sector: 1 nr_sector: 2 bytes: 3 ioprio: 0 }"),
            (50, 1, "block_io_done { dev: 271581189 sector: 9 nr_sector: 2 bytes: 3 ioprio: 0 }")))
        self.assertEqual(self.ask("linux.block_io", "SELECT ts, ops_in_queue_or_device FROM "
                                                    "linux_active_block_io_operations_by_device"),
                         ["10,1", "20,2", "30,1", "50,0"])
        self.assertEqual(self.ask(
            "linux.block_io", "SELECT linux_device_major_id(66305), linux_device_minor_id(66305), "
                              "linux_device_minor_id(1048832)"), ["259,1,256"])


class Stacks(Case):
    def setUp(self):
        super().setUp()
        self.make(PROCESSES, packet("""sequence_flags: 1 timestamp: 1000
            trace_packet_defaults { perf_sample_defaults { timebase { frequency: 100
              counter: SW_CPU_CLOCK } followers { counter: HW_INSTRUCTIONS } } }
            interned_data { function_names { iid: 1 str: "main" }
              function_names { iid: 2 str: "_ZN1a4workEv" } build_ids { iid: 1 str: "build" }
              mapping_paths { iid: 1 str: "bin" } mappings { iid: 1 build_id: 1 start: 4096
                end: 8192 path_string_ids: 1 }
              frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: 100 }
                frames { iid: 2 function_name_id: 2 mapping_id: 1 rel_pc: 200 }
              callstacks { iid: 1 frame_ids: 1 }
                callstacks { iid: 2 frame_ids: 1 frame_ids: 2 } }""", 3),
            *(packet(f"sequence_flags: 2 timestamp: {1000 + n} perf_sample {{ cpu: 0 pid: 100 "
                     f"tid: 100 cpu_mode: MODE_USER callstack_iid: {stack} timebase_count: {n} "
                     f"follower_counts: {10 * n} }}", 3) for n, stack in ((1, 1), (2, 2), (3, 2))))

    def test_the_tree_of_samples(self):
        want = ["0,,main,/bin,1,3", "1,0,a::work(),/bin,2,2"]
        columns = "id, parent_id, name, mapping_name, self_count, cumulative_count"
        self.assertEqual(self.ask("linux.perf.samples",
                                  f"SELECT {columns} FROM linux_perf_samples_summary_tree"), want)
        self.assertEqual(self.ask("stacks.cpu_profiling",
                                  f"SELECT {columns} FROM cpu_profiling_summary_tree"), want)
        self.assertEqual(self.ask("stacks.cpu_profiling", "SELECT ts, tid, cpu, source FROM "
                                                          "cpu_profiling_samples"),
                         [f"{1000 + n},100,0,linux.perf" for n in (1, 2, 3)])
        self.assertEqual(self.ask("stacks.symbolization_candidates",
                                  "SELECT module, rel_pc, breakpad_module_id FROM "
                                  "_stacks_symbolization_candidates ORDER BY rel_pc"),
                         ["/bin,100,", "/bin,200,"])

    def test_functions_put_into_others_are_nodes(self):
        with open(self.trace, "ab") as out:
            out.write(lib.encode(packet(
                'module_symbols { path: "/bin" build_id: "build" address_symbols { address: 200 '
                'lines { function_name: "inner" source_file_name: "a.c" line_number: 5 } '
                'lines { function_name: "outer" source_file_name: "b.c" line_number: 6 } } }', 4)))
        self.assertEqual(self.ask("linux.perf.samples",
                                  "SELECT id, parent_id, name, source_file, line_number, "
                                  "self_count, cumulative_count "
                                  "FROM linux_perf_samples_summary_tree"),
                         ["0,,main,,,1,3", "1,2,inner,a.c,5,2,2", "2,0,outer,b.c,6,0,2"])
        self.assertEqual(self.ask("stacks.symbolization_candidates",
                                  "SELECT rel_pc FROM _stacks_symbolization_candidates"), ["100"])
        self.assertEqual(self.ask("callstacks.stack_profile",
                                  "SELECT name, self_value "
                                  "FROM _callstacks_for_callsites_weighted!((SELECT callsite_id, "
                                  "10 AS value FROM perf_sample)) ORDER BY id"),
                         ["main,10", "inner,20", "outer,0"])

    def test_sums_of_any_nodes(self):
        nodes = ("SELECT 7 AS id, NULL AS parent_id, 1 AS self_count UNION ALL SELECT 3, 7, 2 "
                 "UNION ALL SELECT 9, 3, NULL")
        self.assertEqual(self.ask("callstacks.stack_profile",
                                  f"SELECT * FROM _callstacks_self_to_cumulative!(({nodes})) "
                                  "ORDER BY id"),
                         ["3,2", "7,3", "9,0"])
        self.assertEqual(self.ask("callstacks.stack_profile",
                                  "SELECT id, name, self_value "
                                  "FROM _callstacks_for_callsites_weighted!((SELECT callsite_id, "
                                  "0.5 AS value FROM perf_sample UNION ALL SELECT NULL, 1 "
                                  "UNION ALL SELECT 99, 1))"),
                         ["0,main,0.5", "1,a::work(),1.0"])
        self.assertEqual(self.ask("callstacks.stack_profile",
                                  "SELECT id, callsite_id, name, mapping_name, "
                                  "is_leaf_function_in_callsite_frame "
                                  "FROM _callstacks_for_stack_profile_samples!((SELECT 0 AS "
                                  "callsite_id))"), ["0,0,main,/bin,1"])

    def test_code_made_at_run_time_has_the_names_of_its_engine(self):
        code = ('v8_internal_code { v8_isolate_iid: 1 name: "%s" instruction_start: %d '
                'instruction_size_bytes: 16 }')
        self.make(PROCESSES, packet("""sequence_flags: 1 timestamp: 1000 trace_packet_defaults {
            v8_code_defaults { tid: 100 } }
            interned_data { v8_isolate { iid: 1 pid: 100 isolate_id: 7 code_range {
              base_address: 65536 size: 65536 } } }""", 2),
                  packet("sequence_flags: 2 timestamp: 1001 " + code % ("built", 65536 + 16), 2),
                  packet("sequence_flags: 2 timestamp: 1001 " + code % ("early", 65536 + 32), 2),
                  packet("sequence_flags: 2 timestamp: 2000 " + code % ("late", 65536 + 32), 2),
                  packet("""sequence_flags: 1 timestamp: 1000 trace_packet_defaults {
                      perf_sample_defaults { timebase { frequency: 100 counter: SW_CPU_CLOCK } } }
            interned_data { mappings { iid: 1 start: 65536 end: 131072 }
              frames { iid: 1 mapping_id: 1 rel_pc: 20 } frames { iid: 2 mapping_id: 1 rel_pc: 40 }
              callstacks { iid: 1 frame_ids: 1 frame_ids: 2 } }""", 3),
                  *(packet(f"sequence_flags: 2 timestamp: {ts} perf_sample {{ cpu: 0 pid: 100 "
                           f"tid: 100 callstack_iid: 1 }}", 3) for ts in (1500, 2500)))
        self.assertEqual(self.ask("stack_trace.jit",
                                  "SELECT c.function_name, f.rel_pc FROM _jit_frame j "
                                  "JOIN _jit_code c USING (jit_code_id) JOIN stack_profile_frame f "
                                  "ON f.id = j.frame_id ORDER BY f.rel_pc, c.create_ts"),
                         ["built,20", "early,40", "late,40"])
        self.assertEqual(self.ask("linux.perf.samples",
                                  "SELECT name, self_count, cumulative_count "
                                  "FROM linux_perf_samples_summary_tree"),
                         ["V8: built,0,2", "unknown,2,2"])

    def test_counters(self):
        self.assertEqual(self.ask("linux.perf.counters",
                                  "SELECT s.ts, t.name, s.counter_value "
                                  "FROM linux_perf_sample_with_counters s JOIN track t ON t.id = "
                                  "s.track_id ORDER BY s.ts, t.name LIMIT 3"),
                         ["1001,cpu-clock,1.0", "1001,instructions,10.0", "1002,cpu-clock,2.0"])
        self.assertEqual(self.ask("linux.perf.counters",
                                  "SELECT linux_perf_counter_for_sample(id, 'instructions'), "
                                  "linux_perf_counter_for_sample(id, 'x') FROM perf_sample"),
                         ["10.0,", "20.0,", "30.0,"])

    def test_names_for_breakpad(self):
        digits = "0123456789abcdef0123456789abcdef01234567"
        self.assertEqual(self.ask("stacks.symbolization_candidates",
                                  f"SELECT _to_breakpad_module('/a/libchrome.so', '{digits}'), "
                                  f"_to_breakpad_module('/a/libc.so', '{digits}'), "
                                  f"_to_breakpad_module('/a/libchrome.so', '{digits[:39]}')"),
                         ["67452301ab89efcd0123456789abcdef0,,"])

    def test_the_tree_of_allocations(self):
        rows = self.ask("android.memory.heap_profile.summary_tree",
                        "SELECT name, self_size, cumulative_size, self_alloc_size, "
                        "cumulative_alloc_size FROM android_heap_profile_summary_tree "
                        "ORDER BY name", GOLDEN / "heap_continuous.pftrace")
        self.assertEqual(rows, ["leaf_a,32768,32768,65536,65536", "leaf_b,0,0,8192,8192",
                                "leaf_c,12288,12288,12288,12288", "main,0,45056,0,86016"])
        rows = self.ask("android.memory.heap_profile.intervals",
                        "SELECT ts, dur, retained, allocated, delta "
                        "FROM _android_heap_profile_intervals",
                        GOLDEN / "heap_continuous.pftrace")
        self.assertEqual(rows, ["1100000100,0,65536,73728,65536",
                                "1100000101,4999999,12288,12288,-20480"])


# A (1) refers to A (2) and B (3); both refer to B (4). Object 5 is not reachable.
HEAP = packet("""timestamp: 5000 heap_graph { pid: 100 roots { root_type: ROOT_JNI_GLOBAL
    object_ids: 1 }
    objects { id: 1 type_id: 1 self_size: 100 reference_object_id: 2 reference_object_id: 3 }
      objects { id: 2 type_id: 1 self_size: 10 reference_object_id: 4 }
    objects { id: 3 type_id: 2 self_size: 20 reference_object_id: 4 }
      objects { id: 4 type_id: 2 self_size: 30 } objects { id: 5 type_id: 2 self_size: 1 }
    types { id: 1 class_name: "A" } types { id: 2 class_name: "B" superclass_id: 1 }
      heap_bytes_allocated: 999 }""", 5)


class JavaHeap(Case):
    def setUp(self):
        super().setUp()
        self.make(PROCESSES, memory(4900, "pid: 100 rss_anon_kb: 30 oom_score_adj: 900"),
                  packet('timestamp: 5000 art_process_metadata { pid: 100 oom_allocation_size: 12 '
                         'oom_free_bytes_until_oom: 3 }', 5), HEAP)

    def test_the_dump(self):
        self.assertEqual(self.ask("android.memory.heap_graph.heap_graph_stats",
                                  "SELECT graph_sample_ts, total_heap_size, total_obj_count, "
                                  "reachable_heap_size, reachable_obj_count, oom_score_adj, "
                                  "anon_rss_and_swap_size, art_bytes_allocated, "
                                  "is_out_of_memory_error, oome_failing_allocation_size "
                                  "FROM android_heap_graph_stats"),
                         [f"5000,161,5,160,4,900,{30 * KB},999,1,12"])

    def test_the_tree_of_classes(self):
        want = ["A,,2,110,4,160", "B,A,2,50,2,50"]
        self.assertEqual(self.ask("android.memory.heap_graph.class_summary_tree",
                                  "SELECT t.name, p.name, t.self_count, t.self_size, "
                                  "t.cumulative_count, t.cumulative_size "
                                  "FROM android_heap_graph_class_summary_tree t LEFT "
                                  "JOIN android_heap_graph_class_summary_tree p ON p.id = "
                                  "t.parent_id ORDER BY 1"), want)
        self.assertEqual(self.ask("android.memory.heap_graph.dominator_class_tree",
                                  "SELECT name, self_count, self_size FROM "
                                  "_heap_graph_dominator_class_tree ORDER BY 1"),
                         ["A,2,110", "B,2,50"])

    def test_dominators(self):
        self.assertEqual(self.ask("android.memory.heap_graph.dominator_tree",
                                  "SELECT o.self_size, i.self_size, d.dominated_obj_count, "
                                  "d.dominated_size_bytes, d.depth FROM heap_graph_dominator_tree "
                                  "d JOIN heap_graph_object o ON o.id = d.id LEFT "
                                  "JOIN heap_graph_object i ON i.id = d.idom_id ORDER BY 1"),
                         ["10,100,1,10,2", "20,100,1,20,2", "30,100,1,30,2", "100,,4,160,1"])
        self.assertEqual(self.ask("android.memory.heap_graph.heap_graph_class_aggregation",
                                  "SELECT type_name, obj_count, size_bytes, "
                                  "reachable_obj_count, dominated_obj_count, dominated_size_bytes, "
                                  "is_libcore_or_array FROM android_heap_graph_class_aggregation "
                                  "ORDER BY 1"), ["A,2,110,2,4,160,0", "B,3,51,2,2,50,0"])
        names = "('java.util.Map'), ('java.lang.Class<A>'), ('int[]'), ('com.A'), ('j$.x')"
        self.assertEqual(self.ask("android.memory.heap_graph.heap_graph_class_aggregation",
                                  f"SELECT _is_libcore_or_array(column1) FROM (VALUES "
                                  f"{names})"), list("10101"))

    def test_objects_and_what_keeps_them(self):
        self.assertEqual(self.ask("android.memory.heap_graph.object_tree",
                                  "SELECT o.self_size, a.cumulative_size, a.cumulative_count FROM "
                                  "_heap_graph_object_tree_aggregation a "
                                  "JOIN heap_graph_object o ON o.id = a.id ORDER BY 1"),
                         ["1,1,1", "10,40,2", "20,20,1", "30,30,1", "100,160,4"])
        paths = ("_heap_graph_path_hashes, (SELECT path_hash_stable AS path_hash "
                 "FROM _heap_graph_class_tree WHERE name = 'B')")
        for macro, want in (("retained", ["B,2,50"]),
                            ("retaining", ["A,1,10", "A,1,100", "B,2,50"])):
            self.assertEqual(sorted(self.ask("android.memory.heap_graph.class_tree",
                                             f"SELECT class_name, count, total_size FROM "
                                             f"_heap_graph_{macro}_object_count_agg!({paths})")),
                             want)

    def test_what_descends_from_a_class(self):
        self.trace.write_bytes(
            lib.encode((GOLDEN / "imports" / "heap_graph.textproto").read_text()))
        self.assertEqual(self.ask("android.memory.heap_graph.class_relationship",
                                  "SELECT c.name, d.ancestor_class_name FROM "
                                  "android_heap_graph_class_find_descendants!("
                                  "(SELECT id FROM heap_graph_class WHERE name = 'Base')) d "
                                  "JOIN heap_graph_class c USING (id) ORDER BY 1"),
                         ["Base,Base", "Foo,Base"])


class Library(Case):
    def test_clones_of_the_service(self):
        self.make(*(packet(f"timestamp: {ts} service_event {{ {what} }}", 9) for ts, what in (
            (10, "clone_started: true"), (25, "buffer_cloned: 0"), (40, "buffer_cloned: 1"))))
        self.assertEqual(self.ask("traced.stats",
                                  "SELECT buffer_id, duration_ns FROM traced_clone_flush_latency"),
                         ["0,15", "1,30"])

    def test_names_of_devices(self):
        self.assertEqual(self.ask(
            "android.device", "SELECT android_device_name_from_fingerprint(column1) FROM (VALUES "
                              "('google/raven/raven:12/SD1A/77:user/keys'), ('x'), (NULL))",
            GOLDEN / "sched_deflate.pftrace"), ["raven", "", ""])

    def test_each_module_answers_where_a_trace_has_nothing_of_it(self):
        """A trace of two counters: each table and view of each module of these packages can be
        read."""
        files = [path for package in ("android", "callstacks", "linux", "stacks", "traced")
                 for path in sorted((LIBRARY / package).rglob("*.sql"))]
        self.assertGreater(len(files), 40)
        sql = []
        for path in files:
            module = ".".join(path.relative_to(LIBRARY).with_suffix("").parts)
            sql.append(f"INCLUDE PERFETTO MODULE {module};")
            sql += [f"SELECT count(*) FROM {name};" for name in re.findall(
                r"^CREATE PERFETTO (?:TABLE|VIEW) (\w+)", path.read_text(), re.MULTILINE)]
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", "-f", "-",
                       GOLDEN / "counters_tracks.pftrace", input="\n".join(sql))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_each_public_object_is_explained(self):
        for package in ("android", "callstacks", "linux", "stacks", "traced"):
            for path in (LIBRARY / package).rglob("*.sql"):
                lines = path.read_text().splitlines()
                for before, line in zip(lines, lines[1:]):
                    if re.match(r"CREATE PERFETTO (TABLE|VIEW|FUNCTION|MACRO) [a-z]", line):
                        self.assertTrue(before.startswith("-- "), f"{path}: {line}")

    def test_a_long_trace(self):
        """200 processes have 1000 readings each, and a row for their last nanosecond. The module
        takes a few seconds."""
        readings = [memory(MS + n * 1000,
                           *(f"pid: {1000 + pid} rss_anon_kb: {n * pid % 977} "
                             f"rss_file_kb: {n % 13} oom_score_adj: {n % 2 * 900}"
                             for pid in range(200)))
                    for n in range(1000)]
        self.make(*readings)
        begin = time.monotonic()
        self.assertEqual(self.ask("android.memory.process",
                                  "SELECT count(*), count(DISTINCT upid) FROM "
                                  "memory_oom_score_with_rss_and_swap_per_process"), ["200200,200"])
        self.assertLess(time.monotonic() - begin, 120)


if __name__ == "__main__":
    unittest.main()
