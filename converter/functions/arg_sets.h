// SPDX-License-Identifier: Apache-2.0
//
// Arg sets one by one, read from where they are stored: what the view args shows, without the join
// that SQLite makes of it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sqlite3ext.h"

// What the column type of _arg_field says: see converter/import/args.h.
enum {
    STORED_INT,
    STORED_UINT,
    STORED_TEXT,
    STORED_REAL,
    STORED_POINTER,
    STORED_BOOL,
    STORED_JSON,
    STORED_NULL
};

struct arg_field {
    int slot, type;
    char *key;            // owned
    const char *flat_key; // as key, or behind it
    int key_size, flat_key_size;
};

struct arg_sets;

// Of the main database. 0 or an SQLite code.
int arg_sets_open(sqlite3 *handle, struct arg_sets **ret);

// Looks at a set; fields and values are valid until the next look. 0 or an SQLite code; a set that
// is not there has no fields.
int arg_sets_look(struct arg_sets *sets, int64_t id);

int arg_sets_n_fields(const struct arg_sets *sets);
const struct arg_field *arg_sets_field(const struct arg_sets *sets, int index);

// What the field holds; NULL: nothing. Valid until the next call.
sqlite3_value *arg_sets_value(struct arg_sets *sets, int index);

// Whether the set has the field: one without a value counts only if it says so.
bool arg_sets_has(struct arg_sets *sets, int index);

void arg_sets_free(struct arg_sets *sets); // NULL is fine

// The table args of the schema temp, which hides the view, where the main database has arg sets.
int args_table_register(sqlite3 *handle);
