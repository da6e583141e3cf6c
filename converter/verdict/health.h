// SPDX-License-Identifier: Apache-2.0
//
// Health lines describe in plain words the data that a trace lacks. They group the statistics of
// recording and conversion (the table stats) by their meaning for the user of the database. A sound
// trace has no health lines. A ring buffer that wrapped is not a loss.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"

struct sqlite3;

#define HEALTH_LINES_MAX 4 // of each trace

enum health_kind {
    HEALTH_CUT,     // the recorder died, or there was no room
    HEALTH_DAMAGE,  // the file is cut or damaged
    HEALTH_EVENTS,  // the kernel overwrote events
    HEALTH_BUFFER,  // a buffer was full
    HEALTH_PACKETS, // gaps between packets
    HEALTH_END,     // the last flush failed
    HEALTH_HEAP,    // missing samples of a profile
    HEALTH_OTHER,   // other losses
    HEALTH_CLOCK,   // times without meaning
    HEALTH_IMPORT,  // data that the converter could not read
    N_HEALTH,
};

struct health_line {
    enum health_kind kind;
    int64_t trace_id;
    char *what; // owned; "12 packets did not fit ...: the trace lacks ..."
    char *hint; // owned; the advice
};
VEC_DEFINE(health_line_vec, struct health_line);

// Appends the health lines of the trace, the worst first. Returns 0 or a negative errno with text.
int health_read(struct sqlite3 *handle, int64_t trace_id, struct health_line_vec *ret,
                struct err *err);

void health_lines_done(struct health_line_vec *lines); // fit for CLEANUP()
