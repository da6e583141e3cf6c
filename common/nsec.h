// SPDX-License-Identifier: Apache-2.0
//
// Time in nanoseconds, as `nsec_t`. The context names the clock. Times in a trace are of
// CLOCK_BOOTTIME.
#pragma once

#include <stdint.h>
#include <time.h>

typedef int64_t nsec_t;

#define NSEC_PER_USEC ((nsec_t)1000)
#define NSEC_PER_MSEC ((nsec_t)1000000)
#define NSEC_PER_SEC  ((nsec_t)1000000000)
#define NSEC_MAX      INT64_MAX

static inline nsec_t nsec_from_timespec(const struct timespec *ts)
{
    return (nsec_t)ts->tv_sec * NSEC_PER_SEC + ts->tv_nsec;
}

static inline struct timespec nsec_to_timespec(nsec_t ns)
{
    return (struct timespec){.tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC};
}

// Returns the present time of `clock`, or 0 if the kernel does not have the clock.
static inline nsec_t nsec_now(clockid_t clock)
{
    struct timespec ts;
    return clock_gettime(clock, &ts) == 0 ? nsec_from_timespec(&ts) : 0;
}
