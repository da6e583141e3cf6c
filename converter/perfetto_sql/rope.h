// SPDX-License-Identifier: Apache-2.0
//
// SQL that macros assemble from several places, with the place of each part. Errors name the place
// in the text that a person wrote.
#pragma once

#include <stdint.h>

#include "common/str.h"
#include "common/vec.h"

// Text that a person wrote: a query, a file, a module. The text lives as long as the engine.
struct sql_text {
    char *name; // owned; for people: "query", "module slices.flow", a path
    char *sql;  // owned
    size_t size;
};

// The characters from `at` to the next piece come from one place.
struct sql_piece {
    size_t at;                   // in the rope
    const struct sql_text *text; // borrowed; NULL: the engine made the characters
    size_t offset;               // in `text`
    uint32_t call;               // the macro call that inserted the characters, + 1; 0: none
};
VEC_DEFINE(sql_piece_vec, struct sql_piece);

// All zero is empty. If memory runs out, `sql.failed` is set, and later additions do nothing.
struct sql_rope {
    struct strbuf sql;
    struct sql_piece_vec pieces; // by `at`
};

void rope_add_made(struct sql_rope *rope, const char *sql);
// Adds a text that replaces the text of a person at `place`. The text of the person must not be
// shorter.
void rope_add_made_at(struct sql_rope *rope, const char *sql, struct sql_piece place);
void rope_add_text(struct sql_rope *rope, const struct sql_text *text, size_t begin, size_t end,
                   uint32_t call);
// Adds a part of another rope.
void rope_add(struct sql_rope *rope, const struct sql_rope *from, size_t begin, size_t end);
// Returns 0, or -ENOMEM if an addition failed.
int rope_check(const struct sql_rope *rope);
void rope_done(struct sql_rope *rope); // fit for CLEANUP()

// Returns the place of the character at `at`. .text is NULL if the engine made the character.
struct sql_piece rope_origin(const struct sql_rope *rope, size_t at);

// Appends "NAME line N, column C: LINE" with a caret under the place. An empty NAME is left out.
void sql_place_print(struct strbuf *out, const struct sql_piece *place);
