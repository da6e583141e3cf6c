// SPDX-License-Identifier: Apache-2.0
//
// ftrace events. Each becomes a row (see ftrace_rows.h); what else an event means (a slice, a
// counter, a new process) is up to its subject: binder, interrupts, memory and so on.
//
// A subject is one file with one const struct ftrace_subject, and one row in meson.build of this
// folder. Nothing else knows the subject. An event belongs to one subject, whose forms (forms.h)
// say what follows from the event.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/import/ftrace/forms.h"
#include "converter/import/ftrace/ftrace_event.h"
#include "converter/import/importer.h"

struct ftrace_subject {
    const struct ftrace_form *forms; // the last one is all zero
    size_t state_size;               // bytes of state for each machine, zeroed at the start
    size_t n_maps;             // the state begins with so many struct map64, which are released
    void (*done)(void *state); // releases what else the state owns; may be NULL
};

// The rows of meson.build; the last one is NULL.
extern const struct ftrace_subject *const ftrace_subjects[];

// State of the importer for one machine.
struct ftrace_machine {
    struct ftrace *all; // what all machines share; owned by the host's
    bool owns_all;
    bool keeps_old;      // the recording meant to have events from before its start
    int64_t drop_before; // events older than this are left over from before
    int64_t rows_before; // of those older than this only the rows are of use
    void **own;          // owned: states of subjects
};

extern const struct importer importer_ftrace;

// The state of another subject for the machine at hand.
void *ftrace_state(const struct import *im, const struct ftrace_subject *subject);

// The event with this number, if the schema knows it.
const struct ftrace_event_type *ftrace_type(const struct import *im, uint32_t number);

// Writes a row of an event; `args` in the order of its fields. The row is valid until the next one.
struct cell *ftrace_event_write(struct import *im, int64_t ts, uint32_t cpu, int64_t utid,
                                const struct ftrace_event_type *type, const struct arg *args,
                                size_t n_args);

// The compact forms of scheduling events. `row_only`: nothing follows from them but their row.
void ftrace_compact_switch(struct import *im, const struct bundle_event *record, bool row_only);
void ftrace_compact_waking(struct import *im, const struct bundle_event *record, bool row_only);

// The thread writes into trace_marker: its write(2) ends here.
void ftrace_end_write(struct import *im, const struct ftrace_event *event);
