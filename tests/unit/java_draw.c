// SPDX-License-Identifier: Apache-2.0
//
// The choice of the allocations of a JVM that become samples. At a rate, each allocation has the
// same chance.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "producer/agents/jvm/draw.h"

static void one_of_so_many_in_a_row(void **state)
{
    struct draw draw = {.random = 1};
    unsigned int places[7] = {0};
    (void)state;
    for (int round = 0; round < 7000; round++) {
        int n = 0;
        for (unsigned int i = 0; i < 7; i++)
            if (draw_nth(&draw, 7)) {
                n++;
                places[i]++;
            }
        assert_int_equal(n, 1);
    }
    for (unsigned int i = 0; i < 7; i++)
        assert_in_range(places[i], 850, 1150);
}

// A VM that draws bytes at random, and reports each object that holds a drawn byte.
struct vm {
    struct draw draw;
    double interval, until;
};

static bool vm_tells(struct vm *vm, double size)
{
    bool told = vm->until < size;
    vm->until = told ? -log1p(-draw_uniform(&vm->draw)) * vm->interval : vm->until - size;
    return told;
}

static void sizes_have_one_chance(void **state)
{
    static const int64_t sizes[] = {16, 40, 1016, 8192, 1 << 20};
    const uint32_t rates[] = {64, 1000};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        int32_t interval = draw_interval(rates[k], 16);
        struct vm vm = {.draw = {.random = 1}, .interval = interval};
        struct draw draw = {.random = 2};
        unsigned int taken[5] = {0}, told = 0;
        double expected = 2000;
        for (uint32_t n = 0; n < 2000 * rates[k]; n++)
            for (size_t i = 0; i < 5; i++)
                if (vm_tells(&vm, (double)sizes[i])) {
                    told += i == 0;
                    taken[i] += draw_even(&draw, rates[k], interval, sizes[i]);
                }
        for (size_t i = 0; i < 5; i++)
            assert_in_range(taken[i], expected - 5 * sqrt(expected), expected + 5 * sqrt(expected));
        // All reported objects of the smallest size are taken: the VM reports no more than
        // necessary.
        assert_true(told - taken[0] < 10);
    }
}

static void intervals(void **state)
{
    (void)state;
    // The VM reports at least one of `rate` objects of the smallest size, and not many more.
    for (uint32_t rate = 2; rate < 1 << 24; rate *= 2) {
        double chance = -expm1(-16.0 / draw_interval(rate, 16));
        assert_true(chance * rate >= 1 && chance * rate < 1.1);
    }
    assert_int_equal(draw_interval(UINT32_MAX, 16), INT32_MAX);
    assert_int_equal(draw_interval(1, 16), 1);
    assert_int_equal(draw_interval(1000, 8), draw_interval(1000, 16) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_so_many_in_a_row),
        cmocka_unit_test(sizes_have_one_chance),
        cmocka_unit_test(intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
