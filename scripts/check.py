# SPDX-License-Identifier: Apache-2.0
"""The whole test suite of mmtrace.

usage: ./check [--fast | --long] [--jobs N] [--times] [--list] [NAME...]

Without arguments every step runs. NAME picks steps (see --list), or single tests: a unit test or
fuzz target by its program's name (ranges), or a file of Python tests by its stem (test_record).
--fast runs the steps that take seconds. --long adds the tests and steps that take minutes each.
Several files of end-to-end tests run at a time, --jobs N of them (default: twice as many as there
are processors, 6 at most); --times prints the time and the processor time of each. Builds of later
steps use the processor time that these tests leave. Builds stay in build-check/ and are used again.
The last line is 'N passed, N failed', with ', N skipped' where something was; the exit code is 1
when something failed.
"""
import collections
import concurrent.futures
import configparser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILDS = ROOT / "build-check"
CI = os.environ.get("CI") == "true"
OWN_ROOT = "MMTRACE_CHECK_OWN_ROOT"  # set within run_in_own_root()
AARCH64_ROOT = BUILDS / "aarch64-root"
STYLE_DIRS = ("common", "converter", "producer", "protos", "tests")
GOLDEN_TRACES = ("counters_tracks", "heap_continuous", "mm_pressure", "sched_deflate")
REFERENCE_CLANG_FORMAT = 14
INSTALLED = ("bin/mmtrace", "bin/mmsql", "bin/pintool", "mmtrace/mmscreen.so",
             "mmtrace/mmsql_functions.so", "completions/mmtrace", "completions/mmsql",
             "completions/pintool", "vendor_completions.d/mmtrace.fish",
             "site-functions/_mmtrace", "site-functions/_mmsql", "site-functions/_pintool")
MADE_PAGES = ("man3/libtiallocsample.3", "man3/mmheap.3", "man3/mmsql_functions.3",
              "man5/mmtrace-config.5", "man5/mmsql-tables.5")
DEVELOPERS_PAGES = ("building.md", "testing.md")  # of docs/: these are not installed
STATIC_BYTES_MAX = 3 << 20
TAIL_LINES = 60
BUILD_TIMEOUT_S = 3600  # on a busy machine with an empty compiler cache
FILE_TIMEOUT_S = {False: 900, True: 5400}  # of one file of Python tests, without and with --long
# A parent may ignore these signals, as nohup and shells do for background jobs. Tests must not
# ignore them.
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE)

CHILDREN = set()  # processes that run now
# Held while a child starts. When the suite ends, it keeps the lock: no thread starts another child.
STARTING = threading.RLock()

# `builds`: names of builds that later steps need.
Options = collections.namedtuple("Options", "long jobs times builds")

OPTIONAL_LIBRARIES = ("bugreport", "demangle", "libedit", "lzma", "symbols", "zip", "zstd")


def file_options(path):
    """The options of a machine file of meson, as arguments of meson."""
    parser = configparser.ConfigParser()
    parser.read(path)
    for section in ("built-in options", "project options"):
        for name, value in parser[section].items():
            value = value.strip("'")  # a list keeps its form
            yield f"-D{name}={value}"


# Options, compiler and its flags of each build.
Build = collections.namedtuple("Build", "options compiler flags", defaults=("gcc", ""))
BUILD_OF = {
    # Tables of lines only: a build takes a fifth less time, and reports are equal. With clang, so
    # does optimization level 1.
    "gcc": Build((), flags="-g1"),
    "clang-asan": Build(("-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1"),
                        "clang", "-gline-tables-only"),
    "clang-tsan": Build(("-Db_sanitize=thread", "-Db_lundef=false"), "clang"),
    "producer-only": Build(("-Dconverter=disabled", "-Dtests=disabled", "-Dbuildtype=release")),
    "device": Build(tuple(file_options(ROOT / "scripts" / "device.ini"))),
    "plain": Build((*(f"-D{name}=disabled" for name in (*OPTIONAL_LIBRARIES, "tests")),
                    "-Dbuildtype=debug")),
    "fallback": Build(("-Dwrap_mode=forcefallback", "-Dbuildtype=debug", "-Dtests=disabled")),
}


class Step:
    """The result of one step: counts, and a text for each thing that failed or was skipped."""

    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.passed = 0
        self.failures = []
        self.skips = []

    def ok(self, n=1):
        self.passed += n

    def fail(self, what, log=""):
        self.failures.append((what, log))

    def skip(self, what, why):
        self.skips.append((what, why))

    def expect(self, good, what, log=""):
        if good:
            self.ok()
        else:
            self.fail(what, log)


def run(argv, timeout_s=600, env=None, cwd=ROOT, beside=None):
    """Runs a program to its end or to the timeout, which ends its children, too. Returns (exit
    code, output).

    beside: the Beside that may end the program. The program gets processor time that no other
    program wants.
    """
    full_env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", MMTRACE_CACHE_SIZE="0", **(env or {}))
    with tempfile.TemporaryFile(mode="w+", errors="replace") as output:
        try:
            with STARTING:
                if beside and beside.is_ended:
                    return 1, "ended"
                child = subprocess.Popen(
                    [str(arg) for arg in argv], stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, env=full_env, cwd=cwd, start_new_session=True,
                    preexec_fn=prepare_idle_child if beside else prepare_child)
                CHILDREN.add(child)
                if beside and argv[0] == "ninja":  # meson ends by itself, and leaves a whole folder
                    beside.child = child
        except OSError as error:
            return 127, f"{argv[0]}: {error.strerror}"
        note = ""
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code, note = 124, f"\n(stopped after {timeout_s} s)"
        finally:
            if child.poll() is None:
                stop_group(child)
            CHILDREN.discard(child)
        output.seek(0)
        return code, output.read() + note


def end_all(number, _frame):
    """A signal asks the suite to end: ends everything that the suite has started."""
    STARTING.acquire()
    for child in list(CHILDREN):
        stop_group(child)
    print(f"check: ended by {signal.Signals(number).name}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def prepare_child():
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def prepare_idle_child():
    prepare_child()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def stop_group(child):
    """Asks the group to stop before killing it, so that tests can restore kernel settings."""
    for sig, grace_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(child.pid, sig)
            child.wait(grace_s)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def tail(text, n=TAIL_LINES):
    lines = text.rstrip().splitlines()
    return "\n".join((["..."] if len(lines) > n else []) + lines[-n:])


def make_build(name, beside=None):
    """Configure (once) and build build-check/NAME with warnings as errors: (exit code, output)."""
    directory, wanted = BUILDS / name, BUILD_OF[name]
    env = {"CC": wanted.compiler}
    if wanted.flags:
        env["CFLAGS"] = wanted.flags
    arguments = ["-Dwerror=true", "-Dtests=enabled", *wanted.options]
    if (directory / "build.ninja").exists():
        code, log = run(["meson", "configure", directory, *arguments], beside=beside)
    else:
        shutil.rmtree(directory, ignore_errors=True)
        code, log = run(["meson", "setup", directory, *arguments], env=env, beside=beside)
    if code == 0:
        code, log = run(["ninja", "-C", directory], env=env, timeout_s=BUILD_TIMEOUT_S,
                        beside=beside)
    return code, log


def build(step, name):
    """make_build(), as a part of a step. True if it worked."""
    code, log = make_build(name)
    first = re.search(r"^FAILED: ", log, re.M)
    log = "\n".join(log[first.start():].splitlines()[:TAIL_LINES]) if first else log
    step.expect(code == 0, f"build of {name}", tail(log))
    return code == 0


class Beside:
    """Builds of later steps, one after the other, in processor time that the tests leave. The steps
    make the builds that are left, and report failures."""

    def __init__(self, names):
        self.is_ended, self.child = False, None
        self.thread = threading.Thread(target=self.work, args=(names,), daemon=True)
        self.thread.start()

    def work(self, names):
        for name in names:
            make_build(name, self)

    def end(self):
        """End the build that runs. No other build begins."""
        with STARTING:
            self.is_ended = True
        if self.child and self.child.poll() is None:
            stop_group(self.child)
        self.thread.join()


def count_cmocka(text):
    """(passed, failed, skipped) of a cmocka program's report; None for another text."""
    if not re.search(r"\[=+\] .*Running \d+ test", text):
        return None
    counts = []
    for label in ("PASSED", "FAILED", "SKIPPED"):
        found = re.findall(r"\[ +%s +\].*? (\d+) test\(s\)" % label, text)
        counts.append(sum(map(int, found)))
    return tuple(counts)


def count_unittest(text):
    """(passed, failed, skipped) of a Python unittest run's report; None for another text."""
    ran = re.search(r"^Ran (\d+) tests? in ", text, re.M)
    if not ran:
        return None
    n = {word: int(count) for word, count in re.findall(r"(failures|errors|skipped)=(\d+)", text)}
    failed, skipped = n.get("failures", 0) + n.get("errors", 0), n.get("skipped", 0)
    return max(int(ran[1]) - failed - skipped, 0), failed, skipped


def meson_tests(step, directory, suite, only=(), env=None):
    """Run a meson suite and count its tests, cmocka and unittest programs by their cases."""
    log_file = directory / "meson-logs" / "testlog.json"
    log_file.unlink(missing_ok=True)
    env = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
           "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", **(env or {})}
    # A busy machine and sanitizers make tests many times as slow.
    argv = ["meson", "test", "-C", directory, "--no-rebuild", "--timeout-multiplier", "10",
            "--suite", suite, *only]
    code, output = run(argv, env=env, timeout_s=2400)
    if not log_file.exists():
        if "No tests defined" in output or "No suitable tests defined" in output:
            step.skip(suite, "no such tests in this build")
        else:
            step.fail(f"meson test --suite {suite}", tail(output))
        return
    n_failed_before = len(step.failures)
    for line in log_file.read_text(errors="replace").splitlines():
        test = json.loads(line)
        text = test.get("stdout", "") + test.get("stderr", "")
        name = test["name"].rsplit(" / ", 1)[-1]
        if test["result"] == "SKIP":
            step.skip(name, tail(text, 1) or "the test says so")
            continue
        counts = count_cmocka(text) or count_unittest(text)
        if test["result"] == "OK":
            step.ok(counts[0] if counts else 1)
            if counts and counts[2]:
                step.skip(f"{name}: {counts[2]} cases", "the test says so")
        else:
            step.ok(counts[0] if counts else 0)
            text = re.sub(r"^\[ +(RUN|OK) +\].*\n", "", text, flags=re.M)
            step.fail(f"{suite} test {name}: {test['result']}", tail(text))
    if code != 0 and len(step.failures) == n_failed_before:
        step.fail(f"meson test --suite {suite}", tail(output))


def python_file(file, directory, is_long):
    """Run one tests/e2e/test_*.py, as root where that is possible: (exit code, output, rows,
    seconds, seconds of processor time)."""
    started = time.monotonic()
    env = {"MMTRACE_BUILD": str(directory), "MMTRACE_LONG": str(int(is_long)),
           "AARCH64_ROOT": os.environ.get("AARCH64_ROOT", str(AARCH64_ROOT))}
    with tempfile.TemporaryDirectory() as tmp:
        result = pathlib.Path(tmp) / "result.json"
        argv = [sys.executable, "-B", ROOT / "scripts" / "run_unittests.py", file, result]
        if os.geteuid() != 0 and shutil.which("sudo"):
            settings = [f"{name}={value}" for name, value in env.items()]
            argv = ["sudo", "-n", "env", f"CI={str(CI).lower()}", "PYTHONDONTWRITEBYTECODE=1",
                    *settings, *argv]
        code, output = run(argv, env=env, timeout_s=FILE_TIMEOUT_S[is_long])
        found = json.loads(result.read_text()) if result.exists() else {}
    return (code, output, found.get("tests", []), time.monotonic() - started,
            found.get("processor_s", 0))


def runs_alone(file):
    """Whether a file of tests must have the machine for itself.

    Such a file empties the page cache of the machine, or has a line `ALONE = "why"`.
    """
    return re.search(r"^ALONE = |\bload\.pressure\(", file.read_text(), re.M) is not None


def runs_beside(file):
    """Whether a file of tests mostly waits, and therefore has a line `BESIDE = "why"`: it runs in
    addition to --jobs other files."""
    return re.search(r"^BESIDE = ", file.read_text(), re.M) is not None


def python_tests(step, directory, only, options):
    """Run every tests/e2e/test_*.py in a process of its own, several at a time."""
    files = sorted((ROOT / "tests" / "e2e").glob("test_*.py"))
    files = [f for f in files if not only or f.stem in only]
    alone = [f for f in files if runs_alone(f)]
    beside = [f for f in files if runs_beside(f) and f not in alone]
    # The largest files begin first, so that no large file runs alone at the end.
    together = sorted(set(files) - {*alone, *beside}, key=lambda f: -f.stat().st_size)
    if any(f.stem == "test_heap_pools" for f in files):
        code, output = run([ROOT / "scripts" / "aarch64-root", AARCH64_ROOT])
        if code not in (0, 77):
            step.fail("scripts/aarch64-root", tail(output))
    results = {}
    beside_tests = Beside(options.builds)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
                concurrent.futures.ThreadPoolExecutor(max(1, len(beside))) as more:
            waiting = {f: executor.submit(python_file, f, directory, options.long)
                       for executor, some in ((more, beside), (pool, together)) for f in some}
            results.update((f, future.result()) for f, future in waiting.items())
    finally:
        beside_tests.end()
    for file in alone:
        results[file] = python_file(file, directory, options.long)
    for file in files:
        code, output, rows, seconds, processor_s = results[file]
        for name, outcome, text in rows:
            if outcome == "passed":
                step.ok()
            elif outcome == "failed":
                step.fail(f"e2e/{name}", text.rstrip())
            elif CI and "needs root" in text:
                step.fail(f"e2e/{name}", f"skipped in CI: {text}")
            else:
                step.skip(f"e2e/{name}", text)
        if code not in (0, 1) or not rows or (code == 1 and all(r[1] != "failed" for r in rows)):
            step.fail(f"e2e/{file.name}", tail(output))
        if options.times:
            print(f"     {seconds:6.1f} s {processor_s:6.1f} s of processor time {file.name}")


def golden(step, directory):
    """Compare traces with their expected rows, by tests/golden/check.py, which counts itself."""
    mmsql = directory / "converter" / "mmsql"
    names = [f.stem for t in GOLDEN_TRACES
             for f in sorted((ROOT / "tests/golden/expected").glob(f"{t}.*.csv"))]
    code, output = run([sys.executable, "tests/golden/check.py", mmsql, *names])
    counts = re.search(r"^(\d+) passed, (\d+) failed$", output, re.M)
    if not counts:
        step.fail("golden traces", tail(output))
        return
    step.ok(int(counts[1]))
    problems = [line for line in output.splitlines() if line.split(":")[0] in names]
    for line in problems:
        step.fail("golden " + line)
    if int(counts[2]) != len(problems):
        step.fail("golden traces", tail(output))


def step_format(step, only):
    """clang-format over every C file."""
    tools = [shutil.which(f"clang-format-{REFERENCE_CLANG_FORMAT}"), shutil.which("clang-format")]
    tool = next((t for t in tools if t), None)
    if not tool:
        step.skip("format", "no clang-format")
        return
    version = int(re.search(r"version (\d+)", run([tool, "--version"])[1])[1])
    if version < REFERENCE_CLANG_FORMAT:
        step.skip("format", f"clang-format {version} is older than {REFERENCE_CLANG_FORMAT}")
        return
    files = [f for d in STYLE_DIRS for f in sorted((ROOT / d).rglob("*.[ch]"))]
    code, output = run([tool, "--dry-run", "-Werror", *files])
    if code != 0 and version != REFERENCE_CLANG_FORMAT:
        step.skip("format", f"clang-format {version} formats otherwise than version "
                            f"{REFERENCE_CLANG_FORMAT}, which is the reference")
        return
    step.expect(code == 0, "clang-format", tail(output))


def step_gcc(step, only):
    """Build with gcc, warnings as errors."""
    build(step, "gcc")


def step_unit(step, only):
    """Unit tests (cmocka), and that docs/tables.md is current."""
    meson_tests(step, BUILDS / "gcc", "unit", only)


def step_fuzz(step, only):
    """Fuzz targets over their corpora and a bounded number of mutations."""
    meson_tests(step, BUILDS / "gcc", "fuzz", only)


def step_golden(step, only):
    """Traces and configs with known answers."""
    meson_tests(step, BUILDS / "gcc", "golden", only)
    if not only:
        golden(step, BUILDS / "gcc")


def step_e2e(step, only):
    """The real programs on this kernel."""
    python_tests(step, BUILDS / "gcc", only, step.options)


def step_install(step, only):
    """meson install into an empty directory."""
    with tempfile.TemporaryDirectory() as destination:
        code, output = run(["meson", "install", "--no-rebuild", "-C", BUILDS / "gcc"],
                           env={"DESTDIR": destination})
        step.expect(code == 0, "meson install", tail(output))
        files = {str(f.relative_to(destination)) for f in pathlib.Path(destination).rglob("*")
                 if f.is_file()}
        configs = [f"share/mmtrace/configs/{f.name}" for f in (ROOT / "configs").glob("*.cfg")]
        docs = [f"share/doc/mmtrace/{f.name}" for f in (ROOT / "docs").glob("*.md")
                if f.name not in DEVELOPERS_PAGES]
        docs += [f"share/doc/mmtrace/pictures/{f.name}" for f in ROOT.glob("docs/pictures/*")]
        docs += [f"share/man/man1/{f.name}" for f in (ROOT / "docs" / "man").glob("*.1")]
        docs += [f"share/man/{page}" for page in MADE_PAGES]
        for wanted in (*INSTALLED, *configs, *docs):
            step.expect(any(f.endswith("/" + wanted) for f in files), f"installs {wanted}",
                        "installed: " + " ".join(sorted(files)))
        unknown = {f for f in files if re.search(r"share/(doc|man)/", f)
                   and not any(f.endswith("/" + wanted) for wanted in docs)}
        step.expect(not unknown, "installs no page that is not in docs/", " ".join(sorted(unknown)))
        rows = collections.Counter(re.findall(r"^Installing (\S+ to \S+)$", output, re.M))
        twice = [row for row, n in rows.items() if n > 1]
        step.expect(rows and not twice, "installs each file once", "\n".join(twice))


def step_clang(step, only):
    """Build with clang, ASan and UBSan; unit tests, fuzz targets and golden traces with it."""
    if build(step, "clang-asan"):
        meson_tests(step, BUILDS / "clang-asan", "unit")
        meson_tests(step, BUILDS / "clang-asan", "fuzz")
        golden(step, BUILDS / "clang-asan")


def step_tsan(step, only):
    """With --long: a build with ThreadSanitizer; unit tests, the daemon and recordings with it."""
    if not build(step, "clang-tsan"):
        return
    directory = BUILDS / "clang-tsan"
    # Tests have children that start threads.
    suppressions = f"suppressions={ROOT / 'tests' / 'tsan.supp'}:die_after_fork=0"
    listed = run(["meson", "test", "-C", directory, "--no-rebuild", "--suite", "unit", "--list"])[1]
    names = [line.rsplit(" / ", 1)[1] for line in listed.splitlines() if " / " in line]
    for name, why in TSAN_LEAVES_OUT.items():
        step.skip(f"unit test {name}", why)
    meson_tests(step, directory, "unit", [name for name in names if name not in TSAN_LEAVES_OUT],
                {"TSAN_OPTIONS": suppressions + ":exitcode=66"})
    golden(step, directory)
    with tempfile.TemporaryDirectory() as logs:
        # Programs of these tests end with exit code 0 in spite of races; the reports of races are
        # in files.
        os.environ["TSAN_OPTIONS"] = f"{suppressions}:exitcode=0:log_path={logs}/log"
        python_tests(step, directory, TSAN_TESTS, step.options)
        del os.environ["TSAN_OPTIONS"]
        said = [f.read_text(errors="replace") for f in sorted(pathlib.Path(logs).glob("log*"))]
        races = [text for text in said if "WARNING: ThreadSanitizer" in text]
        step.expect(not races, "no races in daemon and recordings", tail("\n".join(races)))


def needed_libraries(program):
    return re.findall(r"NEEDED.*\[(.+)\]", run(["readelf", "-d", program])[1])


def step_device(step, only):
    """A static mmtrace for devices (scripts/device.ini): its size, and that it records."""
    if not build(step, "device"):
        return
    program = BUILDS / "device" / "producer" / "mmtrace"
    step.expect(not needed_libraries(program), "a static mmtrace needs no library")
    step.expect(program.stat().st_size < STATIC_BYTES_MAX,
                f"a static mmtrace is small: {program.stat().st_size:,} bytes")
    with tempfile.TemporaryDirectory() as tmp:
        config, trace = pathlib.Path(tmp, "config"), pathlib.Path(tmp, "trace")
        config.write_text("buffers { size_kb: 512 } data_sources { config { name: "
                          "'linux.sys_stats' sys_stats_config { vmstat_period_ms: 100 } } }")
        code, output = run([program, "record", "--no-daemon", "--no-verdict", "-c", config, "-t",
                            "500ms", "-o", trace])
        step.expect(code == 0 and trace.exists() and trace.stat().st_size > 1000,
                    "a static mmtrace records", tail(output))


def step_producer_only(step, only):
    """A release build with -Dconverter=disabled: no sqlite, no libunwind."""
    if not build(step, "producer-only"):
        return
    directory = BUILDS / "producer-only"
    needed = needed_libraries(directory / "producer" / "mmtrace")
    step.expect("libc.so.6" in needed, "mmtrace is a dynamic program", str(needed))
    unwanted = [n for n in needed if re.search("sqlite|unwind", n)]
    step.expect(not unwanted, "mmtrace without sqlite and libunwind", " ".join(unwanted))
    step.expect(not (directory / "converter").exists() or
                not list((directory / "converter").rglob("mmsql")), "no converter is built")


def step_fallback(step, only):
    """-Dwrap_mode=forcefallback: protobuf-c, sqlite3 and zlib are built here, from subprojects/."""
    code, output = run([ROOT / "scripts" / "fill-package-cache"])
    if code == 77:
        code, downloads = run(["meson", "subprojects", "download"])
        if code != 0 and not CI:
            step.skip("fallback", tail(output, 1) + "; upstream is not reached")
            return
        output += downloads
    if code != 0:
        step.fail("scripts/fill-package-cache", tail(output))
        return
    if not build(step, "fallback"):
        return
    directory = BUILDS / "fallback"
    for program in ("producer/mmtrace", "converter/mmsql"):
        system = [n for n in needed_libraries(directory / program)
                  if re.search(r"sqlite|protobuf|libz\.", n)]
        step.expect(not system, f"{program} without the system's libraries", " ".join(system))
    golden(step, directory)


def step_plain(step, only):
    """A build without the libraries that are optional: every one of them can be missing."""
    if not build(step, "plain"):
        return
    unwanted = [n for n in needed_libraries(BUILDS / "plain" / "converter" / "mmsql")
                if re.search(r"edit|stdc\+\+|minizip|libdw|libelf|lzma|zstd", n)]
    step.expect(not unwanted, "mmsql without optional libraries", " ".join(unwanted))
    golden(step, BUILDS / "plain")


STEPS = {
    "format": (step_format, True),
    "gcc": (step_gcc, True),
    "unit": (step_unit, True),
    "fuzz": (step_fuzz, True),
    "golden": (step_golden, True),
    "install": (step_install, True),
    "e2e": (step_e2e, False),
    "clang": (step_clang, False),
    "tsan": (step_tsan, False),
    "producer-only": (step_producer_only, False),
    "device": (step_device, False),
    "plain": (step_plain, False),
    "fallback": (step_fallback, False),
}
LONG_STEPS = ("tsan",)
TSAN_TESTS = ("test_survival", "test_flight")
TSAN_LEAVES_OUT = {
    "intervals": "it has one thread, and takes minutes under ThreadSanitizer",
    "ipc_server": "it waits milliseconds for processes that ThreadSanitizer slows down",
}
NEEDS_GCC = ("unit", "fuzz", "golden", "install", "e2e")
# The builds that can be made beside the end-to-end tests, by step.
BUILD_BESIDE = {"clang": "clang-asan", "producer-only": "producer-only", "device": "device",
                "plain": "plain"}


def find_tests(name):
    """[(step, test's name in that step)] of a single test; a module may have tests of several
    kinds."""
    tests = ROOT / "tests"
    found = [("e2e", name)] if (tests / "e2e" / f"{name}.py").exists() else []
    if (tests / "golden" / f"{name}.py").exists():
        found.append(("golden", name.replace("test_", "golden_", 1)))
    if (tests / "unit" / f"{name}.c").exists():
        found.append(("unit", name))
    fuzz = name.removeprefix("fuzz_")
    if (tests / "fuzz" / f"{fuzz}.c").exists():
        found.append(("fuzz", f"fuzz_{fuzz}"))
    if not found:
        sys.exit(f"check: {name}: no such step or test (steps: {', '.join(STEPS)})")
    return found


def pick(arguments):
    """[(step name, names of single tests)] in the order of STEPS, with the build they need."""
    wanted = {}
    for name in arguments:
        if name in STEPS:
            wanted.setdefault(name, []).clear()
        else:
            for step, test in find_tests(name):
                wanted.setdefault(step, []).append(test)
    if any(name in NEEDS_GCC for name in wanted):
        wanted.setdefault("gcc", [])
    return [(name, wanted[name]) for name in STEPS if name in wanted]


def parse(arguments):
    """(names, whether --fast, Options) of the command line; exits with 2 where it is wrong."""
    names, fast, is_long, times = [], False, False, False
    jobs = min(os.cpu_count() * 2, 6)  # tests wait for half of their time
    given = iter(arguments)
    for argument in given:
        if argument == "--fast":
            fast = True
        elif argument == "--long":
            is_long = True
        elif argument == "--times":
            times = True
        elif argument == "--jobs":
            jobs = next(given, "")
            if not re.fullmatch("[1-9][0-9]?", jobs):
                sys.exit(usage_error(f"--jobs takes a number from 1 to 99, not '{jobs}'"))
            jobs = int(jobs)
        elif argument.startswith("-"):
            sys.exit(usage_error(f"unknown option {argument}"))
        else:
            names.append(argument)
    if fast and is_long:
        sys.exit(usage_error("either --fast or --long"))
    return names, fast, Options(is_long, jobs, times, ())


def usage_error(text):
    print(f"check: {text}; see ./check --help", file=sys.stderr)
    return 2


def is_mountable():
    """Whether tests can make mount namespaces. Tests cannot make them in a plain chroot, where / is
    not a mount point."""
    return run(["unshare", "--mount", "true"])[0] == 0


def run_in_own_root():
    """In a plain chroot, as root: the same suite in a mount namespace whose / is a mount point.

    Returns the exit code. On a machine that shares its mounts, the namespace's root is visible
    until the suite ends, in a temporary folder.
    """
    root = tempfile.mkdtemp(prefix="mmtrace-check-root-")
    script = (
        'mount --rbind / "$1" && exec chroot "$1" sh -c \'cd "$1" && shift && exec "$@"\' sh "$2" '
        '"${@:3}"')
    argv = ["unshare", "--mount", "--propagation", "unchanged", "bash", "-c", script, "bash", root,
            str(ROOT), sys.executable, "-B", "scripts/check.py", *sys.argv[1:]]
    try:
        return subprocess.run(argv, env={**os.environ, OWN_ROOT: "1"}, check=False).returncode
    finally:
        subprocess.run(["umount", "-l", root], capture_output=True, check=False)
        os.rmdir(root)


def main():
    arguments = sys.argv[1:]
    if any(a in ("-h", "--help") for a in arguments):
        print(__doc__.strip())
        return 0
    if "--list" in arguments:
        for name, (function, _) in STEPS.items():
            print(f"{name:14} {function.__doc__}")
        return 0
    names, fast, options = parse(arguments)
    chosen = pick(names or [n for n, (_, is_fast) in STEPS.items()
                            if (is_fast or not fast) and (options.long or n not in LONG_STEPS)])

    if os.geteuid() == 0 and OWN_ROOT not in os.environ and not is_mountable():
        return run_in_own_root()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end_all)
    options = options._replace(
        builds=[BUILD_BESIDE[name] for name, _ in chosen if name in BUILD_BESIDE])
    passed = failed = skipped = 0
    broken = False
    for name, only in chosen:
        step = Step(name, options)
        started = time.monotonic()
        if broken and name in NEEDS_GCC:
            step.fail(name, "not run: the build with gcc failed")
        else:
            STEPS[name][0](step, only)
        broken = broken or (name == "gcc" and bool(step.failures))
        seconds = time.monotonic() - started
        counts = f"{step.passed:5} passed"
        counts += f", {len(step.failures)} failed" if step.failures else ""
        counts += f", {len(step.skips)} skipped" if step.skips else ""
        print(f"{'FAIL' if step.failures else 'ok':4} {name:14} {seconds:6.1f} s {counts}")
        for what, log in step.failures:
            print(f"     failed: {what}")
            if log:
                print("       | " + log.replace("\n", "\n       | "))
        for what, why in step.skips:
            print(f"     skipped: {what}: {why}")
        sys.stdout.flush()
        passed += step.passed
        failed += len(step.failures)
        skipped += len(step.skips)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
