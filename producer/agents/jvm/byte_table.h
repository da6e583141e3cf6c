// SPDX-License-Identifier: Apache-2.0
//
// A number for each of many byte strings. All zero is an empty table. Not safe for threads.
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
    size_t n_bytes;             // of memory, about
};

// What is found until the next change; NULL: not there.
const struct byte_entry *byte_table_find(const struct byte_table *table, const void *bytes,
                                         size_t size);

// The table's own copy, zero-terminated; NULL: out of memory. The string must not be there yet.
const char *byte_table_add(struct byte_table *table, const void *bytes, size_t size,
                           uint64_t number);

void byte_table_clear(struct byte_table *table);
