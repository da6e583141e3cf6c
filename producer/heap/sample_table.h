// SPDX-License-Identifier: Apache-2.0
//
// The addresses of live samples, so that the free of anything else costs a load and a branch. Safe
// for any number of threads, in signal handlers and after fork: no locks, no allocation. All zero
// but for `slots` and `shift` is an empty table; it is large and mostly never touched.
//
// The counts are the client's own. The slots are shared with the recorder (heap_abi.h).
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "producer/heap/heap_abi.h"

#define TABLE_FILTER_BITS 20
#define TABLE_LINE_SLOTS  8
#define TABLE_LINE_BITS   (HEAP_TABLE_BITS - 3)

typedef _Atomic uint64_t table_slot;

struct address_table {
    struct table_counts {
        _Atomic uint8_t filter[1u << TABLE_FILTER_BITS]; // addresses per piece; sticks at 255
        _Atomic uint8_t beyond[1u << TABLE_LINE_BITS];   // that are not in their line; as well
    } counts;
    table_slot *slots; // HEAP_TABLE_BYTES; borrowed
    uint32_t shift;    // heap_header.table_shift
};

// The filter has one byte for a piece of 1 << shift bytes of memory. A piece is small enough to
// have no sample in it mostly, so most frees are told from it, and large enough that the part of
// the filter that a program uses stays in the cache.
static inline uint32_t table_piece(const struct address_table *table, uint64_t address)
{
    return (uint32_t)(address >> table->shift) & ((1u << TABLE_FILTER_BITS) - 1);
}

// False: certainly not there.
static inline bool table_may_have(const struct address_table *table, const void *p)
{
    uint32_t piece = table_piece(table, (uint64_t)(uintptr_t)p);
    return atomic_load_explicit(&table->counts.filter[piece], memory_order_relaxed) != 0;
}

// False: no room near its place. An address that is there already stays one.
bool table_add(struct address_table *table, uint64_t address);

// False: it was not there.
bool table_remove(struct address_table *table, uint64_t address);

// Also for who has the slots alone.
bool table_slots_have(const table_slot *slots, uint32_t shift, uint64_t address);

// Removes the addresses whose XOR with `mask` is from `start` to before `start + size`, and calls
// `removed` for each.
void table_remove_range(struct address_table *table, uint64_t mask, uint64_t start, uint64_t size,
                        void (*removed)(void *userdata, uint64_t address), void *userdata);
