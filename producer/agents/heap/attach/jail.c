// SPDX-License-Identifier: Apache-2.0
//
// The kernel gives the filters of a thread to a tracer with CAP_SYS_ADMIN that has no filter
// itself. Each filter is a program of classic BPF, and runs here on the calls that the profiler
// makes, with arguments as the profiler has them. As in the kernel, the strictest answer of all
// filters counts.
//
// Calls of the first table must succeed. The second table has calls whose failure the profiler
// bears: a filter may refuse them, but must not end the process for them.
#include "producer/agents/heap/attach/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/elements.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

#define FILTERS_MAX 64
#define SCRATCH     BPF_MEMWORDS

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

struct call {
    const char *name;
    long number;
    uint64_t args[6];
};

#define CALL(name, ...)                                                                            \
    {                                                                                              \
#name, SYS_##name,                                                                         \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define SOME_ADDRESS UINT64_C(0x7f0000000000)
#define SOME_BYTES   4096
#define SOME_FD      5

static const struct call needed[] = {
    CALL(memfd_create, SOME_ADDRESS, MFD_CLOEXEC | MFD_ALLOW_SEALING),
    CALL(mmap, 0, SOME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, SOME_FD),
    CALL(mmap, SOME_ADDRESS, SOME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, SOME_FD),
    CALL(mmap, 0, SOME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX),
    CALL(mmap, SOME_ADDRESS, SOME_BYTES, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, UINT64_MAX),
    CALL(mmap, SOME_ADDRESS, SOME_BYTES, PROT_READ | PROT_EXEC,
         MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, SOME_FD),
    CALL(munmap, SOME_ADDRESS, SOME_BYTES),
    CALL(mprotect, SOME_ADDRESS, SOME_BYTES, PROT_READ),
    CALL(mprotect, SOME_ADDRESS, SOME_BYTES, PROT_READ | PROT_WRITE),
    CALL(madvise, SOME_ADDRESS, SOME_BYTES, 18), // MADV_WIPEONFORK
    CALL(madvise, SOME_ADDRESS, SOME_BYTES, MADV_DONTNEED),
    CALL(mincore, SOME_ADDRESS, SOME_BYTES, SOME_ADDRESS),
    CALL(brk, 0),
    CALL(openat, (uint64_t)AT_FDCWD, SOME_ADDRESS, O_RDONLY | O_CLOEXEC),
    CALL(read, SOME_FD, SOME_ADDRESS, SOME_BYTES),
    CALL(pread64, SOME_FD, SOME_ADDRESS, SOME_BYTES),
    CALL(write, SOME_FD, SOME_ADDRESS, 1),
    CALL(newfstatat, SOME_FD, SOME_ADDRESS, SOME_ADDRESS, AT_EMPTY_PATH),
    CALL(close, SOME_FD),
    CALL(pipe2, SOME_ADDRESS, O_CLOEXEC | O_NONBLOCK),
    CALL(getpid),
    CALL(rt_sigprocmask, 0, SOME_ADDRESS, SOME_ADDRESS, 8),
    CALL(rt_sigreturn),
    CALL(futex, SOME_ADDRESS, 128),
    CALL(clock_nanosleep, 0, 0, SOME_ADDRESS),
};

static const struct call borne[] = {
    CALL(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC),
    CALL(setsockopt, SOME_FD, SOL_SOCKET, SO_SNDTIMEO, SOME_ADDRESS, 16),
    CALL(connect, SOME_FD, SOME_ADDRESS, 110),
    CALL(getsockopt, SOME_FD, SOL_SOCKET, SO_PEERCRED, SOME_ADDRESS, SOME_ADDRESS),
#ifdef SYS_poll
    CALL(poll, SOME_ADDRESS, 1, 1000),
#else
    CALL(ppoll, SOME_ADDRESS, 1, SOME_ADDRESS),
#endif
    CALL(recvmsg, SOME_FD, SOME_ADDRESS, MSG_DONTWAIT | MSG_CMSG_CLOEXEC),
    CALL(readlinkat, (uint64_t)AT_FDCWD, SOME_ADDRESS, SOME_ADDRESS, SOME_BYTES),
#ifdef SYS_readlink
    CALL(readlink, SOME_ADDRESS, SOME_ADDRESS, SOME_BYTES),
#endif
    CALL(fstat, SOME_FD, SOME_ADDRESS),
    CALL(lseek, SOME_FD, 0, SEEK_CUR),
    CALL(fcntl, SOME_FD, F_GETFD),
    CALL(fcntl, SOME_FD, F_GET_SEALS),
    CALL(clock_gettime, CLOCK_MONOTONIC, SOME_ADDRESS),
    CALL(nanosleep, SOME_ADDRESS),
    CALL(gettid),
    CALL(sched_yield),
};

// Classic BPF.

struct machine {
    uint32_t a, x, memory[SCRATCH];
};

// Returns false for a division by zero, which ends the program with 0.
static bool compute(uint32_t *a, uint16_t operation, uint32_t value)
{
    switch (operation) {
    case BPF_ADD:
        *a += value;
        return true;
    case BPF_SUB:
        *a -= value;
        return true;
    case BPF_MUL:
        *a *= value;
        return true;
    case BPF_DIV:
        if (value)
            *a /= value;
        return value != 0;
    case BPF_OR:
        *a |= value;
        return true;
    case BPF_AND:
        *a &= value;
        return true;
    case BPF_XOR:
        *a ^= value;
        return true;
    case BPF_LSH:
        *a = value < 32 ? *a << value : 0;
        return true;
    case BPF_RSH:
        *a = value < 32 ? *a >> value : 0;
        return true;
    case BPF_NEG:
        *a = -*a;
        return true;
    default:
        return false;
    }
}

static bool holds(uint32_t a, uint16_t operation, uint32_t value)
{
    switch (operation) {
    case BPF_JEQ:
        return a == value;
    case BPF_JGT:
        return a > value;
    case BPF_JGE:
        return a >= value;
    default: // BPF_JSET
        return a & value;
    }
}

// Returns false if the place is not in the memory, or not a whole word of the data.
static bool load(const struct machine *machine, const struct sock_filter *op,
                 const struct seccomp_data *data, uint32_t *ret)
{
    switch (BPF_MODE(op->code)) {
    case BPF_IMM:
        *ret = op->k;
        return true;
    case BPF_LEN:
        *ret = sizeof(*data);
        return true;
    case BPF_MEM:
        if (op->k >= SCRATCH)
            return false;
        *ret = machine->memory[op->k];
        return true;
    case BPF_ABS:
        if (op->k % 4 != 0 || op->k >= sizeof(*data))
            return false;
        memcpy(ret, (const char *)data + op->k, 4);
        return true;
    default:
        return false;
    }
}

uint32_t jail_filter_run(const struct sock_filter *program, size_t n,
                         const struct seccomp_data *data)
{
    struct machine m = {0};
    for (size_t at = 0; at < n; at++) {
        const struct sock_filter *op = &program[at];
        uint32_t value = BPF_SRC(op->code) == BPF_X ? m.x : op->k;
        bool is_valid = true;
        switch (BPF_CLASS(op->code)) {
        case BPF_LD:
            is_valid = load(&m, op, data, &m.a);
            break;
        case BPF_LDX:
            is_valid = load(&m, op, data, &m.x);
            break;
        case BPF_ST:
        case BPF_STX:
            is_valid = op->k < SCRATCH;
            if (is_valid)
                m.memory[op->k] = BPF_CLASS(op->code) == BPF_ST ? m.a : m.x;
            break;
        case BPF_ALU:
            if (!compute(&m.a, BPF_OP(op->code), value))
                return SECCOMP_RET_KILL_THREAD; // 0
            break;
        case BPF_JMP:
            if (BPF_OP(op->code) == BPF_JA)
                at += op->k;
            else
                at += holds(m.a, BPF_OP(op->code), value) ? op->jt : op->jf;
            break;
        case BPF_RET:
            return BPF_RVAL(op->code) == BPF_A ? m.a : op->k;
        default: // BPF_MISC
            if (BPF_MISCOP(op->code) == BPF_TAX)
                m.x = m.a;
            else
                m.a = m.x;
        }
        if (!is_valid)
            break;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

// The filters of a thread.

struct filter {
    struct sock_filter *program; // owned
    size_t n;
};

struct filters {
    struct filter items[FILTERS_MAX];
    size_t n;
};

static void filters_done(struct filters *filters)
{
    for (size_t i = 0; i < filters->n; i++)
        free(filters->items[i].program);
}

static int read_filter(int tid, size_t index, struct filter *ret)
{
    long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);
    if (n <= 0 || n > BPF_MAXINSNS)
        return n < 0 ? -errno : -EINVAL;
    struct sock_filter *program = calloc((size_t)n, sizeof(*program));
    if (!program)
        return -ENOMEM;
    if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program) != n) {
        free(program);
        return -EIO;
    }
    *ret = (struct filter){program, (size_t)n};
    return 0;
}

static int read_filters(int tid, struct filters *ret, struct err *err)
{
    int r = 0;
    for (; r == 0 && ret->n < FILTERS_MAX; ret->n += r == 0)
        r = read_filter(tid, ret->n, &ret->items[ret->n]);
    if (r == -ENOENT && ret->n > 0)
        return 0;
    if (r == -EACCES || r == -EPERM)
        return err_set(err, -EPERM,
                       "it is in a seccomp jail, whose filters this recorder may not read (mmtrace "
                       "heap as root may, outside of the daemon)");
    return err_set(err, -EPERM, "it is in a seccomp jail, whose filters cannot be read (%s)",
                   r == 0 ? "they are too many" : strerror(-r));
}

// Returns the strictest answer of all filters: the action with the lowest number, as signed.
static uint32_t strictest(const struct filters *filters, const struct call *call)
{
    struct seccomp_data data = {.nr = (int)call->number, .arch = ARCHITECTURE};
    uint32_t action = SECCOMP_RET_ALLOW;
    data.instruction_pointer = SOME_ADDRESS;
    for (size_t i = 0; i < ELEMENTS(call->args); i++)
        data.args[i] = call->args[i];
    for (size_t i = 0; i < filters->n; i++) {
        uint32_t one = jail_filter_run(filters->items[i].program, filters->items[i].n, &data) &
                       SECCOMP_RET_ACTION_FULL;
        action = (int32_t)one < (int32_t)action ? one : action;
    }
    return action;
}

static int refuse(const struct call *call, struct err *err)
{
    return err_set(err, -EPERM,
                   "it is in a seccomp jail, whose filter forbids %s (start it with "
                   "the library, or permit the call)",
                   call->name);
}

int jail_judge(int tid, struct err *err)
{
    struct filters filters CLEANUP(filters_done) = {0};
    int r = read_filters(tid, &filters, err);
    for (size_t i = 0; r == 0 && i < ELEMENTS(needed); i++) {
        uint32_t action = strictest(&filters, &needed[i]);
        if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG)
            r = refuse(&needed[i], err);
    }
    for (size_t i = 0; r == 0 && i < ELEMENTS(borne); i++) {
        uint32_t action = strictest(&filters, &borne[i]);
        if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG && action != SECCOMP_RET_ERRNO)
            r = refuse(&borne[i], err);
    }
    return r;
}
