// SPDX-License-Identifier: Apache-2.0
//
// The target of an attachment, seen from outside: its fitness for an attachment, and the addresses
// of the needed code. Nothing here changes the process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "producer/agents/heap/attach/unsafe_code.h"

struct target_range {
    uint64_t start, end;
};

struct target {
    int pid;
    uint64_t syscall_address;   // of a `syscall` instruction with a return after it
    uint64_t sigreturn_address; // of the code that signal handlers return to
    uint64_t dlopen_address;
    uint64_t library_base; // load address of libmmheap.so; 0: not loaded
    int library_fd;        // owned; of the loaded library, which may have another version; -1: none
    uint64_t entry;        // the program's first instruction
    const char *obstacle;  // why the program's file forbids attaching; NULL: it does not
    struct target_range libc;
    dev_t device; // of the program's file
    ino_t inode;
    bool has_allocator; // the program itself defines the allocator
    struct unsafe_code unsafe;
    uint64_t libc_base;
    struct elf_symbols libc_exports; // owned; lives as long as the helper
    bool is_abandoned;               // no recorder reads the process's profile any more
    bool same_files; // the process sees the library under the same path as the helper
};

// Returns 0 if a process in this state can be attached to, else a negative errno, with the reason
// in `err`: -EALREADY if another process traces it.
int target_check(int pid, struct err *err);

// Reads the target. Call it after target_check() and after the process's memory was opened: then
// the open memory belongs to the program that is read here, or to a program that has ended since.
// Returns -EAGAIN, with a reason, if the program has not loaded its C library yet.
int target_read(int pid, const char *library, struct target *ret, struct err *err);

// Finds the library after it has been loaded. Sets library_base and returns 0, or returns -ENOENT.
int target_find_library(struct target *target);

// Returns whether the process has loaded a library whose file name begins with `name`, at any time
// since its start. A copy in a memfd counts by the memfd's name.
bool target_has_library(const struct target *target, const char *name);

// Returns whether the stack pointer is in the main stack, or in a stack that a thread was started
// with (which has the thread's own data at its end) with `room` bytes below.
bool target_is_own_stack(const struct target *target, uint64_t stack_pointer,
                         uint64_t thread_pointer, uint64_t room);

// Returns whether the thread may be stopped. False for a thread in an uninterruptible wait in the
// kernel, because it would hold up all others, and for a thread in a strict seccomp jail.
bool target_may_stop(const struct target *target, int tid);

// Returns the number of seccomp filters of the process, or -1 if its threads have different
// numbers: some entered a jail of their own.
int target_n_filters(const struct target *target);

// Returns the address of function `name`, relative to the base of the file, or 0 if the file does
// not have the function. `fd` is borrowed.
uint64_t target_symbol(int fd, const char *name);
