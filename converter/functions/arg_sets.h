// SPDX-License-Identifier: Apache-2.0
//
// Reads single arg sets from the stored tables: the content of the view args, without the view's
// join.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sqlite3ext.h"

// Values of the column _arg_field.type; see converter/import/args.h.
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
    const char *flat_key; // equal to `key`, or after `key` in the same memory
    int key_size, flat_key_size;
};

struct arg_sets;

// Opens the arg sets of the main database. Returns SQLite's code.
int arg_sets_open(sqlite3 *handle, struct arg_sets **ret);

// Moves to the set `id`. Fields and values are valid until the next call. Returns SQLite's code. A
// missing set has no fields.
int arg_sets_look(struct arg_sets *sets, int64_t id);

int arg_sets_n_fields(const struct arg_sets *sets);
const struct arg_field *arg_sets_field(const struct arg_sets *sets, int index);

// Returns the field's value, or NULL. The value is valid until the next call.
sqlite3_value *arg_sets_value(struct arg_sets *sets, int index);

// Returns true if the set has the field. A field without a value counts only if its type is
// STORED_NULL.
bool arg_sets_has(struct arg_sets *sets, int index);

void arg_sets_free(struct arg_sets *sets); // NULL is allowed

// Makes the table temp.args, which hides the view args, if the main database has arg sets. Returns
// SQLite's code.
int args_table_register(sqlite3 *handle);
