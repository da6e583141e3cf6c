// SPDX-License-Identifier: Apache-2.0
//
// Converts a trace into rows.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "converter/decode/trace.h"
#include "converter/tables/database.h"

// Converts all of `input` into `db`. The caller finishes `db`. Returns 0, or a negative errno and
// *err. Damage in the trace is not an error: see *ret and the stats table.
int import_trace(struct database *db, struct input *input, const char *spill_folder,
                 bool (*progress)(void *userdata, double done), void *userdata, struct err *err,
                 struct trace_result *ret);
