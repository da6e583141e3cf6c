// SPDX-License-Identifier: Apache-2.0
//
// One thread of another process, stopped and borrowed. tracee_release() restores the thread: all
// registers, including vector registers, the signal mask, and the interrupted system call. If the
// helper ends before that, or a call takes too long, the thread itself ends the call and then
// continues where it was.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "common/nsec.h"

#define TRACEE_STATE_MAX 16384
#define TRACEE_FRAME_MAX (TRACEE_STATE_MAX + 1024)

struct tracee {
    int tid;
    int mem_fd;                 // borrowed: /proc/PID/mem
    uint64_t syscall_address;   // of a `syscall` instruction with a return after it
    uint64_t sigreturn_address; // of the code that signal handlers return to
    nsec_t deadline;            // CLOCK_MONOTONIC; no function waits longer
    struct user_regs_struct saved;
    uint64_t frame; // on the thread's own stack, for the return from system calls
    uint64_t saved_mask;
    uint8_t vector_state[TRACEE_STATE_MAX];
    size_t vector_size;
    int swallowed_stop; // a stop signal (SIGSTOP or the like) that arrived meanwhile; 0: none
    bool changed;       // the registers differ from the saved ones
    bool is_late;       // a call is not done; the thread itself ends the call
};

// The caller of each of these functions must have SIGCHLD blocked.

// Seizes and stops the thread. Returns 0; -ESRCH; -EPERM; -ETIMEDOUT; or -EBUSY if another tracer
// has stopped the thread.
int tracee_stop(int tid, nsec_t deadline, struct tracee *ret);

// Returns whether the stopped thread is, or may be, in a restartable sequence (rseq(2)).
bool tracee_is_in_sequence(const struct tracee *tracee);

// Saves the state to restore later, and blocks signals. Call it before the first call.
int tracee_borrow(struct tracee *tracee, int mem_fd, uint64_t syscall_address,
                  uint64_t sigreturn_address);

// Runs a system call in the thread. Returns its result, or a negative errno of the call or of
// ptrace().
int64_t tracee_syscall(struct tracee *tracee, long number, const uint64_t args[6]);

// Calls a function on the stack that ends at `stack_top`. The function's result is lost. Returns 0;
// -EFAULT if the function crashed; or -ETIMEDOUT if it is not done: only tracee_release() may
// follow then.
int tracee_call(struct tracee *tracee, uint64_t function, uint64_t stack_top,
                const uint64_t args[2]);

void tracee_release(struct tracee *tracee);
