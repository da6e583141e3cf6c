// SPDX-License-Identifier: Apache-2.0
//
// pinlist.meta: the ranges of a file that stay in memory. `pintool` writes this file into an APK,
// Android's PinnerService reads it, and `mmsql` loads it. The file is a sequence of pairs of
// big-endian u32, OFFSET and LENGTH, and nothing else. Therefore a list cannot name bytes beyond 4
// GiB.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/str.h"
#include "common/vec.h"

#define PINLIST_PAIR_BYTES 8
#define PINLIST_END_MAX    ((uint64_t)UINT32_MAX + 1) // the first byte that no list can reach
#define PINLIST_NO_QUOTA   UINT64_MAX

struct pinlist_range {
    uint32_t offset; // bytes
    uint32_t length; // bytes
};

// All zero is an empty list.
VEC_DEFINE(pinlist, struct pinlist_range);

// Reads all pairs of a file, in the file's order, without further checks. Returns 0; -ENOMEM; or
// -EBADMSG, with *ret empty, if `size` is not a multiple of 8. The error text begins with `name`.
int pinlist_parse(const void *bytes, size_t size, const char *name, struct pinlist *ret,
                  struct err *err);

// Makes a list for a file from byte ranges (bytes, not pages) in any order. Starts are aligned down
// to `page_size`, a power of 2. Ranges that overlap or touch are merged. The list is sorted. The
// last range is cut so that the sum of the lengths is at most `quota_bytes`. Returns 0; -ENOMEM; or
// -EFBIG, with *ret empty, if part of the result lies beyond 4 GiB.
int pinlist_from_ranges(const struct page_ranges *ranges, size_t page_size, uint64_t quota_bytes,
                        struct pinlist *ret, struct err *err);

// Sets *ret to the bytes of the list: sorted, merged, without empty ranges. Returns 0 or -ENOMEM.
int pinlist_to_ranges(const struct pinlist *list, struct page_ranges *ret);

uint64_t pinlist_total_bytes(const struct pinlist *list); // the sum of all lengths

// Appends the list in its file format.
void pinlist_encode(const struct pinlist *list, struct strbuf *ret);
