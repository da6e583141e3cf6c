# SPDX-License-Identifier: Apache-2.0
"""Configs of members of the consumer group: they get no buffers and files of others, no memory of
the kernel without a limit, and take the daemon's loop for a moment only (docs/threat-model.md)."""
import contextlib
import pathlib
import subprocess

import lib
from strangers_member import AT_ONCE_S, UID, Answers, Members

INSTANCES = lib.TRACEFS / "instances"
EXEC = 'ftrace_events: "sched/sched_process_exec" '


def source(name, config, text):
    return f'data_sources {{ config {{ name: "{name}" {config} {{ {text} }} }} }} '


def ftrace(text):
    return source("linux.ftrace", "ftrace_config", text)


def perf(text):
    return source("linux.perf", "perf_event_config", "timebase { frequency: 1 } " + text)


@lib.needs_root
class Configs(Members):
    def record(self, config, code):
        """Records as the member. Returns the messages of the recorder."""
        answers = Answers(self.daemon)
        recorder = self.begin("duration_ms: 1000 " + config)
        said = recorder.communicate(timeout=240)[1]
        self.assertLess(answers.stop(), AT_ONCE_S)
        self.assertEqual(recorder.returncode, code, said)
        return said

    def test_buffers_of_others(self):
        """A member cannot stop root's recording, and cannot take root's events."""
        config = self.dir / "root.cfg"
        config.write_text("buffers { size_kb: 1024 } duration_ms: 600000 "
                          + ftrace(EXEC))
        root = lib.Popen([lib.MMTRACE, "record", "-c", config, "-o", self.dir / "root"],
                         env=self.daemon.env, stderr=subprocess.PIPE, text=True)
        self.addCleanup(root.__exit__, None, None, None)
        self.addCleanup(root.kill)
        instance = lib.wait_for(self.instances, "root's instance")[0]
        lib.wait_for(lambda: (instance / "tracing_on").read_text() == "1\n", "root records")
        for how in (f'instance_name: "{instance.name}" ', 'instance_name: "another" ',
                    "preserve_ftrace_buffer: true ", "enable_function_graph: true "):
            with self.subTest(how):
                said = self.record(ftrace(EXEC + how + "tids_to_trace: 1 "), 1)
                self.assertIn("only root may record them", said)
        self.assertEqual((instance / "tracing_on").read_text(), "1\n")
        self.assertEqual((instance / "set_event_pid").read_text(), "")
        self.assertFalse((INSTANCES / "another").exists())

    def test_options_again_and_again(self):
        options = "".join(f'tracefs_options {{ name: "event-fork" state: STATE_{state} }} '
                          for state in ("ENABLED", "DISABLED") * 100)
        self.record(ftrace(EXEC + "buffer_size_kb: 64 " + options), 0)

    def test_lists_without_end(self):
        for text in (ftrace('ftrace_events: "ext4/*" ' * 600),
                     source("linux.perf_map", "perf_map_config", 'process_cmdlines: "*x*y" ' * 600),
                     ftrace('ftrace_events: "sched/*" ' * 20) * 30):
            with self.subTest(text[:60]):
                self.assertIn("no more than 512 are allowed", self.record(text, 1))

    def test_lists_that_are_long(self):
        program = self.program("import time\nprint('ready', flush=True)\ntime.sleep(300)\n")
        self.record(ftrace('buffer_size_kb: 64 ' + 'ftrace_events: "[a-k]*/*" ' * 500), 0)
        self.record(ftrace("buffer_size_kb: 64 " + EXEC + "".join(
            f'ftrace_events: "unknown{i}" ' for i in range(500))), 0)
        self.record(perf(f"ring_buffer_pages: 8 target_pid: {program.pid} "
                         + f"target_pid: {program.pid} " * 500), 0)

    def test_open_files(self):
        """The trace has the open files of the member's processes, but not those of others. A look
        at very many takes several rounds."""
        program = self.program('''
import os, time
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(900)]
for _ in range(100):
    if os.fork() == 0:
        time.sleep(300)
        os._exit(0)
print("ready", flush=True)
time.sleep(300)
''')
        self.record(source("linux.process_stats", "process_stats_config", """
            resolve_process_fds: true scan_all_processes_on_start: true
            proc_stats_poll_ms: 100"""), 0)
        found = {}
        for packet in lib.of_kind(lib.decode(self.dir / "trace"), "process_stats"):
            for process in packet.one("process_stats").all("processes"):
                found.setdefault(process.one("pid"), []).extend(process.all("fds"))
        with_files = {pid for pid, files in found.items() if files}
        children = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text()
        self.assertTrue(with_files & {program.pid, *map(int, children.split())}, with_files)
        for pid in with_files:
            with contextlib.suppress(FileNotFoundError):  # the recorder has ended
                self.assertEqual(pathlib.Path(f"/proc/{pid}").stat().st_uid, UID)

    def test_memory_of_the_kernel(self):
        said = self.record(perf("ring_buffer_pages: 2048 ") * 8, 1)
        self.assertIn("pages of rings on each processor", said)
        recorder = self.begin("duration_ms: 12000 " + ftrace(EXEC + "buffer_size_kb: 4000000 ") * 4)
        most_kb = 0
        while recorder.poll() is None:
            most_kb = max(most_kb, sum(self.sizes_kb()))
        said = recorder.communicate()[1]
        self.assertEqual(recorder.returncode, 1, said)
        self.assertIn("all of the kernel's buffers that they may have", said)
        self.assertGreater(most_kb, 100 << 10)
        self.assertLess(most_kb, 300 << 10)
        # the daemon gives all of it back
        self.record(perf("ring_buffer_pages: 1024 "), 0)
        self.record(ftrace(EXEC + "buffer_size_kb: 8192 "), 0)

    def instances(self):
        """The folders of the daemon's buffers."""
        prefix = f"mmtrace-{self.daemon.process.pid}-"
        return [path for path in INSTANCES.iterdir() if path.name.startswith(prefix)]

    def sizes_kb(self):
        for path in self.instances():
            with contextlib.suppress(OSError):  # the instance has ended
                yield int((path / "buffer_total_size_kb").read_text())
