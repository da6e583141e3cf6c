// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as the ring of the kernel's perf records. The first byte picks the parts of a
// sample, the next eight bytes are the position up to which the ring is written.
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "producer/sources/perf/perf_ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RING_BYTES 8192
#define HEAD_BYTES 9

static _Alignas(64) uint8_t pages[4096 + RING_BYTES];
static uint8_t copy[PERF_RECORD_BYTES];
static volatile uint64_t sum;

static void touch(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)bytes)[i];
}

static void check(const struct perf_record *record, const struct perf_layout *layout)
{
    switch (record->kind) {
    case PERF_SAMPLED:
        touch(record->sample.chain, record->sample.n_chain * sizeof(uint64_t));
        if (record->sample.registers)
            touch(record->sample.registers, layout->n_registers * sizeof(uint64_t));
        touch(record->sample.stack, record->sample.stack_size);
        break;
    case PERF_MAPPED:
        touch(record->mapped.path, strlen(record->mapped.path));
        touch(record->mapped.build_id, record->mapped.build_id_size);
        if (record->mapped.end < record->mapped.start)
            abort();
        break;
    case PERF_EXECUTED:
    case PERF_NAMED:
        touch(record->named.name, strlen(record->named.name));
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES || size > HEAD_BYTES + RING_BYTES)
        return 0;
    const struct perf_layout layout = {.n_counts = 1 + (data[0] & 3),
                                       .has_chain = data[0] & 4,
                                       .n_registers = data[0] & 8 ? 20 : 0};
    struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)pages;
    memset(pages, 0, sizeof(pages));
    memcpy(&page->data_head, data + 1, sizeof(page->data_head));
    page->data_head &= ~UINT64_C(7); // the kernel writes records of whole words
    page->data_tail = page->data_head > RING_BYTES ? page->data_head - RING_BYTES : 0;
    memcpy(pages + 4096, data + HEAD_BYTES, size - HEAD_BYTES);
    struct perf_ring ring = {
        .pages = pages, .data = pages + 4096, .data_size = RING_BYTES, .copy = copy};
    struct perf_ring_vec rings = {.items = &ring, .n = 1, .capacity = 1};
    uint64_t n = 0;
    perf_rings_begin(&rings, &layout);
    for (struct perf_ring *next; (next = perf_rings_next(&rings, &layout, UINT64_MAX)); n++)
        check(&next->record, &layout);
    perf_rings_end(&rings);
    if (n > RING_BYTES / sizeof(struct perf_event_header) || page->data_tail > page->data_head)
        abort();
    return 0;
}
