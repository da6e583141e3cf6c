// SPDX-License-Identifier: Apache-2.0
//
// Scope-bound ownership. CLEANUP(f) releases a variable when its scope ends. STEAL() moves the
// value out before the scope ends. A destructor takes NULL, returns NULL and keeps errno. Therefore
// `p = thing_free(p)` works, and an error path can use errno after a destructor ran.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(func) __attribute__((cleanup(func)))

// Evaluates to the value of `var` and leaves NULL in `var`. The receiver owns the value.
#define STEAL(var)                                                                                 \
    ({                                                                                             \
        __typeof__(var) *steal_ptr_ = &(var);                                                      \
        __typeof__(var) steal_value_ = *steal_ptr_;                                                \
        *steal_ptr_ = NULL;                                                                        \
        steal_value_;                                                                              \
    })

// Defines `void NAME(type **)` for CLEANUP() from a destructor `type *destroy(type *)`.
#define DEFINE_CLEANUP(name, type, destroy)                                                        \
    static inline void name(type **ptr)                                                            \
    {                                                                                              \
        *ptr = destroy(*ptr);                                                                      \
    }                                                                                              \
    struct cleanup_semicolon_

// Like STEAL() for file descriptors, whose empty value is -1.
static inline int steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

// Closes `fd` unless it is negative. Returns -1 always and keeps errno.
static inline int close_fd(int fd)
{
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return -1;
}

static inline void close_fdp(int *fd)
{
    *fd = close_fd(*fd);
}

static inline void freep(void *ptr)
{
    int saved = errno;
    free(*(void **)ptr);
    errno = saved;
}

static inline void fclosep(FILE **file)
{
    int saved = errno;
    if (*file)
        fclose(*file);
    *file = NULL;
    errno = saved;
}
