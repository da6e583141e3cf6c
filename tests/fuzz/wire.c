// SPDX-License-Identifier: Apache-2.0
//
// Walks any bytes as a message, and each field that could be a message as well. The fields that
// were read are written again, and must read equal.
#include <stdint.h>
#include <stdlib.h>

#include "common/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(const uint8_t *data, size_t size, const uint8_t *p, size_t n)
{
    if (n && (p < data || n > size || (size_t)(p - data) > size - n))
        abort();
}

static void write_again(const struct wire_field *field)
{
    uint8_t memory[4096];
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    switch (field->type) {
    case WIRE_VARINT:
        wire_uint(&w, field->number, field->value);
        break;
    case WIRE_FIXED64:
        wire_fixed64(&w, field->number, field->value);
        break;
    case WIRE_FIXED32:
        wire_fixed32(&w, field->number, (uint32_t)field->value);
        break;
    case WIRE_BYTES:
        wire_bytes(&w, field->number, field->data, field->size);
        break;
    }
    if (w.overflow)
        return;
    struct wire_reader reader = wire_reader_over(memory, wire_size(&w));
    struct wire_field back;
    if (!wire_next(&reader, &back) || back.number != field->number || back.type != field->type ||
        back.value != field->value || back.size != field->size ||
        (back.size && memcmp(back.data, field->data, back.size) != 0))
        abort();
    if (wire_next(&reader, &back) || reader.error)
        abort();
}

static void walk(const uint8_t *data, size_t size, unsigned depth)
{
    static const enum wire_type types[] = {WIRE_VARINT, WIRE_FIXED32, WIRE_FIXED64};
    struct wire_reader reader = wire_reader_over(data, size);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (!field.number || field.number >= 1u << 29)
            abort();
        check_inside(data, size, field.data, field.size);
        write_again(&field);
        for (size_t i = 0; i < 3; i++) {
            struct wire_packed cursor = {0};
            uint64_t value, n = 0;
            while (wire_packed_next(&cursor, &field, types[i], &value))
                n++;
            if (n > field.size + 1)
                abort();
        }
        if (field.type == WIRE_BYTES && depth < 8)
            walk(field.data, field.size, depth + 1);
    }
    if (reader.error == (reader.pos == reader.end))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    walk(data, size, 0);
    return 0;
}
