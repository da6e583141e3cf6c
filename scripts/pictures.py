# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of the documents: the report of a storm that is recorded for them, the charts
that answer the questions of the cookbook, and the live view of the same storm.

usage: sudo python3 -B scripts/pictures.py [--build DIR] [--traces FOLDER] [--output DIR]

Needs root, Chromium, tmux and aha. FOLDER has the traces of the cookbook. Without --traces they are
recorded first (tests/e2e/recorded_storm.py). The default of --output is docs/pictures.
test_report_storm makes the pictures, too, in a folder of its own. Other processes of the machine
are left out of the lists of processes. The file recording.txt has the verdict on the recording:
test_documented compares it with the page of the cookbook.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH, HEIGHT_MAX = 1120, 1100
MARGIN = 18  # above the element at the top of the picture, and below the last one
MARGIN_OF_ONE = 1  # of a picture of one chart, which has a border of its own
DATA_MAP = ".map"  # of the largest file
LOSSES = "#others .group:nth-of-type(2) .panel"
# name: (the page, the element at the top of the picture, the last element, dark)
PICTURES = {
    "report.png": ("storm", "body", "#chart-pressure", False),
    "report-tasks.png": ("storm", "#charts .group:nth-of-type(2)", "#chart-processes", False),
    "report-files.png": ("storm", "#charts .group:nth-of-type(3)", ".map:nth-of-type(4)", True),
    "report-heap.png": ("storm", "#others .group", "#flame-0", False),
    "cookbook-01.png": ("storm", "#verdict-title", "#verdict", False),
    "cookbook-03.png": ("storm", "#chart-pressure", "#chart-pressure", False),
    "cookbook-04.png": ("storm", "#chart-lanes", "#chart-lanes", False),
    "cookbook-05.png": ("storm", "#chart-residency", "#chart-residency", False),
    "cookbook-06.png": ("storm", "#chart-kills", "#chart-processes", False),
    "cookbook-07.png": ("storm", DATA_MAP, DATA_MAP, False),
    "cookbook-08.png": ("suggested", DATA_MAP, DATA_MAP, False),
    "cookbook-09.png": ("suggested", "#chart-pin_coverage", "#chart-pin_coverage", False),
    "cookbook-10.png": ("pinned", "#chart-pin_coverage", "#chart-pin_coverage", False),
    "cookbook-11.png": ("storm", "#chart-processes", "#chart-processes", False),
    "cookbook-14.png": ("storm", "#chart-returns", "#chart-returns", False),
    "cookbook-15.png": ("storm", LOSSES, LOSSES, False),
    "cookbook-16.png": ("boots", "#figures", "#figures", False),
    "cookbook-17.png": ("difference", "#figures", "#figures", False),
}

RECORDING = "recording.txt"
LIVE = "top.png"
COLUMNS, ROWS = 104, 26
LIVE_DEADLINE_S = 60
# The size of a character makes the picture as wide as the others.
STYLE = ("<style>html { background: #000 } pre { margin: 14px; color: #d8dee6; "
         "font: 17.4px/1.25 'DejaVu Sans Mono', monospace } @page { margin: 0 }</style>")


def without_others(page, names):
    """The page without the memory of processes that the storm did not start."""
    def data_of(match):
        data = json.loads(match[2])
        for trace in data["traces"]:
            trace["data"]["processes"] = [each for each in trace["data"]["processes"]
                                          if each["series"].split(" ")[0] in names]
        return match[1] + json.dumps(data).replace("<", "\\u003c")
    return re.sub(r'(<script type="application/json" id="data">)(.*?)(?=</script>)', data_of, page,
                  flags=re.DOTALL)


def live_view(mmtrace, folder):
    """The screen of mmtrace top, as HTML, while tasks reclaim."""
    import recorded_storm  # noqa: PLC0415
    def tmux(*argv):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", folder / "socket",
                               *map(str, argv)], check=True, capture_output=True, text=True).stdout
    with recorded_storm.story() as story, story.exporter():
        files = " ".join(str(path) for path in sorted(story.files.iterdir()))
        tmux("new-session", "-d", "-x", COLUMNS, "-y", ROWS, f"{mmtrace} top -d 500ms {files}")
        try:
            deadline = time.monotonic() + LIVE_DEADLINE_S
            while not re.search(r"\d  (viewer|exporter)$", tmux("capture-pane", "-p"), re.M):
                if time.monotonic() > deadline:
                    sys.exit("pictures: no task reclaims:\n" + tmux("capture-pane", "-p"))
                time.sleep(0.5)
            time.sleep(1)
            screen = tmux("capture-pane", "-e", "-p")
        finally:
            tmux("kill-server")
    screen = screen.replace(f"{story.files}/", "gallery/")
    lines = [line for line in screen[:screen.index("Cgroup")].splitlines(True)
             if line.endswith("\n")]  # groups belong to the machine
    first = next(i for i, line in enumerate(lines) if "[Size]" in line) + 1
    # The colours of a line that is left out stay, because the next line goes on with them.
    ours = re.compile(f"  ({'|'.join(recorded_storm.NAMES)})\\W")
    lines[first:] = [line if ours.search(line)
                     else "".join(re.findall("\x1b\\[[0-9;]*m", line)) for line in lines[first:]]
    screen = "".join(lines)
    html = subprocess.run(["aha", "--black", "--title", "mmtrace top"], input=screen, check=True,
                          capture_output=True, text=True).stdout
    return html.replace("<html", '<html data-ready="yes"', 1).replace("</head>", f"{STYLE}</head>")


def make_pages(mmsql, traces, folder):
    """The reports of the recordings, by name."""
    import recorded_storm  # noqa: PLC0415
    storm, pinned = traces / "storm.pftrace", traces / "pinned.pftrace"
    pinlist = f"{recorded_storm.suggest(storm, folder)}=photos.db"
    boots = [traces / f"boot-{n}.pftrace" for n in (1, 2)]
    inputs = {"storm": [storm], "difference": [storm, pinned], "boots": boots}
    for name, trace in (("suggested", storm), ("pinned", pinned)):
        inputs[name] = [folder / f"{name}.db"]
        subprocess.run([mmsql, "convert", "-q", trace, "--pinlist", pinlist, "-o",
                        *inputs[name]], check=True)
    pages = {}
    for name, files in inputs.items():
        pages[name] = folder / f"{name}.html"
        subprocess.run([mmsql, "report", *files, "-o", pages[name]], check=True)
        pages[name].write_text(without_others(pages[name].read_text(), recorded_storm.NAMES))
    return pages


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build-release", type=pathlib.Path)
    parser.add_argument("--traces", type=pathlib.Path)
    parser.add_argument("--output", default=ROOT / "docs" / "pictures", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["MMTRACE_BUILD"] = str(options.build.resolve())
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import browser  # noqa: PLC0415
    import recorded_storm  # noqa: PLC0415
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        traces = options.traces
        if not traces:
            traces = pathlib.Path(folder)
            recorded_storm.record_more(recorded_storm.record(traces / "storm.pftrace"))
        mmsql = options.build.resolve() / "converter" / "mmsql"
        pages = make_pages(mmsql, traces, pathlib.Path(folder))
        options.output.mkdir(parents=True, exist_ok=True)
        verdict = subprocess.run([mmsql, "verdict", traces / "storm.pftrace"], check=True,
                                 capture_output=True, text=True).stdout
        (options.output / RECORDING).write_text(verdict)
        live = pathlib.Path(folder) / "top.html"
        live.write_text(live_view(options.build.resolve() / "producer" / "mmtrace",
                                  pathlib.Path(folder)))
        with browser.Browser() as window:
            for name, (page, begin, end, dark) in PICTURES.items():
                window.look(WIDTH, HEIGHT_MAX, dark)
                window.open(pages[page])
                margin = MARGIN_OF_ONE if begin == end else MARGIN
                height = window.run(
                    f"document.querySelector('{end}').getBoundingClientRect().bottom - Math.max("
                    f"document.querySelector('{begin}').getBoundingClientRect().top, {margin})")
                height = min(int(height) + 2 * margin, HEIGHT_MAX)
                window.look(WIDTH, height, dark)
                window.run("document.getElementById('time').style.position = 'static';"
                           f"document.documentElement.style.scrollPadding = '{margin}px'")
                window.run(f"document.querySelector('{begin}').scrollIntoView()")
                window.settle()
                window.picture(options.output / name)
            window.open(live)
            height = window.run("Math.ceil(document.querySelector('pre').getBoundingClientRect()"
                                ".bottom) + 14")
            window.look(WIDTH, height, True)
            window.settle()
            window.picture(options.output / LIVE)
        for name in (*PICTURES, LIVE):
            print(options.output / name, (options.output / name).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
