#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the public tables those of Perfetto's trace_processor_shell, row by row?

usage: test_peer.py MMSQL PROTOC SOURCE_ROOT BUILD_ROOT [TRACE ...]

Compares every table of public_columns.csv on the golden traces, on those of imports/, and on
TRACE (default: none). Rows are compared as sets: the ids of rows are each program's own, so a
reference to a track or a set of args stands for the row behind it. TRACE_PROCESSOR_SHELL names the
program, or PATH has it; without it there is nothing to compare, and the exit code is 77. DIFFERENT
lists the differences that are meant, with reasons.
"""
import collections
import csv
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from test_imports import encode

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = 6  # differences of one table

# Columns that are not compared.
DIFFERENT = {
    "*.id": "rows are numbered as each program makes them",
    "*.track_group_id": "the same",
    "*.description": "each has its own words",
    "heap_graph_object.root_distance": "the peer tells no distances after 58.2",
    "filedescriptor.ufd": "unique here, as its name says; the peer has the number of the "
                          "descriptor once more",
    "stats.key": "each program's own number of a name",
}
# Tables that Perfetto does not call public, or that have more columns here.
MORE = {
    "heap_graph": ("ts", "upid", "dump_reason", "heap_size"),
    "heap_graph_class": ("name", "deobfuscated_name", "location", "superclass_id", "classloader_id",
                         "kind"),
    "heap_graph_object": ("upid", "graph_sample_ts", "self_size", "native_size", "reference_set_id",
                          "reachable",
                          "heap_type", "type_id", "root_type", "root_distance", "object_data_id"),
    "heap_graph_object_data": ("field_set_id", "value_string", "array_element_type",
                               "array_element_count"),
    "heap_graph_primitive": ("field_set_id", "field_name", "field_type", "int_value", "long_value"),
    "heap_graph_reference": ("reference_set_id", "owner_id", "owned_id", "field_name",
                             "field_type_name",
                             "deobfuscated_field_name"),
    "heap_graph_thread_callsite": ("heap_graph_id", "utid", "callsite_id"),
    "linux_interrupt_mapping": ("irq_id", "name", "machine_id"),
    "v8_isolate": ("v8_isolate_id", "upid", "internal_isolate_id",
                   "embedded_blob_code_start_address",
                   "embedded_blob_code_size", "code_range_base_address", "code_range_size",
                   "shared_code_range",
                   "embedded_blob_code_copy_start_address"),
    "v8_js_function": ("name", "v8_js_script_id", "is_toplevel", "kind", "line", "col"),
    "v8_js_script": ("v8_isolate_id", "internal_script_id", "script_type", "name", "source"),
}
# Tables that are not compared by themselves.
BEHIND = {
    "args": "equal sets are stored once; each is compared where it is used",
}
# Tables that the peer knows only after INCLUDE PERFETTO MODULE.
MODULES = {
    "android_aflags": "android.aflags",
    "android_cpu_per_uid_counter": "android.cpu.cpu_per_uid",
    "android_cpu_per_uid_track": "android.cpu.cpu_per_uid",
    "android_network_packets": "android.network_packets",
    "android_user_list": "android.user_list",
    "linux_interrupt_mapping": "linux.irqs",
    "linux_systemd_journald_logs": "linux.systemd_journald",
    "v8_isolate": "v8.jit",
    "v8_js_function": "v8.jit",
    "v8_js_script": "v8.jit",
}
# Columns that are NULL where the trace tells nothing, and 0 there in the peer.
ZERO = {
    "common_flags", "start_address", "module_timestamp", "protection_flags", "size_kb",
    "private_dirty_kb", "swap_kb",
    "private_clean_resident_kb", "shared_dirty_resident_kb", "shared_clean_resident_kb",
    "locked_kb",
    "proportional_resident_kb", "rss_kb", "anonymous_kb", "pss_dirty_kb", "swap_pss_kb",
    "size", "effective_size", "debuggable", "profileable_from_shell", "version_code"
}
# Tables whose cpu is the number on its own machine, and in the peer ucpu once more.
OF_ALL_MACHINES = ("ftrace_event", "raw", "sched", "sched_slice", "thread_state")
LARGE = ("counter", "ftrace_event", "raw")  # may have very many rows
# Traces that are not compared: why.
ALONE = {
    "ftrace_args": "the peer gives events without fields the args of another one, and text that is "
                   "no UTF-8",
    "heap_restarts": "the peer counts totals twice when interned data starts over, and mixes heaps "
                     "up",
    "heap_stacks": "the peer takes totals under two iids of a call chain for damage, and counts "
                   "twice when interned data starts over",
    "pid_namespaces": "the peer names threads and processes by their numbers inside as well",
    "ftrace_firmware": "the peer has one track for slices of all names, and one name for two kinds "
                       "of events",
    "foreign": "the peer does not know the packets that mmsql makes of other formats",
    "chrome_json": "the peer does not know the packets that mmsql makes of other formats",
    "native_symbols": "the peer counts a mapping that is missing at each look-up",
    "states": "a track that is described as states and as a counter has states here; "
              "the peer lists it as both",
    "track_descriptors": "the peer drops events below a parent that nothing describes",
    "track_event_parts": "the peer makes a flow of an end without a begin",
    "ftrace_errors": "the peer refuses a trace whose kernel pages could not be read",
    "ftrace_stats_sources": "the peer keeps the last statistics of a CPU, here those with the most "
                            "loss stand",
    "process_order": "the peer does not know mmtrace's own packets: a process that only they name, "
                     "and their times, are missing",
    "sessions": "states are slices here",
    "verdict_residency": "the peer does not know page residency, and finds no time in the trace",
    "v8_samples": "the peer makes a mapping of V8's code; here it is a perf map",
    "modem_odd": "the peer drops events with texts that ask for more than a number",
    "machines_apart": "the peer makes the clock of the machine that was seen last the trace's",
}
ODD_EVENTS = (
    "ts || name IN ('2020mm_vmscan_kswapd_wake', '2110sched_process_exec', '3020vendor_scan') OR "
    "name LIKE 'mali_mali_PM_MCU%' OR name LIKE 'scm_call%' OR name LIKE '%hyp_e%'")
# Rows that are not compared: table, and a condition that both sides drop.
DROPPED = {
    # Differences of each program alone. The peer gives up at a value of unknown form, mmsql keeps
    # it. Newer versions count lost packets by buffer. Each program has its own count of requests
    # for missing interned data. Chrome's counters of processes are known, and no errors here.
    "stats": "name LIKE 'mmsql%' OR value = 0 OR name IN ('clock_sync_cache_miss', "
             "'parse_trace_duration_ns', 'guess_trace_type_duration_ns', "
             "'track_event_parser_errors', 'previous_packet_dropped', "
             "'interned_data_tokenizer_errors', 'proc_stat_unknown_counters')",
    # The peer gives events without fields the first set of all, and keeps texts that are not UTF-8.
    "ftrace_event": ODD_EVENTS,
    "raw": ODD_EVENTS,
    # The peer makes a value up if the trace has none.
    "clock_snapshot": "clock_id = 11 OR (clock_id = 6 AND ts = 0 AND clock_value = 0)",
    # Only the name of its frame once more; of no frame, as for all of V8's code.
    "stack_profile_symbol": "(source_file IS NULL AND line_number IS NULL) OR symbol_set_id NOT IN "
                            "(SELECT symbol_set_id FROM stack_profile_frame "
                            "WHERE symbol_set_id IS NOT NULL)",
    # The peer names a package anew with each heap that was full.
    "package_list": "coalesce(version_code, 0) = 0",
    # The same two events: paths of log messages are made one way, values of unknown form are kept.
    "slice": "name IN ('logs', 'annotated')",
    "instant": "name IN ('logs', 'annotated')",
    # Perfetto moved the first to the trace after 58.2; facts without a value do not count.
    "metadata": "name = 'mmsql_page_size_bytes' OR (name = 'trace_uuid' AND machine_id IS NULL) OR "
                "(str_value IS NULL AND int_value IS NULL)",
}
# Tables with one row for what is the same, where the peer may have one for each process that names
# it.
ONCE = {"stack_profile_mapping", "stack_profile_frame", "stack_profile_callsite"}
# Differences of sets of args: long texts that explain a counter, and what newer versions add to
# counters of processes.
ARGS = "a.key NOT IN ('description', 'callsite_id')"


def args_of(column, more="1"):
    return ("(SELECT group_concat(k, ';') FROM (SELECT a.key || '=' || a.flat_key || ' ' || "
            f"a.value_type || ' ' || coalesce(a.display_value, '') AS k FROM args AS a "
            f"WHERE a.arg_set_id = x.{column} AND {ARGS} AND {more} ORDER BY 1))")


def track_of(column):
    return ("(SELECT coalesce(t.type, '') || '/' || coalesce(t.name, '') || '/' || "
            "coalesce((SELECT group_concat(k, ';') FROM (SELECT key || '=' || "
            "coalesce(display_value, '') AS k FROM args WHERE arg_set_id = t.dimension_arg_set_id "
            f"ORDER BY 1)), '') FROM track t WHERE t.id = x.{column})")


def slice_of(column):
    return f"(SELECT s.ts || '/' || coalesce(s.name, '') FROM slice s WHERE s.id = x.{column})"


def frame_text(frame):
    return ("(SELECT coalesce(f.name, '') || '@' || f.rel_pc || ' ' || coalesce(m.name, '') "
            "FROM stack_profile_frame f JOIN stack_profile_mapping m ON m.id = f.mapping "
            f"WHERE f.id = {frame})")


def expression(table, column):
    """The stand-in for a column in the comparison; None: nothing."""
    if any(key in DIFFERENT for key in (f"{table}.{column}", f"*.{column}")):
        return None
    if column == "cpu" and table in OF_ALL_MACHINES:
        return "x.cpu % 4096"
    if column in ("utid", "upid", "ucpu", "cpu") and table in ("thread", "process", "cpu"):
        return f"x.{column}"
    if column == "arg_set_id" and "counter" in table:
        return args_of(column, "a.key != 'utid'")
    if column.endswith("arg_set_id"):
        return args_of(column)
    if table == "heap_graph_object" and column == "self_size":  # of those that are only referred to
        return "max(coalesce(x.self_size, 0), 0)"
    if column == "superclass_id" or (table == "heap_graph_object" and column == "type_id"):
        known = " AND x.self_size >= 0" if column == "type_id" else ""
        return ("(SELECT c.name || coalesce(c.location, '') FROM heap_graph_class c "
                f"WHERE c.id = x.{column}{known})")
    if column in ZERO:
        return f"coalesce(x.{column}, 0)"
    if column == "track_id" or (column == "parent_id" and "track" in table):
        return track_of(column)
    if column in ("parent_id", "slice_id", "slice_out", "slice_in") and table in ("slice", "flow"):
        return slice_of(column) if column != "slice_id" else None
    if column == "callsite_id":
        return (f"(SELECT c.depth || ' ' || {frame_text('c.frame_id')} "
                f"FROM stack_profile_callsite c WHERE c.id = x.{column})")
    if column == "frame_id":
        return frame_text(f"x.{column}")
    if column == "parent_id" and table == "stack_profile_callsite":
        return (f"(SELECT {frame_text('c.frame_id')} FROM stack_profile_callsite c "
                "WHERE c.id = x.parent_id)")
    if column == "mapping":
        return "(SELECT m.name FROM stack_profile_mapping m WHERE m.id = x.mapping)"
    if column == "symbol_set_id":
        return ("(SELECT group_concat(coalesce(s.name, '') || ':' || coalesce(s.line_number, ''), "
                "' ') FROM stack_profile_symbol s WHERE s.symbol_set_id = x.symbol_set_id "
                f"AND NOT ({DROPPED['stack_profile_symbol']}))")
    if column.endswith("_node_id"):
        return ("(SELECT n.process_snapshot_id || n.path FROM memory_snapshot_node n "
                f"WHERE n.id = x.{column})")
    if column == "thread_state_id":
        return ("(SELECT s.ts || s.state FROM thread_state s WHERE s.id = x.thread_state_id)")
    if column in ("task_context_id", "execution_context_id", "session_id", "waker_id"):
        return None
    return f"x.{column}"


def tables():
    columns = collections.defaultdict(list)
    with open(HERE / "public_columns.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["table"] not in BEHIND:
                columns[row["table"]].append(row["column"])
    return columns | MORE


def question(table, columns, dropped):
    """The rows of a table as lines, without those that dropped[table] selects."""
    parts = []
    for column in columns:
        value = expression(table, column)
        if value is not None:
            parts.append(
                f"'{column}=' || CASE WHEN {value} IS NULL THEN '-' ELSE hex(iif(typeof({value}) = "
                f"'real', printf('%.15g', {value}), CAST({value} AS TEXT))) END")
    where = f" WHERE NOT ({dropped[table]})" if table in dropped else ""
    return f"SELECT {(' || ' + repr(' ') + ' || ').join(parts)} AS line FROM {table} AS x{where}"


def readable(line):
    words = []
    for word in line.split(" "):
        name, _, value = word.partition("=")
        if value != "-":
            value = bytes.fromhex(value).decode(errors="replace")
            words.append(f"{name}={value}")
    return " ".join(words)


def peer_rows(shell, trace, questions):
    """Rows of (table, line), or the peer's complaint."""
    modules = sorted({MODULES[table] for table in questions if table in MODULES})
    sql = "".join(f"INCLUDE PERFETTO MODULE {module};\n" for module in modules)
    sql += " UNION ALL ".join(f"SELECT '{table}' AS t, line FROM ({asked})"
                              for table, asked in questions.items())
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(sql + ";\n")
        file.flush()
        done = subprocess.run([shell, "-q", file.name, trace], capture_output=True, text=True,
                              check=False, timeout=300)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1:]
    return [row for row in csv.reader(done.stdout.splitlines()[1:]) if row], None


def peer_tables(shell, trace, questions):
    """Lines by table. The peer gets the questions about all tables but large tables at once. If the
    peer refuses, it gets each question alone, to find the question that it refuses."""
    answers = {}
    small = {table: asked for table, asked in questions.items() if table not in LARGE}
    rows, error = peer_rows(shell, trace, small)
    if error is None:
        answers = {table: ([], None) for table in small}
        for table, line in rows:
            answers[table][0].append(line)
    for table, asked in questions.items():
        if table in answers:
            continue
        rows, error = peer_rows(shell, trace, {table: asked})
        answers[table] = [row[1] for row in rows or []], error
    return answers


def compare(shell, db, trace, name, columns):
    """The number of tables that differ."""
    failed = 0
    questions = {table: question(table, names, DROPPED) for table, names in sorted(columns.items())}
    for table, (want, error) in peer_tables(shell, trace, questions).items():
        sql = questions[table]
        if error is not None:
            print(f"FAILED {name} {table}: the peer says {error}")
            failed += 1
            continue
        got = [row[0] for row in db.execute(sql)]
        if table in ONCE:
            want, got = set(want), set(got)
        want, got = collections.Counter(want), collections.Counter(got)
        if want == got:
            continue
        failed += 1
        missing, more = want - got, got - want
        print(f"FAILED {name} {table}: {sum(missing.values())} rows missing, {sum(more.values())} "
              f"too many of {sum(want.values())}")
        for sign, lines in (("-", missing), ("+", more)):
            for line in sorted(lines)[:SHOWN]:
                print(f"  {sign} {readable(line)}")
    return failed


def traces(protoc, source, build, folder, more):
    yield from sorted(HERE.glob("*.pftrace"))
    for text in sorted((HERE / "imports").glob("*.textproto")):
        if text.stem in ALONE:
            continue
        path = pathlib.Path(folder, text.stem + ".pftrace")
        path.write_bytes(encode(protoc, source, build, text))
        yield path
    yield from map(pathlib.Path, more)


def main():
    mmsql, protoc, source, build = sys.argv[1:5]
    shell = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")
    if not shell:
        print("trace_processor_shell is not here: nothing to compare")
        sys.exit(77)
    columns = tables()
    failed = n = 0
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces(protoc, source, build, folder, sys.argv[5:]):
            path = pathlib.Path(folder, "db")
            path.unlink(missing_ok=True)
            subprocess.run([mmsql, "convert", "-q", trace, "-o", path], check=True)
            n += 1
            failed += compare(shell, sqlite3.connect(path), trace, trace.stem, columns)
    print(f"{n} traces, {len(columns)} tables, {failed} differ")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
