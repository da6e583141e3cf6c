// SPDX-License-Identifier: Apache-2.0
//
// Tables as values of SQL. A function returns a table, and __intrinsic_table_ptr(value) has the
// rows of the table.
//
//     SELECT c0 AS ts, c1 AS dur FROM __intrinsic_table_ptr(__intrinsic_interval_create(...))
//     WHERE __intrinsic_table_ptr_bind(c0, 'ts') AND __intrinsic_table_ptr_bind(c1, 'dur')
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"
#include "sqlite3ext.h"

VEC_DEFINE(int64_vec, int64_t);
VEC_DEFINE(double_vec, double);
VEC_DEFINE(byte_vec, uint8_t);
VEC_DEFINE(value_vec, sqlite3_value *);

enum value_column_kind {
    VALUES_NULL, // no value has been added yet, or all are NULL
    VALUES_INT,
    VALUES_REAL,
    VALUES_ANY,
};

// One column. Rows without a value at the end are NULL.
struct value_column {
    char name[64];
    enum value_column_kind kind;
    struct int64_vec ints;
    struct double_vec reals;
    struct value_vec values; // borrowed from `kept` of the table
    struct byte_vec nulls;   // 1: NULL; may be shorter than the column: later values are not NULL
};

struct value_table {
    int n_columns;
    struct value_column *columns; // owned
    size_t n_rows;
    struct value_vec kept; // owned
    bool failed;           // memory ran out; later additions do nothing
};

// Returns a new table, or NULL if memory ran out. All columns are NULL until values are added. If
// `names` is NULL, the columns have no names yet.
struct value_table *value_table_new(int n_columns, const char *const *names);
void value_table_free(void *table); // a destructor for SQLite

// Appends to a column. The caller counts the rows in `n_rows`. If memory runs out, the table has
// failed. A column holds integers, reals or values, and NULLs.
void value_table_add_int(struct value_table *table, int column, int64_t value);
void value_table_add_real(struct value_table *table, int column, double value);
void value_table_add_null(struct value_table *table, int column);
// Appends a value, which value_table_keep() has returned.
void value_table_add_value(struct value_table *table, int column, sqlite3_value *value);

// Returns a copy that lives as long as the table, or NULL if memory ran out.
sqlite3_value *value_table_keep(struct value_table *table, const sqlite3_value *value);

// Makes the table the result of a function, or an error if the table has failed. Takes ownership of
// the table.
void value_table_result(sqlite3_context *context, struct value_table *table);

// Returns the state of an aggregate: `size` bytes, all zero for the first row of a group. Returns
// NULL if memory ran out; the function has then failed. The final function must take the state and
// free it.
void *aggregate_get(sqlite3_context *context, size_t size);
// Moves the state to the caller. Returns NULL if the group has no rows.
void *aggregate_take(sqlite3_context *context);
// Takes the state and makes the state the result, as a pointer of `type`. The result of a group
// without rows is NULL.
void aggregate_result(sqlite3_context *context, const char *type, void (*destroy)(void *));

// A scalar function or an aggregate of a family.
struct value_function {
    const char *name;
    int n_arguments;
    void (*call)(sqlite3_context *context, int argc, sqlite3_value **argv);
    void (*step)(sqlite3_context *context, int argc, sqlite3_value **argv);
    void (*final)(sqlite3_context *context);
};

// Registers `n` functions. Returns SQLite's code.
int value_functions_add(sqlite3 *handle, const struct value_function *functions, size_t n);

// Registers __intrinsic_table_ptr and its functions. Returns SQLite's code.
int value_table_register(sqlite3 *handle);

// Each function registers a family of functions that make and take such values, and returns
// SQLite's code.
int interval_functions_register(sqlite3 *handle);
int overlap_functions_register(sqlite3 *handle);
int cycle_functions_register(sqlite3 *handle);
int slice_value_functions_register(sqlite3 *handle);
int percentile_functions_register(sqlite3 *handle);
int graph_value_functions_register(sqlite3 *handle);
int graph_walk_functions_register(sqlite3 *handle);
int graph_scan_functions_register(sqlite3 *handle);
int dominator_functions_register(sqlite3 *handle);
int tree_functions_register(sqlite3 *handle);
int forest_functions_register(sqlite3 *handle);
int critical_path_functions_register(sqlite3 *handle);
int thread_span_functions_register(sqlite3 *handle);

// Further families. Stacks, and profiles of stacks, are BLOBs.
int stack_functions_register(sqlite3 *handle);
int profile_function_register(sqlite3 *handle);
int slice_layout_register(sqlite3 *handle);
int flow_functions_register(sqlite3 *handle);
int annotated_stack_register(sqlite3 *handle);
int sorted_aggregate_register(sqlite3 *handle);
int experimental_flamegraph_register(sqlite3 *handle);
int flame_functions_register(sqlite3 *handle);

// Aggregates pass on a pointer with a type, which only functions of this folder understand.
#define VALUE_TABLE     "TABLE"
#define VALUE_INTERVALS "INTERVAL_TREE_PARTITIONS"
#define VALUE_TIMES     "SORTED_TIMESTAMPS"
#define VALUE_COUNTERS  "COUNTER_TRACK_PARTITIONS"
#define VALUE_GRAPH     "GRAPH"
#define VALUE_ROWS      "ROW_DATAFRAME"
#define VALUE_ARRAY     "ARRAY<LONG>"
