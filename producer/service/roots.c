// SPDX-License-Identifier: Apache-2.0
//
// tracefs has had a mount point of its own since 4.1. Before, and on some machines still, it is
// below debugfs. An existing mount is used before anything is mounted.
#include "producer/service/roots.h"

#include <stdbool.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "common/elements.h"

#define TRACEFS_TYPE 0x74726163

static bool is_tracefs(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == TRACEFS_TYPE;
}

void source_roots_find(struct source_roots *ret)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    *ret = (struct source_roots){.proc = "/proc", .sys = "/sys"};
    for (size_t i = 0; i < ELEMENTS(places) && !ret->tracefs; i++)
        if (is_tracefs(places[i]))
            ret->tracefs = places[i];
    if (!ret->tracefs &&
        mount("tracefs", places[0], "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        ret->tracefs = places[0];
}
