// SPDX-License-Identifier: Apache-2.0
//
// MMTRACE_HEAP_LIBRARY is ignored in a program with more rights than its user.
#include "producer/sources/heap/heap_library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "producer/heap/agent_options.h"
#include "producer/heap/heap_abi.h"

static int take(char *ret, size_t ret_size, const char *dir, const char *below)
{
    int n = snprintf(ret, ret_size, "%s%s", dir, below);
    return n > 0 && (size_t)n < ret_size && access(ret, R_OK) == 0 ? 0 : -ENOENT;
}

static int find(char *ret, size_t ret_size, const char *below_build, const char *file)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = 0;
        if (take(ret, ret_size, self, below_build) == 0)
            return 0;
    }
    return take(ret, ret_size, MMTRACE_LIBDIR, file);
}

int heap_library_find(char *ret, size_t ret_size)
{
    const char *variable = secure_getenv("MMTRACE_HEAP_LIBRARY");
    if (variable)
        return take(ret, ret_size, variable, "");
    return find(ret, ret_size, "/agents/heap/" HEAP_LIBRARY_FILE, "/" HEAP_LIBRARY_FILE);
}

int java_library_find(char *ret, size_t ret_size)
{
    return find(ret, ret_size, "/agents/jvm/" AGENT_LIBRARY_FILE, "/" AGENT_LIBRARY_FILE);
}

int screen_library_find(char *ret, size_t ret_size)
{
    return find(ret, ret_size, "/mmscreen.so", "/mmscreen.so");
}
