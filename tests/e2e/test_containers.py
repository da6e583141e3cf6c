# SPDX-License-Identifier: Apache-2.0
"""Profiles of processes in containers that runc makes, as Docker and containerd do: with a root,
pids, a user and capabilities of their own, and a filter of system calls."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import lib
import states
from test_heap import BY_FUNCTION, HELPER, TRUTH, Heap

# The calls that Docker's filter refuses to a container without further capabilities
# (docs.docker.com, "Seccomp security profiles for Docker").
REFUSED = """acct add_key bpf clock_adjtime clock_settime delete_module finit_module get_mempolicy
    init_module ioperm iopl kcmp kexec_file_load kexec_load keyctl mbind mount move_mount move_pages
    name_to_handle_at open_by_handle_at perf_event_open personality pivot_root process_vm_readv
    process_vm_writev ptrace quotactl reboot request_key set_mempolicy setns settimeofday swapoff
    swapon sysfs syslog umount2 unshare uselib userfaultfd ustat""".split()
CAPABILITIES = ["CAP_" + name for name in """AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD
    NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_CHROOT""".split()]
NAMESPACES = ("pid", "network", "ipc", "uts", "mount")
UID = 61234  # of the container's user, outside of a user namespace
ROUNDS = "20000000"


def bind(source, destination, *options):
    return {"source": str(source), "destination": destination, "type": "bind",
            "options": ["bind", *options]}


def config(argv, uid=0, is_mapped=False, read_only=True, mounts=()):
    """The configuration of a container whose /usr is this machine's."""
    mapping = [{"containerID": 0, "hostID": UID, "size": 1000}]
    linux = {
        "namespaces": [{"type": name} for name in (*NAMESPACES, *(("user",) * is_mapped))],
        "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
                    "syscalls": [{"names": REFUSED, "action": "SCMP_ACT_ERRNO"}]},
        **({"uidMappings": mapping, "gidMappings": mapping} if is_mapped else {}),
    }
    return {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": uid, "gid": uid}, "args": argv, "cwd": "/",
                    "noNewPrivileges": True,
                    "capabilities": {kind: CAPABILITIES if uid == 0 else []
                                     for kind in ("bounding", "effective", "permitted")}},
        "root": {"path": "root", "readonly": read_only},
        "mounts": [{"source": "proc", "destination": "/proc", "type": "proc"},
                   bind("/usr", "/usr", "ro"), *mounts],
        "linux": linux,
    }


@lib.needs_root
@lib.needs_program("runc")
@unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
class Containers(Heap):
    def setUp(self):
        super().setUp()
        lib.skip_in_chroot(self)
        self.dir.chmod(0o711)
        self.root = self.dir / "root"
        for name in ("proc", "usr", "tmp"):
            (self.root / name).mkdir(parents=True)
        (self.root / "tmp").chmod(0o1777)
        for name in ("bin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                (self.root / name).symlink_to(f"usr/{name}")
        if not os.path.islink("/lib64"):
            self.skipTest("the loader of programs is not below /usr")
        shutil.copy(TRUTH, self.root / "program")

    def start(self, *argv, **options):
        """Starts the program in a container. Returns its pid outside."""
        (self.dir / "config.json").write_text(
            json.dumps(config(argv or ("/program", "1", ROUNDS), **options)))
        name = f"mmtrace-{os.getpid()}-{self.id().rpartition('.')[2]}"
        runc = ["runc", "--root", str(self.dir / "state")]
        with open(self.dir / "said", "w+") as said:  # the container keeps the descriptor
            made = subprocess.run(
                [*runc, "create", "--bundle", self.dir, "--no-pivot", "--pid-file",
                 self.dir / "pid", name],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=60)
        self.addCleanup(lib.run, *runc, "delete", "--force", name)
        if made.returncode != 0:
            text = (self.dir / "said").read_text().strip()
            self.skipTest(f"runc makes no container here: {text[-200:]}")
        self.assertEqual(lib.run(*runc, "start", name).returncode, 0)
        pid = int((self.dir / "pid").read_text())
        states.wait_for_cpu(pid, 0.02)
        return pid

    def check(self, pid):
        for _ in range(2):  # the second time, the library is there already
            done = self.attach(pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"keep_small \(program\)")
            self.assertIn("keep_small", [name for name, _, _ in self.query(BY_FUNCTION)])
        states.wait_for_cpu(pid, 0.05)  # the program goes on

    def check_refused(self, pid, text):
        done = self.attach(pid)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)
        states.wait_for_cpu(pid, 0.05)

    def hidden_unwinder(self):
        """Mounts that hide libunwind and the libraries that it alone needs."""
        found = lib.run("ldd", HELPER).stdout
        paths = {os.path.realpath(path)
                 for path in re.findall(r"=> (\S*/lib(?:unwind|lzma|z)\b\S*)", found)}
        self.assertTrue(paths)
        return [bind("/dev/null", path) for path in sorted(paths)]

    def test_a_read_only_root(self):
        self.check(self.start())

    def test_a_root_that_can_be_written(self):
        self.check(self.start(read_only=False))

    def test_another_user(self):
        self.check(self.start(uid=UID))

    def test_a_user_namespace(self):
        os.chown(self.dir, UID, UID)
        os.chown(self.root, UID, UID)
        self.check(self.start(is_mapped=True))

    def test_without_libunwind(self):
        pid = self.start(mounts=self.hidden_unwinder())
        self.check(pid)
        self.assertIn("/memfd:libunwind.so.8", pathlib.Path(f"/proc/{pid}/maps").read_text())
        self.assertEqual([file for file in states.open_files(pid) if "memfd:lib" in file], [])

    def test_without_proc(self):
        """runc needs a /proc, so this program has none after its start."""
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$1" && '
                                    'umount --lazy /proc && exec "$2" 1 "$3"', "sh", HELPER.parent,
                                    self.root / "program", ROUNDS], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states.wait_for_program(process.pid, "program")
        states.wait_for_cpu(process.pid, 0.02)
        self.check_refused(process.pid, "its root lacks the file, and a /proc to open a copy")

    @lib.needs_program("musl-gcc")
    def test_musl(self):
        source = pathlib.Path(__file__).parents[1] / "tools" / "heap_truth.c"
        built = lib.run("musl-gcc", "-O1", "-o", self.root / "program", source)
        self.assertEqual(built.returncode, 0, built.stderr)
        loader, = pathlib.Path("/lib").glob("ld-musl-*.so.1")
        (self.root / "lib").unlink()
        (self.root / "lib").mkdir()
        shutil.copy(loader, self.root / "lib")
        self.check_refused(self.start(), "its C library is musl")

    def test_samples_of_processor_time(self):
        pid = self.start()
        done = lib.run(lib.MMTRACE, "cpu", "-o", self.trace, "-d", "500", "-p", pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\w+ \((program|libc\.so\.6)\)")


if __name__ == "__main__":
    unittest.main()
