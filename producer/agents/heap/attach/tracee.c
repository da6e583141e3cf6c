// SPDX-License-Identifier: Apache-2.0
//
// No code is changed in the process. Calls run above a frame like the kernel's frame for signal
// handlers. They return to the C library's rt_sigreturn, which leads back to the thread's old
// place: the thread is safe whenever the helper ends. The helper stops the thread at the entry of
// that system call and restores everything itself, because the frame cannot resume an interrupted
// sleep. No signal is needed, for which the process might have a handler.
//
// Registers are restored only in a stop before a signal delivery: only there does the kernel see
// that a system call was interrupted, and restart it. Some system calls end at any stop and are not
// restarted; these are made to begin anew.
//
// Signals are blocked during the calls, so that no handler runs in between. Exceptions are the
// signals of crashes, whose handlers the kernel would remove, and the C library's own signal by
// which all threads change their user id: the thread that sends it holds a lock that dlopen()
// needs, and waits for the answer of each thread.
#include "producer/agents/heap/attach/tracee.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"

#define SYSCALL_STOP   (SIGTRAP | 0x80)
#define SETXID_SIGNAL  33 // of glibc
#define NO_SYSCALL     (~0ULL)
#define SYSCALL_SIZE   2 // bytes of the instruction
#define SIGRETURN_SIZE 9 // bytes of the code at sigreturn_address
#define RED_ZONE       128
#define END_TIME       (500 * NSEC_PER_MSEC)
#define STATE_ALIGN    64
#define STATUS_MAX     ((size_t)64 << 10)

// The kernel's stack frame for a handler (x86-64; the C libraries' headers differ).
struct signal_context {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, fault_address;
    uint64_t state; // address of the vector state
    uint64_t reserved[8];
};

// Inside the vector state: which parts of it are present.
struct state_marks {
    uint32_t magic, size;
    uint64_t in_use;
    uint32_t state_size;
    uint32_t reserved[7];
};

struct signal_frame {
    uint64_t return_address;
    uint64_t flags, link;
    uint64_t alternate_stack, alternate_flags, alternate_size;
    struct signal_context context;
    uint64_t mask;
    uint8_t info[128];
};

#define FRAME_FLAGS    7           // all of the vector state; SS as it is now
#define NOT_A_STACK    0x7fffffffu // flags that the kernel ignores: the signal stack stays as it is
#define RESTART_BLOCK  516         // an errno that user space never sees
#define RESTART_FIRST  512
#define RESTART_LAST   514
#define STATE_MARKS_AT 464
#define STATE_MAGIC    0x46505853u
#define STATE_END      0x46505845u // follows the vector state
#define STATE_END_SIZE sizeof(uint32_t)

static uint64_t signal_bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

// Returns the stop signal, or a negative errno. *ret_event is PTRACE_EVENT_STOP or 0.
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
        sigtimedwait(&children, NULL, &timeout); // every stop sends SIGCHLD
    }
}

static bool stops_process(int signal)
{
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// Waits for the stop that PTRACE_INTERRUPT asked for. Signals that arrive before it are delivered,
// or dropped with `swallow`.
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

static bool has_signals(int tid)
{
    char path[64];
    struct strbuf status CLEANUP(strbuf_done) = {0};
    snprintf(path, sizeof(path), "/proc/%d/status", tid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fd_read_all(fd, STATUS_MAX, &status) < 0)
        return true;
    static const char *const fields[] = {"\nSigPnd:", "\nShdPnd:", "\nSigBlk:"};
    uint64_t masks[3];
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(status.text, fields[i]);
        if (!at)
            return true;
        masks[i] = strtoull(at + strlen(fields[i]), NULL, 16);
    }
    return ((masks[0] | masks[1]) & ~masks[2]) != 0;
}

// Returns whether the thread is in a system call that a stop ends even without a signal.
static bool is_to_be_repeated(int tid, const struct user_regs_struct *registers)
{
    return (int64_t)registers->orig_rax >= 0 && (int64_t)registers->rax == -EINTR &&
           registers->orig_rax != SYS_close && !has_signals(tid);
}

static void repeat_syscall(struct user_regs_struct *registers, uint64_t number)
{
    registers->rax = number;
    registers->rip -= SYSCALL_SIZE;
}

// Releases the thread. A thread that was killed meanwhile cannot be released, and the tracer must
// wait for its end: if the process executes another program, the process waits for this end, too. A
// tracer that waited for another thread of the process would therefore wait in vain.
static void let_go(struct tracee *tracee)
{
    int event;
    if (ptrace(PTRACE_DETACH, tracee->tid, 0, 0) == 0)
        return;
    tracee->deadline = nsec_now(CLOCK_MONOTONIC) + END_TIME;
    while (wait_for_stop(tracee, &event) >= 0)
        if (ptrace(PTRACE_DETACH, tracee->tid, 0, 0) == 0)
            return;
}

int tracee_stop(int tid, nsec_t deadline, struct tracee *ret)
{
    *ret = (struct tracee){.tid = tid, .deadline = deadline};
    if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) < 0)
        return -errno;
    int r = ptrace(PTRACE_INTERRUPT, tid, 0, 0) < 0 ? -errno : wait_for_interrupt(ret, false);
    if (r == 0 && ptrace(PTRACE_GETREGS, tid, 0, &ret->saved) < 0)
        r = -errno;
    if (r == 0 && is_to_be_repeated(tid, &ret->saved)) {
        repeat_syscall(&ret->saved, ret->saved.orig_rax);
        if (ptrace(PTRACE_SETREGS, tid, 0, &ret->saved) < 0)
            r = -errno;
    }
    if (r < 0)
        let_go(ret);
    return r;
}

// Returns the registers of a thread after its return through a frame, where the kernel does not
// restart system calls.
static struct user_regs_struct registers_to_return_to(const struct tracee *tracee)
{
    struct user_regs_struct registers = tracee->saved;
    int64_t error = -(int64_t)registers.rax;
    if ((int64_t)registers.orig_rax < 0)
        return registers;
    if (error >= RESTART_FIRST && error <= RESTART_LAST)
        repeat_syscall(&registers, registers.orig_rax);
    else if (error == RESTART_BLOCK)
        repeat_syscall(&registers, SYS_restart_syscall);
    return registers;
}

static struct signal_context context_of(const struct user_regs_struct *registers)
{
    return (struct signal_context){
        .r8 = registers->r8,
        .r9 = registers->r9,
        .r10 = registers->r10,
        .r11 = registers->r11,
        .r12 = registers->r12,
        .r13 = registers->r13,
        .r14 = registers->r14,
        .r15 = registers->r15,
        .rdi = registers->rdi,
        .rsi = registers->rsi,
        .rbp = registers->rbp,
        .rbx = registers->rbx,
        .rdx = registers->rdx,
        .rax = registers->rax,
        .rcx = registers->rcx,
        .rsp = registers->rsp,
        .rip = registers->rip,
        .eflags = registers->eflags,
        .cs = (uint16_t)registers->cs,
        .ss = (uint16_t)registers->ss,
    };
}

// The kernel's description of a thread's restartable sequences, and the thread's current sequence.
struct sequence_place {
    uint64_t address;
    uint32_t size, signature, flags, reserved;
};

struct sequence {
    uint32_t version, flags;
    uint64_t start, size, abort;
};

#define GET_SEQUENCE_PLACE 0x420f // PTRACE_GET_RSEQ_CONFIGURATION
#define SEQUENCE_AT        8      // in struct rseq

static bool peek(int tid, uint64_t address, void *ret, size_t size)
{
    struct iovec here = {ret, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv(tid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

bool tracee_is_in_sequence(const struct tracee *tracee)
{
    struct sequence_place place = {0};
    struct sequence sequence;
    uint64_t at;
    // Linux before 5.13 does not have the request, and glibc before 2.35 does not use such
    // sequences.
    if (ptrace(GET_SEQUENCE_PLACE, tracee->tid, sizeof(place), &place) < 0 || place.address == 0)
        return false;
    if (!peek(tracee->tid, place.address + SEQUENCE_AT, &at, sizeof(at)))
        return true;
    return at != 0 && (!peek(tracee->tid, at, &sequence, sizeof(sequence)) ||
                       tracee->saved.rip - sequence.start < sequence.size);
}

static size_t put_state(const struct tracee *tracee, uint8_t *ret)
{
    const uint32_t end = STATE_END;
    struct state_marks marks = {
        .magic = STATE_MAGIC,
        .size = (uint32_t)(tracee->vector_size + sizeof(end)),
        .state_size = (uint32_t)tracee->vector_size,
    };
    memcpy(ret, tracee->vector_state, tracee->vector_size);
    memcpy(&marks.in_use, ret + STATE_MARKS_AT, sizeof(marks.in_use)); // as ptrace has it
    memcpy(ret + STATE_MARKS_AT, &marks, sizeof(marks));
    memcpy(ret + tracee->vector_size, &end, sizeof(end));
    return tracee->vector_size + sizeof(end);
}

// Writes a frame below `top`. *ret_frame: the address at which a called function finds its return
// address, aligned as required.
static int write_frame(const struct tracee *tracee, uint64_t top, uint64_t *ret_frame)
{
    _Alignas(STATE_ALIGN) uint8_t bytes[TRACEE_FRAME_MAX];
    struct user_regs_struct registers = registers_to_return_to(tracee);
    struct signal_frame frame = {
        .return_address = tracee->sigreturn_address,
        .flags = FRAME_FLAGS,
        .alternate_flags = NOT_A_STACK,
        .context = context_of(&registers),
        .mask = tracee->saved_mask,
    };
    uint64_t state_at = (top - tracee->vector_size - STATE_END_SIZE) & ~(uint64_t)(STATE_ALIGN - 1);
    uint64_t frame_at = ((state_at - sizeof(frame)) & ~UINT64_C(15)) - 8;
    size_t gap = (size_t)(state_at - frame_at);
    if (gap + tracee->vector_size + STATE_END_SIZE > sizeof(bytes) - STATE_ALIGN)
        return -E2BIG;
    uint8_t *state = bytes + STATE_ALIGN * ((gap + STATE_ALIGN - 1) / STATE_ALIGN);
    memset(bytes, 0, (size_t)(state - bytes));
    frame.context.state = state_at;
    memcpy(state - gap, &frame, sizeof(frame));
    size_t size = gap + put_state(tracee, state);
    *ret_frame = frame_at;
    return pwrite(tracee->mem_fd, state - gap, size, (off_t)frame_at) == (ssize_t)size ? 0 : -EIO;
}

// Blocks `signals` except the signals of crashes.
static int block_signals(const struct tracee *tracee, uint64_t signals)
{
    uint64_t mask = signals & ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                                signal_bit(SIGFPE) | signal_bit(SIGTRAP));
    return ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(mask), &mask) < 0 ? -errno : 0;
}

int tracee_borrow(struct tracee *tracee, int mem_fd, uint64_t syscall_address,
                  uint64_t sigreturn_address)
{
    struct iovec state = {tracee->vector_state, sizeof(tracee->vector_state)};
    tracee->mem_fd = mem_fd;
    tracee->syscall_address = syscall_address;
    tracee->sigreturn_address = sigreturn_address;
    if (ptrace(PTRACE_GETREGSET, tracee->tid, NT_X86_XSTATE, &state) < 0 ||
        ptrace(PTRACE_GETSIGMASK, tracee->tid, sizeof(tracee->saved_mask), &tracee->saved_mask) < 0)
        return -errno;
    if (state.iov_len == sizeof(tracee->vector_state))
        return -E2BIG; // truncated, so it could not be restored
    tracee->vector_size = state.iov_len;
    int r = write_frame(tracee, tracee->saved.rsp - RED_ZONE, &tracee->frame);
    if (r < 0)
        return r;
    // From here on the thread would return through the frame if the helper ended.
    struct user_regs_struct registers = tracee->saved;
    registers.rip = sigreturn_address;
    registers.rsp = tracee->frame + sizeof(uint64_t);
    registers.orig_rax = NO_SYSCALL;
    if (ptrace(PTRACE_SETREGS, tracee->tid, 0, &registers) < 0)
        return -errno;
    tracee->changed = true;
    return block_signals(tracee, ~UINT64_C(0));
}

// Continues to the next entry or exit of a system call.
static int to_syscall_stop(struct tracee *tracee, struct user_regs_struct *ret)
{
    for (long deliver = 0;;) {
        if (ptrace(PTRACE_SYSCALL, tracee->tid, 0, deliver) < 0)
            return -errno;
        int event, signal = wait_for_stop(tracee, &event);
        if (signal < 0)
            return signal;
        if (signal == SYSCALL_STOP)
            return ptrace(PTRACE_GETREGS, tracee->tid, 0, ret) < 0 ? -errno : 0;
        deliver = event == 0 && signal == SETXID_SIGNAL ? signal : 0;
        if (event == 0 && stops_process(signal))
            tracee->swallowed_stop = signal;
        else if (event == 0 && signal != SIGCONT && !deliver)
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
    registers.rsp = tracee->frame;
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
    tracee->is_late |= r == -ETIMEDOUT;
    return r < 0 ? r : (int64_t)registers.rax;
}

int tracee_call(struct tracee *tracee, uint64_t function, uint64_t stack_top,
                const uint64_t args[2])
{
    uint64_t frame;
    int r = write_frame(tracee, stack_top, &frame);
    struct user_regs_struct registers = tracee->saved;
    registers.rip = function;
    registers.rsp = frame;
    registers.rbp = 0;
    registers.rax = 0;
    registers.orig_rax = NO_SYSCALL;
    registers.rdi = args[0];
    registers.rsi = args[1];
    registers.eflags &= ~UINT64_C(0x400); // direction flag
    if (r == 0)
        r = set_registers(tracee, &registers);
    if (r == 0)
        r = block_signals(tracee, ~signal_bit(SETXID_SIGNAL));
    do {
        if (r == 0)
            r = to_syscall_stop(tracee, &registers);
        tracee->is_late |= r == -ETIMEDOUT;
        if (r < 0)
            return r;
    } while (registers.rip != tracee->sigreturn_address + SIGRETURN_SIZE ||
             registers.rsp != frame + sizeof(uint64_t));
    // The helper cancels the thread's rt_sigreturn. If the helper has ended, the call takes place.
    registers.orig_rax = NO_SYSCALL;
    registers.rip = tracee->sigreturn_address;
    r = set_registers(tracee, &registers);
    if (r == 0)
        r = to_syscall_stop(tracee, &registers);
    return r < 0 ? r : block_signals(tracee, ~UINT64_C(0));
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
    ptrace(PTRACE_SETREGSET, tracee->tid, NT_X86_XSTATE, &state);
    ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(tracee->saved_mask), &tracee->saved_mask);
    ptrace(PTRACE_SETREGS, tracee->tid, 0,
           &tracee->saved); // last, because until then the frame is valid
}

static void leave_alone(struct tracee *tracee)
{
    ptrace(PTRACE_INTERRUPT, tracee->tid, 0, 0);
    tracee->deadline = nsec_now(CLOCK_MONOTONIC) + NSEC_PER_SEC;
    int event;
    wait_for_stop(tracee, &event);
}

void tracee_release(struct tracee *tracee)
{
    if (tracee->is_late)
        leave_alone(tracee);
    else if (tracee->changed)
        give_back(tracee);
    let_go(tracee);
    tracee->changed = false;
}
