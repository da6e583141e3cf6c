// SPDX-License-Identifier: Apache-2.0
//
// What an object defines, looked up in its own tables: dlopen() would run the constructors of
// whatever is not ready yet, with nothing of what they need.
#pragma once

#include <link.h>

// The address of the function, in the version that programs are linked with today; NULL: the object
// does not define it.
void *definition_find(const struct dl_phdr_info *object, const char *name);
