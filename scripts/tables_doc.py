# SPDX-License-Identifier: Apache-2.0
"""Write docs/tables.md from what the converter says of its tables.

usage: tables_doc.py MMSQL          write docs/tables.md
       tables_doc.py MMSQL --check  exit 1 if it is not what would be written
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOC = ROOT / "docs" / "tables.md"
# Headings of this project's own tables and views, with how their names begin.
OUR_TABLES = {
    "Traces": ("trace", "input_file", "verdict"),
    "Memory": ("reclaim", "pressure", "vmstat_rate", "process_memory"),
    "One moment: bugreports, files of /proc": ("proc_", "kernel_log"),
    "Page residency": ("page_residency",),
    "Pinlists": ("pin",),
    "Call stacks and heaps": ("stack_frame", "heap_growth", "memory_account"),
    "Perf maps": ("perf_map",),
    "Java allocations": ("alloc_log",),
    "Files and older forms": ("inode_", "chrome_raw"),
}

HEAD = """\
# Tables

`mmsql convert TRACE -o DB` writes one SQLite database. Its tables, views and columns have the names of
Perfetto's trace processor, so that queries written for one work on the other; any SQLite opens it,
without an extension. Tables and views up to 'Perfetto's views' are this project's own. `mmsql tables`
prints what stands here.

`--tables NAME,...` fills only some of them, `--no-args`, `--no-ftrace` and `--no-sched` leave out what is bulky.

Times are nanoseconds of the trace clock, which is CLOCK_BOOTTIME unless the trace says otherwise.
Tables whose packets a trace does not have are there and empty.

## Questions

Who reclaimed, for how long:

    SELECT t.name, count(*), sum(s.dur) / 1e6 AS ms
    FROM slice s JOIN thread_track tt ON s.track_id = tt.id JOIN thread t USING (utid)
    WHERE s.name = 'mm_vmscan_direct_reclaim' GROUP BY t.utid ORDER BY ms DESC;

Free memory over time:

    SELECT c.ts, c.value FROM counter c JOIN counter_track t ON c.track_id = t.id
    WHERE t.name = 'nr_free_pages' ORDER BY c.ts;

Which files lost pages from the cache:

    SELECT path, sum(size_bytes) AS bytes FROM page_residency_changes
    WHERE direction = 'out' GROUP BY path ORDER BY bytes DESC;

A field of an event, as Perfetto has it, and from the view that each kind of event in the trace has:

    SELECT e.ts, a.int_value FROM ftrace_event e JOIN args a USING (arg_set_id)
    WHERE e.name = 'mm_vmscan_kswapd_wake' AND a.key = 'nid';

    SELECT ts, cpu, nid FROM ftrace_mm_vmscan_kswapd_wake;

These views are called `ftrace_` and the event's name. They have the columns id, ts, cpu, utid, arg_set_id and
the event's own fields; a field with one of these names is called `field_` and its name.

`args` and `ftrace_event` are views: a set of args is stored as one row, its keys once for all sets that have the
same. Lookups by arg_set_id, joins and sub-selects find a set by its key. A LEFT JOIN does not: SQLite puts all of
args together first. With millions of events, write a sub-select for each value instead:

    SELECT s.name, (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND key = 'order')
    FROM slice s;

What was lost:

    SELECT name, idx, value FROM stats WHERE severity IN ('data_loss', 'error') AND value > 0;

## Differences from trace_processor

tests/golden/test_peer.py compares the public tables row by row where there is a trace_processor_shell. What is
meant to differ:

- What a trace does not tell is NULL, not 0: common_flags of an event, numbers of smaps, sizes in snapshots of
  memory use. These also count for trace_bounds.
- Row numbers, and numbers of sets of args: equal sets are stored once.
- One row of stack_profile_mapping and frame for what is the same, however many processes and dumps name it.
  Symbols and names of deobfuscation apply to the whole trace, wherever in it they stand.
- Totals of heap profiles go on when interned data starts over, and heaps of a process that have the same call chain are
  told apart. The last dump counts, even if its end is missing.
- Counters of processes have no long description. As in newer versions, a sample that a thread made has it as
  the arg utid.
- Names are not cut off at 127 bytes. Paths in log messages have slashes only.
- Names of tracks, of what GPUs ran and of mappings end after 4 KiB. Longer interned texts are whole, until
  256 MiB of the database are copies of them: the stat mmsql_interned_data_withheld counts those left out.
- Samples of one call chain that stand twice in a dump of a heap are added up.
- A debug annotation in JSON that is damaged, or longer than 1 MiB, is kept as one text, and a number by itself as
  such. One whose type nothing describes is kept in base64, and does not make the event an error.
- Events of a track whose parent is unknown are kept. States of state tracks are slices.
- A callstack of a track event is the arg callsite_id, that of its end end_callsite_id.
- Objects of a Java heap that are only referred to have no size and no class.
- As in newer versions, a thread that a scan of /proc shows in its process again is what its tid means from
  then on, even if another one had that tid in between.
- The column cpu is the processor's number on its machine; there, it is ucpu once more. A machine beside the host
  does not make its clock the trace's, whatever it says of clocks, unless the host says nothing.
- Statsd atoms that the trace does not describe have numbers in place of names; there, a list of Android's is built
  in.
- Code of V8 is a perf map, which gives frames their names; there, its frames get a mapping of their own. The tables that
  are called _v8_js_code and _jit_code there have names without _; code and modules in them are texts in base64.
- Slices of firmware (FWTP) have a track for each name. vb2_v4l2_dqbuf has its own name, not that of vb2_v4l2_qbuf.
- Events of a modem whose values are cut off stay, with <ERROR> in their place; %% in their texts is one %.
- filedescriptor.ufd is unique, not the number of the descriptor once more.
- No clock_snapshot is made up for a trace without one; facts without value are no rows of metadata.
- Stats of the program itself (parse_trace_duration_ns and the like) are not there; those of mmsql begin
  with mmsql.
"""


def mmsql_tables(mmsql, *name):
    return subprocess.run([mmsql, "tables", *name], check=True, capture_output=True, text=True).stdout


def table_text(mmsql, name):
    lines = mmsql_tables(mmsql, name).splitlines()
    text = [f"### {name}", "", lines[0].split(": ", 1)[1], "", "| column | type | |", "|---|---|---|"]
    for line in lines[2:]:
        column, kind, doc = re.match(r"\s+(\S+)\s+(\S+)\s+(.*)", line).groups()
        text.append(f"| {column} | {kind} | {doc.replace('|', chr(92) + '|')} |")
    return "\n".join(text) + "\n"


def document(mmsql):
    tables, views = mmsql_tables(mmsql).split("\n\n")
    names = [line.split()[0] for line in tables.splitlines()]
    views = [line.split()[0] for line in views.splitlines()]
    names = sorted(name for name in names if not name.startswith("_"))
    parts, ours = [HEAD], set()
    for heading, prefixes in OUR_TABLES.items():
        own = [name for name in names + views if name.startswith(prefixes) and name != "trace_bounds"]
        parts += [f"## {heading}\n", *(table_text(mmsql, name) for name in own)]
        ours.update(own)
    parts += ["## Perfetto's views\n", *(table_text(mmsql, name) for name in views if name not in ours),
              "## Perfetto's tables\n", *(table_text(mmsql, name) for name in names if name not in ours)]
    return "\n".join(parts)


def main():
    mmsql = pathlib.Path(sys.argv[1]).resolve()
    text = document(mmsql)
    if "--check" not in sys.argv:
        DOC.write_text(text)
    elif text != (DOC.read_text() if DOC.exists() else ""):
        sys.exit(f"docs/tables.md is not what the converter says: python3 scripts/tables_doc.py {sys.argv[1]}")


if __name__ == "__main__":
    main()
