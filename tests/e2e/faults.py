# SPDX-License-Identifier: Apache-2.0
"""Verbs of the programs under a fault: the outcomes that are allowed.

A Verb is one command on inputs of its own, with a function that returns its answer. A fault (memory
that is refused, a disk that is full, a kill) leads to one of two outcomes: "done", which is the
answer without the fault and exit code 0; or "error", which is exit code 1, a message of the
program, and a folder that is as it was before. Everything else raises Wrong, with the place of the
fault if the place is known.

Memory is refused by tests/tools/memory_faults.c; its comment has the form of MMTRACE_FAULTS.
"""
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import tempfile

import lib

LIBRARY = lib.BUILD / "tests" / "tools" / "memory_faults.so"
N_FRAMES, FRAME_SIZE = 24, 160
HEAD = struct.Struct("QQ")
REPORT_SIZE = HEAD.size + N_FRAMES * FRAME_SIZE
N_HASHES = 1 << 20
TIMEOUT_S = 60


class Wrong(AssertionError):
    """An outcome that no fault excuses."""


class Verb:
    """One command. `make(folder)` makes its inputs and returns the argv; `answer(folder, done)`
    returns its answer.

    Answers are compared, so they leave out what differs from run to run. The files `outputs` exist
    before the command, too: only a command that succeeds may change them (but see `readable`). No
    command may change another file in the folder, except below `leaves`.
    """

    def __init__(self, name, make, answer, outputs=(), every_stack=False, readable=None,
                 program=None, leaves=(),
                 partial=False, excused=None):
        self.name, self.make, self.answer, self.outputs = name, make, answer, outputs
        # the executable that has the fault; None: the first one of the command
        self.program = program
        self.leaves = leaves  # folders that belong to the verb
        # called after a command that failed: raises if the part of the output that the command left
        # is damaged; None: such a command leaves no part
        self.readable = readable
        # the output has several parts, and may lack some of them before a failure
        self.partial = partial
        # a pattern of the report on a wrong outcome that only a library could mend; None: none
        self.excused = excused
        self.every_stack = every_stack  # a long run tries the stacks of SQLite, too

    def __repr__(self):
        return self.name


class Stage:
    """A verb in a folder of its own, run once without a fault."""

    def __init__(self, verb, folder=None):
        self.verb = verb
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-faults-", dir=folder))
        self.report = pathlib.Path(tempfile.mkstemp(prefix="mmtrace-faults-")[1])
        self.argv = [str(arg) for arg in verb.make(self.folder)]
        self.before = contents(self.folder)
        done = self.run()
        if done.returncode != 0:
            raise Wrong(f"{verb}: {self.argv} fails without a fault: {done.stderr}")
        self.expected = verb.answer(self.folder, done)
        self.stdout = done.stdout
        self.restore()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.report.unlink(missing_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def restore(self):
        """Puts the folder back as it was before the verb. Returns the names of the files that had
        changed."""
        now, changed = contents(self.folder), []
        for name in sorted({*now, *self.before}, reverse=True):
            if now.get(name) == self.before.get(name):
                continue
            changed.append(name)
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif name not in self.before:
                path.unlink(missing_ok=True)
            if name in self.before:
                path.write_bytes(self.before[name])
        return changed

    def run(self, prefix=(), **options):
        try:
            return subprocess.run([*prefix, *self.argv], capture_output=True, timeout=TIMEOUT_S,
                                  cwd=self.folder,
                                  stdin=subprocess.DEVNULL, **options)
        except subprocess.TimeoutExpired as error:
            raise Wrong(f"{self.verb}: no end: {(error.stderr or b'')[-300:]}") from error

    def outcome(self, done):
        """"done" or "error"; Wrong for everything else. The folder is restored."""
        try:
            if done.returncode == 1 and self.verb.readable:
                self.verb.readable(self.folder)
            if done.returncode == 0:
                answer = self.verb.answer(self.folder, done)
                if answer != self.expected:
                    raise Wrong(
                        f"{self.verb}: exit code 0 and another "
                        f"answer: {difference(answer, self.expected)}")
        finally:
            changed = self.restore()
        extra = [name for name in changed
                 if name not in self.verb.outputs and name.split("/")[0] not in self.verb.leaves]
        said = done.stderr.decode(errors="replace")
        if extra:
            raise Wrong(
                f"{self.verb}: exit code {done.returncode}, it leaves {extra}: {said[-300:]}")
        if done.returncode == 0:
            return "done"
        program = "mmtrace" if self.verb.program else pathlib.Path(self.argv[0]).name
        if done.returncode != 1 or not re.search(f"^{program}: .", said, re.M):
            raise Wrong(f"{self.verb}: exit code {done.returncode}, says: {said[-300:]!r}")
        if changed and not self.verb.leaves and not self.verb.readable:
            raise Wrong(f"{self.verb}: exit code 1, and {changed} changed: {said[-300:]}")
        if not self.verb.partial and not self.stdout.startswith(done.stdout):
            raise Wrong(
                f"{self.verb}: exit code 1, and another answer so far: {done.stdout[-300:]!r}")
        return "error"

    def refuse(self, number, n_hashes=0):
        """Runs the verb, whose memory request `number` is refused ("37"; "37+": this request and
        all later ones). Returns (done, requests, refused, stack, hashes)."""
        with open(self.report, "wb") as file:
            file.truncate(REPORT_SIZE + 4 * n_hashes)
        program = self.verb.program or pathlib.Path(self.argv[0]).name
        env = {**os.environ, "LD_PRELOAD": str(LIBRARY),
               "MMTRACE_FAULTS": f"{self.report}:{program}:{number}"}
        done = self.run(env=env)
        data = self.report.read_bytes()
        n_requests, n_refused = HEAD.unpack_from(data)
        frames = [data[at:at + FRAME_SIZE].split(b"\0")[0].decode()
                  for at in range(HEAD.size, REPORT_SIZE, FRAME_SIZE)]
        hashes = struct.unpack_from(f"{min(n_hashes, n_requests)}I", data, REPORT_SIZE)
        return done, n_requests, n_refused, [frame for frame in frames if frame], hashes

    def n_requests(self):
        """How often one run asks for memory."""
        done, n_requests, *_ = self.refuse("0")
        self.outcome(done)
        return n_requests

    def stacks(self):
        """The number of the first request of each stack that asks for memory: (all stacks, those
        without SQLite)."""
        done, _, _, _, hashes = self.refuse("0", n_hashes=N_HASHES)
        self.outcome(done)
        first = {}
        for number, value in enumerate(hashes, 1):
            first.setdefault(value, number)
        return sorted(first.values()), sorted(number for value, number in first.items()
                                              if not value & 1)

    def refused(self, number):
        """The outcome of a refusal; "not reached" if the run made fewer requests than `number`;
        "excused" if the verb excuses a wrong outcome."""
        done, _, n_refused, frames, _ = self.refuse(number)
        try:
            outcome = self.outcome(done)
        except Wrong as error:
            report = f"request {number}: {error}\n" + "\n".join(places(frames))
            if self.verb.excused and re.search(self.verb.excused, report):
                return "excused"
            raise Wrong(report) from None
        return outcome if n_refused else "not reached"


def contents(folder):
    """Name -> bytes of all files below a folder; None for folders, sockets and links."""
    found = {}
    for path in folder.rglob("*"):
        plain = path.is_file() and not path.is_symlink()
        found[str(path.relative_to(folder))] = path.read_bytes() if plain else None
    return found


def difference(one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: (one.get(key), other.get(key)) for key in {*one, *other}
                if one.get(key) != other.get(key)}
    if isinstance(one, list) and isinstance(other, list):
        more = [item for item in one if item not in other]
        less = [item for item in other if item not in one]
        return f"{str(more)[:300]} instead of {str(less)[:300]}"
    return f"{str(one)[:300]} instead of {str(other)[:300]}"


def places(frames, n=12):
    """The source lines of a stack, innermost first, without lines of the library that refuses
    memory."""
    for frame in frames:
        file, _, offset = frame.rpartition("+")
        if file == str(LIBRARY):
            continue
        n -= 1
        if n < 0:
            return
        found = lib.run("addr2line", "-fpse", file, offset).stdout.strip()
        yield f"    {found if found and '??' not in found else frame}"


def sample(numbers, n, seed):
    """Returns n of the numbers: the first numbers, because each is another step of the start, and
    random others."""
    numbers = list(numbers)
    first, rest = numbers[:n // 4], numbers[n // 4:]
    return first + sorted(random.Random(seed).sample(rest, min(n - len(first), len(rest))))
