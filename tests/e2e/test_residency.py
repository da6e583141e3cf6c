# SPDX-License-Identifier: Apache-2.0
"""linux.page_residency, end to end: the states of a file in a recording, read by protoc and put
together by the rules of protos/trace/page_residency.proto, against mincore() during the recording.
"""
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import lib
import states

PAGE = mmap.PAGESIZE
PROT_NONE = 0
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class WatchedFile:
    """A sparse file. The test makes its pages resident and evicts them."""

    def __init__(self, path, pages):
        self.path = pathlib.Path(path)
        self.pages = pages
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.ftruncate(self.fd, pages * PAGE)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)

    def bring_in(self, first, n):
        for page in range(first, first + n):
            os.pread(self.fd, 1, page * PAGE)

    def evict(self, first, n):
        os.posix_fadvise(self.fd, first * PAGE, n * PAGE, os.POSIX_FADV_DONTNEED)

    def mincore(self):
        """One byte per page, 1: resident."""
        size = self.pages * PAGE
        address = LIBC.mmap(None, size, PROT_NONE, mmap.MAP_SHARED, self.fd, 0)
        vector = ctypes.create_string_buffer(self.pages)
        result = LIBC.mincore(address, size, vector)
        LIBC.munmap(address, size)
        if result:
            raise OSError(ctypes.get_errno(), "mincore")
        return bytes(b & 1 for b in vector.raw)

    def close(self):
        os.close(self.fd)


class Reader:
    """Puts the samples of a trace together: for each file its states over time."""

    def __init__(self, packets):
        self.files = {}  # id -> File message
        self.states = {}  # path -> [(timestamp, page bytes or None, sample)]
        self.rounds = []  # (start, end)
        self.known = {}  # id -> (revision, set of pages)
        self.parts = {}
        self.n_complete = self.n_changed = self.n_unusable = 0
        for packet in lib.of_kind(packets, "page_residency"):
            self.read(packet.one("page_residency"), packet.one("timestamp"))

    def read(self, residency, timestamp):
        duration = residency.one("duration_ns", default=0)
        for file in residency.get("files", []):
            if not file.one("ended"):
                self.files[file.one("id")] = file
        if "round" in residency:
            self.rounds.append((timestamp, timestamp + duration))
        for sample in residency.get("samples", []):
            self.read_sample(sample, timestamp, duration)

    @staticmethod
    def pages_of(sample, field):
        values = sample.get(field, [])
        page, pages = sample.one("first_page", default=0), set()
        for gap, length in zip(values[::2], values[1::2], strict=True):
            assert length > 0
            page += gap
            pages.update(range(page, page + length))
            page += length
        return pages

    def read_sample(self, sample, timestamp, duration):
        file_id = sample.one("file_id")
        path = self.files[file_id].one("path")
        if sample.one("counts_only") or sample.one("gone") or "revision" not in sample:
            self.states.setdefault(path, []).append((timestamp + duration, None, sample))
            return
        if not sample.one("part", default=0):
            self.parts[file_id] = (timestamp + duration, sample, set())
        end, first, pages = self.parts[file_id]
        complete = sample.one("complete")
        pages |= self.pages_of(sample, "resident_runs" if complete else "changed_runs")
        if sample.one("more"):
            return
        revision = sample.one("revision")
        if complete:
            self.n_complete += 1
        elif file_id in self.known and self.known[file_id][0] == revision - 1:
            self.n_changed += 1
            pages = self.known[file_id][1] ^ pages
        else:
            self.n_unusable += 1
            return
        self.known[file_id] = (revision, pages)
        assert len(pages) == first.one("resident_pages"), (len(pages), first)
        state = bytearray(first.one("pages"))
        for page in pages:
            state[page] = 1
        self.states.setdefault(path, []).append((end, bytes(state), first))

    def state_between(self, path, begin, end):
        """The file's pages as a look between the two times found them; None if there was no look,
        or only counts."""
        if not any(begin <= start and stop <= end for start, stop in self.rounds):
            return None
        known = [state for timestamp, state, _ in self.states[str(path)] if timestamp <= end]
        return known[-1] if known else None


class Residency(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="residency-", dir=lib.BUILD))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "trace.pftrace"
        self.watched = WatchedFile(self.dir / "watched.bin", 2048)
        self.addCleanup(self.watched.close)

    def start(self, what, *, size_kb=4096, period_ms=20):
        config = self.dir / "config.cfg"
        config.write_text(
            f"buffers {{ size_kb: {size_kb} fill_policy: RING_BUFFER }}\n"
            'data_sources { config { name: "linux.page_residency" page_residency_config {\n'
            f"  {what} period_ms: {period_ms}\n}} }} }}\n")
        child = subprocess.Popen([str(lib.MMTRACE), "record", "-q", "-c", str(config), "-o",
                                  str(self.trace),
                                  "-t", "60s"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        states.wait_for_recorder(child.pid)
        states.wait_for_turns(child.pid, 3)
        self.child = child
        return child

    def finish(self, child):
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(60), 0, child.stderr.read())
        return lib.decode(self.trace)

    def hold(self, file, n_rounds=4):
        """Lets some rounds of the recorder pass while nothing changes. Returns (begin, mincore,
        end), or None if the kernel moved pages."""
        before, begin = file.mincore(), boot_ns()
        states.wait_for_turns(self.child.pid, n_rounds)
        end = boot_ns()
        return (begin, before, end) if file.mincore() == before else None

    def test_halves_evicted_during_the_recording(self):
        file, steps = self.watched, []
        file.bring_in(0, file.pages)
        child = self.start(f'paths: "{file.path}" verify_every: 1')
        steps.append(self.hold(file))
        n = file.pages // 2
        while n:
            file.evict(0, n)
            steps.append(self.hold(file))
            file.evict(file.pages - n // 2, n // 2)
            steps.append(self.hold(file))
            file.bring_in(n // 3, n // 4)
            steps.append(self.hold(file))
            n //= 2
        packets = self.finish(child)
        reader = Reader(packets)
        steps = [step for step in steps if step]
        self.assertGreater(len(steps), 15)  # others may have been disturbed by reclaim
        n_compared = 0
        for begin, want, end in steps:
            got = reader.state_between(file.path, begin, end)
            if got is not None:
                n_compared += 1
                self.assertEqual(got, want)
        self.assertGreater(n_compared, len(steps) * 3 // 4)
        self.assertGreater(len({want for _, want, _ in steps}), 10)
        self.assertEqual(reader.n_unusable, 0)
        self.assertGreater(reader.n_changed, reader.n_complete)

        info = next(iter(reader.files.values()))
        st = os.stat(file.path)
        self.assertEqual((info.one("path"), info.one("device"), info.one("inode"),
                          info.one("page_size_bytes")),
                         (str(file.path), st.st_dev, st.st_ino, PAGE))
        self.check_counter_track(packets, file, reader)
        self.check_database(file, steps, reader)

    def query(self, sql):
        done = lib.run(lib.MMSQL, "query", "--json", self.dir / "trace.db", sql)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_database(self, file, steps, reader):
        """The database has the runs of every sample, and the changes between samples."""
        done = lib.run(lib.MMSQL, "convert", self.trace, "-o", self.dir / "trace.db")
        self.assertEqual(done.returncode, 0, done.stderr)
        info = self.query("SELECT * FROM page_residency_file")
        self.assertEqual([f["path"] for f in info], [str(file.path)])
        samples = self.query("SELECT * FROM page_residency_sample ORDER BY id")
        states = {s["id"]: bytearray(s["pages"]) for s in samples if s["detail"] == "exact"}
        for run in self.query("SELECT * FROM page_residency_range"):
            for page in range(run["start_page"], run["end_page"]):
                states[run["sample_id"]][page] = 1
        self.assertEqual([bytes(states[s["id"]]) for s in samples],
                         [state for _, state, _ in reader.states[str(file.path)]])
        self.assertTrue(all(s["resident_bytes"] == sum(states[s["id"]]) * PAGE for s in samples))
        n_compared = 0
        for begin, want, end in steps:
            looks = self.query(f"SELECT count(*) AS n FROM page_residency_round "
                               f"WHERE ts >= {begin} AND ts + dur <= {end}")[0]["n"]
            last = [s["id"] for s in samples if s["ts"] + s["dur"] <= end]
            if looks and last:
                n_compared += 1
                self.assertEqual(bytes(states[last[-1]]), want)
        self.assertGreater(n_compared, len(steps) * 3 // 4)

        now = states[samples[0]["id"]]
        changes = {}
        for change in self.query("SELECT * FROM page_residency_change ORDER BY id"):
            changes.setdefault(change["sample_id"], []).append(change)
        for sample in samples[1:]:
            for change in changes.get(sample["id"], []):
                for page in range(change["start_page"], change["end_page"]):
                    self.assertEqual(now[page], 1 - change["came"])
                    now[page] = change["came"]
            self.assertEqual(now, states[sample["id"]])
        over_time = self.query("SELECT * FROM page_residency_over_time ORDER BY ts")
        self.assertEqual([row["resident_bytes"] for row in over_time],
                         [s["resident_bytes"] for s in samples])
        self.assertTrue(
            all(row["dur"] >= 0 and row["size_bytes"] == file.pages * PAGE for row in over_time))
        directions = self.query(
            "SELECT direction, sum(n_pages) AS n FROM page_residency_changes GROUP BY 1")
        self.assertEqual({row["direction"] for row in directions}, {"in", "out"})

    def check_counter_track(self, packets, file, reader):
        tracks = [p.one("track_descriptor") for p in lib.of_kind(packets, "track_descriptor")]
        self.assertEqual([t.one("name") for t in tracks], [f"resident {file.path}"])
        self.assertEqual(tracks[0].one("counter", "unit"), "UNIT_SIZE_BYTES")
        values = []
        for packet in lib.of_kind(packets, "track_event"):
            event = packet.one("track_event")
            self.assertEqual((event.one("type"), event.one("track_uuid")),
                             ("TYPE_COUNTER", tracks[0].one("uuid")))
            values.append(event.one("counter_value"))
        counts = [sample.one("resident_pages") * PAGE
                  for _, _, sample in reader.states[str(file.path)]]
        self.assertEqual(values, [n for i, n in enumerate(counts) if i == 0 or n != counts[i - 1]])

    def test_a_tiny_wrapped_ring_still_tells_the_end(self):
        file = self.watched
        child = self.start(f'paths: "{file.path}" verify_every: 1', size_kb=8, period_ms=2)
        for i in range(600):
            file.bring_in(i * 37 % 2000, 1 + i % 16)
            if i % 3 == 0:
                file.evict(i * 11 % 2000, 40)
            time.sleep(0.002)
        step = self.hold(file, 20)
        packets = self.finish(child)
        stats = lib.of_kind(packets, "trace_stats")[-1].all("trace_stats", "buffer_stats")
        self.assertGreater(stats[0].one("write_wrap_count"), 3)
        reader = Reader(packets)
        self.assertEqual(reader.n_unusable, 0)
        if step:
            self.assertEqual(reader.states[str(file.path)][-1][1], step[1])
        self.check_tracks_are_introduced(packets)

    def check_tracks_are_introduced(self, packets):
        known = {p.one("track_descriptor", "uuid")
                 for p in lib.of_kind(packets, "track_descriptor")}
        used = {p.one("track_event", "track_uuid") for p in lib.of_kind(packets, "track_event")}
        self.assertTrue(used and used <= known)

    def test_files_of_processes_and_replaced_files(self):
        mapped = WatchedFile(self.dir / "mapped.bin", 64)
        self.addCleanup(mapped.close)
        mapped.bring_in(10, 5)
        program = (
            "import mmap,sys;f=open(sys.argv[1],'rb');m=mmap.mmap(f.fileno(),0,"
            "prot=mmap.PROT_READ);"
            "print('ready',flush=True);sys.stdin.read()")
        process = subprocess.Popen(["python3", "-c", program, str(mapped.path)],
                                   stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        child = self.start(f'pids: {process.pid} paths: "{self.dir}/wat*" rescan_period_ms: 200')
        lib.wait_for(lambda: self.has_open(child.pid, self.watched), "the old file is open")
        states.wait_for_loop(child.pid)
        states.wait_for_turns(child.pid, 5)
        replacement = WatchedFile(self.dir / "new.bin", 100)
        self.addCleanup(replacement.close)
        replacement.bring_in(0, 7)
        os.rename(replacement.path, self.watched.path)
        lib.wait_for(lambda: self.has_open(child.pid, replacement), "the recorder has the new file")
        states.wait_for_turns(child.pid, 5)
        replacement.bring_in(0, 7)
        mapped.bring_in(10, 5)
        steps = {self.watched.path: self.hold(replacement), mapped.path: self.hold(mapped)}
        packets = self.finish(child)
        reader = Reader(packets)
        paths = [f.one("path") for f in reader.files.values()]
        self.assertIn(str(mapped.path), paths)
        self.assertEqual(paths.count(str(self.watched.path)), 2)
        seen = reader.states[str(self.watched.path)]
        gone = [i for i, (_, _, sample) in enumerate(seen) if sample.one("gone")]
        self.assertEqual(len(gone), 1)
        self.assertEqual(seen[-1][2].one("pages"), 100)
        for path, step in steps.items():
            if step:
                self.assertEqual(reader.state_between(path, step[0], step[2]), step[1])

    @lib.needs_namespaces
    def test_files_in_other_mount_namespaces(self):
        """A process in mounts of its own maps a program. The recorder watches the program if its
        file system is mounted here, too: only then nobody else can have mounted it."""
        shared, private = self.dir / "shared", self.dir / "private"
        for folder in (shared, private):
            folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "shared", shared], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", shared], check=True)
        copy = 'cp /bin/sleep "$0/copy" && exec "$0/copy" 60'
        pids = [self.process("copy", "unshare", "--mount", "sh", "-c", script, folder)
                for folder, script in ((shared, copy),
                                       (private, f'mount -t tmpfs private "$0" && {copy}'))]
        paths = self.paths(pids)
        self.assertIn(f"{shared}/copy", paths)
        self.assertNotIn(f"{private}/copy", paths)

    @staticmethod
    def has_open(pid, file):
        inode, folder = os.fstat(file.fd).st_ino, f"/proc/{pid}/fd"
        for fd in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.stat(f"{folder}/{fd}").st_ino == inode:
                    return True
        return False

    def process(self, name, *argv):
        """Starts a process and waits until it runs the program `name`. Returns its pid."""
        process = subprocess.Popen([str(arg) for arg in argv])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states.wait_for_program(process.pid, name)
        return process.pid

    def paths(self, pids):
        """The paths of the files of these processes in a recording."""
        child = self.start(" ".join(f"pids: {pid}" for pid in pids))
        states.wait_for_turns(child.pid, 20)
        return [f.one("path") for f in Reader(self.finish(child)).files.values()]

    @lib.needs_namespaces
    def test_a_refused_file_that_another_process_maps(self):
        """A process cannot reach the mount of its program any more, and the program has another
        name there. The recorder watches the same file of the other process."""
        folder, program = self.dir / "bound", os.path.realpath("/bin/sleep")
        folder.mkdir()
        pid = self.process("sleep", "unshare", "--mount", "sh", "-c",
                           f'mount --bind {os.path.dirname(program)} "$0" && exec "$0/sleep" 60',
                           folder)
        subprocess.run(["nsenter", "-t", str(pid), "-m", "umount", "-l", folder], check=True)
        self.assertNotIn(program, self.paths([pid]))
        self.assertIn(program, self.paths([pid, self.process("sleep", program, "60")]))

    @lib.needs_namespaces
    def test_files_below_another_root(self):
        """A process in mounts of its own, which has changed its root, cannot reach the mount of
        its program. The recorder finds the program by its name."""
        root = self.dir / "root"
        libraries = subprocess.run(["ldd", "/bin/sleep"], capture_output=True, text=True,
                                   check=True).stdout
        for path in ["/bin/sleep", *re.findall(r"/\S+", libraries)]:
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
        for way in ([], ["unshare", "--mount"]):
            with self.subTest(way):
                pid = self.process("sleep", *way, "chroot", root, "/bin/sleep", "60")
                self.assertIn(f"{root}/bin/sleep", self.paths([pid]))

    @lib.needs_root
    @unittest.skipUnless(shutil.which("mkfs.btrfs"), "needs mkfs.btrfs (package btrfs-progs)")
    def test_files_of_subvolumes(self):
        """A file of btrfs and its snapshot have the same inode number, and maps has the same device
        for both. They are two files."""
        image, mounted = self.dir / "image", self.dir / "btrfs"
        mounted.mkdir()
        with open(image, "wb") as file:
            file.truncate(256 << 20)
        subprocess.run(["mkfs.btrfs", "-q", image], check=True, stdout=subprocess.DEVNULL)
        done = lib.run("mount", "-t", "btrfs", "-o", "loop", image, mounted)
        if done.returncode != 0:
            self.skipTest(f"btrfs cannot be mounted: {done.stderr}")
        self.addCleanup(subprocess.run, ["umount", "-l", mounted], check=True)
        subprocess.run(["btrfs", "-q", "subvolume", "create", mounted / "a"], check=True)
        shutil.copy("/bin/sleep", mounted / "a")
        subprocess.run(["btrfs", "-q", "subvolume", "snapshot", mounted / "a", mounted / "b"],
                       check=True)
        programs = [f"{mounted}/{name}/sleep" for name in "ab"]
        found = self.paths([self.process("sleep", program, "60") for program in programs])
        self.assertEqual([path for path in found if path.startswith(str(mounted))], programs)


if __name__ == "__main__":
    unittest.main()
