// SPDX-License-Identifier: Apache-2.0
//
// Tables with trace_processor's rows, where the rows of mmsql's tables differ on purpose.
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct sqlite3;

// Makes temporary views with trace_processor's rows for the tables and views whose rows differ in
// mmsql. The views have the same names, and hide the tables. Tables that the database does not have
// are left out. Returns 0, -ENOMEM, or -EINVAL with the reason in sqlite3_errmsg().
int compat_views_make(struct sqlite3 *handle);

// Returns true if compat_store() has changed the database.
bool compat_is_stored(struct sqlite3 *handle);

// Changes the rows of these tables and views in the database itself. A second call changes the rows
// that were added after the first. Returns 0 or a negative errno with text.
int compat_store(struct sqlite3 *handle, struct err *err);
