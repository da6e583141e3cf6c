// SPDX-License-Identifier: Apache-2.0
//
// A process is known by its id and the moment when it started, within its namespace.
#include "producer/sources/heap/heap_owner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_FIELD 22 // of /proc/PID/stat
#define NAME_FIELD  2

// 0: it cannot be read.
static uint64_t start_ticks(const char *proc, int32_t pid)
{
    char text[1024] = "";
    snprintf(text, sizeof(text), "%s/%d/stat", proc, pid);
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
        .start_ticks = start_ticks("/proc", getpid()),
        .pid = getpid(),
    };
}

bool heap_owner_is_gone(const char *proc, const struct heap_owner *owner)
{
    if (owner->pid <= 0 || !owner->start_ticks || !owner->pid_namespace ||
        owner->pid_namespace != pid_namespace())
        return false;
    uint64_t ticks = start_ticks(proc, owner->pid);
    if (ticks == 0) // nobody has the id, or somebody who is hidden
        return kill(owner->pid, 0) < 0 && errno == ESRCH;
    return ticks != owner->start_ticks;
}
