// SPDX-License-Identifier: Apache-2.0
//
// Names of C++ functions as people write them, by a C++ runtime's own function for that.
#pragma once

#include <stddef.h>

// __cxa_demangle().
typedef char *(*mangled_read_fn)(const char *name, char *buffer, size_t *size, int *status);

// A readable form of `name`, freed by the caller; NULL: it is no mangled name.
char *mangled_read(const char *name, mangled_read_fn read);
