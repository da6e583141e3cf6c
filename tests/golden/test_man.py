# SPDX-License-Identifier: Apache-2.0
"""The man pages have the options of --help and no other, and are well-formed.

usage: test_man.py FOLDER PROGRAM... PAGE...

FOLDER has the pages of programs. A verb is a section (.Ss) of its program's page. gen_page.py made
each PAGE.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

FOLDER = None
PROGRAMS, MADE = [], []
EVERYWHERE = {"-h", "--help", "--version"}


def options_of_help(program, *verb):
    """The options in the help text's own lists: lines that begin with one, indented; and those
    that it leaves to the page."""
    text = subprocess.run([program, *verb, "--help"], stdout=subprocess.PIPE, check=True,
                          text=True).stdout
    found = set()
    for line in text.splitlines():
        start = re.match(r" {2,6}(-\w)?(?:, )?\s*(--[\w-]+)?(?=[\s\[=]|$)", line)
        if start and (start.group(1) or start.group(2)) and not line.strip().startswith("-- "):
            found |= {option for option in start.groups() if option}
    for sentence in re.findall(r"(?m)^The manual page explains ([^.]*)\.$", text):
        found |= set(re.findall(r"--[\w-]+", sentence))
    return found - EVERYWHERE


def verbs_of_page(text):
    """Section name -> options of its tagged paragraphs."""
    sections, name = {}, None
    for line in text.splitlines():
        if line.startswith((".Ss ", ".Sh ")):
            name = line[4:] if line.startswith(".Ss ") else None
            if name:
                sections[name] = set()
        elif name and line.startswith(".It Fl "):
            words = line.split()
            flags = [words[i + 1] for i, word in enumerate(words) if word == "Fl"]
            sections[name] |= {"-" + flag for flag in flags}
    return sections


class ManPages(unittest.TestCase):
    def test_options_are_those_of_help(self):
        self.assertTrue(PROGRAMS)
        for program in PROGRAMS:
            page = (FOLDER / f"{pathlib.Path(program).name}.1").read_text()
            for verb, options in verbs_of_page(page).items():
                with self.subTest(program=pathlib.Path(program).name, verb=verb):
                    self.assertEqual(options, options_of_help(program, *verb.split(" or ")[:1]))

    def test_help_fits_a_terminal(self):
        """80 columns, and for a verb 50 lines."""
        for program in PROGRAMS:
            page = (FOLDER / f"{pathlib.Path(program).name}.1").read_text()
            for verb in [[], *(name.split(" or ")[:1] for name in verbs_of_page(page))]:
                text = subprocess.run([program, *verb, "--help"], stdout=subprocess.PIPE,
                                      check=True, text=True).stdout
                self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
                self.assertLessEqual(text.count("\n"), 50, verb)

    def test_verbs_are_those_of_help(self):
        for program in PROGRAMS:
            name = pathlib.Path(program).name
            text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, check=True,
                                  text=True).stdout
            verbs = set(re.findall(rf"^  (?:{name} )?([a-z]+)\b(?=  |$| [A-Z\[-])", text,
                                   re.MULTILINE)) - {name}
            self.assertGreater(len(verbs), 3)
            self.assertEqual(set(verbs_of_page((FOLDER / f"{name}.1").read_text())), verbs)

    @unittest.skipUnless(shutil.which("mandoc"),
                         "needs mandoc, which scripts/install-deps installs")
    def test_pages_are_well_formed(self):
        for page in [*sorted(FOLDER.glob("*.1")), *MADE]:
            with self.subTest(page=page.name):
                lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page],
                                      stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, check=False, text=True)
                self.assertEqual(lint.stdout, "")

    def test_made_pages_have_what_they_are_made_of(self):
        texts = {page.name: page.read_text() for page in MADE}
        for name, wanted in (("mmheap.3", ("mmheap_register", "mmheap_report_free_range")),
                             ("mmtrace-config.5", ("Va paths ", "TRACECONFIG.BUFFERCONFIG",
                                                   "Va no_children ", "DETAIL_RANGES")),
                             ("mmsql-tables.5", ('Ss "process_memory"', "upid INTEGER: ")),
                             ("libtiallocsample.3", ("agentpath:LIBRARY=", "bytes=N")),
                             ("mmsql_functions.3", ("EXTRACT_ARG", "load LIBDIR"))):
            for text in wanted if name in texts else ():
                self.assertIn(text, texts[name], name)
        self.assertTrue(texts)

    @unittest.skipUnless(shutil.which("mandoc"),
                         "needs mandoc, which scripts/install-deps installs")
    def test_each_form_stands_on_a_line_of_its_own(self):
        for program in map(pathlib.Path, PROGRAMS):
            with self.subTest(program=program.name):
                page = FOLDER / f"{program.name}.1"
                shown = subprocess.run(["mandoc", "-T", "ascii", "-O", "width=80", page],
                                       stdout=subprocess.PIPE,
                                       check=True).stdout.decode()
                shown = re.sub(".\x08", "", shown)  # bold and underlined
                forms = shown.split("SYNOPSIS\n")[1].split("\n\n")[0].splitlines()
                self.assertGreater(len(forms), 3)
                named = set()
                for form in forms:
                    words = re.match(rf"     {program.name} (\S+(?: \| [a-z]+\b)?)", form)
                    self.assertTrue(words, form)
                    self.assertEqual(form.count(f"{program.name} "), 1, form)
                    named |= set(words.group(1).split(" | "))
                self.assertEqual(named - {"[-h | -", "[-h"}, set(verbs_of_page(page.read_text())))


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv[1])
    MADE = [pathlib.Path(name) for name in sys.argv[2:] if re.search(r"\.\d$", name)]
    PROGRAMS = [name for name in sys.argv[2:] if not re.search(r"\.\d$", name)]
    unittest.main(argv=sys.argv[:1], verbosity=2)
