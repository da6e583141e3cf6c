// SPDX-License-Identifier: Apache-2.0
//
// The report as text: the verdict, and tables.
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "converter/report/report.h"

// Prints all traces of the inputs. Returns 0, -ENOENT if an input has no trace, or another negative
// errno, with text.
int report_text_print(const struct report_input *inputs, size_t n, FILE *out, struct err *err);

// Prints the first trace of two inputs, A and B, and compares their key figures. Returns as
// report_text_print().
int report_text_compare(const struct report_input *inputs, FILE *out, struct err *err);
