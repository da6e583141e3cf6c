// SPDX-License-Identifier: Apache-2.0
//
// Intersects the parts of a file (the entries of a zip, or the whole file) with a set of byte
// ranges: resident bytes, the bytes of an older probe, or the bytes that a pinconfig names.
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
    // Byte ranges in the file, ascending for each item. The ranges of neighbours may touch, so the
    // pool is not one set.
    struct page_ranges pool;
};

// Returns the index of the first range that ends after `offset`.
size_t coverage_first(const struct page_ranges *set, uint64_t offset);

// Appends the bytes of the part that are in `set` (sorted bytes; NULL: all bytes of the part).
// The time grows with the logarithm of the set's size and with the number of ranges that are found.
// Returns 0 or -ENOMEM.
int coverages_add(struct coverages *list, const struct part *part, const struct page_ranges *set);

// Appends the bytes of the part that are in both `wanted` (sorted, within the part) and `set`.
int coverages_add_wanted(struct coverages *list, const struct part *part,
                         const struct page_ranges *wanted, const struct page_ranges *set);

void coverages_clear(struct coverages *list);
void coverages_done(struct coverages *list); // fit for CLEANUP()

static inline const struct page_range *coverage_ranges(const struct coverages *list,
                                                       const struct coverage *item)
{
    return item->n_ranges ? &list->pool.items[item->first_range] : NULL;
}

// Returns the covered bytes in percent; 0 for a part without bytes.
double coverage_percent(uint64_t covered_bytes, uint64_t size_bytes);

// Divides the `size_bytes` (> 0) from `offset` on into `n_cells` cells, and sets ret[i] to the
// level of cell i: 0 if no byte is covered, `n_levels` if all are, and 1 to `n_levels` - 1 if some
// are. `ranges` are sorted and lie within these bytes. If there are more cells than bytes, several
// cells show the same byte.
void density_levels(const struct page_range *ranges, size_t n_ranges, uint64_t offset,
                    uint64_t size_bytes, unsigned n_levels, size_t n_cells, uint8_t *ret);
