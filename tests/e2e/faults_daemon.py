# SPDX-License-Identifier: Apache-2.0
"""One life of a daemon, for tests of faults: it arms a config, hears a trigger, writes a trace, and
is ended.

usage: faults_daemon.py FOLDER

FOLDER has `armed/`. The daemon runs as FOLDER/mmtrace-daemon, so that a fault meets neither the
command that fires the trigger nor other helpers. The exit code is the daemon's, or 99 where the
daemon does nothing for too long.
"""
import pathlib
import signal
import subprocess
import sys
import time

import lib

TIMEOUT_S = 20


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    run = folder / "run"
    argv = [folder / "mmtrace-daemon", "daemon", "--armed", folder / "armed", "--state-dir",
            folder / "state",
            "--run-dir", run, "--kmem-events", "none", "--psi", "none", "--no-perfetto-sockets"]
    daemon = subprocess.Popen([str(arg) for arg in argv])
    end, ended = time.monotonic() + TIMEOUT_S, False
    try:
        while daemon.poll() is None and time.monotonic() < end:
            if not ended:
                lib.run(lib.MMTRACE, "trigger", "--optional", "--socket", run, "now")
            if list((folder / "state").glob("traces/*.pftrace")) and not ended:
                daemon.send_signal(signal.SIGTERM)
                ended = True
            time.sleep(0.02)
    finally:
        code = daemon.poll()
        if code is None:
            print("mmtrace-daemon: no trace, or no end", file=sys.stderr)
            daemon.kill()
            daemon.wait()
    sys.exit(99 if code is None else code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
