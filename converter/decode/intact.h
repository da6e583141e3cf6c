// SPDX-License-Identifier: Apache-2.0
//
// Whether the bytes of a message are whole.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "protos/shapes.h"

// What a field of a message of that kind holds; see shapes.h. TracePacket is of packet_kind.
uint16_t field_kind_of(uint16_t kind, uint32_t number);

// False: a field of the message, or of a message of the schema in it, cannot be read, or a packed
// field ends in the middle of a number. `kind` is that of the field that has the message.
bool message_is_intact(struct wire_reader message, uint16_t kind);
