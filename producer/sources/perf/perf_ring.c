// SPDX-License-Identifier: Apache-2.0
//
// The record of a mapping may be in the ring of one CPU, and a sample in that code in the ring of
// another CPU. Therefore the rings are merged by time. A record that was written after the round
// began waits for the next round: the caller takes the time before it begins the round, and no
// record up to that time can still come.
//
// A record is parsed where it is. The kernel writes no byte between tail and head.
#include "producer/sources/perf/perf_ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL_RECORD 8192 // records other than samples are smaller: paths are the longest part

int perf_ring_map(struct perf_ring *ring, int fd, uint32_t pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = page * (pages + (size_t)1);
    uint8_t *copy = malloc(PERF_RECORD_BYTES);
    if (!copy)
        return -ENOMEM;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        int r = -errno;
        free(copy);
        return r;
    }
    *ring = (struct perf_ring){.pages = memory,
                               .pages_size = size,
                               .data = (uint8_t *)memory + page,
                               .data_size = page * pages,
                               .copy = copy};
    return 0;
}

void perf_ring_unmap(struct perf_ring *ring)
{
    if (ring->pages)
        munmap(ring->pages, ring->pages_size);
    free(ring->copy);
    *ring = (struct perf_ring){0};
}

static const void *bytes_at(struct perf_ring *ring, uint64_t position, size_t size)
{
    uint64_t at = position & (ring->data_size - 1);
    if (at + size <= ring->data_size)
        return ring->data + at;
    size_t first = ring->data_size - at;
    memcpy(ring->copy, ring->data + at, first);
    memcpy(ring->copy + first, ring->data, size - first);
    return ring->copy;
}

// Reads the next good record into ring->record.
static void record_next(struct perf_ring *ring, const struct perf_layout *layout)
{
    struct perf_event_header header;
    for (ring->has_record = false; !ring->has_record && ring->tail < ring->head;) {
        uint64_t left = ring->head - ring->tail;
        if (left >= sizeof(header))
            memcpy(&header, bytes_at(ring, ring->tail, sizeof(header)), sizeof(header));
        if (left < sizeof(header) || header.size < sizeof(header) || header.size > left) {
            ring->n_damaged++;
            ring->tail = ring->head;
            return;
        }
        const void *bytes = bytes_at(ring, ring->tail, header.size);
        ring->has_record = perf_record_read(layout, bytes, header.size, &ring->record);
        ring->record_size = header.size;
        if (ring->has_record)
            return;
        ring->n_damaged++;
        ring->tail += header.size;
    }
}

void perf_rings_begin(struct perf_ring_vec *rings, const struct perf_layout *layout)
{
    vec_foreach(rings, ring) {
        struct perf_event_mmap_page *page = ring->pages;
        if (!page)
            continue;
        ring->head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
        ring->tail = page->data_tail;
        if (ring->head - ring->tail > ring->data_size)
            ring->tail = ring->head; // only if another program wrote to the page
        record_next(ring, layout);
    }
}

struct perf_ring *perf_rings_next(struct perf_ring_vec *rings, const struct perf_layout *layout,
                                  uint64_t time_max)
{
    struct perf_ring *found = NULL;
    vec_foreach(rings, ring) {
        if (ring->pages && !ring->has_record && ring->tail < ring->head)
            record_next(ring, layout);
        if (ring->pages && ring->has_record && ring->record.time <= time_max &&
            (!found || ring->record.time < found->record.time))
            found = ring;
    }
    if (found) { // the record stays valid: its room goes back to the kernel in perf_rings_end()
        found->has_record = false;
        found->tail += found->record_size;
    }
    return found;
}

void perf_rings_end(struct perf_ring_vec *rings)
{
    vec_foreach(rings, ring) {
        struct perf_event_mmap_page *page = ring->pages;
        if (!page)
            continue;
        uint64_t begin = page->data_tail;
        __atomic_store_n(&page->data_tail, ring->tail, __ATOMIC_SEQ_CST);
        uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_SEQ_CST);
        ring->was_full = head - begin + SMALL_RECORD > ring->data_size;
    }
}
