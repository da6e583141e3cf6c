// SPDX-License-Identifier: Apache-2.0
//
// Readable names of mangled C++ functions. The C++ runtime's own __cxa_demangle() does the work.
#pragma once

#include <stddef.h>

// The type of __cxa_demangle().
typedef char *(*mangled_read_fn)(const char *name, char *buffer, size_t *size, int *status);

// Returns a readable form of `name`, which the caller frees, or NULL if `name` is not mangled.
char *mangled_read(const char *name, mangled_read_fn read);
