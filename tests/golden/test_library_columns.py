#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of the SQL library have what Perfetto's modules of the same names have.

usage: test_library_columns.py MMSQL          compares with library_columns.csv, and, where there is
                                              a trace_processor_shell (TRACE_PROCESSOR_SHELL or
                                              PATH), the file with it
       test_library_columns.py MMSQL --write  writes library_columns.csv as trace_processor_shell
                                              has it

The file has a row for each public table, view, function and macro of the modules that mmsql has:
the names of its columns, and its arguments as name:type. Internal names (_...) are left out. What a
module takes from a table of the database itself must be there, too. A column or an object that is
missing, or in another order, fails.
"""
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FACTS = HERE / "library_columns.csv"
TRACE = HERE / "counters_tracks.pftrace"
FIELDS = ("module", "object", "columns", "arguments")
# Quotes inside of texts are not doubled by trace_processor_shell.
QUESTION = (
    "SELECT module, name, object_type AS kind, hex(cols) AS columns, hex(args) AS arguments "
    "FROM __intrinsic_stdlib_objects WHERE exposed AND object_type != 'MODULE'")


def members(text, types):
    items = json.loads(bytes.fromhex(text).decode())
    return " ".join(item["name"] + (":" + item["type"].upper().replace(" ", "") if types else "")
                    for item in items)


def objects(text):
    """{(module, object): (columns, arguments)}"""
    rows = csv.DictReader(io.StringIO(text))
    return {(r["module"], r["name"]): (members(r["columns"], False), members(r["arguments"], True))
            for r in rows}


def run(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"test_library_columns: {arguments[0]}: {done.stderr[-2000:]}")
    return done.stdout


def peer_objects(shell, modules):
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(QUESTION)
        file.flush()
        found = objects(run([shell, "-q", file.name, TRACE]))
    return {key: value for key, value in found.items() if key[0] in modules}


def facts():
    with open(FACTS, encoding="utf-8", newline="") as file:
        return {(r["module"], r["object"]): (r["columns"], r["arguments"])
                for r in csv.DictReader(file)}


def write(expected):
    with open(FACTS, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(FIELDS)
        out.writerows([*key, *value] for key, value in sorted(expected.items()))


def in_database(mmsql, name, columns):
    """Is it a table of the database itself, with these columns in this order?"""
    done = subprocess.run([mmsql, "query", "-q", "--csv", TRACE, f"SELECT * FROM {name} LIMIT 0"],
                          capture_output=True, text=True, check=False)
    has = done.stdout.strip().split(",")
    return done.returncode == 0 and [c for c in has if c in columns.split()] == columns.split()


def differences(mmsql, ours, expected):
    for key, (columns, arguments) in sorted(expected.items()):
        what = ".".join(key)
        if key not in ours:
            if arguments or not in_database(mmsql, key[1], columns):
                yield f"{what}: missing"
            continue
        has_columns, has_arguments = ours[key]
        if has_columns.split()[:len(columns.split())] != columns.split():
            yield f"{what}: columns: {has_columns}; in trace_processor: {columns}"
        if has_arguments != arguments:
            yield f"{what}: arguments: {has_arguments}; in trace_processor: {arguments}"


def main():
    mmsql = sys.argv[1]
    shell = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")
    ours = objects(run([mmsql, "query", "-q", "--csv", TRACE, QUESTION]))
    modules = {module for module, _ in ours} | {
        module for module, _ in facts()} if FACTS.exists() else {module for module, _ in ours}
    bad = []
    if shell:
        peer = peer_objects(shell, modules)
        if "--write" in sys.argv:
            write(peer)
        bad += [f"library_columns.csv: {'.'.join(key)} is not as in trace_processor (--write)"
                for key in sorted(peer.keys() | facts().keys())
                if peer.get(key) != facts().get(key)]
    elif "--write" in sys.argv:
        sys.exit("test_library_columns: --write needs trace_processor_shell")
    bad += differences(mmsql, ours, facts())
    print("\n".join(bad) or f"{len(facts())} objects of {len(modules)} modules")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
