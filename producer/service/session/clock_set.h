// SPDX-License-Identifier: Apache-2.0
//
// A reading of all clocks of a trace at one moment.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nsec.h"

// The time source of a session: the kernel, or a test.
struct clock_reader {
    nsec_t (*now)(void *userdata, clockid_t clock);
    void *userdata;
};

extern const struct clock_reader clock_reader_kernel;

static inline nsec_t clock_read(const struct clock_reader *reader, clockid_t clock)
{
    return reader->now(reader->userdata, clock);
}

#define CLOCK_SET_MAX 7

struct clock_reading {
    uint32_t id;        // BuiltinClock
    uint64_t timestamp; // nanoseconds; ticks for BUILTIN_CLOCK_TSC
};

struct clock_set {
    struct clock_reading clocks[CLOCK_SET_MAX]; // BOOTTIME first
    size_t n;
};

void clock_set_read(const struct clock_reader *reader, struct clock_set *ret);

// Returns true if a clock has moved against boot time by 10 ms or more between the two readings.
// Only clocks that count nanoseconds are compared.
bool clock_set_drifted(const struct clock_set *before, const struct clock_set *after);
