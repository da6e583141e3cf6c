// SPDX-License-Identifier: Apache-2.0
//
// Looks a function up in the object's own tables. dlopen() cannot be used: it would run the
// constructors of objects whose dependencies are not ready yet.
#pragma once

#include <link.h>

// Returns the address of the function `name`, in the version that programs are linked with today,
// or NULL if the object does not define it.
void *definition_find(const struct dl_phdr_info *object, const char *name);
