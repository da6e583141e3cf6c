// SPDX-License-Identifier: Apache-2.0
//
// The names of the fields of packets, and of the values of enums: for traces as text. gen_fields.py
// writes the tables from the .proto files.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum named_type {
    NAMED_INT32,
    NAMED_INT64,
    NAMED_UINT32,
    NAMED_UINT64,
    NAMED_SINT32,
    NAMED_SINT64,
    NAMED_BOOL,
    NAMED_FIXED32,
    NAMED_FIXED64,
    NAMED_SFIXED32,
    NAMED_SFIXED64,
    NAMED_FLOAT,
    NAMED_DOUBLE,
    NAMED_STRING,
    NAMED_BYTES,
    NAMED_ENUM,
    NAMED_MESSAGE,
};

struct named_field {
    const char *name; // of an extension: with the scope that defines it, "Scope.name"
    uint32_t number;
    uint16_t of; // index in named_enums or named_messages
    uint8_t type;
};

struct named_message {
    const char *name;                 // with the messages around it, "Outer.Inner"
    const struct named_field *fields; // in the order of names
    size_t n;
};

struct named_value {
    const char *name;
    int32_t number;
};

struct named_enum {
    const char *name;                 // as above
    const struct named_value *values; // in the order of names
    size_t n;
};

extern const struct named_message named_messages[]; // the first is TracePacket
extern const struct named_enum named_enums[];
