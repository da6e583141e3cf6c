// SPDX-License-Identifier: Apache-2.0
//
// The client's end of the ring (heap_abi.h). Safe in any thread and any signal handler; takes no
// locks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/heap/heap_abi.h"

struct ring_writer {
    struct heap_header *header; // NULL: there is no ring
    uint8_t *memory;
    uint64_t bytes; // as checked when the ring was taken over
};

// Reserves a record of `size` bytes and fills in its head. Returns NULL if the ring is full.
// `reserve` bytes of the ring stay free for others; pass 0 for a record that must not be lost.
void *ring_reserve(struct ring_writer *ring, enum heap_record_kind kind, size_t size,
                   uint64_t reserve);

// Completes the record. From here on the recorder owns it.
void ring_commit(void *record);

uint64_t ring_free_bytes(const struct ring_writer *ring);
