# SPDX-License-Identifier: Apache-2.0
"""One command beside another process that it speaks to, for tests of faults.

usage: faults_client.py daemon|java|program FOLDER ARGUMENT...

Runs FOLDER/mmtrace-client ARGUMENT..., so that a fault meets neither the other process nor helpers.
The other process is a daemon with an armed config and a recording session, a Java VM that sleeps,
or a native program that allocates. In the arguments @ is the daemon's folder or the process id. The
exit code is the command's.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import lib

CONFIG = """
unique_session_name: "running"
bugreport_score: 5
buffers { size_kb: 64 }
data_sources { config { name: "linux.system_info" } }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 20 } } }
trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 3600000
    triggers { name: "now" stop_delay_ms: 1 } }
"""
JAVA = """
public class Sleeper {
    static volatile Object sink;
    public static void main(String[] args) throws Exception {
        System.out.println("here");
        for (;;) { for (int i = 0; i < 1000; i++) sink = new byte[1000]; Thread.sleep(5); }
    }
}
"""
PROGRAM = (
    "import time\nprint('here', flush=True)\nwhile True:\n    kept = [bytes(5000) for _ in "
    "range(100)]\n    time.sleep(0.01)")


@contextlib.contextmanager
def daemon(folder):
    run = folder / "run"
    (folder / "armed").mkdir(exist_ok=True)
    (folder / "armed" / "running.cfg").write_text(CONFIG)
    argv = [lib.MMTRACE, "daemon", "--armed", folder / "armed", "--state-dir", folder / "state",
            "--run-dir", run,
            "--kmem-events", "none", "--psi", "none", "--no-perfetto-sockets"]
    with subprocess.Popen([str(arg) for arg in argv], stderr=subprocess.DEVNULL,
                          env=plain()) as process:
        try:
            lib.wait_for(lambda: b"STARTED" in lib.run(lib.MMTRACE, "status", "--socket", run,
                                                       text=False, env=plain()).stdout
                         .upper(), "the session")
            yield run
        finally:
            process.send_signal(signal.SIGTERM)


@contextlib.contextmanager
def process(*argv):
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=plain()) as child:
        try:
            assert child.stdout.readline() == b"here\n"
            yield child.pid
        finally:
            child.kill()


def plain():
    return {name: value for name, value in os.environ.items()
            if name not in ("LD_PRELOAD", "MMTRACE_FAULTS")}


def main():
    kind, folder, *arguments = sys.argv[1:]
    folder = pathlib.Path(folder).resolve()
    if kind == "daemon":
        other = daemon(folder)
    elif kind == "java":
        other = process("java", "-cp", str(folder), "Sleeper")
    else:
        other = process(sys.executable, "-c", PROGRAM)
    with other as place:
        code = subprocess.run([folder / "mmtrace-client",
                               *(argument.replace("@", str(place)) for argument in arguments)],
                              check=False).returncode
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
