# SPDX-License-Identifier: Apache-2.0
"""Run one file of Python unit tests and write the result of each test as JSON.

usage: run_unittests.py TEST_FILE RESULT_JSON

RESULT_JSON is a list of [name, "passed" | "failed" | "skipped", text]. It is rewritten after every
test, so that a run that is killed leaves the results until then.
"""
import importlib.util
import json
import pathlib
import sys
import unittest


class Recorder(unittest.TestResult):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = []

    def add(self, test, outcome, text=""):
        self.rows.append([test.id(), outcome, text])
        self.path.write_text(json.dumps(self.rows))

    def addSuccess(self, test):
        self.add(test, "passed")

    def addError(self, test, err):
        self.add(test, "failed", self._exc_info_to_string(err, test))

    addFailure = addError

    def addSkip(self, test, reason):
        self.add(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self.add(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.add(test, "failed", "passed, though marked as an expected failure")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.add(subtest, "failed", self._exc_info_to_string(err, test))


def main():
    test_file, result = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(test_file.parent))
    spec = importlib.util.spec_from_file_location(test_file.stem, test_file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[test_file.stem] = module
    recorder = Recorder(result)
    spec.loader.exec_module(module)
    unittest.defaultTestLoader.loadTestsFromModule(module).run(recorder)
    sys.exit(any(row[1] == "failed" for row in recorder.rows))


if __name__ == "__main__":
    main()
