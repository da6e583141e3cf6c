// SPDX-License-Identifier: Apache-2.0
//
// Shared by the packets of V8: instances of the engine (isolates), sources of code, and addresses
// of code.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

#define V8_NONE (-1)

// Gives the name of a value of one of V8's enums.
#define NAMED(names, value) ((value) < ELEMENTS(names) ? (names)[value] : "UNKNOWN")

// A range of addresses for code.
struct code_space {
    uint64_t start, end;
    void *live; // tree of tsearch(3): struct live_code by address, without overlaps
};
VEC_DEFINE(code_space_vec, struct code_space);

VEC_DEFINE(v8_row_vec, int64_t);

struct v8_function {
    int64_t row;
    uint32_t name; // in strings
};
VEC_DEFINE(v8_function_vec, struct v8_function);

struct isolate {
    int64_t id; // row; V8_NONE: the isolate's code range is not known
    int64_t upid;
    int64_t map;        // row of perf_map, which names frames
    uint32_t spaces[3]; // in code_space_vec
    uint32_t n_spaces;
    int64_t n_symbols;
};
VEC_DEFINE(isolate_vec, struct isolate);

// The state of a machine. All zero is empty.
struct v8 {
    struct isolate_vec isolates;
    struct map64 isolate_of; // process and isolate's number in the process -> index
    struct code_space_vec spaces;
    struct map64 shared_by; // process -> index of the isolate whose spaces the others share
    struct strset js_scripts, js_functions, wasm_scripts; // by identity
    struct v8_row_vec rows_of[3];                         // rows of the sets' items, by id
    struct v8_function_vec functions;                     // results of interned functions
};

void v8_done(void *state);

// Returns the index of the isolate `iid` of the sequence. V8_NONE: the isolate is missing or
// unusable; both are counted.
int64_t v8_isolate(struct import *im, struct v8 *v8, const struct packet *packet, uint64_t iid);

// Return rows of the sources of code. V8_NONE: the trace lacks the source. Missing sources are
// counted.
int64_t v8_js_function(struct import *im, struct v8 *v8, const struct packet *packet,
                       int64_t isolate, uint64_t iid, struct slice_name *ret_name);
int64_t v8_wasm_script(struct import *im, struct v8 *v8, const struct packet *packet,
                       int64_t isolate, uint64_t iid);

// Set a cell of the newest row to a V8String, or to bytes in base64.
void v8_cell_text(struct import *im, struct cell *row, size_t column,
                  const struct wire_field *message);
void v8_cell_base64(struct import *im, struct cell *row, size_t column,
                    const struct wire_field *bytes);

struct new_code {
    int64_t ts, utid;
    uint64_t start, size;
    struct slice_name name;
    struct wire_field bytes;
};

// Returns the index of the space of the code; V8_NONE: none.
int64_t code_space_find(const struct v8 *v8, int64_t isolate, uint64_t start, uint64_t size);

// Adds code to a space, and ends all code that the new code overlaps. Returns the row of the new
// code in jit_code; V8_NONE: memory ran out, and the conversion must end.
int64_t code_put(struct import *im, struct v8 *v8, int64_t isolate, int64_t space,
                 const struct new_code *code);

// Moves the code at `from` to `to`.
void code_move(struct import *im, struct v8 *v8, int64_t space, int64_t ts, uint64_t from,
               uint64_t to);

// Writes the code that is still live.
void codes_finish(struct import *im, struct v8 *v8);
