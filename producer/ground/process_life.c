// SPDX-License-Identifier: Apache-2.0
//
// The kernel sets the flag of an ending task before the task closes its files. So a reader who
// finds a lock of the process free also finds this flag. Flag and state are those of the main
// thread. The main thread may end before the other threads: then the process lives.
#include "producer/ground/process_life.h"

#include <stdio.h>
#include <string.h>

#define TASK_IS_EXITING 0x4 // PF_EXITING

bool process_life_read(const char *proc, pid_t pid, struct process_life *ret)
{
    char text[1024];
    *ret = (struct process_life){0};
    snprintf(text, sizeof(text), "%s/%d/stat", proc, (int)pid);
    FILE *file = fopen(text, "re");
    if (!file)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *rest = strrchr(text, ')'); // the name in front may contain anything
    char state;
    unsigned flags;
    unsigned long long start;
    long n_threads;
    // Fields 3, 9, 20 and 22.
    if (!rest || sscanf(rest + 1,
                        " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
                        "%*d %llu",
                        &state, &flags, &n_threads, &start) != 4)
        return false;
    ret->start_ticks = start;
    ret->ended = (strchr("ZXx", state) || (flags & TASK_IS_EXITING)) && n_threads <= 1;
    return true;
}
