// SPDX-License-Identifier: Apache-2.0
//
// A line of a perf map, and of the times beside it.
#pragma once

#include <stdint.h>

#include "converter/import/files/lines.h"

#define PERF_MAP_NAME_MAX ((size_t)4096) // bytes of a name that are kept

struct perf_map_symbol {
    uint64_t start, size;
    struct span name; // borrowed from the line, at most PERF_MAP_NAME_MAX bytes
};

// `line` as lines_next() gives it, not empty. NULL, or what is wrong with it.
const char *perf_map_symbol_read(struct span line, struct perf_map_symbol *ret);

// Code that was made or given up (has_size is false).
struct perf_map_time {
    int64_t ts; // CLOCK_BOOTTIME (ns); 0: nobody knows
    uint64_t start, size;
    bool has_size;
};

const char *perf_map_time_read(struct span line, struct perf_map_time *ret);
