// SPDX-License-Identifier: Apache-2.0
//
// No code is changed in the process. A call returns to a `syscall` instruction of its C library,
// and the thread is stopped there at the entry of a system call that is then not made: its number
// is what the function returned. So no signal is needed, whose handler the process might have.
//
// Registers are given back only in a stop before a signal would be delivered: only there does the
// kernel see that a system call was interrupted, and takes it up again.
//
// Signals are blocked during the calls, so that no handler runs in the midst of them. Those of
// crashes are not: the kernel would take away their handlers.
#include "producer/agents/heap/attach/tracee.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define SYSCALL_STOP (SIGTRAP | 0x80)
#define NO_SYSCALL   (~0ULL)

static uint64_t signal_bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

// The stop signal, or a negative errno; *ret_event is PTRACE_EVENT_STOP or 0.
static int wait_for_stop(struct tracee *tracee, int *ret_event)
{
    int status;
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    for (;;) {
        pid_t got = waitpid(tracee->tid, &status, __WALL | WNOHANG);
        if (got < 0)
            return errno == ECHILD ? -ESRCH : -errno;
        if (got == tracee->tid) {
            if (!WIFSTOPPED(status))
                return -ESRCH;
            *ret_event = status >> 16;
            return WSTOPSIG(status);
        }
        nsec_t left = tracee->deadline - nsec_now(CLOCK_MONOTONIC);
        if (left <= 0)
            return -ETIMEDOUT;
        struct timespec timeout = nsec_to_timespec(left);
        sigtimedwait(&children, NULL, &timeout); // which every stop sends
    }
}

static bool stops_process(int signal)
{
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// Until the stop that PTRACE_INTERRUPT asked for; signals that come before it are delivered, or
// with `swallow` not.
static int wait_for_interrupt(struct tracee *tracee, bool swallow)
{
    for (;;) {
        int event, signal = wait_for_stop(tracee, &event);
        if (signal < 0)
            return signal;
        if (event == PTRACE_EVENT_STOP && signal == SIGTRAP)
            return 0;
        if (event == PTRACE_EVENT_STOP)
            return -EBUSY;
        bool is_signal = signal != SYSCALL_STOP && event == 0;
        if (is_signal && swallow && stops_process(signal))
            tracee->swallowed_stop = signal;
        long deliver = is_signal && !swallow ? signal : 0;
        if (ptrace(PTRACE_CONT, tracee->tid, 0, deliver) < 0)
            return -errno;
    }
}

int tracee_stop(int tid, nsec_t deadline, struct tracee *ret)
{
    *ret = (struct tracee){.tid = tid, .deadline = deadline};
    if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) < 0)
        return -errno;
    int r = ptrace(PTRACE_INTERRUPT, tid, 0, 0) < 0 ? -errno : wait_for_interrupt(ret, false);
    if (r < 0)
        ptrace(PTRACE_DETACH, tid, 0, 0);
    return r;
}

int tracee_borrow(struct tracee *tracee, uint64_t syscall_address)
{
    struct iovec state = {tracee->vector_state, sizeof(tracee->vector_state)};
    tracee->syscall_address = syscall_address;
    if (ptrace(PTRACE_GETREGS, tracee->tid, 0, &tracee->saved) < 0 ||
        ptrace(PTRACE_GETREGSET, tracee->tid, NT_X86_XSTATE, &state) < 0 ||
        ptrace(PTRACE_GETSIGMASK, tracee->tid, sizeof(tracee->saved_mask), &tracee->saved_mask) < 0)
        return -errno;
    if (state.iov_len == sizeof(tracee->vector_state))
        return -E2BIG; // cut: it could not be given back
    tracee->vector_size = state.iov_len;
    uint64_t mask = ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                      signal_bit(SIGFPE) | signal_bit(SIGTRAP));
    tracee->changed = true;
    return ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(mask), &mask) < 0 ? -errno : 0;
}

// Goes on to the next entry or exit of a system call.
static int to_syscall_stop(struct tracee *tracee, struct user_regs_struct *ret)
{
    for (;;) {
        if (ptrace(PTRACE_SYSCALL, tracee->tid, 0, 0) < 0)
            return -errno;
        int event, signal = wait_for_stop(tracee, &event);
        if (signal < 0)
            return signal;
        if (signal == SYSCALL_STOP)
            return ptrace(PTRACE_GETREGS, tracee->tid, 0, ret) < 0 ? -errno : 0;
        if (event == 0 && stops_process(signal))
            tracee->swallowed_stop = signal;
        else if (event == 0 && signal != SIGCONT)
            return -EFAULT;
    }
}

static int set_registers(struct tracee *tracee, const struct user_regs_struct *registers)
{
    return ptrace(PTRACE_SETREGS, tracee->tid, 0, registers) < 0 ? -errno : 0;
}

int64_t tracee_syscall(struct tracee *tracee, long number, const uint64_t args[6])
{
    struct user_regs_struct registers = tracee->saved;
    registers.rip = tracee->syscall_address;
    registers.rax = (uint64_t)number;
    registers.orig_rax = NO_SYSCALL;
    registers.rdi = args[0];
    registers.rsi = args[1];
    registers.rdx = args[2];
    registers.r10 = args[3];
    registers.r8 = args[4];
    registers.r9 = args[5];
    int r = set_registers(tracee, &registers);
    if (r == 0)
        r = to_syscall_stop(tracee, &registers); // entry
    if (r == 0)
        r = to_syscall_stop(tracee, &registers); // exit
    return r < 0 ? r : (int64_t)registers.rax;
}

static int write_word(int tid, uint64_t address, uint64_t value)
{
    return ptrace(PTRACE_POKEDATA, tid, address, value) < 0 ? -errno : 0;
}

int tracee_call(struct tracee *tracee, uint64_t function, uint64_t stack_top,
                const uint64_t args[2], uint64_t *ret)
{
    struct user_regs_struct registers = tracee->saved;
    registers.rip = function;
    registers.rsp = (stack_top & ~UINT64_C(15)) - 8;
    registers.rbp = 0;
    registers.rax = 0;
    registers.orig_rax = NO_SYSCALL;
    registers.rdi = args[0];
    registers.rsi = args[1];
    registers.eflags &= ~UINT64_C(0x400); // direction
    uint64_t back_at = registers.rsp + 8;
    int r = write_word(tracee->tid, registers.rsp, tracee->syscall_address);
    if (r == 0)
        r = set_registers(tracee, &registers);
    do {
        if (r == 0)
            r = to_syscall_stop(tracee, &registers);
        if (r < 0)
            return r;
    } while (registers.rip != tracee->syscall_address + 2 || registers.rsp != back_at);
    *ret = registers.orig_rax;
    registers.orig_rax = NO_SYSCALL;
    r = set_registers(tracee, &registers);
    return r < 0 ? r : to_syscall_stop(tracee, &registers);
}

static void give_back(struct tracee *tracee)
{
    struct iovec state = {tracee->vector_state, tracee->vector_size};
    if (ptrace(PTRACE_INTERRUPT, tracee->tid, 0, 0) < 0 ||
        ptrace(PTRACE_CONT, tracee->tid, 0, 0) < 0)
        return;
    tracee->deadline = nsec_now(CLOCK_MONOTONIC) + NSEC_PER_SEC;
    if (wait_for_interrupt(tracee, true) < 0)
        return;
    ptrace(PTRACE_SETREGS, tracee->tid, 0, &tracee->saved);
    ptrace(PTRACE_SETREGSET, tracee->tid, NT_X86_XSTATE, &state);
    ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(tracee->saved_mask), &tracee->saved_mask);
}

void tracee_release(struct tracee *tracee)
{
    if (tracee->changed)
        give_back(tracee);
    ptrace(PTRACE_DETACH, tracee->tid, 0, 0);
    tracee->changed = false;
}
