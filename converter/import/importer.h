// SPDX-License-Identifier: Apache-2.0
//
// How packets become rows. An importer takes one field of TracePacket; it is one file with one
// const struct importer, and one row in importers.c. Nothing else knows it, apart from importers of
// the same subject, which share a state.
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
    uint32_t field; // of TracePacket; 0: none, it is a state that importers share
    // Either may be NULL. The field is packet->message; packet->own, and `state` below, is what
    // `state_size` asked for. If the conversion must end, they tell import_fail(), as all that is
    // below them; what is wrong with a packet is no such reason: count it in stats.
    void (*now)(struct import *im, const struct packet *packet);
    void (*sorted)(struct import *im, const struct packet *packet);
    // In place of these two, for a bundle of events: each event in order of time; in file order the
    // descriptors of events that the bundle carries (may be NULL); and, before the first event, the
    // moment from which the data of all processors is complete, if that is known (may be NULL).
    void (*event)(struct import *im, void *state, const struct bundle_event *event);
    void (*describe)(struct import *im, void *state, const struct wire_field *descriptor);
    void (*complete)(struct import *im, void *state, int64_t ts);
    size_t state_size; // bytes of state, zeroed at the start
    // There is one state for all machines of the trace, and one call of each function below.
    bool of_all_machines;
    // The state is that of this importer, which alone has the functions below. NULL: its own.
    const struct importer *shares;
    // All of these may be NULL. Once for each machine: before its first packet, between file order
    // and order of time, after the last packet, to write what was held back, and when all
    // importers have done that, to write what they may still have changed.
    void (*start)(struct import *im, void *state);
    void (*indexed)(struct import *im, void *state);
    void (*finish)(struct import *im, void *state);
    void (*write)(struct import *im, void *state);
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

static inline size_t importer_place(const struct importer *importer)
{
    return ((uintptr_t)importer >> 5 ^ (uintptr_t)importer >> 13) % IMPORTER_PLACES;
}

static inline size_t importer_index(const struct import *im, const struct importer *importer)
{
    size_t place = importer_place(importer);
    while (im->places[place].importer != importer)
        place = (place + 1) % IMPORTER_PLACES;
    return im->places[place].index;
}

// The state of an importer for the machine at hand.
static inline void *importer_state(const struct import *im, const struct importer *importer)
{
    return im->machine->states[importer_index(im, importer)];
}
