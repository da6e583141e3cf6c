// SPDX-License-Identifier: Apache-2.0
//
// Samples of all profilers, in one form: a thread, a CPU, a call chain, and the counters that were
// read with the sample.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/tracks.h"

struct import;

#define SAMPLE_COUNTERS_MAX 32 // counters that are read with one sample

struct session {
    uint32_t sequence_id;
    const char *source, *unit; // borrowed like a cell's text, or NULL
    const char *cmdline;       // borrowed like a cell's text, or NULL
};
VEC_DEFINE(session_vec, struct session);

struct samples {
    struct strset tasks, executions; // as bytes; ids are row ids
    struct map64 by_sequence;        // machine, kind of source and sequence -> session
    struct session_vec sessions;
    int64_t n_counter_sets;
};

#define SAMPLE_NONE (-1)

struct sample {
    int64_t ts;
    const char *source;                    // borrowed like a cell's text, or NULL
    int64_t utid, upid, async;             // SAMPLE_NONE: not known
    int64_t cpu;                           // SAMPLE_NONE: not known
    const char *cpu_mode;                  // static, NULL: not known
    int64_t callsite, session;             // SAMPLE_NONE: none
    const char *unwind_error;              // static or NULL
    int64_t priority;                      // of the process; 0: usual or not known
    int64_t counters[SAMPLE_COUNTERS_MAX]; // ids of rows of counter
    size_t n_counters;
};

void sample_write(struct import *im, const struct sample *sample);

// Returns the session of a sequence; creates a new session if needed (*ret_new). `source` is static
// or in strings.
int64_t samples_session(struct import *im, const char *source, uint32_t sequence_id, bool *ret_new);

// Adds a session that belongs to no sequence. Returns its number, or SAMPLE_NONE.
int64_t samples_session_add(struct import *im, struct session session);

// Sets the unit of the session's timebase, unless it is known. `unit` is static or in strings.
void samples_set_unit(struct import *im, int64_t session, const char *unit);
