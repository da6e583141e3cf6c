// SPDX-License-Identifier: Apache-2.0
//
// Names of C++ functions as people write them, where there is a C++ runtime. It is loaded when the
// first name is to be read: what records has no use for it.
#pragma once

#include <stddef.h>

struct demangler {
    void *library; // owned; all zero at the beginning
    char *(*read)(const char *name, char *buffer, size_t *size, int *status);
};

void demangler_done(struct demangler *demangler);

// A readable form of `name`, freed by the caller; NULL: there is none.
char *demangler_read(struct demangler *demangler, const char *name);
