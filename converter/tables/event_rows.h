// SPDX-License-Identifier: Apache-2.0
//
// Rows of kernel events, with their fields still in the bytes of the trace. The writer's thread
// reads the fields and makes the record in one pass. Meanwhile, the reader's thread continues with
// the next event.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/cell.h"

#define EVENT_FIELDS_MAX  64  // numbers of fields
#define EVENT_MESSAGE_MAX 512 // bytes
#define EVENT_CELLS_MAX   80

struct event_field {
    uint8_t slot; // + 1; 0: the field is not stored
    bool is_text;
};

// The columns of the fields of one kind of event.
struct event_layout {
    int64_t kind; // id in _arg_kind
    uint8_t n_slots;
    struct event_field fields[EVENT_FIELDS_MAX]; // by number
};

// A row of _arg_set. `message` and `layout` are borrowed, with the lifetime of a cell's bytes (see
// cell.h).
struct event_row {
    int64_t id, ts;
    const uint8_t *message;
    const struct event_layout *layout;
    uint32_t size; // of the message, at most EVENT_MESSAGE_MAX
    uint32_t utid, ucpu;
};

#define EVENT_ROW_CELLS (sizeof(struct event_row) / sizeof(struct cell)) // of a batch

// A record before its last step: header and values are still separate.
struct event_record {
    size_t n_head, n_body;
    uint8_t head[2 * EVENT_CELLS_MAX];
    uint8_t body[2 * EVENT_MESSAGE_MAX + 64];
};

// Makes the record of a row. Returns false if a field is unusual (out of order, not a varint or
// text, damaged), or if a text must be mended. The caller then makes the row from cells
// (event_row_cells()).
bool event_record_make(const struct event_row *row, struct event_record *ret);

// Sets the cells of the row and returns their number. `cells` has room for EVENT_CELLS_MAX.
size_t event_row_cells(const struct event_row *row, struct cell *cells);
