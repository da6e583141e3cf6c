// SPDX-License-Identifier: Apache-2.0
//
// Reads the interned call stacks of one sequence of a trace, for the tables that commands print at
// their end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mangled.h"
#include "common/map.h"
#include "common/str.h"
#include "common/text.h"
#include "common/vec.h"
#include "common/wire.h"
#include "producer/cli/trace_symbols.h"

// Reads the file at `path` into `trace`, which is empty, and calls `take` for each packet until
// `take` returns a negative errno. Packets are valid as long as `trace`. Returns 0 or a negative
// errno with text.
int trace_packets_read(const char *path, struct strbuf *trace,
                       int (*take)(void *userdata, struct wire_reader packet), void *userdata,
                       struct err *err);
// As trace_packets_read(), for a trace that was read. Returns 0 or a negative errno.
int trace_packets_walk(const struct strbuf *trace,
                       int (*take)(void *userdata, struct wire_reader packet), void *userdata);

// Messages of InternedData stay in place in the trace, and are found by their id.
enum {
    STACKS_FUNCTIONS,
    STACKS_PATHS,
    STACKS_BUILD_IDS,
    STACKS_MAPPINGS,
    STACKS_FRAMES,
    STACKS_CALLSTACKS,
    STACKS_KINDS
};

struct trace_stacks {
    struct text_vec messages;
    struct map64 index[STACKS_KINDS];    // index in `messages`, by id
    const struct trace_symbols *symbols; // borrowed; NULL: none
};

// A function in a call stack.
struct stack_place {
    uint64_t frame;          // id
    unsigned depth;          // 0; above: the function is inlined into the one at depth - 1
    struct symbol_line line; // empty: the frame has no symbols
};

struct wanted {
    uint32_t number;
    uint64_t *value;
};

// Reads numbers of a message. `wanted` ends with number 0. A missing field leaves its value
// unchanged.
void message_numbers(struct text message, const struct wanted *wanted);

// Takes an InternedData. Returns 0 or -ENOMEM.
int trace_stacks_read(struct trace_stacks *stacks, const struct wire_field *data);
void trace_stacks_forget(struct trace_stacks *stacks);
void trace_stacks_done(struct trace_stacks *stacks);

// Adds "function (file)", or "file+offset" if the function has no name. Returns false if the frame
// is missing.
bool trace_stacks_name(const struct trace_stacks *stacks, const struct stack_place *place,
                       struct strbuf *ret);

// Returns whether a path in the stacks ends with this name.
bool trace_stacks_has_file(const struct trace_stacks *stacks, const char *name);

// Returns whether the innermost function outside of the kernel is in memory without a file. A
// virtual machine has made its code.
bool trace_stacks_is_made_code(const struct trace_stacks *stacks, uint64_t callstack);

// Calls `take` for each function of a stack, outermost first, inlined functions included. A result
// of `take` other than 0 ends the walk and is returned.
int trace_stacks_walk(const struct trace_stacks *stacks, uint64_t callstack,
                      int (*take)(void *userdata, const struct stack_place *place, bool is_leaf),
                      void *userdata);

// Prints a name of trace_stacks_name(), the source line if it is known, and a newline. Names of
// more than a few lines are cut.
void trace_stacks_print(const char *name, size_t size, const struct symbol_line *line, FILE *out);
