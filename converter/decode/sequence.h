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
    int64_t made;   // kept for whoever makes something of the entry, to do so once; 0 at first
};
VEC_DEFINE(interned_vec, struct interned);

// All zero is empty.
struct interned_table {
    struct interned_vec entries;
    struct map64 index; // mixed field and iid -> entry
};

// How often entries were asked for, all sequences together.
struct interned_use {
    uint64_t n_missing;    // in vain, or they have no number
    uint64_t n_long_bytes; // of long entries that were given
    uint64_t n_withheld;
};

struct generation {
    uint32_t sequence_id;
    uint32_t sequence; // unique over machines
    uint32_t machine;
    uint32_t epoch;                  // counts how often all sequences together started over
    struct interned_table *interned; // borrowed, may be shared with the generation before
    struct wire_reader defaults;     // TracePacketDefaults, empty if there are none
    struct interned_use *use;        // borrowed, of the sequences
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
    struct interned_use use;
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

// For interned data that has another place and life than a sequence's: adds every entry of a
// message, all of its submessages. Those without a number count in `use`, which may be NULL.
int interned_table_read(struct interned_table *table, struct wire_reader interned_data,
                        struct interned_use *use);
void interned_table_done(struct interned_table *table);

static inline const struct generation *sequences_generation(const struct sequences *sequences,
                                                            uint32_t index)
{
    return &sequences->generations.items[index];
}

// The entry of InternedData's field `field` with that iid, or NULL. For those who read it whenever
// it is used: a long one is withheld when very many bytes were given so, for a few bytes of trace
// can use it, and each use costs its whole length again.
struct interned *generation_find(const struct generation *generation, uint32_t field, uint64_t iid);

// The same for those who keep what they made of it, and never withheld. Either is valid until the
// sequence gets another entry.
struct interned *generation_entry(const struct generation *generation, uint32_t field,
                                  uint64_t iid);

// An entry as a message; empty if there is none.
static inline struct wire_field interned_message(const struct interned *entry)
{
    return entry ? (struct wire_field){.number = entry->field,
                                       .type = WIRE_BYTES,
                                       .data = entry->data,
                                       .size = entry->size}
                 : (struct wire_field){0};
}

void sequences_done(struct sequences *sequences);
