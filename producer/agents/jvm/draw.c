// SPDX-License-Identifier: Apache-2.0
//
// HotSpot samples objects by bytes: it reports an object of `size` bytes with the probability 1 -
// exp(-size / interval). With a small enough interval this is never less than one in `rate`. The
// surplus for large objects is dropped here. The VM itself skips nearly all allocations at full
// speed, and still each allocation has the same chance.
//
// HotSpot draws the distance in bytes from each sampled position to the next. In Java 11 the
// probability differs: the part of a sampled object that lies beyond the sampled position is
// subtracted from the next distance, unless the next position is in the same object. Objects that
// follow large objects are therefore reported too often.
#include "producer/agents/jvm/draw.h"

#include <math.h>
#include <time.h>

static uint64_t random_next(struct draw *draw)
{
    if (draw->random == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        draw->random = ((uint64_t)(uintptr_t)draw * 0x9e3779b97f4a7c15u) ^ (uint64_t)now.tv_nsec;
        draw->random |= 1;
    }
    draw->random ^= draw->random << 13;
    draw->random ^= draw->random >> 7;
    draw->random ^= draw->random << 17;
    return draw->random * 0x2545f4914f6cdd1du;
}

double draw_uniform(struct draw *draw)
{
    return (double)(random_next(draw) >> 11) * 0x1p-53;
}

bool draw_nth(struct draw *draw, uint32_t rate)
{
    if (draw->at == 0)
        draw->taken = (uint32_t)(((random_next(draw) >> 32) * rate) >> 32);
    bool taken = draw->at == draw->taken;
    draw->at = draw->at + 1 < rate ? draw->at + 1 : 0;
    return taken;
}

int32_t draw_interval(uint32_t rate, int64_t smallest_bytes)
{
    double interval = rate > 1 ? -(double)smallest_bytes / log1p(-1.0 / rate) : 1;
    return interval < INT32_MAX ? (int32_t)interval : INT32_MAX;
}

bool draw_even(struct draw *draw, uint32_t rate, int32_t interval, int64_t size)
{
    double chance = -expm1(-(double)size / interval);
    return draw_uniform(draw) * chance * rate < 1;
}
