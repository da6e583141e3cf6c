// SPDX-License-Identifier: Apache-2.0
//
// One thread of another process, stopped and borrowed. tracee_release() gives it back with every
// register, vector registers included, its signal mask and the system call that it was in. Should
// the helper end before that, or a call take too long, the thread ends the call by itself and then
// goes on where it was.
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
    uint64_t syscall_address;   // of a `syscall` instruction in it, and a return behind it
    uint64_t sigreturn_address; // of the code that handlers of signals return to
    nsec_t deadline;            // CLOCK_MONOTONIC; nothing here waits longer
    struct user_regs_struct saved;
    uint64_t frame; // on its own stack: what system calls return to
    uint64_t saved_mask;
    uint8_t vector_state[TRACEE_STATE_MAX];
    size_t vector_size;
    int swallowed_stop; // SIGSTOP and its like that came meanwhile: 0 or the signal
    bool changed;       // registers are not those that were saved
    bool is_late;       // a call is not done: it is left to the thread
};

// SIGCHLD is blocked in the caller of all of these.

// Seizes and stops the thread. 0, -ESRCH, -EPERM, -ETIMEDOUT, or -EBUSY: it is stopped by others.
int tracee_stop(int tid, nsec_t deadline, struct tracee *ret);

// Whether the thread, stopped, is in a restartable sequence (rseq(2)), or may be.
bool tracee_is_in_sequence(const struct tracee *tracee);

// Before the first call: saves what is to be given back and blocks signals.
int tracee_borrow(struct tracee *tracee, int mem_fd, uint64_t syscall_address,
                  uint64_t sigreturn_address);

// A system call in the thread; a negative errno of this side or of the call.
int64_t tracee_syscall(struct tracee *tracee, long number, const uint64_t args[6]);

// A function, on the stack that ends at `stack_top`; what it returns is lost. -EFAULT: it crashed;
// -ETIMEDOUT: it is not done, and nothing but tracee_release() may follow.
int tracee_call(struct tracee *tracee, uint64_t function, uint64_t stack_top,
                const uint64_t args[2]);

void tracee_release(struct tracee *tracee);
