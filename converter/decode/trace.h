// SPDX-License-Identifier: Apache-2.0
//
// Reads a trace for a handler.
#pragma once

#include "converter/decode/trace_handler.h"

// What a problem means for a packet: "its ... cannot be read". NULL for problems that are no
// damage.
const char *trace_problem_text(enum trace_problem problem);

// Reads the whole of `input`. `spill_folder` holds inflated packets. A damaged trace is no failure:
// see *ret.
int trace_read(struct input *input, const char *spill_folder, const struct trace_handler *handler,
               struct clocks *clocks, struct err *err, struct trace_result *ret);
