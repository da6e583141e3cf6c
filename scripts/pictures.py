# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of the documents: the report of a storm that is recorded for them.

usage: sudo python3 -B scripts/pictures.py [--build DIR] [--trace TRACE] [--output DIR]

Needs Chromium. Without --trace the storm of tests/e2e/recorded_storm.py is recorded first. The
default of --output is docs/pictures. test_report makes the pictures, too, in a folder of its own.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH = 1120
# name: (what begins the picture, height, dark)
PICTURES = {
    "report.png": ("body", 1010, False),
    "report-tasks.png": ("#charts .group:nth-of-type(2)", 980, False),
    "report-files.png": ("#charts .group:nth-of-type(3)", 640, True),
    "report-heap.png": ("#others .group", 520, False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build-release", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path)
    parser.add_argument("--output", default=ROOT / "docs" / "pictures", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["MMTRACE_BUILD"] = str(options.build.resolve())
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import browser  # noqa: PLC0415
    import recorded_storm  # noqa: PLC0415
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        trace = options.trace or recorded_storm.record(pathlib.Path(folder) / "storm.pftrace")
        page = pathlib.Path(folder) / "report.html"
        subprocess.run([options.build.resolve() / "converter" / "mmsql", "report", trace,
                        "-o", page], check=True)
        options.output.mkdir(parents=True, exist_ok=True)
        with browser.Browser() as window:
            for name, (begin, height, dark) in PICTURES.items():
                window.look(WIDTH, height, dark)
                window.open(page)
                window.run("document.getElementById('time').style.position = 'static';"
                           "document.documentElement.style.scrollPadding = '0'")
                window.run(f"document.querySelector('{begin}').scrollIntoView()")
                window.settle()
                window.picture(options.output / name)
                print(options.output / name, (options.output / name).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
