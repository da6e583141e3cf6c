// SPDX-License-Identifier: Apache-2.0
//
// pinlist.meta: which ranges of a file are to stay in memory. Android's PinnerService reads it out
// of an APK, `pintool` makes it, `mmsql` loads it. The format is pairs of big-endian u32, OFFSET
// and LENGTH, nothing else; so nothing beyond 4 GiB can be named.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/str.h"
#include "common/vec.h"

#define PINLIST_PAIR_BYTES 8
#define PINLIST_END_MAX    ((uint64_t)UINT32_MAX + 1) // first byte that no list reaches
#define PINLIST_NO_QUOTA   UINT64_MAX

struct pinlist_range {
    uint32_t offset; // bytes
    uint32_t length; // bytes
};

// All zero is an empty list.
VEC_DEFINE(pinlist, struct pinlist_range);

// The pairs of a file, in its order, whatever they say. -EBADMSG: the size is no multiple of 8, and
// *ret is empty; -ENOMEM. The text begins with `name`.
int pinlist_parse(const void *bytes, size_t size, const char *name, struct pinlist *ret,
                  struct err *err);

// A list of byte ranges, made fit for a file: starts aligned down to `page_size` (a power of 2),
// merged where they overlap or touch, ascending, the last one cut where the sum of the lengths
// reaches `quota_bytes`. `ranges` are bytes, not pages, in any order. -EFBIG: what is left lies
// beyond 4 GiB in part, and *ret is empty; -ENOMEM.
int pinlist_from_ranges(const struct page_ranges *ranges, size_t page_size, uint64_t quota_bytes,
                        struct pinlist *ret, struct err *err);

// The bytes of the list as a set: sorted, merged, empty ranges left out. 0 or -ENOMEM.
int pinlist_to_ranges(const struct pinlist *list, struct page_ranges *ret);

uint64_t pinlist_total_bytes(const struct pinlist *list); // the sum of all lengths

// Appends the list as it stands in a file.
void pinlist_encode(const struct pinlist *list, struct strbuf *ret);
