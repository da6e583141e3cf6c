// SPDX-License-Identifier: Apache-2.0
//
// Macros: CREATE PERFETTO MACRO name(argument Type, ...) RETURNS Type AS body. The body replaces a
// call name!(...), and the call's arguments replace $argument in the body. Arguments are expanded
// before they are inserted.
//
// Built in are __intrinsic_stringify!(a), which makes a text of its argument, and
// __intrinsic_token_apply!(macro, (a, b)[, (c, d)]), which calls a macro for each item of a list
// and joins the calls by commas. The suffix _and joins the calls by AND. The suffixes _prefix and
// _and_prefix also put the comma or AND before the first call.
#pragma once

#include "converter/perfetto_sql/rope.h"

#define SQL_EXPANDED_MAX (16u << 20) // bytes of a statement
#define SQL_MACRO_DEPTH  64          // depth of calls within calls
#define SQL_MACRO_CALLS  200000      // calls in a statement
#define SQL_MACRO_BYTES  (64u << 20) // that all calls of a statement copy
#define SQL_NESTED_MAX   200         // depth of calls within arguments

struct sql_macro {
    char *name;                  // owned
    char **arguments;            // owned; their names
    size_t n;                    // of the arguments
    const struct sql_text *text; // borrowed; the text that has the body
    size_t begin, end;           // of the body
};
VEC_DEFINE(sql_macro_vec, struct sql_macro);

// One call, for errors.
struct sql_call {
    const char *macro; // borrowed from the macro, or from the text of the call
    size_t macro_size;
    struct sql_piece place; // of the call
};
VEC_DEFINE(sql_call_vec, struct sql_call);

// All zero is empty.
struct sql_macros {
    struct sql_macro_vec all;
    struct sql_call_vec calls; // of the statement that was expanded last
};

// Adds a macro, or replaces a macro of the same name. Takes ownership of the members of `macro`,
// also on failure. Returns 0 or -ENOMEM.
int macros_add(struct sql_macros *macros, struct sql_macro macro);
struct sql_macro *macros_find(const struct sql_macros *macros, const char *name, size_t size);
bool macros_remove(struct sql_macros *macros, const char *name, size_t size);
void sql_macro_done(struct sql_macro *macro);
void macros_done(struct sql_macros *macros);

// Appends a part of `text` with all its calls replaced. On failure, `why` has the reason and *at
// the place of the error.
int macros_expand(struct sql_macros *macros, const struct sql_text *text, size_t begin, size_t end,
                  struct sql_rope *ret, struct strbuf *why, struct sql_piece *at);

// Appends the place and the calls that led to it.
void macros_trace(const struct sql_macros *macros, struct strbuf *out, struct sql_piece place);
