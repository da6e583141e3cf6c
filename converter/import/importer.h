// SPDX-License-Identifier: Apache-2.0
//
// How packets become rows. An importer takes one field of TracePacket; it is one file with one
// const struct importer, and one row in importers.c. Nothing else knows it.
//
// An importer sees a packet in file order (now) if later packets depend on it, in order of time
// (sorted) if it makes rows that belong on the time line, or both. It writes through the modules of
// struct import: rows with database_row(), counters, slices, tracks, processes. Bytes of the packet
// stay valid until the database is finished, so cells may point into them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/decode/message.h"
#include "converter/decode/trace.h"
#include "converter/import/import.h"

struct importer {
    uint32_t field; // of TracePacket
    // Either may be NULL. `state` is what `state_size` asked for. Return 0, or a negative errno
    // that ends the conversion; what is wrong with a packet is no such reason: count it in stats.
    int (*now)(struct import *im, void *state, const struct packet *packet,
               const struct wire_field *field);
    int (*sorted)(struct import *im, void *state, const struct packet *packet,
                  const struct wire_field *field);
    size_t state_size; // bytes of state, zeroed at the start
    // There is one state for all machines of the trace, and one call of finish.
    bool of_all_machines;
    // After the last packet: writes what was held back. May be NULL.
    int (*finish)(struct import *im, void *state);
    // Releases what the state owns. May be NULL.
    void (*done)(void *state);
};

// The text of a field; where the message lacks it, the cell stays NULL.
static inline void cell_field(struct cell *row, size_t column, const struct wire_field *field)
{
    if (field->data)
        cell_bytes(row, column, field->data, field->size);
}

extern const struct importer *const importers[];
extern const size_t n_importers;
