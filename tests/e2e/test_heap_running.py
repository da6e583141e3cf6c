# SPDX-License-Identifier: Apache-2.0
"""Real programs that are attached to again and again while they work: their output is the same as
without a profile, and only the library of the profiler stays in them."""
import contextlib
import itertools
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import states
import lib
from lib import MMTRACE, run, wait_for
from test_heap import HELPER, Heap

ATTACHES = 3

# Reads lines, and allocates for each as programs do.
NODE = """
let n = 0, keep = [];
process.stdin.on('data', d => {
  for (const b of d) if (b === 10) {
    n++; keep.push(Buffer.alloc(9000, n), JSON.stringify({n, d: [n, n]}));
  }
  if (keep.length > 1000) keep = [];
});
process.stdin.on('end', () => console.log(n));
"""

JAVA = """
import java.io.*;
import java.nio.ByteBuffer;
import java.util.zip.*;
public class Main {
    public static void main(String[] a) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        int n = 0;
        for (String line; (line = in.readLine()) != null; n++) {
            var deflater = new Deflater();
            deflater.setInput(line.getBytes());
            deflater.finish();
            deflater.deflate(ByteBuffer.allocateDirect(5000));
            deflater.end();
        }
        System.out.println(n);
    }
}
"""

PYTHON = """
import json, sys, threading, zlib
n = 0
for line in sys.stdin:
    ts = [threading.Thread(target=lambda: zlib.compress(json.dumps([line] * 20).encode()))
          for _ in range(2)]
    [t.start() for t in ts]; [t.join() for t in ts]
    n += 1
print(n)
"""

# For any allocator that is linked with the program: pieces keep their contents.
C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    static unsigned char *keep[512];
    static unsigned size[512];
    unsigned n = 0, bad = 0, seed = 1;
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n')
            continue;
        for (int k = 0; k < 200; k++) {
            seed = seed * 1103515245 + 12345;
            unsigned i = seed >> 16 & 511, wanted = (seed >> 8 & 4095) + 1;
            for (unsigned j = 0; j < size[i]; j += 64)
                bad += keep[i][j] != (unsigned char)i;
            keep[i] = seed & 32 ? realloc(keep[i], wanted) : (free(keep[i]), malloc(wanted));
            size[i] = wanted;
            memset(keep[i], (int)i, wanted);
        }
        n++;
    }
    printf("%u %u\n", n, bad);
    return 0;
}
"""

SQL = (
    "drop table if exists t; create table t(a, b); with recursive c(x) as (select 1 union all "
    "select x + 1 from c where"
    " x < 3000) insert into t select x, x * 7919 % 100003 from c; create index i on t(b); "
    "select count(*), sum(b) from t;\n"
)


@unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
class Running(Heap):
    def open_things(self, pid):
        """The numbers of files of a profile, threads, libraries and rings. A profile opens sockets,
        memory and the library; a runtime opens files of its own at any time."""
        proc = pathlib.Path(f"/proc/{pid}")
        lines = (proc / "maps").read_text().splitlines()
        files = []
        for path in (proc / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                files.append(os.readlink(path))
        return (sum(file.startswith("socket:") or "mmheap" in file for file in files),
                len(list((proc / "task").iterdir())),
                sum("libmmheap" in line for line in lines),
                sum("memfd:mmheap " in line for line in lines))

    def feed(self, process, piece):
        """Writes `piece` to the process in a thread, until the event that is returned is set."""
        def write():
            for self.n_pieces in itertools.count():
                if over.is_set():
                    break
                process.stdin.write(piece)
                process.stdin.flush()
            process.stdin.close()
        self.n_pieces, over = 0, threading.Event()
        thread = threading.Thread(target=write)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        return over

    def attach_often(self, argv, piece, slack=(0, 0, 1, 0), **more):
        """Attaches ATTACHES times. Returns the output of the program, and the number of pieces that
        it got."""
        if not shutil.which(argv[0]):
            self.skipTest(f"{argv[0]} is not installed")
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        printed = []
        reader = threading.Thread(target=lambda: printed.append(process.stdout.read()))
        reader.start()
        over = self.feed(process, piece)
        time.sleep(0.5)
        seen = []
        for _ in range(ATTACHES):
            result = run(MMTRACE, "heap", "-q", "-o", self.trace, "-d", "150", "-p", process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            # On a busy machine the program removes the hooks itself, at its next allocation.
            wait_for(lambda: self.open_things(process.pid)[3] == 0, "no ring is left")
            seen.append(self.open_things(process.pid))
        result = self.attach(process.pid)  # until the program has run
        self.assertEqual(result.returncode, 0, result.stderr)
        over.set()
        reader.join(60)
        self.assertEqual(process.wait(20), 0)
        self.n_samples = self.query("select count(*) from heap_profile_allocation")[0][0]
        # A runtime may open things of its own until the first attach is over.
        for counts, allowed in zip(zip(*seen[1:]), slack):
            self.assertLessEqual(max(counts) - min(counts), allowed,
                                 f"fds, threads, mappings, rings: {seen}")
        return printed[0], self.n_pieces

    def test_sqlite(self):
        out, n = self.attach_often(["sqlite3", ":memory:"], SQL.encode())
        self.assertEqual(set(out.splitlines()),
                         {b"3000|%d" % sum(x * 7919 % 100003 for x in range(1, 3001))})
        self.assertEqual(len(out.splitlines()), n)
        self.assertGreater(self.n_samples, 0)

    def test_xz_with_threads(self):
        piece = random.Random(1).randbytes(1 << 17) + b"text " * 50000
        """It allocates when it begins, and little after that."""
        out, n = self.attach_often(["xz", "-T4", "-1", "--block-size=256KiB", "-c"], piece)
        self.assertTrue(lzma.decompress(out) == piece * n)

    @lib.needs_program("git")
    def test_git(self):
        folder = self.dir / "repository"
        folder.mkdir()
        (folder / "file").write_text("text\n" * 1000)
        env = {**os.environ, "HOME": str(folder)}
        done = run("sh", "-c",
                   "git init -q . && git add file && git -c user.name=a -c user.email=b commit -qm "
                   "c",
                   cwd=folder, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        out, n = self.attach_often(["git", "cat-file", "--batch"], b"HEAD:file\n" * 100,
                                   slack=(1, 0, 1, 0), cwd=folder,
                                   env=env)  # its own file may be open or not
        (one,) = {*out.split(b"\n\n")} - {b""}
        self.assertTrue(one.endswith(b"blob 5000\n" + b"text\n" * 999 + b"text"))
        self.assertEqual(len(out.split(b"\n\n")) - 1, 100 * n)

    def check_lines(self, argv, per_piece=50, suffix=b"", **more):
        out, n = self.attach_often(argv, b"a line of text\n" * per_piece, **more)
        self.assertEqual(out, b"%d%s\n" % (per_piece * n, suffix))
        self.assertGreater(self.n_samples, 0)

    def test_python(self):
        self.check_lines(["python3", "-c", PYTHON], slack=(0, 2, 1, 0))

    def test_node(self):
        self.check_lines(["node", "-e", NODE])

    def test_java(self):
        source = self.dir / "Main.java"
        source.write_text(JAVA)
        # threads of the VM's compiler come and go
        self.check_lines(["java", "-Xmx64m", source], slack=(2, 8, 1, 0))

    def check_allocator(self, *options):
        source, program = self.dir / "own.c", self.dir / "own"
        source.write_text(C)
        done = run("cc", "-O1", "-o", program, source, *options)
        if done.returncode != 0:
            self.skipTest(f"cannot be linked here: {options}")
        self.check_lines([program], suffix=b" 0")

    def test_glibc(self):
        self.check_allocator()

    def test_jemalloc(self):
        self.check_allocator("-Wl,--no-as-needed,-ljemalloc")

    def test_tcmalloc(self):
        self.check_allocator("-Wl,--no-as-needed,-ltcmalloc")


# Functions of the C library that have no frame, but jump to a static function that takes a lock.
JUMPS = {
    "aligned_alloc": r"""
        static void *kept[64];
        for (int i = 0; i < 3000; i++) {
            int place = rand() % 64;
            free(kept[place]);
            kept[place] = aligned_alloc(256, rand() % 3000 + 1100);
            memset(kept[place], 1, 1100);
        }""",
    # So many threads that the C library unmaps their stacks.
    "pthread_join": r"""
        pthread_t threads[16];
        for (int i = 0; i < 16; i++)
            pthread_create(&threads[i], NULL, thread, NULL);
        for (int i = 0; i < 16; i++)
            pthread_join(threads[i], NULL);""",
    # Each thread answers a signal, while the thread that asks has the lock of the list of threads.
    "setuid": r"""
        static pthread_t threads[8];
        for (int i = 0; i < 8 && !threads[i]; i++)
            pthread_create(&threads[i], NULL, waiting, NULL);
        for (int i = 0; i < 500; i++)
            setuid(getuid());""",
}
JUMPING = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static void *thread(void *unused) { free(malloc(50)); return unused; }
static void *waiting(void *unused) { for (;;) pause(); return unused; }
int main(void)
{
    for (clock_t begin = clock(); clock() - begin < CLOCKS_PER_SEC / 10;) {
        (void)thread, (void)waiting;
        %s
    }
    return 0;
}
"""


@unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
class Jumps(Heap):
    """A thread is not borrowed while it has a lock that dlopen() needs: the thread would wait for
    itself for ever."""

    def check(self, function):
        source, program = self.dir / "jumps.c", self.dir / f"jumps_{function}"
        source.write_text(JUMPING % JUMPS[function])
        built = run("cc", "-O2", "-fno-builtin", "-pthread", "-o", program, source)
        self.assertEqual(built.returncode, 0, built.stderr)
        config = self.dir / "config.cfg"
        config.write_text(
            'buffers { size_kb: 16384 } data_sources { config { name: "linux.heap" '
            'heapprofd_config {'
            f' sampling_interval_bytes: 4096 process_cmdline: "{program.name}" }} }} }}')
        with open(self.dir / "messages", "w+") as messages:
            recorder = subprocess.Popen([MMTRACE, "record", "-c", config, "-o", self.trace],
                                        stderr=messages)
            self.addCleanup(recorder.wait)
            self.addCleanup(recorder.kill)

            def attached():
                return (self.dir / "messages").read_text().count(": attached")
            deadline = time.monotonic() + 60
            while attached() < 15 and time.monotonic() < deadline:
                programs = [subprocess.Popen([program]) for _ in range(4)]
                for one in programs:
                    try:
                        self.assertEqual(one.wait(30), 0)
                    finally:
                        one.kill()
                        one.wait()
            recorder.send_signal(signal.SIGINT)
            recorder.wait(60)
            self.assertGreaterEqual(attached(), 15, (self.dir / "messages").read_text())

    def test_aligned_alloc(self):
        self.check("aligned_alloc")

    def test_pthread_join(self):
        self.check("pthread_join")

    def test_setuid(self):
        self.check("setuid")


# The lock of its allocator is nearly always taken. With an argument the program also reads from
# time to time.
OWN_ALLOCATOR = r"""
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *room;
static size_t used;
void *malloc(size_t size)
{
    pthread_mutex_lock(&lock);
    if (!room)
        room = mmap(NULL, 1 << 30, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (volatile int i = 0; i < 100000; i++)
        continue;
    size_t *found = (size_t *)(room + used);
    used += (size + 31) & ~(size_t)15;
    *found = size;
    pthread_mutex_unlock(&lock);
    return found + 2;
}
void free(void *memory) { (void)memory; }
void *calloc(size_t n, size_t size) { return memset(malloc(n * size), 0, n * size); }
void *realloc(void *memory, size_t size)
{
    void *moved = malloc(size);
    if (!memory)
        return moved;
    size_t before = ((size_t *)memory)[-2];
    return memcpy(moved, memory, size < before ? size : before);
}
int main(int argc, char **argv)
{
    for (long n = 0;; n++) {
        *(volatile char *)malloc(50) = 1;
        if (argc > 1 && n % 100 == 0)
            poll(NULL, 0, 20);
    }
}
"""

TWO_LIBRARIES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(void)
{
    for (void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW); other;)
        free(malloc(50));
    return 1;
}
"""

@unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
class Unknown(Heap):
    """Code without information on whether it may be interrupted."""

    def build(self, text, name, *options):
        source, program = self.dir / f"{name}.c", self.dir / name
        source.write_text(text)
        built = run("cc", "-O1", "-rdynamic", "-pthread", "-o", program, source, *options)
        self.assertEqual(built.returncode, 0, built.stderr)
        return program

    def start(self, text, *argv):
        program = self.build(text, "program")
        return self.launch(program, *argv)

    def launch(self, program, *argv):
        process = subprocess.Popen([program, *argv])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states.wait_for_cpu(process.pid, 0.05)
        return process

    def check(self, process, refused):
        result = run(MMTRACE, "heap", "-d", "300", "-o", self.trace, "-p", process.pid)
        (self.assertIn if refused
         else self.assertNotIn)(f"process {process.pid} is not profiled", result.stderr)
        (self.assertNotIn if refused
         else self.assertIn)(f"process {process.pid}: attached", result.stderr)
        states.wait_for_cpu(process.pid, 0.05)  # it goes on
        return result.stderr

    def test_an_allocator_in_the_program(self):
        self.check(self.start(OWN_ALLOCATOR), refused=True)

    def test_an_allocator_in_a_program_that_waits(self):
        self.check(self.start(OWN_ALLOCATOR, "waits"), refused=False)

    def test_an_allocator_in_a_library_without_section_headers(self):
        allocator, main = OWN_ALLOCATOR.split("int main")
        library = self.build(allocator, "libown.so", "-shared", "-fPIC")
        text = f"#include <stdlib.h>\n#include <poll.h>\nint main{main}"
        program = self.build(text, "program", library, f"-Wl,-rpath,{self.dir}")
        with open(library, "r+b") as file:
            for at, size in ((40, 8), (58, 6)):  # e_shoff; e_shentsize, e_shnum, e_shstrndx
                file.seek(at)
                file.write(bytes(size))
        process = self.launch(program)
        result = run(MMTRACE, "heap", "-d", "300", "-o", self.trace, "-p", process.pid)
        # The thread is outside of the allocator for a moment, now and then.
        self.assertRegex(result.stderr, f"process {process.pid}(: attached| is not profiled)")
        states.wait_for_cpu(process.pid, 0.05)  # it goes on

    def test_two_c_libraries(self):
        process = self.start(TWO_LIBRARIES)
        self.assertIn("it has loaded glibc more than once", self.check(process, refused=True))


# Each program waits for a byte at a place where no library may be loaded. It writes a byte before,
# and ends with 0 if nothing was disturbed.
WAITING = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
static void wait_here(void)
{
    struct pollfd fd = {.fd = 0, .events = POLLIN};
    if (write(1, "x", 1) == 1)
        poll(&fd, 1, -1);
}
"""
WAITS = {
    # The program waits in a signal handler, when aligned_alloc() has just taken the arena's lock.
    # Each instruction traps until then.
    "in_a_handler": r"""
static volatile int has_waited;
static void *thread(void *unused) { return unused; }
static void step(int signal, siginfo_t *info, void *context)
{
    static const unsigned char locked[] = {0xf0, 0x0f, 0xb1};
    static const void *last;
    ucontext_t *at = context;
    (void)signal, (void)info;
    if (last && memcmp(last, locked, sizeof(locked)) == 0) {
        at->uc_mcontext.gregs[REG_EFL] &= ~0x100;
        has_waited = 1;
        wait_here();
    }
    last = (const void *)at->uc_mcontext.gregs[REG_RIP];
}
int main(void)
{
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    pthread_t other; // without one the allocator takes no lock
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    void *piece = aligned_alloc(4096, 20000);
    __asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    free(piece);
    return has_waited ? 0 : 77;
}
""",
    # A coroutine whose stack has some hundred bytes left.
    "in_a_coroutine": r"""
static char room[4 * 4096];
static ucontext_t first, second;
static void coroutine(void)
{
    volatile char used[3000];
    used[0] = used[2999] = 1;
    wait_here();
}
int main(void)
{
    memset(room, 0x5a, sizeof(room));
    getcontext(&second);
    second.uc_stack.ss_sp = room + 2 * 4096;
    second.uc_stack.ss_size = 4096;
    second.uc_link = &first;
    makecontext(&second, coroutine, 0);
    swapcontext(&first, &second);
    for (unsigned i = 0; i < 2 * 4096; i++)
        if (room[i] != 0x5a)
            return 3;
    return 0;
}
""",
    # The program's own malloc(), with its lock.
    "in_its_malloc": r"""
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char memory[1 << 24] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t size)
{
    pthread_mutex_lock(&lock);
    if (size == 77)
        wait_here();
    void *found = memory + used;
    used += (size + 15) & ~(size_t)15;
    pthread_mutex_unlock(&lock);
    return found;
}
void free(void *piece) { (void)piece; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *piece, size_t size)
{
    return piece ? memcpy(malloc(size), piece, size) : malloc(size);
}
int main(void)
{
    return malloc(77) ? 0 : 4;
}
""",
}
# A thread that is nearly always in libunwind and has libunwind's lock.
UNWINDS = r"""
#define UNW_LOCAL_ONLY
#include <libunwind.h>
int main(void)
{
    for (;;) {
        unw_cursor_t cursor;
        unw_context_t context;
        unw_proc_info_t info;
        unw_flush_cache(unw_local_addr_space, 0, 0);
        unw_getcontext(&context);
        unw_init_local(&cursor, &context);
        while (unw_step(&cursor) > 0)
            unw_get_proc_info(&cursor, &info);
    }
}
"""


@unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
class Held(Heap):
    """The only thread has a lock or a stack with which no library can be loaded. The recorder
    leaves the thread alone, and it goes on unharmed."""

    def build(self, text, *options):
        source, program = self.dir / "held.c", self.dir / "held"
        source.write_text(text)
        built = run("cc", "-O1", "-fno-builtin", "-rdynamic", "-Wl,-z,now", "-pthread", "-o",
                    program, source, *options)
        self.assertEqual(built.returncode, 0, built.stderr)
        return program

    def check(self, where):
        process = subprocess.Popen([self.build(WAITING + WAITS[where])], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if process.stdout.read(1) != b"x":
            self.assertEqual(process.wait(20), 77)
            self.skipTest("the allocator of this C library takes no lock there")
        result = run(MMTRACE, "heap", "-d", "100", "-o", self.trace, "-p", process.pid)
        self.assertIn(f"process {process.pid} is not profiled: none of its threads", result.stderr)
        process.stdin.write(b"x")
        process.stdin.close()
        self.assertEqual(process.wait(20), 0)

    def test_a_handler_that_interrupted_the_allocator(self):
        self.check("in_a_handler")

    def test_a_coroutine(self):
        self.check("in_a_coroutine")

    def test_an_allocator_in_the_program(self):
        self.check("in_its_malloc")

    def attach_while_it_executes(self, program):
        """Returns the words of the recorder about a process that is held until a helper looks at
        it, and then executes another program."""
        process = subprocess.Popen([program, "/bin/sleep", "60"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.read(1)
        argv = [str(MMTRACE), "heap", "-o", str(self.trace), "-p", str(process.pid)]
        with tempfile.TemporaryFile("w+") as log, subprocess.Popen(argv, stderr=log) as recorder:
            def said():
                return os.pread(log.fileno(), 1 << 20, 0).decode()

            def helper_looks():
                children = " ".join(states.texts_of_tasks(recorder.pid, "children")).split()
                return "profiled" in said() or any(
                    states.proc_text(child, "comm") == "mmheap-attach\n" for child in children)
            try:
                wait_for(helper_looks, "the helper runs")
                process.stdin.write(b"x")
                process.stdin.close()
                wait_for(lambda: re.search("attached|not profiled", said()), "an end")
            finally:
                recorder.send_signal(signal.SIGINT)
            return said()

    def test_a_program_that_executes_another(self):
        """The helper has the addresses of the program that ran before."""
        text = WAITS["in_a_coroutine"].replace("int main(void)", "int main(int n, char **argv)")
        program = self.build(WAITING + text.replace("    return 0;\n}\n",
                                                    "    return n > 1 ? execv(argv[1], argv + 1)"
                                                    " : 0;\n}\n"))
        # On a machine that stands still for two seconds, the search ends too early.
        said = ""
        for _ in range(3):
            said = self.attach_while_it_executes(program)
            if "not profiled" not in said:
                break
        self.assertIn(": attached, ", said)

    def test_libunwind(self):
        if run("pkg-config", "--exists", "libunwind").returncode != 0:
            self.skipTest("the headers of libunwind are not installed")
        process = subprocess.Popen([self.build(UNWINDS, "-lunwind")])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(3):
            run(MMTRACE, "heap", "-d", "100", "-o", self.trace, "-p", process.pid)
            states.wait_for_cpu(process.pid, 0.05)  # it goes on


if __name__ == "__main__":
    unittest.main()
