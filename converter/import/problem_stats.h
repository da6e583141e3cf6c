// SPDX-License-Identifier: Apache-2.0
//
// Counts the problems of a trace in the stats table.
#pragma once

#include "converter/decode/trace.h"
#include "converter/import/stats.h"

// Counts a problem; trace.h describes `detail`.
void problem_count(struct stats *stats, enum trace_problem problem, uint32_t detail);
