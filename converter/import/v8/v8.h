// SPDX-License-Identifier: Apache-2.0
//
// What the packets of V8 share: instances of the engine (isolates), what their code was made of,
// and where code is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

#define V8_NONE (-1)

// The name of a value of one of V8's enums.
#define NAMED(names, value) ((value) < ELEMENTS(names) ? (names)[value] : "UNKNOWN")

// A range of addresses that code is put into.
struct code_space {
    uint64_t start, end;
    void *live; // of tsearch(3): struct live_code, by address; they never overlap
};
VEC_DEFINE(code_space_vec, struct code_space);

VEC_DEFINE(v8_row_vec, int64_t);

struct v8_function {
    int64_t row;
    uint32_t name; // in strings
};
VEC_DEFINE(v8_function_vec, struct v8_function);

struct isolate {
    int64_t id; // row; V8_NONE: nothing is known of where its code is
    int64_t upid;
    int64_t map;        // row of perf_map, which names frames
    uint32_t spaces[3]; // in code_space_vec
    uint32_t n_spaces;
    int64_t n_symbols;
};
VEC_DEFINE(isolate_vec, struct isolate);

// Of one machine. All zero is empty.
struct v8 {
    struct isolate_vec isolates;
    struct map64 isolate_of; // process and number in it -> index
    struct code_space_vec spaces;
    struct map64 shared_by; // process -> index of the isolate whose spaces all of it share
    struct strset js_scripts, js_functions, wasm_scripts; // by what tells them apart
    struct v8_row_vec rows_of[3];                         // rows of these, by their ids
    struct v8_function_vec functions;                     // what interned ones were made into
};

void v8_done(void *state);

// The index of the isolate with that number in the sequence. V8_NONE: there is none, or it cannot
// be used, which is counted.
int64_t v8_isolate(struct import *im, struct v8 *v8, const struct packet *packet, uint64_t iid);

// Rows of what code was made of. V8_NONE: the trace lacks it, which is counted.
int64_t v8_js_function(struct import *im, struct v8 *v8, const struct packet *packet,
                       int64_t isolate, uint64_t iid, struct slice_name *ret_name);
int64_t v8_wasm_script(struct import *im, struct v8 *v8, const struct packet *packet,
                       int64_t isolate, uint64_t iid);

// A V8String, and bytes in base64, for the row that was made last.
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

// The index of the space that the code is in; V8_NONE: in none.
int64_t code_space_find(const struct v8 *v8, int64_t isolate, uint64_t start, uint64_t size);

// Code was put into a space: what was there is gone. Returns its row of jit_code; V8_NONE: no
// memory, which is noted.
int64_t code_put(struct import *im, struct v8 *v8, int64_t isolate, int64_t space,
                 const struct new_code *code);

// The code at `from` moves.
void code_move(struct import *im, struct v8 *v8, int64_t space, int64_t ts, uint64_t from,
               uint64_t to);

// Writes what is still there.
void codes_finish(struct import *im, struct v8 *v8);
