// SPDX-License-Identifier: Apache-2.0
//
// Flame graphs of any tree whose rows have a name and a weight: rows of equal names below the same
// node become one node. flame_table.c makes a virtual table of the result.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "converter/functions/tree.h"

#define FLAME_NAMES_MAX   64
#define FLAME_FILTERS_MAX 128
#define FLAME_SHOWS_MAX   61

struct regex;

// The parts of the tree that the graph shows, in the order of the enum: from the roots down; from
// the rows with a weight up; below and above the rows that match; below the rows that match.
enum flame_view { FLAME_TOP_DOWN, FLAME_BOTTOM_UP, FLAME_PIVOT, FLAME_FROM_FRAME };

enum flame_filter_kind {
    FLAME_SHOW_STACK, // the stack needs a frame that matches
    FLAME_HIDE_STACK, // a stack with a frame that matches is left out
    FLAME_HIDE_FRAME, // the weight of a frame that matches goes to its parent
};

struct flame_filter {
    enum flame_filter_kind kind;
    struct regex *regex; // owned
};

enum flame_role {
    FLAME_GROUPING, // rows with different values are not merged
    FLAME_VALUE,    // a weight
    FLAME_SUM,      // the sum of the merged rows
    FLAME_ONE,      // the common value of the merged rows, or the first and the number of values
    FLAME_CONCAT,   // all values
};

struct flame_query {
    enum flame_view view;
    struct regex *view_pattern; // owned; NULL: the view needs no pattern
    int n_filters;
    struct flame_filter filters[FLAME_FILTERS_MAX];
    int n_names;
    struct {
        enum flame_role role;
        char name[ROW_NAME_BYTES];
        int column; // of the source; flame_tree_build() sets it
    } names[FLAME_NAMES_MAX];
};

// The columns id, parent_id, name and value come first.
struct flame_source {
    struct tree *tree;     // owned
    enum cell_kind *kinds; // owned; by column: CELL_REAL if a value is a real
    double value_sum;      // of the column value
};

union flame_number {
    int64_t integer;
    double real;
};

struct flame_node {
    uint32_t parent; // a node before this node; NO_NODE: none
    uint32_t row;    // the first row that was merged into the node
    int32_t depth;   // from 1 down, from -1 up
};
VEC_DEFINE(flame_node_vec, struct flame_node);

// A row whose values count in a node.
struct flame_part {
    uint32_t node, row;
};
VEC_DEFINE(flame_part_vec, struct flame_part);

struct flame_line {
    uint32_t node;
    uint32_t parent; // a line before this line; NO_NODE: none
    double x;
};

struct flame_tree {
    const struct flame_source *source; // borrowed
    struct flame_node_vec nodes;
    int n_values;
    union flame_number *self[FLAME_NAMES_MAX], *sums[FLAME_NAMES_MAX]; // owned; by value and node
    int value_columns[FLAME_NAMES_MAX];                                // of the source
    struct flame_part_vec parts;    // in order of nodes; only if a column is aggregated
    uint32_t *first_part;           // owned; by node, and the end after the last node
    uint32_t *first_row, *next_row; // owned; lists: the rows that count for a row; NO_NODE: end
    size_t n_lines;
    struct flame_line *lines; // owned; in the order in which they are drawn
};

// Rows are numbered in the order of the tree: parents come first.
static inline const struct cell *flame_cell(const struct flame_source *source, uint32_t row,
                                            int column)
{
    const struct tree *tree = source->tree;
    return &tree->rows.cells
                .items[(size_t)tree->order[row] * (size_t)tree->rows.n_columns + (size_t)column];
}

// Reads the rows of a query into `source`, which has an empty tree (in flame_table.c). Returns
// SQLite's code. *ret_error may get an error text, which the caller frees with sqlite3_free().
int flame_source_read(sqlite3 *handle, struct flame_source *source, const char *query,
                      char **ret_error);
void flame_source_done(struct flame_source *source);

// Builds the graph in `flame`, which is all zero. Returns NULL, or an error text. *ret_failed is
// true if memory ran out.
const char *flame_tree_build(struct flame_tree *flame, const struct flame_source *source,
                             struct flame_query *query, bool *ret_failed);
void flame_tree_done(struct flame_tree *flame);

// Makes the value of an aggregated column the result of an SQL function.
void flame_tree_aggregate(const struct flame_tree *flame, uint32_t node, enum flame_role role,
                          int column, sqlite3_context *context);

void flame_query_free(void *query); // a destructor for SQLite; NULL is allowed
