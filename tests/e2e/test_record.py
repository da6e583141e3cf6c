# SPDX-License-Identifier: Apache-2.0
"""mmtrace record: how recordings begin and end, where they are written, and the messages of
failures.

The data source is always linux.sys_stats. It needs no root, and makes about 1 MB a second at a
period of 1 ms.
"""
import fcntl
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import lib
import states

FAST = "sys_stats_config { vmstat_period_ms: 1 }"
SLOW = "sys_stats_config { meminfo_period_ms: 50 meminfo_counters: MEMINFO_MEM_FREE }"
INTO_FILE = "write_into_file: true file_write_period_ms: 100 flush_period_ms: 100\n"
NOBODY = 65534


def config(source=SLOW, *, size_kb=4096, policy="RING_BUFFER", duration_ms=500, more=""):
    return (f"buffers {{ size_kb: {size_kb} fill_policy: {policy} }}\n"
            f'data_sources {{ config {{ name: "linux.sys_stats" {source} }} }}\n'
            + (f"duration_ms: {duration_ms}\n" if duration_ms else "") + more)


def stats_of(packets):
    return lib.of_kind(packets, "trace_stats")[-1].one("trace_stats")


def events_of(packets):
    """The service's events, in order."""
    return [name for p in lib.of_kind(packets, "service_event") for name in p.one("service_event")]


class RecordCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "trace.pftrace"

    def write_config(self, text):
        path = self.dir / "config.cfg"
        path.write_text(text)
        return path

    def record(self, config_text, *args, out=None, program=lib.MMTRACE, **options):
        return lib.run(program, "record", "-c", self.write_config(config_text), "-o",
                       out or self.trace, *args, **options)

    def start(self, config_text, *args, out=None, **options):
        options.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen(
            [str(a) for a in (lib.MMTRACE, "record", "-c", self.write_config(config_text), "-o",
                              out or self.trace, *args)], text=True, **options)
        self.addCleanup(child.stderr.close if child.stderr else lambda: None)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def assert_lasted(self, summary, seconds):
        """The duration is at least `seconds`, and no other limit ended the recording, whatever the
        load."""
        lasted = float(re.search(r": (\d+\.\d) s, ", summary)[1])
        self.assertGreaterEqual(lasted, seconds)
        self.assertLess(lasted, seconds + 20)

    def wait_recording(self, child, n_samples=5):
        """Waits until the child has taken n samples. A sample is one or two reads; some reads come
        before the first sample."""
        states.wait_for_recorder(child.pid, 2 * n_samples + 2)

    def interrupt(self, child):
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 0, child.stderr and child.stderr.read())

    def record_samples(self, n, config_text, *args):
        """Makes a recording of at least n samples, however long they take."""
        child = self.start(config_text.replace("duration_ms: 500\n", ""), *args)
        self.wait_recording(child, n)
        self.interrupt(child)

    def wait_written(self, n_times):
        """Waits until the file has grown n times."""
        for _ in range(n_times):
            size = self.trace.stat().st_size if self.trace.exists() else 0
            lib.wait_for(lambda: self.trace.exists() and self.trace.stat().st_size > size,
                         "the file grows")


class Ending(RecordCase):
    def test_duration(self):
        started = time.monotonic()
        done = self.record(config(duration_ms=700))
        elapsed = time.monotonic() - started
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(elapsed, 0.7)
        self.assertLess(elapsed, 60)
        summary = re.fullmatch(r"mmtrace: \S+/trace\.pftrace: (\d+\.\d) s, (\d+) events, "
                               r"\S+ (?:bytes|KB), (nothing|\d+) (?:events? )?"
                               r"(?:lost|readings? left out: too late)\n(?:  .*\n)*",
                               done.stderr)
        self.assertTrue(summary, done.stderr)
        packets = lib.decode(self.trace)
        times = [p.one("timestamp") for p in lib.of_kind(packets, "sys_stats")]
        self.assertEqual(len(times), int(summary[2]))
        # A busy machine makes the recorder late. The recorder counts the samples that it misses.
        due, would_be = len(times) + int(summary[3].replace("nothing", "0")), (
            times[-1] - times[0]) / 50e6
        self.assertLessEqual(due, would_be + 2)
        self.assertGreater(due, would_be - 10)
        self.assertEqual(events_of(packets), [
            "tracing_started", "all_data_sources_started", "flush_started",
            "all_data_sources_flushed", "tracing_disabled", "read_tracing_buffers_completed"])
        started_at, disabled_at = (
            p.one("timestamp") for p in lib.of_kind(packets, "service_event")
            if p.one("service_event", "tracing_started") or p.one("service_event",
                                                                   "tracing_disabled"))
        self.assertAlmostEqual((disabled_at - started_at) / 1e9, float(summary[1]), delta=5)
        self.assertGreaterEqual((disabled_at - started_at) / 1e9, 0.7)
        self.assertTrue(all(started_at <= t <= disabled_at for t in times))

    def test_time_flag_wins(self):
        done = self.record(config(duration_ms=60000), "-t", "300ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_lasted(done.stderr, 0.3)

    def test_start_delay(self):
        delay = "cmd_trace_start_delay { min_delay_ms: 600 max_delay_ms: 700 }\n"
        started = time.monotonic()
        done = self.record(config(duration_ms=200, more=delay))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(time.monotonic() - started, 0.8)
        self.assert_lasted(done.stderr, 0.2)
        child = self.start(config(more=delay.replace("600", "60000").replace("700", "60000")))
        states.wait_for_recorder(child.pid)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 1)
        self.assertEqual(child.stderr.read(), "mmtrace: interrupted before the recording began\n")
        self.assertFalse(self.trace.exists())

    def end_by(self, number, **options):
        child = self.start(config(duration_ms=0), **options)
        self.wait_recording(child)
        child.send_signal(number)
        self.assertEqual(child.wait(timeout=60), 0)
        packets = lib.decode(self.trace)
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 2)
        self.assertIn("tracing_disabled", events_of(packets))
        self.assertEqual(stats_of(packets).one("final_flush_outcome"), "FINAL_FLUSH_SUCCEEDED")

    def test_interrupt(self):
        self.end_by(signal.SIGINT)

    def test_terminate(self):
        self.end_by(signal.SIGTERM)

    def test_hangup(self):
        # This holds if the suite runs under nohup, too.
        self.end_by(signal.SIGHUP, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))

    def test_nohup(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        child = self.start(config(duration_ms=0), preexec_fn=ignore)
        self.wait_recording(child)
        child.send_signal(signal.SIGHUP)
        self.wait_recording(child)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=60), 0)

    def test_interrupt_of_a_background_job(self):
        # Shells start background jobs with SIGINT ignored, but scripts send SIGINT to them.
        self.end_by(signal.SIGINT,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))

    def test_signals_that_come_together_are_one(self):
        """timeout(1) signals the command, and then its process group."""
        child = self.start(config(FAST, duration_ms=0), "--no-verdict")
        self.wait_recording(child)
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 0)
        self.assertNotIn("interrupted", child.stderr.read())
        self.assertGreater(self.trace.stat().st_size, 0)

    def test_second_interrupt_ends_at_once(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        child = self.start(config(FAST, duration_ms=0), out="-", stdout=writer)
        os.close(writer)
        self.wait_recording(child, 300)  # more than the pipe takes
        child.send_signal(signal.SIGINT)
        lib.wait_for(lambda: fcntl.ioctl(reader, termios.FIONREAD, bytes(4)) != bytes(4),
                     "bytes in the pipe")
        self.assertIsNone(child.poll())  # nobody reads

        def ends():  # a signal right after the first one counts as its repetition
            child.send_signal(signal.SIGINT)
            return child.poll() is not None

        lib.wait_for(ends, "the end")
        self.assertEqual(child.wait(timeout=60), 1)
        self.assertIn("mmtrace: <stdout>: ", child.stderr.read())

    def test_kill_leaves_a_readable_prefix(self):
        for more in (INTO_FILE, INTO_FILE + "compression { deflate {} }"):
            with self.subTest(more):
                child = self.start(config(FAST, duration_ms=0, more=more))
                self.wait_recording(child, 150)
                self.wait_written(2)
                child.kill()
                child.wait()
                packets = lib.decode(self.trace)
                self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 50)
                self.assertEqual(len(lib.of_kind(packets, "trace_config")), 1)
                self.trace.unlink()


class Output(RecordCase):
    def test_standard_output(self):
        done = self.record(config(), out="-", text=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(lib.of_kind(lib.decode(done.stdout), "sys_stats")), 0)
        self.assert_lasted(done.stderr.decode(), 0.5)
        self.assertIn(b"mmtrace: <stdout>: ", done.stderr)

    def test_closed_standard_descriptors(self):
        text = self.write_config(config(duration_ms=100))
        out = self.dir / "closed.pftrace"
        shell = '"$0" record -c "$1" -o "$2" '
        done = lib.run("sh", "-c", shell + "<&- >&- 2>&-", lib.MMTRACE, text, out)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(lib.decode(out))
        done = lib.run("sh", "-c", shell + ">&-", lib.MMTRACE, text, "-", timeout_s=10)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "mmtrace: <stdout>: not open for writing\n")
        done = lib.run("sh", "-c", shell + "<&-", lib.MMTRACE, "-", out, timeout_s=10)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "mmtrace: <stdin>: Bad file descriptor\n"))

    def test_no_clobber(self):
        self.trace.write_text("precious")
        done = self.record(config(), "--no-clobber")
        self.assertEqual(done.returncode, 1)
        self.assertIn("trace.pftrace: exists already", done.stderr)
        self.assertEqual(self.trace.read_text(), "precious")
        self.assertEqual(self.record(config()).returncode, 0)
        self.assertGreater(len(lib.decode(self.trace)), 10)

    def test_output_path_of_the_config(self):
        path = self.write_config(config(more=f'output_path: "{self.trace}"\n'))
        self.assertEqual(lib.run(lib.MMTRACE, "record", "-c", path).returncode, 0)
        self.assertGreater(len(lib.decode(self.trace)), 10)
        again = lib.run(lib.MMTRACE, "record", "-c", path)
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists already", again.stderr)

    def test_the_config_is_not_replaced(self):
        path = self.write_config(config())
        done = lib.run(lib.MMTRACE, "record", "-c", path, "-o", path)
        self.assertEqual(
            (done.returncode, done.stderr),
            (1, f"mmtrace: {path}: the trace would replace the config (choose another name for the "
                "trace)\n"))
        self.assertEqual(path.read_text(), config())

    def test_no_output(self):
        done = lib.run(lib.MMTRACE, "record", "-c", self.write_config(config()))
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "mmtrace: no output file (give one with -o FILE)\n")

    def test_unwritable_places(self):
        for out, message in ((self.dir / "no" / "where", "No such directory"),
                             (self.dir, "Is a directory")):
            with self.subTest(message):
                done = self.record(config(), out=out)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_reader_goes_away(self):
        child = self.start(config(FAST, duration_ms=0, more=INTO_FILE), out="-",
                           stdout=subprocess.PIPE)
        child.stdout.buffer.read(100)
        child.stdout.close()
        self.assertEqual(child.wait(timeout=60), 1)
        self.assertIn("<stdout>: Broken pipe", child.stderr.read())

    def test_slow_reader_gets_everything(self):
        child = self.start(config(FAST, size_kb=16384, duration_ms=0, more=INTO_FILE),
                           out="-", stdout=subprocess.PIPE)
        data, told = bytearray(), False
        while True:
            if not told and states.n_reads(child.pid) > 800:
                child.send_signal(signal.SIGINT)
                told = True
            time.sleep(0.02)
            piece = os.read(child.stdout.fileno(), 16384)
            if not piece:
                break
            data += piece
        child.stdout.close()
        self.assertEqual(child.wait(timeout=60), 0)
        stats = stats_of(lib.decode(bytes(data))).one("buffer_stats")
        self.assertGreater(stats.one("chunks_written"), 300)
        self.assertEqual(stats.one("chunks_overwritten"), 0)

    def test_file_may_not_grow(self):
        limit = 200 * 1024
        done = self.record(
            config(FAST, duration_ms=0, more=INTO_FILE),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("trace.pftrace: File too large", done.stderr)
        self.assertLessEqual(self.trace.stat().st_size, limit)
        self.assertGreater(len(lib.of_kind(lib.decode(self.trace), "sys_stats")), 50)

    @lib.needs_root
    def test_full_disk(self):
        disk = self.dir / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        out = disk / "trace.pftrace"
        done = self.record(config(FAST, duration_ms=0, more=INTO_FILE), out=out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("trace.pftrace: No space left on device", done.stderr)
        self.assertGreater(len(lib.of_kind(lib.decode(out), "sys_stats")), 50)

    def test_vanished_directory(self):
        there = self.dir / "there"
        there.mkdir()
        child = self.start(config(FAST, duration_ms=0, more=INTO_FILE), out=there / "t.pftrace")
        lib.wait_for((there / "t.pftrace").exists, "the file")
        shutil.rmtree(there)
        self.assertEqual(child.wait(timeout=60), 1)
        self.assertIn("t.pftrace: deleted while it was being written", child.stderr.read())


class Buffers(RecordCase):
    def test_ring_keeps_the_newest(self):
        child = self.start(config(FAST, size_kb=64, duration_ms=0))
        self.wait_recording(child, 300)
        late = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.wait_recording(child, 10)
        self.interrupt(child)
        packets = lib.decode(self.trace)
        stats = stats_of(packets).one("buffer_stats")
        self.assertGreater(stats.one("chunks_overwritten"), 100)
        self.assertEqual(stats.one("chunks_discarded"), 0)
        times = [p.one("timestamp") for p in lib.of_kind(packets, "sys_stats")]
        started = min(p.one("timestamp") for p in lib.of_kind(packets, "service_event"))
        # The overwritten packets came before, at 1 ms a packet.
        self.assertGreater((min(times) - started) / 1e6, 100)
        self.assertGreater(max(times), late)

    def test_discard_keeps_the_oldest(self):
        child = self.start(config(FAST, size_kb=64, policy="DISCARD", duration_ms=0))
        states.wait_for_recorder(child.pid)
        states.wait_for_turns(child.pid, 400)  # with a full buffer, the recorder reads nothing more
        self.interrupt(child)
        packets = lib.decode(self.trace)
        stats = stats_of(packets).one("buffer_stats")
        self.assertEqual(stats.one("chunks_overwritten"), 0)
        self.assertGreater(stats.one("chunks_discarded"), 100)
        times = [p.one("timestamp") for p in lib.of_kind(packets, "sys_stats")]
        disabled = max(p.one("timestamp") for p in lib.of_kind(packets, "service_event")
                       if p.one("service_event", "tracing_disabled"))
        # The refused packets came later, at 1 ms a packet.
        self.assertGreater((disabled - max(times)) / 1e6, 100)

    def test_several_buffers(self):
        text = ('buffers { size_kb: 64 name: "small" } buffers { size_kb: 4096 name: "large" }\n'
                'data_sources { config { name: "linux.sys_stats" target_buffer_name: "small"\n'
                f"{FAST} }} }}\n"
                'data_sources { config { name: "linux.sys_stats" target_buffer: 1\n'
                f"{SLOW} }} }}\n")
        self.record_samples(400, text)
        packets = lib.decode(self.trace)
        small, large = stats_of(packets).all("buffer_stats")
        self.assertGreater(small.one("chunks_overwritten"), 100)
        self.assertEqual(large.one("chunks_overwritten"), 0)
        sequences = [p.one("trusted_packet_sequence_id")
                     for p in lib.of_kind(packets, "sys_stats")]
        self.assertEqual(sorted(set(sequences)), [2, 3])
        self.assertEqual(sequences, sorted(sequences))  # buffer after buffer
        self.assertGreater(sequences.count(3), 3)

    def test_deflate_both_spellings(self):
        sizes = {}
        for more in ("", "compression_type: COMPRESSION_TYPE_DEFLATE",
                     "compression { deflate {} }"):
            self.record_samples(300, config(FAST, more=more))
            plain = [p for p in lib.frames(self.trace.read_bytes())]
            n_packets = len(lib.decode(self.trace))
            self.assertGreater(n_packets, 200)
            sizes[more] = self.trace.stat().st_size / n_packets
            if more:
                self.assertLess(len(plain), n_packets / 10)
                self.assertLess(sizes[more], sizes[""] / 4)
        done = self.record(config(more="compression { zstd {} }"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("zstd", done.stderr)

    def test_file_grows_while_recording(self):
        child = self.start(config(FAST, duration_ms=0, more=INTO_FILE))
        sizes = []
        for _ in range(3):
            last = sizes[-1] if sizes else 0
            lib.wait_for(lambda: self.trace.exists() and self.trace.stat().st_size > last + 20000,
                         "the file grows")
            sizes.append(self.trace.stat().st_size)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 0)
        packets = lib.decode(self.trace)
        self.assertEqual(stats_of(packets).one("buffer_stats", "chunks_overwritten"), 0)
        self.assertGreater(stats_of(packets).one("flushes_requested"), 2)

    def test_default_period_writes_nothing_early(self):
        child = self.start(config(FAST, duration_ms=0, more="write_into_file: true\n"))
        started = time.monotonic()
        self.wait_recording(child, 300)
        size = self.trace.stat().st_size
        if time.monotonic() - started < 5:
            self.assertEqual(size, 0)
        self.interrupt(child)
        self.assertGreater(self.trace.stat().st_size, 0)

    def test_maximum_file_size(self):
        done = self.record(config(FAST, duration_ms=20000,
                                  more=INTO_FILE + "max_file_size_bytes: 300000\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the file has its maximum size", done.stderr)
        size = self.trace.stat().st_size
        self.assertLessEqual(size, 300000)
        self.assertGreater(size, 250000)
        self.assertGreater(len(lib.of_kind(lib.decode(self.trace), "sys_stats")), 50)

    def test_size_flag(self):
        done = self.record(config(FAST, duration_ms=20000, more="file_write_period_ms: 100\n"),
                           "-s", "200kb")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(self.trace.stat().st_size, 200 * 1024)


class ServicePackets(RecordCase):
    def test_everything_the_service_writes(self):
        uuid = "trace_uuid_msb: 11 trace_uuid_lsb: -22\n"
        self.assertEqual(self.record(config(more=uuid)).returncode, 0)
        packets = lib.decode(self.trace)
        first_sample = next(i for i, p in enumerate(packets) if "sys_stats" in p)
        head = packets[:first_sample]
        self.assertTrue(all(p.one("trusted_packet_sequence_id") == 1 for p in head))
        kinds = [next(k for k in p if k not in ("trusted_uid", "timestamp",
                                                "trusted_packet_sequence_id")) for p in head]
        self.assertEqual(kinds[:5], ["clock_snapshot", "synchronization_marker", "trace_config",
                                     "trace_uuid", "system_info"])
        clocks = head[0].one("clock_snapshot")
        self.assertEqual(clocks.one("primary_trace_clock"), "BUILTIN_CLOCK_BOOTTIME")
        ids = [c.one("clock_id") for c in clocks.all("clocks")]
        self.assertEqual(ids[:6], [6, 2, 4, 1, 3, 5])
        self.assertIn(ids[6:], ([], [9]))
        self.assertEqual(head[3].one("trace_uuid"), {"msb": [11], "lsb": [-22]})
        info = head[4].one("system_info")
        self.assertEqual(info.one("utsname", "release"), os.uname().release)
        self.assertEqual(info.one("page_size"), resource.getpagesize())
        self.assertEqual(info.one("num_cpus"), os.cpu_count())
        self.assertTrue(info.one("tracing_service_version").startswith("mmtrace "))
        self.assertGreater(info.one("system_ram_bytes"), 1 << 20)
        stats = packets[-1].one("trace_stats")
        samples = lib.of_kind(packets, "sys_stats")
        self.assertEqual(stats.one("buffer_stats", "chunks_read"), len(samples))
        self.assertEqual(stats.one("buffer_stats", "buffer_size"), 4096 * 1024)

    def test_config_goes_into_the_trace(self):
        path = self.write_config(config(more='unique_session_name: "me"\n'))
        self.assertEqual(self.record(path.read_text()).returncode, 0)
        recorded = lib.of_kind(lib.decode(self.trace), "trace_config")[0].one("trace_config")
        self.assertEqual(recorded.one("unique_session_name"), "me")
        self.assertEqual(recorded.one("duration_ms"), 500)
        source = recorded.one("data_sources", "config")
        self.assertEqual(source.one("name"), "linux.sys_stats")
        self.assertEqual(source.one("sys_stats_config", "meminfo_period_ms"), 50)

    def test_stats_at_each_write(self):
        child = self.start(config(FAST, duration_ms=0, more=INTO_FILE))
        self.wait_written(7)
        self.interrupt(child)
        packets = lib.decode(self.trace)
        read = [p.one("trace_stats", "buffer_stats", "chunks_read")
                for p in lib.of_kind(packets, "trace_stats")]
        self.assertGreater(len(read), 6)
        self.assertEqual(read, sorted(read))
        self.assertEqual(len(lib.of_kind(packets, "trace_config")), 1)
        self.assertEqual(len(lib.of_kind(packets, "trace_uuid")), 1)
        self.assertIn("trace_stats", packets[-1])


class CommandLine(RecordCase):
    def expect_usage(self, message, *args):
        done = lib.run(lib.MMTRACE, *args)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_mistakes(self):
        for message, args in (
            ("no command given", []),
            ('unknown command "recrod" (did you mean "record"?)', ["recrod"]),
            ("unknown option --ouput (did you mean --out?)", ["record", "--ouput", "x"]),
            ("unknown option -z", ["record", "-z"]),
            ("-o needs an argument", ["record", "-o"]),
            ("--txt takes no argument", ["record", "--txt=1"]),
            ("--time 5x: not a time", ["record", "-t", "5x"]),
            ("--buffer lots: not a size", ["record", "-b", "lots"]),
            ("nothing to record", ["record", "-o", "x"]),
            ('"vmscan" is not an event', ["record", "vmscan"]),
            ("--out: FILE is empty", ["record", "-o", "", "a/b"]),
            ("--config: FILE is empty", ["record", "-c", ""]),
            ("--upload: ", ["record", "--upload"]),
            ("nothing to record", ["record", "-d"]),
            ("events and --config do not go together", ["record", "-c", "x", "a/b"]),
        ):
            with self.subTest(message):
                self.expect_usage(message, *args)

    def test_help(self):
        for args in (["--help"], ["-h"], ["help"], ["record", "--help"], ["record", "-h"],
                     ["sources", "--help"]):
            with self.subTest(args):
                done = lib.run(lib.MMTRACE, *args)
                self.assertEqual(done.returncode, 0)
                self.assertEqual(done.stderr, "")
                self.assertTrue(done.stdout.startswith("usage: mmtrace"))
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 90)

    def test_nothing_is_recorded_where_no_event_exists(self):
        out = self.dir / "none.pftrace"
        done = lib.run(lib.MMTRACE, "record", "-o", out, "-t", "1s", "nosuch/event", "no\x1b[31m/*")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("linux.ftrace: this kernel has none of the events", done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        self.assertFalse(out.exists())

    def test_one_minimum_for_buffers(self):
        done = lib.run(lib.MMTRACE, "record", "--check", "-b", "3kb", "vmscan/*")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "mmtrace: --buffer: less than the minimum of 4 kB\n")
        self.assertEqual(lib.run(lib.MMTRACE, "record", "--check", "-b", "4kb", "a/b").stderr, "")
        path = self.write_config("buffers { size_kb: 1 }")
        done = lib.run(lib.MMTRACE, "record", "-c", path, "--check")
        self.assertEqual(done.returncode, 0)
        self.assertIn("buffers[0].size_kb: 1 is raised to 4, the minimum", done.stderr)

    def test_files_where_none_can_be_made(self):
        done = lib.run(lib.MMTRACE, "record", "-o", "/proc/x", "-c",
                       self.write_config(config(duration_ms=100)))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "mmtrace: /proc/x: No file can be made there\n")

    def test_names_are_printable(self):
        out = self.dir / "\x1b[31mred"
        done = lib.run(lib.MMTRACE, "record", "-o", out, "-c",
                       self.write_config(config(duration_ms=100)))
        # a message about a missing verdict is printable, too
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(out.exists())
        self.assertIn("?[31mred: ", done.stderr)
        self.assertNotIn("\x1b", done.stderr)

    def test_a_source_without_anything_to_read_is_named_once(self):
        done = lib.run(lib.MMTRACE, "record", "-o", self.trace, "-c", self.write_config(
            'buffers { size_kb: 64 } duration_ms: 100 data_sources { config '
            '{ name: "linux.sys_stats" '
            "sys_stats_config { gpufreq_period_ms: 100 } } }"))
        if done.returncode == 0:
            self.skipTest("this machine has a GPU that tells its frequency")
        self.assertIn("mmtrace: linux.sys_stats: none of the requested counters can be read",
                      done.stderr)

    def test_version_and_sources(self):
        self.assertRegex(lib.run(lib.MMTRACE, "--version").stdout, r"^mmtrace \d+\.\d+\.\d+\n$")
        sources = lib.run(lib.MMTRACE, "sources").stdout
        self.assertRegex(sources, r"(?m)^linux\.sys_stats +\S")

    def test_check_prints_the_config(self):
        path = self.write_config(config(more="compression_type: 1"))
        done = lib.run(lib.MMTRACE, "record", "-c", path, "--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("compression_type: COMPRESSION_TYPE_DEFLATE\n", done.stdout)
        again = self.write_config(done.stdout)
        self.assertEqual(lib.run(lib.MMTRACE, "record", "-c", again, "--dry-run").stdout,
                         done.stdout)
        self.assertEqual(list(self.dir.iterdir()), [again])

    def test_light_flags_make_a_config(self):
        done = lib.run(lib.MMTRACE, "record", "--check", "-t", "5s", "-b", "1mb", "-s", "2mb",
                       "vmscan/*", "kmem/rss_stat")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = lib.parse_text(done.stdout)
        self.assertEqual(made.one("duration_ms"), 5000)
        self.assertEqual(made.one("buffers", "size_kb"), 1024)
        self.assertEqual(made.one("max_file_size_bytes"), 2 << 20)
        self.assertEqual(made.one("write_into_file"), True)
        self.assertEqual(made.all("data_sources", "config", "ftrace_config", "ftrace_events"),
                         ["vmscan/*", "kmem/rss_stat"])

    def test_config_from_stdin_and_binary(self):
        text = config(duration_ms=200)
        for args in (["--txt"], []):
            done = lib.run(lib.MMTRACE, "record", "-c", "-", "-o", self.trace, *args, input=text)
            self.assertEqual(done.returncode, 0, done.stderr)
        binary = lib.encode(text, "perfetto.protos.TraceConfig", "protos/config/trace_config.proto")
        done = lib.run(lib.MMTRACE, "record", "-c", "-", "-o", self.trace, input=binary,
                       text=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(lib.of_kind(lib.decode(self.trace), "sys_stats")), 0)

    def test_bad_configs(self):
        for text, message in (
            ("buffers { size_kb: 64 }\nduratoin_ms: 5\n", r'config\.cfg:2:1: .*duration_ms'),
            ("buffers { size_kb: x }\n", r"config\.cfg:1:20: "),
            ("duration_ms: 100\n", r"buffers"),
            (config().replace("config {", "config { target_buffer: 7", 1), r"target_buffer"),
            ('buffers { size_kb: 64 } data_sources { config { name: "no.such" } }', r"no\.such"),
        ):
            with self.subTest(message):
                done = self.record(text)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, message)
                self.assertTrue(done.stderr.startswith("mmtrace: "), done.stderr)
                self.assertFalse(self.trace.exists())

    def test_quiet(self):
        done = self.record(config(duration_ms=100), "-q")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_progress_on_a_terminal(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        child = self.start(config(duration_ms=0), stderr=terminal)
        os.close(terminal)
        shown, told = b"", False
        while select.select([controller], [], [], 60)[0]:
            if not told and shown.count(b"\r") >= 5:
                child.send_signal(signal.SIGINT)
                told = True
            try:
                piece = os.read(controller, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        self.assertEqual(child.wait(timeout=60), 0)
        lines = shown.decode().split("\r\x1b[K")
        self.assertLess(max(map(len, lines[0].replace("\x1b[K", "").split("\r"))), 40)
        self.assertGreaterEqual(lines[0].count("\r"), 3)
        self.assertRegex(lines[0], r"\d+\.\d s, \d+ events, ")
        self.assertRegex(lines[-1], r"^mmtrace: \S+: \d+\.\d s, ")


@lib.needs_root
class Unprivileged(RecordCase):
    def setUp(self):
        super().setUp()
        # The build may stand in a directory that is closed to others, as root's home is.
        self.dir.chmod(0o777)
        self.program = shutil.copy(lib.MMTRACE, self.dir)

    def record(self, config_text, *args, **options):
        return super().record(config_text, *args, program=self.program, user=NOBODY, group=NOBODY,
                              extra_groups=[], **options)

    def test_sources_without_rights_of_root_are_recorded(self):
        done = self.record(config())
        self.assertEqual(done.returncode, 0, done.stderr)
        packets = lib.decode(self.trace)
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 0)
        self.assertEqual(packets[0].one("trusted_uid"), NOBODY)

    def test_a_left_out_source_fails_the_command(self):
        """The trace has the other sources. The exit code and the last line report the missing
        source."""
        text = (config()
                + 'data_sources { config { name: "linux.ftrace"\nftrace_config { ftrace_events: '
                  '"sched/sched_switch" } } }')
        why = r"linux\.ftrace is not recorded: .*Permission denied \(run as root, .+\)"
        done = self.record(text)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr,
                         fr"^mmtrace: {why}\nmmtrace: .*(lost|late)\n(  .+\n)*mmtrace: {why}\n$")
        self.assertGreater(len(lib.of_kind(lib.decode(self.trace), "sys_stats")), 0)
        done = self.record(text, "--quiet", "--no-daemon")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, fr"^mmtrace: {why}\n$")

    def test_nothing_is_left(self):
        done = self.record('buffers { size_kb: 64 } data_sources { config { name: "linux.ftrace"\n'
                           'ftrace_config { ftrace_events: "sched/sched_switch" } } }\n')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^mmtrace: linux\.ftrace: .*Permission denied \(.+\)\n$")
        self.assertFalse(self.trace.exists())


@lib.needs_tracefs
class KernelEvents(RecordCase):
    def test_light_flags(self):
        done = lib.run(lib.MMTRACE, "record", "-t", "700ms", "-b", "4mb", "-o", self.trace,
                       "irq/softirq_entry", "timer/hrtimer_sta*")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("not recorded", done.stderr)
        packets = lib.decode(self.trace)
        events = [e for p in packets for e in p.all("ftrace_events", "event")]
        self.assertGreater(len([e for e in events if "softirq_entry" in e]), 5)
        self.assertGreater(len([e for e in events if "hrtimer_start" in e]), 5)
        for kind in ("process_tree", "cpu_info", "ftrace_stats"):
            self.assertTrue(lib.of_kind(packets, kind), kind)

    def test_two_at_once(self):
        """Each recording has its own events, and the end of the shorter one does not affect the
        longer one."""
        def start(name, event, duration):
            child = subprocess.Popen([lib.MMTRACE, "record", "-t", duration, "-o",
                                      self.dir / name, event], stderr=subprocess.PIPE, text=True)
            self.addCleanup(child.stderr.close)
            self.addCleanup(child.wait)
            self.addCleanup(child.kill)
            return child
        first = start("first", "irq/softirq_entry", "1500ms")
        second = start("second", "timer/hrtimer_start", "700ms")
        for child in (second, first):
            self.assertEqual(child.wait(timeout=60), 0)
            self.assertNotIn("not recorded", child.stderr.read())
        for name, there, absent in (("first", "softirq_entry", "hrtimer_start"),
                                    ("second", "hrtimer_start", "softirq_entry")):
            events = [e for p in lib.decode(self.dir / name)
                      for e in p.all("ftrace_events", "event")]
            self.assertTrue(any(there in e for e in events), name)
            self.assertFalse(any(absent in e for e in events), name)
        times = [e.one("timestamp") for p in lib.decode(self.dir / "first")
                 for e in p.all("ftrace_events", "event")]
        self.assertGreater((max(times) - min(times)) / 1e9, 1.2)


if __name__ == "__main__":
    unittest.main()
