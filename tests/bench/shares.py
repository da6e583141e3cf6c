# SPDX-License-Identifier: Apache-2.0
"""Where a conversion spends its CPU time, by the functions that perf samples."""
import collections
import re
import shutil
import subprocess

# The first pattern that fits a function's name says what the function is for.
GROUPS = (
    ("ordering",
     re.compile(
         r"^(timeline|run_next|run_open|bundle|measure|event_ts|item_compare|open_run|heap|pieces?_"
         r"|items_sort|scratch|packets_walk|header_read|compact_next|event_next)")),
    ("writing", re.compile(
        r"^(btree|record_|writer|pages?_|row_index|backlog|batch|leaf_|inner_|child_add|put_varint"
        r"|entries_|database_row|texts?_|held_add|chain_)")),
)


def shares(argv, tmp):
    """{group: share of CPU samples}, or None without perf. Groups: parsing, ordering, writing,
    SQLite, kernel, libc."""
    perf = shutil.which("perf")
    if not perf:
        return None
    data = tmp / "perf.data"
    done = subprocess.run([perf, "record", "-q", "-N", "-F", "2000", "-o", data, *map(str, argv)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        return None
    text = subprocess.run([perf, "report", "-i", data, "--stdio", "--sort", "dso,sym", "-F",
                           "sample,dso,sym"],
                          capture_output=True, text=True, check=False).stdout
    data.unlink()
    counts = collections.Counter()
    for line in text.splitlines():
        match = re.match(r"\s*(\d+)\s+(\S+)\s+\[(.)\]\s+(\S+)", line)
        if not match:
            continue
        n, dso, level, symbol = int(match[1]), match[2], match[3], match[4]
        if level == "k":
            group = "kernel"
        elif "sqlite" in dso:
            group = "SQLite"
        elif "mmsql" not in dso:
            group = "libc"
        else:
            group = next((name for name, pattern in GROUPS if pattern.match(symbol)), "parsing")
        counts[group] += n
    total = sum(counts.values())
    return {group: n / total for group, n in counts.items()} if total else None
