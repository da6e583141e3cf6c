// SPDX-License-Identifier: Apache-2.0
//
// How runs of pages travel in a trace: pairs of varints, (gap, length), where the gap counts from
// the end of the run before (protos/trace/page_residency.proto). Both programs use it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/ranges.h"
#include "common/wire.h"

#define PAGE_RUN_MAX (2 * WIRE_VARINT_MAX) // bytes of the longest pair

// Bytes of all pairs when the first gap counts from page 0.
size_t page_runs_size(const struct page_ranges *ranges);

// Writes bare pairs from run `first` on, as many as leave `spare` bytes of the writer's room, the
// first gap counting from `base`. Returns how many; never overflows the writer.
size_t page_runs_write(struct wire_writer *w, const struct page_ranges *ranges, size_t first,
                       uint64_t base, size_t spare);

// Appends the runs of the `size` bytes of a packed field to `ranges`, the first gap counting from
// `base`. 0; -EBADMSG: damaged, odd, an empty run, one behind page 2^52, or one that does not lie
// behind the last of `ranges`; -ENOMEM. What came before the damage has been appended.
int page_runs_read(const void *bytes, size_t size, uint64_t base, struct page_ranges *ranges);
