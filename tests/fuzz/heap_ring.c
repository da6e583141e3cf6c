// SPDX-License-Identifier: Apache-2.0
//
// A hostile client writes anything into its ring. The first eight bytes of the input are the
// position up to which the client claims to have written. The rest is the beginning of the ring.
#include <stdlib.h>
#include <string.h>

#include "producer/sources/heap/heap_book.h"
#include "producer/sources/heap/ring_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RING_BYTES 8192

static void read_all(struct ring_reader *ring, bool is_last)
{
    struct heap_book book = {0};
    struct ring_record record;
    for (nsec_t now = NSEC_PER_SEC; now < 9 * NSEC_PER_SEC; now += 4 * NSEC_PER_SEC) {
        while (ring_reader_next(ring, now, is_last, &record)) {
            if (record.n_frames > HEAP_FRAMES_MAX)
                abort();
            if (heap_book_add(&book, &record) < 0)
                abort();
        }
    }
    uint64_t total = 0;
    vec_foreach(&book.sites, site) {
        if (site->freed > site->allocated || site->n_frees > site->n_allocs)
            abort();
        total += site->allocated - site->freed;
    }
    if (total != book.total)
        abort();
    heap_book_done(&book);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ring_options options = {.bytes = RING_BYTES, .interval_bytes = 1};
    struct ring_reader ring;
    uint64_t position;
    if (size < sizeof(position) || size > sizeof(position) + RING_BYTES)
        return 0;
    for (int is_last = 0; is_last < 2; is_last++) {
        if (ring_reader_new(&options, &ring, NULL) < 0)
            return 0;
        memcpy(&position, data, sizeof(position));
        memcpy(ring.memory, data + sizeof(position), size - sizeof(position));
        atomic_store(&ring.header->write_pos, position);
        read_all(&ring, is_last);
        ring_reader_done(&ring);
    }
    return 0;
}
