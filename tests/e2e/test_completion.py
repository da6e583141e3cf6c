# SPDX-License-Identifier: Apache-2.0
"""Completion by shells, and help: --help and the shells have exactly the options of the programs'
tables."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import lib

PROGRAMS = (lib.MMTRACE, lib.MMSQL, lib.PINTOOL)
FOLDER = lib.ROOT / "completions"
MADE = lib.BUILD / "completions"


def verbs_of(program):
    return [line.split("\t")[0]
            for line in lib.run(program, "--complete-verbs").stdout.splitlines()]


def options_of(program, verb):
    """[letter, name, argument, help] of each option."""
    done = lib.run(program, verb, "--complete-options", stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


class Tables(unittest.TestCase):
    def test_verbs_are_those_of_the_overview(self):
        for program in PROGRAMS:
            overview = lib.run(program, "--help").stdout
            for verb in verbs_of(program):
                self.assertRegex(overview, rf"(?m)^  (?:{program.name} )?{verb}\b")
            self.assertGreater(len(verbs_of(program)), 4)

    def test_options_are_those_of_help(self):
        for program in PROGRAMS:
            for verb in verbs_of(program):
                with self.subTest(f"{program.name} {verb}"):
                    text = lib.run(program, verb, "--help").stdout
                    shown = set()
                    for line in text.splitlines():
                        start = re.match(r" {2,6}(-\w)?(?:, )?\s*(--[\w-]+)?(?=[\s\[=]|$)", line)
                        if start and not line.strip().startswith("-- "):
                            shown |= {word for word in start.groups() if word}
                    for left in re.findall(r"(?m)^The manual page explains ([^.]*)\.$", text):
                        shown |= set(re.findall(r"--[\w-]+", left))
                    rows = options_of(program, verb)
                    self.assertTrue(all(len(row) == 4 for row in rows), rows)
                    offered = {f"-{row[0]}" for row in rows if row[0]} | {
                        f"--{row[1]}" for row in rows if row[1]}
                    if verb == "measure":  # has the options of file, too
                        self.assertIn("--dump", offered)
                        self.assertLessEqual(shown, offered)
                    else:
                        self.assertEqual(offered - {"-h"}, shown - {"-h"})

    def test_options_have_a_help_and_a_kind_of_argument(self):
        for program in PROGRAMS:
            for verb in verbs_of(program):
                with self.subTest(f"{program.name} {verb}"):
                    rows = options_of(program, verb)
                    self.assertEqual([row for row in rows if not row[3] or row[2] == "VALUE"], [])
        for verb, name, row in (
                ("export", "folder", ["", "folder", "DIR",
                                      "write files into this folder, which is made if missing"]),
                ("convert", "symbol-path", ["", "symbol-path", "DIR",
                                            "as --symbols, plus files in DIR; may be repeated"]),
                ("convert", "pinlist", ["", "pinlist", "FILE", "pinned ranges (pinlist.meta) of "
                                                               "the file TARGET"]),
                ("query", "file", ["f", "file", "FILE", "read the SQL from FILE"]),
                ("query", "add-sql-package",
                 ["", "add-sql-package", "DIR", "add the .sql files below DIR as modules of the "
                                                "package NAME (the name of DIR); may be repeated"]),
                ("report", "text", ["", "text", "",
                                    "write text instead: the verdict, and tables"])):
            self.assertIn(row, options_of(lib.MMSQL, verb), name)

    def test_each_verb_has_an_example(self):
        for program in PROGRAMS:
            for verb in verbs_of(program):
                text = lib.run(program, verb, "--help").stdout
                self.assertRegex(text, rf"(?s)Examples?:.*{program.name} {verb} ?")

    def test_help_of_a_verb(self):
        for program in PROGRAMS:
            for verb in verbs_of(program):
                done = lib.run(program, "help", verb)
                self.assertEqual(done.returncode, 0)
                self.assertEqual(done.stdout, lib.run(program, verb, "--help").stdout)
            done = lib.run(program, "help", verbs_of(program)[0] + "x")
            self.assertEqual(done.returncode, 2)
            self.assertIn("did you mean", done.stderr)
            self.assertEqual(lib.run(program, "help").stdout, lib.run(program, "--help").stdout)


class Shells(unittest.TestCase):
    ENV = dict(os.environ, PATH=os.pathsep.join(
        [*(str(program.parent) for program in PROGRAMS), os.environ["PATH"]]))

    def bash(self, *words):
        """The words that bash offers for the last word."""
        quoted = " ".join(f"'{word}'" for word in words)
        script = f"compopt() {{ :; }}; source {FOLDER}/bash; COMP_WORDS=({quoted}); " \
                 f"COMP_CWORD={len(words) - 1}; _mmtrace_complete {words[0]}; " \
                 "printf '%s\\n' \"${COMPREPLY[@]}\""
        done = lib.run("bash", "-c", script, env=self.ENV, cwd=lib.ROOT)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(self.bash("mmtrace", "rec"), ["record"])
        self.assertEqual(self.bash("mmsql", "help", "flame"), ["flamegraph"])
        self.assertEqual(self.bash("mmtrace", "record", "--no-cl"), ["--no-clobber"])
        self.assertEqual(set(self.bash("mmsql", "export", "--")),
                         {f"--{row[1]}" for row in options_of(lib.MMSQL, "export")})
        self.assertEqual(self.bash("mmtrace", "record", "-c", "configs/mm_e"),
                         ["configs/mm_events.cfg"])
        self.assertEqual(self.bash("mmtrace", "daemon", "--output-dir", "conf"), ["configs"])
        self.assertEqual(self.bash("mmsql", "export", "--folder", "conf"), ["configs"])
        self.assertEqual(self.bash("pintool", "pinlist", "READ"), ["README.md"])

    def test_bash_offers_values_and_no_files_for_numbers(self):
        self.assertEqual(self.bash("mmsql", "export", "--format", ""),
                         ["csv", "jsonl", "systrace"])
        self.assertEqual(self.bash("mmsql", "export", "--format", "j"), ["jsonl"])
        self.assertEqual(self.bash("mmsql", "open", "--port", ""), [])
        self.assertEqual(self.bash("mmsql", "open", "--port", "READ"), [])
        self.assertEqual(self.bash("mmsql", "open", "--report", "READ"), ["README.md"])
        self.assertEqual(self.bash("mmsql", "query", "--", "READ"), ["README.md"])
        self.assertEqual(self.bash("mmsql", "report", "-o", "READ"), ["README.md"])

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh(self):
        """A machine may have one of the programs alone."""
        for program in PROGRAMS:
            script = MADE / f"_{program.name}"
            self.assertEqual(lib.run("zsh", "-n", script).stderr, "")
            self.assertTrue(script.read_text().startswith(f"#compdef {program.name}\n"))
        for typed, there, absent in (("mmsql flameg", "flamegraph", "README"),
                                     ("mmsql export --format sy", "--format systrace", "README"),
                                     ("mmsql open --report RE", "--report README.md", "systrace"),
                                     ("mmsql open --port RE", "--port RE", "README")):
            with self.subTest(typed):
                shown = self.zsh(typed)
                self.assertIn(there, shown)
                self.assertNotIn(absent, shown)

    def zsh(self, typed):
        """The text that the terminal shows after `typed` and a tab."""
        folder = tempfile.mkdtemp(prefix="completion-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(MADE / "_mmsql", folder)
        done = lib.run("zsh", "-c", r"""
            zmodload zsh/zpty
            zpty z zsh -f -i
            zpty -w z "PS1=; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D"
            zpty -w z "zstyle ':completion:*' list-prompt ''; setopt nobeep"
            zpty -w z "PS1='REA''DY>'"  # the line editor shows it when it reads
            zpty -r z line '*READY>*'
            zpty -n -w z "$2"$'\t#END\n'
            zpty -r z line '*#END*' && print -r -- "$line"
        """, "zsh", folder, typed, env=dict(self.ENV, TERM="dumb"), cwd=lib.ROOT)
        self.assertEqual(done.stderr, "")
        return done.stdout

    @unittest.skipUnless(shutil.which("fish"), "needs fish")
    def test_fish(self):
        script = (MADE / "mmsql.fish").read_text()
        for words, wanted in (("mmsql flameg", "flamegraph"), ("mmsql export --max-r",
                                                               "--max-rows")):
            done = lib.run("fish", "--no-config", "-c", f"{script}\ncomplete -C '{words}'",
                           env=self.ENV)
            self.assertIn(wanted, [line.split("\t")[0] for line in done.stdout.splitlines()],
                          done.stderr)
        for words, wanted in (("mmsql export --format ", ["csv", "jsonl", "systrace"]),
                              ("mmsql export --format s", ["systrace"]),
                              ("mmsql open --port ", []), ("mmsql open --port RE", []),
                              ("mmsql open --report READM", ["README.md"]),
                              ("mmsql report -o READM", ["README.md"]),
                              ("mmsql export --folder conf", ["configs/"])):
            done = lib.run("fish", "--no-config", "-c", f"{script}\ncomplete -C '{words}'",
                           env=self.ENV, cwd=lib.ROOT)
            self.assertEqual([line.split("\t")[0] for line in done.stdout.splitlines()], wanted,
                             words + done.stderr)


if __name__ == "__main__":
    unittest.main()
