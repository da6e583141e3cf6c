// SPDX-License-Identifier: Apache-2.0
//
// The functions that replace functions of the allocator and of the loader.
#pragma once

#include <stddef.h>

#include "producer/agents/heap/got.h"

extern struct got_hook hooks_table[];
extern const size_t hooks_n;

// Finds the real functions. Call it before the first walk over the objects.
void hooks_resolve(void);
void hooks_resolve_all(struct got_hook *hooks, size_t n);
// Returns the program's malloc. Call it after hooks_resolve().
const void *hooks_allocator(void);
