// SPDX-License-Identifier: Apache-2.0
//
// A small message as an array of fields, for code that is not hot. As in protobuf, the last
// occurrence of a field counts. An absent field has number 0.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/elements.h"
#include "common/text.h"
#include "common/wire.h"
#include "protos/messages.h"

// Reads the fields with numbers below `n` and skips the others. In a damaged message, the fields
// before the damage are read.
void message_read(struct wire_reader reader, struct wire_field *fields, size_t n);

// Sets of fields by number. FIELDS_OTHER stands for numbers from 63 on, and for damage.
#define FIELDS_OTHER      (UINT64_C(1) << 63)
#define FIELD_BIT(number) ((number) < 63 ? UINT64_C(1) << (number) : FIELDS_OTHER)

// Does the work of message_read() for fields that are already zero. Returns the set of the numbers
// that the message has.
uint64_t message_read_seen(struct wire_reader reader, struct wire_field *fields, size_t n);

// Declares `name` and reads a message of the schema ("Outer_Inner" for nested messages) from
// `field`. name.text is the field "text", name.at[n] is field number n. The reader reports damage
// in the message.
#define MESSAGE(name, message, field)                                                              \
    union message_##message name;                                                                  \
    message_read(wire_sub(field), name.at, ELEMENTS(name.at))

// Returns the last occurrence of a field; number 0 if the field is absent.
struct wire_field message_field(struct wire_reader reader, uint32_t number);

static inline bool field_present(const struct wire_field *field)
{
    return field->number != 0;
}

// The functions return the value of a field; 0 or empty if the field is absent or has the wrong
// wire type.
static inline uint64_t field_u64(const struct wire_field *field)
{
    return field->value;
}

static inline int64_t field_i64(const struct wire_field *field)
{
    return (int64_t)field->value;
}

static inline double field_double(const struct wire_field *field)
{
    return field->type == WIRE_FIXED64 ? wire_to_double(field->value) : 0;
}

static inline double field_float(const struct wire_field *field)
{
    return field->type == WIRE_FIXED32 ? (double)wire_to_float(field->value) : 0;
}

static inline const char *field_text(const struct wire_field *field)
{
    return field->data ? (const char *)field->data : "";
}

static inline struct text field_words(const struct wire_field *field)
{
    return (struct text){field_text(field), field->size};
}

// Iteration over the fields with one number in a message:
//
//     for (struct fields each = fields_of(message, PB_Shelf_books); fields_next(&each);)
//         book_read(&each.field);
struct fields {
    struct wire_reader reader;
    struct wire_field field;
    uint32_t number;
};

static inline struct fields fields_of(const struct wire_field *message, uint32_t number)
{
    return (struct fields){.reader = wire_sub(message), .number = number};
}

static inline bool fields_next(struct fields *fields)
{
    while (wire_next_hot(&fields->reader, &fields->field))
        if (fields->field.number == fields->number)
            return true;
    return false;
}

// Iteration over the values of a repeated field, packed or not. Set `reader`, `number` and `type`
// before the first value.
struct values {
    struct wire_reader reader;
    struct wire_field field;
    struct wire_packed packed;
    uint32_t number;
    enum wire_type type;
};

static inline struct values values_of(const struct wire_field *message, uint32_t number)
{
    return (struct values){.reader = wire_sub(message), .number = number, .type = WIRE_VARINT};
}

bool values_next(struct values *values, uint64_t *ret);
