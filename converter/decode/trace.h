// SPDX-License-Identifier: Apache-2.0
//
// Reads a trace for a handler.
#pragma once

#include "converter/decode/trace_handler.h"

// Returns the meaning of a problem for a packet: "its ... cannot be read"; NULL for problems that
// are not damage.
const char *trace_problem_text(enum trace_problem problem);

// Reads the whole `input`. `spill_folder`: the folder of temporary files. Returns 0 or a negative
// errno with text. Damage is not a failure: *ret reports the damage.
int trace_read(struct input *input, const char *spill_folder, const struct trace_handler *handler,
               struct clocks *clocks, struct err *err, struct trace_result *ret);
