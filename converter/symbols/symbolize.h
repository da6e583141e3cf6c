// SPDX-License-Identifier: Apache-2.0
//
// Frames get the names and source lines that ELF files have for them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct sqlite3;

// Whether this program is built with what it takes.
bool symbolize_is_built_in(void);

// Looks up the frames that have no symbols yet. A file counts if it has the mapping's build id; it
// is looked for in `folders` (by build id, by path, by name), in the system's folder of debug data
// and where the mapping says. Mappings without a build id are looked for in `folders` alone. The
// database is not in a transaction, and has no temporary tables.
int symbolize(struct sqlite3 *handle, const char *const *folders, size_t n_folders,
              bool (*goes_on)(void *userdata), void *userdata, struct err *err);
