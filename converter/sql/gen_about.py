#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fill the version, and a count of each public table, into about.sql.in.

usage: gen_about.py VERSION ABOUT_SQL_IN DATABASE_H OUTPUT SCHEMA_H...
"""
import pathlib
import re
import sys


def main():
    version, template, database, output, *headers = sys.argv[1:]
    names = sorted({name for header in headers
                    for name in re.findall(r"^    T\((\w+),", pathlib.Path(header).read_text(
                        encoding="utf-8"), re.MULTILINE)
                    if not name.startswith("_")} | {"ftrace_event", "track"})
    schema = re.search(r"#define DATABASE_SCHEMA_VERSION (\d+)",
                       pathlib.Path(database).read_text(encoding="utf-8"))[1]
    rows = [f"SELECT '{name}', count(*) FROM {name}" for name in names]
    rows[0] = f"SELECT '{names[0]}' AS table_name, count(*) AS n_rows FROM {names[0]}"
    counts = "  " + "\n  UNION ALL ".join(rows)
    text = pathlib.Path(template).read_text(encoding="utf-8")
    for mark, value in ("@VERSION@", version), ("@SCHEMA@", schema), ("@COUNTS@", counts):
        text = text.replace(mark, value)
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
