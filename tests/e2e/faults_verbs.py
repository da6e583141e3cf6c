# SPDX-License-Identifier: Apache-2.0
"""The verbs that tests of faults run: each on small inputs, with all that it writes in one folder."""
import contextlib
import hashlib
import shutil
import sqlite3
import subprocess
import zipfile

import lib
from faults import Verb

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
VERBS = MMSQL_VERBS
