# SPDX-License-Identifier: Apache-2.0
"""Each promise of docs/threat-model.md names a test, and the tests that the pages name exist."""
import ast
import pathlib
import re
import unittest

from lib import ROOT

E2E, UNIT, FUZZ, GOLDEN = (ROOT / "tests" / name for name in ("e2e", "unit", "fuzz", "golden"))
NAME = re.compile(r"`(test_\w+(?:\.\w+)*|[A-Z]\w*(?:\.\w+)*|tests/e2e/\w+\.py)`")


def members(path):
    """The classes of a test file, each with the names of its tests and of its bases' tests."""
    own, bases = {}, {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            own[node.name] = {item.name for item in node.body
                              if isinstance(item, ast.FunctionDef)}
            bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return {name: tests.union(*(own.get(base, set()) for base in bases[name]))
            for name, tests in own.items()}


class Named:
    """Follows the names of a sentence: a name may leave out the file and the class if the name
    before has them."""

    def __init__(self):
        self.module, self.classes, self.last = None, {}, None

    def find(self, name):
        """The reason why the name is not a test; None for a test."""
        name = name.removeprefix("tests/e2e/")
        if name.endswith(".py"):
            name = name.removesuffix(".py")
        parts = name.split(".")
        if not parts[1:] and (GOLDEN / f"{parts[0]}.py").exists():
            return None
        if (E2E / f"{parts[0]}.py").exists():
            self.module = parts.pop(0)
            self.classes = members(E2E / f"{self.module}.py")
            self.last = None
        if parts and self.module and parts[0] in self.classes:
            self.last = parts.pop(0)
        if not parts:
            return None
        if len(parts) == 1 and self.last and parts[0] in self.classes[self.last]:
            return None
        return f"{name}: neither a file, nor a class or test of {self.module}.{self.last}"


def promises(page):
    """The items of the list below "Which promises hold?"."""
    text = page.split("## Which promises hold?")[1].split("\n## ")[0]
    return [" ".join(item.split()) for item in text.split("\n- ")[1:]]


class Promises(unittest.TestCase):
    page = (ROOT / "docs" / "threat-model.md").read_text()

    def test_each_promise_names_a_test_that_exists(self):
        items = promises(self.page)
        self.assertGreater(len(items), 40)
        for item in items:
            with self.subTest(item[:60]):
                tests = item.partition("test: ")[2]
                names = NAME.findall(re.sub(r"(unit|fuzz) `[^)]*", "", tests))
                others = re.findall(r"(unit|fuzz) ((?:`\w+`(?:, | and )?)+)", tests)
                self.assertTrue(names or others or "tests/fuzz/" in tests, tests)
                named = Named()
                for name in names:
                    self.assertIsNone(named.find(name))
                for kind, targets in others:
                    folder = {"unit": UNIT, "fuzz": FUZZ}[kind]
                    for target in re.findall(r"`(\w+)`", targets):
                        self.assertTrue((folder / f"{target}.c").exists(), f"{kind} {target}")

    def test_the_pages_name_no_other_test(self):
        """Files and full names of tests exist, anywhere in the pages."""
        pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
        names = {(page.name, name) for page in pages
                 for name in re.findall(r"\b(test_[a-z]\w+\.(?:py\b|[A-Z]\w*(?:\.test_\w+)?))",
                                        page.read_text())}
        self.assertGreater(len(names), 40)
        for page, name in sorted(names):
            with self.subTest(f"{page}: {name}"):
                self.assertIsNone(Named().find(name))

    def test_names_of_tests_that_do_not_exist_are_found(self):
        for name in ("test_ipc.Sockets.test_nothing", "test_nothing", "test_ipc.Nothing",
                     "tests/e2e/test_nothing.py"):
            self.assertIsNotNone(Named().find(name), name)
        self.assertIsNone(Named().find("test_ipc.Sockets.test_strangers_may_not_record"))


if __name__ == "__main__":
    unittest.main()
