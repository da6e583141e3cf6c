// SPDX-License-Identifier: Apache-2.0
//
// A batch of rows for the writer.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "converter/tables/cell.h"
#include "converter/tables/event_rows.h"

#define BATCH_ROWS    2048
#define BATCH_CELLS   6144
#define BATCH_NUMBERS (BATCH_CELLS * sizeof(struct cell) / sizeof(int64_t))
#define BATCH_EVENT   0 // in place of a width: a struct event_row

// Rows of one table, cell after cell. For a table of an id and one number, the batch has only the
// numbers.
struct batch {
    size_t n_rows, n_cells;
    size_t n_numbers;
    struct arena copies;        // texts of these rows, owned by the batch
    uint8_t widths[BATCH_ROWS]; // cells of each row
    union {
        struct cell cells[BATCH_CELLS];
        int64_t numbers[BATCH_NUMBERS];
    };
};

// Adds a row of `width` cells, all NULL. Returns NULL if the batch is full.
struct cell *batch_row(struct batch *batch, size_t width);

// Adds a row of a kernel event, which the caller fills. Returns NULL if the batch is full.
struct event_row *batch_event(struct batch *batch);

// Adds as many of the numbers as fit. Their rows have the next ids. A batch with other rows takes
// no numbers. Returns the number of added numbers.
size_t batch_numbers(struct batch *batch, const int64_t *numbers, size_t n);

// Makes an empty batch. Returns NULL if memory ran out.
struct batch *batch_new(void);

// Empties the batch for further use.
void batch_clear(struct batch *batch);
struct batch *batch_free(struct batch *batch);
