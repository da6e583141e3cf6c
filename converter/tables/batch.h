// SPDX-License-Identifier: Apache-2.0
//
// Rows on their way to a writer, which takes many at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "converter/tables/cell.h"

#define BATCH_ROWS    1024
#define BATCH_CELLS   6144
#define BATCH_NUMBERS (BATCH_CELLS * sizeof(struct cell) / sizeof(int64_t))

// Rows of one table, their cells one behind the other; or, of a table of an id and one number, the
// numbers alone.
struct batch {
    size_t n_rows, n_cells;
    size_t n_numbers;
    struct arena copies;        // texts of these rows that have no other home
    uint8_t widths[BATCH_ROWS]; // cells of each row
    union {
        struct cell cells[BATCH_CELLS];
        int64_t numbers[BATCH_NUMBERS];
    };
};

// Takes a row of `width` cells, all NULL. NULL: the batch is full.
struct cell *batch_row(struct batch *batch, size_t width);

// Takes as many of the numbers as there is room for, whose rows have the next ids; none beside
// other rows. Returns how many.
size_t batch_numbers(struct batch *batch, const int64_t *numbers, size_t n);

// Without rows; NULL: no memory.
struct batch *batch_new(void);

// The batch may be used again.
void batch_clear(struct batch *batch);
struct batch *batch_free(struct batch *batch);
