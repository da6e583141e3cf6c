# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: where the programs are, how to run them, and what a test needs.

MMTRACE_BUILD names the build directory to test (default: build/ in the source tree).
"""
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MMTRACE_BUILD", ROOT / "build")).resolve()
MMTRACE = BUILD / "producer" / "mmtrace"
MMSQL = BUILD / "converter" / "mmsql"
TRACEFS = pathlib.Path("/sys/kernel/tracing")


def run(*argv, timeout_s=60, **options):
    """Run a program to its end; stdout and stderr are text. Never raises for an exit code."""
    options.setdefault("text", True)
    return subprocess.run(
        [str(arg) for arg in argv], capture_output=True, timeout=timeout_s, **options
    )


def needs_root(test):
    """Skip without root, except in CI, where such a test must not pass unseen."""
    if os.geteuid() == 0 or os.environ.get("CI") == "true":
        return test
    return unittest.skip("needs root")(test)


def needs_tracefs(test):
    """Skip where this kernel shows no tracefs, even to root."""
    if os.access(TRACEFS / "instances", os.W_OK) or os.environ.get("CI") == "true":
        return test
    return unittest.skip(f"needs root and a tracefs at {TRACEFS}")(test)
