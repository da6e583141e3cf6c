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

// The bytes are those of `value`.
struct value_key value_key_read(sqlite3_value *value);

// Negative: `a` comes before `b`. `collation` of texts: '=' for BINARY, 'n' NOCASE, 'r' RTRIM.
int value_keys_compare(const struct value_key *a, const struct value_key *b, char collation);
