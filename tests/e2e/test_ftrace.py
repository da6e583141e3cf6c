# SPDX-License-Identifier: Apache-2.0
"""linux.ftrace on this kernel: the recording agrees with the kernel, losses are reported, nothing
is left in tracefs."""
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import lib
import states

INSTANCES = lib.TRACEFS / "instances"
STATE = pathlib.Path("/run/mmtrace")

# The work of the traced process, after it has read a line: page faults, files, threads, sleeping.
LOAD = """
import mmap, os, sys, tempfile, threading, time
print("ready", flush=True)
sys.stdin.readline()
for round in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]))
    memory = mmap.mmap(-1, 64 * 4096)
    for page in range(64):
        memory[page * 4096] = 1
    memory.close()
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(20000))
        file.flush()
        os.fsync(file.fileno())
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
"""


def config(ftrace, *, size_kb=65536, policy="DISCARD", duration_ms=0, more=""):
    return (f"buffers {{ size_kb: {size_kb} fill_policy: {policy} }}\n"
            f'data_sources {{ config {{ name: "linux.ftrace" ftrace_config {{ {ftrace} }} }} }}\n'
            + (f"duration_ms: {duration_ms}\n" if duration_ms else "") + more)


def events(*names):
    return " ".join(f'ftrace_events: "{name}"' for name in names)


def instances_of(process):
    return [path.name for path in INSTANCES.iterdir()
            if path.name.startswith(f"mmtrace-{process.pid}-")]


def bundles(packets):
    """The bundles of linux.ftrace, without the bundles that only tell the ends of named tasks."""
    found = [p.one("ftrace_events") for p in lib.of_kind(packets, "ftrace_events")]
    return [b for b in found
            if not b.get("event") or any("sched_process_free" not in e for e in b["event"])]


def all_events(packets):
    """(cpu, event) of all bundles."""
    return [(b.one("cpu"), e) for b in bundles(packets) for e in b.get("event", [])]


def body_of(event):
    """The name and the fields of a FtraceEvent."""
    (name,) = set(event) - {"timestamp", "pid", "common_flags"}
    return name, event.one(name)


def stats_of(packets, phase):
    (stats,) = [s for p in lib.of_kind(packets, "ftrace_stats") for s in p["ftrace_stats"]
                if s.one("phase") == phase]
    return stats


class FtraceCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "trace.pftrace"

    def start(self, config_text):
        """Starts a recording that runs until it is stopped. wait_recording() waits until it
        records."""
        path = self.dir / "config.cfg"
        path.write_text(config_text)
        process = subprocess.Popen([lib.MMTRACE, "record", "-c", path, "-o", self.trace],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.kill, process)
        return process

    def wait_recording(self, process, instance=None):
        """Waits until the instance records. Returns the folder of the instance."""
        def found():
            self.assertIsNone(process.poll(), "it ended early")
            for path in INSTANCES.iterdir():
                ours = path.name == instance if instance else path.name.startswith(
                    f"mmtrace-{process.pid}-")
                # A new instance is switched on from the start; the clock that mmtrace sets comes
                # last.
                if ours and lib.tracefs_text(path, "tracing_on") == "1\n":
                    if "[boot]" in lib.tracefs_text(path, "trace_clock"):
                        return path
            return None
        path = lib.wait_for(found, "the instance records")
        self.wait_loop(process)
        lib.wait_for(lambda: lib.tracefs_text(path, "tracing_on") == "1\n", "the instance is on")
        return path

    @staticmethod
    def wait_loop(process):
        """Waits until all sources have started."""
        states.wait_for_recorder(process.pid)
        states.wait_for_loop(process.pid)

    def stop(self, process, sig=signal.SIGTERM):
        process.send_signal(sig)
        output, _ = process.communicate(timeout=60)
        return output

    @staticmethod
    def kill(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for file in (process.stdin, process.stdout):
            if file:
                file.close()

    def record(self, config_text):
        path = self.dir / "config.cfg"
        path.write_text(config_text)
        done = lib.run(lib.MMTRACE, "record", "-c", path, "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def load(self, rounds=5, pause_s=0):
        """Starts a process that waits for a line on standard input before it works."""
        process = subprocess.Popen([sys.executable, "-c", LOAD, str(rounds), str(pause_s)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.kill, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        states.wait_for_state(process.pid, "S")
        return process

    def run_load(self, process):
        process.communicate("go\n", timeout=60)

    @contextlib.contextmanager
    def instance(self, name):
        """Makes a tracefs instance for the test."""
        path = INSTANCES / name
        path.mkdir()
        try:
            yield path
        finally:
            path.rmdir()


FIELD = re.compile(r"(\w+)=(?:0x([0-9a-f]+) \(-?\d+\)|\(0x[0-9a-f]+\)|([^=]*?))(?= \w+=|$)")


def reference(text, pid):
    """The events of a process as the kernel prints them: (event, {field: number or text}) in order
    of time."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*.*-(\d+)\s+\[(\d+)\] \S+\s+(\d+)\.(\d{6}): (\w+): (.*)", line)
        if not match or int(match[1]) != pid:
            continue
        fields = {}
        for name, number, words in FIELD.findall(match[6]):
            if number:
                fields[name] = int(number, 16)
            elif re.search(r" \(-?\d+\)$", words):  # a function's name, then its address
                fields[name] = int(words[words.rindex("(") + 1:-1])
            elif words and not words.startswith("("):
                fields[name] = words
        found.append((int(match[3]) * 10**6 + int(match[4]), int(match[2]), match[5], fields))
    found.sort(key=lambda entry: entry[0])
    return found


def user_dev(dev):
    return os.makedev(dev >> 20, dev & 0xFFFFF)


@lib.needs_root
@lib.needs_tracefs
class SameAsTheKernel(FtraceCase):
    """Compares events that mmtrace recorded with the lines that the kernel prints of them in
    another instance."""

    EVENTS = ["kmem/rss_stat", "kmem/mm_page_alloc", "kmem/kmalloc", "task/task_newtask",
              "block/block_bio_queue",
              "block/block_rq_issue", "filemap/mm_filemap_add_to_page_cache",
              "raw_syscalls/sys_exit",
              "syscalls/sys_enter_openat", "sched/sched_switch", "sched/sched_wakeup_new",
              "signal/signal_deliver"]
    DEVICES = {"dev", "s_dev"}

    def record_both(self, more=""):
        load = self.load()
        with self.instance(f"e2e-{os.getpid()}") as kernel:
            if not (kernel / "options/fields").exists():
                self.skipTest("this kernel does not print fields one by one (needs 6.4)")
            (kernel / "tracing_on").write_text("0")
            (kernel / "trace_clock").write_text("boot")
            (kernel / "buffer_size_kb").write_text("16384")
            (kernel / "options/fields").write_text("1")
            (kernel / "set_event_pid").write_text(str(load.pid))
            known = [name for name in self.EVENTS if (kernel / "events" / name).exists()]
            for name in known:
                (kernel / "events" / name / "enable").write_text("1")
            (kernel / "tracing_on").write_text("1")
            process = self.start(config(events(*known) + f" tids_to_trace: {load.pid} {more}"))
            self.wait_recording(process)
            self.run_load(load)
            self.stop(process)
            (kernel / "tracing_on").write_text("0")
            text = (kernel / "trace").read_text()
        return load.pid, reference(text, load.pid), lib.decode(self.trace)

    def compare(self, name, said, recorded, described):
        """Compares the fields that both have; returns their number."""
        common = [field for field in said if field in recorded]
        for field in common:
            value = said[field]
            got = recorded.one(field)
            if isinstance(got, str) or isinstance(value, str):
                self.assertEqual(str(got), str(value), f"{name}.{field}")
                continue
            if field in self.DEVICES and not described:
                value = user_dev(value)
            self.assertIn((got - value) % 2**32, {0}, f"{name}.{field}: {got} instead of {value}")
        return len(common)

    @staticmethod
    def common_start(*times_us):
        """The two recordings began at different moments, and note an event at slightly different
        times. Returns a moment after both beginnings that follows a while without events."""
        begin = max(times[0] for times in times_us)
        merged = sorted(time for times in times_us for time in times)
        return next(later for earlier, later in zip(merged, merged[1:]) if later > begin
                    and later - earlier > 300)

    def test_field_by_field(self):
        pid, said, packets = self.record_both("compact_sched { enabled: false }")
        descriptors = descriptors_of(packets)
        mine = []
        for cpu, event in all_events(packets):
            if event.one("pid") != pid:
                continue
            name, body = body_of(event)
            described = name.isdigit()
            if described:
                name, body = described_event(descriptors, name, body)
            mine.append((event.one("timestamp") // 1000, cpu, name, body, described))
        mine.sort(key=lambda entry: entry[0])
        first = self.common_start([entry[0] for entry in said], [entry[0] for entry in mine])
        said = [entry for entry in said if entry[0] >= first]
        mine = [entry for entry in mine if entry[0] >= first]
        counts, n_compared = {}, collections.Counter()
        for name in {entry[2] for entry in said}:
            theirs = [entry for entry in said if entry[2] == name]
            ours = [entry for entry in mine if entry[2] == name]
            self.assertEqual(len(ours), len(theirs),
                             f"{name} from {first}: {[e[0] for e in ours]}, "
                             f"{[e[0] for e in theirs]}")
            counts[name] = len(ours)
            for (time_us, cpu, _, fields), (our_time_us, our_cpu, _, body,
                                            described) in zip(theirs, ours):
                # The two buffers read the clock one after the other.
                self.assertLess(abs(our_time_us - time_us), 1000, name)
                self.assertEqual(our_cpu, cpu, name)
                n_compared[name] += self.compare(name, fields, body, described)
        for name in ("rss_stat", "mm_page_alloc", "sys_exit", "sched_switch", "sys_enter_openat",
                     "task_newtask"):
            self.assertGreater(counts.get(name, 0), 3, name)
            self.assertGreaterEqual(n_compared[name], counts[name], name)

    def test_switches_in_columns(self):
        self.EVENTS = ["sched/sched_switch", "sched/sched_waking"]
        pid, said, packets = self.record_both()
        ours = []
        wakings = []
        for bundle in bundles(packets):
            for compact in bundle.get("compact_sched", []):
                names = compact.get("intern_table", [])
                now = 0
                for delta, state, next_pid, prio, comm in zip(
                        compact.get("switch_timestamp", []), compact.get("switch_prev_state", []),
                        compact.get("switch_next_pid", []), compact.get("switch_next_prio", []),
                        compact.get("switch_next_comm_index", [])):
                    now += delta
                    ours.append((now // 1000, state, next_pid, prio, names[comm]))
                now = 0
                for delta, woken, comm in zip(compact.get("waking_timestamp", []),
                                              compact.get("waking_pid", []),
                                              compact.get("waking_comm_index", [])):
                    now += delta
                    wakings.append((now // 1000, woken, names[comm]))
        theirs = [(f["prev_state"], f["next_pid"], f["next_prio"], f["next_comm"])
                  for _, _, name, f in said if name == "sched_switch"]
        ours.sort(key=lambda entry: entry[0])
        # The lines of the kernel's text in `theirs` are switches away from the process.
        self.assertGreater(len(theirs), 3)
        self.assertEqual([entry[1:] for entry in ours if entry[2] != pid], theirs)
        their_wakings = [(f["pid"], f["comm"]) for _, _, name, f in said if name == "sched_waking"]
        wakings = [entry[1:] for entry in sorted(wakings, key=lambda entry: entry[0])]
        self.assertTrue(set(their_wakings) <= set(wakings))


def descriptors_of(packets):
    """The events that the schema does not know: field number -> (name, {field number: (name,
    type)})."""
    found = {}
    for bundle in bundles(packets):
        for descriptor in bundle.get("generic_event_descriptors", []):
            raw = descriptor.one("event_descriptor")
            argv = ["protoc", f"-I{lib.ROOT}", "--decode=perfetto.protos.DescriptorProto",
                    "protos/trace/descriptor.proto"]
            number = str(descriptor.one("field_id"))
            if number in found:
                continue
            text = subprocess.run(argv, input=raw.encode("utf-8", "surrogateescape"),
                                  capture_output=True,
                                  check=True, cwd=lib.ROOT).stdout.decode()
            message = lib.parse_text(text)
            found[number] = (message.one("name"), {
                str(f.one("number")): (f.one("name"), f.one("type")) for f in message["field"]})
    return found


def described_event(descriptors, number, body):
    """Gives the fields their names. Signed numbers arrive as unsigned numbers."""
    name, fields = descriptors[number]
    named = lib.Message()
    for key, values in (body if isinstance(body, lib.Message) else {}).items():
        named[fields[key][0]] = values
    return name, named


@lib.needs_root
@lib.needs_tracefs
class Recording(FtraceCase):
    def test_nothing_is_left_after_sigterm(self):
        process = self.start(config(events("kmem/rss_stat")))
        self.wait_recording(process)
        self.stop(process)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(instances_of(process), [])
        self.assertEqual([p.name for p in STATE.glob(f"ftrace-{process.pid}-*")], [])
        packets = lib.decode(self.trace)
        stats_of(packets, "START_OF_TRACE")
        stats_of(packets, "END_OF_TRACE")

    @lib.needs_program("strace")
    def test_no_file_of_tracefs_is_opened_while_it_records(self):
        """open() waits for the lock of all instances, which another program holds for seconds when
        it makes an instance while memory is short. The names of tasks are of no instance: no lock.
        """
        path, calls = self.dir / "config.cfg", self.dir / "calls"
        path.write_text(config(events("kmem/rss_stat"), duration_ms=1500,
                               more="flush_period_ms: 100\n"))
        done = lib.run("strace", "-f", "-y", "-o", calls, "-e", "trace=open,openat,write,pread64",
                       lib.MMTRACE, "record", "--no-daemon", "-c", path, "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = calls.read_text().splitlines()
        switches = [i for i, line in enumerate(lines)
                    if "write(" in line and "/tracing_on>" in line]
        while_on = lines[switches[-2]:switches[-1]]
        opened = [line for line in while_on if "open" in line and "/tracing/" in line
                  and "/tracing_on" not in line and "/saved_cmdlines" not in line]
        self.assertEqual(opened, [])
        self.assertTrue(any("pread64(" in line and "/stats>" in line for line in while_on))

    def test_the_next_run_cleans_up_after_a_kill(self):
        name = f"mmtest{os.getpid()}"
        named = self.start(config(events("kmem/rss_stat") + f' instance_name: "{name}"'))
        self.wait_recording(named, name)
        own = self.start(config(events("kmem/rss_stat")))
        left = self.wait_recording(own)
        for process in (named, own):
            self.kill(process)
        self.assertTrue(left.exists())
        self.assertTrue((INSTANCES / name).exists())
        self.record(config(events("kmem/rss_stat"), duration_ms=200))
        self.assertFalse(left.exists())
        self.assertFalse((INSTANCES / name).exists())

    def test_somebodys_instance_stays_as_it_was(self):
        with self.instance(f"mmtest{os.getpid()}") as path:
            (path / "buffer_size_kb").write_text("128")
            (path / "trace_clock").write_text("mono")
            (path / "tracing_on").write_text("0")
            (path / "events/kmem/rss_stat/enable").write_text("1")
            files = ["trace_clock", "tracing_on", "buffer_size_kb", "events/kmem/rss_stat/enable",
                     "events/kmem/kfree/enable", "set_event_pid", "tracing_cpumask",
                     "options/irq-info"]
            before = {name: (path / name).read_text() for name in files}
            process = self.start(config(
                events("kmem/rss_stat", "kmem/kfree")
                + f' instance_name: "{path.name}" buffer_size_kb: 512'
                  ' tids_to_trace: 1 tracing_cpumask: "1" tracefs_options { name: "irq-info" '
                  'state: STATE_DISABLED }'))
            self.wait_recording(process, path.name)
            self.assertEqual((path / "events/kmem/kfree/enable").read_text(), "1\n")
            self.assertEqual((path / "options/irq-info").read_text(), "0\n")
            self.stop(process)
            self.assertEqual({name: (path / name).read_text() for name in files}, before)

            # After a crash, the next run removes the instance.
            process = self.start(config(events("kmem/kfree") + f' instance_name: "{path.name}"'))
            self.wait_recording(process, path.name)
            self.kill(process)
            self.assertNotEqual({name: (path / name).read_text() for name in files}, before)
            self.record(config(events("kmem/rss_stat"), duration_ms=200))
            self.assertEqual({name: (path / name).read_text() for name in files}, before)

    def test_losses_are_counted(self):
        load = self.load(rounds=40)
        process = self.start(config(
            events("raw_syscalls/*", "kmem/*") + " buffer_size_kb: 8 drain_period_ms: 5000"))
        self.wait_recording(process)
        self.run_load(load)
        output = self.stop(process)
        packets = lib.decode(self.trace)
        self.assertIn(True, [b.one("lost_events") for b in bundles(packets)])
        overrun = sum(s.one("overrun") for s in stats_of(packets, "END_OF_TRACE")["cpu_stats"])
        self.assertGreater(overrun, 0)
        self.assertRegex(output, r"[\d,]+ events? lost")

    def test_a_full_buffer_loses_nothing_silently(self):
        load = self.load()
        process = self.start(config(events("kmem/*"), size_kb=16))
        self.wait_recording(process)
        self.run_load(load)
        output = self.stop(process)
        self.assertRegex(output, r"[\d,]+ (events )?lost")

    def test_many_events_decode_without_unknown_fields(self):
        load = self.load()
        process = self.start(config(
            events("kmem/*", "sched/*", "vmscan/*", "compaction/*", "syscalls/*", "task/*",
                   "filemap/*", "irq/*",
                   "timer/*", "block/*", "ftrace/print"), size_kb=131072))
        self.wait_recording(process)
        self.run_load(load)
        self.stop(process)
        packets = lib.decode(self.trace)
        descriptors = descriptors_of(packets)
        names = set()
        for _, event in all_events(packets):
            name, body = body_of(event)
            if name.isdigit():
                name, body = described_event(descriptors, name, body)
            elif isinstance(body, lib.Message):
                self.assertEqual([key for key in body if key.isdigit()], [], name)
            names.add(name)
        self.assertGreater(len(names), 60)
        self.assertTrue({"kfree", "rss_stat", "sys_enter_openat", "sched_wakeup_new"} <= names)
        stats = stats_of(packets, "END_OF_TRACE")
        self.assertEqual(stats.get("ftrace_parse_errors", []), [])
        self.assertEqual(stats.get("failed_ftrace_events", []), [])
        self.assertEqual([b.one("error") for b in bundles(packets) if "error" in b], [])

    def test_times_of_a_cpu_do_not_run_backwards(self):
        load = self.load()
        process = self.start(config(events("kmem/*", "raw_syscalls/*") + " drain_period_ms: 20"))
        self.wait_recording(process)
        self.run_load(load)
        self.stop(process)
        ends = {}
        n = 0
        for bundle in bundles(lib.decode(self.trace)):
            cpu = bundle.one("cpu")
            self.assertEqual(bundle.one("previous_bundle_end_timestamp"), ends.get(cpu, 0))
            for event in bundle.get("event", []):
                self.assertGreaterEqual(event.one("timestamp"), ends.get(cpu, 0))
                ends[cpu] = event.one("timestamp")
                n += 1
        self.assertGreater(n, 1000)

    def test_names_in_every_event_if_asked_for(self):
        load = self.load()
        process = self.start(
            config(events("syscalls/sys_enter_openat") + " denser_generic_event_encoding: false"))
        self.wait_recording(process)
        self.run_load(load)
        self.stop(process)
        found = [body_of(event)[1] for _, event in all_events(lib.decode(self.trace))]
        self.assertGreater(len(found), 3)
        for body in found:
            self.assertEqual(body.one("event_name"), "sys_enter_openat")
            self.assertEqual([f.one("name") for f in body["field"]],
                             ["__syscall_nr", "dfd", "filename", "flags", "mode"])

    def test_markers_are_recorded_and_filtered(self):
        switch = lib.TRACEFS / "tracing_on"
        self.addCleanup(switch.write_text, switch.read_text())
        switch.write_text("1")
        process = self.start(config(
            events("ftrace/print") + ' print_filter { rules { prefix: "mmtest no" allow: false }'
            ' rules { atrace_msg { type: "B" prefix: "hidden" } allow: false } }'))
        self.wait_loop(process)
        marker = lib.TRACEFS / "trace_marker"
        for text in ("mmtest yes\n", "mmtest no\n", "B|12|hidden thing\n", "B|12|shown thing\n"):
            marker.write_text(text)
        self.stop(process)
        texts = [body.one("buf")
                 for name, body in (body_of(e) for _, e in all_events(lib.decode(self.trace)))
                 if name == "print"]
        self.assertIn("mmtest yes\n", texts)
        self.assertIn("B|12|shown thing\n", texts)
        self.assertNotIn("mmtest no\n", texts)
        self.assertNotIn("B|12|hidden thing\n", texts)

    def test_pages_of_other_sizes(self):
        with self.instance(f"mmtest{os.getpid()}") as path:
            if not (path / "buffer_subbuf_size_kb").exists():
                self.skipTest("this kernel has sub-buffers of one page only (needs 6.8)")
            (path / "buffer_subbuf_size_kb").write_text("16")
            load = self.load()
            process = self.start(config(events("kmem/*") + f' instance_name: "{path.name}"'))
            self.wait_recording(process, path.name)
            self.run_load(load)
            self.stop(process)
        packets = lib.decode(self.trace)
        self.assertGreater(len(all_events(packets)), 1000)
        stats = stats_of(packets, "END_OF_TRACE")
        self.assertEqual(stats.get("ftrace_parse_errors", []), [])
        self.assertEqual(sum(s.one("entries") for s in stats["cpu_stats"]), 0)

    def test_larger_pages_of_our_own(self):
        """A buffer of mmtrace's own instance has sub-buffers of 16 KiB, unless the buffer has room
        for few of them."""
        page_kb = os.sysconf("SC_PAGESIZE") // 1024
        for size_kb, want in (64, page_kb), (2048, max(16, page_kb)):
            with self.subTest(size_kb=size_kb):
                load = self.load()
                process = self.start(config(events("kmem/*") + f" buffer_size_kb: {size_kb}"))
                self.wait_recording(process)
                [instance] = instances_of(process)
                file = lib.TRACEFS / "instances" / instance / "buffer_subbuf_size_kb"
                if not file.exists():
                    self.skipTest("this kernel has sub-buffers of one page only (needs 6.8)")
                self.assertEqual(int(file.read_text()), want)
                self.run_load(load)
                self.stop(process)
                packets = lib.decode(self.trace)
                self.assertGreater(len(all_events(packets)), 1000)
                stats = stats_of(packets, "END_OF_TRACE")
                self.assertEqual(stats.get("ftrace_parse_errors", []), [])

    def test_another_clock_is_reported_with_a_snapshot(self):
        load = self.load()
        process = self.start(config(events("kmem/rss_stat") + " use_monotonic_raw_clock: true"))
        lib.wait_for(lambda: instances_of(process), "the instance")
        self.wait_loop(process)
        self.run_load(load)
        self.stop(process)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), time.clock_gettime_ns(
            time.CLOCK_BOOTTIME)
        found = bundles(lib.decode(self.trace))
        self.assertGreater(len(found), 0)
        for bundle in found:
            self.assertEqual(bundle.one("ftrace_clock"), "FTRACE_CLOCK_MONO_RAW")
            self.assertLess(abs(now[0] - bundle.one("ftrace_timestamp")), 30e9)
            self.assertLess(abs(now[1] - bundle.one("boot_timestamp")), 30e9)
            # The bundle has both clocks at one moment. Their distance is still the distance now.
            self.assertLess(abs((now[1] - now[0])
                                - (bundle.one("boot_timestamp") - bundle.one("ftrace_timestamp"))),
                            5e7)

    def test_a_buffer_is_read_when_it_fills_up(self):
        if tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < (6, 9):
            self.skipTest("this kernel does not wait for a share of a buffer (needs 6.9)")
        # The timer is too slow on purpose. If the config names no share, the kernel's default
        # (half) counts.
        for size_kb, share in (256, "drain_buffer_percent: 25"), (512, ""):
            with self.subTest(share=share):
                # The rest of the buffer is full after most of a second: the recorder may be late.
                load = self.load(rounds=60 * size_kb // 256, pause_s=0.02)
                process = self.start(config(
                    events("kmem/*")
                    + f" tids_to_trace: {load.pid} buffer_size_kb: {size_kb} {share}"
                      " drain_period_ms: 60000"))
                self.wait_recording(process)
                self.run_load(load)
                self.stop(process)
                stats = stats_of(lib.decode(self.trace), "END_OF_TRACE")
                self.assertGreater(max(s.one("read_events") for s in stats["cpu_stats"]) * 30,
                                   size_kb << 10)
                self.assertEqual(sum(s.one("overrun") for s in stats["cpu_stats"]), 0)

    def test_what_the_main_buffer_holds_already(self):
        if (lib.TRACEFS / "tracing_on").read_text() != "1\n":
            self.skipTest("somebody has switched the main buffer off")
        files = ["trace_clock", "tracing_on", "current_tracer"]
        before = {name: (lib.TRACEFS / name).read_text() for name in files}
        (lib.TRACEFS / "trace_marker").write_text("mmtest before\n")
        self.record(config(events("ftrace/print") + " preserve_ftrace_buffer: true",
                           duration_ms=300))
        self.assertEqual({name: (lib.TRACEFS / name).read_text() for name in files}, before)
        packets = lib.decode(self.trace)
        self.assertIn("mmtest before\n",
                      [body_of(event)[1].one("buf") for _, event in all_events(packets)])
        self.assertTrue(stats_of(packets, "START_OF_TRACE").one("preserve_ftrace_buffer"))

    def test_names_that_do_not_exist(self):
        done = self.record(config(
            events("kmem/rss_stats", "mm_page_aloc", "nogroup/*", "rss_stat") +
            ' kprobe_events { probe: "no such" type: KPROBE_TYPE_KPROBE }', duration_ms=200))
        self.assertIn("did you mean kmem/rss_stat?", done.stderr)
        self.assertIn("did you mean kmem/mm_page_alloc?", done.stderr)
        stats = stats_of(lib.decode(self.trace), "START_OF_TRACE")
        self.assertEqual(stats["unknown_ftrace_events"],
                         ["kmem/rss_stats", "mm_page_aloc", "nogroup/*"])
        self.assertEqual(stats["failed_ftrace_events"], ["perfetto_kprobes/no such"])

    def test_system_calls_by_name(self):
        load = self.load()
        process = self.start(config('syscall_events: "sys_openat" syscall_events: "fsync"'))
        self.wait_recording(process)
        self.run_load(load)
        self.stop(process)
        found = {(name, body.one("id")) for name, body in
                 (body_of(event) for _, event in all_events(lib.decode(self.trace)))}
        self.assertEqual({name for name, _ in found}, {"sys_enter", "sys_exit"})
        self.assertEqual(len({number for _, number in found}), 2)

    def test_functions_get_their_names(self):
        if not pathlib.Path("/proc/kallsyms").exists():
            self.skipTest("this kernel has no kallsyms")
        load = self.load()
        process = self.start(
            config(events("workqueue/workqueue_execute_start") + " symbolize_ksyms: true"))
        self.wait_recording(process)
        self.run_load(load)
        self.stop(process)
        packets = lib.decode(self.trace)
        names = {s.one("iid"): s.one("str") for p in lib.of_kind(packets, "interned_data")
                 for s in p.all("interned_data", "kernel_symbols")}
        used = [body_of(event)[1].one("function") for _, event in all_events(packets)]
        self.assertGreater(len(used), 0)
        real = {line.split()[2] for line in pathlib.Path("/proc/kallsyms").read_text().splitlines()}
        for number in used:
            self.assertIn(names[number], real)


if __name__ == "__main__":
    unittest.main()
