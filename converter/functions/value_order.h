// SPDX-License-Identifier: Apache-2.0
//
// The order of SQLite's values: NULL, numbers, texts, bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sqlite3ext.h"

// A value, read once for all comparisons.
struct value_key {
    int type; // SQLITE_...
    union {
        int64_t integer;
        double real;
        struct {
            const char *bytes; // borrowed from the value
            size_t size;
        };
    };
};

// Reads the value. The key borrows the bytes of `value`.
struct value_key value_key_read(sqlite3_value *value);

// Returns a negative number if `a` comes before `b`, 0 if the two are equal, or a positive number.
// `collation` of texts: '=' for BINARY, 'n' for NOCASE, 'r' for RTRIM.
int value_keys_compare(const struct value_key *a, const struct value_key *b, char collation);
