// SPDX-License-Identifier: Apache-2.0
//
// The current ftrace event, and its fields by name or by slot.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/decode/message.h"
#include "converter/import/import.h"
#include "protos/ftrace_table.h"

#define FTRACE_FIELDS_MAX 64 // of one event

// The fields of an event's message, by slot: the last field of each number; absent: number 0.
struct ftrace_values {
    bool is_read;
    struct wire_field fields[FTRACE_FIELDS_MAX];
};

struct ftrace_event {
    int64_t ts;
    uint32_t cpu;
    uint32_t pid; // of the event's thread: the kernel's pid, which is a tid
    const struct ftrace_event_type *type;
    struct wire_field message; // the event's own message
    const struct generation *state;
    struct ftrace_values *values; // borrowed; see ftrace_values()
    void *own;                    // the subject's state for the current machine
    const void *detail;           // of the form
};

// Returns the fields by slot, the index of a field in the event's type. The first call for an event
// decodes the fields. The fields are valid for the current event only.
const struct wire_field *ftrace_values(const struct ftrace_event *event);

// Returns a field as a number of the schema's type; 0 if the field is absent or of another wire
// type.
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

// Returns the slot of the field with this number; SIZE_MAX: none. The search begins at `hint`.
size_t ftrace_slot(const struct ftrace_event_type *type, uint32_t number, size_t hint);

// Returns the field as a number or text of the schema's type; 0 or an empty text if the field is
// absent or has another wire type.
int64_t ftrace_int(const struct ftrace_event *event, const char *name);
struct slice_name ftrace_text(const struct ftrace_event *event, const char *name);
bool ftrace_has(const struct ftrace_event *event, const char *name);

// Returns the name of the kernel function of an interned symbol; the symbol's number if the trace
// lacks the symbol.
struct slice_name ftrace_function(struct import *im, const struct ftrace_event *event,
                                  const char *field);

// Returns the track of slices of the event's thread.
uint32_t ftrace_own_track(struct import *im, const struct ftrace_event *event);

// Returns the name of an interned kernel symbol; no text if the trace lacks the symbol.
struct slice_name ftrace_symbol(const struct ftrace_event *event, uint64_t iid);
