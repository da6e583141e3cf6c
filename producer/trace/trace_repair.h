// SPDX-License-Identifier: Apache-2.0
//
// Repairs the trace file of a dead writer: cuts the file after its last whole packet and appends a
// mark.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_repair {
    uint64_t bytes;     // of whole packets, without the mark
    uint64_t packets;   // whole packets
    uint64_t cut_bytes; // bytes after the whole packets
};

// Cuts the regular file `fd` (open for reading and writing), whose trace begins at `start`, and
// adds a RecordingCut packet unless no packet is left. If the disk has no room for this packet, the
// packet replaces the last packets of the trace. Returns 0, or a negative errno with the file
// unchanged.
int trace_repair(int fd, uint64_t start, struct trace_repair *ret);
