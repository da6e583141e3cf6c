// SPDX-License-Identifier: Apache-2.0
//
// SQL that macros put together from several places, and where each part was written. Errors name
// the place that a person wrote.
#pragma once

#include <stdint.h>

#include "common/str.h"
#include "common/vec.h"

// Text that a person wrote: a query, a file, a module. Lives as long as the engine.
struct sql_text {
    char *name; // owned; for people: "query", "module slices.flow", a path
    char *sql;  // owned
    size_t size;
};

// The characters from `at` to the next piece come from one place.
struct sql_piece {
    size_t at;                   // in the rope
    const struct sql_text *text; // borrowed; NULL: made by the engine
    size_t offset;               // in `text`
    uint32_t call;               // the macro call that wrote it here, + 1; 0: none
};
VEC_DEFINE(sql_piece_vec, struct sql_piece);

// All zero is empty. If memory runs out, `sql.failed` is set, and later additions do nothing.
struct sql_rope {
    struct strbuf sql;
    struct sql_piece_vec pieces; // by `at`
};

void rope_add_made(struct sql_rope *rope, const char *sql);
// The text stands for what a person wrote at `place`, which is not shorter.
void rope_add_made_at(struct sql_rope *rope, const char *sql, struct sql_piece place);
void rope_add_text(struct sql_rope *rope, const struct sql_text *text, size_t begin, size_t end,
                   uint32_t call);
// Adds a part of another rope.
void rope_add(struct sql_rope *rope, const struct sql_rope *from, size_t begin, size_t end);
// Returns 0, or -ENOMEM if an addition failed.
int rope_check(const struct sql_rope *rope);
void rope_done(struct sql_rope *rope); // fit for CLEANUP()

// The place of the character at `at`; .text is NULL if no person wrote it.
struct sql_piece rope_origin(const struct sql_rope *rope, size_t at);

// Appends "NAME line N, column C: LINE" with a caret under the place. The name "" is left out.
void sql_place_print(struct strbuf *out, const struct sql_piece *place);
