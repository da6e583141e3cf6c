// SPDX-License-Identifier: Apache-2.0
//
// One note for the whole process: it asked for memory and got none.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Notes that memory was refused. Returns -ENOMEM. Containers of common/ call it themselves.
int memory_refused(void);

// Whether that has ever happened.
bool memory_was_refused(void);

// As calloc() and malloc(), with the note.
void *memory_calloc(size_t n, size_t size);
void *memory_malloc(size_t size);
