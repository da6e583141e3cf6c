# SPDX-License-Identifier: Apache-2.0
"""The verbs that tests of faults run: each on small inputs, with all that it writes in one folder."""
import contextlib
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile

import lib
from faults import Verb, Wrong

GOLDEN = lib.ROOT / "tests" / "golden"
QUERY = "SELECT name, count(*), sum(value) FROM counter JOIN track t ON t.id = track_id GROUP BY 1 ORDER BY 1; " \
        "SELECT * FROM thread ORDER BY utid"


def database(path, trace="counters_tracks"):
    done = lib.run(lib.MMSQL, "convert", "-q", GOLDEN / f"{trace}.pftrace", "-o", path)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return path


def file_answer(name):
    return lambda folder, done: (hashlib.sha256(logical(folder / name)).hexdigest(), done.stdout)


def logical(path):
    """The contents of a file; of a database its rows and definitions, whose pages SQLite may arrange otherwise."""
    if path.suffix != ".db":
        return path.read_bytes()
    with contextlib.closing(sqlite3.connect(path)) as db:
        return "\n".join(db.iterdump()).encode(errors="surrogateescape")


def stdout_answer(folder, done):
    return done.stdout


def mmsql(name, *arguments, output=None, trace=None, needs=None, every_stack=False):
    """A verb of mmsql: with `trace` copied into the folder, and an old output that a failure must leave alone."""
    def make(folder):
        if trace:
            shutil.copy(GOLDEN / f"{trace}.pftrace", folder / "trace")
        if needs:
            needs(folder)
        if output:
            old_database(folder / output) if output.endswith(".db") else (folder / output).write_bytes(b"old")
        return [lib.MMSQL, *arguments]
    return Verb(f"mmsql {name}", make, file_answer(output) if output else stdout_answer, (output,) if output else (),
                every_stack)


def old_database(path):
    database(path, "heap_continuous")


def every_packet(folder):
    """A trace with all that the tests of imports have: it asks for memory in every part of the converter."""
    with open(folder / "trace", "wb") as trace:
        for text in sorted((GOLDEN / "imports").glob("*.textproto")):
            argv = ["protoc", f"-I{lib.ROOT}", f"-I{lib.BUILD}", "--encode=perfetto.protos.Trace",
                    lib.ROOT / "protos/trace/trace_packet.proto"]
            trace.write(subprocess.run(argv, input=text.read_bytes(), capture_output=True, check=True).stdout)


def bundle(folder):
    with zipfile.ZipFile(folder / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(GOLDEN / "counters_tracks.pftrace", "a.pftrace")
        archive.write(GOLDEN / "heap_continuous.pftrace", "b.pftrace")
        archive.writestr("perf-7.map", "1000 10 first\n2000 20 second\n")


MMSQL_VERBS = (
    mmsql("convert", "convert", "-q", "trace", "-o", "out.db", output="out.db", trace="counters_tracks",
          every_stack=True),
    mmsql("convert (kernel events)", "convert", "-q", "trace", "-o", "out.db", output="out.db", trace="mm_pressure"),
    mmsql("convert (compressed)", "convert", "-q", "trace", "-o", "out.db", output="out.db", trace="sched_deflate"),
    mmsql("convert (heap)", "convert", "-q", "trace", "-o", "out.db", output="out.db", trace="heap_continuous"),
    mmsql("convert (zip)", "convert", "-q", "bundle.zip", "-o", "out.db", output="out.db", needs=bundle),
    mmsql("convert (all kinds of packets)", "convert", "-q", "trace", "-o", "out.db", output="out.db",
          needs=every_packet),
    mmsql("convert --append", "convert", "-q", "--append", "trace", "-o", "out.db", output="out.db",
          trace="sched_deflate"),
    mmsql("query of a database", "query", "--csv", "in.db", QUERY, every_stack=True,
          needs=lambda folder: database(folder / "in.db")),
    mmsql("query of a trace", "query", "--csv", "trace", QUERY, trace="counters_tracks"),
    mmsql("flamegraph", "flamegraph", "in.db", "-o", "out.svg", output="out.svg", every_stack=True,
          needs=lambda folder: database(folder / "in.db", "heap_continuous")),
    mmsql("pprof", "pprof", "in.db", "-o", "out.pb.gz", output="out.pb.gz", every_stack=True,
          needs=lambda folder: database(folder / "in.db", "heap_continuous")),
    mmsql("memory", "memory", "in.db", needs=lambda folder: database(folder / "in.db", "heap_continuous")),
    mmsql("verdict", "verdict", "in.db", needs=lambda folder: database(folder / "in.db", "mm_pressure")),
    mmsql("tables", "tables", "slice"),
)
CONFIG = """
buffers { size_kb: 512 }
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  meminfo_period_ms: 50 vmstat_period_ms: 50 stat_period_ms: 50 } } }
data_sources { config { name: "linux.process_stats" process_stats_config { scan_all_processes_on_start: true } } }
data_sources { config { name: "linux.system_info" } }
%s
duration_ms: 60
"""
FTRACE = 'data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "vmscan/mm_vmscan_kswapd_wake" } } }'


def kinds_answer(name):
    """Which kinds of packets a trace has, and what of them is there in any case."""
    def answer(folder, done):
        packets = lib.decode(folder / name)
        return {kind: True for packet in packets for kind in packet} | {
            "kinds of sys_stats": sorted({kind for packet in packets for kind in packet.one("sys_stats", default={})}),
            "own name": any(process.one("pid") == 1 for process in lib.Message({"p": packets}).all(
                "p", "process_tree", "processes"))}
    return answer


def readable(folder):
    """A recording that fails when it has begun leaves what it has so far, which every reader reads."""
    if (folder / "out.pftrace").exists() and (folder / "out.pftrace").read_bytes() != b"old":
        lib.decode(folder / "out.pftrace")


def mmtrace(name, *arguments, output=None, answer=None, needs=None, readable=None):
    def make(folder):
        if needs:
            needs(folder)
        if output:
            (folder / output).write_bytes(b"old")
        return [lib.MMTRACE, *arguments]
    return Verb(f"mmtrace {name}", make, answer or stdout_answer, (output,) if output else (), every_stack=True,
                readable=readable)


def config(folder):
    (folder / "config").write_text(CONFIG % (FTRACE if os.access(lib.TRACEFS / "instances", os.W_OK) else ""))


def zip_answer(folder, done):
    with zipfile.ZipFile(folder / "out.zip") as archive:
        if archive.testzip():
            raise Wrong(f"{archive.testzip()} is damaged")
        return sorted(name for name in archive.namelist() if archive.getinfo(name).file_size)


MMTRACE_VERBS = (
    mmtrace("record", "record", "--no-daemon", "--no-verdict", "-c", "config", "-o", "out.pftrace", needs=config,
            output="out.pftrace", answer=kinds_answer("out.pftrace"), readable=readable),
    mmtrace("record (write_into_file)", "record", "--no-daemon", "--no-verdict", "-c", "config", "-o", "out.pftrace",
            "-s", "1mb", needs=config, output="out.pftrace", answer=kinds_answer("out.pftrace"), readable=readable),
    mmtrace("record --check", "record", "--check", "-c", "config", needs=config),
    mmtrace("sources", "sources"),
    mmtrace("bugreport", "bugreport", "--traces", ".", "-o", "out.zip", output="out.zip", answer=zip_answer,
            needs=lambda folder: shutil.copy(GOLDEN / "mm_pressure.pftrace", folder / "old.pftrace")),
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
    [trace] = (folder / "state" / "traces").glob("*.pftrace")
    return {kind: True for packet in lib.decode(trace) for kind in packet}


DAEMON = Verb("mmtrace daemon", daemon, daemon_answer, program="mmtrace-daemon", leaves=("state", "run"), every_stack=True)
VERBS = MMSQL_VERBS + MMTRACE_VERBS
