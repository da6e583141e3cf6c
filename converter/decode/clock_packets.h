// SPDX-License-Identifier: Apache-2.0
//
// The packets that tell of clocks: ClockSnapshot, what several clocks showed at one moment, and
// RemoteClockSync, how far the clocks of another machine are ahead of the host's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "converter/decode/clocks.h"

struct clock_snapshot {
    struct clock_reading readings[CLOCK_READINGS_MAX];
    size_t n;
    uint32_t default_clock; // of packets that name none, from now on; 0: not told
    bool fits;              // it could be read in full
};

// `sequence` is as clock_key() takes it.
void clock_snapshot_read(struct wire_reader message, uint32_t sequence, uint32_t machine,
                         struct clock_snapshot *ret);

struct remote_offset {
    uint32_t clock_id;
    uint64_t host_time; // a moment at which the two were compared, in the host's clock
    int64_t offset;     // what the other machine's clock shows more
};

struct remote_sync;

// Reads the message. NULL: no memory.
struct remote_sync *remote_sync_read(struct wire_reader message);

// The readings that the other machine took of its own clocks, round by round; 0 at the end.
size_t remote_sync_next(struct remote_sync *sync, uint32_t machine,
                        struct clock_reading ret[CLOCK_READINGS_MAX]);

// Up to CLOCK_READINGS_MAX; in the order of the clocks' numbers.
size_t remote_sync_offsets(const struct remote_sync *sync,
                           struct remote_offset ret[CLOCK_READINGS_MAX]);

struct remote_sync *remote_sync_free(struct remote_sync *sync);
