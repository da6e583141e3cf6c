# SPDX-License-Identifier: Apache-2.0
"""Run the commands of docs/cookbook.md on a recording, and print the page with their output.

usage: cookbook.py --build DIR FOLDER [PAGE]

A command is a line that begins with "    $ ", with further lines that begin with "    > ". The
indented lines below are its output. FOLDER has the traces that tests/e2e/recorded_storm.py records.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cookbook.md"
COMMAND = re.compile(r"^    \$ (.*\n(?:    > .*\n)*)((?:    (?!\$ ).*\n)*)", re.MULTILINE)
OUTPUT_MAX = 14  # lines


def commands_of(page):
    """Pairs of a command and its output."""
    for match in COMMAND.finditer(page):
        yield match[1].replace("\n    > ", "\n").strip(), match[2]


class Runner:
    """Runs commands in a folder that has the traces, with the programs in its path."""

    def __init__(self, build, traces, folder):
        self.folder = pathlib.Path(folder)
        for trace in traces:
            shutil.copy(trace, self.folder)
        build = pathlib.Path(build).resolve()
        places = [build / "converter", build / "producer", build / "producer" / "pintool"]
        self.env = {**os.environ, "PATH": ":".join([*map(str, places), os.environ["PATH"]])}

    def run(self, command):
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder,
                              env=self.env, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("traces", type=pathlib.Path)
    parser.add_argument("page", nargs="?", default=PAGE, type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cookbook-") as folder:
        runner = Runner(options.build, options.traces.glob("*.pftrace"), folder)

        def with_output(match):
            command = match[1].replace("\n    > ", "\n").strip()
            done = runner.run(command)
            if done.returncode:
                raise SystemExit(f"{command}\n{done.stderr}")
            lines = [line.rstrip() for line in done.stdout.splitlines()]
            if len(lines) > OUTPUT_MAX:
                lines[OUTPUT_MAX:] = ["..."]
            return f"    $ {match[1]}" + "".join(f"    {line}".rstrip() + "\n" for line in lines)
        print(COMMAND.sub(with_output, options.page.read_text()), end="")


if __name__ == "__main__":
    main()
