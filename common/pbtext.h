// SPDX-License-Identifier: Apache-2.0
//
// The protobuf text format, both ways, for any message that protobuf-c has a descriptor of.
// Complete: comments, `field: value`, `field { }`, `field: { }`, `< >`, lists, string escapes and
// adjacent strings, enums by name and number, hexadecimal, octal, floats, booleans, `,` and `;` as
// separators.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"
#include <protobuf-c/protobuf-c.h>

#define PBTEXT_DEPTH_MAX 64 // messages inside messages

// Parses `size` bytes of `text` into a new message (free with protobuf_c_message_free_unpacked).
// All or nothing: on failure *ret stays untouched, and err->text is
//     NAME:LINE:COLUMN: what is wrong[, did you mean "x"?]
//         the line
//            ^
// -EINVAL: the text is wrong; -ENOMEM; -E2BIG: messages nested too deeply.
int pbtext_parse(const ProtobufCMessageDescriptor *descriptor, const char *name, const char *text,
                 size_t size, ProtobufCMessage **ret, struct err *err);

// Appends `message` as text, two blanks per level. Unknown fields are left out, and messages
// deeper than PBTEXT_DEPTH_MAX. pbtext_parse() makes an equal message of it, unless an enum has a
// number without a name.
void pbtext_print(const ProtobufCMessage *message, struct strbuf *out);
