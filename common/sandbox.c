// SPDX-License-Identifier: Apache-2.0
//
// The filter lists the refused calls, not the permitted calls: future versions of the C library and
// SQLite may use other harmless calls, and a conversion must not fail on a newer system. A refused
// call fails with EPERM and does not end the program, because libraries try calls and continue
// without them. Only a call with the numbers of another machine type (32 bits on 64) ends the
// program: no compiler makes this call.
//
// clone3 has its flags in memory that a filter cannot read, and therefore fails with ENOSYS. The C
// library then uses clone, whose flags the filter sees.
//
// Sanitizers stop their own threads with ptrace, and start programs for the names in a report.
// Under sanitizers, processes and signals therefore stay unrestricted. Coverage writes at the end
// to files that Landlock does not permit: use MMTRACE_SANDBOX=off for coverage and for debuggers.
#include "common/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define X32_BIT  0x40000000
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

// System calls since Linux 5.1 have the same numbers on all machines. Older headers lack them.
#define NR_IO_URING_SETUP          425
#define NR_IO_URING_ENTER          426
#define NR_IO_URING_REGISTER       427
#define NR_OPEN_TREE               428
#define NR_MOVE_MOUNT              429
#define NR_FSOPEN                  430
#define NR_FSCONFIG                431
#define NR_FSMOUNT                 432
#define NR_FSPICK                  433
#define NR_PIDFD_OPEN              434
#define NR_CLONE3                  435
#define NR_PIDFD_GETFD             438
#define NR_PROCESS_MADVISE         440
#define NR_MOUNT_SETATTR           442
#define NR_QUOTACTL_FD             443
#define NR_LANDLOCK_CREATE_RULESET 444
#define NR_LANDLOCK_ADD_RULE       445
#define NR_LANDLOCK_RESTRICT_SELF  446
#define NR_OPEN_TREE_ATTR          467

bool sandbox_is_wanted(void)
{
    const char *setting = getenv("MMTRACE_SANDBOX");
    return !setting || strcmp(setting, "off") != 0;
}

bool sandbox_is_unavailable(int r)
{
    return r == -EOPNOTSUPP || r == -EPERM;
}

#ifdef OWN_ARCH

#define CODE_MAX 512
#define CLONE_NEW_ALL                                                                              \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)

// Calls that a parser does not need, and a recorder does not need either. Recorders and their
// helpers do trace, send signals and change users.
static const int refused_always[] = {
    // mounts and namespaces
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    NR_OPEN_TREE,
    NR_MOVE_MOUNT,
    NR_FSOPEN,
    NR_FSCONFIG,
    NR_FSMOUNT,
    NR_FSPICK,
    NR_MOUNT_SETATTR,
    NR_OPEN_TREE_ATTR,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_fanotify_init,
    SYS_quotactl,
    NR_QUOTACTL_FD,
    SYS_swapon,
    SYS_swapoff,
    SYS_mknodat,
    // other processes, beyond the power of ptrace
    NR_PIDFD_GETFD,
    SYS_kcmp,
    SYS_migrate_pages,
    SYS_move_pages,
    // the kernel
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_bpf,
    SYS_userfaultfd,
    NR_IO_URING_SETUP,
    NR_IO_URING_ENTER,
    NR_IO_URING_REGISTER,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_reboot,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_acct,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_vhangup,
    SYS_personality,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_mknod
    SYS_mknod,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

// Calls that no parser needs.
static const int refused_to_parsers[] = {
    // other processes
    SYS_perf_event_open, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, NR_PIDFD_OPEN,
    NR_PROCESS_MADVISE,
    // the network, and through it other programs
    SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen, SYS_accept, SYS_accept4,
    // rights
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid,
    SYS_setfsgid, SYS_setgroups, SYS_capset};

static const int runs_programs[] = {SYS_execve,
                                    SYS_execveat,
#ifdef SYS_fork
                                    SYS_fork,
                                    SYS_vfork,
#endif
                                    SYS_tkill,
                                    SYS_rt_sigqueueinfo,
                                    SYS_rt_tgsigqueueinfo,
#ifdef SYS_pidfd_send_signal
                                    SYS_pidfd_send_signal
#endif
};

struct code {
    struct sock_filter at[CODE_MAX];
    unsigned short n;
};

static void add(struct code *code, uint16_t what, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    if (code->n < CODE_MAX)
        code->at[code->n++] = (struct sock_filter)BPF_JUMP(what, k, if_true, if_false);
}

static void load(struct code *code, size_t offset)
{
    add(code, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct code *code, uint32_t with)
{
    add(code, BPF_RET | BPF_K, with, 0, 0);
}

static size_t argument_at(unsigned n)
{
    size_t low = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(uint32_t);
    return offsetof(struct seccomp_data, args) + n * sizeof(uint64_t) + low;
}

// Begins a filter: afterwards the accumulator has the number of the call.
static void begin(struct code *code)
{
    load(code, offsetof(struct seccomp_data, arch));
    add(code, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
    answer(code, SECCOMP_RET_KILL_PROCESS);
    load(code, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
    add(code, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    answer(code, REFUSED);
#endif
}

static void call_answer(struct code *code, int number, uint32_t with)
{
    add(code, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    answer(code, with);
}

static void calls_refuse(struct code *code, const int *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        call_answer(code, numbers[i], REFUSED);
}

// Refuses the call if its argument has (`with` true) or lacks (false) some of `bits`.
static void bits_refuse(struct code *code, int number, unsigned argument, uint32_t bits, bool with)
{
    add(code, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
    load(code, argument_at(argument));
    add(code, BPF_JMP | BPF_JSET | BPF_K, bits, with ? 0 : 1, with ? 1 : 0);
    answer(code, REFUSED);
    load(code, offsetof(struct seccomp_data, nr));
}

// Refuses the call if its argument differs from (`equal` false) or equals (true) `value`.
static void value_refuse(struct code *code, int number, unsigned argument, uint32_t value,
                         bool equal)
{
    add(code, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
    load(code, argument_at(argument));
    add(code, BPF_JMP | BPF_JEQ | BPF_K, value, equal ? 0 : 1, equal ? 1 : 0);
    answer(code, REFUSED);
    load(code, offsetof(struct seccomp_data, nr));
}

static int install(struct code *code)
{
    answer(code, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = code->n, .filter = code->at};
    if (code->n == CODE_MAX)
        return -EFBIG;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS ? -EOPNOTSUPP : -errno;
}

static void refuse_always(struct code *code)
{
    calls_refuse(code, refused_always, ELEMENTS(refused_always));
    call_answer(code, NR_CLONE3, SECCOMP_RET_ERRNO | ENOSYS);
    bits_refuse(code, SYS_clone, 0, CLONE_NEW_ALL, true);
    value_refuse(code, SYS_ioctl, 1, TIOCSTI, true);
    value_refuse(code, SYS_ioctl, 1, TIOCLINUX, true);
}

int sandbox_calls(unsigned flags)
{
    struct code code = {.n = 0};
    bool bound = !(flags & SANDBOX_RUNS_PROGRAMS) && !IS_SANITIZED;
    begin(&code);
    refuse_always(&code);
    for (size_t i = 0; i < ELEMENTS(refused_to_parsers); i++)
        if (!IS_SANITIZED || refused_to_parsers[i] != SYS_ptrace)
            call_answer(&code, refused_to_parsers[i], REFUSED);
    if (bound) {
        calls_refuse(&code, runs_programs, ELEMENTS(runs_programs));
        bits_refuse(&code, SYS_clone, 0, CLONE_THREAD, false);
        value_refuse(&code, SYS_kill, 0, (uint32_t)getpid(), false);
        value_refuse(&code, SYS_tgkill, 0, (uint32_t)getpid(), false);
    }
    return install(&code);
}

int sandbox_service(void)
{
    struct code code = {.n = 0};
    begin(&code);
    refuse_always(&code);
    return install(&code);
}

int sandbox_opens(void)
{
    struct code code = {.n = 0};
    begin(&code);
    bits_refuse(&code, SYS_openat, 2, O_NONBLOCK | O_PATH, false);
#ifdef SYS_open
    bits_refuse(&code, SYS_open, 1, O_NONBLOCK | O_PATH, false);
#endif
    call_answer(&code, SYS_openat2, SECCOMP_RET_ERRNO | ENOSYS);
    return install(&code);
}

// Calls that move bytes between open descriptors, or that a sanitizer needs for this.
static const int shuffles[] = {
    SYS_read,      SYS_write,         SYS_sendmsg,        SYS_recvmsg,
    SYS_recvfrom,  SYS_ppoll,         SYS_pipe2,          SYS_close,
    SYS_fcntl,     SYS_fstat,         SYS_newfstatat,     SYS_shutdown,
    SYS_setitimer, SYS_exit_group,    SYS_rt_sigreturn,   SYS_restart_syscall,
    SYS_mmap,      SYS_munmap,        SYS_madvise,        SYS_futex,
    SYS_brk,       SYS_clock_gettime, SYS_rt_sigprocmask,
#ifdef SYS_poll
    SYS_poll,      SYS_alarm,
#endif
};

int sandbox_shuffles(void)
{
    struct code code = {.n = 0};
    begin(&code);
    for (size_t i = 0; i < ELEMENTS(shuffles); i++)
        call_answer(&code, shuffles[i], SECCOMP_RET_ALLOW);
    answer(&code, REFUSED);
    return install(&code);
}

#else

int sandbox_service(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : -EOPNOTSUPP;
}

int sandbox_shuffles(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : -EOPNOTSUPP;
}

int sandbox_calls(unsigned flags)
{
    (void)flags;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : -EOPNOTSUPP;
}

int sandbox_opens(void)
{
    return -EOPNOTSUPP;
}

#endif

uint64_t sandbox_data(uint64_t max_bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) < 0)
        return UINT64_MAX;
    if (!IS_SANITIZED && limit.rlim_cur > max_bytes) {
        struct rlimit lower = {(rlim_t)max_bytes, limit.rlim_max};
        if (setrlimit(RLIMIT_DATA, &lower) == 0)
            return max_bytes;
    }
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

// -- files --

// From <linux/landlock.h>, which older systems lack.
#define ACCESS_EXECUTE     (1ULL << 0)
#define ACCESS_WRITE_FILE  (1ULL << 1)
#define ACCESS_READ_FILE   (1ULL << 2)
#define ACCESS_READ_DIR    (1ULL << 3)
#define ACCESS_REMOVE_DIR  (1ULL << 4)
#define ACCESS_REMOVE_FILE (1ULL << 5)
#define ACCESS_MAKE_DIR    (1ULL << 7)
#define ACCESS_MAKE_REG    (1ULL << 8)
#define ACCESS_MAKE_SYM    (1ULL << 12)
#define ACCESS_REFER       (1ULL << 13) // ABI 2
#define ACCESS_TRUNCATE    (1ULL << 14) // ABI 3
#define ACCESS_ALL_2       (ACCESS_REFER | (ACCESS_REFER - 1))

#define READS       (ACCESS_READ_FILE | ACCESS_READ_DIR)
#define FILE_WRITES (ACCESS_WRITE_FILE | ACCESS_TRUNCATE)
#define WRITES                                                                                     \
    (READS | FILE_WRITES | ACCESS_REMOVE_DIR | ACCESS_REMOVE_FILE | ACCESS_MAKE_DIR |              \
     ACCESS_MAKE_REG | ACCESS_REFER)
#define ABI_MIN      2
#define ABI_TRUNCATE 3
#define VERSION_FLAG 1
#define RULE_PATH    1

struct ruleset {
    uint64_t handled;
};

struct path_rule {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

// Adds a rule for a path. Returns 0 for a file that cannot be opened, because a later open would
// fail, too. A lack of descriptors or memory is an error. Pipes need no rules.
static int rule_add(int ruleset, const char *path, uint64_t allowed)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        allowed &= ACCESS_READ_FILE | FILE_WRITES;
    struct path_rule rule = {.allowed = allowed, .folder = fd};
    if (syscall(NR_LANDLOCK_ADD_RULE, ruleset, RULE_PATH, &rule, 0) == 0 || errno == EBADFD)
        return 0;
    return -errno;
}

int sandbox_files(const struct sandbox_paths *paths)
{
    long abi = syscall(NR_LANDLOCK_CREATE_RULESET, NULL, 0, VERSION_FLAG);
    if (abi < ABI_MIN)
        return -EOPNOTSUPP;
    uint64_t handled = ACCESS_ALL_2 | (abi >= ABI_TRUNCATE ? ACCESS_TRUNCATE : 0);
    struct ruleset set = {.handled = handled};
    CLEANUP(close_fdp)
    int fd = (int)syscall(NR_LANDLOCK_CREATE_RULESET, &set, sizeof(set), 0);
    int r = fd < 0 ? -errno : 0;
    for (size_t i = 0; i < paths->reads.n && r == 0; i++)
        r = rule_add(fd, paths->reads.items[i], READS & handled);
    for (size_t i = 0; i < paths->writes.n && r == 0; i++)
        r = rule_add(fd, paths->writes.items[i], WRITES & handled);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r == 0 && syscall(NR_LANDLOCK_RESTRICT_SELF, fd, 0) < 0)
        r = -errno;
    return r;
}
