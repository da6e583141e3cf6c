// SPDX-License-Identifier: Apache-2.0
//
// ftrace events. Each becomes a row (see ftrace_rows.h); what else an event means (a slice, a
// counter, a new process) is up to its subject: binder, interrupts, memory and so on.
//
// A subject is one file with one const struct ftrace_subject, and one row in meson.build of this
// folder. Nothing else knows the subject. An event belongs to one subject, which has a handler for
// it or rows of forms (forms.h).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/decode/message.h"
#include "converter/import/ftrace/forms.h"
#include "converter/import/importer.h"
#include "protos/ftrace_table.h"

#define FTRACE_FIELDS_MAX 64 // of one event

// The fields of an event's message, by slot: the last one of each number, or none (number 0).
struct ftrace_values {
    bool is_read;
    struct wire_field fields[FTRACE_FIELDS_MAX];
};

struct ftrace_event {
    int64_t ts;
    uint32_t cpu;
    uint32_t pid; // that the event happened in; the kernel's pid, that is a tid
    const struct ftrace_event_type *type;
    struct wire_field message; // the event's own message
    const struct generation *state;
    struct ftrace_values *values; // borrowed; see ftrace_values()
    void *own;                    // the subject's state of the machine at hand
    const void *detail;           // of the handler
};

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
    // After the last packet, for each machine. Returns 0 or a negative errno. May be NULL.
    int (*finish)(struct import *im, void *state);
    void (*done)(void *state); // releases what the state owns; may be NULL
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

// The name behind the number of an interned kernel symbol; no text if there is none.
struct slice_name ftrace_symbol(const struct ftrace_event *event, uint64_t iid);

// The event with this number, if the schema knows it.
const struct ftrace_event_type *ftrace_type(const struct import *im, uint32_t number);

// Writes a row of an event; `args` in the order of its fields. The row is valid until the next one.
struct cell *ftrace_event_write(struct import *im, int64_t ts, uint32_t cpu, int64_t utid,
                                const struct ftrace_event_type *type, const struct arg *args,
                                size_t n_args);

// The compact forms of scheduling events. `row_only`: nothing follows from them but their row.
void ftrace_compact_switch(struct import *im, const struct bundle_event *record, bool row_only);
void ftrace_compact_waking(struct import *im, const struct bundle_event *record, bool row_only);

// The fields by slot, which is the place of a field in the event's type. Read when they are asked
// for; they are those of the event at hand only.
const struct wire_field *ftrace_values(const struct ftrace_event *event);

// A field as the number that the schema says it is; 0 if it is absent or of another wire type.
static inline int64_t ftrace_number(const struct ftrace_field_type *type,
                                    const struct wire_field *field)
{
    if (field->type == WIRE_BYTES)
        return 0;
    if (type->bits == 32)
        return type->kind == FTRACE_KIND_INT ? (int64_t)(int32_t)field->value
                                             : (int64_t)(uint32_t)field->value;
    return type->bits == 1 ? field->value != 0 : field_i64(field);
}

// The value of the message's field called `name`; absent fields are all zero.
struct wire_field ftrace_field(const struct ftrace_event *event, const char *name);

// The same as the number or text that the schema says it is; 0 or empty where it is absent or of
// another wire type.
int64_t ftrace_int(const struct ftrace_event *event, const char *name);
struct slice_name ftrace_text(const struct ftrace_event *event, const char *name);
bool ftrace_has(const struct ftrace_event *event, const char *name);

// The name of the kernel function behind an interned symbol; where there is none, its number.
struct slice_name ftrace_function(struct import *im, const struct ftrace_event *event,
                                  const char *field);

// The track of slices of the thread that the event happened in.
uint32_t ftrace_own_track(struct import *im, const struct ftrace_event *event);

// The thread writes into trace_marker: its write(2) ends here.
void ftrace_end_write(struct import *im, const struct ftrace_event *event);
