// SPDX-License-Identifier: Apache-2.0
//
// The traces of a conversion.
#pragma once

#include "converter/cli/conversion_run.h"

// Converts a trace. Borrows `content`; sets source->trace_id. Returns 0 if the trace was converted,
// or was left out with a message. Returns -EDQUOT with text if the budget has no room for any part
// of the trace; the working file is then unchanged. Returns another negative errno with text on
// failure.
int run_convert_trace(struct run *run, const struct content *content, struct source *source);
