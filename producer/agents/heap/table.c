// SPDX-License-Identifier: Apache-2.0
//
// An address lives in any slot of the window at its hash, so a removed one leaves just an empty
// slot behind. Only who holds an allocation adds or removes its address; slots are contended only
// between different addresses, which compare-and-swap settles.
#include "producer/agents/heap/table.h"

#include <stddef.h>

#define WINDOW       64 // eight cache lines
#define BUCKET_BYTES 16
#define RANGE_LARGE  (UINT64_C(8) << 20) // from here on looking at all slots is quicker

static uint32_t slot_at(uint64_t address, uint32_t i)
{
    uint32_t home = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HEAP_TABLE_BITS));
    return ((home & ~7u) + i) & ((1u << HEAP_TABLE_BITS) - 1);
}

static void filter_change(struct address_table *table, uint64_t address, int change)
{
    _Atomic uint8_t *count = &table->filter[table_bucket(address)];
    uint8_t old = atomic_load_explicit(count, memory_order_relaxed);
    while (old != UINT8_MAX && !(old == 0 && change < 0))
        if (atomic_compare_exchange_weak_explicit(count, &old, (uint8_t)(old + change),
                                                  memory_order_relaxed, memory_order_relaxed))
            break;
}

bool table_add(struct address_table *table, uint64_t address)
{
    table_slot *empty = NULL;
    for (uint32_t i = 0; i < WINDOW; i++) {
        table_slot *slot = &table->slots[slot_at(address, i)];
        uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
        if (value == address)
            return true;
        if (value == 0 && !empty)
            empty = slot;
    }
    for (uint32_t i = 0; empty && i < WINDOW; i++) {
        uint64_t expected = 0;
        if (atomic_compare_exchange_strong_explicit(empty, &expected, address, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            filter_change(table, address, 1);
            return true;
        }
        empty = &table->slots[slot_at(address, i)];
    }
    return false;
}

bool table_remove(struct address_table *table, uint64_t address)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        table_slot *slot = &table->slots[slot_at(address, i)];
        uint64_t value = address;
        if (atomic_load_explicit(slot, memory_order_relaxed) == address &&
            atomic_compare_exchange_strong_explicit(slot, &value, 0, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            filter_change(table, address, -1);
            return true;
        }
    }
    return false;
}

bool table_slots_have(const table_slot *slots, uint64_t address)
{
    for (uint32_t i = 0; i < WINDOW; i++)
        if (atomic_load_explicit(&slots[slot_at(address, i)], memory_order_acquire) == address)
            return true;
    return false;
}

static void remove_and_tell(struct address_table *table, uint64_t address,
                            void (*removed)(void *userdata, uint64_t address), void *userdata)
{
    if (table_remove(table, address))
        removed(userdata, address);
}

void table_remove_range(struct address_table *table, uint64_t mask, uint64_t start, uint64_t size,
                        void (*removed)(void *userdata, uint64_t address), void *userdata)
{
    if (size >= RANGE_LARGE) {
        for (uint32_t i = 0; i < 1u << HEAP_TABLE_BITS; i++) {
            uint64_t address = atomic_load_explicit(&table->slots[i], memory_order_relaxed);
            if (address && (address ^ mask) - start < size)
                remove_and_tell(table, address, removed, userdata);
        }
        return;
    }
    for (uint64_t at = start, end = start + size; at < end;) {
        uint64_t next = (at | (BUCKET_BYTES - 1)) + 1;
        next = next < end ? next : end;
        if (table_may_have(table, (const void *)(uintptr_t)(at ^ mask)))
            for (; at < next; at++)
                remove_and_tell(table, at ^ mask, removed, userdata);
        at = next;
    }
}
