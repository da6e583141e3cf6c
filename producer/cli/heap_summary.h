// SPDX-License-Identifier: Apache-2.0
//
// What a person wants to know at once: the functions that allocated most, read from the trace.
#pragma once

#include <stdio.h>

#include "common/err.h"

// Reads the last dump out of the trace at `path` and prints a table, to `out` unless that is NULL.
// *ret_processes: how many processes have a profile.
int heap_summary_print(const char *path, FILE *out, size_t *ret_processes, struct err *err);
