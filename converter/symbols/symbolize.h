// SPDX-License-Identifier: Apache-2.0
//
// Symbolization: frames get names and source lines from ELF files.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct sqlite3;

// Returns true if this program is built with libdw.
bool symbolize_is_built_in(void);

// Looks up all frames without symbols. A file must have the mapping's build id. Files are searched
// in `folders` (by build id, by path, by name), in the system's folder of debug data, and at the
// mapping's path. Files of mappings without a build id are searched in `folders` alone. The
// database must not be in a transaction and must have no temporary tables. Returns 0 or a negative
// errno with text.
int symbolize(struct sqlite3 *handle, const char *const *folders, size_t n_folders,
              bool (*goes_on)(void *userdata), void *userdata, struct err *err);
