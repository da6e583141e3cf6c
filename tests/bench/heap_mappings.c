// SPDX-License-Identifier: Apache-2.0
//
// The recorder's cost of a client that has loaded N pieces of code: the records of all pieces, the
// same records once more, and a sample of 20 frames at addresses that were not seen before.
//
// usage: bench_heap_mappings [N...]    (default: 100 1000 65535)
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/elements.h"
#include "common/nsec.h"
#include "producer/sources/heap/heap_book.h"

#define N_FRAMES  20
#define N_SAMPLES 2000
#define CODE      0x1000 // bytes of a piece

static void tell_code(struct heap_book *book, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct ring_record record = {
            .kind = HEAP_OBJECT,
            .object = {.start = 2 * CODE * (i + 1),
                       .end = 2 * CODE * (i + 1) + CODE,
                       .file_offset = i * CODE,
                       .id_size = 4,
                       .path_size = 12},
            .id = (const uint8_t *)"\x12\x34\x56\x78",
            .path = "/lib/code.so",
        };
        if (heap_book_add(book, &record) < 0)
            exit(1);
    }
}

static void take_samples(struct heap_book *book, size_t n)
{
    uint64_t frames[N_FRAMES], random = 88172645463325252;
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        for (size_t k = 0; k < N_FRAMES; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            frames[k] = 2 * CODE * (random % n + 1) + 1 + random / n % CODE;
        }
        struct ring_record record = {
            .kind = HEAP_ALLOC, .address = i, .weight = 1, .frames = frames, .n_frames = N_FRAMES};
        if (heap_book_add(book, &record) < 0)
            exit(1);
    }
}

static void measure(size_t n)
{
    struct heap_book book = {0};
    nsec_t begun = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    tell_code(&book, n);
    nsec_t told = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    tell_code(&book, n);
    nsec_t again = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    take_samples(&book, n);
    nsec_t end = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    printf("%6zu pieces of code: %8.1f ms to tell, %8.1f ms once more, %8.2f us a sample\n", n,
           (double)(told - begun) / NSEC_PER_MSEC, (double)(again - told) / NSEC_PER_MSEC,
           (double)(end - again) / NSEC_PER_USEC / N_SAMPLES);
    heap_book_done(&book);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {100, 1000, 65535};
    for (size_t i = 0; argc < 2 && i < ELEMENTS(sizes); i++)
        measure(sizes[i]);
    for (int i = 1; i < argc; i++)
        measure(strtoul(argv[i], NULL, 10));
    return 0;
}
