// SPDX-License-Identifier: Apache-2.0
//
// Scope-bound ownership. A variable marked CLEANUP(xp) is released when its scope ends; STEAL()
// hands its value out first. Destructors take NULL, return NULL and keep errno, so that `p =
// thing_free(p)` and an error path that still needs errno both read naturally.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(func) __attribute__((cleanup(func)))

// Evaluates to the value of `var` and leaves NULL in it: ownership moves to whoever reads the
// result.
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

// Closes `fd` if it is one; always returns -1, errno untouched.
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
