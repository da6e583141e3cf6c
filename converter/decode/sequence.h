// SPDX-License-Identifier: Apache-2.0
//
// The incremental state of a sequence: interned data and defaults. The state holds until the
// sequence starts over. Packets are read twice, first in file order and later in order of time, so
// each packet remembers the generation of the state at its place in the file.
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
    int64_t made;   // for the user of the entry: a value that the user makes once; initially 0
};
VEC_DEFINE(interned_vec, struct interned);

// All zero is empty.
struct interned_table {
    struct interned_vec entries;
    struct map64 index; // hash of field and iid -> index of the entry
};

// Counts of look-ups, over all sequences.
struct interned_use {
    uint64_t n_missing;    // look-ups of missing entries, and entries without iid
    uint64_t n_long_bytes; // bytes of long entries that were returned
    uint64_t n_withheld;
};

struct generation {
    uint32_t sequence_id;
    uint32_t sequence; // unique over machines
    uint32_t machine;
    uint32_t epoch;                  // unique number of the state; each clear gives a new number
    struct interned_table *interned; // borrowed, may be shared with the previous generation
    struct wire_reader defaults;     // TracePacketDefaults, empty if there are none
    struct interned_use *use;        // borrowed, of the sequences
    bool has_first;                  // the trace has the sequence's very first packet
};
VEC_DEFINE(generation_vec, struct generation);
VEC_DEFINE(interned_table_vec, struct interned_table *);

#define LOSS_CAUSES 8

// Losses of a sequence up to the current packet.
struct sequence_losses {
    uint32_t n_gaps;
    uint32_t n_by_cause[LOSS_CAUSES]; // gaps by DataLossReason, from bit 1 on
    uint32_t n_with_need;             // packets that need the state
    uint32_t n_left_out;              // packets of n_with_need whose state was lost
};

struct sequence {
    struct sequence_losses losses;
    uint32_t generation; // index of the current generation
    bool valid;          // its incremental state is complete
    bool seen;
    bool has_first; // see struct generation
    struct thread_clock thread_clock;
};
VEC_DEFINE(sequence_vec, struct sequence);

// All zero is empty. Must not be moved after the first use, because generations point to `use`.
struct sequences {
    struct map64 by_id; // machine and sequence id -> index in items
    struct sequence_vec items;
    struct generation_vec generations;
    struct interned_table_vec tables; // owned
    uint32_t n_epochs;
    struct interned_use use;
};

// Returns the sequence with this id, and makes a new sequence if needed. NULL: memory is out. Valid
// until the next call.
struct sequence *sequences_get(struct sequences *sequences, uint32_t machine, uint32_t sequence_id);

// Clears the incremental state of the sequence. Returns 0 or -ENOMEM.
int sequence_clear(struct sequences *sequences, struct sequence *sequence);

// Returns false if packets of the sequence were lost, or if the state of the sequence has not
// begun.
bool sequences_is_valid(const struct sequences *sequences, uint32_t machine, uint32_t sequence_id);

// Returns the losses of the sequence with this id, or NULL if the trace has no packet of the
// sequence so far. Valid until the next call of sequences_get().
const struct sequence_losses *sequences_losses(const struct sequences *sequences, uint32_t machine,
                                               uint32_t sequence_id);

// Notes that packets of the sequence are missing. `reasons`: bits of DataLossReason.
void sequence_note_gap(struct sequence *sequence, uint32_t reasons);

// Notes that the current packet is the first packet of the sequence.
void sequence_set_first(struct sequences *sequences, struct sequence *sequence);

int sequence_set_defaults(struct sequences *sequences, struct sequence *sequence,
                          struct wire_reader defaults);

// Adds every entry of an InternedData message. Returns 0 or -ENOMEM.
int sequence_intern(struct sequences *sequences, struct sequence *sequence,
                    struct wire_reader interned_data);

// Adds every submessage of a message as an entry. For interned data outside of sequences. `use`
// counts the entries without iid and may be NULL. Returns 0 or -ENOMEM.
int interned_table_read(struct interned_table *table, struct wire_reader interned_data,
                        struct interned_use *use);
void interned_table_done(struct interned_table *table);

static inline const struct generation *sequences_generation(const struct sequences *sequences,
                                                            uint32_t index)
{
    return &sequences->generations.items[index];
}

// Returns the entry with `iid` of InternedData's field `field`, or NULL. For users that read the
// entry at each use. A few bytes of trace can refer to a long entry, and each use reads the whole
// entry. Therefore the function withholds long entries after it has returned very many bytes of
// them.
struct interned *generation_find(const struct generation *generation, uint32_t field, uint64_t iid);

// Does the work of generation_find() for users that keep the result in `made`; an entry is never
// withheld. Both pointers are valid until the sequence gets another entry.
struct interned *generation_entry(const struct generation *generation, uint32_t field,
                                  uint64_t iid);

// Returns an entry as a message; empty if `entry` is NULL.
static inline struct wire_field interned_message(const struct interned *entry)
{
    return entry ? (struct wire_field){.number = entry->field,
                                       .type = WIRE_BYTES,
                                       .data = entry->data,
                                       .size = entry->size}
                 : (struct wire_field){0};
}

void sequences_done(struct sequences *sequences);
