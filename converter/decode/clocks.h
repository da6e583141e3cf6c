// SPDX-License-Identifier: Apache-2.0
//
// Conversion between the clocks of a trace. A ClockSnapshot says what several clocks showed at one
// moment; between snapshots clocks are taken to run equally fast, from the last snapshot before.
// Clocks that share no snapshot are converted by way of others.
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
    CLOCK_ID_SEQUENCE_MIN = 64, // 64..127 belong to the sequence that uses them
    CLOCK_ID_SEQUENCE_MAX = 127,
};

// A clock, made unique over sequences and machines. Of sequences that share a number on two
// machines, each needs one of its own.
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

// Of a clock that belongs to no sequence.
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

// A conversion that was done, valid for a range of times.
struct clock_shift {
    struct clock_series *series; // borrowed; NULL: none
    int64_t min, max, shift;
};

#define CLOCK_SHIFTS 8

// All zero but for trace_clock is a good start.
struct clocks {
    clock_key_t trace_clock; // what times are converted to
    bool has_default;        // the trace said so itself
    uint32_t n_snapshots;
    struct clock_series_vec series;          // owned, one per clock
    struct clock_group_vec groups;           // owned, one per set of clocks that are read together
    struct clock_shift shifts[CLOCK_SHIFTS]; // the last conversions; of a clock always in one place
    bool has_paths;                          // the ways that were found last are still right
    clock_key_t paths_to;                    // where they lead
};

#define CLOCK_READINGS_MAX 32

// Adds a snapshot; *ret_id is its number. -EINVAL: readings contradict earlier ones or each other,
// and the snapshot is ignored. -ENOMEM.
int clocks_add(struct clocks *clocks, const struct clock_reading *readings, size_t n,
               uint32_t *ret_id);

// `timestamp` of `clock` as trace time; false: nothing connects the two.
bool clocks_convert(struct clocks *clocks, clock_key_t clock, int64_t timestamp, int64_t *ret);

// What times are converted to, from now on.
void clocks_set_trace_clock(struct clocks *clocks, clock_key_t clock);

// Whether times of one clock can be made those of another.
bool clocks_connected(struct clocks *clocks, clock_key_t from, clock_key_t to);

// Whether a snapshot has had this clock.
bool clocks_know(const struct clocks *clocks, clock_key_t clock);

const char *clock_name(uint32_t clock_id); // NULL: not a well-known one

void clocks_done(struct clocks *clocks);
