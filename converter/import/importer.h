// SPDX-License-Identifier: Apache-2.0
//
// Importers make rows of packets. An importer reads one field of TracePacket. An importer is a
// const struct importer and a row in importers.c. No other code refers to an importer, except
// importers of the same subject, which share a state.
//
// An importer gets a packet in file order (now) if later packets depend on it, in order of time
// (sorted) if its rows have a time, or both. An importer writes through the modules of struct
// import: rows with database_row(), counters, slices, tracks, processes. Bytes of the packet stay
// valid until the database is finished, so cells may point into them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/decode/message.h"
#include "converter/decode/trace.h"
#include "converter/import/import.h"

struct importer {
    uint32_t field; // of TracePacket; 0: none, a state that importers share
    // Handle the field in file order (now) and in order of time (sorted). Either may be NULL.
    // packet->message is the field; packet->own is the state, of `state_size` bytes. Fatal errors
    // go to import_fail(). A damaged packet is not fatal: count it in stats.
    void (*now)(struct import *im, const struct packet *packet);
    void (*sorted)(struct import *im, const struct packet *packet);
    // Handle a bundle of events, instead of `now` and `sorted`. event: gets each event, in order of
    // time. describe (may be NULL): gets the event descriptors of the bundle, in file order.
    // complete (may be NULL): gets the time from which the data of all CPUs is complete, before the
    // first event, if the time is known.
    void (*event)(struct import *im, void *state, const struct bundle_event *event);
    void (*describe)(struct import *im, void *state, const struct wire_field *descriptor);
    void (*complete)(struct import *im, void *state, int64_t ts);
    size_t state_size; // bytes of state, zeroed at the start
    // All machines share one state, and each function below is called once.
    bool of_all_machines;
    // The importer whose state this importer shares; only that importer has the functions below.
    // NULL: this importer has its own state.
    const struct importer *shares;
    // Each may be NULL and is called once for each machine. start: before the machine's first
    // packet. indexed: between file order and order of time. finish: after the last packet, to
    // write pending rows. write: after `finish` of all importers, to write rows that other
    // importers may have changed.
    void (*start)(struct import *im, void *state);
    void (*indexed)(struct import *im, void *state);
    void (*finish)(struct import *im, void *state);
    void (*write)(struct import *im, void *state);
    // Releases what the state owns. May be NULL.
    void (*done)(void *state);
};

// Sets a cell to the text of a field. The cell stays NULL if the field is absent.
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

// Returns the state of an importer for the current machine.
static inline void *importer_state(const struct import *im, const struct importer *importer)
{
    return im->machine->states[importer_index(im, importer)];
}
