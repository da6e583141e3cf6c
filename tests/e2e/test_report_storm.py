# SPDX-License-Identifier: Apache-2.0
"""mmsql report of a recording of this machine, the cookbook, and the pictures of the documents."""
import re
import sys
import unittest

import browser
import lib
import recorded_storm
from test_report import Report

sys.path.insert(0, str(lib.ROOT / "scripts"))
import cookbook  # noqa: E402


@lib.needs_root
class Storm(Report):
    """A recording of this machine that has all sections: files, a heap, reclaim, a kill."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trace = recorded_storm.record(cls.dir / "storm.pftrace")

    @classmethod
    def traces(cls):
        """All traces of the cookbook."""
        if not (cls.dir / "boot-3.pftrace").exists():
            recorded_storm.record_more(cls.trace)
        return sorted(cls.dir.glob("*.pftrace"))

    def test_text(self):
        done = lib.run(lib.MMSQL, "report", "--text", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        titles = re.findall(r"\n\n(.*)\n", done.stdout)
        self.assertLessEqual({"Key figures", "Reclaim and compaction", "Killed for lack of memory",
                              "Largest processes", "Page cache of files",
                              "Memory that functions kept", "Machine"}, set(titles))
        self.assertRegex(done.stdout, r"\n[0-9.]+ s +exporter ")
        self.assertRegex(done.stdout, r"\nviewer \(\d+\) +memcg reclaim ")
        for figure in ("scanned", "reclaimed"):  # all in a memory cgroup
            self.assertRegex(done.stdout, rf"\n{figure} +[1-9][0-9]*\.[0-9] MiB\n")

    @unittest.skipUnless(browser.program(), "needs Chromium (scripts/install-deps test)")
    def test_page(self):
        output = self.dir / "storm.html"
        self.make(output, self.trace)
        self.assertLess(output.stat().st_size, 5 << 20)
        with browser.Browser() as page:
            page.open(output)
            self.assertEqual(page.errors, [])
            self.assertEqual(page.requests, [output.resolve().as_uri()])
            self.assertIn("exporter", page.run("document.querySelector('#chart-kills')"
                                               ".textContent"))
            self.assertEqual(set(page.run("[...document.querySelectorAll('#chart-residency .labels "
                                          "span')].map(label => label.textContent)")),
                             set(recorded_storm.FILES))
            self.assertEqual(page.run("document.querySelectorAll('.map').length"), 4)
            shares = page.run("[...document.querySelectorAll('#chart-residency .labels li, .map')]"
                              ".map(each => [each.querySelector('span').textContent === 'resident'"
                              " ? each.querySelector('h3').textContent"
                              " : each.querySelector('span').textContent,"
                              " each.querySelector('b').textContent.match(/[0-9]+ %/)[0]])")
            self.assertEqual(len(shares), 8)
            self.assertEqual(len(set(map(tuple, shares))), 4, "a map tells what its lane tells")
            self.assertGreaterEqual(page.run("document.querySelectorAll('.flame').length"), 1)
            lanes = page.run("[...document.querySelectorAll('#chart-lanes .labels span')]"
                             ".map(label => label.textContent.split(' ')[0])")
            self.assertIn("viewer", lanes)

    def test_cookbook(self):
        """Each command of the cookbook works on the recordings, and answers with a table as the
        page shows it."""
        page = cookbook.PAGE.read_text()
        self.assertEqual([int(n) for n in re.findall(r"^## (\d+)\. ", page, re.MULTILINE)],
                         list(range(1, 18)))
        folder = self.dir / "cookbook"
        folder.mkdir()
        runner = cookbook.Runner(lib.BUILD, self.traces(), folder)
        answers = {}
        for command, shown in cookbook.commands_of(page):
            with self.subTest(command):
                done = runner.run(command)
                self.assertEqual(done.returncode, 0, done.stderr)
                wanted = [line.split() for line in shown.splitlines()]
                answers[command] = done.stdout.splitlines()
                found = [line.split() for line in answers[command]]
                self.assertEqual(bool(found), bool(wanted))
                if len(wanted) > 1 and set("".join(wanted[1])) == {"-"}:
                    self.assertEqual(found[0], wanted[0])
                    self.assertEqual(len(found) > 2, len(wanted) > 2)
        # The kernel may have killed processes of other tests meanwhile.
        self.assertRegex(runner.run("mmsql verdict storm.pftrace").stdout,
                         r"the kernel killed (exporter|\d+ processes: )")

        def rows_of(database, column):
            lines, = [lines for command, lines in answers.items()
                      if f"query {database}" in command and column in lines[0]]
            head, _, *rows = [re.split(" {2,}", line.strip()) for line in lines]
            return {row[0]: dict(zip(head, row)) for row in rows}
        held = rows_of("both.db", "least")
        self.assertEqual((held["pinned.pftrace"]["least"], held["pinned.pftrace"]["evicted_mib"]),
                         ("100.0", "0"))
        self.assertLess(float(held["storm.pftrace"]["least"]), 100)
        self.assertGreater(int(held["storm.pftrace"]["evicted_mib"]), 0)
        reclaims = {boot: int(row["reclaims"])
                    for boot, row in rows_of("boots.db", "desktop_after").items()}
        self.assertEqual(set(reclaims), {f"boot-{n}.pftrace" for n in (1, 2, 3)})
        self.assertEqual(max(reclaims, key=reclaims.get), "boot-2.pftrace")
        self.assertEqual(set(rows_of("boots.db", "took")), {"settings", "database", "gallery"})

    @unittest.skipUnless(browser.program(), "needs Chromium (scripts/install-deps test)")
    @lib.needs_tracefs
    @lib.needs_program("tmux")
    @lib.needs_program("aha")
    def test_pictures(self):
        self.traces()
        done = lib.run(sys.executable, "-B", lib.ROOT / "scripts" / "pictures.py", "--build",
                       lib.BUILD, "--traces", self.dir, "--output", self.dir / "pictures",
                       timeout_s=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = {path.name: path.read_bytes() for path in (self.dir / "pictures").iterdir()}
        kept = lib.ROOT / "docs" / "pictures"
        self.assertEqual(set(made), {path.name for path in kept.iterdir()})
        for name, data in made.items():
            if name.endswith(".png"):
                self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            self.assertLess((kept / name).stat().st_size, 200 << 10, name)


if __name__ == "__main__":
    unittest.main()
