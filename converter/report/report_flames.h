// SPDX-License-Identifier: Apache-2.0
//
// The call stacks of a trace, or the difference of two, as JSON.
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "converter/report/report_data.h"

// Writes an array of flame graphs: of the heaps that allocated most, of sampling profilers, and of
// logs of Java allocations. Returns 0 or a negative errno with text.
int report_flames_write(const struct report_trace *trace, FILE *out, struct err *err);

// Writes an array of differences: the heaps of two traces, and their samples. A kind that one of
// the traces lacks is left out.
int report_flames_compare(const struct report_trace *before, const struct report_trace *after,
                          FILE *out, struct err *err);
