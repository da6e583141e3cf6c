// SPDX-License-Identifier: Apache-2.0
//
// FNV-1a, a hash of 64 bits: `hash = fnv_add(FNV_BEGIN, bytes, size)`. Not for bytes that an
// attacker chooses: collisions are easy to find.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FNV_BEGIN UINT64_C(0xcbf29ce484222325)

// Returns the hash of the bytes that `hash` covers, followed by `bytes`.
static inline uint64_t fnv_add(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}
