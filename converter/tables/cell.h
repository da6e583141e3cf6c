// SPDX-License-Identifier: Apache-2.0
//
// The values of a row, as importers make them and the writer stores them.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TABLE_CELLS_MAX 128

enum cell_type { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT, CELL_BLOB };

// One value. Texts and blobs are borrowed and must live until the database is flushed or abandoned,
// as trace bytes and interned strings do. database_copy() copies other texts.
struct cell {
    union {
        int64_t integer;
        double real;
        const void *bytes;
    };
    uint32_t size;
    uint8_t type; // enum cell_type
};

static inline void cell_int(struct cell *row, size_t column, int64_t value)
{
    row[column] = (struct cell){.integer = value, .type = CELL_INT};
}

static inline void cell_real(struct cell *row, size_t column, double value)
{
    row[column] = (struct cell){.real = value, .type = CELL_REAL};
}

// Sets a text. If `text` is NULL, the text is empty, for any `size`.
static inline void cell_bytes(struct cell *row, size_t column, const void *text, size_t size)
{
    row[column] = (struct cell){
        .bytes = text ? text : "", .size = text ? (uint32_t)size : 0, .type = CELL_TEXT};
}

// Sets a terminated text. If `text` is NULL, the cell becomes NULL.
static inline void cell_text(struct cell *row, size_t column, const char *text)
{
    if (text)
        cell_bytes(row, column, text, strlen(text));
}
