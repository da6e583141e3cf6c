// SPDX-License-Identifier: Apache-2.0
//
// Whether a process still lives, by /proc/PID/stat. A process id alone says little: another process
// may have it by now, and a process that has ended keeps it until its parent has asked for the
// exit code, which some parents never do.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_life {
    uint64_t start_ticks; // since boot; with the id, this tells a process from all others
    bool ended; // it is ending, or waits to be reaped: it runs no code of its own any more
};

// False: `proc` shows no such process.
bool process_life_read(const char *proc, pid_t pid, struct process_life *ret);
