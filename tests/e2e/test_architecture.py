# SPDX-License-Identifier: Apache-2.0
"""The house rules that a compiler does not see: which file includes which, and which may look up
names in file systems.

ALLOWED lists each place in the recorder that looks up a name, makes, removes or changes a file, or
binds or connects a socket. Its reason says why nobody else controls the name, or why nobody waits
for the process. Names that another user controls go through producer/foreign/
(docs/threat-model.md). An entry that is not needed any more fails the test.
"""
import collections
import graphlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import lib
from lib import ROOT

sys.path.insert(0, str(ROOT / "protos"))
import gen_fields  # noqa: E402

CALLS = """
open open64 openat openat2 creat opendir scandir nftw ftw glob fopen freopen stat lstat fstatat
statx statfs statvfs access faccessat euidaccess readlink readlinkat realpath chmod fchmodat chown
lchown fchownat bind connect mkdir mkdirat mknod mknodat mkfifo rmdir unlink unlinkat remove rename
renameat renameat2 link linkat symlink symlinkat truncate mount umount2 chdir getxattr lgetxattr
listxattr setxattr inotify_add_watch open_in_root folder_make unix_socket_listen text_file_open
text_file_read_once text_file_span
""".split()
CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(CALLS))
# Files of /proc/PID whose readers wait for a lock of the process, and the code that may name them:
# producer/foreign/process_file.c reads them in time, the others may wait.
MAP_FILE = re.compile(r'"[^"\n]*%(?:[du]|" PRI[du](?:32|64)? ")/'
                      r'(?:cmdline|maps|map_files|smaps|smaps_rollup|environ|numa_maps|pagemap'
                      r'|mem|auxv|stat|ns|io|stack|syscall|root|fd|exe|cwd)["/%]'
                      r'|\b(?:maps_open|process_life_read)\s*\(')
MAY_WAIT = {
    "producer/agents/heap/attach/mmheap_attach.c": "a process of its own for one attach",
    "producer/agents/heap/attach/target.c": "a process of its own for one attach",
    "producer/cli/java.c": "a message for its user",
    "producer/cli/status.c": "the daemon's own process",
    "producer/foreign/process_file.c": "its own threads",
    "producer/ground/maps.c": "defines maps_open()",
    "producer/ground/process_life.c": "defines process_life_read()",
    "producer/heap/heap_owner.c": "this process; inside the profiled program, the recorder",
    "producer/heap/vm_process.c": "a process of its own, or a job of a helper",
    "producer/pintool/targets.c": "a program of its own, which its user ends",
    "producer/sources/ftrace/tracefs.c": "this process",
    "producer/sources/heap/wake_job.c": "a job of a helper",
    "producer/sources/process_stats/poll.c": "a call of process_call()",
}
TEXTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)

TEXT_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

OWN_PROC = "files that the kernel makes of this process"
PROC = "files that the kernel makes in /proc, which do not wait for their process (MAP_FILE)"
KERNEL = "files that the kernel makes in tracefs and sysfs"
JOB = "runs in a helper"
PROGRAM = (
    "a program of its own, which its user starts: it has no more rights than its user, and no loop")
INSIDE = "runs inside the profiled program, with its rights"
HELPER = "a process of its own for one attach, which nobody waits for (heap_attach.c)"
COMMAND = "a command's own files, which its user names"
STATE = "the service's own folders, which root alone may write"
SOCKET = "the service's own sockets"
PLACE = "the output, whose folder is held by a descriptor (output_place_find)"
WORK = "in a working folder, which is held by a descriptor and which this user alone may write"

# A file, or a folder with all its files -> the calls (None: any), the reason.
ALLOWED = {
    "producer/foreign/": (None, "the door"),
    "producer/pintool/": (None, PROGRAM),
    "producer/agents/heap/attach/": (None, HELPER),
    "producer/heap/recorder.c": (None, INSIDE),
    "producer/heap/vm_attach.c": (None, HELPER),
    "producer/heap/vm_process.c": (None, HELPER),
    "producer/ground/maps.c": ("open", PROC),
    "producer/ground/work_time.c": ("open", PROC),
    "producer/ground/kernel_functions.c": ("open readlink", PROC),
    "producer/agents/heap/": (None, INSIDE),
    "producer/agents/jvm/": (None, INSIDE),
    "common/file.c": (None, "what the door and commands are built on"),
    "common/unix_socket.c": (None, "what sockets of the service and of helpers are built on"),
    "common/program.c": ("open", "/dev/null"),
    "common/sandbox.c": ("open", OWN_PROC),
    "producer/sources/heap/names_job.c": ("open statx", JOB),
    "producer/sources/heap/summons.c": ("bind unlinkat", JOB),
    "producer/sources/heap/wake_job.c": ("opendir text_file_span", JOB),
    "producer/sources/perf_map/perf_map_file.c": ("text_file_span", JOB + "; " + PROC),
    "producer/cli/": (None, COMMAND),
    "producer/trace/trace_file.c": ("fstatat openat readlink stat", COMMAND),
    "producer/service/service.c": ("lstat unlink",
                                   "the output that a command or root's config names"),
    "producer/service/service_clone.c": ("open", OWN_PROC),
    "producer/service/armed/": (None, STATE),
    "producer/service/triggers/trigger_history.c": ("open rename unlink", STATE),
    "producer/service/ipc/consumer_save.c": ("mkdir rename unlink", STATE),
    "producer/service/ipc/peer.c": ("open", PROC),
    "producer/service/ipc/socket.c": ("access connect mkdir unix_socket_listen", SOCKET),
    "producer/ground/memory_lock.c": ("fopen", OWN_PROC),
    "producer/ground/self_guard.c": ("fopen", OWN_PROC),
    "producer/service/roots.c": ("mount statfs", KERNEL),
    "producer/sources/ftrace/": (None, KERNEL),
    "producer/sources/sys_stats/": (None, KERNEL),
    "producer/sources/sys_stats/sys_stats_source.c": ("text_file_open", PROC),
    "producer/sources/system_info/system_info_source.c": ("text_file_read_once text_file_span",
                                                          PROC),
    "producer/sources/process_stats/process_stats_source.c": (
        "opendir text_file_open text_file_read_once", PROC),
    "producer/sources/process_stats/": (None, PROC),
    "producer/ground/process_life.c": ("stat text_file_span", PROC),
    "producer/ground/proc_text.c": ("open text_file_open text_file_read_once text_file_span", PROC),
    "producer/sources/perf_map/perf_map_source.c": ("opendir", PROC),
    "producer/sources/requester.c": ("getxattr readlink stat text_file_span",
                                     PROC + "; files that residency has open"),
    "producer/sources/residency/": (
        None, "files that the config names, not in /proc (named_files.c); files that processes "
              "map, if their file system is trusted (foreign/mounts.h)"),
    "producer/sources/heap/heap_host.c": ("mkdir unix_socket_listen", SOCKET),
    "producer/sources/heap/heap_clients.c": ("text_file_span", OWN_PROC),
    "producer/sources/heap/heap_library.c": ("access readlink",
                                             "files that were installed with this program"),
    "producer/sources/heap/names_roots.c": ("readlink text_file_span", OWN_PROC),
    "producer/sources/perf/perf_open.c": ("opendir text_file_span", KERNEL + "; " + PROC),
    "producer/sources/perf/perf_settings.c": ("text_file_span", KERNEL),
    "producer/sources/perf/perf_source.c": ("text_file_span", OWN_PROC),
    "producer/sources/perf/perf_tasks.c": ("text_file_span", PROC),
    "producer/sources/perf/perf_unwind.c": ("access", "a program that was installed with this one"),
    "producer/heap/heap_program.c": ("access open", COMMAND),
    "producer/sources/heap/heap_targets.c": ("opendir text_file_span", PROC),
    "converter/cli/output_file.c": ("fstatat lstat open openat", PLACE),
    "converter/cli/working_file.c": (None, PLACE),
    "converter/cli/conversion_traces.c": ("unlink", WORK),
    "converter/cli/convert.c": ("stat", PLACE),
    "converter/cli/export.c": ("folder_make", COMMAND + "; the folder is then held (folder.h)"),
    "converter/cli/trace_cache.c": (None, "the cache, whose folders no other user may write"),
    "converter/cli/trace_keeper.c": ("openat", WORK),
    "converter/cli/confine.c": ("access open", OWN_PROC + "; the folder that a limit is for"),
    "converter/cli/own_sandbox.c": ("access realpath stat", "what the sandbox leaves open"),
    "converter/cli/open_command.c": ("bind open", COMMAND + ", read only; a port of the loopback"),
    "converter/cli/query.c": ("access open stat", COMMAND + ", read only"),
    "converter/cli/shell.c": ("access folder_make fstatat", "the history, in trusted folders"),
    "converter/cli/streams.c": (None, COMMAND + ", read only; " + WORK),
    "converter/ground/budget.c": ("fopen open statvfs", OWN_PROC + "; cgroups; free space"),
    "converter/ground/spill.c": ("open unlink", "a file that keeps no name"),
    "converter/input/input.c": ("fopen open", COMMAND + ", read only; " + OWN_PROC),
    "converter/import/files/perf_map_lines.c": ("access", "a file of kernel symbols, read only"),
    "converter/perfetto_sql/packages.c": ("fstatat open openat realpath", COMMAND + ", read only"),
    "converter/tables/bulk.c": ("open", WORK),
    "converter/tables/database.c": ("open rename stat unlink", WORK),
    "converter/tables/defend.c": ("open stat", "what SQLite opens: no link and no FIFO"),
}


def calls_of(path):
    return set(CALL.findall(TEXTS.sub(" ", path.read_text())))


def entry_of(name):
    """The entry of the file, or of the nearest folder above it."""
    names = [name, *(f"{folder}/" for folder in map(str, pathlib.PurePath(name).parents))]
    return next((entry for entry in names if entry in ALLOWED), None)


class LookUps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        files = sorted([*ROOT.glob("producer/**/*.c"), *ROOT.glob("common/*.c"),
                        *ROOT.glob("converter/**/*.c")])
        cls.calls = {str(path.relative_to(ROOT)): calls for path in files
                     if (calls := calls_of(path))}

    def test_names_are_looked_up_where_that_is_allowed(self):
        for name, calls in self.calls.items():
            entry = entry_of(name)
            with self.subTest(name):
                self.assertIsNotNone(entry,
                                     f"{name} calls {sorted(calls)}: go through producer/foreign/ "
                                     "or converter/cli/output_file.h, or add a row to ALLOWED in "
                                     "tests/e2e/test_architecture.py that says why not")
                allowed = ALLOWED[entry][0]
                self.assertLessEqual(calls, calls if allowed is None else set(allowed.split()),
                                     f"{name}: go through producer/foreign/, or add the call to "
                                     f"the row {entry} of ALLOWED in "
                                     "tests/e2e/test_architecture.py")

    def test_no_entry_is_left_over(self):
        used = {entry_of(name) for name in self.calls}
        self.assertEqual(sorted(set(ALLOWED) - used), [],
                         "remove the rows from ALLOWED in tests/e2e/test_architecture.py")
        for entry, (allowed, _) in ALLOWED.items():
            if allowed is not None:
                self.assertEqual(set(allowed.split()) - self.calls[entry], set(),
                                 f"{entry}: remove the calls from the row of ALLOWED in "
                                 "tests/e2e/test_architecture.py")

    def test_who_waits_for_memory_maps(self):
        found = {str(path.relative_to(ROOT)) for path in ROOT.glob("producer/**/*.c")
                 if MAP_FILE.search(TEXT_COMMENTS.sub(" ", path.read_text()))}
        self.assertEqual(found, set(MAY_WAIT), "read the file by producer/foreign/process_file.h")

    def test_what_is_looked_for_is_found(self):
        for text in ('x(t, "/%d/cmdline", pid)', '"%s/%d/map_files/%llx-%llx"', "maps_open(&maps)"):
            self.assertTrue(MAP_FILE.search(text), text)
        for text in ('"/proc/%d/root%s"', '"%s/%d/fd"', '"/%" PRId32 "/root%s"'):
            self.assertTrue(MAP_FILE.search(text), text)
        self.assertFalse(MAP_FILE.search('"/%d/status" "/self/maps" "/%d/fdinfo"'))
        text = ('int r = open(path, 0); // open(x)\nx->stat(y); "chmod(z)"; class.open(); '
                'text_file_open(&f); reopen(x);')
        self.assertEqual(set(CALL.findall(TEXTS.sub(" ", text))), {"open", "text_file_open"})


# The folders of each program from the lowest up, each with the folders that it may include.
LAYERS = {
    "producer": {
        "ground": "",
        "heap": "ground",
        "agents": "ground heap",
        "trace": "ground",
        "foreign": "ground",
        "sources": "ground heap trace foreign",
        "service": "ground trace foreign sources",
        "cli": "ground heap trace foreign sources service",
        "pintool": "ground sources",
    },
    "converter": {
        "ground": "",
        "sql": "",
        "tables": "ground sql",
        "symbols": "ground tables",
        "functions": "symbols",
        "input": "ground",
        "decode": "ground input",
        "translate": "ground input",
        "import": "ground input decode tables",
        "profile": "tables functions",
        "verdict": "tables",
        "report": "tables profile verdict",
        "perfetto_sql": "sql tables functions",
        "cli": "ground sql tables symbols functions input translate import profile verdict "
               "report perfetto_sql",
    },
}


class Includes(unittest.TestCase):
    def includes(self, folder):
        for path in (*ROOT.glob(f"{folder}/**/*.c"), *ROOT.glob(f"{folder}/**/*.h")):
            for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
                yield str(path.relative_to(ROOT)), name

    def test_the_recorder_and_the_converter_do_not_know_each_other(self):
        self.assertEqual([i for i in self.includes("producer") if i[1].startswith("converter/")],
                         [])
        self.assertEqual([i for i in self.includes("converter") if i[1].startswith("producer/")],
                         [])

    def test_common_knows_neither(self):
        self.assertEqual([i for i in self.includes("common")
                          if i[1].startswith(("producer/", "converter/"))], [])

    def test_folders_include_lower_ones(self):
        for program, layers in LAYERS.items():
            folders = {f.name for f in (ROOT / program).iterdir() if f.is_dir()
                       and any(f.glob("**/*.[ch]"))}
            self.assertEqual(folders, set(layers), "each folder has its row in LAYERS")
            for path, name in self.includes(program):
                folder, other = path.split("/")[1], name.split("/")
                if other[0] == program and other[1] != folder:
                    self.assertIn(other[1], layers[folder].split(),
                                  f"{path} includes {name}: move what both need down, to ground/ "
                                  "for example")
            below = [folder for folder, others in layers.items() for other in others.split()
                     if list(layers).index(other) >= list(layers).index(folder)]
            self.assertEqual(below, [], "a folder stands below those that include it")


class Import(unittest.TestCase):
    """converter/import: a ground floor (the files of the folder itself), subjects above it (its
    folders), registries."""
    HERE = ROOT / "converter/import"

    def defined(self, kind):
        """NAME -> the file that has `const struct KIND PREFIX_NAME = ...`."""
        pattern = re.compile(rf"^const struct {kind} [a-z]+_(\w+) =", re.MULTILINE)
        return {name: path for path in self.HERE.glob("**/*.c")
                for name in pattern.findall(path.read_text())}

    def test_the_ground_floor_knows_no_subject(self):
        ground = [*self.HERE.glob("*.[ch]")]
        self.assertGreater(len(ground), 20)
        for path in ground:
            with self.subTest(path.name):
                subjects = re.findall(r'^#include "converter/import/\w+/[^"]+"', path.read_text(),
                                      re.MULTILINE)
                self.assertEqual(subjects, [],
                                 "keep the subject's state with its importer: see importer.h")

    def test_modules_do_not_include_each_other_in_a_circle(self):
        """A module is a header with its source: the module needs the modules that either of the two
        includes."""
        needs = collections.defaultdict(set)
        for path in ROOT.glob("converter/**/*.[ch]"):
            module = str(path.relative_to(ROOT).with_suffix(""))
            for name in re.findall(r'^#include "(converter/[^"]+)\.h"', path.read_text(),
                                   re.MULTILINE):
                needs[module] |= {name} - {module}
        self.assertGreater(len(needs), 200)
        # raises CycleError, with the circle
        tuple(graphlib.TopologicalSorter(needs).static_order())

    def test_what_the_ground_floor_stands_on_does_not_know_it(self):
        for path in [path for folder in ("decode", "input", "tables")
                     for path in ROOT.glob(f"converter/{folder}/*.[ch]")]:
            with self.subTest(path.name):
                self.assertNotIn('#include "converter/import/', path.read_text())

    def test_each_importer_has_a_test(self):
        tests = [path for end in ("c", "py", "sql", "textproto")
                 for path in ROOT.glob(f"tests/**/*.{end}")]
        words = {word for path in tests for word in re.findall(r"\w+", path.read_text())}
        for path in self.HERE.glob("**/*.c"):
            for field in re.findall(r"\.field = PB_TracePacket_(\w+)", path.read_text()):
                with self.subTest(field):
                    self.assertTrue(field in words,
                                    f"{path.relative_to(ROOT)}: no test has a packet {field}: add "
                                    "one to tests/golden/imports/")

    def test_each_subject_of_ftrace_has_a_test(self):
        words = {word for path in ROOT.glob("tests/golden/imports/*.textproto")
                 for word in re.findall(r"\w+", path.read_text())}
        for name, path in self.defined("ftrace_subject").items():
            events = re.findall(r'\{"(\w+)",', path.read_text())
            with self.subTest(name):
                self.assertTrue(words & set(events),
                                f"{path.relative_to(ROOT)}: no test has an event of this subject: "
                                f"add tests/golden/imports/ftrace_{name}.textproto")

    def test_each_subject_of_ftrace_has_a_row(self):
        text = (self.HERE / "ftrace/meson.build").read_text()
        rows = re.findall(r"'(\w+)'", re.search(r"^subjects = \[(.*?)^\]", text,
                                                re.MULTILINE | re.DOTALL).group(1))
        defined = self.defined("ftrace_subject")
        self.assertGreater(len(defined), 15)
        self.assertEqual(rows, sorted(rows))
        for name, path in defined.items():
            self.assertEqual(path.name, f"{name}.c",
                             f"ftrace_{name}: call the file as the subject is called")
            self.assertIn(name, rows,
                          f"{path.name}: add '{name}' to subjects of "
                          "converter/import/ftrace/meson.build")


PROGRAMS = ("common", "producer", "converter")
SOURCES = (*PROGRAMS, "tests")
# sizeof(a) / sizeof(a[0]), sizeof(a) / sizeof(*a), and the same with parentheses for macros
COUNTED_BY_HAND = re.compile(
    r"sizeof\s*\(?\s*([\w.>-]+)\s*\)?\s*/\s*sizeof\s*\(?\s*(?:\*\s*\1|\(?\1\)?\s*\[0\])")
# A literal, and a number that may be its size. In tables ({"u64", 8}) such a number has another
# meaning.
COUNTED_LETTERS = re.compile(r'(?<![\s{]\{)"((?:[^"\\\n]|\\.)+)",\s*(\d+)\b')
FIXED_LAYOUTS = {"common/pbtext_lex.c": "excerpts have three letters where they are cut"}


class Texts(unittest.TestCase):
    def test_a_name_of_a_source_is_there_once(self):
        paths = collections.defaultdict(list)
        for path in [path for folder in PROGRAMS for path in ROOT.glob(f"{folder}/**/*.c")]:
            paths[path.name].append(str(path.relative_to(ROOT)))
        twice = {name: found for name, found in paths.items() if len(found) > 1}
        self.assertEqual(twice, {},
                         "rename one: debuggers and messages of compilers show the name alone")

    def test_letters_of_literals_are_not_counted_by_hand(self):
        for path in [path for folder in PROGRAMS
                     for path in sorted(ROOT.glob(f"{folder}/**/*.[ch]"))]:
            text = path.read_text()
            for found in COUNTED_LETTERS.finditer(text):
                size = len(re.sub(r"\\(?:[0-7]{1,3}|.)", "x", found[1]))
                name = str(path.relative_to(ROOT))
                with self.subTest(name):
                    self.assertFalse(size > 1 and size == int(found[2])
                                     and name not in FIXED_LAYOUTS,
                                     f"{name}: {found[0]}: use TEXT() of common/text.h or "
                                     "str_starts_with()")

    def test_elements_are_counted_by_one_macro(self):
        files = [f for folder in SOURCES for f in ROOT.glob(f"{folder}/**/*.[ch]")]
        found = [str(f.relative_to(ROOT)) for f in files
                 if COUNTED_BY_HAND.search(TEXTS.sub(" ", f.read_text()))]
        self.assertEqual(found, ["common/elements.h"], "use ELEMENTS() of common/elements.h")


class Sources(unittest.TestCase):
    """Data sources of the recorder: each step that CONTRIBUTING.md asks for is done."""

    @classmethod
    def setUpClass(cls):
        cls.folder = ROOT / "producer" / "sources"
        cls.rows = re.findall(r"'(\w+)'", re.search(r"data_sources = \[(.*?)\]",
                                                    (cls.folder / "meson.build").read_text(),
                                                   re.DOTALL)[1])
        cls.texts, cls.homes = collections.defaultdict(str), {}
        for path in [*cls.folder.glob("*_source.c"), *cls.folder.glob("*/*.[ch]")]:
            name = path.name.removesuffix(
                "_source.c") if path.parent == cls.folder else path.parent.name
            text = TEXT_COMMENTS.sub(" ", path.read_text())
            cls.texts[name] += text
            for found in re.findall(r"^const struct source_class (\w+) =", text, re.MULTILINE):
                cls.homes[name] = (str(path.relative_to(ROOT)), found)
        cls.schema = gen_fields.Schema()
        for path in sorted(ROOT.glob("protos/*/*.proto")):
            gen_fields.Parser(path, cls.schema)
        cls.configs = {field.name: field for field in cls.schema.messages["DataSourceConfig"]}

    def test_a_source_has_its_row(self):
        for name, (home, found) in self.homes.items():
            self.assertEqual(found, f"{name}_class",
                             f"{home}: the class has the name of the source's file or folder")
            self.assertIn(name, self.rows,
                          f"{home}: add '{name}' to data_sources in producer/sources/meson.build")
        self.assertEqual(set(self.rows), set(self.homes),
                         "rows of data_sources in producer/sources/meson.build without a class")

    def test_a_source_has_a_unit_test(self):
        rows = re.findall(r"'(\w+)': \[", (ROOT / "tests/unit/meson.build").read_text())
        # A test is for the source with the longest name that begins the test's name.
        tested = {max((name for name in self.homes if f"{row}_".startswith(f"{name}_")), key=len,
                      default=None) for row in rows}
        for name, (home, _) in self.homes.items():
            with self.subTest(name):
                self.assertIn(name, tested,
                              f"{home}: add tests/unit/{name}.c, and its row to "
                              "tests/unit/meson.build")

    def test_a_source_reads_its_own_config_alone(self):
        for name, (home, _) in self.homes.items():
            own = re.findall(r"\.config = SOURCE_CONFIG\((\w+)\)", self.texts[name])
            read = {field for field in re.findall(r"->(\w+)", self.texts[name])
                    if field in self.configs and self.configs[field].number >= 100}
            with self.subTest(name):
                self.assertEqual(read - set(own), set(),
                                 f"{home}: add .config = SOURCE_CONFIG() of that to the class")

    def test_a_source_reads_every_field_of_its_config(self):
        for name, (home, _) in self.homes.items():
            pasted = re.findall(r"##(_\w+)", self.texts[name])  # ends of names that macros make
            for config in re.findall(r"\.config = SOURCE_CONFIG\((\w+)\)", self.texts[name]):
                for place, field in self.fields(self.configs[config].type):
                    known = re.search(rf'(?:->|\.|")(?:n_|has_)?{field}\b',
                                      self.texts[name]) or any(
                                          field.endswith(end) and re.search(
                                              rf"\b{field.removesuffix(end)}\b", self.texts[name])
                                          for end in pasted)
                    with self.subTest(name):
                        self.assertTrue(known,
                                        f"{home}: {place}.{field} is not read: read it, or add a "
                                        "row to .unread")

    def test_a_source_is_documented(self):
        text, readme = (ROOT / "docs" / "recording.md").read_text(), (
            ROOT / "README.md").read_text()
        for name, (home, _) in self.homes.items():
            called = re.search(r'\.name = "([^"]+)"', self.texts[name])[1]
            self.assertTrue(".summary = " in self.texts[name],
                            f"{home}: add .summary, the line of `mmtrace sources`")
            self.assertTrue(f"- `{called}`" in text,
                            f'{home}: add {called} to "Data sources" in docs/recording.md')
            self.assertTrue(f"| `{called}`" in readme,
                            f'{home}: add {called} to "What can be recorded?" in README.md')

    def fields(self, message):
        for field in self.schema.messages[message]:
            yield message, field.name
            inner = gen_fields.resolve(self.schema, message, field.type)
            if inner in self.schema.messages:
                yield from self.fields(inner)


# Functions and macros that take the number of a field as an argument, and the place of the
# argument.
NUMBERED = (
    r"\b(?:values_of|message_field|generation_find|generation_entry|interned_text|field_kind_of)\(")
WRITERS = r"\bwire_(?:uint|int|sint|begin|text|string|bytes|double|fixed32|fixed64|tag)\("
# PPROF_: a format of its own; STACK_: a BLOB that SQL functions pass on.
OWN_NUMBER = r"(?:\d+|(?!PB_|PPROF_|STACK_)[A-Z][A-Z0-9_]+)"
HAND_NUMBERED = {
    "number == 7": re.compile(
        rf"(?<!\blines)(?:\.|->)number\s*[!=]=\s*(?!0\b|STRSET_NONE\b|FOREIGN_){OWN_NUMBER}"),
    "fields[7]": re.compile(r"(?<!sizeof\(values->)\bfields(?:\.at)?\[\d+\]"),
    "name.at[7]": re.compile(
        r"\b(?:part|event|head|info|entry|spec|sample|process|thread)(?:\.|->)at\[\d+\]"),
    "values_of(message, 7)": re.compile(
        rf"{NUMBERED}[^,;()]*(?:\([^()]*\))?,\s*{OWN_NUMBER}\s*[,)]"),
    "wire_uint(w, 7, ...)": re.compile(rf"{WRITERS}[^,;()]*,\s*{OWN_NUMBER}\s*[,)]"),
    ".field = 7": re.compile(rf"\.field = {OWN_NUMBER}\s*,"),
    "struct wire_field part[7]": re.compile(
        rf"struct wire_field \w+\[(?:(?!\w+_MAX\b){OWN_NUMBER}|PB_\w+\s*\+\s*1)\]"),
}
CASES = re.compile(r"switch \([^{]*(?:\.|->)number\) \{(.*?)\n\s*\}\n", re.DOTALL)
# Tables of {number, ...}: the columns that hold the number of a field.
TABLE = re.compile(
    r"\{\s*(?:const )?uint(?:8|16|32)_t (?:field|number);[^}]*\}\s*\w*\[\w*\]\s*=\s*\{(.*?)\};",
    re.DOTALL)


def hand_numbered(text):
    """The places where a source file writes the number of a field by hand."""
    text = re.sub(r"//[^\n]*", " ", text)
    found = [match.group() for pattern in HAND_NUMBERED.values()
             for match in pattern.finditer(text)]
    found += re.findall(rf"case {OWN_NUMBER}:", " ".join(CASES.findall(text)))
    found += re.findall(rf"\{{\s*{OWN_NUMBER}\s*,", " ".join(TABLE.findall(text)))
    return found


class Schema(unittest.TestCase):
    """A mistake in a .proto file ends the build with the file to mend."""

    def refusal(self, packet, inner):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "protos", "trace")
            trace.mkdir(parents=True)
            (trace / "trace_packet.proto").write_text(packet)
            (trace / "shelf.proto").write_text(inner)
            script = ROOT / "protos" / "gen_fields.py"
            done = subprocess.run([sys.executable, script, f"{folder}/fields.h", trace],
                                  check=False, capture_output=True, text=True)
            return done.stderr.replace(f"{trace}/", "").strip()

    def test_mistakes_are_refused(self):
        package = "package perfetto.protos;\n"
        shelf = package + "message Shelf { optional int32 books = 1; }\n"
        load = 'import "protos/trace/shelf.proto";\n'
        packet = "message TracePacket { optional Shelf shelf = 3149; %s }\n"
        self.assertEqual(self.refusal(package + load + packet % "", shelf), "")
        self.assertEqual(self.refusal(package + packet % "", shelf),
                         "trace_packet.proto: add the import of shelf.proto, which defines Shelf")
        self.assertEqual(self.refusal(package + load + packet % "", shelf.replace(package, "")),
                         "shelf.proto: add the line: package perfetto.protos;")
        self.assertEqual(
            self.refusal(package + load + packet % "optional int32 n = 3149;", shelf),
            "trace_packet.proto: TracePacket.n has the number 3149, which shelf has already: take "
            "a free one")


class FieldNumbers(unittest.TestCase):
    """Only protos/ has the numbers of fields. Code takes them from the headers that gen_fields.py
    writes."""

    FILES = [f for folder in ("producer", "converter")
             for f in sorted(ROOT.glob(f"{folder}/**/*.[ch]"))]

    def test_no_source_numbers_fields(self):
        self.assertGreater(len(self.FILES), 500)
        for path in self.FILES:
            with self.subTest(str(path.relative_to(ROOT))):
                self.assertEqual(hand_numbered(path.read_text()), [],
                                 "use PB_... of protos/fields.h, or MESSAGE()")

    def test_what_is_looked_for_is_found(self):
        for text in (
            "if (field.number == 7)", "if (field->number != EVENT_ARGS)", "return fields[3];",
                "x = part.at[2];",
            "values_of(message, 4)", "values_of(&event->message, BUNDLE_TIMES)",
                "message_field(wire_sub(field), 2)",
            "generation_find(state, INTERNED_NAMES, 5)", "wire_uint(w, 1, key);",
                "wire_begin(&w, FIELD_X)",
            ".field = PACKET_GPU,", "struct wire_field part[9];",
                "struct wire_field part[PB_A_b + 1];",
            "switch (field.number) {\n    case 3:\n        break;\n    }\n",
            "static const struct {\n    uint32_t number;\n    const char *name;\n} known[] = {\n"
            "    {1, \"a\"},\n};\n",
        ):
            with self.subTest(text):
                self.assertEqual(len(hand_numbered(text)), 1)
        for text in ("field.number == PB_A_b", "map64_find(&known, 3)",
                     "values_of(message, PB_A_b)", "fields[slot]"):
            self.assertEqual(hand_numbered(text), [])


class Build(unittest.TestCase):
    def test_a_source_is_compiled_again_for_other_flags_only(self):
        commands = collections.defaultdict(list)
        for unit in json.loads((lib.BUILD / "compile_commands.json").read_text()):
            command = re.sub(r" -I\S+| -(?:o|MF|MQ|MT) (?:'[^']*'|\S+)", "", unit["command"])
            commands[unit["file"]].append(command)
        self.assertGreater(len(commands), 100)
        again = {file for file, found in commands.items() if len(set(found)) < len(found)}
        self.assertEqual(again, set(), "link a static library instead")

    def test_every_source_is_compiled(self):
        compiled = {pathlib.Path(unit["directory"], unit["file"]).resolve()
                    for unit in json.loads((lib.BUILD / "compile_commands.json").read_text())}
        needs_libraries = ("producer/agents/", "producer/cli/bugreport",
                           "producer/service/armed/bugreport",
                           "producer/ground/no_libraries")  # of static programs
        for path in [path for folder in PROGRAMS for path in sorted(ROOT.glob(f"{folder}/**/*.c"))]:
            name = str(path.relative_to(ROOT))
            if not name.startswith(needs_libraries):
                self.assertTrue(path in compiled,
                                f"{name}: add it to the meson.build of its folder")

    def test_every_test_is_compiled(self):
        for folder in ("tests/unit", "tests/fuzz"):
            text = (ROOT / folder / "meson.build").read_text()
            for path in sorted(ROOT.glob(f"{folder}/*.c")):
                self.assertTrue(f"'{path.stem}'" in text or f"'{path.name}'" in text,
                                f"{folder}/{path.name}: add '{path.stem}' to {folder}/meson.build")

    def test_each_folder_lists_its_own_sources(self):
        for path in [*ROOT.glob("*/**/meson.build")]:
            with self.subTest(path.relative_to(ROOT)):
                names = re.findall(r"'([^']+\.c)'", path.read_text())
                self.assertEqual([name for name in names if "../" in name], [])


WIDTH = 100
LINES_MAX = 800
CODE = (".c", ".h", ".py", ".sql")  # schemas are as long as those of Perfetto
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/man/*.1")])
# A sentence begins a line (not a continued line), a cell of a table or an item, or follows another
# sentence.
BEGIN = re.compile(r"(?:^[\s#*|>-]*|[|*]\s+|[.!?:;]\W*\s\W*)((?:Who|Of|What is no\w*)\b.{0,30})")
# A comment that begins with such a word and is not a question.
COMMENT_BEGIN = r"\s*((?:Who|Of|What)\b[^?\n]*)$"
COMMENT_OF = {".c": "//", ".h": "//", ".proto": "//", ".sql": "--", ".build": "#",
              ".py": r"(?:^\s*#|\"\"\")"}
SOURCE_FOLDERS = ("common", "configs", "converter", "producer", "protos", "scripts", "tests")
LINK = re.compile(r"\]\(([^()\s]*)\)")


def files_of(suffixes):
    """The files below SOURCE_FOLDERS whose names end with one of the suffixes."""
    return sorted(path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*")
                  if path.suffix in suffixes)


def python_scripts():
    """The programs in Python that have no suffix."""
    for path in files_of({""}):
        if path.is_file() and re.match(rb"#!.*python", path.read_bytes()[:100]):
            yield path


def help_texts():
    """The output of --help of each program and of each of its commands."""
    for program in (lib.MMTRACE, lib.MMSQL, lib.PINTOOL):
        def text_of(*command, program=program):
            return lib.run(program, *command, "--help").stdout
        text = text_of()
        yield program.name, text
        for command in sorted(
                set(re.findall(rf"^  (?:{program.name} )?([a-z]+)(?: |$)", text, re.MULTILINE))):
            yield f"{program.name} {command}", text_of(command)


def paragraphs(text):
    """The paragraphs, items and rows of a page, a line each, without examples and code."""
    # examples; comments of man pages
    text = re.sub(r"^(?:    .*|\.\\\".*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(\..*)$", r"\1\n", text, flags=re.MULTILINE)  # macros of man pages
    text = re.sub(r"`[^`]*`", "`code`", text)
    return re.sub(r"\n(?!\n|\s*[-*|#.]|\s*\d+\. )\s*", " ", text).splitlines()


def anchors(path):
    """The anchors that a page's headings have on the web."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Files(unittest.TestCase):
    @unittest.skipUnless((ROOT / ".git").exists(),
                         "needs a checkout: git knows which files belong to it")
    @lib.needs_program("git")
    def test_recordings_are_below_tests_alone(self):
        """Files that git tracks, or that would be added, hold text: a recording was written by a
        test or by hand."""
        found = lib.run("git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z", "--cached",
                        "--others",
                        "--exclude-standard")
        self.assertEqual(found.returncode, 0, found.stderr)
        names = [name for name in found.stdout.split("\0") if name
                 and not name.startswith(("tests/", "docs/pictures/"))]
        self.assertGreater(len(names), 500)
        binary = [name for name in names if (ROOT / name).is_file()
                  and b"\0" in (ROOT / name).read_bytes()]
        self.assertEqual(binary, [], "remove them, and name another output (-o)")

    def test_lines_fit(self):
        """clang-format checks the width of C, and the class Pages checks the documents."""
        for path in [*files_of({".py", ".sql"}), *python_scripts()]:
            if "corpus" in path.parts:  # inputs of fuzz targets are not edited
                continue
            name = path.relative_to(ROOT)
            long = [f"{name}:{n}: {len(line)} columns" for n, line
                    in enumerate(path.read_text().splitlines(), 1) if len(line) > WIDTH]
            self.assertEqual(long, [], f"{WIDTH} columns at most")

    def test_files_are_short(self):
        for path in files_of(CODE):
            n_lines = path.read_text().count("\n")
            self.assertLessEqual(n_lines, LINES_MAX,
                                 f"{path.relative_to(ROOT)}: split it by subject")


class Comments(unittest.TestCase):
    def test_sentences_begin_with_their_subject(self):
        for path in files_of(COMMENT_OF):
            found = re.findall(COMMENT_OF[path.suffix] + COMMENT_BEGIN, path.read_text(),
                               re.MULTILINE)
            self.assertEqual(found, [], f"{path.relative_to(ROOT)}: name the subject first")


# Generated pages, and the sources of their sentences.
MADE_FROM = {"docs/tables.md": " (made from converter/tables/schema_*.h and converter/sql/)"}


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {str(path.relative_to(ROOT)): path.read_text() for path in PAGES}
        cls.texts.update(help_texts())

    def test_there_are_pages(self):
        self.assertGreater(len(self.texts), 40)
        for name in ("README.md", "docs/man/mmsql.1", "mmtrace record", "mmsql query",
                     "pintool suggest"):
            self.assertGreater(len(self.texts[name]), 500, name)

    def test_lines_fit(self):
        for name, text in self.texts.items():
            long = [f"{name}:{n}: {len(line)} columns"
                    for n, line in enumerate(text.splitlines(), 1)
                    if len(line) > WIDTH]
            self.assertEqual(long, [],
                             f"{WIDTH} columns at most; make a list of a table that is wider")

    def test_sentences_begin_with_their_subject(self):
        for name, text in self.texts.items():
            found = [match for line in paragraphs(text) for match in BEGIN.findall(line)]
            origin = MADE_FROM.get(name, "")
            self.assertEqual(found, [], f"{name}{origin}: name the subject first")

    def test_forbidden_sentences_are_found(self):
        for text in ("Who comes late waits.", "All went well. Of these two\nremain.",
                     "- Of a zip: all", "## Who may?",
                     "| a | Of both |", ".It Fl x\nOf this process.", "**Who may?** All.",
                     "(Stop. What is not there stays.)"):
            self.assertEqual(len([m for line in paragraphs(text) for m in BEGIN.findall(line)]), 1,
                             text)
        for text in ("A user who waits.", "One of\nWho-cares.", "    Who knows",
                     "The file. Offers end.", "`x. Of y`"):
            self.assertEqual([m for line in paragraphs(text) for m in BEGIN.findall(line)], [],
                             text)

    def test_links_lead_somewhere(self):
        n = 0
        for path in [path for path in PAGES if path.suffix == ".md"]:
            for link in LINK.findall(path.read_text()):
                if "://" in link:
                    continue
                name, _, anchor = link.partition("#")
                target = (path.parent / name).resolve() if name else path
                self.assertTrue(target.exists(), f"{path.name}: {link}")
                if anchor:
                    n += 1
                    self.assertIn(anchor, anchors(target), f"{path.name}: {link}")
        self.assertGreater(n, 10)


if __name__ == "__main__":
    unittest.main()
