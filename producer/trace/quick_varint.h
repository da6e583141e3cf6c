// SPDX-License-Identifier: Apache-2.0
//
// Varints of values that vary in length. For these, the processor mispredicts the end of a loop
// over the bytes (wire.h). The misprediction takes longer than the loop's work. Here groups of
// seven bits become bytes by shifts and masks, and only the size classes are branches.
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "common/wire.h"

#define QUICK_BITS 28 // of values that take four bytes at most

// Returns the four groups of seven bits of a value below 2^28, each in a byte of its own.
static inline uint32_t quick_spread(uint32_t value)
{
    value = (value & 0x3fff) | (value & 0x0fffc000) << 2;
    return (value & 0x007f007f) | (value & 0x3f803f80) << 1;
}

// Writes the varint of a value of at least 2^28.
static __attribute__((noinline, unused)) uint8_t *quick_put_huge(uint8_t *p, uint64_t value)
{
    if (value >> 56)
        return wire_put_varint(p, value);
    unsigned n_bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned size = (n_bits * 9 + 64) / 64; // n_bits / 7, rounded up
    value = (value & UINT64_C(0x0fffffff)) | (value & UINT64_C(0x00fffffff0000000)) << 4;
    value = (value & UINT64_C(0x00003fff00003fff)) | (value & UINT64_C(0x0fffc0000fffc000)) << 2;
    value = (value & UINT64_C(0x007f007f007f007f)) | (value & UINT64_C(0x3f803f803f803f80)) << 1;
    value = htole64(value | UINT64_C(0x0080808080808080) >> (64 - 8 * size));
    memcpy(p, &value, sizeof(value));
    return p + size;
}

// Writes a varint and returns the address after it. May also write meaningless bytes after the
// varint: the caller has reserved WIRE_VARINT_MAX bytes.
static inline uint8_t *quick_put_varint(uint8_t *p, uint64_t value)
{
    if (value < 0x80) {
        *p = (uint8_t)value;
        return p + 1;
    }
    if (__builtin_expect(value >> QUICK_BITS != 0, 0))
        return quick_put_huge(p, value);
    unsigned n_bits = 32 - (unsigned)__builtin_clz((uint32_t)value);
    unsigned size = (n_bits * 9 + 64) / 64; // n_bits / 7, rounded up
    uint32_t word = quick_spread((uint32_t)value) | UINT32_C(0x00808080) >> (32 - 8 * size);
    word = htole32(word);
    memcpy(p, &word, sizeof(word));
    return p + size;
}
