// SPDX-License-Identifier: Apache-2.0
//
// Counts the problems of a trace in the stats table.
#pragma once

#include "converter/decode/trace.h"
#include "converter/import/stats.h"

// Counts a problem; enum trace_problem describes `detail`.
void problem_count(struct stats *stats, enum trace_problem problem, uint32_t detail);
