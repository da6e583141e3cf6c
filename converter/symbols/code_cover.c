// SPDX-License-Identifier: Apache-2.0
//
// A segment tree over the addresses, not over the ranges, because ranges come by the million. A
// range that covers no address costs two searches. A range marks the nodes that make up the range.
// Numbers ascend, so a mark overwrites the old mark, and the nodes below need no change. The
// look-up of an address reads the nodes above the address.
#include "converter/symbols/code_cover.h"

#include <errno.h>
#include <stdlib.h>

int code_cover_init(struct code_cover *cover, const uint64_t *addresses, size_t n)
{
    *cover = (struct code_cover){.addresses = addresses, .n = n};
    cover->last = calloc(n ? 2 * n : 1, sizeof(*cover->last));
    return cover->last ? 0 : -ENOMEM;
}

// Returns the number of addresses below `address`.
static size_t n_below(const struct code_cover *cover, uint64_t address)
{
    size_t from = 0, to = cover->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (cover->addresses[middle] < address)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

size_t code_cover_put(struct code_cover *cover, uint64_t start, uint64_t end, uint32_t number)
{
    size_t from = n_below(cover, start), to = n_below(cover, end);
    if (from >= to)
        return 0;
    for (size_t a = from + cover->n, b = to + cover->n; a < b; a /= 2, b /= 2) {
        if (a & 1)
            cover->last[a++] = number + 1;
        if (b & 1)
            cover->last[--b] = number + 1;
    }
    return to - from;
}

uint32_t code_cover_at(const struct code_cover *cover, size_t at)
{
    uint32_t highest = 0;
    for (size_t node = at + cover->n; node; node /= 2)
        if (cover->last[node] > highest)
            highest = cover->last[node];
    return highest ? highest - 1 : CODE_NONE;
}

void code_cover_done(struct code_cover *cover)
{
    free(cover->last);
    *cover = (struct code_cover){0};
}
