// SPDX-License-Identifier: Apache-2.0
//
// Lines of a perf map, and of its file of times.
#pragma once

#include <stdint.h>

#include "converter/ground/lines.h"

#define PERF_MAP_NAME_MAX ((size_t)4096) // bytes of a name that are kept

struct perf_map_symbol {
    uint64_t start, size;
    struct span name; // borrowed from the line, at most PERF_MAP_NAME_MAX bytes
};

// Reads a symbol. `line`: from lines_next(), not empty. Returns NULL or an error text.
const char *perf_map_symbol_read(struct span line, struct perf_map_symbol *ret);

// Code that was created, or freed (has_size is false).
struct perf_map_time {
    int64_t ts; // CLOCK_BOOTTIME (ns); 0: not known
    uint64_t start, size;
    bool has_size;
};

const char *perf_map_time_read(struct span line, struct perf_map_time *ret);
