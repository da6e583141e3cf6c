// SPDX-License-Identifier: Apache-2.0
//
// The variable is not looked at in a program with more rights than its user.
#include "producer/sources/heap/heap_library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "producer/agents/heap/heap_abi.h"

static int take(char *ret, size_t ret_size, const char *dir, const char *below)
{
    int n = snprintf(ret, ret_size, "%s%s", dir, below);
    return n > 0 && (size_t)n < ret_size && access(ret, R_OK) == 0 ? 0 : -ENOENT;
}

int heap_library_find(char *ret, size_t ret_size)
{
    char self[PATH_MAX];
    const char *variable = secure_getenv("MMTRACE_HEAP_LIBRARY");
    if (variable)
        return take(ret, ret_size, variable, "");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = 0;
        if (take(ret, ret_size, self, "/agents/heap/" HEAP_LIBRARY_FILE) == 0)
            return 0;
    }
    return take(ret, ret_size, MMTRACE_LIBDIR, "/" HEAP_LIBRARY_FILE);
}
