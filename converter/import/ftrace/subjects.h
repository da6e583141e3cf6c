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

struct subject_states {
    void **of; // owned, by subject
};
VEC_DEFINE(subject_states_vec, struct subject_states);

// All zero is empty.
struct subjects {
    struct ftrace_bound bound[FTRACE_TYPES_MAX]; // by the event's number
    struct forms forms;
    struct subject_states_vec states; // by machine
};

// Binds the tables of all subjects. 0, -ENOMEM or -EINVAL, and `err` names the row.
int subjects_bind(struct subjects *subjects, struct strset *strings, struct err *err);

// Makes the states of machines up to that number. 0 or -ENOMEM.
int subjects_start(struct subjects *subjects, uint32_t machine);

static inline void *subject_state(const struct subjects *subjects, uint32_t machine, size_t subject)
{
    return subjects->states.items[machine].of[subject];
}

// The index of a subject; that of the last one's end if it has no row.
size_t subject_index(const struct ftrace_subject *subject);

// After the last event of the machine at hand.
int subjects_finish(const struct subjects *subjects, struct import *im);

void subjects_done(struct subjects *subjects);
