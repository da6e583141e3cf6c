// SPDX-License-Identifier: Apache-2.0
//
// Which subject an event belongs to, and the subjects' states.
#pragma once

#include "converter/import/ftrace/ftrace.h"

#define FTRACE_TYPES_MAX 1024 // numbers of events that the schema may know

// What follows from an event beyond its row: a handler or forms. All zero: nothing.
struct ftrace_bound {
    const struct ftrace_handler *handler;
    uint16_t first_form, n_forms;
    uint8_t subject; // index in ftrace_subjects
};

// All zero is empty.
struct subjects {
    struct ftrace_bound bound[FTRACE_TYPES_MAX]; // by the event's number
    struct forms forms;
};

// Binds the tables of all subjects. 0, -ENOMEM or -EINVAL, and `err` names the row.
int subjects_bind(struct subjects *subjects, struct strset *strings, struct err *err);

// States of all subjects for one machine, by index in ftrace_subjects. NULL: no memory.
void **subject_states_make(void);
void subject_states_free(void **states);

// The index of a subject; that of the last one's end if it has no row.
size_t subject_index(const struct ftrace_subject *subject);

// After the last event of the machine at hand.
int subjects_finish(struct import *im, void **states);

void subjects_done(struct subjects *subjects);
