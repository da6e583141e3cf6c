// SPDX-License-Identifier: Apache-2.0
//
// A process with a Java VM, seen from outside: its readiness for agents, and its files, which may
// differ from ours.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

enum vm_state {
    VM_NONE,  // no VM, or not readable
    VM_DEAF,  // takes no agents (now): it starts or ends, or runs with -Xrs
    VM_READY, // takes agents
};

enum vm_state vm_process_state(pid_t pid);

struct vm_process {
    pid_t pid, own_pid; // own_pid is the pid in the innermost of its namespaces
    uid_t uid;          // effective user; gid too
    gid_t gid;
    int pidfd;            // owned; -1: the kernel has no pidfds
    int root_fd, tmp_fd;  // owned: its root, and /tmp there
    char agent[PATH_MAX]; // path of its loaded agent, as the VM sees it; "": none
};

// Opens the process. Returns 0: then vm_process_close() must be called; -ESRCH if there is no such
// process; -ENOEXEC if the process is not a VM, or is a VM that the request would kill; or another
// negative errno.
int vm_process_open(pid_t pid, struct vm_process *ret, struct err *err);
void vm_process_close(struct vm_process *vm);

// Returns whether `path` is the same file in the VM's root and here.
bool vm_process_sees(const struct vm_process *vm, const char *path);

// Opens a folder of the VM from which a library can be loaded. Returns a descriptor (owned), with
// the folder's name there in *ret (constant), or a negative errno.
int vm_process_folder(const struct vm_process *vm, const char **ret);

// vm_process_become() takes the effective ids of the VM's user. vm_process_become_self() returns to
// this process's ids. Call these functions only in a process with one thread.
void vm_process_become(const struct vm_process *vm);
void vm_process_become_self(void);
