// SPDX-License-Identifier: Apache-2.0
//
// A process is known by its id and the moment when it started, within its namespace.
#include "producer/sources/heap/heap_owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_FIELD 22 // of /proc/PID/stat
#define NAME_FIELD  2

static uint64_t start_ticks(int32_t pid)
{
    char text[1024] = "";
    snprintf(text, sizeof(text), "/proc/%d/stat", pid);
    FILE *file = fopen(text, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = 0;
    char *at = strrchr(text, ')'); // the name before it may hold anything
    for (int field = NAME_FIELD; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

struct heap_owner heap_owner_self(void)
{
    return (struct heap_owner){
        .pid_namespace = pid_namespace(),
        .start_ticks = start_ticks(getpid()),
        .pid = getpid(),
    };
}

bool heap_owner_is_gone(const struct heap_owner *owner)
{
    return owner->pid > 0 && owner->start_ticks && owner->pid_namespace &&
           owner->pid_namespace == pid_namespace() && start_ticks(owner->pid) != owner->start_ticks;
}
