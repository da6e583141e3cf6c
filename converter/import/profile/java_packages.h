// SPDX-License-Identifier: Apache-2.0
//
// The Android app of a file, from the file's path.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// *ret: the package's name, which is part of `path` or static. False: the path has no package.
bool java_package_of(const char *path, const char **ret, size_t *ret_size);
