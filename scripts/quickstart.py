# SPDX-License-Identifier: Apache-2.0
"""Show what this machine's memory does: record, convert and explain ten seconds.

usage: ./quickstart [--pressure] [--seconds N] [--output DIR]

The data sources are those of configs/mm_events.cfg. A harmless load runs meanwhile: the load reads
a demo file, drops parts of the file from the page cache, and asks the kernel to compact memory.

With --pressure the kernel has to reclaim memory for real: the load reads sparse files that are
larger than the memory. This takes seconds and pushes other files out of the page cache. No setting
of the kernel changes. The recording lasts until the kernel has reclaimed. On a machine that is too
busy for that, the load goes on in a memory cgroup.

The report, the trace, the database and the config stay in DIR (default: a new directory below
/var/tmp). With --pressure, DIR must be on a disk: a tmpfs keeps no pages of holes.
"""
import argparse
import contextlib
import csv
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import load

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO_MIB = 64
BAR = 40
MAX_BARS = 12

CONFIG = """\
# The config of ./quickstart: the data sources of configs/mm_events.cfg, process names, and which
# pages of one file are in the page cache.
buffers {{ size_kb: 16384 fill_policy: RING_BUFFER }}
buffers {{ size_kb: 4096 fill_policy: RING_BUFFER }}
data_sources {{
  config {{
    name: "linux.ftrace"
    target_buffer: 0
    ftrace_config {{
      ftrace_events: "vmscan/mm_vmscan_kswapd_wake"
      ftrace_events: "vmscan/mm_vmscan_direct_reclaim_begin"
      ftrace_events: "vmscan/mm_vmscan_direct_reclaim_end"
      ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_begin"
      ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_end"
      ftrace_events: "compaction/mm_compaction_begin"
      ftrace_events: "compaction/mm_compaction_end"
    }}
  }}
}}
data_sources {{
  config {{
    name: "linux.sys_stats"
    target_buffer: 1
    sys_stats_config {{
      vmstat_period_ms: 500
{vmstat}
{pressure}
    }}
  }}
}}
data_sources {{
  config {{
    name: "linux.process_stats"
    target_buffer: 1
    process_stats_config {{
      scan_all_processes_on_start: true
      proc_stats_poll_ms: 1000
    }}
  }}
}}
data_sources {{
  config {{
    name: "linux.page_residency"
    target_buffer: 1
    page_residency_config {{ paths: "{demo}" period_ms: 500 detail: DETAIL_RANGES }}
  }}
}}
"""

VMSTAT = """nr_free_pages nr_slab_reclaimable nr_slab_unreclaimable nr_active_file nr_inactive_file
    nr_active_anon nr_inactive_anon workingset_refault workingset_activate workingset_refault_anon
    workingset_refault_file workingset_activate_anon workingset_activate_file nr_file_pages pgpgin
    pgpgout pswpin pswpout pgsteal_anon pgsteal_file pgsteal_kswapd pgsteal_direct pgscan_anon
    pgscan_file pgscan_kswapd pgscan_direct compact_migrate_scanned
    compact_free_scanned""".split()
LEVELS = {
    "nr_free_pages": "free",
    "nr_file_pages": "page cache",
    "nr_active_file": "  active",
    "nr_inactive_file": "  inactive",
    "nr_active_anon": "anonymous, active",
    "nr_inactive_anon": "anonymous, inactive",
    "nr_slab_reclaimable": "slab, reclaimable",
    "nr_slab_unreclaimable": "slab, unreclaimable",
}
TOTALS = {
    "pgpgin": "read from disk (KB)",
    "pgpgout": "written to disk (KB)",
    "pswpin": "swapped in",
    "pswpout": "swapped out",
    "scanned": "scanned in all, in memory cgroups, too",
    "reclaimed": "reclaimed in all",
    "pgscan_kswapd": "scanned by kswapd",
    "pgsteal_kswapd": "reclaimed by kswapd",
    "pgscan_direct": "scanned by direct reclaim",
    "pgsteal_direct": "reclaimed by direct reclaim",
    "workingset_refault_file": "file pages that came back",
    "workingset_refault_anon": "anonymous pages that came back",
    "workingset_refault": "pages that came back",
    "compact_migrate_scanned": "scanned for compaction",
}


class Failure(Exception):
    pass


def present_counters():
    """The counters that this kernel has. The recorder would warn about the others."""
    lines = pathlib.Path("/proc/vmstat").read_text().splitlines()
    present = {line.split()[0] for line in lines}
    return [name for name in VMSTAT if name in present]


def bytes_text(n):
    for unit in ("B", "KB", "MB", "GB"):
        if abs(n) < 1024 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024


def duration_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.1f} {unit}"
    return f"{ns:.0f} ns"


def tell(text):
    print(textwrap.fill(text, 80, initial_indent="      ", subsequent_indent="      ",
                        break_long_words=False), flush=True)


def run_load(recorder, demo, seconds, pressure):
    """Runs for `seconds`, and until the pressure is over. The recorder shows its progress."""
    started = time.monotonic()
    n = 0
    while recorder.poll() is None:
        elapsed = time.monotonic() - started
        if pressure and elapsed > seconds * 0.3:
            pressure = False
            load.pressure_anyway(demo.parent, say=tell)
        elif elapsed >= seconds:
            return
        elif elapsed < seconds - 0.5:
            load.step_harmless(demo, n)
            n += 1
        time.sleep(min(0.8, seconds / 10))


def record(mmtrace, config, trace, demo, seconds, pressure):
    ready, notify = os.pipe()
    argv = [mmtrace, "record", "--no-daemon", "--no-verdict", "-c", config, "-o", trace,
            "--notify-fd", str(notify)]
    recorder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[notify])
    os.close(notify)
    try:
        with open(ready, "rb") as start:
            start.read(1)  # one byte when all sources have started; nothing if the recorder ends
        run_load(recorder, demo, seconds, pressure)
    finally:
        if recorder.poll() is None:
            recorder.send_signal(signal.SIGTERM)
        try:
            recorder.wait(60)
        except subprocess.TimeoutExpired:
            recorder.kill()
            raise Failure("mmtrace record did not end within 60 seconds") from None
    if recorder.returncode != 0:
        raise Failure(f"mmtrace record ended with exit code {recorder.returncode}")


class Database:
    """Asks the database through mmsql, as a user does."""

    def __init__(self, mmsql, path):
        self.mmsql, self.path = mmsql, path

    def rows(self, sql):
        done = subprocess.run([self.mmsql, "query", "--csv", self.path, sql],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"mmsql query: {done.stderr.strip()}")
        return list(csv.reader(io.StringIO(done.stdout)))[1:]


def heading(text):
    print(f"\n{text}\n" + "-" * len(text))


def show_verdict(db):
    done = subprocess.run([db.mmsql, "verdict", db.path], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"mmsql verdict: {done.stderr.strip()}")
    heading("Verdict")
    for line in done.stdout.splitlines():
        print(textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    ",
                            break_long_words=False))


def show_events(db):
    heading("Recorded")
    rows = db.rows("SELECT name, count(*) FROM ftrace_event GROUP BY name ORDER BY 2 DESC LIMIT 12")
    for name, count in rows:
        print(f"  {name:44} {int(count):>10,}")
    if not rows:
        print("  No kernel events of these kinds: memory was not short.")
    samples = db.rows("SELECT count(DISTINCT c.ts) FROM counter c JOIN counter_track t"
                      " ON c.track_id = t.id WHERE t.type = 'vmstat'")[0][0]
    processes = db.rows("SELECT count(*) FROM process WHERE name IS NOT NULL")[0][0]
    print(f"  {'samples of vmstat':44} {int(samples):>10,}")
    print(f"  {'processes with a name':44} {int(processes):>10,}")


RECLAIM_SQL = """
    SELECT iif(s.name GLOB '*memcg*', 'memory cgroup reclaim', 'direct reclaim'),
           coalesce(t.name, p.name, 'thread ' || t.tid), count(*),
           sum(s.dur), max(s.dur)
    FROM slice s JOIN thread_track tt ON s.track_id = tt.id JOIN thread t USING (utid)
    LEFT JOIN process p USING (upid)
    WHERE s.name IN ('mm_vmscan_direct_reclaim', 'mm_vmscan_memcg_reclaim') AND s.dur >= 0
    GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 6"""
COMPACTION_SQL = """
    WITH e AS (
      SELECT utid, ts, name, lead(ts) OVER w AS next_ts, lead(name) OVER w AS next_name
      FROM ftrace_event WHERE name IN ('mm_compaction_begin', 'mm_compaction_end')
      WINDOW w AS (PARTITION BY utid ORDER BY ts))
    SELECT 'compaction', coalesce(t.name, p.name, 'thread ' || t.tid), count(*), sum(next_ts - ts),
           max(next_ts - ts)
    FROM e JOIN thread t USING (utid) LEFT JOIN process p USING (upid)
    WHERE e.name = 'mm_compaction_begin' AND next_name = 'mm_compaction_end'
    GROUP BY 2 ORDER BY 4 DESC LIMIT 6"""
# All reclaim. The counters of kswapd and of direct reclaim leave out reclaim in memory cgroups.
RECLAIMED_SQL = """
SELECT quantity, sum(pages) FROM (
  SELECT r.quantity, max(c.value) - min(c.value) AS pages
  FROM reclaim_counter r JOIN counter c USING (track_id)
  WHERE r.in_total AND r.has_memcg GROUP BY r.track_id)
GROUP BY quantity
"""
KSWAPD_SQL = "SELECT count(*) FROM ftrace_event WHERE name = 'mm_vmscan_kswapd_wake'"


def show_episodes(db):
    heading("Reclaim and compaction")
    print(f"  {'what':44} {'times':>7} {'total':>10} {'longest':>10}")
    rows = db.rows(RECLAIM_SQL) + db.rows(COMPACTION_SQL)
    for kind, who, times, total, longest in rows:
        # A program's path is cut to its name; kworker/u8:0 is a name.
        what = f"{kind} by {os.path.basename(who) if who.startswith('/') else who}"
        print(f"  {what:44.44} {int(times):>7,} {duration_text(float(total)):>10}"
              f" {duration_text(float(longest)):>10}")
    wakes = int(db.rows(KSWAPD_SQL)[0][0])
    print(f"  {'kswapd was woken':44} {wakes:>7,}")
    if not wakes and not any("reclaim" in r[0] for r in rows):
        print("  No reclaim: this machine had memory to spare. Run ./quickstart --pressure\n"
              "  to see reclaim.")


def show_vmstat(db):
    rows = db.rows("SELECT DISTINCT t.name, first_value(c.value) OVER w,"
                   " last_value(c.value) OVER w, min(c.value) OVER w, max(c.value) OVER w"
                   " FROM counter c JOIN counter_track t ON c.track_id = t.id"
                   " WHERE t.type = 'vmstat'"
                   " WINDOW w AS (PARTITION BY t.id ORDER BY c.ts"
                   " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)")
    values = {r[0]: [float(v) for v in r[1:]] for r in rows}
    page = os.sysconf("SC_PAGE_SIZE")
    heading("Memory (vmstat)")
    print(f"  {'':24} {'start':>12} {'end':>12} {'lowest':>12} {'highest':>12}")
    for name, label in LEVELS.items():
        if name in values:
            print(f"  {label:24} " + " ".join(f"{bytes_text(v * page):>12}" for v in values[name]))
    values |= {name: [0, float(n)] for name, n in db.rows(RECLAIMED_SQL)}
    changes = [(label, values[n][1] - values[n][0]) for n, label in TOTALS.items() if n in values]
    changes = [(label, change) for label, change in changes if change]
    if changes:
        print(f"\n  {'in this time':40} {'pages':>12}")
        for label, change in changes:
            print(f"  {label:40} {int(change):>12,}")


def bar_text(runs, pages):
    """The file from its first page to its last: # resident, + partly, . absent."""
    filled = [0] * BAR
    for start, end in runs:
        for cell in range(start * BAR // pages, min((end * BAR - 1) // pages + 1, BAR)):
            low, high = cell * pages / BAR, (cell + 1) * pages / BAR
            filled[cell] += max(0, min(end, high) - max(start, low)) / (high - low)
    return "".join("#" if f > 0.99 else "+" if f > 0.01 else "." for f in filled)


def show_residency(db, demo):
    samples = db.rows("SELECT s.id, s.ts - (SELECT min(ts) FROM page_residency_sample), s.pages,"
                      " s.resident_bytes FROM page_residency_sample s"
                      " JOIN page_residency_file f ON s.file_id = f.id"
                      f" WHERE f.path = '{demo}' AND s.detail = 'exact' ORDER BY s.ts")
    if not samples:
        return
    heading(f"Page cache of {demo.name}")
    step = -(-len(samples) // MAX_BARS)
    for sample, ts, pages, resident in samples[::step]:
        runs = db.rows("SELECT start_page, end_page FROM page_residency_range"
                       f" WHERE sample_id = {sample}")
        bar = bar_text([tuple(map(int, run)) for run in runs], int(pages))
        print(f"  {int(ts) / 1e9:6.1f} s  [{bar}] {bytes_text(int(resident)):>10}")


def show_losses(db):
    rows = db.rows("SELECT name, sum(value) FROM stats WHERE severity IN ('data_loss', 'error')"
                   " AND value > 0 GROUP BY name ORDER BY name")
    heading("Losses")
    for name, value in rows:
        print(f"  {name:60} {int(value):>12,}")
    if not rows:
        print("  none")


def show_next(out, build):
    build = os.path.relpath(build, os.getcwd())
    heading("Next")
    print(f"""\
  OUT={out}

  Ask the database, with mmsql or any SQLite:
    {build}/converter/mmsql query $OUT/quickstart.db \\
      "SELECT ts, name, cpu FROM ftrace_event LIMIT 10"
    {build}/converter/mmsql query --csv $OUT/quickstart.db \\
      "SELECT * FROM process"
    {build}/converter/mmsql tables

  Look at the trace: open https://ui.perfetto.dev and choose
    {out}/quickstart.pftrace

  Record again with your own config (configs/ has more examples):
    cp $OUT/quickstart.cfg my.cfg; editor my.cfg
    sudo {build}/producer/mmtrace record -c my.cfg -o my.pftrace""")


def show_report(report):
    heading("See it")
    print("  The report is written: what happened, with charts, as a page for a browser\n"
          f"    {report}")


def give_to_caller(out):
    """Under sudo, gives the results to the user who called sudo. Before, only root can enter a new
    folder."""
    user = os.environ.get("SUDO_UID", "")
    if user.isdigit() and os.geteuid() == 0:
        for path in [*out.iterdir(), out]:
            os.chown(path, int(user), int(os.environ.get("SUDO_GID", user)), follow_symlinks=False)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="quickstart", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, usage=
                                     "./quickstart [--pressure] [--seconds N] [--output DIR]")
    parser.add_argument("--pressure", action="store_true",
                        help="make the kernel reclaim memory for real")
    parser.add_argument("--seconds", type=float, default=10,
                        help="record for N seconds (default: 10)")
    parser.add_argument("--output", type=pathlib.Path, help="folder for the results")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-release",
                        help=argparse.SUPPRESS)
    parser.add_argument("--only-check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not 1 <= options.seconds <= 3600:
        parser.error("--seconds takes 1 to 3600")
    return options


def make_output(options):
    if not options.output:
        return pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-quickstart-", dir="/var/tmp"))
    options.output.mkdir(parents=True, exist_ok=True)
    return options.output.resolve()


def mount_tracefs():
    """Mounts tracefs, if no program has mounted it since boot."""
    if not os.path.exists("/sys/kernel/tracing/instances"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"],
                       capture_output=True)


def main():
    options = parse(sys.argv[1:])
    if options.only_check:
        return
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    build = options.build.resolve()
    out = make_output(options)
    demo, config = out / "demo.bin", out / "quickstart.cfg"
    trace, database = out / "quickstart.pftrace", out / "quickstart.db"
    report = out / "quickstart.html"
    load.make_file(demo, DEMO_MIB * load.MIB)
    config.write_text(CONFIG.format(
        demo=demo, vmstat="\n".join(f"      vmstat_counters: VMSTAT_{name.upper()}"
                         for name in present_counters()),
        pressure="      psi_period_ms: 500" if os.path.exists("/proc/pressure/memory") else ""))

    doing = "or more, with real memory pressure" if options.pressure else "with a harmless load"
    print(f"[3/5] Recording {options.seconds:g} seconds {doing}", flush=True)
    mount_tracefs()
    try:
        record(build / "producer" / "mmtrace", config, trace, demo, options.seconds,
               options.pressure)
    finally:
        demo.unlink()
    print("[4/5] Converting", flush=True)
    started = time.monotonic()
    subprocess.run([build / "converter" / "mmsql", "convert", "--quiet", trace, "-o", database],
                   check=True)
    print(f"      a trace of {bytes_text(trace.stat().st_size)} became"
          f" a database of {bytes_text(database.stat().st_size)}"
          f" in {time.monotonic() - started:.2f} s")
    subprocess.run([build / "converter" / "mmsql", "report", database, "-o", report], check=True)
    print("[5/5] What happened")
    db = Database(build / "converter" / "mmsql", database)
    show_verdict(db)
    show_events(db)
    show_episodes(db)
    show_vmstat(db)
    show_residency(db, demo)
    show_losses(db)
    show_next(out, build)
    show_report(report)
    if not options.output:
        give_to_caller(out)


if __name__ == "__main__":
    try:
        main()
    except (Failure, subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"quickstart: {error}")
    except KeyboardInterrupt:
        sys.exit("quickstart: interrupted")
