// SPDX-License-Identifier: Apache-2.0
//
// A table of byte strings with a number for each. All zero is an empty table. Not thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct byte_entry {
    uint64_t hash, number;
    char *bytes; // owned; NULL: free
    size_t size;
};

struct byte_table {
    struct byte_entry *entries; // owned
    size_t n, capacity;         // capacity is a power of two
    size_t n_bytes;             // of memory, approximately
};

// Returns the entry of a string, valid until the next change, or NULL if the table lacks the
// string.
const struct byte_entry *byte_table_find(const struct byte_table *table, const void *bytes,
                                         size_t size);

// Adds a string that is not in the table. Returns the table's copy, zero-terminated, or NULL if
// memory ran out.
const char *byte_table_add(struct byte_table *table, const void *bytes, size_t size,
                           uint64_t number);

void byte_table_clear(struct byte_table *table);
