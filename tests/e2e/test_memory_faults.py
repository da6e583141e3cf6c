# SPDX-License-Identifier: Apache-2.0
"""One request for memory of a verb is refused, whichever it is. The verb does its work, or ends
with an error and no half-written file.

A short run tries the first requests and some others. ./check --long tries each stack that asks for
memory.
"""
import unittest

import faults
import faults_verbs
import lib

N_QUICK = 6
N_DAEMONS = 8
N_CLIENTS = 4


def needs_library(test):
    if lib.is_sanitized():
        return unittest.skip("AddressSanitizer has its own malloc")(test)
    if not faults.LIBRARY.exists():
        return unittest.skip(f"{faults.LIBRARY} is not built")(test)
    return test


class Refusals(unittest.TestCase):
    def try_all(self, stage, numbers):
        counts, wrong = {"done": 0, "error": 0, "not reached": 0, "excused": 0}, []
        for number in numbers:
            try:
                counts[stage.refused(number)] += 1
            except faults.Wrong as error:
                wrong.append(str(error))
        self.assertEqual(wrong, [], "\n".join(wrong[:5]))
        self.assertGreater(counts["done"] + counts["error"], 0)
        return counts


@needs_library
class OneIsRefused(Refusals):
    def test_some_of_each_verb(self):
        for verb in faults_verbs.VERBS:
            with self.subTest(verb=verb.name), faults.Stage(verb) as stage:
                self.try_all(stage,
                             faults.sample(range(1, stage.n_requests() + 1), N_QUICK, verb.name))

    @lib.needs_root
    def test_some_of_daemons_and_their_clients(self):
        for verb in faults_verbs.OTHER_VERBS:
            n = N_DAEMONS if verb is faults_verbs.DAEMON else N_CLIENTS
            with self.subTest(verb=verb.name), faults.Stage(verb) as stage:
                self.try_all(stage, faults.sample(range(1, stage.n_requests() + 1), n, verb.name))

    @unittest.skipUnless(faults_verbs.HAS_HEAP, "needs a build with the library for heap profiles")
    def test_the_first_of_a_profile(self):
        """At first, the verb tries whether a file can be made beside the output."""
        with faults.Stage(faults_verbs.HEAP_VERBS[0]) as stage:
            self.try_all(stage, range(1, 61))

    @lib.needs_root
    @unittest.skipUnless(faults_verbs.HAS_JAVA,
                         "needs a JDK (javac), and a build with the Java agent")
    def test_some_of_java(self):
        [verb] = faults_verbs.JAVA_VERBS
        with faults.Stage(verb) as stage:
            self.try_all(stage,
                         faults.sample(range(1, stage.n_requests() + 1), N_CLIENTS, verb.name))

    @lib.long_test
    def test_each_stack_of_each_verb(self):
        """The test prints its counts. docs/reliability.md has them."""
        java = faults_verbs.JAVA_VERBS if faults_verbs.HAS_JAVA else ()
        for verb in (*faults_verbs.VERBS, *faults_verbs.OTHER_VERBS, *java):
            with self.subTest(verb=verb.name), faults.Stage(verb) as stage:
                every, without_sqlite = stage.stacks()
                chosen = every if verb.every_stack else without_sqlite
                print(f"{verb}: {stage.n_requests()} requests, {len(every)} stacks, {len(chosen)} "
                      "tried:",
                      self.try_all(stage, chosen), flush=True)


@needs_library
class AllAreRefused(Refusals):
    """All requests from a number on are refused, as at a limit. The code that reports the error
    gets no memory either."""

    def test_some_of_each_verb(self):
        for verb in faults_verbs.VERBS:
            with self.subTest(verb=verb.name), faults.Stage(verb) as stage:
                numbers = faults.sample(range(1, stage.n_requests() + 1), N_QUICK // 2, verb.name)
                self.try_all(stage, [f"{number}+" for number in numbers])


if __name__ == "__main__":
    unittest.main()
