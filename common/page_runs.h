// SPDX-License-Identifier: Apache-2.0
//
// Runs of pages as a trace stores them: pairs of varints (gap, length). The gap counts from the end
// of the previous run (see protos/trace/page_residency.proto). The recorder and the converter use
// this encoding.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/ranges.h"
#include "common/wire.h"

#define PAGE_RUN_MAX (2 * WIRE_VARINT_MAX) // bytes of the longest pair

// Returns the size in bytes of all pairs. The first gap counts from page 0.
size_t page_runs_size(const struct page_ranges *ranges);

// Writes pairs, without a field tag, from run `first` on. Stops if fewer than `spare` bytes of room
// would remain. The first gap counts from `base`. Returns the number of runs written. Never
// overflows the writer.
size_t page_runs_write(struct wire_writer *w, const struct page_ranges *ranges, size_t first,
                       uint64_t base, size_t spare);

// Appends the runs of a packed field of `size` bytes to `ranges`. The first gap counts from `base`.
// Returns 0; -ENOMEM; or -EBADMSG if the field is damaged, has an odd number of varints, or has a
// run that is empty, ends beyond page 2^52, or does not lie after the last run of `ranges`. After
// -EBADMSG, `ranges` has the runs before the damage.
int page_runs_read(const void *bytes, size_t size, uint64_t base, struct page_ranges *ranges);
