// SPDX-License-Identifier: Apache-2.0
//
// The datasets of one trace as JSON.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

struct sqlite3;

struct report_trace {
    struct sqlite3 *handle; // borrowed
    int64_t trace_id, machine_id;
    int64_t start, end; // ns
    int64_t bin;        // ns; a counter has one value in each bin
    int64_t page_bytes;
};

// Reads the facts about the trace that the datasets need. `n_bins` is the resolution of the time
// axis. Returns 0 or a negative errno with text.
int report_trace_open(struct report_trace *ret, struct sqlite3 *handle, int64_t trace_id,
                      int64_t n_bins, struct err *err);

// Prepares the query of a dataset with all parameters. The caller finalizes *ret, also after a
// failure. Returns 0 or a negative errno with text.
struct report_dataset;
struct sqlite3_stmt;
int report_query(const struct report_trace *trace, const struct report_dataset *dataset,
                 struct sqlite3_stmt **ret, struct err *err);

// Runs the datasets that make temporary tables for the others. Must run once for each connection.
// Returns 0 or a negative errno with text.
int report_setup(const struct report_trace *trace, struct err *err);

// Writes an object that has a member for each dataset. Returns 0 or a negative errno with text.
int report_data_write(const struct report_trace *trace, FILE *out, struct err *err);
