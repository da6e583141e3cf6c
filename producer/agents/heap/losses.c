// SPDX-License-Identifier: Apache-2.0
//
// Later samples make up for lost samples. Each takes over a part in proportion to its own weight,
// and a loss is spread over some thousands of samples: the sums stay right, and no single stack
// gets the whole loss.
#include "producer/agents/heap/losses.h"

#define OWED_PARTS  4096                // approximate number of samples over which a loss is spread
#define MEAN_OF     64                  // approximate number of samples
#define WEIGHT_SURE (UINT64_C(1) << 40) // larger weights do not count in the mean

// The mean weight of the samples that came through. Threads that update it at the same time may
// lose an update.
static uint64_t mean_weight(const struct losses *losses)
{
    return atomic_load_explicit(&losses->weights, memory_order_relaxed) / MEAN_OF;
}

static void note_weight(struct losses *losses, uint64_t weight)
{
    uint64_t sum = atomic_load_explicit(&losses->weights, memory_order_relaxed);
    weight = weight < WEIGHT_SURE ? weight : WEIGHT_SURE;
    atomic_store_explicit(&losses->weights, sum - sum / MEAN_OF + weight, memory_order_relaxed);
}

uint64_t losses_take(struct losses *losses, struct heap_header *header, uint64_t weight)
{
    uint64_t owed = atomic_load_explicit(&header->owed_bytes, memory_order_relaxed);
    if (__builtin_expect(owed == 0, 1))
        return 0;
    double times = (double)owed / (OWED_PARTS * ((double)mean_weight(losses) + 1));
    note_weight(losses,
                weight); // after the mean was used: otherwise large samples would take over less
    double share = (double)weight * (times > 1 ? times : 1);
    uint64_t part = share < (double)owed ? (uint64_t)share : owed;
    return atomic_compare_exchange_strong_explicit(&header->owed_bytes, &owed, owed - part,
                                                   memory_order_relaxed, memory_order_relaxed)
               ? part
               : 0;
}

void losses_note(struct heap_header *header, uint64_t weight)
{
    atomic_fetch_add_explicit(&header->n_lost_allocs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->lost_bytes, weight, memory_order_relaxed);
    atomic_fetch_add_explicit(&header->owed_bytes, weight, memory_order_relaxed);
}
