# SPDX-License-Identifier: Apache-2.0
"""Short tasks with one id, one after another: each has its own name and its own events, in mmsql
and in trace_processor_shell."""
import contextlib
import ctypes
import os
import struct
import unittest

import lib
import states
from test_ftrace import FtraceCase, INSTANCES, config, events

PR_SET_NAME = 15
SYS_CLONE3 = 435
SIGCHLD = 17
LIBC = ctypes.CDLL(None, use_errno=True)
TRACE_PROCESSOR = os.environ.get("TRACE_PROCESSOR_SHELL")

QUESTION = """
    SELECT t.name, p.pid, count(DISTINCT p.upid), count(*)
    FROM ftrace_event e JOIN thread t USING (utid) JOIN process p USING (upid)
    WHERE e.name = 'print' AND p.pid = {tid} GROUP BY t.name ORDER BY min(e.ts)"""


@contextlib.contextmanager
def freed_tasks():
    """Yields a function that says whether the kernel has reported the free of a task."""
    instance = INSTANCES / f"mmtrace-test-{os.getpid()}"
    instance.mkdir()
    try:
        enable = instance / "events/sched/sched_process_free/enable"
        enable.write_text("1")
        yield lambda tid: f" pid={tid} " in (instance / "trace").read_text()
        enable.write_text("0")
    finally:
        instance.rmdir()


def short_task(name, tid=0):
    """Runs a process that writes one line into the kernel's trace and ends. Returns its id, or 0 if
    another process has the id `tid`. The process inherits its name, so that it never has another
    name."""
    LIBC.prctl(PR_SET_NAME, name.encode())
    if tid:
        ids = (ctypes.c_int32 * 1)(tid)
        arguments = ctypes.create_string_buffer(
            struct.pack("11Q", 0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(ids), 1, 0))
        pid = LIBC.syscall(SYS_CLONE3, arguments, 88)
        if pid < 0:
            return 0
    else:
        pid = os.fork()
    if pid == 0:
        try:
            (lib.TRACEFS / "trace_marker").write_text("I was here")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return pid


def tasks_with_one_id(names):
    """Runs a task of each name, all with one id; returns the id, or 0 if another process got the
    id.

    All run on one processor, so that the recorder reads their events in the order of time.
    """
    processors = os.sched_getaffinity(0)
    with freed_tasks() as is_freed, contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, processors)
        stack.callback(LIBC.prctl, PR_SET_NAME, b"python3")
        os.sched_setaffinity(0, {min(processors)})
        tid = short_task(names[0])
        for name in names[1:]:
            lib.wait_for(lambda: is_freed(tid), "the kernel frees the task")
            if short_task(name, tid) != tid:
                return 0
    return tid


@lib.needs_root
@lib.needs_tracefs
class OneId(FtraceCase):
    NAMES = ("first", "second")

    def record(self, more=""):
        """Returns the id of the tasks that were recorded."""
        recorder = self.start(config(events("ftrace/print"), policy="RING_BUFFER", more=more))
        self.wait_recording(recorder)
        for _ in range(20):
            tid = tasks_with_one_id(self.NAMES)
            if tid:
                break
        self.assertTrue(tid, "no id could be used twice")
        output = self.stop(recorder)
        self.assertEqual(recorder.returncode, 0, output)
        return tid

    def check(self, tid):
        expected = [[name, str(tid), "1", "1"] for name in self.NAMES]
        done = lib.run(lib.MMSQL, "query", "--csv", self.trace, QUESTION.format(tid=tid))
        self.assertEqual([line.split(",") for line in done.stdout.splitlines()[1:]], expected,
                         done.stderr)
        if not TRACE_PROCESSOR:
            return
        done = lib.run(TRACE_PROCESSOR, "-Q", QUESTION.format(tid=tid), self.trace)
        self.assertEqual([[cell.strip('"') for cell in line.split(",")]
                          for line in done.stdout.splitlines()[1:]], expected, done.stderr)

    def test_without_a_source_of_names(self):
        self.check(self.record())

    def test_with_a_source_of_names_in_another_buffer(self):
        self.check(self.record(
            "buffers { size_kb: 1024 fill_policy: RING_BUFFER }\n"
            'data_sources { config { name: "linux.process_stats" target_buffer: 1\n'
            "process_stats_config { record_thread_names: true } } }\n"))

    def test_only_tasks_of_the_trace_are_reported(self):
        tid = self.record()
        done = lib.run(lib.MMSQL, "query", "--csv", self.trace,
                       "SELECT count(*) FROM ftrace_event e JOIN args a USING (arg_set_id) "
                       f"WHERE e.name = 'sched_process_free' AND a.int_value != {tid}")
        self.assertEqual(done.stdout.split()[-1], "0", done.stderr)


@lib.needs_root
@lib.needs_tracefs
@lib.needs_namespaces
class OtherNumbers(FtraceCase):
    """In a PID namespace, /proc and the kernel's events have different numbers."""
    # Many processes, so that other tasks have these numbers outside of the namespace.
    INSIDE = 'for i in $(seq 1 60); do sleep 60 & done; "$@"'

    def inside(self, *argv):
        return lib.run("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
                       "sh", "-c", self.INSIDE, "sh", lib.MMTRACE, *argv)

    def test_no_task_has_the_name_of_another(self):
        file = self.dir / "switches.cfg"
        file.write_text(config(events("sched/sched_switch"), duration_ms=1000))
        done = self.inside("record", "--no-verdict", "-c", file, "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--pid=host", done.stderr)
        done = lib.run(lib.MMSQL, "query", "--csv", self.trace,
                       "SELECT count(*), count(iif(p.name = 'sleep', 1, NULL)) FROM ftrace_event "
                       "LEFT JOIN thread USING (utid) LEFT JOIN process p USING (upid)")
        n, of_others = done.stdout.split()[-1].split(",")
        self.assertGreater(int(n), 10, done.stderr)
        self.assertEqual(of_others, "0")

    def test_instances_of_other_namespaces_stay(self):
        """An instance that a recorder has just made, and has not opened yet."""
        start = states.proc_text(os.getpid(), "stat").rpartition(")")[2].split()[19]
        made = [INSTANCES / f"mmtrace-{os.getpid()}-{start}-{end}" for end in ("90", "90-1")]
        for instance in made:
            instance.mkdir()
            self.addCleanup(lambda instance: instance.exists() and instance.rmdir(), instance)
        file = self.dir / "switches.cfg"
        file.write_text(config(events("sched/sched_switch"), duration_ms=100))
        done = self.inside("record", "--no-verdict", "-c", file, "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([instance.exists() for instance in made], [True, True])

    def test_doctor_tells(self):
        self.assertRegex(self.inside("doctor").stdout, "PID namespace|root without")


if __name__ == "__main__":
    unittest.main()
