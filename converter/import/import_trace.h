// SPDX-License-Identifier: Apache-2.0
//
// A trace becomes rows.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "converter/decode/trace.h"
#include "converter/tables/database.h"

// Converts the whole of `input` into `db`, which it does not finish. Damage in the trace is no
// failure: see *ret and the stats table.
int import_trace(struct database *db, struct input *input, const char *spill_folder,
                 bool (*progress)(void *userdata, double done), void *userdata, struct err *err,
                 struct trace_result *ret);
