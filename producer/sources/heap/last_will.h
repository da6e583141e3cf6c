// SPDX-License-Identifier: Apache-2.0
//
// Shared memory in which the kernel itself notes the recorder's death, whatever the cause: SIGKILL,
// a crash, the OOM killer. The list of robust futexes of the recorder's first thread does this.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "producer/heap/heap_abi.h"

#define LAST_WILL_MAX 2000 // the kernel follows 2048 entries

// Maps HEAP_MEMORY_BYTES(ring_bytes) of the memfd `fd`, shared. Returns MAP_FAILED with errno if
// the memory cannot be mapped.
//
// If *ret_is_noted is true, the death of this process sets HEAP_STOPPED in the header's `recorder`.
// last_will_map() has written the thread's number into `recorder`, unless `recorder` had a value
// already. *ret_is_noted is false, and `recorder` unchanged, for more than LAST_WILL_MAX maps, for
// other threads than the first, and if the kernel has no robust futexes.
struct heap_header *last_will_map(int fd, uint64_t ring_bytes, bool *ret_is_noted);

// Unmaps the memory. The death of this process no longer changes the memory.
void last_will_unmap(struct heap_header *header, uint64_t ring_bytes, bool is_noted);
