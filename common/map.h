// SPDX-License-Identifier: Apache-2.0
//
// Two hash tables, both with open addressing and linear probing. `map64` maps u64 keys to u64
// values (an index, an id, or a pointer cast to uintptr_t). `strset` gives each distinct byte
// string a small id.
//
// Keys come from strangers, so the places of keys in a table depend on two random numbers of the
// process (hash_seed). The order of map64_next() differs from run to run. Code whose output shows
// an order uses map64_sorted().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/text.h"

struct map64_slot {
    uint64_t key;
    uint64_t value;
};

// All zero is an empty map. Any key is allowed.
struct map64 {
    struct map64_slot *slots; // owned
    uint8_t *used;            // owned, one byte per slot
    size_t n, capacity;
};

#define HASH_FACTOR UINT64_C(0xe9846af9b1a615d)

// Returns a hash that is equal in all processes, for ids that reach an output. Not for places in a
// table: a stranger can choose numbers with equal hashes.
static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= HASH_FACTOR;
    x ^= x >> 32;
    x *= HASH_FACTOR;
    return x ^ (x >> 28);
}

// Two random numbers, drawn before main() and constant afterwards. `factor` is odd.
extern struct hash_seed {
    uint64_t mask, factor;
} hash_seed __attribute__((visibility("hidden")));

// Returns a hash for places in tables. The hash differs from process to process, so a stranger
// cannot choose numbers with equal hashes.
static inline uint64_t table_hash_u64(uint64_t x)
{
    __extension__ unsigned __int128 product =
        (unsigned __int128)(x ^ hash_seed.mask) * hash_seed.factor;
    x = ((uint64_t)product ^ (uint64_t)(product >> 64)) * HASH_FACTOR;
    return x ^ (x >> 32);
}

// Returns the slot of `key`, or the free slot for `key`. The map must have slots.
static inline size_t map64_slot_of(const struct map64 *map, uint64_t key)
{
    size_t mask = map->capacity - 1;
    size_t i = table_hash_u64(key) & mask;
    while (map->used[i] && map->slots[i].key != key)
        i = (i + 1) & mask;
    return i;
}

// Returns the address of the value, or NULL if `key` is absent. The address stays valid until the
// next insertion or removal.
static inline uint64_t *map64_find(const struct map64 *map, uint64_t key)
{
    if (!map->n)
        return NULL;
    size_t i = map64_slot_of(map, key);
    return map->used[i] ? &map->slots[i].value : NULL;
}

// Inserts or replaces a value. Returns 0 or -ENOMEM.
int map64_set(struct map64 *map, uint64_t key, uint64_t value);

// Returns the address of the value of `key`. An absent key is inserted with the value `initial`.
// *ret_new is true if the key was inserted; `ret_new` may be NULL. Returns NULL if memory ran out.
uint64_t *map64_get_or_add(struct map64 *map, uint64_t key, uint64_t initial, bool *ret_new);

bool map64_remove(struct map64 *map, uint64_t key);
void map64_clear(struct map64 *map);
void map64_done(struct map64 *map);

// Returns the slots one by one, in no particular order, then NULL. Start with *cursor = 0. The map
// must not change during the iteration.
const struct map64_slot *map64_next(const struct map64 *map, size_t *cursor);

// Returns copies of the slots (map->n), sorted by key, which the caller frees. Returns NULL if
// memory ran out.
struct map64_slot *map64_sorted(const struct map64 *map);

struct strset_entry {
    const char *text; // owned by the set's arena; terminated
    uint32_t size;    // bytes without the terminator
    uint32_t hash;
};

// Ids count from 0 in order of first appearance. All zero is an empty set.
struct strset {
    struct arena arena;
    struct strset_entry *entries; // owned, by id
    uint32_t *slots;              // owned; id + 1; 0: empty
    size_t n, n_allocated, n_slots;
    struct failure *failure; // borrowed; records that memory ran out. May be NULL
};

#define STRSET_NONE UINT32_MAX

// Returns the id of `text`; a new text is added. Returns STRSET_NONE if memory ran out.
// set->failure keeps this failure, so that a caller can check once, at the end.
uint32_t strset_add(struct strset *set, const char *text, size_t size);

static inline uint32_t strset_add_text(struct strset *set, struct text text)
{
    return strset_add(set, text.at, text.size);
}

// Returns the id of `text`, or STRSET_NONE.
uint32_t strset_find(const struct strset *set, const char *text, size_t size);

static inline const char *strset_text(const struct strset *set, uint32_t id)
{
    return id < set->n ? set->entries[id].text : NULL;
}

void strset_done(struct strset *set);

// Well-mixed 64-bit hashes of bytes. hash_bytes() is equal in all processes, as hash_u64().
// table_hash_bytes() differs from process to process, as table_hash_u64().
uint64_t hash_bytes(const void *data, size_t size);
uint64_t table_hash_bytes(const void *data, size_t size);
