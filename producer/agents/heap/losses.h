// SPDX-License-Identifier: Apache-2.0
//
// What did not fit into the ring, and who stands for it.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "producer/heap/heap_abi.h"

// All zero at the beginning.
struct losses {
    _Atomic uint64_t weights; // of samples, the mean times a number
};

void losses_note(struct heap_header *header, uint64_t weight);

// What a sample that comes through stands for beside its own weight.
uint64_t losses_take(struct losses *losses, struct heap_header *header, uint64_t weight);
