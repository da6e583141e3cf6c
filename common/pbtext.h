// SPDX-License-Identifier: Apache-2.0
//
// Parser and printer of the protobuf text format, for any message that has a protobuf-c descriptor.
// The parser knows the whole format: comments, `field: value`, `field { }`, `field: { }`, `< >`,
// lists, string escapes and adjacent strings, enums by name and number, hexadecimal, octal, floats,
// booleans, and `,` and `;` as separators.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"
#include <protobuf-c/protobuf-c.h>

#define PBTEXT_DEPTH_MAX 64 // messages inside messages

// Parses `size` bytes of `text` into a new message, which the caller frees with
// protobuf_c_message_free_unpacked(). On failure *ret stays untouched, and err->text is
//     NAME:LINE:COLUMN: what is wrong[, did you mean "x"?]
//         the line
//            ^
// Returns 0; -EINVAL if the text is wrong; -E2BIG if messages are nested too deeply; or -ENOMEM.
int pbtext_parse(const ProtobufCMessageDescriptor *descriptor, const char *name, const char *text,
                 size_t size, ProtobufCMessage **ret, struct err *err);

// Appends `message` as text, indented by two blanks per level. Leaves out unknown fields, and
// messages deeper than PBTEXT_DEPTH_MAX. pbtext_parse() makes an equal message of the text, unless
// an enum has a number without a name.
void pbtext_print(const ProtobufCMessage *message, struct strbuf *out);
