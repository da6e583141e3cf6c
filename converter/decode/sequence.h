// SPDX-License-Identifier: Apache-2.0
//
// What packets of one sequence share: interned data and defaults. Both hold until the sequence says
// that it starts over. Packets are looked at twice, first in file order and later in order of time,
// so each remembers the generation of the state that was in force where it stood.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "common/wire.h"
#include "converter/decode/thread_clock.h"

struct interned {
    uint64_t iid;
    const uint8_t *data; // borrowed from the trace: the whole entry, iid included
    uint32_t size;
    uint32_t field; // of InternedData
};
VEC_DEFINE(interned_vec, struct interned);

struct interned_table {
    struct interned_vec entries;
    struct map64 index; // mixed field and iid -> entry
};

struct generation {
    uint32_t sequence_id;
    uint32_t sequence; // unique over machines
    uint32_t machine;
    uint32_t epoch;                  // counts how often all sequences together started over
    struct interned_table *interned; // borrowed, may be shared with the generation before
    struct wire_reader defaults;     // TracePacketDefaults, empty if there are none
    uint64_t *n_missing;             // borrowed, of the sequences
    bool has_first;                  // the trace has the sequence's very first packet
};
VEC_DEFINE(generation_vec, struct generation);
VEC_DEFINE(interned_table_vec, struct interned_table *);

struct sequence {
    uint32_t generation; // index of the present one
    bool valid;          // its incremental state is complete
    bool seen;
    bool has_first; // see generation
    struct thread_clock thread_clock;
};
VEC_DEFINE(sequence_vec, struct sequence);

// All zero is empty. Not to be moved once it is in use.
struct sequences {
    struct map64 by_id; // machine and sequence id -> index in items
    struct sequence_vec items;
    struct generation_vec generations;
    struct interned_table_vec tables; // owned
    uint32_t n_epochs;
    uint64_t n_missing; // entries that were asked for in vain, or have no number
};

// The sequence of that id, made if it is new. NULL: no memory. Valid until the next call.
struct sequence *sequences_get(struct sequences *sequences, uint32_t machine, uint32_t sequence_id);

// Start over: nothing is known. 0 or -ENOMEM.
int sequence_clear(struct sequences *sequences, struct sequence *sequence);

// The packet at hand is the first that was written on it.
void sequence_set_first(struct sequences *sequences, struct sequence *sequence);

int sequence_set_defaults(struct sequences *sequences, struct sequence *sequence,
                          struct wire_reader defaults);

// Adds every entry of an InternedData message.
int sequence_intern(struct sequences *sequences, struct sequence *sequence,
                    struct wire_reader interned_data);

static inline const struct generation *sequences_generation(const struct sequences *sequences,
                                                            uint32_t index)
{
    return &sequences->generations.items[index];
}

// The entry of InternedData's field `field` with that iid, or NULL.
const struct interned *generation_find(const struct generation *generation, uint32_t field,
                                       uint64_t iid);

void sequences_done(struct sequences *sequences);
