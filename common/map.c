// SPDX-License-Identifier: Apache-2.0
//
// Linear probing with a load of at most 5/8. Removal shifts the following run back and leaves no
// tombstones, so tables that live for months do not degrade.
#include "common/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#include "common/memory.h"

#define MIN_CAPACITY 16

struct hash_seed hash_seed = {0x9e3779b97f4a7c15ULL, 0x9fb21c651e98df25ULL};

// Draws the random numbers. If getrandom() would wait or is refused, uses the 16 random bytes that
// the kernel gives each process.
__attribute__((constructor)) static void seed_draw(void)
{
    int saved = errno;
    struct hash_seed drawn;
    if (getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != (ssize_t)sizeof(drawn)) {
        const void *given = (const void *)(uintptr_t)getauxval(AT_RANDOM);
        drawn = hash_seed;
        if (given)
            memcpy(&drawn, given, sizeof(drawn));
        // Hashes must not reveal these bytes: they are secrets of libc, too.
        drawn.mask = hash_u64(drawn.mask ^ drawn.factor << 7);
        drawn.factor = hash_u64(drawn.factor + drawn.mask);
    }
    hash_seed = (struct hash_seed){drawn.mask, drawn.factor | 1};
    errno = saved;
}

static inline uint64_t bytes_mix(const void *data, size_t size, uint64_t (*mix)(uint64_t))
{
    const uint8_t *p = data;
    uint64_t hash = 0x9e3779b97f4a7c15ULL ^ size;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = mix(hash ^ word);
    }
    uint64_t tail = 0;
    memcpy(&tail, p, size);
    return mix(hash ^ tail);
}

uint64_t hash_bytes(const void *data, size_t size)
{
    return bytes_mix(data, size, hash_u64);
}

uint64_t table_hash_bytes(const void *data, size_t size)
{
    return bytes_mix(data, size, table_hash_u64);
}

static int map64_grow(struct map64 *map)
{
    size_t capacity = map->capacity ? map->capacity * 2 : MIN_CAPACITY;
    struct map64 grown = {.capacity = capacity, .n = map->n};
    grown.slots = malloc(capacity * sizeof(*grown.slots));
    grown.used = calloc(capacity, 1);
    if (!grown.slots || !grown.used) {
        free(grown.slots);
        free(grown.used);
        return memory_refused();
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (!map->used[i])
            continue;
        size_t to = map64_slot_of(&grown, map->slots[i].key);
        grown.slots[to] = map->slots[i];
        grown.used[to] = 1;
    }
    free(map->slots);
    free(map->used);
    *map = grown;
    return 0;
}

uint64_t *map64_get_or_add(struct map64 *map, uint64_t key, uint64_t initial, bool *ret_new)
{
    uint64_t *found = map64_find(map, key);
    if (ret_new)
        *ret_new = !found;
    if (found)
        return found;
    if ((map->n + 1) * 8 > map->capacity * 5 && map64_grow(map) < 0)
        return NULL;
    size_t i = map64_slot_of(map, key);
    map->slots[i] = (struct map64_slot){.key = key, .value = initial};
    map->used[i] = 1;
    map->n++;
    return &map->slots[i].value;
}

int map64_set(struct map64 *map, uint64_t key, uint64_t value)
{
    uint64_t *slot = map64_get_or_add(map, key, value, NULL);
    if (!slot)
        return -ENOMEM;
    *slot = value;
    return 0;
}

bool map64_remove(struct map64 *map, uint64_t key)
{
    if (!map->n)
        return false;
    size_t mask = map->capacity - 1;
    size_t hole = map64_slot_of(map, key);
    if (!map->used[hole])
        return false;
    for (size_t i = (hole + 1) & mask; map->used[i]; i = (i + 1) & mask) {
        size_t home = table_hash_u64(map->slots[i].key) & mask;
        // The entry moves back unless its home lies cyclically after the hole.
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        map->slots[hole] = map->slots[i];
        hole = i;
    }
    map->used[hole] = 0;
    map->n--;
    return true;
}

const struct map64_slot *map64_next(const struct map64 *map, size_t *cursor)
{
    while (*cursor < map->capacity) {
        size_t i = (*cursor)++;
        if (map->used[i])
            return &map->slots[i];
    }
    return NULL;
}

static int key_compare(const void *left, const void *right)
{
    const struct map64_slot *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

struct map64_slot *map64_sorted(const struct map64 *map)
{
    struct map64_slot *sorted = memory_malloc((map->n + 1) * sizeof(*sorted));
    size_t n = 0, cursor = 0;
    for (const struct map64_slot *slot; sorted && (slot = map64_next(map, &cursor));)
        sorted[n++] = *slot;
    if (n)
        qsort(sorted, n, sizeof(*sorted), key_compare);
    return sorted;
}

void map64_clear(struct map64 *map)
{
    if (map->capacity)
        memset(map->used, 0, map->capacity);
    map->n = 0;
}

void map64_done(struct map64 *map)
{
    free(map->slots);
    free(map->used);
    *map = (struct map64){0};
}

static size_t strset_slot_of(const struct strset *set, const char *text, size_t size, uint32_t hash)
{
    size_t mask = set->n_slots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        if (!set->slots[i])
            return i;
        const struct strset_entry *entry = &set->entries[set->slots[i] - 1];
        if (entry->hash == hash && entry->size == size && memcmp(entry->text, text, size) == 0)
            return i;
    }
}

static int strset_grow(struct strset *set)
{
    size_t n_slots = set->n_slots ? set->n_slots * 2 : MIN_CAPACITY * 2;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    struct strset_entry *entries = realloc(set->entries, n_slots / 2 * sizeof(*entries));
    if (entries)
        set->entries = entries;
    if (!slots || !entries) {
        free(slots);
        return memory_refused();
    }
    free(set->slots);
    set->slots = slots;
    set->n_slots = n_slots;
    set->n_allocated = n_slots / 2;
    for (size_t id = 0; id < set->n; id++) {
        size_t i = set->entries[id].hash & (n_slots - 1);
        while (slots[i])
            i = (i + 1) & (n_slots - 1);
        slots[i] = (uint32_t)id + 1;
    }
    return 0;
}

uint32_t strset_find(const struct strset *set, const char *text, size_t size)
{
    if (!set->n)
        return STRSET_NONE;
    uint32_t slot =
        set->slots[strset_slot_of(set, text, size, (uint32_t)table_hash_bytes(text, size))];
    return slot ? slot - 1 : STRSET_NONE;
}

static uint32_t strset_failed(struct strset *set)
{
    if (set->failure)
        failure_note(set->failure, -ENOMEM);
    return STRSET_NONE;
}

uint32_t strset_add(struct strset *set, const char *text, size_t size)
{
    if (size >= UINT32_MAX || set->n >= STRSET_NONE - 1 ||
        (set->n + 1 > set->n_allocated && strset_grow(set) < 0))
        return strset_failed(set);
    uint32_t hash = (uint32_t)table_hash_bytes(text, size);
    size_t i = strset_slot_of(set, text, size, hash);
    if (set->slots[i])
        return set->slots[i] - 1;
    const char *copy = arena_strndup(&set->arena, text, size);
    if (!copy)
        return strset_failed(set);
    uint32_t id = (uint32_t)set->n++;
    set->entries[id] = (struct strset_entry){.text = copy, .size = (uint32_t)size, .hash = hash};
    set->slots[i] = id + 1;
    return id;
}

void strset_done(struct strset *set)
{
    arena_done(&set->arena);
    free(set->entries);
    free(set->slots);
    *set = (struct strset){0};
}
