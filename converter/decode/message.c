// SPDX-License-Identifier: Apache-2.0
//
// See message.h.
#include "converter/decode/message.h"

bool message_read(struct wire_reader reader, struct wire_field *fields, size_t n)
{
    memset(fields, 0, n * sizeof(*fields));
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number < n)
            fields[field.number] = field;
    }
    return !reader.error;
}
