// SPDX-License-Identifier: Apache-2.0
//
// A trace file whose writer died: cut behind its last whole packet, and marked.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_repair {
    uint64_t bytes;     // that are whole, without the mark
    uint64_t packets;   // of these
    uint64_t cut_bytes; // that were behind them
};

// Cuts the regular file `fd` (open for reading and writing), whose trace begins at `start`, and
// adds a RecordingCut packet unless nothing is left. 0, or a negative errno with the file as it
// was. Where there is no room for the mark, it is left out.
int trace_repair(int fd, uint64_t start, struct trace_repair *ret);
