// SPDX-License-Identifier: Apache-2.0
//
// A row in SQLite's record format.
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/cell.h"

#define VARINT_MAX       9
#define RECORD_CELLS_MAX TABLE_CELLS_MAX

struct record {
    const uint8_t *ready;     // borrowed: the finished record; NULL: the cells make the record
    const struct cell *cells; // borrowed
    size_t n_cells;           // without NULLs at the end, which SQLite adds
    size_t n_head;            // bytes
    size_t size;
    uint64_t types[RECORD_CELLS_MAX]; // SQLite's serial types
};

// Measures the row. `cells` must stay until record_write(); their texts must be UTF-8.
void record_measure(struct record *record, const struct cell *cells, size_t n_cells);

// Writes record->size bytes.
void record_write(const struct record *record, uint8_t *to);

// Reads a column that is an integer or a text. *ret becomes NULL if the record lacks the column,
// and a REAL of 0 if the value has another type.
void record_column(const struct record *record, size_t column, struct cell *ret);

#define RECORD_NUMBER_MAX 11

// Writes a record of NULL, which stands for the row's id, and a number. Returns its size. `to` has
// RECORD_NUMBER_MAX bytes.
size_t record_write_number(int64_t value, uint8_t *to);

// The functions below write records of few numbers, value by value: a header with one byte for its
// size and one byte for each value's type, then the values.
#define RECORD_SLACK 8 // bytes after a value that may be overwritten

// SQLite's serial types.
enum {
    RECORD_NULL = 0,
    RECORD_I8 = 1,
    RECORD_I48 = 5,
    RECORD_I64 = 6,
    RECORD_REAL = 7,
    RECORD_0 = 8,
    RECORD_1 = 9,
    RECORD_BLOB = 12,
    RECORD_TEXT = 13,
};

// Bytes of a value, by its type below RECORD_BLOB.
static const uint8_t record_sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};

// Returns the type of an integer. The type depends on the number of bits without the sign.
static inline uint8_t record_int_type(int64_t value)
{
    static const uint8_t types[65] = {
        1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3,
        3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
        5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6,
    };
    if (value == 0 || value == 1)
        return (uint8_t)(RECORD_0 + value);
    uint64_t magnitude = (uint64_t)(value ^ (value >> 63));
    return types[63 - __builtin_clzll(magnitude | 1) + (magnitude != 0)];
}

// Writes an integer or a real number (bits), and its type. Returns the value's size.
static inline size_t record_put_int(uint8_t *to, int64_t value, uint8_t *ret_type)
{
    uint8_t type = record_int_type(value), size = record_sizes[type];
    uint64_t bytes = size ? htobe64((uint64_t)value << (64 - 8 * size)) : 0;
    memcpy(to, &bytes, sizeof(bytes));
    *ret_type = type;
    return size;
}

static inline size_t record_value_size(uint8_t type)
{
    return type < RECORD_BLOB ? record_sizes[type] : (type - RECORD_BLOB) / 2u;
}

// Reads an integer, or the bits of a real number.
static inline int64_t record_get_int(const uint8_t *from, uint8_t type)
{
    if (type == RECORD_0 || type == RECORD_1)
        return type - RECORD_0;
    uint64_t value = 0;
    for (size_t i = 0; i < record_sizes[type]; i++)
        value |= (uint64_t)from[i] << (56 - 8 * i);
    return (int64_t)value >> (64 - 8 * record_sizes[type]); // extends the sign
}

size_t record_put_real(uint8_t *to, int64_t bits, uint8_t *ret_type);

// Returns the type of a text. The type takes one byte if the text has less than 58 bytes.
static inline uint64_t record_text_type(size_t size)
{
    return RECORD_TEXT + 2 * (uint64_t)size;
}

// Writes SQLite's varint, most significant bits first. Returns its size.
static inline size_t put_varint(uint8_t *to, uint64_t value)
{
    if (value < 0x80) {
        to[0] = (uint8_t)value;
        return 1;
    }
    if (value < 0x4000) {
        to[0] = (uint8_t)(value >> 7 | 0x80);
        to[1] = (uint8_t)(value & 0x7f);
        return 2;
    }
    if (value < 0x10000000) {
        size_t size = value < 0x200000 ? 3 : 4;
        for (size_t i = size; i-- > 0; value >>= 7)
            to[i] = (uint8_t)(value | 0x80);
        to[size - 1] &= 0x7f;
        return size;
    }
    uint8_t bytes[VARINT_MAX];
    size_t n = 0, size;
    if (value >> 56) { // nine bytes; the last byte has eight bits
        to[8] = (uint8_t)value;
        value >>= 8;
        for (size_t i = 8; i-- > 0; value >>= 7)
            to[i] = (uint8_t)(value | 0x80);
        return VARINT_MAX;
    }
    for (; value; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[0] &= 0x7f;
    size = n;
    while (n)
        *to++ = bytes[--n];
    return size;
}
