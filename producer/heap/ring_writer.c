// SPDX-License-Identifier: Apache-2.0
//
// Room is reserved by one compare-and-swap on the write position, including the gap at the ring's
// end. The size is written into the record at once, so that the recorder can step over a record
// that is never completed.
#include "producer/heap/ring_writer.h"

static uint64_t used_bytes(const struct ring_writer *ring, uint64_t write_pos)
{
    uint64_t read_pos = atomic_load_explicit(&ring->header->read_pos, memory_order_acquire);
    return write_pos - read_pos;
}

uint64_t ring_free_bytes(const struct ring_writer *ring)
{
    uint64_t used =
        used_bytes(ring, atomic_load_explicit(&ring->header->write_pos, memory_order_relaxed));
    return used < ring->bytes ? ring->bytes - used : 0;
}

static struct heap_record *record_begin(struct ring_writer *ring, uint64_t pos,
                                        enum heap_record_kind kind, uint64_t size)
{
    struct heap_record *record = (struct heap_record *)(ring->memory + (pos & (ring->bytes - 1)));
    atomic_store_explicit(&record->word, (uint32_t)size, memory_order_relaxed);
    record->kind = (uint8_t)kind;
    record->heap = 0;
    record->n_frames = 0;
    return record;
}

void *ring_reserve(struct ring_writer *ring, enum heap_record_kind kind, size_t size,
                   uint64_t reserve)
{
    uint64_t wanted = (size + HEAP_RECORD_ALIGN - 1) & ~(uint64_t)(HEAP_RECORD_ALIGN - 1);
    uint64_t pos = atomic_load_explicit(&ring->header->write_pos, memory_order_relaxed);
    uint64_t gap;
    do {
        uint64_t to_end = ring->bytes - (pos & (ring->bytes - 1));
        gap = to_end < wanted ? to_end : 0;
        uint64_t used = used_bytes(ring, pos);
        if (used > ring->bytes || ring->bytes - used < gap + wanted + reserve)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&ring->header->write_pos, &pos,
                                                    pos + gap + wanted, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (gap > 0)
        ring_commit(record_begin(ring, pos, HEAP_PAD, gap));
    return record_begin(ring, pos + gap, kind, wanted);
}

void ring_commit(void *record)
{
    struct heap_record *head = record;
    uint32_t size = atomic_load_explicit(&head->word, memory_order_relaxed);
    atomic_store_explicit(&head->word, size | HEAP_RECORD_DONE, memory_order_release);
}
