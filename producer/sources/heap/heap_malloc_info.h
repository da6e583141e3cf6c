// SPDX-License-Identifier: Apache-2.0
//
// The state of a profiled process's allocator, on its way from the process into the trace
// (protos/trace/malloc_info.proto).
#pragma once

#include "common/nsec.h"
#include "producer/heap/heap_abi.h"
#include "producer/trace/packet_writer.h"

struct malloc_info {
    nsec_t time; // boot time; 0: no unwritten answer
    uint64_t mapped_bytes, n_mapped;
    uint32_t n_arenas;
    struct heap_arena arenas[HEAP_ARENAS_MAX];
};

// Keeps an answer for the next write. `arenas` has been checked (ring_reader.h).
void malloc_info_keep(struct malloc_info *info, const struct heap_arenas *arenas, nsec_t time);

// Writes the last answer that came since the last call, if any.
void malloc_info_write(struct malloc_info *info, struct packet_writer *writer, int32_t pid);
