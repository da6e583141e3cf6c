# SPDX-License-Identifier: Apache-2.0
"""The heap profiler on runtimes, on programs with other allocators, in containers, and on programs
that do odd things: the programs go on unharmed."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import lib
import states
from lib import MMTRACE, needs_namespaces, run, wait_for
from test_heap import BY_FUNCTION, HELPER, TRUTH, Heap, attach


class Runtimes(Heap):
    def check(self, *argv, options=("-i", "4096"), **more):
        if not shutil.which(argv[0]):
            self.skipTest(f"{argv[0]} is not installed")
        self.check_unchanged(*argv, options=options, **more)

    def test_node(self):
        self.check("node", "-e",
                   "let a = []; for (let i = 0; i < 200; i++) a.push(Buffer.alloc(9000, i)); "
                   "console.log(a.length)")

    def test_java(self):
        source = self.dir / "Main.java"
        source.write_text(
            "public class Main { public static void main(String[] a) throws Exception { var b = "
            "new java.util.ArrayList<Object>();"
            " for (int i = 0; i < 100; i++) b.add(java.nio.ByteBuffer.allocateDirect(10000));"
            " System.out.println(b.size()); } }\n"
        )
        self.check("java", "-Xmx64m", source)

    def test_git(self):
        folder = self.dir / "repository"
        folder.mkdir()
        (folder / "file").write_text("text\n" * 1000)
        env = {**os.environ, "GIT_AUTHOR_DATE": "@0 +0000", "GIT_COMMITTER_DATE": "@0 +0000",
               "HOME": str(folder)}
        script = (
            "rm -rf .git; git init -q . && git add file && git -c user.name=a -c user.email=b "
            "commit -qm c && git log --stat"
        )
        self.check("git", "--version", options=("-i", "64"), env=env)
        self.check("sh", "-c", script, cwd=folder, env=env)


class OtherAllocators(Heap):
    """Allocators that are linked with the program: its malloc is theirs."""

    def check(self, library):
        found = run("cc", "-O1", "-fno-optimize-sibling-calls", "-rdynamic", "-pthread", "-o",
                    self.dir / "program",
                    pathlib.Path(__file__).parents[1] / "tools" / "heap_truth.c",
                    f"-Wl,--no-as-needed,-l{library}")
        if found.returncode != 0:
            self.skipTest(f"lib{library} cannot be linked with here")
        self.profile(self.dir / "program", "2", "50000")
        self.check_truth(4096, threads=2)
        (arenas,), = self.query("select count(*) from malloc_arena")
        self.assertEqual(arenas, 0)  # the program does not use the C library's malloc

    def test_jemalloc(self):
        self.check("jemalloc")

    def test_tcmalloc(self):
        self.check("tcmalloc")


class Odd(Heap):
    def test_ten_thousand_libraries_that_come_and_go(self):
        code = (
            "import ctypes, _ctypes\n"
            "for i in range(10000):\n"
            "    _ctypes.dlclose(_ctypes.dlopen('liblzma.so.5', 2))\n"
            "print('ok', open('/proc/self/maps').read().count('mmheap') < 20)\n"
        )
        result = self.profile("python3", "-c", code)
        self.assertEqual(result.stdout, "ok True\n")

    def test_many_processes_that_fork(self):
        """Three hundred processes run, in three generations."""
        code = (
            "import os\n"
            "for generation, children in enumerate((10, 5, 5)):\n"
            "    pids = []\n"
            "    for i in range(children):\n"
            "        pid = os.fork()\n"
            "        if pid == 0: break\n"
            "        pids.append(pid)\n"
            "    else:\n"
            "        assert all(os.waitpid(p, 0)[1] == 0 for p in pids); os._exit(0)\n"
            "keep = [bytes(3000) for _ in range(200)]\n"
        )
        # On a slow machine, the program alone takes most of a minute.
        self.profile("sh", "-c", 'python3 -c "$1"; exit $?', "sh", code, timeout_s=300)
        self.assertEqual(self.stat("heapprofd_buffer_corrupted"), 0)

    @needs_namespaces
    def test_a_container(self):
        """The program has other process ids and other mounts. It is profiled from its start, and by
        attaching."""
        lib.skip_in_chroot(self)
        command = ("unshare", "-p", "-f", "-m", "--mount-proc")
        self.profile(*command, TRUTH, "1", "50000")
        self.assertIn("keep_small", [name for name, _, _ in self.query(BY_FUNCTION)])
        if not HELPER.exists():
            return
        process = subprocess.Popen([*command, str(TRUTH), "1", "20000000"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        (child,) = wait_for(lambda: children.read_text().split(), "the child")
        states.wait_for_text(child, "comm", "heap_truth")
        self.addCleanup(lambda: os.path.exists(f"/proc/{child}") and os.kill(int(child), 9))
        for _ in range(2):
            result = attach(self.trace, child)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(re.search(r"keep_small \(heap_truth\)", result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
