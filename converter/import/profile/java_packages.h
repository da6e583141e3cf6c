// SPDX-License-Identifier: Apache-2.0
//
// Which Android app a file belongs to, as far as its path tells.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The package's name, which is part of `path` or static. False: the path does not tell.
bool java_package_of(const char *path, const char **ret, size_t *ret_size);
