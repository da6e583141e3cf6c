// SPDX-License-Identifier: Apache-2.0
//
// The SQL functions that queries for Perfetto's trace processor use and SQLite lacks. `mmsql query`
// has them built in; the loadable extension mmsql_functions.so brings them to other programs. The
// files of this folder are compiled for both, and reach SQLite through sqlite3ext.h.
#pragma once

#include "sqlite3ext.h"

// Functions that return a value: EXTRACT_ARG, STR_SPLIT, REGEXP, ... Returns an SQLite code.
int functions_register(sqlite3 *handle);

// Functions that return a table: ancestor_slice, descendant_slice, following_flow, ... Each is SQL
// with parameters.
int table_functions_register(sqlite3 *handle);

// Makes `name` a table that `sql` fills, whose parameters ?1 to ?n are arguments of the table.
int table_function_add(sqlite3 *handle, const char *name, const char *sql, int n_arguments);

// SPAN_JOIN, SPAN_LEFT_JOIN and SPAN_OUTER_JOIN.
int span_join_register(sqlite3 *handle);

struct function_doc {
    const char *call, *doc;
};
extern const struct function_doc function_docs[]; // NULL at the end
