// SPDX-License-Identifier: Apache-2.0
//
// The functions and source lines of a trace that were found after the recording (ModuleSymbols).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/text.h"
#include "common/vec.h"
#include "common/wire.h"

VEC_DEFINE(text_vec, struct text);

#define SYMBOL_LINES_MAX 64 // functions inlined into each other; further ones are left out

// Messages stay in place in the trace. All zero is empty.
struct trace_symbols {
    struct text_vec addresses; // AddressSymbols
    struct map64 index;        // hash of build id and address -> index in `addresses`
};

struct symbol_line {
    struct text function, file; // `file` is empty if it is not known
    uint64_t line;              // 0: not known
};

// Takes the ModuleSymbols of a packet, if there are any, into the struct trace_symbols `symbols`.
// Returns 0 or -ENOMEM. Fit for trace_packets_read().
int trace_symbols_take(void *symbols, struct wire_reader packet);

// Gets the functions at an address of a file, outermost first; each function but the first is
// inlined into the one before. Returns their number; 0: not known.
size_t trace_symbols_find(const struct trace_symbols *symbols, struct text build_id,
                          uint64_t address, struct symbol_line ret[SYMBOL_LINES_MAX]);

void trace_symbols_done(struct trace_symbols *symbols);
