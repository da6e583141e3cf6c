// SPDX-License-Identifier: Apache-2.0
//
// Converts the arguments of an event of ftrace text into Perfetto's message for the event.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/wire.h"
#include "converter/ground/lines.h"
#include "protos/ftrace_table.h"

// Names of kernel functions. A message has a number instead of the name: the id of the name here,
// plus 1.
struct ftrace_symbols {
    struct strset names;
    bool is_full; // later names are left out
};

// Writes the field of FtraceEvent that belongs to the event. Events of an unknown type keep the
// names of their arguments.
void ftrace_args_write(struct wire_writer *w, struct span event, struct span args,
                       struct ftrace_symbols *symbols);

// Reads the number at the start of `text`, decimal or 0x; ignores the text after the number.
// Returns false if there is no number.
bool ftrace_number_read(struct span text, bool is_hex, int64_t *ret);

// Takes the next KEY=VALUE. A value ends before the next key, so a value may contain blanks. If
// `words` is not NULL, *words is the text before the key. Returns false at the end; *words is then
// the rest.
bool ftrace_pair_next(struct span *rest, struct span *key, struct span *value, struct span *words);
