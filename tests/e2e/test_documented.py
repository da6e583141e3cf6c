# SPDX-License-Identifier: Apache-2.0
"""Each command of the documents, the manual pages and --help: its options exist, and the command
runs here or in the test that ELSEWHERE names. The cookbook and the recipes have tests of their
own."""
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import lib
import libc_frames
import test_promises

sys.path.insert(0, str(lib.ROOT / "scripts"))
import cookbook  # noqa: E402

GOLDEN = lib.ROOT / "tests" / "golden"
PROGRAMS = {program.name: program for program in (lib.MMTRACE, lib.MMSQL, lib.PINTOOL)}
OWN_TESTS = {"cookbook.md": "test_report_storm.Storm.test_cookbook",
             "recipes.md": "test_recipes.Recipes"}
COMMAND = re.compile(r"(?:^|[|&$] )(?:sudo )?(?:mmtrace|mmsql|pintool|sqlite3) [a-z-]")
SYNOPSIS = re.compile(r"\.\.\.|\[|\w\|\w|\bPINLIST\b")

# Commands that need time, rights, another program, or a process of a certain kind. The first row
# that fits counts.
ELSEWHERE = (
    (r"mmtrace record .*--background-wait",
     "test_commands.WithoutService.test_background_wait_returns_when_it_records"),
    (r"mmtrace record .*-o - \| mmsql convert -", "test_record.Output.test_standard_output"),
    (r"ssh ", "test_query.OnTraces.test_standard_input"),
    (r"mmtrace record -c", "test_configs.Configs.test_records"),
    (r"mmtrace record ", "test_record.CommandLine.test_light_flags_make_a_config"),
    (r"mmtrace daemon", "test_daemon.Pressure"),
    (r"mmtrace status", "test_commands.ServiceTests.test_status"),
    (r"mmtrace trigger", "test_commands.ServiceTests.test_trigger_starts"),
    (r"mmtrace clone", "test_commands.ServiceTests.test_clone"),
    (r"mmtrace bugreport", "test_commands.ServiceTests.test_bugreport"),
    (r"mmtrace heap --snapshot", "test_heap_service.Snapshot.test_of_a_running_profile"),
    (r"mmtrace heap .*com.android.art", "test_recipes.Recipes.test_java"),
    (r"mmtrace heap .*node", "test_recipes.Recipes.test_node"),
    (r"mmtrace heap .*--name", "test_heap.Attach.test_by_name_also_later"),
    (r"mmtrace heap .*(--pid|-p) ", "test_recipes.Recipes.test_a_container"),
    (r"mmtrace heap", "test_recipes.Recipes.test_c_and_cplusplus"),
    (r"mmtrace cpu .*dwarf", "test_stacks.Stacks.test_stacks_without_frame_pointers"),
    (r"mmtrace cpu", "test_recipes.Recipes.test_c_and_cplusplus"),
    (r"mmtrace faults", "test_stacks.Stacks.test_pages_that_are_touched_have_their_faults"),
    (r"mmtrace java", "test_java_attach.Attach.test_a_running_program"),
    (r"mmtrace top .*--record", "test_top.Lines.test_record"),
    (r"mmtrace top --batch", "test_top.Lines.test_frames"),
    (r"mmtrace top", "test_top.Terminal.test_keys"),
    (r"mmtrace doctor", "test_doctor.Doctor.test_text_says_what_json_says"),
    (r"mmsql open", "test_open.Open"),
    (r"mmsql memory --pid", "test_memory.Memory.test_the_parts_add_up"),
    (r"perf\.data", "test_foreign.PerfData.test_real_recordings"),
    (r"/sys/kernel/tracing/trace ", "test_foreign.FtraceText.test_forms"),
    (r"--of reclaim", "test_stacks.Stacks.test_reclaim_has_the_stack_of_who_made_it"),
    (r"\.load ", "test_query.Functions.test_extension"),
    (r"go tool pprof", "test_pprof.Pprof.test_pprof_reads_it"),
    (r"pintool suggest", "test_report_storm.Storm.test_cookbook"),
    (r"pintool measure", "test_pintool_hold.HoldTest"),
    (r"pintool lock", "test_pintool_hold.HoldTest.test_locked_pages_stay_until_the_end"),
    (r"pintool file .*--watch", "test_pintool.Watch.test_came_and_went"),
)

# Words of the documents, and their replacements here. Names of the reader's own programs are left
# out.
WORDS = ((r"^\$ ", ""), (r"\bsudo ", ""), ("/tmp/|/data/app/", ""), (r"\b1234\b|\bPID\b", "{pid}"),
         (r"\bFILE\b", "mm.pftrace"), (r"\bBEFORE AFTER\b", "before.pftrace after.pftrace"),
         (r"libs/\*", "libapp"), (r" && duckdb(?:.|\n)*", ""),
         (r"/usr/lib/\S+/libc\.so\.6", str(lib.MMSQL)))

JAVA_LOG = ("+0,jthread[main], jclass[LB; file: B.java], size[16, hex: 0x10]\n+1,LA;::run()V\n"
            "=2,0;1\n2\n")


@functools.cache
def table_of(program, verb):
    """The options of a verb: {letter: whether the option has an argument}, and names."""
    rows = [line.split("\t") for line in lib.run(
        PROGRAMS[program], verb, "--complete-options",
        stdin=subprocess.DEVNULL).stdout.splitlines()]
    return ({row[0]: bool(row[2]) for row in rows if row[0]} | {"h": False},
            {row[1] for row in rows if row[1]} | {"help"})


@functools.cache
def verbs_of(program):
    return [line.split("\t")[0] for line in
            lib.run(PROGRAMS[program], "--complete-verbs").stdout.splitlines()]


def whole(lines):
    """The commands of lines. A command goes on after a backslash, and inside of a quotation."""
    command = ""
    for line in lines:
        command += line
        if command.endswith("\\") or command.count('"') % 2 or command.count("'") % 2:
            command += "\n"
        else:
            yield command
            command = ""


def commands_of(lines):
    """The commands that call a program, without their comments."""
    for command in whole(lines):
        if COMMAND.search(command):
            yield re.sub(r"\s+#.*", "", command)


def documented():
    """(place, command) of each page."""
    for page in [lib.ROOT / "README.md", *sorted((lib.ROOT / "docs").glob("*.md"))]:
        if page.name not in OWN_TESTS:
            for block in re.findall(r"(?:^    .*\n)+", page.read_text(), re.M):
                for command in commands_of(line[4:] for line in block.splitlines()):
                    yield page.name, command
    for page in sorted((lib.ROOT / "docs" / "man").glob("*.1")):
        lines = re.findall(r"^\.Dl (.*)$", page.read_text(), re.M)
        for command in commands_of(line.replace(r"\(dq", '"') for line in lines):
            yield page.name, command
    for name, program in PROGRAMS.items():
        for verb in verbs_of(name):
            text = lib.run(program, "help", verb).stdout
            examples = re.search(r"^Examples?:(.*?)(?:\n\n|\Z)", text, re.M | re.S)[1]
            lines = (re.sub(r"   +[a-z].*", "", line.strip()) for line in examples.splitlines())
            for command in commands_of(lines):
                yield f"{name} {verb} --help", command


def calls_of(command):
    """(program, verb, words) of each call of a program in a command."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words, calls = [*lexer, ";"], []
    while words:
        end = next(n for n, word in enumerate(words) if set(word) <= set("|&;"))
        call = words[:end]
        words = words[end + 1:]
        call = call[1:] if call[:1] in (["sudo"], ["$"]) else call
        if len(call) > 1 and call[0] in PROGRAMS:
            calls.append((call[0], call[1], call[2:]))
    return calls


def elsewhere(command):
    return next((test for pattern, test in ELSEWHERE if re.search(pattern, command)), None)


class Documented(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = list(documented())

    def test_there_are_commands(self):
        self.assertGreater(len(self.commands), 130)
        places = {place for place, _ in self.commands}
        for place in ("README.md", "convert.md", "pintool.1", "mmsql query --help"):
            self.assertIn(place, places)

    def test_their_options_exist(self):
        n = 0
        for place, command in self.commands:
            for program, verb, words in calls_of(command):
                n += 1
                with self.subTest(f"{place}: {command}"):
                    self.assertIn(verb, verbs_of(program))
                    self.assertEqual(unknown_options(program, verb, words), [])
        self.assertGreater(n, 130)

    def test_an_option_that_does_not_exist_is_found(self):
        for command, found in (("mmtrace record --no-clobbr -o x", ["--no-clobbr"]),
                               ("mmsql query -Z x.db", ["-Z"]),
                               ("mmtrace heap -p 1 -- make -Z --x", []),
                               ("pintool file --dump=1 -oZ x", [])):
            (program, verb, words), = calls_of(command)
            self.assertEqual(unknown_options(program, verb, words), found)

    def test_tests_elsewhere_exist_and_are_needed(self):
        for test in [*OWN_TESTS.values(), *(test for _, test in ELSEWHERE)]:
            self.assertIsNone(test_promises.Named().find(test))
        used = {elsewhere(command) for _, command in self.commands}
        self.assertEqual({test for _, test in ELSEWHERE} - used, set())


def unknown_options(program, verb, words):
    letters, names = table_of(program, verb)
    unknown = []
    for word in words:
        if word == "--":
            break
        if word.startswith("--"):
            unknown += [] if word[2:].partition("=")[0] in names else [word]
        elif re.match(r"-[a-zA-Z]", word):
            for letter in word[1:]:
                if letter not in letters:
                    unknown.append(f"-{letter}")
                if letters.get(letter, True):  # the rest is its argument
                    break
    return unknown


@lib.needs_program("sqlite3")
class Run(unittest.TestCase):
    """Runs the commands that need no rights and little time, in a folder that has the files."""

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="documented-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.process = subprocess.Popen(["sleep", "1000"])
        cls.addClassCleanup(lambda: (cls.process.kill(), cls.process.wait()))
        for trace, names in (("mm_pressure", ("mm", "trace", "morning", "phone", "residency")),
                             ("sched_deflate", ("evening", "host")),
                             ("heap_continuous", ("heap", "app", "node", "heap_profile"))):
            for name in names:
                shutil.copy(GOLDEN / f"{trace}.pftrace", cls.dir / f"{name}.pftrace")
        with open(cls.dir / "heap.pftrace", "ab") as heap:
            heap.write(libc_frames.trace())
        samples = (GOLDEN / "imports" / "perf_samples.textproto").read_text()
        event = 'tracepoint { name: "sched:sched_switch" } period: 1'
        for name, counter in (("cpu", "SW_CPU_CLOCK"), ("cpu_profile", "SW_CPU_CLOCK"),
                              ("faults", "SW_PAGE_FAULTS"), ("before", "SW_CPU_CLOCK"),
                              ("after", "SW_CPU_CLOCK")):
            (cls.dir / f"{name}.pftrace").write_text(
                samples.replace(event, f"counter: {counter}") + f"# {name}\n")
        (cls.dir / "app.log").write_text(JAVA_LOG)
        shutil.copy(cls.dir / "app.log", cls.dir / "shop.log")
        shutil.copy(cls.dir / "app.log", cls.dir / "allocations.log")
        (cls.dir / f"perf-{cls.process.pid}.map").write_text("1000 100 work\n")
        (cls.dir / "out" / "symbols").mkdir(parents=True)
        (cls.dir / "pinconfig.txt").write_text("file libapp.so\noffset 0 length 4096\n")
        (cls.dir / "libapp.so").write_bytes(b"x" * 65536)
        for name in ("APP.apk", "NEW.apk"):
            with zipfile.ZipFile(cls.dir / name, "w") as apk:
                apk.write(cls.dir / "libapp.so", "lib/arm64-v8a/libapp.so")
                apk.writestr("assets/pinlist.meta", bytes(6) + b"\x10\0")
        shutil.copy(cls.dir / "APP.apk", cls.dir / "app.apk")
        with zipfile.ZipFile(cls.dir / "report.zip", "w") as report:
            report.write(cls.dir / "mm.pftrace", "FS/data/misc/perfetto-traces/systrace.pftrace")
            report.writestr("FS/proc/vmstat", "nr_free_pages 12\n")
        (cls.dir / "pinlist.meta").write_bytes(bytes(6) + b"\x10\0")
        for database, source in (("mm", "mm.pftrace"), ("trace", "mm.pftrace"), ("app", "app.log")):
            done = lib.run(lib.MMSQL, "convert", "-q", cls.dir / source, "-o",
                           cls.dir / f"{database}.db")
            if done.returncode:
                raise AssertionError(done.stderr)
        places = [*(str(program.parent) for program in PROGRAMS.values()),
                  str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
        cls.env = {**os.environ, "PATH": ":".join(places)}

    def test_commands(self):
        wanted = {}
        for place, command in documented():
            if elsewhere(command) or SYNOPSIS.search(command):
                continue
            for said, stands in WORDS:
                command = re.sub(said, stands.format(pid=self.process.pid), command)
            wanted.setdefault(command, place)
        self.assertGreater(len(wanted), 40)
        for command, place in wanted.items():
            with self.subTest(f"{place}: {command}"):
                done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.dir,
                                      env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)


class Cookbook(unittest.TestCase):
    def test_outputs_and_pictures_are_of_one_recording(self):
        """The first output is the verdict on the recording, folded."""
        page = (lib.ROOT / "docs" / "cookbook.md").read_text()
        command, shown = next(iter(cookbook.commands_of(page)))
        self.assertIn("mmsql verdict storm.pftrace", command)
        recording = lib.ROOT / "docs" / "pictures" / "recording.txt"
        self.assertEqual(shown.split(), recording.read_text().split())


if __name__ == "__main__":
    unittest.main()
