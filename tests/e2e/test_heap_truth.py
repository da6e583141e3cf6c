# SPDX-License-Identifier: Apache-2.0
"""Heap profiles against known amounts, for every function that allocates or frees: exact if every
allocation is sampled, otherwise within bounds so narrow that an error of 3 % fails."""
import math
import pathlib
import shutil
import tempfile
import unittest

from lib import ROOT, run
from test_heap import Heap

# The bytes that each function allocates and frees in a round of heap_kinds.
DROPS = {
    "drop_malloc": 33,
    "drop_calloc": 7 * 20,
    "drop_reallocarray": 9 * 30,
    "drop_aligned": 192 + 96 + 200,
    "drop_pages": 500 + 700,
    "drop_strdup": 41,
    "drop_new": 4 + 81 + 60,
    "drop_new_aligned": 384,
    "drop_grown": 40 + 120 + 50,
}
# The functions of every sixteenth round: bytes that are allocated, bytes that are freed.
KEEPS = {"keep_shrunk": (300 + 100, 300), "keep_new": (70, 0), "hand_over": (150, 150)}
PER_ROUND = {**{name: (size, size) for name, size in DROPS.items()},
             **{name: (taken / 16, freed / 16) for name, (taken, freed) in KEEPS.items()}}

# Sums by the function of heap_kinds that is nearest to the allocation.
BY_FUNCTION = f"""
with recursive up(site, id, name) as (
  select c.id, c.parent_id, f.name from stack_profile_callsite c join stack_profile_frame f
  on f.id = c.frame_id
  union all
  select site, c.parent_id, f.name from up
  join stack_profile_callsite c on c.id = up.id join stack_profile_frame f on f.id = c.frame_id
  where up.name not in {tuple(PER_ROUND)})
select name, sum(max(size, 0)), -sum(min(size, 0))
from up join heap_profile_allocation a on a.callsite_id = site
where name in {tuple(PER_ROUND)} group by name
"""


class Kinds(Heap):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.program = cls.folder / "heap_kinds"
        done = run("c++", "-std=c++17", "-O1", "-fno-optimize-sibling-calls", "-pthread",
                   "-rdynamic", "-Wall", "-Wextra",
                   "-Werror", ROOT / "tests" / "tools" / "heap_kinds.cc", "-o", cls.program)
        assert done.returncode == 0, done.stderr

    def measure(self, interval, threads, rounds):
        """Function -> the bytes that it allocated and freed, and the bytes in the profile."""
        done = self.profile(self.program, threads, rounds, options=("-i", interval))
        self.assertIn("operator new(unsigned long)", done.stderr)
        self.assertEqual(self.stat("heapprofd_buffer_overran"), 0)
        rows = {name: found for name, *found in self.query(BY_FUNCTION)}
        self.assertEqual(set(rows), set(PER_ROUND))
        return {name: ([size * threads * rounds for size in PER_ROUND[name]], rows[name])
                for name in rows}

    def test_every_allocation(self):
        for name, (real, got) in self.measure(1, 2, 1600).items():
            with self.subTest(name):
                self.assertEqual(got, real)

    def test_intervals(self):
        """The number of points in the bytes is binomial. The bounds are five standard deviations,
        for each function and for the sum of all functions. The bound of this sum is less than 2 %
        of the sum."""
        for interval, threads, rounds in ((7, 1, 16000), (512, 4, 20000), (4096, 4, 60000),
                                          (65536, 1, 2000000)):
            rows = self.measure(interval, threads, rounds)
            rows["all"] = [[sum(row[which][i] for row in rows.values()) for i in (0, 1)]
                           for which in (0, 1)]
            kept = [[real[0] - real[1], got[0] - got[1]] for real, got in rows.values()]
            checks = [(f"{name} {what}", real[i], got[i]) for name, (real, got) in rows.items()
                      for i, what in enumerate(("allocated", "freed"))]
            checks += [(f"{name} kept", *pair) for name, pair in zip(rows, kept)]
            for name, real, got in checks:
                with self.subTest(name, interval=interval):
                    bound = 5 * math.sqrt(real * interval)
                    self.assertLessEqual(abs(got - real), bound,
                                         f"{got} instead of {real}: off by "
                                         f"{got / (real or 1) - 1:.1%}")
            real = rows["all"][0][0]
            self.assertLess(5 * math.sqrt(real * interval) / real, 0.02)


if __name__ == "__main__":
    unittest.main()
