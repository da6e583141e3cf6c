// SPDX-License-Identifier: Apache-2.0
//
// What a program gives up before it reads what strangers wrote: system calls that no parser needs
// (seccomp), and files that are none of its business (Landlock). Both hold for this process and
// all that it starts from then on, and cannot be undone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

enum {
    SANDBOX_RUNS_PROGRAMS = 1, // it starts other programs, and signals them
};

// Whether the user wants one: MMTRACE_SANDBOX=off in the environment switches it off.
bool sandbox_is_wanted(void);

// Whether a function below failed because the kernel does not have it, or because the surroundings
// (a container) forbid it: then the program goes on without. Any other failure, for want of memory
// or descriptors, is a reason to end: its caller must not go on unguarded in silence.
bool sandbox_is_unavailable(int r);

// From here on these calls fail with EPERM: those that run programs, make processes, trace or write
// to others, open sockets, mount, load modules, change user or namespaces, set clocks, put
// characters into terminals. Sets no_new_privs. 0, or a negative errno: -EOPNOTSUPP where the
// kernel or this type of machine has no filters.
int sandbox_calls(unsigned flags);

// For the calling thread: files can be opened only without waiting (O_NONBLOCK). Who opens for a
// library decides which files those are. Returns as sandbox_calls().
int sandbox_opens(void);

// The same for a service that traces other processes and starts helpers: mounts, namespaces,
// modules, other parts of the kernel, clocks.
int sandbox_service(void);

// From here on only calls that move bytes between open descriptors, close them and end the process;
// all others fail with EPERM. Returns as sandbox_calls().
int sandbox_shuffles(void);

// Bounds the memory that this process may take without a file behind it (RLIMIT_DATA, which its
// owner may raise again). A lower limit stays. Returns the limit in force, UINT64_MAX for none;
// under sanitizers nothing is changed.
uint64_t sandbox_data(uint64_t max_bytes);

VEC_DEFINE(sandbox_path_vec, const char *);

// Borrowed: files, and folders with all that is in them.
struct sandbox_paths {
    struct sandbox_path_vec reads, writes;
};

// From here on only those files and folders can be opened: `reads` for reading, `writes` also for
// writing, making, renaming and removing. A path that cannot be opened is left out. What is open
// stays open. 0, or a negative errno: -EOPNOTSUPP where the kernel has no Landlock that knows
// renaming from one folder into another (5.19).
int sandbox_files(const struct sandbox_paths *paths);
