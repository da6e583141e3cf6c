// SPDX-License-Identifier: Apache-2.0
//
// The short summary of a heap profile: the functions that allocated most.
#pragma once

#include <stdio.h>

#include "common/err.h"

// Reads the last dump of the trace at `path` and prints a table to `out`, unless `out` is NULL.
// *ret_processes is the number of processes with a profile. Returns 0 or a negative errno with
// text.
int heap_summary_print(const char *path, FILE *out, size_t *ret_processes, struct err *err);
