// SPDX-License-Identifier: Apache-2.0
//
// Subjects of ftrace events, and which of them an event belongs to.
#pragma once

#include "converter/import/ftrace/forms.h"
#include "converter/import/ftrace/ftrace_event.h"

#define FTRACE_TYPES_MAX 1024 // numbers of events that the schema may know

struct ftrace_handler {
    const char *event; // NULL ends a table
    void (*handle)(struct import *im, const struct ftrace_event *event);
    bool before_row;    // handled before its row of ftrace_event is written, not behind it
    const void *detail; // what tells events of one function apart
};

struct ftrace_subject {
    const struct ftrace_handler *handlers; // the last one is all zero; may be NULL
    const struct ftrace_form *forms;       // the same
    size_t state_size;                     // bytes of state for each machine, zeroed at the start
    // After the last packet, for each machine. May be NULL.
    void (*finish)(struct import *im, void *state);
    void (*done)(void *state); // releases what the state owns; may be NULL
};

// The rows of meson.build; the last one is NULL.
extern const struct ftrace_subject *const ftrace_subjects[];

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
void subjects_finish(struct import *im, void **states);

void subjects_done(struct subjects *subjects);
