// SPDX-License-Identifier: Apache-2.0
//
// The SQL functions of Perfetto's trace processor that SQLite lacks. The functions are built into
// `mmsql query`; other programs load the extension mmsql_functions.so. The files of this folder are
// compiled for both, and call SQLite through sqlite3ext.h.
#pragma once

#include <stddef.h>

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

// Additions to a table function.
struct table_function_extra {
    const char *const *names;           // of the arguments; the hidden columns are in_NAME
    void (*on_failure)(void *userdata); // called when a call fails
    void *userdata;                     // owned: free() releases it
};

// As table_function_add(), with the additions of `extra`. Takes ownership of the userdata, also on
// failure.
int table_function_add_extra(sqlite3 *handle, const char *name, const char *sql, int n_arguments,
                             const struct table_function_extra *extra);

// Registers SPAN_JOIN, SPAN_LEFT_JOIN and SPAN_OUTER_JOIN. Returns SQLite's code.
int span_join_register(sqlite3 *handle);

struct function_doc {
    const char *call, *doc;
};
extern const struct function_doc function_docs[]; // NULL at the end

// -- the shared part of the families of functions --

enum {
    READS_DATABASE = 1, // views that a database brings along must not call the function
    IS_INTRINSIC = 2,   // the function has a second name, __intrinsic_NAME
};

struct scalar_function {
    const char *name;
    int n_arguments; // -1: any number
    void (*call)(sqlite3_context *context, int argc, sqlite3_value **argv);
    int traits;
};

// Registers `n` scalar functions. Returns SQLite's code.
int scalar_functions_add(sqlite3 *handle, const struct scalar_function *functions, size_t n);

// Makes the text the result, or an error if memory ran out. Takes ownership of the text.
void string_result(sqlite3_context *context, sqlite3_str *text);

// Numbers of the auxiliary data that all calls within a statement share: see sqlite3_set_auxdata().
enum {
    SHARED_ARG_SETS = -999,
    SHARED_REALTIME = -998,
    SHARED_MONOTONIC = -997,
    SHARED_PACKAGES = -996,
    SHARED_ARG_TREE = -995,
    SHARED_CALLSITE = -994,
    SHARED_FRAME = -993,
    SHARED_LINES = -992,
    SHARED_QUERIES = -1000, // and below
};

// Each function registers one family of functions and returns SQLite's code.
int text_functions_register(sqlite3 *handle);
int encoding_functions_register(sqlite3 *handle);
int regexp_functions_register(sqlite3 *handle);
int math_functions_register(sqlite3 *handle);
int clock_functions_register(sqlite3 *handle);
int query_functions_register(sqlite3 *handle);
int ftrace_functions_register(sqlite3 *handle);
int window_functions_register(sqlite3 *handle);
int args_functions_register(sqlite3 *handle);
int package_functions_register(sqlite3 *handle);
int table_info_register(sqlite3 *handle);
int newer_functions_register(sqlite3 *handle);
