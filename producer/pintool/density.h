// SPDX-License-Identifier: Apache-2.0
//
// The density of a file's covered bytes, for a map of the file: one level for each of n equal
// stretches.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/ranges.h"

// Sets ret[0 .. n_cells - 1] to the covered part of each stretch of the `size_bytes` (> 0) that
// begin at `offset`, as a level from 0 (nothing) over 1 to `n_levels` - 1 (something, not all) to
// `n_levels` (all). `ranges` are sorted and lie within. If there are more cells
// than bytes, several cells show the same byte.
void density_levels(const struct page_range *ranges, size_t n_ranges, uint64_t offset,
                    uint64_t size_bytes, unsigned n_levels, size_t n_cells, uint8_t *ret);
