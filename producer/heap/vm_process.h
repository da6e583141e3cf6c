// SPDX-License-Identifier: Apache-2.0
//
// A process with a Java VM in it, seen from outside: whether it takes agents, and its files, which
// may be others than ours.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

enum vm_state {
    VM_NONE,  // no VM, or nothing that may be looked at
    VM_DEAF,  // takes no agents (now): it starts or ends, or runs with -Xrs
    VM_READY, // may be asked
};

enum vm_state vm_process_state(pid_t pid);

struct vm_process {
    pid_t pid, own_pid; // the latter is the VM's own, in the innermost of its namespaces
    uid_t uid;          // that it runs with, as its group
    gid_t gid;
    int pidfd;            // owned; -1: the kernel has no such thing
    int root_fd, tmp_fd;  // owned: its root, and /tmp there
    char agent[PATH_MAX]; // the agent that it has already, as it names it; "": none
};

// 0, and vm_process_close() is called later; -ESRCH: no such process; -ENOEXEC: no VM, or one that
// would die of being asked; other negative errno.
int vm_process_open(pid_t pid, struct vm_process *ret, struct err *err);
void vm_process_close(struct vm_process *vm);

// Whether `path` is the same file there and here.
bool vm_process_sees(const struct vm_process *vm, const char *path);

// A folder of the VM's where a library can be loaded from. The descriptor (owned), and its name
// there in *ret (constant); or a negative errno.
int vm_process_folder(const struct vm_process *vm, const char **ret);

// What is done in between is done by the VM's user. Of a thread that is alone in its process.
void vm_process_become(const struct vm_process *vm);
void vm_process_become_self(void);
