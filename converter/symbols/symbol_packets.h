// SPDX-License-Identifier: Apache-2.0
//
// The symbols of a database's frames as packets of a trace (ModuleSymbols). Every reader of
// Perfetto's traces takes these packets behind the packets of the trace.
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

struct sqlite3;

// Writes a packet for the symbols of each file, which has a build id. *ret_n: the addresses with
// symbols. The caller checks `out` for failures. Returns 0 or a negative errno with text.
int symbol_packets_write(struct sqlite3 *handle, FILE *out, size_t *ret_n, struct err *err);
