# SPDX-License-Identifier: Apache-2.0
"""The verbs that tests of faults run: each on small inputs, with all that it writes in one
folder."""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import time
import zipfile

import faults_client
import lib
import libc_frames
from faults import Verb, Wrong

GOLDEN = lib.ROOT / "tests" / "golden"
QUERY = ("SELECT name, count(*), sum(value) FROM counter JOIN track t ON t.id = track_id "
         "GROUP BY 1 ORDER BY 1; SELECT * FROM thread ORDER BY utid")


def database(path, trace=GOLDEN / "counters_tracks.pftrace"):
    """`trace` is a path."""
    done = lib.run(lib.MMSQL, "convert", "-q", trace, "-o", path)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return path


def file_answer(name):
    return lambda folder, done: (hashlib.sha256(logical(folder / name)).hexdigest(), done.stdout)


def logical(path):
    """Returns the contents of a file. For a database these are the rows and definitions, because
    SQLite may arrange the pages differently."""
    if path.suffix != ".db":
        return path.read_bytes()
    with contextlib.closing(sqlite3.connect(path)) as db:
        # differs each time
        lines = (line for line in db.iterdump() if "parse_trace_duration_ns" not in line)
        return "\n".join(lines).encode(errors="surrogateescape")


def stdout_answer(folder, done):
    return done.stdout


def mmsql(name, *arguments, output=None, trace=None, needs=None, every_stack=False,
          excused=None):
    """A verb of mmsql. The folder has a copy of `trace`, and an old output that a failure must not
    change."""
    def make(folder):
        if trace:
            shutil.copy(GOLDEN / f"{trace}.pftrace", folder / "trace")
        if needs:
            needs(folder)
        if output:
            old_database(folder / output) if output.endswith(".db") else (
                folder / output).write_bytes(b"old")
        return [lib.MMSQL, *arguments]
    return Verb(f"mmsql {name}", make, file_answer(output) if output else stdout_answer,
                (output,) if output else (),
                every_stack, excused=excused)


def old_database(path):
    database(path, GOLDEN / "heap_continuous.pftrace")


def every_packet(folder):
    """Makes a trace of all the traces of the import tests. Each part of the converter allocates for
    this trace."""
    with open(folder / "trace", "wb") as trace:
        for text in sorted((GOLDEN / "imports").glob("*.textproto")):
            trace.write(lib.encode(text.read_bytes()))


def bundle(folder):
    with zipfile.ZipFile(folder / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(GOLDEN / "counters_tracks.pftrace", "a.pftrace")
        archive.write(GOLDEN / "heap_continuous.pftrace", "b.pftrace")
        archive.writestr("perf-7.map", "1000 10 first\n2000 20 second\n")


def frames_of_libc(folder):
    (folder / "trace").write_bytes(libc_frames.trace())


MMSQL_VERBS = (
    mmsql("convert", "convert", "-q", "trace", "-o", "out.db", output="out.db",
          trace="counters_tracks",
          every_stack=True),
    mmsql("convert (kernel events)", "convert", "-q", "trace", "-o", "out.db", output="out.db",
          trace="mm_pressure"),
    mmsql("convert (compressed)", "convert", "-q", "trace", "-o", "out.db", output="out.db",
          trace="sched_deflate"),
    mmsql("convert (heap)", "convert", "-q", "trace", "-o", "out.db", output="out.db",
          trace="heap_continuous"),
    mmsql("convert (zip)", "convert", "-q", "bundle.zip", "-o", "out.db", output="out.db",
          needs=bundle),
    mmsql("convert (all kinds of packets)", "convert", "-q", "trace", "-o", "out.db",
          output="out.db",
          needs=every_packet),
    mmsql("convert --append", "convert", "-q", "--append", "trace", "-o", "out.db", output="out.db",
          trace="sched_deflate"),
    mmsql("query of a database", "query", "--csv", "in.db", QUERY, every_stack=True,
          needs=lambda folder: database(folder / "in.db")),
    mmsql("query of a trace", "query", "--csv", "trace", QUERY, trace="counters_tracks"),
    mmsql("flamegraph", "flamegraph", "in.db", "-o", "out.svg", output="out.svg", every_stack=True,
          needs=lambda folder: database(folder / "in.db", GOLDEN / "heap_continuous.pftrace")),
    mmsql("pprof", "pprof", "in.db", "-o", "out.pb.gz", output="out.pb.gz", every_stack=True,
          needs=lambda folder: database(folder / "in.db", GOLDEN / "heap_continuous.pftrace")),
    # libelf leaves out a compressed section silently. A table of libdw has an assertion, or is used
    # although it has no memory.
    *([mmsql("symbolize", "symbolize", "trace", "-o", "out", output="out", needs=frames_of_libc,
             excused=r"libelf\.so|dynamicsizehash|exit code -11, says: ''\n *\S*libdw\.so")]
      if lib.has_libdw() else []),
    mmsql("memory", "memory", "in.db",
          needs=lambda folder: database(folder / "in.db", GOLDEN / "heap_continuous.pftrace")),
    mmsql("verdict", "verdict", "in.db",
          needs=lambda folder: database(folder / "in.db", GOLDEN / "mm_pressure.pftrace")),
    mmsql("tables", "tables", "slice"),
    mmsql("report", "report", "in.db", "-o", "out.html", output="out.html",
          needs=lambda folder: database(folder / "in.db", GOLDEN / "heap_continuous.pftrace")),
)
CONFIG = """
buffers { size_kb: 4096 }
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  meminfo_period_ms: 50 vmstat_period_ms: 50 stat_period_ms: 50 } } }
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true } } }
data_sources { config { name: "linux.system_info" } }
%s
duration_ms: 60
"""
FTRACE = (
    'data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: '
    '"vmscan/mm_vmscan_kswapd_wake" } } }')


def kinds_answer(name):
    """The kinds of packets in a trace, and the contents that every run has. Kernel events are left
    out, because other programs cause them in some runs only."""
    def answer(folder, done):
        packets = lib.decode(folder / name)
        kinds = {kind: True for packet in packets for kind in packet if kind != "ftrace_events"}
        return kinds | {
            "kinds of sys_stats": sorted({kind for packet in packets
                                          for kind in packet.one("sys_stats", default={})}),
            "own name": any(process.one("pid") == 1 for process in lib.Message({"p": packets}).all(
                "p", "process_tree", "processes"))}
    return answer


def readable(folder):
    """A recording that fails after its start leaves a part of the trace, which every reader can
    read."""
    if (folder / "out.pftrace").exists() and (folder / "out.pftrace").read_bytes() != b"old":
        lib.decode(folder / "out.pftrace")


def mmtrace(name, *arguments, output=None, answer=None, needs=None, readable=None):
    def make(folder):
        if needs:
            needs(folder)
        if output:
            (folder / output).write_bytes(b"old")
        return [lib.MMTRACE, *arguments]
    return Verb(f"mmtrace {name}", make, answer or stdout_answer, (output,) if output else (),
                every_stack=True,
                readable=readable)


def config(folder):
    (folder / "config").write_text(
        CONFIG % (FTRACE if os.access(lib.TRACEFS / "instances", os.W_OK) else ""))


def report_sources(folder):
    shutil.copy(GOLDEN / "mm_pressure.pftrace", folder / "old.pftrace")
    # A bugreport has no kernel.log if the kernel has said nothing in the last minutes.
    with contextlib.suppress(OSError):
        pathlib.Path("/dev/kmsg").write_text("mmtrace test\n")


def zip_answer(folder, done):
    with zipfile.ZipFile(folder / "out.zip") as archive:
        if archive.testzip():
            raise Wrong(f"{archive.testzip()} is damaged")
        return sorted(name for name in archive.namelist() if archive.getinfo(name).file_size)


MMTRACE_VERBS = (
    mmtrace("record", "record", "--no-daemon", "--no-verdict", "-c", "config", "-o", "out.pftrace",
            needs=config,
            output="out.pftrace", answer=kinds_answer("out.pftrace"), readable=readable),
    mmtrace("record (write_into_file)", "record", "--no-daemon", "--no-verdict", "-c", "config",
            "-o", "out.pftrace",
            "-s", "1mb", needs=config, output="out.pftrace", answer=kinds_answer("out.pftrace"),
            readable=readable),
    mmtrace("record --check", "record", "--check", "-c", "config", needs=config),
    mmtrace("sources", "sources"),
    mmtrace("bugreport", "bugreport", "--traces", ".", "-o", "out.zip", output="out.zip",
            answer=zip_answer, needs=report_sources),
)
ARMED = """
buffers { size_kb: 64 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 20 } } }
data_sources { config { name: "linux.system_info" } }
trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 3600000
    triggers { name: "now" stop_delay_ms: 100 } }
"""


def daemon(folder):
    (folder / "armed").mkdir()
    (folder / "armed" / "one.cfg").write_text(ARMED)
    (folder / "mmtrace-daemon").symlink_to(lib.MMTRACE)
    return [sys.executable, "-B", lib.ROOT / "tests" / "e2e" / "faults_daemon.py", folder]


def daemon_answer(folder, done):
    # a slow machine has time for a second trigger before the daemon is ended
    trace, *_ = sorted((folder / "state" / "traces").glob("*.pftrace"))
    return {kind: True for packet in lib.decode(trace) for kind in packet}


DAEMON = Verb("mmtrace daemon", daemon, daemon_answer, program="mmtrace-daemon",
              leaves=("state", "run"), every_stack=True)

# -- commands that speak to another process: see faults_client.py --

TRUTH = lib.BUILD / "tests" / "tools" / "heap_truth"
RESIDENCY = """
buffers { size_kb: 1024 }
data_sources { config { name: "linux.page_residency" page_residency_config { paths: "%s"
  period_ms: 50 } } }
duration_ms: 1500
"""


def client(name, kind, *arguments, output=None, answer=None, program="mmtrace-client", needs=None,
           readable=None):
    def make(folder):
        (folder / "mmtrace-client").symlink_to(lib.MMTRACE)
        if needs:
            needs(folder)
        if output:
            (folder / output).write_bytes(b"old")
        return [sys.executable, "-B", lib.ROOT / "tests" / "e2e" / "faults_client.py", kind, folder,
                *arguments]
    return Verb(f"mmtrace {name}", make, answer or stdout_answer, (output,) if output else (), True,
                readable=readable,
                program=program, leaves=("armed", "state", "run"))


def status_answer(folder, done):
    [session] = json.loads(done.stdout)["sessions"]
    return [session[key] for key in ("name", "state", "hears", "n_data_sources", "bugreport_score")]


def clone_answer(folder, done):
    kinds = {kind for packet in lib.decode(folder / "out.pftrace") for kind in packet}
    return sorted(kinds & {"trace_config", "trace_uuid", "system_info", "clock_snapshot"})


def heap_answer(folder, done):
    """The allocations of each function of the program, with names. They are equal in all runs."""
    with contextlib.closing(
            sqlite3.connect(database(folder / "answer.db", trace=folder / "out.pftrace"))) as db:
        rows = db.execute(
            "SELECT f.name, sum(max(a.size, 0)) FROM heap_profile_allocation a "
            "JOIN stack_profile_callsite c ON c.id = a.callsite_id JOIN stack_profile_frame f ON "
            "f.id = c.frame_id WHERE f.name IN ('keep_small', 'drop_small', 'keep_large', 'grow') "
            "GROUP BY 1 ORDER BY 1").fetchall()
    (folder / "answer.db").unlink()
    return rows


def attach_answer(folder, done):
    return any("profile_packet" in packet for packet in lib.decode(folder / "out.pftrace"))


def sleeper(folder):
    (folder / "Sleeper.java").write_text(faults_client.JAVA)
    made = lib.run("javac", "-d", folder, folder / "Sleeper.java")
    if made.returncode:
        raise AssertionError(made.stderr)


def log_answer(folder, done):
    return "byte" in (folder / "out.log").read_text() or "[B" in (folder / "out.log").read_text()


def log_readable(folder):
    """Once sampling has begun, the log ends with a whole line."""
    log = (folder / "out.log").read_text()
    if log != "old" and log and not log.endswith("\n"):
        raise Wrong(f"the log ends with {log[-50:]!r}")


CLIENT_VERBS = (
    client("status", "daemon", "status", "--json", "--socket", "@", answer=status_answer),
    client("trigger", "daemon", "trigger", "--socket", "@", "now"),
    client("clone", "daemon", "clone", "running", "--socket", "@", "-q", "-o", "out.pftrace",
           output="out.pftrace",
           answer=clone_answer, readable=readable),
)
HEAP_VERBS = (
    mmtrace("heap", "heap", "-q", "-i", "1", "-o", "out.pftrace", "--", TRUTH, "1", "100",
            output="out.pftrace",
            answer=heap_answer, readable=readable),
    client("heap -p", "program", "heap", "-q", "-d", "300", "-p", "@", "-o", "out.pftrace",
           output="out.pftrace",
           answer=attach_answer, readable=readable),
    client("heap -p (mmheap-attach)", "program", "heap", "-q", "-d", "300", "-p", "@", "-o",
           "out.pftrace",
           output="out.pftrace", answer=attach_answer, readable=readable, program="mmheap-attach"),
)
STACK_TRUTH = lib.BUILD / "tests" / "tools" / "stack_truth"


def stacks_answer(folder, done):
    """The program's functions that have samples."""
    with contextlib.closing(
            sqlite3.connect(database(folder / "answer.db", trace=folder / "out.pftrace"))) as db:
        rows = db.execute(
            "SELECT DISTINCT f.name FROM perf_sample s JOIN stack_profile_callsite c "
            "ON c.id = s.callsite_id JOIN stack_profile_frame f ON f.id = c.frame_id "
            "WHERE f.name = 'burn_hot' UNION ALL "
            "SELECT max(p.name LIKE '%stack_truth') FROM perf_sample JOIN thread USING (utid) "
            "JOIN process p USING (upid)").fetchall()
    (folder / "answer.db").unlink()
    return rows


STACK_VERBS = (
    mmtrace("cpu", "cpu", "-q", "-F", "500", "-o", "out.pftrace", "--", "sh", "-c",
            f"exec {STACK_TRUTH} burn 0.2 > /dev/null",  # it prints times
            output="out.pftrace", answer=stacks_answer, readable=readable),
)
JAVA_VERBS = (
    client("java", "java", "java", "@", "-q", "-r", "1", "-t", "300ms", "-o", "out.log",
           output="out.log",
           answer=log_answer, needs=sleeper, readable=log_readable),
)


# -- pintool --

def pintool(name, *arguments, output=None, needs=None):
    def make(folder):
        with zipfile.ZipFile(folder / "app.apk", "w") as archive:
            archive.writestr("lib/hot.so", bytes(range(256)) * 3200)
            archive.writestr("res/cold.bin", bytes(100000))
        (folder / "pinlist.meta").write_bytes(struct.pack(">4I", 0, 8192, 16384, 4096))
        if needs:
            needs(folder)
        if output:
            (folder / output).write_bytes(b"old")
        return [lib.PINTOOL, *arguments]
    return Verb(f"pintool {name}", make, file_answer(output) if output else stdout_answer,
                (output, f"{output}.source") if output else (), True, partial=True)


def residency(folder):
    """A database of a recording in which pages of the file go and come back."""
    (folder / "config").write_text(RESIDENCY % (folder / "app.apk"))
    argv = [lib.MMTRACE, "record", "-q", "--no-daemon", "--no-verdict", "-c", folder / "config",
            "-o", folder / "trace"]
    with open(folder / "app.apk",
              "rb") as file, subprocess.Popen(argv, stderr=subprocess.PIPE) as recorder:
        os.fsync(file.fileno())
        while recorder.poll() is None:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            time.sleep(0.12)
            os.pread(file.fileno(), 1 << 20, 0)
            time.sleep(0.12)
        if recorder.returncode:
            raise AssertionError(recorder.stderr.read())
    database(folder / "in.db", trace=folder / "trace")


PINTOOL_VERBS = (
    pintool("file", "file", "app.apk", "--zip", "--dump"),
    pintool("file -o", "file", "app.apk", "--zip", "-o", "out.meta", output="out.meta"),
    pintool("file --json", "file", "app.apk", "--json"),
    pintool("pinlist", "pinlist", "pinlist.meta", "--json"),
    pintool("preload", "preload", "-q", "pinlist.meta", "app.apk"),
    pintool("measure", "measure", "app.apk", "--", "true"),
    pintool("suggest", "suggest", "in.db", "--file", "app.apk", "--quota", "64k", "-o", "out.meta",
            output="out.meta",
            needs=residency),
)
# Verbs that need root, a JDK, or the library for heap profiles.
HAS_HEAP = (lib.BUILD / "producer" / "agents" / "heap" / "libmmheap.so").exists()
OTHER_VERBS = CLIENT_VERBS + STACK_VERBS + (HEAP_VERBS if HAS_HEAP else ()) + (DAEMON,)
HAS_JAVA = bool(shutil.which("javac")) and (
    lib.BUILD / "producer" / "agents" / "jvm" / "libtiallocsample.so").exists()
VERBS = MMSQL_VERBS + MMTRACE_VERBS + (PINTOOL_VERBS if lib.PINTOOL.exists() else ())
