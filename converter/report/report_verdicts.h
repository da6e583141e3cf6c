// SPDX-License-Identifier: Apache-2.0
//
// The verdicts that a report shows.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "converter/verdict/verdict.h"

struct sqlite3;

// Appends the verdict of each trace of a database. With `logs_too`, a database that has logs of
// Java allocations and no trace gets one verdict, whose trace_id is -1 and whose sentence names the
// contents of the logs. `name` begins the text of a failure. Returns 0, -ENOENT if nothing was
// appended, or another negative errno, with text.
int report_verdicts_make(struct sqlite3 *handle, const char *name, bool logs_too,
                         struct verdict_vec *ret, struct err *err);
