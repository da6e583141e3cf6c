// SPDX-License-Identifier: Apache-2.0
//
// The client's end of the ring (heap_abi.h). Any thread, any signal handler; no locks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/heap_abi.h"

struct ring_writer {
    struct heap_header *header; // NULL: there is no ring
    uint8_t *memory;
    uint64_t bytes; // as judged when the ring was taken over
};

// Room for a record of `size` bytes, its head filled in; NULL: the ring is full. `reserve` bytes
// are left free for others: what must not be lost asks with 0.
void *ring_reserve(struct ring_writer *ring, enum heap_record_kind kind, size_t size,
                   uint64_t reserve);

// The record is complete and belongs to the recorder from here.
void ring_commit(void *record);

uint64_t ring_free_bytes(const struct ring_writer *ring);
