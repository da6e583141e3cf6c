// SPDX-License-Identifier: Apache-2.0
//
// A conversion adds to texts, sets and lists in a thousand places. Most of them have nobody to tell
// that there was no memory, and go on with less; then the answer is another one. So the containers
// note each refusal here, and whoever is about to publish an answer asks once. This is the one
// state of common/ that belongs to the process: whether it lacked memory is no fact of an object,
// and no code can put it to another use.
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
