// SPDX-License-Identifier: Apache-2.0
//
// Call chains of profiles: mappings, frames and call sites, each stored once however often it is
// seen.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "converter/decode/sequence.h"

struct import;

struct stacks {
    // Contents as bytes; ids are those of the rows.
    struct strset mappings, frames, callsites;
    int failure; // negative errno of the first failure
};

// Where interned messages are found: fields of InternedData, or of the old ProfilePacket.
struct stack_source {
    const struct generation *state;
    uint32_t callstacks, frames, mappings, function_names, build_ids, paths; // fields
};

struct stack_source stack_source_interned(const struct generation *state);
struct stack_source stack_source_profile_packet(const struct generation *state);

#define CALLSITE_NONE (-1)

// The innermost call site of a callstack; CALLSITE_NONE: it refers to what the trace does not have.
int64_t stacks_callsite(struct import *im, const struct stack_source *source,
                        uint64_t callstack_iid);

void stacks_done(struct stacks *stacks);
