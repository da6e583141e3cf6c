# SPDX-License-Identifier: Apache-2.0
"""The release build that benches measure."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make(directory, *targets):
    """Brings the targets (default: all) of a build up to date; sets the build up if it is new."""
    if not (directory / "build.ninja").exists():
        subprocess.run(["meson", "setup", directory, ROOT, "--buildtype=release",
                        "-Dtests=enabled"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", directory, *targets], check=True, stdout=subprocess.DEVNULL)
