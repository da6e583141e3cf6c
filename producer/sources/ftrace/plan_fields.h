// SPDX-License-Identifier: Apache-2.0
//
// The type of a kernel field, and the plan op that carries it into a protobuf field.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/format.h"
#include "protos/ftrace_table.h"

enum plan_kind {
    PLAN_NONE, // the field cannot be carried
    PLAN_U8,
    PLAN_U16,
    PLAN_U32,
    PLAN_64, // signed and unsigned: the same in wire format
    PLAN_S8,
    PLAN_S16,
    PLAN_S32,
    PLAN_64_AS_U32, // for a protobuf field of 32 bits: left out if the value does not fit
    PLAN_64_AS_S32,
    PLAN_BOOL,
    PLAN_PID32, // a pid_t, also passed to the pid feed
    PLAN_DEV32,
    PLAN_DEV64,
    PLAN_SYMBOL32, // the address of a function
    PLAN_SYMBOL64,
    PLAN_POINTED32, // the address of a constant text
    PLAN_POINTED64,
    PLAN_TEXT16,    // up to 16 bytes: thread names
    PLAN_TEXT,      // up to `size` bytes
    PLAN_BYTES,     // `size` bytes
    PLAN_ELEMENTS,  // `size` bytes of numbers: a repeated field
    PLAN_REST_TEXT, // to the end of the record
    PLAN_REST_BYTES,
    PLAN_REST_ELEMENTS,
    PLAN_LOC_TEXT, // __data_loc: at the place that the field gives
    PLAN_LOC_BYTES,
    PLAN_LOC_ELEMENTS,
    PLAN_REL_TEXT, // __rel_loc: place relative to the end of the field
    PLAN_REL_BYTES,
    PLAN_REL_ELEMENTS,
};

#define PLAN_POINTED_TEXT_MAX 1024

struct plan_field {
    enum plan_kind kind;
    uint8_t element_size; // of numbers
    bool is_signed;
};

// Returns the op by the field's C type, with Perfetto's rules.
struct plan_field plan_field_of(const struct format_field *field, size_t long_size);

// Returns the op for a given protobuf field. The kind is PLAN_NONE if the two do not fit.
struct plan_field plan_field_for(const struct format_field *field,
                                 const struct ftrace_field_type *type, size_t long_size);

// Return whether `kind` writes a protobuf field of this type.
bool plan_kind_is_text(enum plan_kind kind);
bool plan_kind_is_bytes(enum plan_kind kind);
bool plan_kind_is_repeated(enum plan_kind kind);
bool plan_kind_is_dynamic(enum plan_kind kind); // the record gives its size

// Returns the bytes of the record that a fixed op reads, from the field's offset on.
size_t plan_kind_reads(enum plan_kind kind, size_t field_size);
