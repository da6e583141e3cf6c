// SPDX-License-Identifier: Apache-2.0
//
// Writes the interned data of call stacks: texts, mappings, frames and callstacks. The packets of
// one sequence are gathered until they are full. Each text is written once in a state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/nsec.h"
#include "producer/trace/packet_writer.h"

enum interned_text { INTERNED_BUILD_ID, INTERNED_PATH, INTERNED_FUNCTION, INTERNED_TEXT_KINDS };

// All zero at first, except the first three members.
struct interned_stacks {
    struct packet_writer *writer; // borrowed
    uint64_t retain_max;          // bytes of a state that are kept beside a ring
    nsec_t now;                   // time of the packets

    struct strset texts[INTERNED_TEXT_KINDS]; // written texts
    uint64_t first_text[INTERNED_TEXT_KINDS]; // ids count from here plus 1
    uint64_t bytes;                           // written in this state
    uint64_t n_dropped;                       // packets that the writer had dropped before
    struct wire_writer *w;                    // of the open packet; NULL: none
    size_t mark;                              // of its interned_data
    bool failed;                              // a packet was refused, or memory ran out
};

struct interned_mapping {
    uint64_t start, end, file_offset, load_bias;
};

// Returns the limit that leaves room beside the ring for the data of other sources.
uint64_t interned_stacks_retainable(const struct packet_writer *writer);

// Starts a state: texts are written anew. Clears the incremental state of the sequence.
void interned_stacks_begin(struct interned_stacks *interned);
// Makes the next packets write texts again under new ids, in the same state, because a ring may
// have lost the first packets. The caller must choose new ids, too.
void interned_stacks_renew(struct interned_stacks *interned);
// Returns whether readers have everything that was written since interned_stacks_begin().
bool interned_stacks_is_whole(const struct interned_stacks *interned);

uint64_t interned_iid_of_text(struct interned_stacks *interned, enum interned_text kind,
                              const char *text, size_t size);
// The caller chooses `iid`, as in the next functions. An empty build id is interned like any other.
void interned_mapping(struct interned_stacks *interned, uint64_t iid,
                      const struct interned_mapping *mapping, const char *path,
                      const char *build_id, size_t build_id_size);
// `function` may be NULL.
void interned_frame(struct interned_stacks *interned, uint64_t iid, uint64_t mapping_iid,
                    uint64_t rel_pc, const char *function);
// Calls `next` for the ids of `n` frames, outermost first.
void interned_callstack(struct interned_stacks *interned, uint64_t iid, size_t n,
                        uint64_t (*next)(const void *userdata, size_t i), const void *userdata);
// Closes the open packet. Call it before packets that refer to the data.
void interned_stacks_end(struct interned_stacks *interned);
void interned_stacks_done(struct interned_stacks *interned);
