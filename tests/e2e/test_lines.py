# SPDX-License-Identifier: Apache-2.0
"""--lines: inlined functions and source lines in the tables and traces of heap, cpu and faults."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import lib

# keep() is inlined into grow(). Compilers leave out memory that is not kept. Line numbers count
# from the first line.
SOURCE = """#include <stdlib.h>
static volatile unsigned sum; static void *volatile kept;
static inline __attribute__((always_inline)) char *keep(unsigned long n)
{
    return malloc(n);
}
__attribute__((noinline)) void grow(void)
{
    for (int i = 0; i < 4000; i++)
        if ((kept = keep(1000)))
            sum++;
}
__attribute__((noinline)) void burn(void)
{
    for (unsigned i = 0; i < 400000000; i++)
        sum += i;
}
int main(void)
{
    grow();
    burn();
    return 0;
}
"""
# Functions of clang and rustc stand in their namespace.
NAMESPACE = """#include <cstdlib>
namespace shop {
static volatile unsigned sum; static void *volatile kept;
static inline __attribute__((always_inline)) char *keep(unsigned long n)
{
    return static_cast<char *>(malloc(n));
}
__attribute__((noinline)) static void fill()
{
    for (int i = 0; i < 4000; i++)
        if ((kept = keep(1000)))
            sum++;
}
}
extern "C" void grow(void)
{
    shop::fill();
}
"""
OTHER_MAIN = """
void grow(void);
int main(void)
{
    grow();
    return 0;
}
"""
LAMBDA = """#include <cstdlib>
static volatile unsigned sum; static void *volatile kept;
int main()
{
    if (sum == 0) {
        auto fill = [](int n) __attribute__((noinline)) {
            if ((kept = malloc(1000 + n % 2)))
                sum++;
        };
        for (int i = 0; i < 4000; i++)
            fill(i);
    }
    return 0;
}
"""
VECTORS = """#include <vector>
static std::vector<char> *volatile kept;
__attribute__((noinline)) static void fill()
{
    for (int i = 0; i < 1000; i++)
        kept = new std::vector<char>(4000);
}
int main()
{
    fill();
    return 0;
}
"""
RUST = """#[inline(always)]
fn keep(n: usize) -> Vec<u8> {
    Vec::with_capacity(n)
}
#[inline(never)]
fn grow(kept: &mut Vec<Vec<u8>>) {
    for _ in 0..4000 {
        kept.push(keep(1000));
    }
}
fn main() {
    let mut kept = Vec::new();
    grow(&mut kept);
    std::process::exit(kept.len() as i32 - 4000);
}
"""
SYMBOLS = ("SELECT name, line_number FROM stack_profile_symbol WHERE source_file GLOB '*work.c' "
           "GROUP BY 1, 2")
PLACES = ("SELECT DISTINCT replace(name, 'work::', ''), line_number FROM stack_profile_symbol "
          "WHERE source_file GLOB '*work.*'")


@unittest.skipUnless(lib.has_libdw(), "mmsql is built without libdw")
@lib.needs_program("gcc")
class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="lines-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.program = cls.dir / "work"
        (cls.dir / "work.c").write_text(SOURCE)
        subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer",
                        "-fno-optimize-sibling-calls", cls.dir / "work.c", "-o", cls.program],
                       check=True)
        cls.trace = cls.dir / "t.pftrace"

    def record(self, verb, *options, code=0, output=None, **more):
        done = lib.run(lib.MMTRACE, verb, *options, "-o", output or self.trace, "--", self.program,
                       **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def lines_of(self, trace):
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", trace, SYMBOLS)
        return set(done.stdout.splitlines()[1:])

    def test_heap(self):
        said = self.record("heap", "--lines").stderr
        self.assertRegex(said, r"(?m)^ +(\d{4}\.\d) +\1 +\1  keep \(work\) work\.c:5$")
        self.assertRegex(said, r"(?m)^ +0\.0 +(\d{4}\.\d) +\1  grow \(work\) work\.c:10$")
        self.assertLessEqual({"keep,5", "grow,10", "main,20"}, self.lines_of(self.trace))
        self.assertNotIn("work.c", self.record("heap").stderr)
        self.assertEqual(self.lines_of(self.trace), set())

    def places_of(self, program):
        done = lib.run(lib.MMTRACE, "heap", "--lines", "-o", self.trace, "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        return set(lib.run(lib.MMSQL, "query", "-q", "--csv", self.trace,
                           PLACES).stdout.splitlines()[1:])

    def build(self, compiler, name, source, *options):
        path = self.dir / name
        path.write_text(source)
        subprocess.run([compiler, "-O2", "-g", path, "-o", path.with_suffix(".out"), *options],
                       check=True, capture_output=True)
        return path.with_suffix(".out")

    @lib.needs_program("clang")
    def test_a_program_of_clang(self):
        """clang writes no table of the addresses of its units (.debug_aranges)."""
        program = self.build("clang", "clang_work.c", SOURCE, "-fno-optimize-sibling-calls")
        self.assertLessEqual({"keep,5", "grow,10", "main,20"}, self.places_of(program))

    @lib.needs_program("clang++")
    def test_a_program_of_two_compilers(self):
        """gcc writes the table for its units."""
        work = self.build("clang++", "clang_work.cc", NAMESPACE, "-c")
        program = self.build("gcc", "gcc_work.c", OTHER_MAIN, work)
        self.assertLessEqual({"shop::keep(unsigned long),6", "shop::fill(),11", "main,5"},
                             self.places_of(program))

    @lib.needs_program("g++")
    def test_a_function_in_a_function(self):
        program = self.build("g++", "lambda_work.cc", LAMBDA, "-O0")
        self.assertLessEqual({"operator(),7", "main,11"},
                             self.places_of(program))

    @lib.needs_program("g++")
    def test_a_library_allocates_for_its_caller(self):
        program = self.build("g++", "vectors.cc", VECTORS)
        for options in ((), ("--lines",)):
            done = lib.run(lib.MMTRACE, "heap", *options, "-o", self.trace, "--", program)
            self.assertRegex(done.stderr,
                             r"function\n +\d{4}\.\d +\d{4}\.\d +\d{4}\.\d  fill(\(\))? \(")
            self.assertRegex(done.stderr, r"\n +0\.0 +\d{4}\.\d +\d{4}\.\d  operator new\(")

    @lib.needs_program("rustc")
    def test_a_program_of_rust(self):
        source = self.dir / "work.rs"
        source.write_text(RUST)
        subprocess.run(["rustc", "-O", "-g", "--crate-name", "work", source, "-o",
                        self.dir / "rust_work"], check=True, capture_output=True)
        self.assertLessEqual({"keep,3", "grow,8", "main,13"},
                             self.places_of(self.dir / "rust_work"))

    @lib.needs_root
    def test_cpu(self):
        said = self.record("cpu", "-l").stderr
        self.assertRegex(said, r"burn \(work\) work\.c:1[56]\n")

    def test_a_trace_on_standard_output(self):
        done = self.record("heap", "--lines", output="-", text=False)
        self.trace.write_bytes(done.stdout)
        self.assertLessEqual({"keep,5", "grow,10"}, self.lines_of(self.trace))

    def alone(self, script=None):
        """mmtrace in a folder of its own, beside a shell in mmsql's place, which reads the script
        of the verb's name."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        shutil.copy(lib.MMTRACE, folder)
        if script:
            shutil.copy(pathlib.Path("/bin/sh").resolve(), folder / "mmsql")
            (folder / "symbolize").write_text(f"{script}\n")
        return folder / "mmtrace"

    @lib.needs_root
    def test_a_failure_leaves_the_trace(self):
        for script, because in (("echo mmsql: broken >&2; exit 1", "mmsql: broken"),
                                ("echo half a packet; exit 1", "mmsql failed")):
            mmtrace = self.alone(script)
            done = lib.run(mmtrace, "cpu", "--lines", "-o", self.trace, "--", self.program,
                           cwd=mmtrace.parent)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"mmtrace: no lines: {because}\n", done.stderr)
            self.assertIn("burn (work)\n", done.stderr)
            self.assertNotIn(b"half a packet", self.trace.read_bytes())

    def test_mmsql_is_missing(self):
        """No mmsql is beside mmtrace and in the system's folders."""
        if any(os.access(f"{place}/mmsql", os.X_OK) for place in ("/usr/bin", "/usr/local/bin")):
            self.skipTest("this machine has an mmsql in the system's folders")
        done = lib.run(self.alone(), "heap", "--lines", "-o", self.dir / "none", "--", self.program)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^mmtrace: --lines needs mmsql, .*install mmsql")
        self.assertFalse((self.dir / "none").exists())


if __name__ == "__main__":
    unittest.main()
