// SPDX-License-Identifier: Apache-2.0
#include "converter/symbols/code_cover.h"

#include "common/cleanup.h"
#include "tests/unit/unit.h"

#define ADDRESSES 61
#define RANGES    400

static void as_a_look_at_every_range(void **state)
{
    struct {
        uint64_t start, end;
    } ranges[RANGES];
    uint64_t addresses[ADDRESSES];
    uint32_t seed = 1;
    (void)state;
    for (size_t n = 1; n <= ADDRESSES; n++) {
        CLEANUP(code_cover_done) struct code_cover cover = {0};
        for (size_t i = 0; i < n; i++)
            addresses[i] = i * 7 / 2 * 2; // some are equal, if few
        addresses[n - 1] = n > 1 ? addresses[n - 2] : 0;
        assert_int_equal(code_cover_init(&cover, addresses, n), 0);
        for (uint32_t k = 0; k < RANGES; k++) {
            seed = seed * 1103515245 + 12345;
            ranges[k].start = (seed >> 16) % (4 * ADDRESSES);
            ranges[k].end = ranges[k].start + (seed >> 8) % 32;
            size_t covered = 0;
            for (size_t i = 0; i < n; i++)
                covered += addresses[i] >= ranges[k].start && addresses[i] < ranges[k].end;
            assert_int_equal(code_cover_put(&cover, ranges[k].start, ranges[k].end, k), covered);
            size_t at = seed % n;
            uint32_t want = CODE_NONE;
            for (uint32_t past = 0; past <= k; past++)
                if (addresses[at] >= ranges[past].start && addresses[at] < ranges[past].end)
                    want = past;
            assert_int_equal(code_cover_at(&cover, at), want);
        }
    }
}

static void no_addresses_and_no_ranges(void **state)
{
    static const uint64_t address = UINT64_MAX;
    struct code_cover cover;
    (void)state;
    assert_int_equal(code_cover_init(&cover, NULL, 0), 0);
    assert_int_equal(code_cover_put(&cover, 0, UINT64_MAX, 0), 0);
    code_cover_done(&cover);
    assert_int_equal(code_cover_init(&cover, &address, 1), 0);
    assert_int_equal(code_cover_at(&cover, 0), CODE_NONE);
    assert_int_equal(code_cover_put(&cover, UINT64_MAX, UINT64_MAX, 0), 0);
    assert_int_equal(code_cover_put(&cover, 5, 4, 1), 0);
    assert_int_equal(code_cover_at(&cover, 0), CODE_NONE);
    code_cover_done(&cover);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_look_at_every_range),
        cmocka_unit_test(no_addresses_and_no_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
