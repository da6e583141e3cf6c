// SPDX-License-Identifier: Apache-2.0
//
// Whether a process still lives, by /proc/PID/stat. The pid alone is not enough: another process
// may have the same pid by now. And a process that has ended keeps its pid until its parent asks
// for the exit code, which some parents never do.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_life {
    uint64_t start_ticks; // since boot; with the pid, identifies a process
    bool ended;           // it is ending or waits to be reaped: it runs no code of its own any more
};

// Returns false if `proc` shows no such process.
bool process_life_read(const char *proc, pid_t pid, struct process_life *ret);
