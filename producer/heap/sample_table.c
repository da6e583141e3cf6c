// SPDX-License-Identifier: Apache-2.0
//
// A line of eight slots holds the samples of a stretch of memory: 16 pieces of the filter, about
// one sampling interval at most. Adjacent stretches have adjacent lines, so the used part of the
// table is small compared with the memory of the program. Addresses that do not fit into their line
// go into one of a few windows elsewhere, and are counted there as `beyond`.
//
// An address may be in any slot of its line or windows, so a removal just leaves an empty slot.
// Only the owner of an allocation adds or removes its address. Slots are contended only between
// different addresses; compare-and-swap resolves this contention.
#include "producer/heap/sample_table.h"

#include <stddef.h>

#define PIECE_BITS   4 // pieces per stretch
#define WINDOWS      4
#define WINDOW_LINES 8
#define PLACES       (TABLE_LINE_SLOTS * (1 + WINDOWS * WINDOW_LINES))
#define GOLDEN       UINT64_C(0x9e3779b97f4a7c15)
#define REGION_BITS  26                            // arenas are 64 MiB apart and begin alike
#define RANGE_LARGE  (1u << (TABLE_LINE_BITS - 2)) // at so many stretches all slots are scanned

static uint64_t stretch_of(uint32_t shift, uint64_t address)
{
    return address >> (shift + PIECE_BITS);
}

static uint32_t line_of(uint32_t shift, uint64_t address)
{
    uint64_t region = (address >> REGION_BITS) * GOLDEN >> (64 - TABLE_LINE_BITS);
    return (uint32_t)(stretch_of(shift, address) + region) & ((1u << TABLE_LINE_BITS) - 1);
}

// Returns the i-th place of an address: first in its line, then in its windows.
static uint32_t place_at(uint32_t shift, uint64_t address, uint32_t i)
{
    if (i < TABLE_LINE_SLOTS)
        return line_of(shift, address) * TABLE_LINE_SLOTS + i;
    uint32_t window = (i - TABLE_LINE_SLOTS) / (WINDOW_LINES * TABLE_LINE_SLOTS);
    uint32_t slot = (i - TABLE_LINE_SLOTS) % (WINDOW_LINES * TABLE_LINE_SLOTS);
    uint64_t hash = (stretch_of(shift, address) * WINDOWS + window + 1) * GOLDEN;
    uint32_t line = (uint32_t)(hash >> (64 - TABLE_LINE_BITS));
    return (line * TABLE_LINE_SLOTS + slot) & ((1u << HEAP_TABLE_BITS) - 1);
}

static void count_change(_Atomic uint8_t *count, int change)
{
    uint8_t old = atomic_load_explicit(count, memory_order_relaxed);
    while (old != UINT8_MAX && !(old == 0 && change < 0))
        if (atomic_compare_exchange_weak_explicit(count, &old, (uint8_t)(old + change),
                                                  memory_order_relaxed, memory_order_relaxed))
            break;
}

static void counts_change(struct address_table *table, uint64_t address, uint32_t place, int change)
{
    count_change(&table->counts.filter[table_piece(table, address)], change);
    if (place >= TABLE_LINE_SLOTS)
        count_change(&table->counts.beyond[line_of(table->shift, address)], change);
}

// Returns how many places must be examined to find an address.
static uint32_t n_places(const struct address_table *table, uint64_t address)
{
    uint32_t line = line_of(table->shift, address);
    bool beyond = atomic_load_explicit(&table->counts.beyond[line], memory_order_relaxed) != 0;
    return beyond ? PLACES : TABLE_LINE_SLOTS;
}

static bool find(const table_slot *slots, uint32_t shift, uint32_t n, uint64_t address)
{
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&slots[place_at(shift, address, i)], memory_order_acquire) ==
            address)
            return true;
    return false;
}

static bool slot_change(table_slot *slot, uint64_t from, uint64_t to)
{
    uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
    return value == from && atomic_compare_exchange_strong_explicit(
                                slot, &value, to, memory_order_relaxed, memory_order_relaxed);
}

// Changes one of the first `n` places of an address.
static bool place_change(struct address_table *table, uint64_t address, uint32_t n, uint64_t from,
                         uint64_t to)
{
    table_slot *line = &table->slots[place_at(table->shift, address, 0)];
    uint32_t i = 0;
    while (i < TABLE_LINE_SLOTS && !slot_change(&line[i], from, to))
        i++;
    if (i == TABLE_LINE_SLOTS)
        while (i < n && !slot_change(&table->slots[place_at(table->shift, address, i)], from, to))
            i++;
    if (i >= n)
        return false;
    counts_change(table, address, i, to ? 1 : -1);
    return true;
}

bool table_add(struct address_table *table, uint64_t address)
{
    bool is_there = table_may_have(table, (const void *)(uintptr_t)address) &&
                    find(table->slots, table->shift, n_places(table, address), address);
    return is_there || place_change(table, address, PLACES, 0, address);
}

bool table_remove(struct address_table *table, uint64_t address)
{
    return place_change(table, address, n_places(table, address), address, 0);
}

bool table_slots_have(const table_slot *slots, uint32_t shift, uint64_t address)
{
    return find(slots, shift, PLACES, address);
}

struct range {
    uint64_t mask, start, size;
    void (*removed)(void *userdata, uint64_t address);
    void *userdata;
};

static void remove_if_in_range(struct address_table *table, const struct range *range,
                               uint32_t slot)
{
    uint64_t address = atomic_load_explicit(&table->slots[slot], memory_order_relaxed);
    if (address && (address ^ range->mask) - range->start < range->size &&
        table_remove(table, address))
        range->removed(range->userdata, address);
}

static bool stretch_is_empty(const struct address_table *table, uint64_t address)
{
    uint32_t first = table_piece(table, address) & ~((1u << PIECE_BITS) - 1);
    unsigned any = 0;
    for (uint32_t i = 0; i < 1u << PIECE_BITS; i++)
        any |= atomic_load_explicit(&table->counts.filter[first + i], memory_order_relaxed);
    return any == 0;
}

void table_remove_range(struct address_table *table, uint64_t mask, uint64_t start, uint64_t size,
                        void (*removed)(void *userdata, uint64_t address), void *userdata)
{
    if (start && size > -start)
        size = -start; // up to the last address
    const struct range range = {mask, start, size, removed, userdata};
    if (size == 0)
        return;
    uint32_t bits = table->shift + PIECE_BITS;
    uint64_t first = start >> bits, n = ((size - 1) >> bits) + 2;
    if (n >= RANGE_LARGE) {
        for (uint32_t i = 0; i < 1u << HEAP_TABLE_BITS; i++)
            remove_if_in_range(table, &range, i);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t address = (first + i) << bits ^ mask;
        if (stretch_is_empty(table, address))
            continue;
        uint32_t n_looks = n_places(table, address);
        for (uint32_t k = 0; k < n_looks; k++)
            remove_if_in_range(table, &range, place_at(table->shift, address, k));
    }
}
