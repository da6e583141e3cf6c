// SPDX-License-Identifier: Apache-2.0
//
// The process that is to be attached to, seen from outside: whether it can be, and where what is
// needed lies in it. Nothing here touches it.
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
    uint64_t syscall_address;   // of a `syscall` instruction, and a return behind it
    uint64_t sigreturn_address; // of what handlers of signals return to
    uint64_t dlopen_address;
    uint64_t library_base; // where libmmheap.so is already; 0: it is not
    int library_fd;        // owned; of that, which may be of another version; -1
    uint64_t entry;        // the program's first instruction
    const char *obstacle;  // what its file says; NULL: nothing
    struct target_range libc, loader;
    dev_t device; // of the program's file
    ino_t inode;
    bool has_allocator; // in the program itself
    struct unsafe_code unsafe;
    uint64_t libc_base;
    struct elf_symbols libc_exports; // owned; it lives as long as the helper does
    bool is_abandoned;               // it has a profile that nobody reads any more
    bool same_files; // the library can be opened there under the path that it has here
};

// Whether a process in this state can be attached to at all. Why not is a sentence in `err`.
int target_check(int pid, struct err *err);

// After target_check() and after its memory was opened: what was opened is the memory of the
// program that is read here, or of one that has ended since.
int target_read(int pid, const char *library, struct target *ret, struct err *err);

// After it has been loaded: -ENOENT, or 0 and library_base.
int target_find_library(struct target *target);

// Whether a thread may be stopped at all: not one that waits in the kernel for what cannot be
// interrupted, and would hold up all others, nor one in a jail of its own.
bool target_may_stop(const struct target *target, int tid);

// The address of a function of the file (borrowed), relative to its base; 0: there is none.
uint64_t target_symbol(int fd, const char *name);
