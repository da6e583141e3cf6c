// SPDX-License-Identifier: Apache-2.0
//
// An allocator that fails on request, for programs that are linked with failing_memory_dep.
// Included by one file of a program.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The number of allocations that succeed before one fails. SIZE_MAX: none fails.
static size_t n_until_failure = SIZE_MAX;

static bool fails_now(void)
{
    if (n_until_failure == SIZE_MAX)
        return false;
    return n_until_failure-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails_now() ? NULL : __real_realloc(p, size);
}
