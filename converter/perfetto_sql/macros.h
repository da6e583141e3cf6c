// SPDX-License-Identifier: Apache-2.0
//
// Macros: CREATE PERFETTO MACRO name(argument Type, ...) RETURNS Type AS body. A call name!(...) is
// replaced by the body, with the call's arguments where the body has $argument. Arguments are
// expanded before they are put in.
//
// Built in are __intrinsic_stringify!(a), which makes a text of its argument, and
// __intrinsic_token_apply!(macro, (a, b)[, (c, d)]), which calls a macro for each item of a list;
// with the suffixes _prefix, _and and _and_prefix it joins the calls otherwise.
#pragma once

#include "converter/perfetto_sql/rope.h"

#define SQL_EXPANDED_MAX (16u << 20) // bytes of a statement
#define SQL_MACRO_DEPTH  64          // of calls within calls
#define SQL_MACRO_CALLS  200000      // of a statement
#define SQL_MACRO_BYTES  (64u << 20) // that all calls of a statement put together
#define SQL_NESTED_MAX   200         // calls within arguments

struct sql_macro {
    char *name;                  // owned
    char **arguments;            // owned; their names
    size_t n;                    // of the arguments
    const struct sql_text *text; // borrowed; where the body stands
    size_t begin, end;           // of the body
};
VEC_DEFINE(sql_macro_vec, struct sql_macro);

// One call, for errors.
struct sql_call {
    const char *macro; // borrowed: of the macro, or of the call's text
    size_t macro_size;
    struct sql_piece place; // where the call stands
};
VEC_DEFINE(sql_call_vec, struct sql_call);

// All zero is empty.
struct sql_macros {
    struct sql_macro_vec all;
    struct sql_call_vec calls; // of the statement that was expanded last
};

// Takes over what `macro` owns, also on failure. Replaces a macro of the same name. 0 or -ENOMEM.
int macros_add(struct sql_macros *macros, struct sql_macro macro);
struct sql_macro *macros_find(const struct sql_macros *macros, const char *name, size_t size);
bool macros_remove(struct sql_macros *macros, const char *name, size_t size);
void sql_macro_done(struct sql_macro *macro);
void macros_done(struct sql_macros *macros);

// Appends a part of `text` with all its calls replaced. On failure `why` has the reason, and *at
// its place.
int macros_expand(struct sql_macros *macros, const struct sql_text *text, size_t begin, size_t end,
                  struct sql_rope *ret, struct strbuf *why, struct sql_piece *at);

// Appends the place and the calls that led to it.
void macros_trace(const struct sql_macros *macros, struct strbuf *out, struct sql_piece place);
