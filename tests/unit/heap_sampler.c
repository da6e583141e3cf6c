// SPDX-License-Identifier: Apache-2.0
//
// Estimates against what was really allocated, over sizes and intervals. The seeds are fixed, so a
// result that is far out is wrong and not bad luck.
#include "producer/agents/heap/sampler.h"

#include <math.h>

#include "common/elements.h"
#include "tests/unit/unit.h"

struct estimate {
    uint64_t bytes, n_samples;
};

// Samples `n` allocations of `size` bytes as the hooks do.
static struct estimate allocate(uint64_t interval, uint64_t size, uint64_t n, uint64_t seed)
{
    struct sampler sampler;
    struct estimate estimate = {0};
    sampler_reset(&sampler, seed, interval);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t weight = 0;
        if (size >= sampler_threshold(interval))
            weight = size;
        else if ((sampler.left -= (int64_t)size) <= 0)
            weight = sampler_take(&sampler, interval);
        estimate.bytes += weight;
        estimate.n_samples += weight > 0;
    }
    return estimate;
}

// The number of sampled points is binomial, so the standard deviation of the bytes is at most
// interval * sqrt(points). Most bounds are far below 1 %.
static void estimates_are_unbiased(void **state)
{
    (void)state;
    static const uint64_t intervals[] = {2, 64, 4096, 524288};
    static const uint64_t sizes[] = {1, 16, 100, 512, 4000, 15000, 100000};
    for (size_t i = 0; i < ELEMENTS(intervals); i++) {
        for (size_t k = 0; k < ELEMENTS(sizes); k++) {
            uint64_t interval = intervals[i], size = sizes[k], n = 400000;
            double real = (double)(size * n), points = real / (double)interval;
            double got = (double)allocate(interval, size, n, i * 100 + k + 1).bytes;
            double deviation = (double)interval * sqrt(points);
            assert_true(fabs(got - real) < 5 * deviation + (double)interval);
        }
    }
}

static void every_allocation_counts_at_interval_one(void **state)
{
    (void)state;
    struct estimate all = allocate(1, 48, 1000, 7);
    assert_int_equal(all.bytes, 48000);
    assert_int_equal(all.n_samples, 1000);
}

static void what_is_surely_hit_is_exact(void **state)
{
    (void)state;
    uint64_t threshold = sampler_threshold(4096);
    assert_in_range(threshold, 18850, 18870); // 4096 * ln(100)
    struct estimate all = allocate(4096, threshold + 1, 1000, 7);
    assert_int_equal(all.bytes, (threshold + 1) * 1000);
}

// The share of allocations that is hit is 1 - (1 - 1 / interval) ** size.
static void hits_are_as_rare_as_they_should_be(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {64, 1024, 4096, 16384};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        double n = 400000, share = 1 - pow(1 - 1.0 / 4096, (double)sizes[i]);
        double got = (double)allocate(4096, sizes[i], (uint64_t)n, 11 + i).n_samples;
        assert_true(fabs(got - n * share) < 5 * sqrt(n * share * (1 - share)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_unbiased),
        cmocka_unit_test(every_allocation_counts_at_interval_one),
        cmocka_unit_test(what_is_surely_hit_is_exact),
        cmocka_unit_test(hits_are_as_rare_as_they_should_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
