// SPDX-License-Identifier: Apache-2.0
//
// What of a file's parts (the entries of a zip, or the whole file) is in a set of byte ranges: what
// is resident, what an older probe saw, what a pinconfig wants.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/pinconfig.h"
#include "common/ranges.h"
#include "common/vec.h"

// A part of a file.
struct part {
    const char *name; // borrowed
    uint64_t offset;  // its first byte in the file
    uint64_t size_bytes;
    uint64_t uncompressed_bytes;            // of a zip's entry
    unsigned method;                        // of a zip's entry
    const struct pinconfig_file *wanted_by; // borrowed; NULL: no pinconfig picked it
};

struct coverage {
    struct part part;
    size_t first_range, n_ranges; // in the list's pool
    uint64_t covered_bytes;       // the sum of their lengths
};

VEC_DEFINE(coverage_items, struct coverage);

// All zero is an empty list.
struct coverages {
    struct coverage_items items;
    // Byte ranges in the file, ascending for each item; not one set, since those of neighbours may
    // touch.
    struct page_ranges pool;
};

// Appends what of the part is in `set` (sorted bytes), or all of it if that is NULL. Takes the
// logarithm of the set's size and what it finds. 0 or -ENOMEM.
int coverages_add(struct coverages *list, const struct part *part, const struct page_ranges *set);

// The same where only `wanted` (sorted bytes within the part) counts.
int coverages_add_wanted(struct coverages *list, const struct part *part,
                         const struct page_ranges *wanted, const struct page_ranges *set);

void coverages_clear(struct coverages *list);
void coverages_done(struct coverages *list); // fit for CLEANUP()

static inline const struct page_range *coverage_ranges(const struct coverages *list,
                                                       const struct coverage *item)
{
    return item->n_ranges ? &list->pool.items[item->first_range] : NULL;
}

// Covered bytes in percent; 0 for a part without bytes.
double coverage_percent(uint64_t covered_bytes, uint64_t size_bytes);
