// SPDX-License-Identifier: Apache-2.0
//
// An ftrace event that is at hand, and its fields, by name or by slot.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/decode/message.h"
#include "converter/import/import.h"
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

// The place of the field with that number in the type, looked for from `hint` on; SIZE_MAX: none.
size_t ftrace_slot(const struct ftrace_event_type *type, uint32_t number, size_t hint);

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

// The name behind the number of an interned kernel symbol; no text if there is none.
struct slice_name ftrace_symbol(const struct ftrace_event *event, uint64_t iid);
