# SPDX-License-Identifier: Apache-2.0
"""Writes docs/tables.md from the schema of the converter.

usage: tables_doc.py MMSQL          write docs/tables.md
       tables_doc.py MMSQL --check  exit with 1 if docs/tables.md is not current
"""
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOC = ROOT / "docs" / "tables.md"
# The public tables and views of Perfetto that mmsql has.
PERFETTO_TABLES = ROOT / "tests" / "data" / "facts" / "perfetto-tables.csv"
# Headings of this project's own tables and views, with how their names begin.
OUR_TABLES = {
    "The database itself": ("mmsql_",),
    "Traces": ("trace", "input_file", "verdict", "machine_bounds"),
    "Memory": ("reclaim", "pressure", "vmstat_rate", "process_memory"),
    "One moment: bugreports, files of /proc": ("proc_", "kernel_log"),
    "Page residency": ("page_residency",),
    "Pinlists": ("pin",),
    "Call stacks and heaps": ("stack_frame", "call_stack_frame", "heap_growth", "memory_account",
                              "malloc_arena"),
    "Perf maps": ("perf_map",),
    "Java allocations": ("alloc_log",),
    "Files and older forms": ("inode_", "chrome_raw"),
}

HEAD = """\
# Tables

`mmsql convert TRACE -o DB` writes one SQLite database. Its tables, views and columns have the names
of Perfetto's trace processor, so queries that were written for one work on the other. Any SQLite
opens the database, without an extension. The tables and views up to "Perfetto's views" are mmsql's
own. `mmsql tables` prints the same lists.

- `--tables NAME,...` fills only some tables. `--no-args`, `--no-ftrace` and `--no-sched` leave out
  large tables.
- Times are nanoseconds of the trace clock, which is CLOCK_BOOTTIME unless the trace says otherwise.
- A table exists and is empty if the trace does not have its packets. `mmsql_filled_table` has the
  tables with rows.
- The database has this page inside: `mmsql_schema` has each table, view and column, with types,
  units, the rows that numbers refer to, and what they mean. Columns that refer to rows are declared
  as foreign keys (`PRAGMA foreign_key_list`). SQLite checks none of them unless it is told to.
- `PRAGMA user_version` and `mmsql_version` have the version of the schema. The version grows when a
  table or column changes its name or meaning, or is removed. New tables and columns do not change
  the version.
- `mmsql_trace`, `pressure_episode` and `reclaim_episode` have the wall clock as ISO 8601.

## Questions

What is in this database, and what does a column mean?

    SELECT table_name, n_rows FROM mmsql_filled_table;
    SELECT column_name, type, unit, refers_table, doc FROM mmsql_schema
    WHERE table_name = 'reclaim_episode';

Which threads reclaimed, and for how long?

    SELECT t.name, count(*), sum(s.dur) / 1e6 AS ms
    FROM slice s JOIN thread_track tt ON s.track_id = tt.id JOIN thread t USING (utid)
    WHERE s.name = 'mm_vmscan_direct_reclaim' GROUP BY t.utid ORDER BY ms DESC;

How did free memory change?

    SELECT c.ts, c.value FROM counter c JOIN counter_track t ON c.track_id = t.id
    WHERE t.name = 'nr_free_pages' ORDER BY c.ts;

Which files lost pages from the cache?

    SELECT path, sum(size_bytes) AS bytes FROM page_residency_changes
    WHERE direction = 'out' GROUP BY path ORDER BY bytes DESC;

What is the value of a field of an event? With Perfetto's table, and with the view of this event:

    SELECT e.ts, a.int_value FROM ftrace_event e JOIN args a USING (arg_set_id)
    WHERE e.name = 'mm_vmscan_kswapd_wake' AND a.key = 'nid';

    SELECT ts, cpu, nid FROM ftrace_mm_vmscan_kswapd_wake;

Each kind of event in the trace has a view `ftrace_NAME`. The view has the columns id, ts, cpu,
utid, arg_set_id and the event's own fields. A field with one of these names is called `field_NAME`.
The kinds after the first 2,000 have no view; `ftrace_event` and `args` have all.

Which mistakes does the config have?

    SELECT title, description, remediation FROM trace_diagnostics ORDER BY confidence DESC;

Which data were lost?

    SELECT name, idx, value FROM stats WHERE severity IN ('data_loss', 'error') AND value > 0;

`args` and `ftrace_event` are views: a set of args is stored as one row, and its keys once for all
sets with the same keys. Lookups by arg_set_id, joins and sub-selects find a set by its key. A LEFT
JOIN does not: SQLite computes all of args first. With millions of events, write a sub-select for
each value instead:

    SELECT s.name, (SELECT int_value FROM args a
                    WHERE a.arg_set_id = s.arg_set_id AND key = 'order')
    FROM slice s;

## Differences from trace_processor

If there is a trace_processor_shell, tests/golden/test_peer.py compares the public tables row by
row. These differences are intended. "The peer" is trace_processor. Where a line
names --compat, `mmsql query --compat` gives the peer's answer, and `mmsql convert --compat` makes a
database that gives this answer.

Values and rows:

- A value that a trace does not have is NULL, not 0: common_flags of an event, numbers of smaps (0
  with --compat), sizes in snapshots of memory use. So sums and averages leave out what nobody
  measured. Snapshots also count for trace_bounds.
- Row numbers and numbers of sets of args differ: equal sets are stored once.
- The column cpu is the processor's number on its machine; in the peer, and with --compat, it
  repeats ucpu. They differ in traces of several machines only.
- filedescriptor.ufd is unique, as its name says; in the peer, and with --compat, it repeats the
  number of the descriptor, so that files of several processes cannot be told apart.
- clock_snapshot is empty if the trace has no snapshot of clocks. Metadata without a value have no
  row.
- A machine beside the host does not make its clock the clock of the trace, unless the host has no
  clocks in the trace.
- Stats of the peer itself are missing, except the time of the conversion. Stats of mmsql begin with
  mmsql. `trace_diagnostics` and the messages in `trace_import_logs` have mmsql's own words.

Names and texts:

- Names are not cut off at 127 bytes. Paths in log messages have slashes only.
- Names of tracks, of work on GPUs and of mappings end after 4 KiB. Longer interned texts are whole,
  until 256 MiB of the database are copies of them. The stat mmsql_interned_data_withheld counts the
  texts that are left out.
- Statsd atoms that the trace does not describe have numbers in place of names; the peer has a list
  of Android's atoms built in.
- Events of a modem whose values are cut off stay, with `<ERROR>` in place of the value; `%%` in
  their texts is one `%`.

Call stacks and heaps:

- The outermost frame of a call stack has depth 0. In the peer this holds for all inputs but text of
  perf, where it has depth 1.
- stack_profile_mapping and stack_profile_frame have one row for equal mappings and frames, however
  many processes and dumps name them. Symbols and names of deobfuscation apply to the whole trace,
  wherever they stand in the trace.
- Totals of heap profiles go on when interned data starts over. Heaps of a process with the same
  call chain are separate. The last dump counts, even if its end is missing.
- Samples of one call chain that stand twice in a dump of a heap are added up.
- Objects of a Java heap that are only referred to have no size and no class.
- Code of V8 is a perf map, which gives frames their names; in the peer its frames get a mapping of
  their own. The peer's tables _v8_js_code and _jit_code have names without _ here; code and modules
  are texts in base64.

Tracks and events:

- Counters of processes have no long description.
- As in newer versions of the peer, a sample that a thread made has the thread as the arg utid.
- As in newer versions of the peer, a scan of /proc decides which thread a tid means from then on,
  even if another thread had this tid in between.
- A debug annotation in JSON that is damaged, or longer than 1 MiB, is kept as one text; a number by
  itself is kept as a number. A debug annotation whose type nothing describes is kept in base64, and
  the event is no error.
- Events of a track whose parent is unknown are kept.
- An older flow (s, t, f) that ends and never began has no row.
- `to_ftrace()` shows states of tasks and flags of the allocator as the trace's kernel has them; the
  peer takes every kernel for 4.4. Without ORDER BY id the lines may be grouped by event.
- Slices of firmware (FWTP) have a track for each name. vb2_v4l2_dqbuf has its own name, not that of
  vb2_v4l2_qbuf.
"""


def mmsql_tables(mmsql, *name):
    return subprocess.run([mmsql, "tables", *name], check=True, capture_output=True,
                          text=True).stdout


def wrapped(text, indent=""):
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def table_text(mmsql, name):
    lines = mmsql_tables(mmsql, name).splitlines()
    text = [f"### {name}", "", wrapped(lines[0].split(": ", 1)[1]), ""]
    for line in lines[2:]:
        column, kind, doc = re.match(r"\s+(\S+)\s+(\S+)\s+(.*)", line).groups()
        text.append(wrapped(f"- `{column}` {kind}: {doc}", "  "))
    return "\n".join(text) + "\n"


def document(mmsql):
    tables, views, *_ = mmsql_tables(mmsql).split("\n\n")  # modules follow
    names = [line.split()[0] for line in tables.splitlines()]
    views = [line.split()[0] for line in views.splitlines()]
    names = sorted(name for name in names if not name.startswith("_"))
    parts, ours = [HEAD], set()
    for heading, prefixes in OUR_TABLES.items():
        own = [name for name in names + views
               if name.startswith(prefixes) and name != "trace_bounds"]
        parts += [f"## {heading}\n", *(table_text(mmsql, name) for name in own)]
        ours.update(own)
    known = PERFETTO_TABLES.read_text().split()
    for name in names + views:
        if name not in ours and name not in known:
            sys.exit(f"scripts/tables_doc.py: add {name} below a heading of OUR_TABLES, or to "
                     f"{PERFETTO_TABLES.relative_to(ROOT)} if Perfetto has the table")
    for heading, rest in ("Perfetto's views", views), ("Perfetto's tables", names):
        parts += [f"## {heading}\n",
                  *(table_text(mmsql, name) for name in rest if name not in ours)]
    return "\n".join(parts)


def main():
    mmsql = pathlib.Path(sys.argv[1]).resolve()
    text = document(mmsql)
    if "--check" not in sys.argv:
        DOC.write_text(text)
    elif text != (DOC.read_text() if DOC.exists() else ""):
        sys.exit("docs/tables.md differs from the schema of the converter"
                 f" (python3 scripts/tables_doc.py {sys.argv[1]})")


if __name__ == "__main__":
    main()
