# SPDX-License-Identifier: Apache-2.0
"""mmsql report: the values beside the charts, where they hide most easily that they are false."""
import re
import struct
import unittest

import lib
from test_report import GOLDEN, PRESSURE, Opened, Report

RESIDENCY = (GOLDEN / "imports" / "verdict_residency.textproto").read_text()
# The recording goes on for a second after the last sample of RESIDENCY, and no packet tells about
# that second.
SILENCE = """
packet { timestamp: 13000000000 service_event { tracing_disabled: true } }
packet { trace_stats { buffer_stats { buffer_size: 4096 } } }"""
GONE = """
packet { trusted_packet_sequence_id: 1 timestamp: 12500000000 page_residency {
  samples { file_id: 1 gone: true } } }"""
N_BINS, SECOND = 800, 1_000_000_000
PAGE = 4096
LEVELS = {"NR_FREE_PAGES": "free", "NR_ANON_PAGES": "anonymous", "NR_FILE_PAGES": "file",
          "NR_SLAB_RECLAIMABLE": "slab, reclaimable",
          "NR_SLAB_UNRECLAIMABLE": "slab, unreclaimable"}
KILLS = "Killed for lack of memory"


def vmstat(at, **values):
    return f"packet {{ timestamp: {at} sys_stats {{ " + " ".join(
        f"vmstat {{ key: VMSTAT_{key} value: {value} }}" for key, value in values.items()) + " } }"


def short_peak():
    """A recording of 800 s, of which a bin is 1 s. In one bin, memory grows and shrinks again."""
    lines = ["packet { timestamp: 1000000000 process_tree {"
             " processes { pid: 7 ppid: 1 cmdline: \"hog\" } } }"]
    events = []
    for at, pages in ((1, 1000), (100.1, 1000), (100.2, 9000), (100.3, 500), (100.4, 1000),
                      (1 + N_BINS, 1000)):
        ns = round(at * SECOND)
        lines.append(vmstat(ns, **dict.fromkeys(LEVELS, pages)))
        if at < N_BINS:
            events.append(f"event {{ timestamp: {ns} pid: 7 rss_stat {{ member: 1 curr: 1 mm_id: 7 "
                          f"size: {pages * PAGE} }} }}")
    lines.append("packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0 "
                 + " ".join(events) + " } }")
    return lib.encode("\n".join(lines))


def watched(events, more=""):
    """A trace whose config has these events of ftrace on, and in which memory cgroups run full."""
    config = " ".join(f'ftrace_events: "{event}"' for event in events)
    return lib.encode(f"""
        packet {{ trace_config {{ data_sources {{ config {{ name: "linux.ftrace" ftrace_config {{
          {config} }} }} }} }} }}
        packet {{ ftrace_stats {{ phase: START_OF_TRACE cpu_stats {{ cpu: 0 entries: 0 }} }} }}
        packet {{ ftrace_events {{ cpu: 0
          event {{ timestamp: 1000 pid: 7 mm_vmscan_memcg_reclaim_begin {{ order: 0 }} }}
          event {{ timestamp: 3001000 pid: 7 mm_vmscan_memcg_reclaim_end {{ nr_reclaimed: 4 }} }}
          }} }}
        {more}""")


class Traces(Report):
    def write(self, name, data):
        path = self.dir / name
        path.write_bytes(data)
        return path

    def data(self, trace):
        page = trace.with_suffix(".html")
        self.make(page, trace)
        return self.data_of(page)["traces"][0]["data"]

    def pinned(self, trace):
        """A database with the trace and a pinlist of its file."""
        pins, database = trace.with_suffix(".meta"), trace.with_suffix(".db")
        size = 65536
        pins.write_bytes(b"".join(struct.pack(">II", a * size, (b - a) * size)
                                  for a, b in ((100, 200), (240, 256))))
        done = lib.run(lib.MMSQL, "convert", "-q", trace, "--pinlist", f"{pins}=libbig.so", "-o",
                       database)
        self.assertEqual(done.returncode, 0, done.stderr)
        return database


class Values(Traces):
    def test_the_chart_of_processes_has_the_peaks_of_the_table(self):
        data = self.data_of(self.page)["traces"][0]["data"]
        peaks = dict(zip(data["process_table"]["process"], data["process_table"]["peak_bytes"]))
        drawn = {each["series"]: max(each["v"]) for each in data["processes"]}
        self.assertTrue(drawn)
        self.assertEqual(drawn, {name: peaks[name] for name in drawn})
        self.assertIn("60.0 MiB", re.search(r"(?m)^hog .*", lib.run(
            lib.MMSQL, "report", "--text", PRESSURE).stdout.split("\nLargest processes\n")[1])[0])

    def test_a_bin_has_the_value_that_matters(self):
        """The most of what tasks and the kernel use, the least of free memory. A process that is
        silent later keeps its last size, not its peak."""
        data = self.data(self.write("peak.pftrace", short_peak()))
        for each in data["memory"]:
            matters = (min if each["series"] == "free" else max)(each["v"])
            self.assertEqual(matters, (500 if each["series"] == "free" else 9000) * PAGE)
            self.assertEqual(len(each["v"]), 3, "one value in a bin")
        self.assertEqual({each["series"] for each in data["memory"]}, set(LEVELS.values()))
        hog, = data["processes"]
        at = {t / 1e6: v // PAGE for t, v in zip(hog["t"], hog["v"])}
        self.assertEqual(at, {0: 1000, 99.2: 9000, 99.4: 1000})

    def test_a_bin_has_the_least_of_a_pinlist(self):
        """All samples are in one bin of 10 s: 100 %, 14 % and 57 %, which stays."""
        last = 10 + 10 * N_BINS
        trace = self.write("bin.pftrace", lib.encode(RESIDENCY + vmstat(
            last * SECOND, NR_FREE_PAGES=1)))
        chart, = self.data(self.pinned(trace))["pin_coverage"]
        self.assertEqual([round(value) for value in chart["v"]], [14, 57])

    def test_a_small_change_in_percent(self):
        traces = [self.write(f"free-{name}.pftrace", lib.encode("\n".join(
            vmstat(at, NR_FREE_PAGES=free, PGMAJFAULT=faults)
            for at, faults in ((1, 0), (500000001, n_faults)))))
            for name, free, n_faults in (("a", 1000000, 100000), ("b", 1002000, 100007))]
        table = lib.run(lib.MMSQL, "report", "--text", *traces).stdout
        self.assertRegex(table, r"least free memory .* \+7\.8 MiB \(\+0\.2 %\)\n")
        self.assertRegex(table, r"major faults .* \+7\n")


class AtRest(Traces, Opened):
    """The page in a browser, without a pointer over a chart."""

    def values(self, page):
        """The values beside the lanes and the maps of files, and beside the chart of pinlists."""
        return [page.run(f"[...document.querySelectorAll('{where}')].map(b => b.textContent)")
                for where in ("#chart-residency .labels b", ".map .legend b",
                              "#chart-pin_coverage .legend b")]

    def open_trace(self, trace):
        output = trace.with_suffix(".html")
        self.make(output, trace)
        return self.open(output)

    def test_files(self):
        """The last sample counts until the end of the recording; of a pinlist the least counts."""
        for name, more in (("silent", SILENCE), ("short", "")):
            with self.subTest(name):
                page = self.open_trace(self.pinned(self.write(
                    f"{name}.pftrace", lib.encode(RESIDENCY + more))))
                self.assertEqual(page.run("time.span"), 3 if more else 2)
                whole = [["last 80 %"], ["last 12.9 MiB (80 %)", "last 57 %"], ["min 13.8 %"]]
                self.assertEqual(self.values(page), whole)
                page.run("look(0, 1.5)")
                page.settle()
                self.assertEqual(self.values(page), [
                    ["last 22 %"], ["last 3.5 MiB (22 %)", "last 14 %"], ["min 13.8 %"]])
                page.run("look(0, 0.5)")
                page.settle()
                self.assertEqual(self.values(page), [
                    ["last 100 %"], ["last 16 MiB (100 %)", "last 100 %"], ["min 100 %"]])
                page.run("look(0, time.span); point(time.span)")
                page.settle()
                self.assertEqual(self.values(page)[1], ["12.9 MiB of 16 MiB (80 %)", "57 %"])
            self.doCleanups()

    def test_a_map_holds_the_last_sample(self):
        """The pages 0 to 149 are back at 2 s, the pages 150 to 199 are not; the recording ends at
        3 s. The ground of a time in the verdict goes through the map."""
        page = self.open_trace(self.write("held.pftrace", lib.encode(RESIDENCY + SILENCE)))
        ink = """(async (marks) => {
            time.marks = marks;
            timeChanged();
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            const plot = document.querySelector(".map .plot"), ratio = devicePixelRatio;
            const canvas = plot.querySelector("canvas"), copy = document.createElement("canvas");
            Object.assign(copy, {width: canvas.width, height: canvas.height});
            const context = copy.getContext("2d", {willReadFrequently: true});
            context.drawImage(canvas, 0, 0);
            return [1.5, 2.5, 2.9].flatMap(at => [75, 175].map(number => [...context.getImageData(
                xOf(at, plotWidth(plot)) * ratio, number / 256 * MAP_HEIGHT * ratio, 1, 1).data]
                .slice(0, 3).map(part => part.toString(16).padStart(2, "0")).join(""))) })"""
        plain = page.run(ink + "([])")
        gone, there = (page.run(f"palette.{name}")[1:] for name in ("heat0", "heat1"))
        self.assertEqual(plain, [gone, gone, there, gone, there, gone])
        marked = page.run(ink + "([{from: 1, to: 2, which: 0}])")
        self.assertEqual(marked[2:], plain[2:])
        for each in marked[:2]:
            self.assertNotEqual(each, gone)

    def test_a_file_that_is_gone_has_no_value(self):
        page = self.open_trace(self.pinned(self.write(
            "gone.pftrace", lib.encode(RESIDENCY + GONE + SILENCE))))
        self.assertEqual(self.values(page)[:2], [["–"], ["–", "–"]])
        page.run("look(0, 2.4)")
        page.settle()
        self.assertEqual(self.values(page)[:2], [
            ["last 80 %"], ["last 12.9 MiB (80 %)", "last 57 %"]])

    def test_nobody_was_killed(self):
        """The page says so only if the config had the event on, and if nothing was lost."""
        lost = "packet { ftrace_events { cpu: 0 lost_events: true } }"
        killed = ("packet { ftrace_events { cpu: 0 "
                  "event { timestamp: 2000 pid: 7 mark_victim { pid: 7 } } } }")
        traces = {name: self.write(f"{name}.pftrace", watched(*arguments)) for name, arguments in {
            "on": (["vmscan/*", "oom/mark_victim"],), "all": (["oom/*"],),
            "off": (["vmscan/*"],), "lossy": (["oom/mark_victim"], lost),
            "killed": (["oom/mark_victim"], killed)}.items()}
        nobody, absent, lossy = (
            "Nobody was killed.",
            'Not in this trace. To record it: ftrace_events: "oom/mark_victim" (needs root).',
            "No kill is in this trace, but the trace has losses.")
        said = {}
        for name, files in [*((name, [trace]) for name, trace in traces.items()),
                            *((f"{a} {b}", [traces[a], traces[b]]) for a, b in (
                                ("on", "all"), ("on", "off"), ("killed", "off")))]:
            output = self.dir / "kills.html"
            self.make(output, *files)
            page = self.open(output)
            said[name] = page.run(f"""[...document.querySelectorAll("#charts .panel h3")]
                .filter(h => h.textContent.includes("{KILLS}")).map(h => [h.textContent,
                    h.parentNode.querySelector(".empty")?.textContent ?? "table"])""")
            self.doCleanups()
        self.assertEqual(said, {
            "on": [[KILLS, nobody]], "all": [[KILLS, nobody]], "off": [[KILLS, absent]],
            "lossy": [[KILLS, lossy]], "killed": [[KILLS, "table"]],
            "on all": [[KILLS, nobody]],
            "on off": [[f"A {KILLS}", nobody], [f"B {KILLS}", absent]],
            "killed off": [[KILLS, "table"], [f"B {KILLS}", absent]]})

    def test_words(self):
        """The page has no word of the kernel for reclaim in memory cgroups. A percentage has a
        digit, or is left out."""
        trace = self.write("words.pftrace", watched(["vmscan/*"]))
        page = self.open_trace(trace)
        self.assertIn("Reclaim in cgroups", page.run(
            "[...document.querySelectorAll('#figures dt')].map(name => name.textContent)"))
        page.run("document.querySelector('#chart-lanes button[aria-label^=Table]').click()")
        self.assertNotIn("memcg", page.run("document.querySelector('main').innerText").lower())
        self.assertEqual(page.run("[[2, 1000], [0, 5], [7, 0], [7, 100000], [-7, 100], [1, 2]]"
                                  ".map(pair => shareOf(...pair))"),
                         [" (+0.2 %)", " (0 %)", "", "", " (-7 %)", " (+50 %)"])


if __name__ == "__main__":
    unittest.main()
