// SPDX-License-Identifier: Apache-2.0
//
// A conversion appends to texts, sets and lists at a thousand places. Most of these places cannot
// report that memory ran out, and continue with less data: the result would be wrong. Therefore the
// containers record each failed allocation here, and the code that publishes a result checks once.
// This flag is the only process-wide state of common/: a lack of memory concerns the process, not
// an object.
#include "common/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool refused;

int memory_refused(void)
{
    atomic_store_explicit(&refused, true, memory_order_relaxed);
    return -ENOMEM;
}

bool memory_was_refused(void)
{
    return atomic_load_explicit(&refused, memory_order_relaxed);
}

static void *noted(void *memory)
{
    if (!memory)
        memory_refused();
    return memory;
}

void *memory_calloc(size_t n, size_t size)
{
    return noted(calloc(n, size));
}

void *memory_malloc(size_t size)
{
    return noted(malloc(size));
}
