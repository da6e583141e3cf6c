// SPDX-License-Identifier: Apache-2.0
//
// Modules of the library as ordinary tables of a database: `mmsql convert --include`.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"

struct sql_packages;
struct sqlite3;

// Checks that each of `n` patterns matches a module. Returns 0 or -ENOENT with text.
int modules_check(const struct sql_packages *packages, const char *const *patterns, size_t n,
                  struct err *err);

// Includes the modules, and copies their public tables and views into ordinary tables of the
// database. Tables of an earlier call are replaced; the other tables of the database stay. The
// table `stored_module_table` has the names of the copies. `ret_empty` gets the patterns whose
// modules have no table or view, separated by commas. Returns 0 or a negative errno with text.
int modules_store(struct sqlite3 *handle, struct sql_packages *packages,
                  const char *const *patterns, size_t n, struct strbuf *ret_empty, struct err *err);
