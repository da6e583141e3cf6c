// SPDX-License-Identifier: Apache-2.0
//
// The only check for damage inside packets. Importers read a message up to the damage and need not
// notice the damage. The schema tells which fields have messages, so the check finds damage at any
// depth, also in interned data that is read later or never. The first of the two walks over the
// trace (trace.c) counts the damage, because this walk knows the packet's place in the file.
//
// The check goes over the whole trace and must be fast, so it tests lengths only and decodes no
// values.
#include "converter/decode/intact.h"

#include <endian.h>

#define DEPTH_MAX 100 // of nested messages, as in protobuf; deeper messages are not checked
#define TOP_BITS  UINT64_C(0x8080808080808080)

uint16_t field_kind_of(uint16_t kind, uint32_t number)
{
    if (kind < KIND_SHAPES)
        return KIND_PLAIN;
    const struct message_shape *shape = &message_shapes[kind - KIND_SHAPES];
    return number < shape->n_kinds ? shape->kinds[number] : KIND_PLAIN;
}

static inline bool varint_skip(const uint8_t **pos, const uint8_t *end)
{
    const uint8_t *p = *pos;
    uint64_t word, last;
    if (end - p >= (ptrdiff_t)sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        last = ~le64toh(word) & TOP_BITS;
        if (last) {
            *pos = p + (__builtin_ctzll(last) >> 3) + 1;
            return true;
        }
    }
    return wire_get_varint(pos, end, &word);
}

// Checks packed varints. The fast path skips eight numbers of one byte at once.
static bool varints_are_whole(const uint8_t *pos, const uint8_t *end)
{
    uint64_t word;
    if (pos < end && end[-1] >= 0x80)
        return false;
    while (pos < end) {
        if (end - pos >= (ptrdiff_t)sizeof(word)) {
            memcpy(&word, pos, sizeof(word));
            if ((word & TOP_BITS) == 0) {
                pos += sizeof(word);
                continue;
            }
        }
        if (!varint_skip(&pos, end))
            return false;
    }
    return true;
}

// Skips the next field. For a field of bytes, *ret_number is the field's number, and the bytes are
// from *ret_bytes to *pos. For other fields, *ret_number is 0. The wire reader handles other wire
// types, for example groups.
static inline bool field_skip(const uint8_t **pos, const uint8_t *end, uint32_t *ret_number,
                              const uint8_t **ret_bytes)
{
    const uint8_t *start = *pos;
    uint64_t tag, size;
    *ret_number = 0;
    *ret_bytes = start;
    if (!wire_get_varint(pos, end, &tag) || tag < 8 || tag > UINT32_MAX)
        return false;
    unsigned type = tag & 7;
    if (type == WIRE_VARINT)
        return varint_skip(pos, end);
    if (type == WIRE_BYTES) {
        if (!wire_get_varint(pos, end, &size) || size > (size_t)(end - *pos))
            return false;
        *ret_number = (uint32_t)(tag >> 3);
        *ret_bytes = *pos;
        *pos += size;
        return true;
    }
    struct wire_reader reader = {.pos = start, .end = end};
    struct wire_field ignored;
    wire_next(&reader, &ignored);
    *pos = reader.pos;
    return !reader.error;
}

static bool flat_is_whole(const uint8_t *pos, const uint8_t *end)
{
    const uint8_t *bytes;
    uint32_t number;
    bool whole = true;
    while (pos < end && whole)
        whole = field_skip(&pos, end, &number, &bytes);
    return whole;
}

static bool is_whole(const uint8_t *pos, const uint8_t *end, uint16_t kind, unsigned depth)
{
    if (kind == KIND_FLAT)
        return flat_is_whole(pos, end);
    if (kind == KIND_PACKED_VARINT)
        return varints_are_whole(pos, end);
    if (kind < KIND_SHAPES)
        return (end - pos) % (kind == KIND_PACKED_32 ? 4 : 8) == 0;
    const struct message_shape *shape = &message_shapes[kind - KIND_SHAPES];
    const uint8_t *bytes;
    uint32_t number;
    while (pos < end) {
        if (!field_skip(&pos, end, &number, &bytes))
            return false;
        uint16_t inner = number < shape->n_kinds ? shape->kinds[number] : KIND_PLAIN;
        if (inner && depth < DEPTH_MAX && !is_whole(bytes, pos, inner, depth + 1))
            return false;
    }
    return true;
}

bool message_is_intact(struct wire_reader message, uint16_t kind)
{
    return kind == KIND_PLAIN || is_whole(message.pos, message.end, kind, 0);
}
