// SPDX-License-Identifier: Apache-2.0
//
// Restrictions that a program takes on before it reads untrusted input: no system calls that a
// parser does not need (seccomp), and no files that the program does not need (Landlock). Both
// restrictions hold for this process and for all processes that it starts later, and cannot be
// undone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

enum {
    SANDBOX_RUNS_PROGRAMS = 1, // the program starts other programs and signals them
};

// Returns false if MMTRACE_SANDBOX=off is in the environment.
bool sandbox_is_wanted(void);

// Returns whether `r`, a failure of a function below, means that the kernel lacks the feature or
// that the environment (a container) forbids it. The program then continues without the sandbox.
// After any other failure (memory, descriptors) the program must end: it must not continue
// unprotected in silence.
bool sandbox_is_unavailable(int r);

// From now on system calls fail with EPERM if they run programs, make processes, trace or write to
// other processes, open sockets, mount, load modules, change user or namespaces, set clocks, or put
// characters into terminals. Sets no_new_privs. Returns 0 or a negative errno: -EOPNOTSUPP if the
// kernel or this machine type has no filters.
int sandbox_calls(unsigned flags);

// From now on the calling thread can open files only with O_NONBLOCK. Code that opens files for a
// library chooses the files that get the flag. Returns as sandbox_calls().
int sandbox_opens(void);

// sandbox_calls() for a service that traces other processes and starts helpers: denies mounts,
// namespaces, modules, other parts of the kernel, and clocks.
int sandbox_service(void);

// From now on the process can only compute, move bytes between open descriptors, close descriptors,
// and exit. All other system calls fail with EPERM. Returns as sandbox_calls().
int sandbox_shuffles(void);

// Limits the process's memory without a file (RLIMIT_DATA, a soft limit that the process may raise
// again). A lower existing limit stays. Returns the limit in force in bytes, or UINT64_MAX if there
// is no limit. Changes nothing under sanitizers.
uint64_t sandbox_data(uint64_t max_bytes);

VEC_DEFINE(sandbox_path_vec, const char *);

// Borrowed paths: files, and folders with their whole contents.
struct sandbox_paths {
    struct sandbox_path_vec reads, writes;
};

// From now on only these paths can be opened: `reads` for reading, `writes` also for writing,
// creation, renaming and removal. A path that cannot be opened is left out. Open descriptors stay
// open. Returns 0 or a negative errno: -EOPNOTSUPP if the kernel has no Landlock that knows renames
// between folders (5.19).
int sandbox_files(const struct sandbox_paths *paths);
