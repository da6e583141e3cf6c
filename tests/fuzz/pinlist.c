// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a pinlist: a list that can be read is written byte for byte, and a list made
// of its ranges is aligned, ascending, apart and within the quota.
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/pinlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_made(const struct page_ranges *ranges, uint64_t quota)
{
    CLEANUP(pinlist_done) struct pinlist made = {0};
    int r = pinlist_from_ranges(ranges, 4096, quota, &made, NULL);
    if (r < 0 ? made.n != 0 : pinlist_total_bytes(&made) > quota)
        abort();
    uint64_t end = 0;
    vec_foreach(&made, range) {
        if (range->offset % 4096 || !range->length || (end && range->offset <= end))
            abort();
        end = (uint64_t)range->offset + range->length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(pinlist_done) struct pinlist list = {0};
    CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
    CLEANUP(strbuf_done) struct strbuf again = {0};
    struct err err = {0};
    int r = pinlist_parse(data, size, "list", &list, &err);
    if (r < 0 ? list.n != 0 : size % 8 != 0)
        abort();
    pinlist_encode(&list, &again);
    if (r == 0 && (again.size != size || (size && memcmp(again.text, data, size) != 0)))
        abort();
    if (pinlist_to_ranges(&list, &ranges) < 0)
        return 0;
    check_made(&ranges, PINLIST_NO_QUOTA);
    check_made(&ranges, size * 100);
    return 0;
}
