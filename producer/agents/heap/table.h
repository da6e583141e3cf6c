// SPDX-License-Identifier: Apache-2.0
//
// The addresses of live samples, so that the free of anything else costs a load and a branch. Safe
// for any number of threads, in signal handlers and after fork: no locks, no allocation. All zero
// is an empty table; it is large and mostly never touched.
//
// The filter is the client's own. The slots are shared with the recorder (heap_abi.h).
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "producer/agents/heap/heap_abi.h"

#define TABLE_FILTER_BITS 20

typedef _Atomic uint64_t table_slot;

struct address_table {
    _Atomic uint8_t filter[1u << TABLE_FILTER_BITS]; // addresses per bucket; sticks at 255
    table_slot *slots;                               // HEAP_TABLE_BYTES; borrowed
};

// Neighbours in memory are neighbours in the filter, so that what a program uses often stays warm.
static inline uint32_t table_bucket(uint64_t address)
{
    return (uint32_t)(address >> 4 ^ address >> 22) & ((1u << TABLE_FILTER_BITS) - 1);
}

// False: certainly not there.
static inline bool table_may_have(const struct address_table *table, const void *p)
{
    return atomic_load_explicit(&table->filter[table_bucket((uint64_t)(uintptr_t)p)],
                                memory_order_relaxed) != 0;
}

// False: no room near its place. An address that is there already stays one.
bool table_add(struct address_table *table, uint64_t address);

// False: it was not there.
bool table_remove(struct address_table *table, uint64_t address);

// Also for who has the slots alone.
bool table_slots_have(const table_slot *slots, uint64_t address);

// Removes the addresses whose XOR with `mask` is from `start` to before `start + size`, and calls
// `removed` for each.
void table_remove_range(struct address_table *table, uint64_t mask, uint64_t start, uint64_t size,
                        void (*removed)(void *userdata, uint64_t address), void *userdata);
