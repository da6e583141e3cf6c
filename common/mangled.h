// SPDX-License-Identifier: Apache-2.0
//
// Readable names of mangled C++ functions, by the C++ runtime's __cxa_demangle().
#pragma once

#include <stddef.h>

// The type of __cxa_demangle().
typedef char *(*mangled_read_fn)(const char *name, char *buffer, size_t *size, int *status);

// Returns a readable form of `name` (owned by the caller), or NULL if `name` is not mangled.
char *mangled_read(const char *name, mangled_read_fn read);
