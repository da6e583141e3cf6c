// SPDX-License-Identifier: Apache-2.0
//
// Readable names of C++ functions, if a C++ runtime is installed. The runtime is loaded with the
// first name, because recording does not need it.
#pragma once

#include <stddef.h>

struct demangler {
    void *library; // owned; all zero at the beginning
    char *(*read)(const char *name, char *buffer, size_t *size, int *status);
};

void demangler_done(struct demangler *demangler);

// Returns a readable form of `name`, which the caller frees, or NULL if there is none.
char *demangler_read(struct demangler *demangler, const char *name);
