// SPDX-License-Identifier: Apache-2.0
//
// Open addressing with at most half of the places used, so that a missing string is mostly
// recognised from the hashes alone. Entries are removed only all at once.
#include "producer/agents/jvm/byte_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024
#define ENTRY_BYTES    (3 * sizeof(struct byte_entry) + 24) // in a growing table; 24: malloc

static uint64_t bytes_hash(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size, word;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    for (; size; at++, size--)
        hash = (hash ^ *at) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

const struct byte_entry *byte_table_find(const struct byte_table *table, const void *bytes,
                                         size_t size)
{
    uint64_t hash = bytes_hash(bytes, size);
    for (size_t i = hash; table->capacity; i++) {
        const struct byte_entry *entry = &table->entries[i & (table->capacity - 1)];
        if (!entry->bytes)
            return NULL;
        if (entry->hash == hash && entry->size == size && memcmp(entry->bytes, bytes, size) == 0)
            return entry;
    }
    return NULL;
}

static void entry_place(struct byte_table *table, const struct byte_entry *entry)
{
    size_t i = entry->hash;
    while (table->entries[i & (table->capacity - 1)].bytes)
        i++;
    table->entries[i & (table->capacity - 1)] = *entry;
}

static bool table_grow(struct byte_table *table)
{
    if (table->n * 2 < table->capacity)
        return true;
    struct byte_table grown = *table;
    grown.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
    grown.entries = calloc(grown.capacity, sizeof(*grown.entries));
    if (!grown.entries)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].bytes)
            entry_place(&grown, &table->entries[i]);
    free(table->entries);
    *table = grown;
    return true;
}

const char *byte_table_add(struct byte_table *table, const void *bytes, size_t size,
                           uint64_t number)
{
    char *copy = malloc(size + 1);
    if (!copy || !table_grow(table)) {
        free(copy);
        return NULL;
    }
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    entry_place(table, &(struct byte_entry){bytes_hash(bytes, size), number, copy, size});
    table->n++;
    table->n_bytes += size + ENTRY_BYTES;
    return copy;
}

void byte_table_clear(struct byte_table *table)
{
    for (size_t i = 0; i < table->capacity; i++)
        free(table->entries[i].bytes);
    free(table->entries);
    *table = (struct byte_table){0};
}
