# SPDX-License-Identifier: Apache-2.0
"""Heap profiles when things go wrong: recorders that stand still or are killed, processes in odd states. The programs
go on as if nothing was, and what is lost is known."""
import signal
import time
import unittest

from lib import MMTRACE
from test_heap_service import Service

# Does what its lines of input say, and says when it is done.
WORK = """
import sys, time
keep = []
for line in sys.stdin:
    what, n = line.split()
    for i in range(int(n)):
        if what == "keep":
            keep.append(bytes(3000))
            if i % 10 == 0:
                time.sleep(0.01)
        elif what == "burst":
            keep.append(bytes(3000))
        elif keep:
            keep.pop()
    print("done", flush=True)
"""


class FullRing(Service):
    def work(self, process, what, n):
        process.stdin.write(f"{what} {n}\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def profile(self, process, *options):
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", process.pid, *options)
        self.until(lambda: "attached" in recorder.stderr.readline())
        return recorder

    def end(self, recorder):
        recorder.send_signal(signal.SIGINT)
        err = recorder.communicate(timeout=30)[1]
        self.assertEqual(recorder.returncode, 0, err)
        return err

    def n_kept(self):
        """Live samples of the function that allocates most."""
        return self.query("select sum(count) from heap_profile_allocation group by callsite_id"
                          " order by sum(abs(count)) desc limit 1")[0][0]

    def stat(self, name):
        return sum(row[0] for row in self.query(f"select value from stats where name = '{name}'"))

    def test_frees_that_are_lost_are_made_good_for(self):
        """The program frees while nobody reads, and does nothing after that."""
        process = self.start_piped("python3", "-c", WORK)
        recorder = self.profile(process, "-i", "1", "--shmem-size", "65536", "--no-block-client")
        self.work(process, "keep", 600)
        time.sleep(0.2)
        recorder.send_signal(signal.SIGSTOP)
        self.work(process, "burst", 3000)
        self.work(process, "drop", 3500)
        recorder.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        self.end(recorder)
        self.assertGreater(self.stat("mmsql_heap_lost_frees"), 100)
        self.assertIn(self.n_kept(), range(50, 101))  # a busy machine loses some of the first samples


if __name__ == "__main__":
    unittest.main()
