# SPDX-License-Identifier: Apache-2.0
"""Run one file of Python unit tests and write the result of each test as JSON.

usage: run_unittests.py TEST_FILE RESULT_JSON

RESULT_JSON has the key tests, a list of [name, "passed" | "failed" | "skipped", text], and the key
processor_s, the processor time of the tests and of the programs that they waited for. The file is
rewritten after every test, so that a run that is killed leaves the results until then.

Tests of root run programs of this checkout as other users. In a folder that only root may enter,
such as /root, other users do not reach the programs: a test that fails for this reason is skipped,
except in CI.
"""
import importlib.util
import json
import os
import pathlib
import resource
import stat
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def closed_folder():
    """The folder above this checkout that other users may not enter, or None."""
    if os.geteuid() != 0 or os.environ.get("CI") == "true":
        return None
    return next((folder for folder in (ROOT, *ROOT.parents)
                 if not folder.stat().st_mode & stat.S_IXOTH), None)


class Recorder(unittest.TestResult):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = []
        self.closed = closed_folder()

    def add(self, test, outcome, text=""):
        self.rows.append([test.id(), outcome, text])
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        seconds = sum(times.ru_utime + times.ru_stime for times in used)
        self.path.write_text(json.dumps({"tests": self.rows, "processor_s": seconds}))

    def addSuccess(self, test):
        self.add(test, "passed")

    def add_failure(self, test, text):
        is_refused = "Permission denied" in text or "cannot load" in text
        if self.closed and is_refused and str(ROOT) in text:
            self.add(test, "skipped", f"other users do not reach the programs: {self.closed} is "
                                      f"closed to them (chmod o+x, or use another folder)")
        else:
            self.add(test, "failed", text)

    def addError(self, test, err):
        self.add_failure(test, self._exc_info_to_string(err, test))

    addFailure = addError

    def addSkip(self, test, reason):
        self.add(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self.add(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.add(test, "failed", "passed, though marked as an expected failure")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.add_failure(subtest, self._exc_info_to_string(err, test))


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
