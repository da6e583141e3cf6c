// SPDX-License-Identifier: Apache-2.0
//
// Which fields of a message hold messages: enough to see whether bytes are whole, without knowing
// what they say. gen_fields.py writes the table from the .proto files.
#pragma once

#include <stdint.h>

// The contents of a field's bytes. From KIND_SHAPES on: a message whose shape is
// message_shapes[kind - KIND_SHAPES].
enum field_kind {
    KIND_PLAIN,         // text, bytes, or a field that the schema does not have
    KIND_PACKED_VARINT, // a repeated number
    KIND_PACKED_32,
    KIND_PACKED_64,
    KIND_FLAT, // a message whose fields are all plain
    KIND_SHAPES,
};

struct message_shape {
    const uint16_t *kinds; // by number of the field
    uint32_t n_kinds;
};

extern const struct message_shape message_shapes[];
extern const uint16_t packet_kind; // of TracePacket
