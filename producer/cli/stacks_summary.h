// SPDX-License-Identifier: Apache-2.0
//
// The tables at the end of `mmtrace cpu` and `mmtrace faults`.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

// Reads the samples of a trace, and prints a table for each event. `out` may be NULL. `is_dwarf`:
// stacks were followed by unwind tables. Returns 0 or a negative errno with text.
int stacks_summary_print(const char *path, bool is_dwarf, FILE *out, uint64_t *ret_samples,
                         struct err *err);
