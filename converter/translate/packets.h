// SPDX-License-Identifier: Apache-2.0
//
// Writes packets of a trace into a spill, outside of memory. A caller builds a packet in place:
// packets_begin(), the fields, packets_end().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/wire.h"
#include "converter/ground/spill.h"

#define PACKETS_NO_TIME INT64_MIN

// Initialized by packets_init().
struct packets {
    struct spill *spill;     // borrowed
    uint8_t *memory;         // owned
    size_t size;             // bytes of finished packets in memory
    struct wire_writer body; // the packet that is being written
    struct err *err;         // borrowed
    int failure;             // the first error, with text in *err; later calls do nothing
    bool has_events;         // a packet with a time, or a whole packet, was begun
};

// Prepares for writing. Returns 0 or a negative errno with text.
int packets_init(struct packets *packets, struct spill *spill, struct err *err);

// Begins a packet at `ts` (ns; PACKETS_NO_TIME: no time). Returns the writer of its fields, which
// is valid until packets_end().
struct wire_writer *packets_begin(struct packets *packets, int64_t ts);

// Ends the packet. Returns false, with no part written, if the packet was too large.
bool packets_end(struct packets *packets);

// Drops the packet that was begun.
void packets_drop(struct packets *packets);

// Writes a packet with one field of bytes, which may be large.
void packets_put(struct packets *packets, int64_t ts, uint32_t field, const void *bytes,
                 size_t size);

// Writes a packet. `bytes` has all its fields.
void packets_put_whole(struct packets *packets, const void *bytes, size_t size);

// Writes the packets that are still in memory. Returns packets->failure.
int packets_flush(struct packets *packets);

void packets_done(struct packets *packets);
