// SPDX-License-Identifier: Apache-2.0
//
// Conversion between the clocks of a trace. A ClockSnapshot has readings of several clocks at one
// moment. From one snapshot to the next, clocks are assumed to run at the same speed. Clocks
// without a common snapshot are converted over other clocks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "protos/fields.h"

enum {
    CLOCK_ID_REALTIME = PB_BUILTIN_CLOCK_REALTIME,
    CLOCK_ID_MONOTONIC = PB_BUILTIN_CLOCK_MONOTONIC,
    CLOCK_ID_MONOTONIC_RAW = PB_BUILTIN_CLOCK_MONOTONIC_RAW,
    CLOCK_ID_BOOTTIME = PB_BUILTIN_CLOCK_BOOTTIME,
    CLOCK_ID_SEQUENCE_MIN = 64, // 64..127 are clocks of one sequence
    CLOCK_ID_SEQUENCE_MAX = 127,
};

// A clock, unique over sequences and machines. `sequence` must be unique over machines, because two
// machines may use the same sequence id.
typedef uint64_t clock_key_t;

static inline clock_key_t clock_key(uint32_t clock_id, uint32_t sequence, uint32_t machine)
{
    bool scoped = clock_id >= CLOCK_ID_SEQUENCE_MIN && clock_id <= CLOCK_ID_SEQUENCE_MAX;
    return (clock_key_t)(scoped ? sequence : machine) << 32 | clock_id;
}

static inline uint32_t clock_id_of(clock_key_t clock)
{
    return (uint32_t)clock;
}

// Returns the machine of a clock that belongs to no sequence.
static inline uint32_t clock_machine_of(clock_key_t clock)
{
    return (uint32_t)(clock >> 32);
}

struct clock_reading {
    clock_key_t clock;
    int64_t timestamp; // in the clock's unit
    int64_t unit_ns;   // nanoseconds of one unit
    bool incremental;  // time stamps of this clock are differences
};

struct clock_series;
struct clock_group;
VEC_DEFINE(clock_series_vec, struct clock_series *);
VEC_DEFINE(clock_group_vec, struct clock_group *);

// A remembered conversion, valid for a range of times.
struct clock_shift {
    struct clock_series *series; // borrowed; NULL: none
    int64_t min, max, shift;
};

#define CLOCK_SHIFTS 8

// All members except trace_clock are zero at first.
struct clocks {
    clock_key_t trace_clock; // target of conversions
    bool has_default;        // a snapshot has named the default clock
    uint32_t n_snapshots;
    struct clock_series_vec series;          // owned, one per clock
    struct clock_group_vec groups;           // owned, one per list of clocks that are read together
    struct clock_shift shifts[CLOCK_SHIFTS]; // the last conversions; the clock decides the index
    bool has_paths;                          // the paths of the last search are valid
    clock_key_t paths_to;                    // target of these paths
};

#define CLOCK_READINGS_MAX 32

// Adds a snapshot. *ret_id: the number of the snapshot; a failed call uses up a number, too.
// Returns 0; -EINVAL if the readings contradict each other or earlier readings (the snapshot is
// ignored); -ENOMEM.
int clocks_add(struct clocks *clocks, const struct clock_reading *readings, size_t n,
               uint32_t *ret_id);

// Converts `timestamp` of `clock` to trace time. Returns false if no snapshots connect the two
// clocks.
bool clocks_convert(struct clocks *clocks, clock_key_t clock, int64_t timestamp, int64_t *ret);

// Sets the target of further conversions.
void clocks_set_trace_clock(struct clocks *clocks, clock_key_t clock);

// Returns true if times of `from` can be converted to `to`.
bool clocks_connected(struct clocks *clocks, clock_key_t from, clock_key_t to);

// Returns true if a snapshot so far has this clock.
bool clocks_know(const struct clocks *clocks, clock_key_t clock);

const char *clock_name(uint32_t clock_id); // NULL: not a well-known clock

void clocks_done(struct clocks *clocks);
