# SPDX-License-Identifier: Apache-2.0
"""Modules of the library about Android's apps: launches, frames, starts of processes, waits for
locks of Java, power rails. The answers are those of trace_processor_shell. The test compares them
if the machine has this program."""
import csv
import io
import os
import shutil
import subprocess
import unittest

import test_library_system as system
from test_library_system import ftrace, packet, text

SHELL = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")
SERVER, APP, OTHER, DRAWER = 5, 6, 7, 66  # DRAWER is a thread of APP
PROCESSES = packet(f"""timestamp: 1 process_tree {{
    processes {{ pid: 1 ppid: 0 cmdline: "init" }}
    processes {{ pid: {SERVER} ppid: 1 cmdline: "system_server" }}
    processes {{ pid: {APP} ppid: 1 cmdline: "com.app" uid: 10001 }}
    processes {{ pid: {OTHER} ppid: 1 cmdline: "com.other" uid: 10002 }}
    threads {{ tid: {DRAWER} tgid: {APP} name: "RenderThread" }} }}""", 2)
METRICS = "MetricsLogger:launchObserverNotify"


def slices(*rows):
    """Slices of threads: (begin, end, thread, process, name)."""
    return [event for begin, end, thread, process, name in rows
            for event in ((begin, thread, text(f"B|{process}|{name}")),
                          (end, thread, text(f"E|{process}")))]


def spans(*rows):
    """Slices of processes: (begin, end, process, name)."""
    return [event for n, (begin, end, process, name) in enumerate(rows)
            for event in ((begin, process, text(f"S|{process}|{name}|{n}")),
                          (end, process, text(f"F|{process}|{name}|{n}")))]


class Case(system.Case):
    def make(self, *events, more=()):
        super().make(PROCESSES, *more, ftrace(*sorted(events, key=lambda event: event[0])))

    def ask(self, module, sql, trace=None):
        rows = super().ask(module, sql, trace)
        if SHELL:
            self.assertEqual(rows, self.peer(module, sql))
        return rows

    def peer(self, module, sql):
        query = self.dir / "query.sql"
        query.write_text(f"INCLUDE PERFETTO MODULE {module};\n{sql}")
        done = subprocess.run([SHELL, "-q", query, self.trace], capture_output=True, text=True,
                              check=True)
        rows = list(csv.reader(io.StringIO(done.stdout)))[1:]
        return [",".join("" if cell == "[NULL]" else cell for cell in row) for row in rows if row]


LAUNCHES = ("SELECT ts, ts_end, dur, dur_without_trampoline, package, startup_type "
            "FROM android_startups")


class Launches(Case):
    KINDS = slices((110, 120, APP, APP, "bindApplication"), (130, 140, APP, APP, "activityStart"),
                   (150, 160, APP, APP, "activityResume"),
                   (1010, 1020, APP, APP, "activityStart"),
                   (1030, 1040, APP, APP, "activityResume"),
                   (2010, 2020, APP, APP, "activityResume"))

    def test_from_the_names_of_android_13(self):
        self.make(*self.KINDS,
                  *spans((100, 500, SERVER, "launchingActivity#1"),
                         (1000, 1500, SERVER, "launchingActivity#2"),
                         (2000, 2500, SERVER, "launchingActivity#3"),
                         (3000, 3500, SERVER, "launchingActivity#4"),
                         (105, 200, SERVER, "launching: com.first"),
                         (210, 450, SERVER, "launching: com.app")),
                  (500, SERVER, text(f"I|{SERVER}|launchingActivity#1:completed-cold:com.app")),
                  (1500, SERVER, text(f"I|{SERVER}|launchingActivity#2:completed:com.app")),
                  (2500, SERVER, text(f"I|{SERVER}|launchingActivity#3:completed-hot:com.app")),
                  (3500, SERVER,
                   text(f"I|{SERVER}|launchingActivity#4:completed-same-process:com.app")))
        self.assertEqual(self.ask("android.startup.startups", LAUNCHES + " ORDER BY ts"),
                         ["100,500,400,240,com.app,cold", "1000,1500,500,500,com.app,warm",
                          "2000,2500,500,500,com.app,hot"])
        self.assertEqual(self.ask("android.startup.startups",
                                  "SELECT startup_id, pid, startup_type "
                                  "FROM android_startup_processes ORDER BY 1"),
                         ["1,6,cold", "2,6,warm", "3,6,hot"])

    def test_from_the_names_of_android_10(self):
        intent, done = METRICS + "IntentStarted", METRICS + "ActivityLaunchFinished"
        self.make(*self.KINDS,
                  *slices((90, 91, SERVER, SERVER, intent), (490, 491, SERVER, SERVER, done),
                          (990, 991, SERVER, SERVER, intent), (1490, 1491, SERVER, SERVER, done),
                          (1990, 1991, SERVER, SERVER, intent)),
                  *spans((100, 500, SERVER, "launching: com.app"),
                         (1000, 1400, SERVER, "launching: com.app"),
                         (2000, 2400, SERVER, "launching: com.app")),
                  (5000, 1, text("I|1|end")))
        self.assertEqual(self.ask("android.startup.startups", "SELECT startup_id, "
                                  + LAUNCHES.removeprefix("SELECT ")),
                         ["0,90,500,410,410,com.app,cold", "1,990,1400,410,410,com.app,warm"])

    def test_hot_ones_of_android_9_end_with_a_frame(self):
        self.make(*self.KINDS,
                  *spans((100, 500, SERVER, "launching: com.app")),
                  *slices((1050, 1060, APP, APP, "Choreographer#doFrame"),
                          (1055, 1090, DRAWER, APP, "DrawFrame"),
                          (2050, 2060, APP, APP, "Choreographer#doFrame"),
                          (2055, 2090, DRAWER, APP, "DrawFrame")))
        self.assertEqual(self.ask("android.startup.startups", LAUNCHES),
                         ["100,500,400,400,com.app,cold", "1030,1090,60,60,com.app,hot",
                          "2010,2090,80,80,com.app,hot"])

    def test_what_happened_meanwhile(self):
        self.make(*self.KINDS,
                  *spans((100, 500, SERVER, "launching: com.app")),
                  *slices((170, 190, APP, APP, "inflate"), (200, 230, DRAWER, APP, "inflate"),
                          (240, 250, APP, APP, "Lcom/app/Shelf;"), (600, 700, APP, APP, "inflate")))
        module = "android.startup.startups"
        self.assertEqual(self.ask(module, "SELECT slice_ts, slice_dur, tid FROM "
                                  "android_slices_for_startup_and_slice_name(0, 'infl*') "
                                  "ORDER BY 1"), ["170,20,6", "200,30,66"])
        self.assertEqual(self.ask(module,
                                  "SELECT android_sum_dur_for_startup_and_slice(0, 'inflate') AS a,"
                                  " android_sum_dur_on_main_thread_for_startup_and_slice(0, "
                                  "'inflate') AS b"), ["50,20"])
        self.assertEqual(self.ask(module, "SELECT slice_name, tid, thread_name "
                                  "FROM android_class_loading_for_startup"),
                         ["Lcom/app/Shelf;,6,"])


    def test_a_car_changes_its_user(self):
        self.make(*spans((90, 95, SERVER, "launching: com.before"),
                         (100, 110, SERVER, "UserController.startUser-10-fg-start-mode-1"),
                         (200, 210, SERVER, "UserController.startUser-11-fg-start-mode-1"),
                         (300, 400, SERVER, "launching: com.home"),
                         (350, 500, SERVER, "finishUserStopped-10-[stopUser]")),
                  *[(ts, 8, text(f"C|8|mem.rss|{rss}"))
                    for ts, rss in ((205, 1000), (300, 5000), (390, 4000), (450, 9000))],
                  (210, 0, 'sched_switch { prev_comm: "x" prev_pid: 0 next_comm: "y" '
                   'next_pid: 8 }'),
                  (250, 8, 'sched_switch { prev_comm: "y" prev_pid: 8 prev_state: 1 '
                   'next_comm: "x" next_pid: 0 }'),
                  more=[packet('timestamp: 1 process_tree { processes { pid: 8 ppid: 1 '
                               'cmdline: "of.user10" uid: 1000010 } }', 2)])
        self.assertEqual(
            self.ask("android.auto.multiuser",
                     "SELECT event_end_name, user_id, total_cpu_time, total_memory_usage_kb FROM "
                     "android_auto_multiuser_timing_with_previous_user_resource_usage ORDER BY 1"),
            ["com.home,10,40,4", "finishUserStopped-10-[stopUser],10,40,9"])
        self.assertEqual(
            self.ask("android.auto.multiuser",
                     "SELECT event_start_user_id, event_start_time, event_end_time, "
                     "event_end_name, event_start_name, duration "
                     "FROM android_auto_multiuser_timing ORDER BY event_end_time"),
            ["11,200,400,com.home,UserController.startUser-11-fg-start-mode-1,200",
             "11,200,500,finishUserStopped-10-[stopUser],"
             "UserController.startUser-11-fg-start-mode-1,300"])


class Frames(Case):
    def test_frames_before_android_10(self):
        self.make(*slices((100, 110, APP, APP, "Choreographer#doFrame"),
                          (105, 140, DRAWER, APP, "DrawFrame"),
                          (145, 150, DRAWER, APP, "DrawFrame"),
                          (200, 210, APP, APP, "Choreographer#doFrame"),
                          (300, 310, APP, APP, "Choreographer#doFrame"),
                          (305, 340, DRAWER, APP, "DrawFrame")))
        self.assertEqual(self.ask("android.frames.timeline",
                                  "SELECT frame_id, ts, dur, draw_frame_count, process_name "
                                  "FROM android_frames ORDER BY ts"),
                         ["1,100,50,1,com.app", "2,100,50,1,com.app", "3,300,40,1,com.app"])
        self.assertEqual(self.ask("android.frames.timeline",
                                  "SELECT ts, dur FROM android_first_frame_after(150)"),
                         ["300,40"])

    def test_frames_with_a_timeline(self):
        def shown(ts, token, kind, more):
            return packet(f"timestamp: {ts} frame_timeline_event {{ {kind} {{ {more} }} }}", 3)
        begin = f"display_frame_token: 4 pid: {APP}"
        self.make(*slices((100, 110, APP, APP, "Choreographer#doFrame 41"),
                          (105, 140, DRAWER, APP, "DrawFrame 41"),
                          (205, 210, DRAWER, APP, "DrawFrame 42"),
                          (300, 310, APP, APP, "Choreographer#doFrame - resynced to 43")),
                  more=(shown(90, 41, "expected_surface_frame_start",
                              f"cookie: 1 token: 41 {begin}"),
                        shown(160, 41, "frame_end", "cookie: 1"),
                        shown(95, 41, "actual_surface_frame_start",
                              f'cookie: 2 token: 41 {begin} layer_name: "TX - com.app/Main#7"'),
                        shown(170, 41, "frame_end", "cookie: 2")))
        self.assertEqual(self.ask("android.frames.timeline",
                                  "SELECT frame_id, ts, dur, ts_end, layer_id, layer_name, "
                                  "process_name FROM android_frames_layers"),
                         ["41,95,75,170,7,TX - com.app/Main#7,com.app"])
        self.assertEqual(self.ask("android.frames.timeline",
                                  "SELECT frame_id, ts, dur, actual_frame_timeline_count, "
                                  "draw_frame_count FROM android_frames"), ["41,95,75,1,1"])


class Starts(Case):
    def test_reasons(self):
        self.make(*slices((100, 150, SERVER, SERVER, "Start proc: com.app"),
                          (200, 220, APP, APP, "bindApplication"),
                          (230, 260, APP, APP, "performCreate:com.app.Main"),
                          (270, 280, APP, APP, "broadcastReceiveComp: x"),
                          (300, 340, SERVER, SERVER, "Start proc: com.other"),
                          (400, 430, OTHER, OTHER, "bindApplication")))
        self.assertEqual(self.ask("android.app_process_starts",
                                  "SELECT process_name, pid, intent, reason, proc_start_ts, "
                                  "proc_start_dur, bind_app_ts, bind_app_dur, intent_ts, "
                                  "intent_dur, total_dur FROM android_app_process_starts"),
                         ["com.app,6,com.app.Main,activity,100,50,200,20,230,30,160",
                          "com.other,7,,provider,300,40,400,30,,,130"])

    def test_services_and_broadcasts(self):
        self.make(*slices((100, 150, SERVER, SERVER, "Start proc: com.app"),
                          (200, 220, APP, APP, "bindApplication"),
                          (230, 260, APP, APP,
                           "serviceCreate: {token=1 className=com.app.Sync packageName=com.app}"),
                          (300, 340, SERVER, SERVER, "Start proc: com.other"),
                          (400, 430, OTHER, OTHER, "bindApplication"),
                          (440, 450, OTHER, OTHER, "broadcastReceiveComp: some.action")))
        self.assertEqual(self.ask("android.app_process_starts",
                                  "SELECT process_name, intent, reason, total_dur "
                                  "FROM android_app_process_starts"),
                         ["com.app,com.app.Sync,service,160",
                          "com.other, some.action,broadcast,150"])


def wait(owner, tid, holds, waits, n=0):
    return (f"monitor contention with owner {owner} ({tid}) at void {holds}(int)"
            f"({holds}.java:3) waiters={n} blocking from int {waits}(long)({waits}.java:4)")


class Locks(Case):
    def setUp(self):
        super().setUp()
        self.make(*slices((90, 95, APP, APP, "shelf_lock_acquire"),
                          (100, 300, APP, APP,
                           wait("RenderThread", DRAWER, "a.B.hold", "a.B.want")),
                          (310, 320, APP, APP, "shelf_lock_held"),
                          (80, 400, DRAWER, APP, "binder reply"),
                          (90, 350, DRAWER, APP, wait("com.app", 6, "a.C.keep", "a.C.ask", 1)),
                          (100, 110, DRAWER, APP, "Lock contention on a monitor lock"),
                          (500, 510, APP, APP, "monitor contention with nobody")))

    def test_waits(self):
        names = ("short_blocking_method, short_blocked_method, blocking_src, waiter_count, "
                 "blocked_thread_name, blocking_thread_name, blocking_tid, ts, dur, monotonic_dur, "
                 "is_blocked_thread_main, is_blocking_thread_main, binder_reply_ts, "
                 "binder_reply_tid, lock_name")
        self.assertEqual(
            self.ask("android.monitor_contention",
                     f"SELECT blocking_method, blocked_method, {names} "
                     "FROM android_monitor_contention ORDER BY ts"),
            ["void a.C.keep(int),int a.C.ask(long),a.C.keep,a.C.ask,a.C.keep.java:3,1,RenderThread,"
             "com.app,6,90,260,,0,1,80,66,",
             "void a.B.hold(int),int a.B.want(long),a.B.hold,a.B.want,a.B.hold.java:3,0,,"
             "RenderThread,66,100,200,,1,0,,,shelf"])

    def test_waits_for_those_who_wait(self):
        self.assertEqual(self.ask("android.monitor_contention",
                                  "SELECT c.ts, p.ts AS parent, k.ts AS child "
                                  "FROM android_monitor_contention_chain c "
                                  "LEFT JOIN slice p ON p.id = c.parent_id "
                                  "LEFT JOIN slice k ON k.id = c.child_id ORDER BY 1"),
                         ["90,,100", "100,90,"])

    def test_what_the_owner_did(self):
        self.make(*slices((1000, 1400, APP, APP,
                           wait("RenderThread", DRAWER, "a.B.hold", "a.B.want"))),
                  (950, DRAWER, f'sched_switch {{ prev_comm: "x" prev_pid: 0 prev_state: 0 '
                   f'next_comm: "RenderThread" next_pid: {DRAWER} }}'),
                  (1100, DRAWER, f'sched_switch {{ prev_comm: "RenderThread" prev_pid: {DRAWER} '
                   'prev_state: 2 next_comm: "x" next_pid: 0 }'),
                  (1300, DRAWER, f'sched_waking {{ pid: {DRAWER} comm: "RenderThread" }}'),
                  (1350, DRAWER, f'sched_switch {{ prev_comm: "x" prev_pid: 0 prev_state: 0 '
                   f'next_comm: "RenderThread" next_pid: {DRAWER} }}'),
                  (1500, DRAWER, f'sched_switch {{ prev_comm: "RenderThread" prev_pid: {DRAWER} '
                   'prev_state: 1 next_comm: "x" next_pid: 0 }'))
        self.assertEqual(self.ask("android.monitor_contention",
                                  "SELECT thread_state, thread_state_dur, thread_state_count FROM "
                                  "android_monitor_contention_chain_thread_state_by_txn "
                                  "ORDER BY 2"),
                         ["R,50,1", "Running,150,2", "D,200,1"])
        self.assertEqual(self.ask("android.monitor_contention",
                                  "SELECT length(pprof) > 0 AS x FROM "
                                  "android_monitor_contention_graph((SELECT upid FROM process "
                                  "WHERE pid = 6))"), ["1"])


class Rails(Case):
    def test_energy(self):
        def rails(ts, *values):
            return packet(f"timestamp: {ts} power_rails {{ " + " ".join(
                f"energy_data {{ index: {n} timestamp_ms: {ts // 1_000_000} energy: {value} }}"
                for n, value in enumerate(values)) + " }", 3)
        self.make((1, 1, text("I|1|begin")), (9_000_000_000, 1, text("I|1|end")), more=(
            packet('timestamp: 1 power_rails { rail_descriptor { index: 0 rail_name: "S1M" '
                   'subsys_name: "cpu" sampling_rate: 1 } rail_descriptor { index: 1 '
                   'rail_name: "L2S_VDD" subsys_name: "display" sampling_rate: 1 } }', 3),
            rails(1_000_000_000, 1000, 7), rails(2_000_000_000, 6000, 7),
            rails(4_000_000_000, 9000, 27)))
        self.assertEqual(self.ask("android.power_rails",
                                  "SELECT ts, dur, power_rail_name, raw_power_rail_name, "
                                  "CAST(energy_since_boot AS INT) AS a, "
                                  "CAST(energy_since_boot_at_end AS INT) AS b, "
                                  "CAST(average_power AS INT) AS c, "
                                  "CAST(energy_delta AS INT) AS d "
                                  "FROM android_power_rails_counters "
                                  "WHERE raw_power_rail_name = 'S1M' ORDER BY ts"),
                         ["1000000000,1000000000,power.S1M_uws,S1M,1000,6000,5,",
                          "2000000000,2000000000,power.S1M_uws,S1M,6000,9000,1,5000",
                          "4000000000,5000000000,power.S1M_uws,S1M,9000,,,3000"])
        self.assertEqual(self.ask("android.power_rails",
                                  "SELECT power_rail_name, raw_power_rail_name, friendly_name, "
                                  "subsystem_name, machine_id FROM android_power_rails_metadata "
                                  "ORDER BY 2"),
                         ["power.L2S_VDD_uws,L2S_VDD,,display,0", "power.S1M_uws,S1M,,cpu,0"])


class Apps(Case):
    def counters(self, *rows):
        """Counters of processes: (ts, process, name, value)."""
        return [(ts, process, text(f"C|{process}|{name}|{value}"))
                for ts, process, name, value in rows]

    def test_bitmaps(self):
        self.make(*self.counters((100, APP, "Bitmap Memory", 1000), (110, APP, "Bitmap Count", 1),
                                 (200, APP, "Bitmap Memory", 3000), (205, APP, "Bitmap Count", 2),
                                 (300, OTHER, "Bitmap Memory", 7)))
        self.assertEqual(
            self.ask("android.bitmaps", "SELECT ts, dur, CAST(value AS INTEGER) AS v FROM "
                     "android_bitmap_memory ORDER BY ts"),
            ["100,100,1000", "200,100,3000", "300,0,7"])
        self.assertEqual(
            self.ask("android.bitmaps",
                     "SELECT process_name, ts, dur, CAST(bitmap_memory AS INTEGER) AS m, "
                     "CAST(bitmap_count AS INTEGER) AS n FROM "
                     "android_bitmap_counters_per_process ORDER BY ts"),
            ["com.app,110,90,1000,1", "com.app,200,5,3000,1", "com.app,205,95,3000,2"])

    def test_frozen_processes(self):
        self.make(*slices((100, 101, SERVER, SERVER, f"Freeze com.app:{APP} 0"),
                          (200, 201, SERVER, SERVER, f"Unfreeze com.app:{APP} 6"),
                          (250, 251, SERVER, SERVER, f"Freeze com.app:{APP} 0"),
                          (300, 301, SERVER, SERVER, f"Freeze gone:{APP + 50} 0")))
        self.assertEqual(
            self.ask("android.freezer", "SELECT pid, ts, dur, unfreeze_reason_int, "
                     "unfreeze_reason_str FROM android_freezer_events ORDER BY ts"),
            [f"{APP},100,100,6,start_service", f"{APP},250,51,,"])

    def test_the_screen(self):
        self.make(*self.counters((50, SERVER, "other", 0), (100, SERVER, "ScreenState", 2),
                                 (200, SERVER, "ScreenState", 4), (300, SERVER, "ScreenState", 9),
                                 (400, SERVER, "ScreenState", 1)))
        self.assertEqual(
            self.ask("android.screen_state", "SELECT ts, dur, simple_screen_state, "
                     "short_screen_state, screen_state FROM android_screen_state ORDER BY ts"),
            ["50,50,unknown,unknown,Unknown", "100,100,on,on,Screen on",
             "200,100,doze,doze-suspend,Always-on display (doze-suspend)",
             "300,100,unknown,unknown,Unknown"])

    def test_memory_and_frequency_of_gpus(self):
        self.make((100, 0, "gpu_frequency { gpu_id: 1 state: 500 }"),
                  (200, 0, "gpu_frequency { gpu_id: 1 state: 700 }"),
                  (150, APP, f"gpu_mem_total {{ gpu_id: 0 pid: {APP} size: 4096 }}"),
                  (250, APP, f"gpu_mem_total {{ gpu_id: 0 pid: {APP} size: 8192 }}"))
        self.assertEqual(
            self.ask("android.gpu.frequency", "SELECT ts, dur, gpu_id, gpu_freq, prev_gpu_freq, "
                     "next_gpu_freq FROM android_gpu_frequency ORDER BY ts"),
            ["100,100,1,500,,700", "200,50,1,700,500,"])
        self.assertEqual(
            self.ask("android.gpu.memory", "SELECT g.ts, g.dur, p.name, g.gpu_memory FROM "
                     "android_gpu_memory_per_process g JOIN process p USING (upid) ORDER BY g.ts"),
            ["150,100,com.app,4096", "250,1,com.app,8192"])

    def test_names_of_threads(self):
        self.make(*[(100 * n, APP, f'task_newtask {{ pid: {APP + n} comm: "pool-{n}" '
                     'clone_flags: 65536 }') for n in range(1, 5)])
        self.assertEqual(
            self.ask("android.thread",
                     "WITH names(name) AS (VALUES ('RenderThread-1[12]'), ('binder:5543_E'), "
                     "('kworker/u8:1'), ('a b'), (NULL)) "
                     "SELECT android_standardize_thread_name(name) AS n FROM names"),
            ["RenderThread", "binder", "kworker", "a", ""])
        for window, most in ((250, 3), (50, 1)):
            self.assertEqual(
                self.ask("android.thread",
                         "SELECT process_name, max_count_per_sec FROM "
                         f"_android_thread_creation_spam_per_process(NULL, {window}) "
                         "WHERE process_name = 'com.app'"), [f"com.app,{most}"])


if __name__ == "__main__":
    unittest.main()
