// SPDX-License-Identifier: Apache-2.0
//
// The functions that take the place of the allocator's and of the loader's.
#pragma once

#include <stddef.h>

#include "producer/agents/heap/got.h"

extern struct got_hook hooks_table[];
extern const size_t hooks_n;

// Finds the real functions. Before the first walk over the objects.
void hooks_resolve(void);
void hooks_resolve_all(struct got_hook *hooks, size_t n);
// The program's malloc. After hooks_resolve().
const void *hooks_allocator(void);
