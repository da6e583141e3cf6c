// SPDX-License-Identifier: Apache-2.0
//
// Writer and reader of the protobuf wire format, for hot paths. Neither allocates memory.
//
// Writer: writes into memory of the caller, never past its end. The first write that does not fit
// sets `overflow`, and nothing is written afterwards. Therefore one check at the end of a message
// is enough. wire_rollback() returns to a checkpoint and clears the overflow. A caller that splits
// data over several packets uses a checkpoint per item.
//
// Protobuf strings are UTF-8, and a decoder may refuse a whole message because of one bad byte.
// Thread names, paths and command lines are arbitrary bytes, and the kernel cuts them in
// mid-character. Therefore text from outside goes through wire_text() or wire_string(), or through
// wire_mend_text() after other code wrote it. These functions put `?` in place of each byte that
// belongs to no well-formed character. The length does not change, so the text needs no more room.
//
// Reader: walks over the fields of one message. Every length is checked against the rest of the
// message. The first violation sets `error` and ends the walk.
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

#define WIRE_VARINT_MAX 10 // bytes of the longest varint

struct wire_writer {
    uint8_t *pos;
    uint8_t *end;
    uint8_t *start; // borrowed
    bool overflow;
};

static inline struct wire_writer wire_writer_over(void *memory, size_t size)
{
    uint8_t *start = memory;
    return (struct wire_writer){
        .pos = start, .end = size > 0 ? start + size : start, .start = start};
}

static inline size_t wire_size(const struct wire_writer *w)
{
    return (size_t)(w->pos - w->start);
}

static inline size_t wire_room(const struct wire_writer *w)
{
    return (size_t)(w->end - w->pos);
}

static inline size_t wire_varint_size(uint64_t value)
{
    return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}

// Writes a varint without a bounds check and returns the address after it. The caller has reserved
// the room.
static inline uint8_t *wire_put_varint(uint8_t *p, uint64_t value)
{
    while (value >= 0x80) {
        *p++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *p++ = (uint8_t)value;
    return p;
}

// Returns true if the caller may write `size` bytes at w->pos. Otherwise sets `overflow` and
// returns false.
static inline bool wire_reserve(struct wire_writer *w, size_t size)
{
    if (__builtin_expect(w->overflow || wire_room(w) < size, 0)) {
        w->overflow = true;
        return false;
    }
    return true;
}

// Writes a varint without a tag, for packed fields.
static inline void wire_varint(struct wire_writer *w, uint64_t value)
{
    if (__builtin_expect(wire_room(w) >= WIRE_VARINT_MAX, 1) && !w->overflow) {
        w->pos = wire_put_varint(w->pos, value);
        return;
    }
    if (wire_reserve(w, wire_varint_size(value)))
        w->pos = wire_put_varint(w->pos, value);
}

static inline void wire_tag(struct wire_writer *w, uint32_t field, enum wire_type type)
{
    wire_varint(w, (uint64_t)field << 3 | type);
}

// Writes a uint32, uint64, bool, or an enum that is not negative.
static inline void wire_uint(struct wire_writer *w, uint32_t field, uint64_t value)
{
    wire_tag(w, field, WIRE_VARINT);
    wire_varint(w, value);
}

// Writes an int32 or int64. A negative value takes ten bytes, as the format demands.
static inline void wire_int(struct wire_writer *w, uint32_t field, int64_t value)
{
    wire_uint(w, field, (uint64_t)value);
}

static inline uint64_t wire_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t wire_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

// Writes a sint32 or sint64.
static inline void wire_sint(struct wire_writer *w, uint32_t field, int64_t value)
{
    wire_uint(w, field, wire_zigzag(value));
}

void wire_fixed32(struct wire_writer *w, uint32_t field, uint32_t value);
void wire_fixed64(struct wire_writer *w, uint32_t field, uint64_t value);
void wire_double(struct wire_writer *w, uint32_t field, double value);
void wire_bytes(struct wire_writer *w, uint32_t field, const void *bytes, size_t size);
void wire_text(struct wire_writer *w, uint32_t field, const char *text, size_t size);
void wire_string(struct wire_writer *w, uint32_t field, const char *text); // text up to its zero

void wire_mend_text_slow(uint8_t *text, size_t size);

// Makes `text` UTF-8 in place. Nearly all text is ASCII and costs one test per 8 bytes.
static inline void wire_mend_text(uint8_t *text, size_t size)
{
    uint64_t bits = 0, word;
    size_t i = 0;
    for (; size - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, text + i, sizeof(word));
        bits |= word;
    }
    for (; i < size; i++)
        bits |= text[i];
    if (__builtin_expect((bits & UINT64_C(0x8080808080808080)) != 0, 0))
        wire_mend_text_slow(text, size);
}

// Opens a submessage or a packed field and returns a mark for wire_end(). Marks nest. One byte is
// reserved for the length; wire_end() moves a body of 128 bytes or more.
static inline size_t wire_begin(struct wire_writer *w, uint32_t field)
{
    wire_tag(w, field, WIRE_BYTES);
    if (wire_reserve(w, 1))
        w->pos++;
    return wire_size(w);
}

void wire_end_long(struct wire_writer *w, size_t mark, size_t size);

static inline void wire_end(struct wire_writer *w, size_t mark)
{
    if (w->overflow)
        return;
    size_t size = wire_size(w) - mark;
    if (__builtin_expect(size < 0x80, 1))
        w->start[mark - 1] = (uint8_t)size;
    else
        wire_end_long(w, mark, size);
}

// Returns the present position, for wire_rollback(). Marks from before the checkpoint stay valid.
static inline size_t wire_checkpoint(const struct wire_writer *w)
{
    return wire_size(w);
}

static inline void wire_rollback(struct wire_writer *w, size_t checkpoint)
{
    w->pos = w->start + checkpoint;
    w->overflow = false;
}

struct wire_reader {
    const uint8_t *pos;
    const uint8_t *end;
    bool error;
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;      // varint and fixed types; 0 for WIRE_BYTES
    const uint8_t *data; // WIRE_BYTES: borrowed from the message
    size_t size;
};

static inline struct wire_reader wire_reader_over(const void *bytes, size_t size)
{
    const uint8_t *start = bytes;
    return (struct wire_reader){.pos = start, .end = size > 0 ? start + size : start};
}

// Returns a reader over the submessage or packed field in `field`. The reader is empty if the field
// has another type.
static inline struct wire_reader wire_sub(const struct wire_field *field)
{
    return wire_reader_over(field->data, field->size);
}

// Reads the next field. Returns false at the end and on damage. On damage `error` is set and `pos`
// is the start of the damaged field. Groups are skipped whole.
bool wire_next(struct wire_reader *reader, struct wire_field *ret);

// Walks over all fields of a message: `struct wire_field f; wire_foreach(&reader, &f) { ... }`.
#define wire_foreach(reader, field) while (wire_next((reader), (field)))

// Reads the next varint of a packed field. Returns false at the end and on damage.
bool wire_next_varint(struct wire_reader *reader, uint64_t *ret);

// Reads a varint at *pos. Returns false, with *pos unmoved, if the varint does not end before `end`
// or is longer than ten bytes.
static inline bool wire_get_varint(const uint8_t **pos, const uint8_t *end, uint64_t *ret)
{
    const uint8_t *p = *pos;
    if (p < end && *p < 0x80) {
        *ret = *p;
        *pos = p + 1;
        return true;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = value;
            *pos = p;
            return true;
        }
    }
    return false;
}

// As wire_get_varint(), but faster for values of several bytes, for example timestamps. Up to eight
// bytes are loaded at once, and their groups of seven bits are joined in three steps.
static inline bool wire_get_long_varint(const uint8_t **pos, const uint8_t *end, uint64_t *ret)
{
    uint64_t word, last;
    if ((size_t)(end - *pos) < sizeof(word))
        return wire_get_varint(pos, end, ret);
    memcpy(&word, *pos, sizeof(word));
    word = le64toh(word);
    last = ~word & UINT64_C(0x8080808080808080);
    if (!last)
        return wire_get_varint(pos, end, ret);
    unsigned n_bits = (unsigned)__builtin_ctzll(last) + 1;
    word &= UINT64_C(0x7f7f7f7f7f7f7f7f) >> (64 - n_bits);
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    *ret = (word & UINT64_C(0x0fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
    *pos += n_bits / 8;
    return true;
}

static inline double wire_to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float wire_to_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof(value));
    return value;
}

// wire_next() for the hottest loops: inline for usual fields, which have a tag of up to two bytes,
// and a varint or less than 128 bytes.
static inline bool wire_next_hot(struct wire_reader *reader, struct wire_field *ret)
{
    const uint8_t *pos = reader->pos, *end = reader->end;
    if (reader->error || end - pos < 3)
        return wire_next(reader, ret);
    unsigned tag = *pos++;
    if (tag >= 0x80)
        tag = (tag & 0x7f) | (unsigned)*pos++ << 7;
    unsigned type = tag & 7;
    if (tag < 8 || tag >= 0x4000 || (type != WIRE_VARINT && type != WIRE_BYTES))
        return wire_next(reader, ret);
    uint64_t value;
    if (type == WIRE_VARINT) {
        if (!wire_get_long_varint(&pos, end, &value))
            return wire_next(reader, ret);
        *ret = (struct wire_field){.number = tag >> 3, .type = WIRE_VARINT, .value = value};
    } else {
        size_t size = *pos++;
        if (size >= 0x80 || size > (size_t)(end - pos))
            return wire_next(reader, ret);
        *ret =
            (struct wire_field){.number = tag >> 3, .type = WIRE_BYTES, .data = pos, .size = size};
        pos += size;
    }
    reader->pos = pos;
    return true;
}

// Reads the values of a repeated scalar field, packed or not. For each field of this number: zero
// `cursor`, then call the function until it returns false.
struct wire_packed {
    struct wire_reader reader;
    bool started;
};
bool wire_packed_next(struct wire_packed *cursor, const struct wire_field *field,
                      enum wire_type element_type, uint64_t *ret);
