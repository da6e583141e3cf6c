// SPDX-License-Identifier: Apache-2.0
//
// Rows are packed without gaps, so narrow tables waste no cells.
#include "converter/tables/batch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct batch *batch_new(void)
{
    struct batch *batch = malloc(sizeof(*batch));
    if (!batch)
        return NULL;
    batch->n_rows = batch->n_cells = batch->n_numbers = 0;
    batch->copies = (struct arena){0};
    return batch;
}

static bool has_room(const struct batch *batch, size_t n_cells)
{
    return !batch->n_numbers && batch->n_rows < BATCH_ROWS &&
           n_cells <= BATCH_CELLS - batch->n_cells;
}

struct cell *batch_row(struct batch *batch, size_t width)
{
    if (!has_room(batch, width))
        return NULL;
    struct cell *row = &batch->cells[batch->n_cells];
    memset(row, 0, width * sizeof(*row));
    batch->widths[batch->n_rows++] = (uint8_t)width;
    batch->n_cells += width;
    return row;
}

struct event_row *batch_event(struct batch *batch)
{
    if (!has_room(batch, EVENT_ROW_CELLS))
        return NULL;
    struct cell *place = &batch->cells[batch->n_cells];
    batch->widths[batch->n_rows++] = BATCH_EVENT;
    batch->n_cells += EVENT_ROW_CELLS;
    return (void *)place;
}

size_t batch_numbers(struct batch *batch, const int64_t *numbers, size_t n)
{
    size_t room = batch->n_rows ? 0 : BATCH_NUMBERS - batch->n_numbers;
    n = n < room ? n : room;
    memcpy(batch->numbers + batch->n_numbers, numbers, n * sizeof(*numbers));
    batch->n_numbers += n;
    return n;
}

void batch_clear(struct batch *batch)
{
    arena_done(&batch->copies);
    batch->n_rows = batch->n_cells = batch->n_numbers = 0;
}

struct batch *batch_free(struct batch *batch)
{
    if (batch)
        arena_done(&batch->copies);
    free(batch);
    return NULL;
}
