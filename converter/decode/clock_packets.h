// SPDX-License-Identifier: Apache-2.0
//
// The packets about clocks. ClockSnapshot has readings of several clocks at one moment.
// RemoteClockSync compares the clocks of another machine with the host's clocks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "converter/decode/clocks.h"

struct clock_snapshot {
    struct clock_reading readings[CLOCK_READINGS_MAX];
    size_t n;
    uint32_t default_clock; // clock of later packets that name no clock; 0: not given
    bool fits;              // the snapshot was read completely
};

// Reads a ClockSnapshot. `sequence`: see clock_key().
void clock_snapshot_read(struct wire_reader message, uint32_t sequence, uint32_t machine,
                         struct clock_snapshot *ret);

struct remote_offset {
    uint32_t clock_id;
    uint64_t host_time; // time of the last comparison, in the host's clock
    int64_t offset;     // the other machine's clock minus the host's clock
};

struct remote_sync;

// Reads a RemoteClockSync. Returns NULL if memory is out.
struct remote_sync *remote_sync_read(struct wire_reader message);

// Reads the other machine's next readings of its own clocks. Returns the number of readings; 0 at
// the end.
size_t remote_sync_next(struct remote_sync *sync, uint32_t machine,
                        struct clock_reading ret[CLOCK_READINGS_MAX]);

// Writes the offsets in the order of clock ids. Returns the number of offsets.
size_t remote_sync_offsets(const struct remote_sync *sync,
                           struct remote_offset ret[CLOCK_READINGS_MAX]);

struct remote_sync *remote_sync_free(struct remote_sync *sync);
