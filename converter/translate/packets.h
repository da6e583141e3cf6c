// SPDX-License-Identifier: Apache-2.0
//
// Writes packets of a trace into a spill, outside of memory. A packet is built in place: begin,
// write its fields, end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/wire.h"
#include "converter/ground/spill.h"

#define PACKETS_NO_TIME INT64_MIN

// All zero after packets_init(), apart from the memory.
struct packets {
    struct spill *spill;     // borrowed
    uint8_t *memory;         // owned
    size_t size;             // bytes of finished packets in memory
    struct wire_writer body; // the packet that is being written
    struct err *err;         // borrowed
    int failure;             // the first error, with text in *err; later calls do nothing
    bool has_events;         // a packet with a time, or a whole one, was begun
};

// Returns 0 or a negative errno with text.
int packets_init(struct packets *packets, struct spill *spill, struct err *err);

// Begins a packet at `ts` (ns, PACKETS_NO_TIME: none). Returns the writer of its fields, which is
// valid until packets_end().
struct wire_writer *packets_begin(struct packets *packets, int64_t ts);

// Ends the packet. Returns false if the packet was too large; nothing of it is written then.
bool packets_end(struct packets *packets);

// Leaves out the packet that was begun.
void packets_drop(struct packets *packets);

// Writes a packet with one field of bytes, which may be large.
void packets_put(struct packets *packets, int64_t ts, uint32_t field, const void *bytes,
                 size_t size);

// Writes a packet of which `bytes` are all fields.
void packets_put_whole(struct packets *packets, const void *bytes, size_t size);

// Writes what is still in memory. Returns packets->failure.
int packets_flush(struct packets *packets);

void packets_done(struct packets *packets);
