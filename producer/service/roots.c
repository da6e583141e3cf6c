// SPDX-License-Identifier: Apache-2.0
//
// tracefs has a separate mount point since Linux 4.1. Before, and on some machines still, tracefs
// is below debugfs. An existing mount is preferred to a new mount.
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

// The first place is preferred.
static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

const char *source_roots_tracefs(void)
{
    for (size_t i = 0; i < ELEMENTS(places); i++)
        if (is_tracefs(places[i]))
            return places[i];
    return NULL;
}

void source_roots_find(struct source_roots *ret)
{
    *ret = (struct source_roots){.proc = "/proc", .sys = "/sys", .tracefs = source_roots_tracefs()};
    if (!ret->tracefs &&
        mount("tracefs", places[0], "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        ret->tracefs = places[0];
}
