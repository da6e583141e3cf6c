// SPDX-License-Identifier: Apache-2.0
//
// Samples that did not fit into the ring, and their weight, which later samples take over.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "producer/heap/heap_abi.h"

// All zero at the beginning.
struct losses {
    _Atomic uint64_t weights; // the mean weight of the samples that came through, times MEAN_OF
};

void losses_note(struct heap_header *header, uint64_t weight);

// Returns the lost weight that a sample of `weight` takes over, beside its own weight.
uint64_t losses_take(struct losses *losses, struct heap_header *header, uint64_t weight);
