// SPDX-License-Identifier: Apache-2.0
//
// Four independent sums, each over every fourth word, run at the speed of memory. The function
// releases pages that it has read, because the memory of a conversion is limited.
#include "converter/input/content_hash.h"

#include <string.h>

#include "common/map.h"

#define LANES        4
#define BLOCK        (LANES * sizeof(uint64_t))
#define MULTIPLIER   0x9fb21c651e98df25ULL
#define FORGET_BYTES ((size_t)16 << 20) // a multiple of BLOCK

static uint64_t rotated(uint64_t value)
{
    return value << 29 | value >> 35;
}

static const uint8_t *blocks_add(uint64_t lanes[LANES], const uint8_t *at, const uint8_t *end)
{
    for (; (size_t)(end - at) >= BLOCK; at += BLOCK) {
        uint64_t words[LANES];
        memcpy(words, at, BLOCK);
        for (size_t i = 0; i < LANES; i++)
            lanes[i] = rotated(lanes[i] ^ words[i]) * MULTIPLIER;
    }
    return at;
}

uint64_t content_hash(const struct input *input)
{
    uint64_t lanes[LANES] = {1, 2, 3, 4};
    static const uint8_t nothing[1];
    const uint8_t *at = input_size(input) ? input_bytes(input) : nothing;
    const uint8_t *end = at + input_size(input);
    while ((size_t)(end - at) > FORGET_BYTES) {
        at = blocks_add(lanes, at, at + FORGET_BYTES);
        input_forget(input);
    }
    at = blocks_add(lanes, at, end);
    uint64_t hash = hash_bytes(at, (size_t)(end - at));
    for (size_t i = 0; i < LANES; i++)
        hash = hash_u64(hash ^ lanes[i]);
    return hash_u64(hash ^ input_size(input));
}
