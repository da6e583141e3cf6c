// SPDX-License-Identifier: Apache-2.0
//
// The SQL functions of Perfetto's trace processor that SQLite lacks. The functions are built into
// `mmsql query`; other programs load the extension mmsql_functions.so. The files of this folder are
// compiled for both, and call SQLite through sqlite3ext.h.
#pragma once

#include "sqlite3ext.h"

// Registers the functions that return a value: EXTRACT_ARG, STR_SPLIT, REGEXP, ... Returns SQLite's
// code.
int functions_register(sqlite3 *handle);

// Registers the functions that return a table: ancestor_slice, descendant_slice, following_flow,
// ... Each function is SQL with parameters. Returns SQLite's code.
int table_functions_register(sqlite3 *handle);

// Registers the table function `name`, whose rows are the rows of `sql`. The arguments are the
// parameters ?1 to ?n of `sql`. Returns SQLite's code.
int table_function_add(sqlite3 *handle, const char *name, const char *sql, int n_arguments);

// Registers SPAN_JOIN, SPAN_LEFT_JOIN and SPAN_OUTER_JOIN. Returns SQLite's code.
int span_join_register(sqlite3 *handle);

struct function_doc {
    const char *call, *doc;
};
extern const struct function_doc function_docs[]; // NULL at the end
