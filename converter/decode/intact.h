// SPDX-License-Identifier: Apache-2.0
//
// The check that the bytes of a message are complete.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "protos/shapes.h"

// Returns the kind of a field in a message of `kind`; see shapes.h. The kind of TracePacket is
// packet_kind.
uint16_t field_kind_of(uint16_t kind, uint32_t number);

// Returns false if a field of the message cannot be read, also in nested messages of the schema, or
// if a packed field ends within a number. `kind`: the kind of the field that contains the message.
bool message_is_intact(struct wire_reader message, uint16_t kind);
