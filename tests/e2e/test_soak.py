# SPDX-License-Identifier: Apache-2.0
"""The soak test of soak.py: half a minute of it here, an hour in ./check --long."""
import os
import tempfile
import unittest

import lib
import soak

ALONE = "its pressure is that of the whole machine, and its figures are those of a daemon that nobody else disturbs"
QUICK_S = 25
LONG_S = 3600


@lib.needs_root
@lib.needs_tracefs
class Soak(unittest.TestCase):
    def test_nothing_grows_and_no_trigger_is_lost(self):
        seconds = LONG_S if os.environ.get("MMTRACE_LONG") == "1" else QUICK_S
        if lib.is_sanitized():
            self.skipTest("a sanitizer takes memory itself")
        with tempfile.TemporaryDirectory(prefix="mmtrace-soak-", dir="/var/tmp") as folder:
            print(soak.run(seconds, folder))


if __name__ == "__main__":
    unittest.main()
