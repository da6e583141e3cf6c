# SPDX-License-Identifier: Apache-2.0
"""mmsql report: the page in a real browser, its data, and the vendored files in it."""
import contextlib
import hashlib
import html
import json
import pathlib
import re
import shutil
import sqlite3
import struct
import tempfile
import unittest
import zlib

import browser
import lib
from protowire import field

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"
HEAP = GOLDEN / "heap_continuous.pftrace"
FOLDER = lib.ROOT / "converter" / "report"
VENDORED = FOLDER / "vendor"
# A second after the last sample of verdict_residency.textproto.
END = ("packet { trusted_packet_sequence_id: 1 timestamp: 13000000000 "
       "sys_stats { vmstat { key: VMSTAT_NR_FREE_PAGES value: 1 } } }")
N_EVENTS = 1_000_000
# Fields of TracePacket and FtraceEvent, and keys of vmstat.
CLOCK_SNAPSHOT, FTRACE_EVENTS, PROCESS_TREE, SYS_STATS, TIMESTAMP, SEQUENCE = 6, 1, 2, 7, 8, 10
RSS_STAT, RECLAIM_BEGIN, RECLAIM_END = 313, 46, 47
VMSTAT = (1, 9, 11, 14, 15, 41, 42, 49, 50, 119, 124, 149, 150, 153, 154, 186)
N_TASKS, STEP_NS, BUNDLE = 40, 100_000, 1000


def write_many_events(path):
    """A trace of N_EVENTS kernel events: forty tasks reclaim and grow, all the time. Each bundle of
    events has a reading of vmstat."""
    def packet(body):
        return field(1, body + field(SEQUENCE, 1))

    pids = range(1000, 1000 + N_TASKS)
    ends = {pid: [field(2, pid) + field(kind, body) for kind, body in (
        (RECLAIM_BEGIN, field(1, 0) + field(3, 0x400)), (RECLAIM_END, field(1, pid % 64)),
        (RSS_STAT, field(1, 1) + field(2, pid << 20) + field(3, 1) + field(4, pid)))]
        for pid in pids}
    with open(path, "wb") as out:
        out.write(packet(field(CLOCK_SNAPSHOT, field(1, field(1, 6) + field(2, 1)) + field(2, 6))))
        out.write(packet(field(TIMESTAMP, 1) + field(PROCESS_TREE, b"".join(
            field(1, field(1, pid) + field(2, 1) + field(3, b"task%d" % pid)) for pid in pids))))
        for first in range(0, N_EVENTS, BUNDLE):
            events = bytearray(field(1, 0))
            for n in range(first, first + BUNDLE):
                pid = pids[n // 3 % N_TASKS]
                events += field(2, field(1, (n + 1) * STEP_NS) + ends[pid][n % 3])
            out.write(packet(field(FTRACE_EVENTS, bytes(events))))
            out.write(packet(field(TIMESTAMP, (first + BUNDLE) * STEP_NS) + field(
                SYS_STATS, b"".join(field(2, field(1, key) + field(2, 100_000 + first * key % 9973))
                                    for key in VMSTAT))))


def write_reclaims(path):
    """Ten seconds: `always` waits in one long episode, `seldom` 40 us of each 5 ms, and each of two
    threads of `half` 1 ms of each 2 ms, both at once."""
    seconds, ms = 10, 1_000_000
    spans = [(1, 0, seconds * 1000 * ms)]
    spans += [(2, n * 5 * ms, n * 5 * ms + ms * 4 // 100) for n in range(seconds * 200)]
    spans += [(tid, n * 2 * ms, n * 2 * ms + ms) for n in range(seconds * 500) for tid in (3, 4)]
    events = sorted((begin + 1 + (end - begin) * is_end, is_end, tid)
                    for tid, begin, end in spans for is_end in (0, 1))

    def packet(body):
        return field(1, body + field(SEQUENCE, 1))

    def process(pid, name):
        return field(1, field(1, pid) + field(2, 1) + field(3, name))

    with open(path, "wb") as out:
        out.write(packet(field(CLOCK_SNAPSHOT, field(1, field(1, 6) + field(2, 1)) + field(2, 6))))
        out.write(packet(field(TIMESTAMP, 1) + field(PROCESS_TREE, process(1, b"always") + process(
            2, b"seldom") + process(3, b"half") + field(2, field(1, 4) + field(3, 3)))))
        bundle = field(1, 0) + b"".join(field(2, field(1, at) + field(2, tid) + field(
            RECLAIM_END if is_end else RECLAIM_BEGIN, field(1, 1))) for at, is_end, tid in events)
        out.write(packet(field(FTRACE_EVENTS, bundle)))
        out.write(packet(field(TIMESTAMP, seconds * 1000 * ms + 2) + field(
            SYS_STATS, field(2, field(1, 1) + field(2, 1000)))))


# The labels of the lanes, and which part of a lane's room has the colour of direct reclaim.
INK_OF_LANES = """(() => {
    const canvas = document.querySelector("#chart-lanes canvas");
    const copy = document.createElement("canvas");
    Object.assign(copy, {width: canvas.width, height: canvas.height});
    const context = copy.getContext("2d", {willReadFrequently: true});
    context.drawImage(canvas, 0, 0);
    const each = Math.floor((canvas.height - AXIS) / 3), width = canvas.width - LEFT - RIGHT;
    const wanted = [1, 3, 5].map(at => parseInt(palette.c5.slice(at, at + 2), 16));
    return [...document.querySelectorAll("#chart-lanes .labels span")].map((label, n) => {
        const ink = context.getImageData(LEFT, (n + 1) * each - 20, width, 16).data;
        let found = 0;
        for (let i = 0; i < ink.length; i += 4) {
            found += ink[i + 3] > 250 &&
                wanted.every((part, at) => Math.abs(part - ink[i + at]) < 8);
        }
        return [label.textContent, found / (ink.length / 4)] }) })()"""

# Two arrays of 24 bytes, and an object of 16.
JAVA_LOG = """\
+0,jthread[main], jclass[[I file: <UNKNOWN_FILE>], size[24, hex: 0x18]
+1,LA;::run()V
+2,LA;::make()V
=3,0;1;2
3
3
+4,jthread[main], jclass[LB; file: B.java], size[16, hex: 0x10]
=5,4;1
5
"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="report-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.page = cls.dir / "pressure.html"
        cls.make(cls.page, PRESSURE)

    @classmethod
    def make(cls, output, *inputs):
        done = lib.run(lib.MMSQL, "report", *inputs, "-o", output)
        if done.returncode:
            raise AssertionError(done.stderr)

    @staticmethod
    def data_of(page):
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>',
                                    page.read_text(), re.DOTALL).group(1))


class Page(Report):
    def test_the_verdict_is_there_without_a_script(self):
        said = lib.run(lib.MMSQL, "verdict", PRESSURE).stdout.split("\n")
        found = re.findall(r"<li class=.*?<p>(.*?)</p></li>", self.page.read_text())
        self.assertEqual([html.unescape(text) for text in found], [line for line in said if line])

    def test_the_data_are_those_of_the_database(self):
        data = self.data_of(self.page)["traces"][0]
        sets = {each["series"]: each for each in data["data"]["memory"]}
        rows = lib.run(lib.MMSQL, "query", "--csv", PRESSURE,
                       "SELECT min(value) * 4096, count(*) FROM counter JOIN counter_track t "
                       "ON t.id = track_id WHERE name = 'nr_free_pages'").stdout.splitlines()
        least, n = map(float, rows[1].split(","))
        self.assertEqual(min(sets["free"]["v"]), least)
        self.assertEqual(len(sets["free"]["t"]), n)
        lanes = data["data"]["lanes"]
        n_episodes = lib.run(lib.MMSQL, "query", "--csv", PRESSURE,
                             "SELECT count(*) FROM reclaim_episode").stdout.split()[1]
        self.assertEqual(sum(sum(lane["n"]) for lane in lanes), int(n_episodes))

    def test_samples_have_a_flame_graph_for_each_kind(self):
        text = (GOLDEN / "imports" / "perf_samples.textproto").read_text()
        old = 'timebase { tracepoint { name: "sched:sched_switch" } period: 1 }'
        self.assertIn(old, text)
        for new, title in (("SW_PAGE_FAULTS", "Page faults: samples"),
                           ("SW_CPU_CLOCK", "CPU time: samples")):
            with self.subTest(title):
                trace, output = self.dir / "samples.pftrace", self.dir / "samples.html"
                trace.write_bytes(lib.encode(text.replace(old, f"timebase {{ counter: {new} }}")))
                self.make(output, trace)
                flames = self.data_of(output)["traces"][0]["flames"]
                self.assertIn(title, [flame["title"] for flame in flames])
                self.assertEqual(flames[0]["names"][:2], ["all", "app (10)"])

    def test_text_compares_the_key_figures_of_the_page(self):
        def trace(name, **ends):
            packets = [f"packet {{ timestamp: {at} sys_stats {{ " + " ".join(
                f"vmstat {{ key: VMSTAT_{key.upper()} value: {values[i]} }}"
                for key, values in ends.items()) + " } }" for i, at in enumerate((1, 500000001))]
            (self.dir / name).write_bytes(lib.encode("\n".join(packets)))
            return self.dir / name

        a = trace("a.pftrace", nr_free_pages=(1024, 2048), pgmajfault=(5, 25), pswpin=(7, 7),
                  pswpout=(0, 256))
        b = trace("b.pftrace", nr_free_pages=(512, 512), pgmajfault=(9, 109), pswpin=(0, 512))
        done = lib.run(lib.MMSQL, "report", "--text", a, b)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(done.stdout.index(f"A {a}\n"), done.stdout.index(f"B {b}\n"))
        table = done.stdout.split("\nKey figures\n")[1].split("\n\n")[0].splitlines()
        self.assertEqual([re.split(" {2,}", line.strip()) for line in table[:1] + table[2:]], [
            ["figure", "A", "B", "B against A"],
            ["duration", "500.0 ms", "500.0 ms", "0.0 ms (0 %)"],
            ["least free memory", "4.0 MiB", "2.0 MiB", "-2.0 MiB (-50 %)"],
            ["major faults", "20", "100", "+80 (+400 %)"],
            ["swapped out", "1.0 MiB", "-", "-"],
            ["swapped in", "0.0 MiB", "2.0 MiB", "+2.0 MiB"]])
        both = self.dir / "figures.html"
        self.make(both, a, b)
        shown = [each["data"]["figures"] for each in self.data_of(both)["traces"]]
        self.assertEqual([figures["name"] for figures in shown],
                         [["duration", "least free memory", "major faults", "swapped out",
                           "swapped in"],
                          ["duration", "least free memory", "major faults", "swapped in"]])
        self.assertEqual(shown[1]["value"], [500_000_000, 2 << 20, 100, 2 << 20])

    def test_a_known_zero_is_zero(self):
        """The events of memory cgroups were on, and none came; those of compaction were off."""
        head = """
            packet { trace_config { data_sources { config { name: "linux.ftrace" ftrace_config {
              ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_begin"
              ftrace_events: "%s" } } } } }
            packet { ftrace_stats { phase: START_OF_TRACE cpu_stats { cpu: 0 entries: 0 } } }
            packet { timestamp: 1 sys_stats { vmstat { key: VMSTAT_PGMAJFAULT value: 1 } } }
            packet { timestamp: 9000000 sys_stats {
              vmstat { key: VMSTAT_PGMAJFAULT value: 1 } } }"""
        reclaim = """packet { ftrace_events { cpu: 0
            event { timestamp: 1000 pid: 7 mm_vmscan_memcg_reclaim_begin { order: 0 } }
            event { timestamp: 3001000 pid: 7 mm_vmscan_memcg_reclaim_end { nr_reclaimed: 4 } }
            } }"""
        traces = [self.dir / f"zero-{name}.pftrace" for name in "ab"]
        traces[0].write_bytes(lib.encode(head % "vmscan/*"))
        traces[1].write_bytes(lib.encode(head % "vmscan/mm_vmscan_memcg_reclaim_end" + reclaim))
        done = lib.run(lib.MMSQL, "report", "--text", *traces)
        table = done.stdout.split("\nKey figures\n")[1].split("\n\n")[0].splitlines()
        rows = {row[0]: row[1:] for row in (re.split(" {2,}", line.strip()) for line in table)}
        self.assertEqual(rows["memcg reclaim"], ["0", "1", "+1"])
        self.assertEqual(rows["memcg reclaim, total time"], ["0.0 ms", "3.0 ms", "+3.0 ms"])
        self.assertEqual(rows["direct reclaim"], ["0", "-", "-"])
        self.assertNotIn("compaction", rows)
        both = self.dir / "zero.html"
        self.make(both, *traces)
        figures = self.data_of(both)["traces"][0]["data"]["figures"]
        self.assertEqual(figures["value"][figures["name"].index("memcg reclaim")], 0)

    def text_rows(self, trace, title):
        """The rows of a table of the report as text, as lists of cells."""
        done = lib.run(lib.MMSQL, "report", "--text", trace)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        table = done.stdout.split(f"\n{title}\n")[1].split("\n\n")[0].splitlines()
        return [re.split(" {2,}", line.strip()) for line in table[2:]]

    def test_reclaim_in_a_memory_cgroup_counts(self):
        """kswapd and direct reclaim stand still; only the totals grow."""
        trace, output = self.dir / "memcg.pftrace", self.dir / "memcg.html"
        trace.write_bytes(lib.encode((GOLDEN / "imports" / "verdict_memcg.textproto").read_text()))
        figures = dict(self.text_rows(trace, "Key figures"))
        self.assertEqual(figures["scanned"], "160.2 MiB")
        self.assertEqual(figures["reclaimed"], "119.2 MiB")
        self.make(output, trace)
        rates = {each["series"]: max(each["v"]) for each
                 in self.data_of(output)["traces"][0]["data"]["rates"]}
        self.assertEqual([rates[name] for name in ("scanned", "reclaimed")],
                         [42000 * 4096, 31000 * 4096])
        self.assertEqual([rates[f"{name} by {who}"] for name in ("scanned", "reclaimed")
                          for who in ("kswapd", "direct reclaim")], [0] * 4)

    def test_what_is_not_known_is_not_zero(self):
        """The kernel does not say what kswapd and compaction freed; and this trace lacks the
        counters of memory cgroups."""
        freed = {row[1]: row[-1] for row in self.text_rows(PRESSURE, "Reclaim and compaction")}
        self.assertEqual([freed["kswapd"], freed["compaction"]], ["-", "-"])
        self.assertRegex(freed["direct reclaim"], r"^\d+\.\d MiB$")
        figures = dict(self.text_rows(PRESSURE, "Key figures"))
        self.assertEqual(figures["reclaimed outside memory cgroups"], "1563.5 MiB")
        self.assertNotIn("reclaimed", figures)

    def test_a_log_of_java_allocations_alone(self):
        log, page = self.dir / "alone.log", self.dir / "alone.html"
        log.write_text(JAVA_LOG)
        done = lib.run(lib.MMSQL, "report", "--text", log)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Samples of Java allocations: 3. ", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^LA;::make\(\)V +0\.0 KiB +0\.0 KiB +2$")
        self.assertNotIn("duration", done.stdout)
        done = lib.run(lib.MMSQL, "convert", log, "-o", self.dir / "alone.db")
        self.assertIn(": 0 packets (0.0 MB) -> 10 rows (", done.stderr)
        self.make(page, log)
        self.assertEqual([flame["title"] for flame in self.data_of(page)["traces"][0]["flames"]],
                         ["Java allocations (log): sampled objects"])
        done = lib.run(lib.MMSQL, "report", log, log, "-o", page)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"mmsql: {log}: there is no trace in it\n"))

    def test_vendored_files_are_unchanged(self):
        folders = [path.parent for path in VENDORED.glob("*/SHA256SUMS")]
        self.assertTrue(folders)
        for folder in folders:
            sums = dict(reversed(line.split()) for line
                        in (folder / "SHA256SUMS").read_text().splitlines())
            self.assertEqual(set(sums), {path.name for path in folder.iterdir()} - {"SHA256SUMS"})
            self.assertIn("LICENSE", sums)
            for name, wanted in sums.items():
                text = (folder / name).read_bytes()
                self.assertEqual(hashlib.sha256(text).hexdigest(), wanted, name)
                if not name.endswith("iife.js"):  # the source of the file in the page
                    self.assertIn(text.decode().strip(), self.page.read_text(), name)

    def test_wrong_usage(self):
        for arguments, code in (([], 2), (["a", "b", "c"], 2), (["-", "-"], 2),
                                (["/nonexistent"], 1)):
            with self.subTest(arguments):
                done = lib.run(lib.MMSQL, "report", *arguments, "-o", self.dir / "none.html")
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertFalse((self.dir / "none.html").exists())


@unittest.skipUnless(browser.program(), "needs Chromium (scripts/install-deps test)")
class Opened(Report):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, page, **look):
        self.browser.look(**look)
        self.browser.open(page)
        self.addCleanup(self.assert_quiet, page)
        return self.browser

    @staticmethod
    def place_of(page, plot):
        """The room of the value axis, and the place and width of a plot."""
        return page.run(f"(() => {{ const box = document.querySelector('{plot}')"
                        ".getBoundingClientRect(); return [LEFT, box.x, box.y, box.width] })()")

    def assert_quiet(self, page):
        """The console is empty, and the page requests only its own file."""
        self.assertEqual(self.browser.errors, [])
        self.assertEqual(self.browser.requests, [page.resolve().as_uri()])


class InBrowser(Opened):
    def test_charts_are_drawn(self):
        page = self.open(self.page)
        drawn = page.run("""[...document.querySelectorAll('#charts canvas')].map(canvas =>
            new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width,
                canvas.height).data.buffer)).size)""")
        self.assertGreaterEqual(len(drawn), 6)
        self.assertGreater(min(drawn), 5, "each canvas has several colours")

    def test_bars_of_reclaim_tell_the_time(self):
        """The height of a bar is the part of the time: of a task that waited 0.8 % of the time, of
        one whose two threads waited half of the time together, and of one that waited always."""
        trace, output = self.dir / "parts.pftrace", self.dir / "parts.html"
        write_reclaims(trace)
        self.make(output, trace)
        for width, height in ((1280, 800), (390, 844)):
            page = self.open(output, width=width, height=height)
            for begin, end in ((0, 10), (4, 5), (4, 4.05)):
                with self.subTest(width=width, begin=begin, end=end):
                    page.run(f"look({begin}, {end})")
                    page.settle()
                    parts = {label.split()[0]: part for label, part in page.run(INK_OF_LANES)}
                    self.assertGreater(parts["always"], 0.98)
                    self.assertAlmostEqual(parts["half"], 0.5, delta=0.06)
                    self.assertLess(parts["seldom"], 0.15)
                    self.assertGreater(parts["seldom"], 0)
        self.assertIn("Full height: all the time", page.run(
            "document.querySelector('#chart-lanes .keys').textContent"))
        told = page.run("lanesOf(page.traces[0], '').map(lane => tellPiece(lane, 5)).join('\\n')")
        self.assertIn("\n3 × direct reclaim at 5.000 s, 120 µs in sum (1.2 % of 10 ms)", told)

    def test_labels_of_axes_fit(self):
        """The labels of an axis have one unit, and steps of 1, 2 or 5."""
        page = self.open(self.page)
        axes = page.run("""Object.keys(AXIS_UNITS).flatMap(unit =>
            Array.from({length: 300}, (_, i) => 0.01 * 1.15 ** i)
                .filter(most => most < (unit === "percent" ? 101 : 1e15)).map(most => {
                    const {at, labels} = valueTicks(most, unit);
                    return [unit, most, at, labels, Math.max(...labels.map(axisTextWidth))] }))""")
        room = page.run("LEFT - AXIS_GAP")
        for unit, most, at, labels, width in axes:
            with self.subTest(unit=unit, most=most, labels=labels):
                self.assertLessEqual(width, room)
                self.assertGreaterEqual(at[-1], min(most, 100) if unit == "percent" else most)
                self.assertEqual(len({label.lstrip("0123456789.") for label in labels[1:]}), 1)
                self.assertEqual(len(set(labels)), len(labels))
                step = float(re.match(r"[\d.]+", labels[1])[0])
                self.assertIn(f"{step:e}"[:8], ("1.000000", "2.000000", "5.000000"))
                self.assertIn(len(labels), (3, 4, 5))
        drawn = page.run("plots.map(u => u.axes[1]._values)")
        self.assertIn(["0", "0.5 GiB/s", "1 GiB/s"], drawn)

    def test_tables_and_flame_graphs_have_names(self):
        for trace, n_tables, n_flames in ((PRESSURE, 9, 0), (HEAP, 2, 2)):
            output = self.dir / "names.html"
            self.make(output, trace)
            page = self.open(output)
            page.run("document.querySelectorAll('button[aria-label^=Table]')"
                     ".forEach(button => button.click())")
            page.settle()
            nodes = [(node["role"]["value"], node["name"]["value"]) for node
                     in page.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
            names = [name for role, name in nodes if role == "table"]
            self.assertGreaterEqual(len(names), n_tables)
            self.assertTrue(all(names), names)
            self.assertEqual(len(set(names)), len(names))
            flames = [name for role, name in nodes if role == "application"]
            self.assertEqual(len(flames), n_flames)
            for n, name in enumerate(flames):
                self.assertIn(page.run(f"document.querySelector('#flame-{n} h3').textContent"),
                              name)
            notes = page.run("[...document.querySelectorAll('.note')].map(n => n.textContent)")
            self.assertEqual(any("Click a frame" in note for note in notes), bool(n_flames))

    def test_fingers(self):
        """A tap shows values, which stay until a tap elsewhere; two fingers zoom."""
        page = self.open(self.page, width=390, height=844)
        page.run("document.querySelector('#chart-memory .plot').scrollIntoView({block: 'center'})")
        left, x, y, width = self.place_of(page, "#chart-memory .plot")
        middle = x + left + (width - left - 12) / 2
        page.tap(middle, y + 50)
        self.assertAlmostEqual(page.run("time.at"), page.run("time.span") / 2, delta=0.05)
        self.assertNotIn("min", page.run("document.querySelector('#chart-memory .legend b')"
                                         ".textContent"))
        page.fingers([(middle - 20, y + 50), (middle + 20, y + 50)],
                     [(middle - 80, y + 50), (middle + 80, y + 50)])
        begin, end = page.run("[time.from, time.to]")
        self.assertAlmostEqual((end - begin) / page.run("time.span"), 1 / 4, delta=0.02)
        self.assertAlmostEqual((begin + end) / 2, page.run("time.span") / 2, delta=0.05)
        page.run("look(0, time.span)")
        page.run("document.querySelector('#chart-lanes .plot').scrollIntoView({block: 'center'})")
        _, x, y, width = self.place_of(page, "#chart-lanes .plot")
        page.tap(middle, y + 20)
        self.assertIn("kswapd", page.run("byId('tip').hidden ? '' : byId('tip').textContent"))
        x, y = page.run("(() => { const box = document.querySelector('#chart-lanes h3')"
                        ".getBoundingClientRect(); return [box.x + 5, box.y + 5] })()")
        page.tap(x, y)
        self.assertEqual(page.run("[time.at, byId('tip').hidden]"), [None, True])

    def test_headings_are_whole(self):
        output = self.dir / "headings.html"
        self.make(output, HEAP)
        for each in (output, self.page):
            page = self.open(each)
            for width, height in ((1280, 800), (390, 844)):
                page.look(width, height)
                page.settle()
                self.assertEqual(page.run("[...document.querySelectorAll('h3')].filter(h => "
                                          "h.scrollWidth > h.clientWidth).map(h => h.textContent)"),
                                 [])
            self.doCleanups()

    def test_prose_is_no_code(self):
        output = self.dir / "prose.html"
        self.make(output, HEAP)
        page = self.open(output)
        code = page.run("[...document.querySelectorAll('.empty code')].map(c => c.textContent)")
        self.assertIn('ftrace_events: "oom/mark_victim"', code)
        for text in code:
            self.assertNotRegex(text, r"needs root|killed| and | or | with |`")
        self.assertNotIn("`", page.run("document.body.innerText"))

    def test_zoom(self):
        page = self.open(self.page)
        whole = page.run("[time.from, time.to]")
        page.run("document.querySelector('#chart-memory .plot').scrollIntoView({block: 'center'})")
        left, *box = self.place_of(page, "#chart-memory .plot")
        x, y = box[0] + left + 200, box[1] + 50
        page.drag(x, y, x + 200, y)
        begin, end = page.run("[time.from, time.to]")
        wanted = [at / (box[2] - left - 12) * whole[1] for at in (200, 400)]
        self.assertAlmostEqual(begin, wanted[0], delta=0.02)
        self.assertAlmostEqual(end, wanted[1], delta=0.02)
        seen = page.run("plots.map(u => [u.scales.x.min, u.scales.x.max])")
        self.assertEqual(seen, [[begin, end]] * len(seen), "all charts zoom together")
        page.press("0")
        self.assertEqual(page.run("[time.from, time.to]"), whole)
        page.press("+")
        self.assertLess(page.run("time.to - time.from"), whole[1] * 0.6)

    def test_values_under_the_pointer(self):
        page = self.open(self.page)
        page.run("document.querySelector('#chart-memory .plot').scrollIntoView({block: 'center'})")
        left, x, y, width = self.place_of(page, "#chart-memory .plot")
        page.mouse("mouseMoved", x + left + (width - left - 12) / 2, y + 50)
        page.settle()
        at = page.run("time.at")
        self.assertAlmostEqual(at, page.run("time.span") / 2, delta=0.02)
        free = next(each for each in self.data_of(self.page)["traces"][0]["data"]["memory"]
                    if each["series"] == "free")
        value = max((t, v) for t, v in zip(free["t"], free["v"]) if t / 1e6 <= at)[1]
        self.assertEqual(page.run("document.querySelector('#chart-memory .legend b').textContent"),
                         page.run(f"bytes({value})"))

    def test_a_sentence_leads_to_its_moment(self):
        page = self.open(self.page)
        page.run("document.querySelector('.verdict button').click()")
        page.settle()
        begin, end = page.run("[time.from, time.to]")
        mark = page.run("time.marks[0]")
        self.assertLess(begin, mark["from"])
        self.assertGreater(end, mark["to"])
        self.assertLess(end - begin, page.run("time.span"))

    def test_charts_have_tables(self):
        page = self.open(self.page)
        n = page.run("""[...document.querySelectorAll('#charts .plot')].map(plot => {
            const panel = plot.closest('.panel');
            panel.querySelector('button[aria-label^=Table]').click();
            return [plot.getAttribute('aria-label').length,
                    panel.querySelectorAll('tbody tr').length] })""")
        self.assertGreater(len(n), 5)
        for label, rows in n:
            self.assertGreater(label, 10)
            self.assertGreater(rows, 0)

    def test_colours_can_be_told_apart(self):
        for dark in (False, True):
            page = self.open(self.page, dark=dark)
            colours = page.run("palette")
            for names, grounds, least in ((("text", "soft", "link"), ("ground", "card"), 4.5),
                                          ([f"c{n}" for n in range(1, 9)] + ["critical", "warning"],
                                           ("ground", "card"), 3)):
                for name in names:
                    for ground in grounds:
                        with self.subTest(dark=dark, name=name, ground=ground):
                            self.assertGreaterEqual(contrast(colours[name], colours[ground]), least)
            for name in ("flame0", "flame1", "flame2", "grew", "shrank", "same"):
                self.assertGreaterEqual(contrast(colours["flametext"], colours[name]), 4.5, name)

    def test_a_flame_graph_zooms_and_searches(self):
        flames = self.dir / "heap.html"
        self.make(flames, HEAP)
        page = self.open(flames)
        page.run("document.querySelector('#flame-0 input').focus()")
        page.type("leaf_a")
        self.assertEqual(page.run("document.querySelector('#flame-0 .range').textContent"),
                         "1 frame, 72.7 % of all")  # 32768 of 45056
        page.press("Escape")
        page.run("document.querySelector('#flame-0 .flame').focus()")
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            page.press(key)
        self.assertEqual(page.run("document.querySelector('#flame-0 .range').textContent"),
                         "leaf_a: 32 KiB (72.7 %), itself 32 KiB")
        page.run("document.querySelector('#flame-0 button[aria-label^=Table]').click()")
        rows = page.run("[...document.querySelectorAll('#flame-0 tbody tr')]"
                        ".map(row => [...row.cells].map(cell => cell.textContent))")
        self.assertEqual(rows, [["leaf_a", "32 KiB", "32 KiB"], ["leaf_c", "12 KiB", "12 KiB"],
                                ["main", "0 B", "44 KiB"]])

    def test_two_traces(self):
        both = self.dir / "both.html"
        self.make(both, PRESSURE, HEAP)
        page = self.open(both)
        self.assertEqual(page.run("document.getElementById('title').textContent"),
                         "A mm_pressure.pftrace  and  B heap_continuous.pftrace")
        head = page.run("[...document.querySelectorAll('#figures th')].map(th => th.textContent)")
        self.assertEqual(head, ["", "A", "B", "B against A"])
        slab = page.run("[...document.querySelectorAll('#charts h3')].map(h => h.textContent)"
                        ".filter(title => title.includes('Slab'))")
        self.assertEqual(slab[0], "A Slab (kernel objects)", "no stack of two traces")
        self.make(both, HEAP, HEAP)
        page = self.open(both)
        page.run("document.querySelector('#flame-0 .flame').focus()")
        page.press("Enter")
        self.assertEqual(page.run("document.querySelector('#flame-0 .range').textContent"),
                         "all: 44 KiB → 44 KiB")

    def test_marks_of_two_traces(self):
        """A chart of both traces says whose mark or kill it is; a lane has those of its trace."""
        both = self.dir / "marks.html"
        self.make(both, PRESSURE, PRESSURE)
        page = self.open(both)
        page.run("time.kills.push({at: 1, which: 0}, {at: 2, which: 1}); timeChanged()")
        page.settle()
        drawn = page.run("""(async () => {
            const letters = [];
            const old = drawLetters;
            drawLetters = (context, n, places, y) => {
                letters.push([n, places.length]);
                old(context, n, places, y);
            };
            plots[0].redraw();
            await new Promise(requestAnimationFrame);
            const shared = letters.splice(0);
            const context = document.createElement("canvas").getContext("2d");
            for (const which of [0, 1]) drawKills(context, 500, 0, 100, which);
            drawLetters = old;
            return [shared, letters] })()""")
        self.assertEqual([n for n, _ in drawn[0]], [0, 1, 0, 1], "marks and kills, A and B")
        self.assertTrue(all(count for _, count in drawn[0]), drawn)
        self.assertEqual(drawn[1], [])
        self.assertEqual(page.run("[...new Set(time.marks.map(mark => mark.which))]"), [0, 1])
        note = page.run("document.querySelector('#charts .note').textContent")
        self.assertIn("(A: plain, B: striped)", note)
        colours = page.run("""[0, 1].map(n => { const canvas = document.createElement("canvas");
            drawMarks(canvas.getContext("2d"), 200, 0, 100, n);
            return canvas.toDataURL() })""")
        self.assertEqual(len(set(colours)), 1, "each as in a report of one trace")

    def test_names_of_a_stranger_are_text(self):
        name = "</script><script>document.title='taken'</script><img src=http://example.com/x>"
        database, output = self.dir / "hostile.db", self.dir / "hostile.html"
        done = lib.run(lib.MMSQL, "convert", "-q", HEAP, "-o", database)
        self.assertEqual(done.returncode, 0, done.stderr)
        with contextlib.closing(sqlite3.connect(database)) as handle, handle:
            for table in ("process", "thread"):
                handle.execute(f"UPDATE _{table} SET name = ?", [name])
            handle.execute("UPDATE trace SET path = ?", [name])
            handle.execute("UPDATE verdict SET text = ?", [name])
            handle.execute("UPDATE metadata SET str_value = ?", [name])
        self.make(output, database)
        page = self.open(output)
        self.assertIn("memory report", page.run("document.title"))
        self.assertEqual(page.run("document.images.length"), 0)
        self.assertIn(name.split("/")[-1],
                      page.run("document.getElementById('title').textContent"))

    def test_a_narrow_screen(self):
        page = self.open(self.page, width=390, height=844)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)

    def test_paper_is_light(self):
        """The text, the ground and the charts, whatever the theme of the screen is."""
        page = self.open(self.page)
        light = page.run("palette")
        page.look(dark=True)
        page.wait("matchMedia('(prefers-color-scheme: dark)').matches")
        page.run("readPalette()")
        dark = page.run("palette")
        names = {name for name in light if light[name].startswith("#")} - {"ground"}
        for system, theme in (("dark", "auto"), ("light", "dark"), ("dark", "dark")):
            with self.subTest(system=system, theme=theme):
                page.look(dark=system == "dark")
                page.run(f"setTheme('{theme}')")
                page.settle()
                page.paper(self.dir / "page.pdf")
                inks = inks_of(self.dir / "page.pdf")
                self.assertLessEqual({light[name] for name in ("text", "soft", "grid", "c1", "c5")},
                                     inks)
                self.assertFalse(inks & {dark[name] for name in names}
                                 - {light[name] for name in names})
                self.assertEqual(page.run("palette"), dark, "the screen is as before")

    def test_the_first_move_shows_a_page_of_a_file(self):
        output = self.dir / "residency.html"
        trace = self.dir / "residency.pftrace"
        trace.write_bytes(lib.encode((GOLDEN / "imports" / "verdict_residency.textproto")
                                     .read_text()))
        self.make(output, trace)
        page = self.open(output)
        page.run("document.querySelector('.map .plot').scrollIntoView({block: 'center'})")
        left, x, y, width = self.place_of(page, ".map .plot")
        page.mouse("mouseMoved", x + left + (width - left - 12) / 2, y + 40)
        page.settle()
        self.assertRegex(page.run("byId('tip').hidden ? '' : byId('tip').textContent"),
                         r"^page \d+ at .*: (not )?resident")

    def test_pins_of_a_file(self):
        """The map shows which pages are pinned, and the part of them that is resident: of 256 pages
        of 64 KiB, the pages 0 to 199 go after a second, 0 to 149 come back after another one."""
        trace, pins, database, output = (self.dir / f"pins.{kind}"
                                         for kind in ("pftrace", "meta", "db", "html"))
        trace.write_bytes(lib.encode((GOLDEN / "imports" / "verdict_residency.textproto")
                                     .read_text() + END))
        pinned, size = ((100, 200), (240, 256)), 65536
        pins.write_bytes(b"".join(struct.pack(">II", a * size, (b - a) * size) for a, b in pinned))
        done = lib.run(lib.MMSQL, "convert", "-q", trace, "--pinlist", f"{pins}=libbig.so", "-o",
                       database)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.make(output, database)
        chart, = self.data_of(output)["traces"][0]["data"]["pin_coverage"]
        self.assertEqual([round(value) for value in chart["v"]], [100, 14, 57])
        page = self.open(output)
        page.run("document.querySelector('.map .plot').scrollIntoView({block: 'center'})")
        left, x, y, width = self.place_of(page, ".map .plot")
        shown = []
        for at in (0.5, 1.5, 2.5):
            page.mouse("mouseMoved", x + left + (width - left - 12) * at / 3, y + 40)
            page.settle()
            shown.append(page.run("[...document.querySelectorAll('.map .legend b')]"
                                  ".map(value => value.textContent)"))
        self.assertEqual(shown, [["16 MiB of 16 MiB (100 %)", "100 %"],
                                 ["3.5 MiB of 16 MiB (22 %)", "14 %"],  # 16 of 116 pinned pages
                                 ["12.9 MiB of 16 MiB (80 %)", "57 %"]])
        marks = page.run("""(() => {
            const canvas = document.querySelector('.map canvas'), scale = devicePixelRatio;
            const ink = canvas.getContext('2d').getImageData((LEFT - 6) * scale, 0, 1,
                MAP_HEIGHT * scale).data;
            return [...Array(MAP_HEIGHT).keys()].map(row => ink[row * scale * 4 + 3] > 0) })()""")
        for row, is_marked in enumerate(marks):
            first, last = (at * 256 / len(marks) for at in (row, row + 1))
            inside = any(a <= first and last <= b for a, b in pinned)
            outside = all(last < a or first > b for a, b in pinned)
            if inside or outside:
                self.assertEqual(is_marked, inside, f"row {row}")

    def test_java_allocations(self):
        """A log of allocations is a flame graph of bytes, with the classes as its leaves."""
        log, database, output = (self.dir / f"alloc.{kind}" for kind in ("log", "db", "html"))
        log.write_text(JAVA_LOG)
        done = lib.run(lib.MMSQL, "convert", "-q", PRESSURE, log, "-o", database)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.make(output, database)
        page = self.open(output)
        self.assertEqual(page.run("document.querySelector('#flame-0 h3').textContent"),
                         "Java allocations (log): sampled objects")
        page.run("document.querySelector('#flame-0 input').focus()")
        page.type("A.make")
        shown = [page.run("document.querySelector('#flame-0 .range').textContent")]
        page.press("Escape")
        page.run("document.querySelector('#flame-0 .flame').focus()")
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
            page.press(key)
        shown.append(page.run("document.querySelector('#flame-0 .range').textContent"))
        self.assertEqual(shown, ["1 frame, 75 % of all", "A.make(): 48 B (75 %), itself 0 B"])

    def test_a_log_alone_has_call_stacks_only(self):
        log, output = self.dir / "only.log", self.dir / "only.html"
        log.write_text(JAVA_LOG)
        self.make(output, log)
        page = self.open(output)
        self.assertEqual(page.run("[...document.querySelectorAll('h2')].map(h => h.textContent)"),
                         ["What happened", "Call stacks"])
        for key in "+0":
            page.press(key)
        self.assertEqual(page.run("document.querySelector('#flame-0 h3').textContent"),
                         "Java allocations (log): sampled objects")

    def test_a_date_that_no_calendar_has(self):
        database, output = self.dir / "date.db", self.dir / "date.html"
        lib.run(lib.MMSQL, "convert", "-q", PRESSURE, "-o", database)
        with contextlib.closing(sqlite3.connect(database)) as handle, handle:
            handle.execute("UPDATE trace SET realtime_offset = 9223372036854775807 - end_ts")
        self.make(output, database)
        facts = self.open(output).run("document.querySelector('#facts').textContent")
        self.assertRegex(facts, "(MB|KB|KiB|MiB)")

    def test_a_million_events(self):
        """The page is small, and opens in a second."""
        trace, output = self.dir / "many.pftrace", self.dir / "many.html"
        write_many_events(trace)
        self.make(output, trace)
        self.assertLess(output.stat().st_size, 2 << 20)
        data = self.data_of(output)["traces"][0]["data"]
        n_reclaims = sum(sum(lane["n"]) for lane in data["lanes"])
        self.assertEqual(n_reclaims, -(-N_EVENTS // 3), "the last one has no end")
        page = self.open(output)
        self.assertLess(page.worked_s(), 1)
        self.assertGreaterEqual(page.run("document.querySelectorAll('#charts .plot').length"), 8)


def inks_of(pdf):
    """The colours of a page on paper, from its drawing operations."""
    inks = set()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf.read_bytes(), re.DOTALL):
        try:
            text = zlib.decompress(stream)
        except zlib.error:
            continue  # another kind of stream
        inks |= {"#" + "".join(f"{round(float(part) * 255):02x}" for part in ink.split())
                 for ink in re.findall(rb"([\d.]+ [\d.]+ [\d.]+) (?:rg|RG)\b", text)}
    return inks


def contrast(a, b):
    def light(colour):
        parts = [int(colour[n:n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    light, dark = sorted((light(a), light(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


if __name__ == "__main__":
    unittest.main()
