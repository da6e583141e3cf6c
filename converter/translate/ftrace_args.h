// SPDX-License-Identifier: Apache-2.0
//
// The arguments of an event of ftrace text become the message that Perfetto has for the event.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/wire.h"
#include "converter/ground/lines.h"
#include "protos/ftrace_table.h"

// Names of kernel functions. A message has a number instead of the name: its id here, plus 1.
struct ftrace_symbols {
    struct strset names;
    bool is_full; // later names are left out
};

// Writes the event's own field of FtraceEvent. Events of no known type keep the names of their
// arguments.
void ftrace_args_write(struct wire_writer *w, struct span event, struct span args,
                       struct ftrace_symbols *symbols);

// Reads the number at the start of `text`, decimal or 0x; what follows is ignored.
bool ftrace_number_read(struct span text, bool is_hex, int64_t *ret);

// Takes the next KEY=VALUE. A value ends before the next key, so it may contain blanks.
// *words, if not NULL, is what stands before the key. False at the end; *words is the rest
// then.
bool ftrace_pair_next(struct span *rest, struct span *key, struct span *value, struct span *words);
