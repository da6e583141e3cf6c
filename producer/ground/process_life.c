// SPDX-License-Identifier: Apache-2.0
//
// The kernel sets the flag of an ending task before the task closes its files. Therefore a reader
// that finds a lock of the process free also finds this flag. Flag and state belong to the main
// thread. The main thread may end before the other threads: then the process still lives.
#include "producer/ground/process_life.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/str.h"
#include "producer/ground/proc_text.h"

#define TASK_IS_EXITING 0x4        // PF_EXITING
#define FIRST_NAMESPACE 0xeffffffc // PROC_PID_INIT_INO of the kernel

bool process_life_parse(const char *stat, struct process_life *ret)
{
    const char *rest = strrchr(stat, ')'); // the name in front may contain anything
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
    *ret = (struct process_life){
        .start_ticks = start,
        .ended = (strchr("ZXx", state) || (flags & TASK_IS_EXITING)) && n_threads <= 1,
    };
    return true;
}

bool process_life_read(const char *proc, pid_t pid, struct process_life *ret)
{
    char text[1024];
    text_file_span(text, sizeof(text), proc, "/%d/stat", (int)pid);
    return process_life_parse(text, ret);
}

uint64_t process_namespace(const char *proc)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s/self/ns/pid", proc);
    return n > 0 && (size_t)n < sizeof(path) && stat(path, &st) == 0 ? st.st_ino : 0;
}

bool process_ids_are_of_kernel(const char *proc)
{
    uint64_t namespace = process_namespace(proc);
    return !namespace || namespace == FIRST_NAMESPACE;
}

int32_t process_next(DIR *dir)
{
    uint32_t number;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            str_parse_u32(entry->d_name, &number) == 0 && number <= INT32_MAX)
            return (int32_t)number;
    return 0;
}
