// SPDX-License-Identifier: Apache-2.0
//
// Every ftrace event that Perfetto knows by type: names and numbers of the event and its fields.
// Generated from ftrace_events.csv; the producer's encoder and the converter's decoder both work
// off it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ftrace_kind {
    FTRACE_KIND_UINT,    // bool, uint32, uint64
    FTRACE_KIND_INT,     // int32, int64
    FTRACE_KIND_STRING,  // text
    FTRACE_KIND_BYTES,   // binary
    FTRACE_KIND_MESSAGE, // GenericFtraceEvent.field only
};

struct ftrace_field_type {
    const char *name;
    uint16_t number;
    uint8_t kind; // enum ftrace_kind
    uint8_t bits; // 1, 32 or 64, of UINT and INT
    bool repeated;
    bool is_symbol; // the number of an interned kernel symbol
};

struct ftrace_event_type {
    const char *name;
    uint16_t number; // the event's field in FtraceEvent
    uint16_t n_fields;
    const struct ftrace_field_type *fields; // by number; NULL if there are none
};

extern const struct ftrace_event_type ftrace_event_types[]; // by number
extern const size_t n_ftrace_event_types;
extern const uint16_t ftrace_event_types_by_name[]; // indexes, by name

// The type, or NULL. Both take O(log n).
const struct ftrace_event_type *ftrace_event_type_by_name(const char *name);
const struct ftrace_event_type *ftrace_event_type_by_number(uint32_t number);

// The kernel's names of the events: mostly as in the table, but vendors reuse names across
// groups. Generated from ftrace_kernel_names.csv; by name, then group.
struct ftrace_kernel_name {
    const char *group;
    const char *name;
    uint16_t number;
};

extern const struct ftrace_kernel_name ftrace_kernel_names[];
extern const size_t n_ftrace_kernel_names;

// The type of the kernel's event GROUP/NAME, or NULL.
const struct ftrace_event_type *ftrace_event_type_by_kernel_name(const char *group,
                                                                 const char *name);

// The field called `name` of `type`, or NULL.
const struct ftrace_field_type *ftrace_field_type_by_name(const struct ftrace_event_type *type,
                                                          const char *name);
