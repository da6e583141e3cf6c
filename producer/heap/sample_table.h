// SPDX-License-Identifier: Apache-2.0
//
// The addresses of live samples. With this table the free of an address that is not a sample costs
// one load and one branch. Safe for any number of threads, in signal handlers and after fork: no
// locks, no allocation. A table that is all zero except `slots` and `shift` is empty. The table is
// large; most of its pages are never touched.
//
// The counts belong to the client. The slots are shared with the recorder (heap_abi.h).
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
        _Atomic uint8_t filter[1u << TABLE_FILTER_BITS]; // addresses per piece; stays at 255
        _Atomic uint8_t
            beyond[1u << TABLE_LINE_BITS]; // addresses outside of their line; stays at 255
    } counts;
    table_slot *slots; // HEAP_TABLE_BYTES; borrowed
    uint32_t shift;    // heap_header.table_shift
};

// The filter has one byte per piece of 1 << shift bytes of memory. A piece is so small that most
// pieces have no sample: the filter alone decides most frees. A piece is so large that the part of
// the filter that a program uses stays in the cache.
static inline uint32_t table_piece(const struct address_table *table, uint64_t address)
{
    return (uint32_t)(address >> table->shift) & ((1u << TABLE_FILTER_BITS) - 1);
}

// Returns false if `p` is certainly not in the table.
static inline bool table_may_have(const struct address_table *table, const void *p)
{
    uint32_t piece = table_piece(table, (uint64_t)(uintptr_t)p);
    return atomic_load_explicit(&table->counts.filter[piece], memory_order_relaxed) != 0;
}

// Adds an address, unless the table has it already. Returns false if there is no room near the
// address's place.
bool table_add(struct address_table *table, uint64_t address);

// Removes an address. Returns false if the address was not in the table.
bool table_remove(struct address_table *table, uint64_t address);

// Returns whether the slots have `address`. Works with the slots alone, as the recorder has them.
bool table_slots_have(const table_slot *slots, uint32_t shift, uint64_t address);

// Removes each address for which (address XOR `mask`) is in [start, start + size), and calls
// `removed` for it.
void table_remove_range(struct address_table *table, uint64_t mask, uint64_t start, uint64_t size,
                        void (*removed)(void *userdata, uint64_t address), void *userdata);
