// SPDX-License-Identifier: Apache-2.0
//
// A row in SQLite's record format.
#pragma once

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

#define RECORD_NUMBER_MAX 11

// Writes a record of NULL, which stands for the row's id, and a number. Returns its size. `to` has
// RECORD_NUMBER_MAX bytes.
size_t record_write_number(int64_t value, uint8_t *to);

// For records of few numbers that are written value by value: a header of one byte for its size and
// one for each value's type, then the values.
#define RECORD_NULL  0
#define RECORD_SLACK 8 // bytes after a value that may be overwritten

// Writes an integer or a real number (bits), and its type. Returns the value's size.
size_t record_put_int(uint8_t *to, int64_t value, uint8_t *ret_type);
size_t record_put_real(uint8_t *to, int64_t bits, uint8_t *ret_type);

// The type of a text of less than 58 bytes.
static inline uint8_t record_text_type(size_t size)
{
    return (uint8_t)(13 + 2 * size);
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
