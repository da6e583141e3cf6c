// SPDX-License-Identifier: Apache-2.0
//
// See message.h.
#include "converter/decode/message.h"

void message_read(struct wire_reader reader, struct wire_field *fields, size_t n)
{
    memset(fields, 0, n * sizeof(*fields));
    struct wire_field field;
    while (wire_next_hot(&reader, &field)) {
        if (field.number < n)
            fields[field.number] = field;
    }
}

uint64_t message_read_seen(struct wire_reader reader, struct wire_field *fields, size_t n)
{
    struct wire_field field;
    uint64_t seen = 0;
    while (wire_next_hot(&reader, &field)) {
        seen |= FIELD_BIT(field.number);
        if (field.number < n)
            fields[field.number] = field;
    }
    return reader.error ? seen | FIELDS_OTHER : seen;
}

struct wire_field message_field(struct wire_reader reader, uint32_t number)
{
    struct wire_field field, found = {0};
    while (wire_next_hot(&reader, &field)) {
        if (field.number == number)
            found = field;
    }
    return found;
}

bool values_next(struct values *values, uint64_t *ret)
{
    for (;;) {
        if (values->field.number == values->number &&
            wire_packed_next(&values->packed, &values->field, values->type, ret))
            return true;
        if (!wire_next_hot(&values->reader, &values->field))
            return false;
        values->packed = (struct wire_packed){0};
    }
}
