// SPDX-License-Identifier: Apache-2.0
//
// Tells from /proc/PID/stat whether a process still lives. The pid alone is not enough: another
// process may have taken over the pid. Also, an ended process keeps its pid until its parent asks
// for the exit code, and some parents never ask.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_life {
    uint64_t start_ticks; // start time since boot; with the pid, identifies a process
    bool ended;           // the process is ending or is a zombie, and runs no code of its own any
                          // more
};

// Parses /proc/PID/stat, terminated.
bool process_life_parse(const char *stat, struct process_life *ret);

// Returns false if `proc` does not show the process. The process can make the caller wait for ever:
// a recorder's loop calls process_life_in_time() (foreign/process_file.h).
bool process_life_read(const char *proc, pid_t pid, struct process_life *ret);

// Returns the PID namespace that numbers the processes of `proc`, by its inode; 0: not known.
uint64_t process_namespace(const char *proc);

// Returns whether a process has the same pid in `proc` and in the kernel's events. The pids differ
// in another PID namespace than the first, as in most containers.
bool process_ids_are_of_kernel(const char *proc);

// Returns the next process (or thread) of a folder of /proc, or 0 at the end. `dir` may be NULL.
int32_t process_next(DIR *dir);
