// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/str.h"

// Replaces bytes that are not UTF-8 by U+FFFD in `to`, which stays empty if the text is valid. The
// kernel cuts names of tasks within a character, and paths have any bytes. Readers in other
// languages refuse a text that is not UTF-8.
void text_mend(struct strbuf *to, const char *text, size_t size);

// Returns true if all bytes are ASCII, as in most texts: such a text needs no mending.
static inline bool text_is_ascii(const void *text, size_t size)
{
    const uint8_t *at = text;
    uint64_t eight, all = 0;
    for (; size >= sizeof(eight); at += sizeof(eight), size -= sizeof(eight)) {
        memcpy(&eight, at, sizeof(eight));
        all |= eight;
    }
    while (size--)
        all |= *at++;
    return !(all & UINT64_C(0x8080808080808080));
}
