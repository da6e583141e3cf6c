// SPDX-License-Identifier: Apache-2.0
//
// Tables as trace_processor has them, where mmsql's differ on purpose.
#pragma once

#include <stdbool.h>

#include "common/err.h"

struct sqlite3;

// Makes temporary views with trace_processor's rows for the tables and views whose rows differ in
// mmsql. The views have the same names, and hide the tables. Tables that the database does not have
// are left out. Returns 0, -ENOMEM, or -EINVAL: sqlite3_errmsg() says why.
int compat_views_make(struct sqlite3 *handle);

// True if compat_store() changed the database.
bool compat_is_stored(struct sqlite3 *handle);

// Gives these tables and views trace_processor's rows in the database itself. A second call
// changes the rows that came since. Returns 0 or a negative errno with text.
int compat_store(struct sqlite3 *handle, struct err *err);
