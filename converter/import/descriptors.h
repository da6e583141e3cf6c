// SPDX-License-Identifier: Apache-2.0
//
// Descriptions of message types: the built-in types of track events, and the types of the trace's
// ExtensionDescriptor packets, which may extend the built-in types.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "common/wire.h"

struct described_field {
    uint32_t name;      // in strings
    uint32_t type_name; // of messages and enums, in strings; STRSET_NONE: none
    uint8_t type;       // PB_TYPE_*
    bool repeated, is_extension;
};
VEC_DEFINE(described_field_vec, struct described_field);

struct descriptors {
    struct map64 types;  // name (in strings) -> number of a message or enum type
    struct map64 fields; // type and field number -> index in items
    struct map64 values; // type and value of an enum -> name, in strings
    struct described_field_vec items;
    uint32_t n_types;
    uint64_t read_bytes; // of all sets read so far, inflated
};

#define TYPE_NONE UINT32_MAX

struct import;

// Returns the type with the full name ".package.Name", or TYPE_NONE.
uint32_t descriptors_find(const struct import *im, const char *name, size_t size);
uint32_t descriptors_type_of(const struct import *im, const struct described_field *field);

// Returns the description of a field; NULL: not described.
const struct described_field *descriptors_field(const struct import *im, uint32_t type,
                                                uint32_t number);
uint32_t descriptors_value_name(const struct import *im, uint32_t type, int32_t value);
