// SPDX-License-Identifier: Apache-2.0
//
// A static program loads no library. glibc's own dlopen() in a static program would load a library
// of another glibc, which may crash. The dlopen() here always fails. Without libraries, mmtrace top
// prints lines.
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *path, int flags)
{
    (void)path;
    (void)flags;
    return NULL;
}

void *dlsym(void *library, const char *name)
{
    (void)library;
    (void)name;
    return NULL;
}

int dlclose(void *library)
{
    (void)library;
    return 0;
}

char *dlerror(void)
{
    static char why[] = "a static program loads no library";
    return why;
}
