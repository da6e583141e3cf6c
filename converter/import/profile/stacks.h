// SPDX-License-Identifier: Apache-2.0
//
// Call chains of profiles: mappings, frames and call sites, each stored once. The rows of frames
// are written at the end, with symbols and names before obfuscation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/decode/message.h"
#include "converter/decode/sequence.h"

struct import;
struct wire_field;

#define STACK_NONE (-1)

struct stack_mapping {
    uint32_t name;     // in strings
    uint32_t build_id; // in strings, as hex digits
    int64_t exact_offset, start;
};
VEC_DEFINE(stack_mapping_vec, struct stack_mapping);

struct stack_frame {
    int64_t mapping, rel_pc;
    int64_t symbol_set;          // STACK_NONE: none
    uint32_t line;               // line of the innermost symbol with a line; 0: unknown
    uint32_t name, deobfuscated; // in strings; STRSET_NONE: none
    uint32_t type;               // in strings; STRSET_NONE: none
    uint32_t package;            // in strings: app of the first process with an app
};
VEC_DEFINE(stack_frame_vec, struct stack_frame);

// A callstack while it is read.
struct stack_walk {
    struct values ids;
    uint64_t frame_iid;
    bool has_frame; // frame_iid is the next frame
    int64_t callsite, depth;
};
VEC_DEFINE(stack_walk_vec, struct stack_walk);
VEC_DEFINE(lacking_vec, uint64_t);

struct stacks {
    // Contents as bytes; ids are row ids.
    struct strset mappings, frames, callsites;
    struct stack_mapping_vec mapping_rows;
    struct stack_frame_vec frame_rows;
    int64_t n_symbols;
    // Missing parts of interned entries: see stacks.c.
    struct lacking_vec lacking;
    struct stack_walk_vec walks;
    size_t n_path_bytes; // of all names of mappings
    size_t n_long_bytes; // of long texts in rows, which may repeat a text
};

// Fields with interned messages: of InternedData, or of the old ProfilePacket.
struct stack_source {
    const struct generation *state;
    uint32_t callstacks, frames, mappings, function_names, build_ids, paths, files; // fields
};

struct stack_source stack_source_interned(const struct generation *state);
struct stack_source stack_source_profile_packet(const struct generation *state);

#define CALLSITE_NONE (-1)

// Returns the innermost call site of a callstack. CALLSITE_NONE: the trace lacks a part of the
// callstack. Missing parts are counted.
int64_t stacks_callsite(struct import *im, const struct stack_source *source,
                        uint64_t callstack_iid);
bool stacks_has_callstack(const struct stack_source *source, uint64_t callstack_iid);

// Returns the row of an interned mapping. STACK_NONE: the trace lacks the mapping or a part of the
// mapping.
int64_t stacks_interned_mapping(struct import *im, const struct stack_source *source,
                                uint64_t mapping_iid);

// Returns the function at an address of a mapping, in strings, by the ModuleSymbols of the whole
// trace. STRSET_NONE: not known.
uint32_t symbols_function(struct import *im, int64_t mapping, uint64_t rel_pc);

// For chains that are not interned: stacks_mapping(), stacks_frame() and stacks_child() add a
// mapping, a frame, and a call site below `parent`. Each function returns the id of the row. Texts
// are in strings; `mapping` may be STACK_NONE.
int64_t stacks_mapping(struct import *im, uint32_t name, uint32_t build_id,
                       const int64_t numbers[5]);
// Adds a row for a mapping, even if the same mapping has a row already.
int64_t stacks_mapping_add(struct import *im, uint32_t name, uint32_t build_id,
                           const int64_t numbers[5]);
// Returns the bytes of a build id as hex digits, in strings.
uint32_t stacks_build_id(struct import *im, const void *bytes, size_t size);
int64_t stacks_frame(struct import *im, int64_t mapping, int64_t rel_pc, uint32_t name,
                     uint32_t file, uint32_t line, uint32_t type);
int64_t stacks_child(struct import *im, int64_t parent, int64_t frame, int64_t depth);

// Returns the frame of a call site. *ret_parent: the calling call site (STACK_NONE: none).
int64_t stacks_frame_of(const struct stacks *stacks, int64_t callsite, int64_t *ret_parent);

// Returns the innermost call site of an InlineCallstack. Its frames get the mapping `mapping_name`.
int64_t stacks_inline(struct import *im, const struct wire_field *message,
                      const char *mapping_name);

// Adds a row of symbols and returns its set. All symbols of a frame share a set, the id of their
// first row. `file` STRSET_NONE, and `line` or `inlined` < 0: not known.
int64_t stacks_symbol(struct import *im, int64_t set, uint32_t name, uint32_t file, int64_t line,
                      int inlined);
#define SYMBOL_SET_NEW (-1)

// Returns the state, which all machines share.
struct stacks *stacks_of(const struct import *im);
