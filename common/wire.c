// SPDX-License-Identifier: Apache-2.0
//
// The reader checks everything. Tags of number 0 or above 2^29-1, unknown wire types, lengths
// beyond the end, and varints of more than ten bytes end the walk. Unbalanced or deeply nested
// groups, which Perfetto never writes, count as damage too: the limit on nesting bounds the cost of
// skipping a hostile group.
#include "common/wire.h"

#include "common/str.h"

#define FIELD_NUMBER_MAX ((1u << 29) - 1)
#define GROUP_DEPTH_MAX  16

enum {
    WIRE_GROUP_START = 3,
    WIRE_GROUP_END = 4,
};

void wire_fixed32(struct wire_writer *w, uint32_t field, uint32_t value)
{
    wire_tag(w, field, WIRE_FIXED32);
    if (!wire_reserve(w, sizeof(value)))
        return;
    for (size_t i = 0; i < sizeof(value); i++)
        *w->pos++ = (uint8_t)(value >> (8 * i));
}

void wire_fixed64(struct wire_writer *w, uint32_t field, uint64_t value)
{
    wire_tag(w, field, WIRE_FIXED64);
    if (!wire_reserve(w, sizeof(value)))
        return;
    for (size_t i = 0; i < sizeof(value); i++)
        *w->pos++ = (uint8_t)(value >> (8 * i));
}

void wire_double(struct wire_writer *w, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    wire_fixed64(w, field, bits);
}

void wire_bytes(struct wire_writer *w, uint32_t field, const void *bytes, size_t size)
{
    wire_tag(w, field, WIRE_BYTES);
    wire_varint(w, size);
    if (!wire_reserve(w, size))
        return;
    if (size)
        memcpy(w->pos, bytes, size);
    w->pos += size;
}

void wire_text(struct wire_writer *w, uint32_t field, const char *text, size_t size)
{
    wire_bytes(w, field, text, size);
    if (!w->overflow)
        wire_mend_text(w->pos - size, size);
}

void wire_string(struct wire_writer *w, uint32_t field, const char *text)
{
    wire_text(w, field, text, strlen(text));
}

void wire_mend_text_slow(uint8_t *text, size_t size)
{
    const char *end = (const char *)text + size;
    for (size_t i = 0, length; i < size; i += length) {
        length = str_utf8_decode((const char *)text + i, end, NULL);
        if (!length) {
            text[i] = '?';
            length = 1;
        }
    }
}

void wire_end_long(struct wire_writer *w, size_t mark, size_t size)
{
    size_t extra = wire_varint_size(size) - 1;
    if (!wire_reserve(w, extra))
        return;
    memmove(w->start + mark + extra, w->start + mark, size);
    wire_put_varint(w->start + mark - 1, size);
    w->pos += extra;
}

static inline bool read_fixed(struct wire_reader *reader, size_t size, uint64_t *ret)
{
    if ((size_t)(reader->end - reader->pos) < size)
        return false;
    uint64_t value = 0;
    memcpy(&value, reader->pos, size);
    reader->pos += size;
    *ret = le64toh(value);
    return true;
}

static bool read_tag(struct wire_reader *reader, uint32_t *ret_number, unsigned *ret_type)
{
    uint64_t tag;
    if (!wire_get_varint(&reader->pos, reader->end, &tag))
        return false;
    uint64_t number = tag >> 3;
    if (number == 0 || number > FIELD_NUMBER_MAX)
        return false;
    *ret_number = (uint32_t)number;
    *ret_type = tag & 7;
    return true;
}

static inline __attribute__((always_inline)) bool read_value(struct wire_reader *reader,
                                                             unsigned type, struct wire_field *ret)
{
    ret->type = (enum wire_type)type;
    ret->value = 0;
    ret->data = NULL;
    ret->size = 0;
    switch (type) {
    case WIRE_VARINT:
        return wire_get_varint(&reader->pos, reader->end, &ret->value);
    case WIRE_FIXED64:
        return read_fixed(reader, 8, &ret->value);
    case WIRE_FIXED32:
        return read_fixed(reader, 4, &ret->value);
    case WIRE_BYTES: {
        uint64_t size;
        if (!wire_get_varint(&reader->pos, reader->end, &size) ||
            size > (size_t)(reader->end - reader->pos))
            return false;
        ret->data = reader->pos;
        ret->size = (size_t)size;
        reader->pos += size;
        return true;
    }
    default:
        return false;
    }
}

// Skips everything after a group's start tag up to its end tag. Groups are rare; noinline keeps
// the stack of this function out of wire_next().
static __attribute__((noinline)) bool skip_group(struct wire_reader *reader, uint32_t number)
{
    uint32_t open[GROUP_DEPTH_MAX] = {number};
    size_t depth = 1;
    while (depth) {
        uint32_t inner;
        unsigned type;
        struct wire_field ignored;
        if (!read_tag(reader, &inner, &type))
            return false;
        if (type == WIRE_GROUP_START) {
            if (depth == GROUP_DEPTH_MAX)
                return false;
            open[depth++] = inner;
        } else if (type == WIRE_GROUP_END) {
            if (open[--depth] != inner)
                return false;
        } else if (!read_value(reader, type, &ignored)) {
            return false;
        }
    }
    return true;
}

bool wire_next(struct wire_reader *reader, struct wire_field *ret)
{
    while (!reader->error && reader->pos < reader->end) {
        const uint8_t *start = reader->pos;
        unsigned type;
        bool ok = read_tag(reader, &ret->number, &type);
        if (ok && type == WIRE_GROUP_START) {
            ok = skip_group(reader, ret->number);
            if (ok)
                continue;
        }
        if (ok && read_value(reader, type, ret))
            return true;
        reader->pos = start;
        reader->error = true;
    }
    return false;
}

bool wire_next_varint(struct wire_reader *reader, uint64_t *ret)
{
    if (reader->error || reader->pos >= reader->end)
        return false;
    if (wire_get_varint(&reader->pos, reader->end, ret))
        return true;
    reader->error = true;
    return false;
}

bool wire_packed_next(struct wire_packed *cursor, const struct wire_field *field,
                      enum wire_type element_type, uint64_t *ret)
{
    if (field->type != WIRE_BYTES) {
        if (cursor->started || field->type != element_type)
            return false;
        cursor->started = true;
        *ret = field->value;
        return true;
    }
    if (!cursor->started) {
        cursor->started = true;
        cursor->reader = wire_sub(field);
    }
    if (element_type == WIRE_VARINT)
        return wire_next_varint(&cursor->reader, ret);
    if (cursor->reader.error || cursor->reader.pos >= cursor->reader.end)
        return false;
    if (read_fixed(&cursor->reader, element_type == WIRE_FIXED64 ? 8 : 4, ret))
        return true;
    cursor->reader.error = true;
    return false;
}
