// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong in a trace, as rows of the stats table.
#pragma once

#include "converter/decode/trace.h"
#include "converter/import/stats.h"

// Counts a problem; `detail` is what trace.h says for it.
void problem_count(struct stats *stats, enum trace_problem problem, uint32_t detail);
