// SPDX-License-Identifier: Apache-2.0
//
// ftrace events. Each becomes a row (see ftrace_rows.h). Further effects (a slice, a counter, a new
// process) depend on the event's subject: binder, interrupts, memory and so on.
//
// A subject is a file with a const struct ftrace_subject, and a row in meson.build of this folder.
// No other code refers to the subject. An event belongs to one subject at most, whose forms
// (forms.h) describe the effects of the event.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/ftrace/forms.h"
#include "converter/import/ftrace/ftrace_event.h"
#include "converter/import/importer.h"

struct ftrace_subject {
    const struct ftrace_form *forms; // the last row is all zero
    size_t state_size;               // bytes of state for each machine, zeroed at the start
    size_t n_maps; // number of struct map64 at the start of the state; released by ftrace.c
    void (*done)(void *state); // releases the rest of the state; may be NULL
    bool without_pid;          // events may lack the pid; a missing pid is 0
};

// The rows of meson.build; the last row is NULL.
extern const struct ftrace_subject *const ftrace_subjects[];

#define N_FTRACE_COUNTS 8

// The kernel's counts for a CPU, as a sequence has them in FtraceStats.
struct ftrace_cpu {
    int64_t begin[N_FTRACE_COUNTS]; // in the order of ftrace_stats.c; valid if has_begin
    bool has_begin;
    int64_t loss; // lost events from begin to end; -1: begin and end are not both known
};

VEC_DEFINE(ftrace_cpu_vec, struct ftrace_cpu);

// State of the importer for one machine.
struct ftrace_machine {
    struct ftrace *all; // shared by all machines; owned by the host's state
    bool owns_all;
    bool keeps_old;    // the recording includes events from before its start
    struct map64 told; // sequences whose failed events are in the log already
    struct ftrace_cpu_vec cpus;
    struct map64 cpu_places; // sequence and CPU -> place in cpus
    struct map64 cpus_shown; // CPU -> place in cpus of the counts in the table stats
    int64_t drop_before;     // ns; older events are from before the recording
    int64_t rows_before;     // ns; older events only get a row
    void **own;              // owned: states of subjects
};

extern const struct importer importer_ftrace;

// Returns the state of another subject for the current machine.
void *ftrace_state(const struct import *im, const struct ftrace_subject *subject);

// Returns the type of the event with this number; NULL if the schema lacks the event.
const struct ftrace_event_type *ftrace_type(const struct import *im, uint32_t number);

// Writes a row of an event; `args` in the order of its fields. The row is valid until the next row.
struct cell *ftrace_event_write(struct import *im, int64_t ts, uint32_t cpu, int64_t utid,
                                const struct ftrace_event_type *type, const struct arg *args,
                                size_t n_args);

// Handle compact scheduling events. `row_only`: the event only gets a row.
void ftrace_compact_switch(struct import *im, const struct bundle_event *record, bool row_only);
void ftrace_compact_waking(struct import *im, const struct bundle_event *record, bool row_only);

// Ends the slice of the thread's write(2) into trace_marker.
void ftrace_end_write(struct import *im, const struct ftrace_event *event);
