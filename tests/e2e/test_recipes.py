# SPDX-License-Identifier: Apache-2.0
"""Each recipe of docs/recipes.md, unchanged, on a small program of its kind."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import lib
import states

PAGE = (lib.ROOT / "docs" / "recipes.md").read_text()
AGENT = "/usr/lib/mmtrace/libtiallocsample.so"
OWN_AGENT = lib.BUILD / "producer" / "agents" / "jvm" / "libtiallocsample.so"
MIX = "for (%s i = 0; i < 60000000; i++) x = x * 31 + (i ^ x %s 7);"
PROGRAMS = {
    "work.cc": "#include <cstdio>\n#include <vector>\nstd::vector<char *> kept;\n"
               "__attribute__((noinline)) unsigned mix() { unsigned x = 0; "
               + (MIX % ("unsigned", ">>")).replace("60000000", "600000000") + " return x; }\n"
               "__attribute__((noinline)) void keep() { kept.push_back(new char[5000]); }\n"
               "int main() { for (int i = 0; i < 200; i++) keep(); "
               "std::printf(\"%u\\n\", mix()); }\n",
    "work.rs": "#[inline(never)]\nfn mix() -> u32 { let mut x = 0u32; for i in 0..600000000u32 "
               "{ x = x.wrapping_mul(31).wrapping_add(i ^ (x >> 7)); } x }\n"
               "#[inline(never)]\nfn keep() -> Box<[u8]> { vec![1u8; 5000].into_boxed_slice() }\n"
               "fn main() { let kept: Vec<_> = (0..200).map(|_| keep()).collect(); "
               "println!(\"{} {}\", kept.len(), mix()); "
               "std::mem::forget(kept); }\n",
    "work.go": "package main\nimport \"fmt\"\n//go:noinline\nfunc mix() (x uint32) { "
               "for i := uint32(0); i < 900000000; i++ { x = x*31 + (i ^ x>>7) }; return x }\n"
               "func main() { fmt.Println(mix()) }\n",
    "Work.java": "public class Work { static Object[] kept = new Object[2000];\n"
                 "static int mix() { int x = 0; " + MIX % ("int", ">>>") + " return x; }\n"
                 "static Object keep() { return new byte[5000]; }\n"
                 "public static void main(String[] a) { for (int i = 0; i < 2000; i++) "
                 "kept[i] = keep(); int x = 0; for (int i = 0; i < 8; i++) x += mix(); "
                 "System.out.println(x); } }\n",
    "work.js": "function mix() { let x = 0; for (let i = 0; i < 60000000; i++) "
               "x = (x * 31 + (i ^ (x >> 7))) | 0; return x; }\n"
               "const kept = []; for (let i = 0; i < 200; i++) kept.push(Buffer.alloc(90000));\n"
               "let x = 0; for (let i = 0; i < 6; i++) x += mix(); console.log(x);\n",
    "work.py": "import os\nkept = [bytes(5000) for _ in range(200)]\nos._exit(0)\n",
    "server.py": "import os\nfor _ in range(3):\n    if os.fork() == 0:\n"
                 "        kept = [bytes(5000) for _ in range(400)]\n        os._exit(0)\n"
                 "for _ in range(3):\n    os.wait()\n",
}


def commands(title):
    """The commands of a recipe, each with its continuation lines."""
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    lines = re.findall(r"^    (.*)$", section, re.M)
    found = []
    for line in lines:
        if line.startswith(" ") or (found and found[-1].endswith("\\")):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


@lib.needs_root
class Recipes(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        for name, text in PROGRAMS.items():
            (self.dir / name).write_text(text)

    def follow(self, title, **environment):
        folders = (lib.MMTRACE.parent, lib.MMSQL.parent, pathlib.Path(sys.executable).parent)
        env = {**os.environ, **environment,
               "PATH": ":".join([*map(str, folders), os.environ["PATH"]])}
        for command in commands(title):
            done = subprocess.run(["sh", "-c", command.replace(AGENT, str(OWN_AGENT))], env=env,
                                  cwd=self.dir, capture_output=True, text=True, check=False,
                                  timeout=300)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        return done.stdout

    def check_picture(self, name, function):
        """The picture has a box of the function."""
        names = re.findall(r'data-n="([^"]*)"', (self.dir / name).read_text())
        self.assertTrue([n for n in names if re.search(function, n)], f"{function}: {names}")

    @lib.needs_program("g++")
    def test_c_and_cplusplus(self):
        self.follow("C and C++")
        self.check_picture("work.svg", "^mix")
        self.check_picture("heap.svg", "^keep")

    @lib.needs_program("rustc")
    def test_rust(self):
        self.follow("Rust")
        self.check_picture("work.svg", "mix")
        self.check_picture("heap.svg", "main")

    @lib.needs_program("go")
    def test_go(self):
        self.follow("Go", GOCACHE=str(self.dir / "cache"))
        self.check_picture("work.svg", r"^main\.mix")

    @lib.needs_program("java", "javac")
    @unittest.skipUnless(OWN_AGENT.exists(), "the agent for JVMs is not in this build")
    def test_java(self):
        self.assertEqual(lib.run("javac", "-d", self.dir, self.dir / "Work.java").returncode, 0)
        self.follow("Java")
        self.check_picture("java.svg", r"Work\.mix|Work;::mix")
        self.check_picture("heap.svg", r"Work\.keep")

    @lib.needs_program("node")
    def test_node(self):
        self.follow("Node")
        self.check_picture("node.svg", r"\*mix")  # Node 18: LazyCompile:*mix
        self.check_picture("heap.svg", "node::")

    def test_python(self):
        self.follow("Python")
        self.check_picture("heap.svg", "Py")

    def test_a_server_with_workers(self):
        rows = [line.split() for line in self.follow("A server with workers").splitlines()[2:]]
        sizes = sorted(int(row[-1]) for row in rows)[-3:]
        for size in sizes:
            self.assertAlmostEqual(size / 1e6, 2, delta=0.5)

    @lib.needs_namespaces
    def test_a_container(self):
        """The container has its own mounts, pids and network."""
        lib.skip_in_chroot(self)
        code = ("import time\nwhile True:\n    kept = [bytes(5000) for _ in range(100)]\n"
                "    sum(range(200000))\n    time.sleep(0.01)")
        outer = subprocess.Popen(["unshare", "--mount", "--pid", "--net", "--fork",
                                  "--kill-child", "python3", "-c", code])
        self.addCleanup(outer.wait)
        self.addCleanup(outer.kill)
        children = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        pid = lib.wait_for(lambda: children.read_text().split(), "the program")[0]
        states.wait_for_cpu(int(pid), 0.2)
        self.follow("A container", PID=pid)
        self.check_picture("heap.svg", "Py|python")
        self.check_picture("cpu.svg", "Py|python")


if __name__ == "__main__":
    unittest.main()
