// SPDX-License-Identifier: Apache-2.0
//
// Converts lines of ftrace text into packets.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "converter/ground/lines.h"
#include "converter/translate/ftrace_args.h"
#include "converter/translate/translate.h"

struct ftrace_lines {
    struct translation *to; // borrowed
    struct ftrace_symbols symbols;
    size_t n_symbols_written;
    struct map64 tasks; // tid -> hash of the known facts about the thread
    struct wire_writer *w;
    size_t bundle; // mark of the open bundle
    bool is_open;
    uint32_t cpu;
    uint64_t n_bad, first_bad;
};

void ftrace_lines_begin(struct ftrace_lines *lines, struct translation *to);

// Writes the event of a line, which is borrowed for the call. A line that is not an event is
// counted. Returns 0 or a negative errno with text.
int ftrace_lines_take(struct ftrace_lines *lines, uint64_t number, struct span line);

// Writes the open bundle, reports lines that were left out, and releases the memory. `place` ("":
// the file) follows the number of a line in the message.
void ftrace_lines_end(struct ftrace_lines *lines, const char *place);
