// SPDX-License-Identifier: Apache-2.0
//
// Each byte is a point with a probability of 1/interval. The distances between points are therefore
// geometric: exponential distances, rounded up, with the scale -1/ln(1 - 1/interval), which is
// about half a byte less than the interval. The logarithm is computed here, to 1e-9, so that this
// library, which is loaded into other programs, does not need libm.
#include "producer/agents/heap/sampler.h"

#include <string.h>

#define LN_2              0.69314718055994531
#define THRESHOLD_FACTOR  4.6051701859880914 // -ln(0.01)
#define DISTANCE_MAX      ((double)(INT64_C(1) << 60))
#define INTERVALS_AT_MOST 1000 // points of one allocation below the threshold; never reached
#define INTERVAL_LARGE    (UINT64_C(1) << 24) // from here on 1 - 1/interval has too few digits

static uint64_t next_random(struct sampler *sampler)
{
    uint64_t x = sampler->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

// Returns -ln(x), for 0 < x < 1.
static double negative_logarithm(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int exponent = (int)(bits >> 52) - 1022;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1022) << 52;
    double mantissa; // 0.5 <= mantissa < 1
    memcpy(&mantissa, &bits, sizeof(mantissa));
    if (mantissa < 0.70710678118654752) {
        mantissa *= 2;
        exponent--;
    }
    double s = (mantissa - 1) / (mantissa + 1), q = s * s;
    double series = 1 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q / 11))));
    return -(2 * s * series + exponent * LN_2);
}

static double scale_of(uint64_t interval)
{
    if (interval <= 1)
        return 0;
    return interval < INTERVAL_LARGE ? 1 / negative_logarithm(1 - 1 / (double)interval)
                                     : (double)interval - 0.5;
}

static int64_t next_distance(struct sampler *sampler)
{
    double uniform = ((double)(next_random(sampler) >> 11) + 0.5) * 0x1p-53;
    double distance = negative_logarithm(uniform) * sampler->scale;
    return distance < DISTANCE_MAX ? (int64_t)distance + 1 : (int64_t)DISTANCE_MAX;
}

uint64_t sampler_threshold(uint64_t interval)
{
    if (interval <= 1)
        return 0;
    return interval < UINT64_C(1) << 60 ? (uint64_t)((double)interval * THRESHOLD_FACTOR)
                                        : UINT64_MAX;
}

void sampler_reset(struct sampler *sampler, uint64_t seed, uint64_t interval)
{
    sampler->random = seed;
    sampler->scale = scale_of(interval);
    sampler->left = next_distance(sampler);
}

uint64_t sampler_take(struct sampler *sampler, uint64_t interval)
{
    uint64_t n = 0;
    while (sampler->left <= 0 && n < INTERVALS_AT_MOST) {
        sampler->left += next_distance(sampler);
        n++;
    }
    return n * interval;
}
