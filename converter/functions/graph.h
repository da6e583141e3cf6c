// SPDX-License-Identifier: Apache-2.0
//
// Directed graphs, arrays of numbers, and rows of values. The aggregates of graph_values.c collect
// them for the functions on graphs.
//
// Ids come from outside and may be any 64-bit number. Therefore each node has an index, which
// counts from 0 in the order in which the ids appear. A hash table finds the index of an id.
#pragma once

#include "common/map.h"
#include "converter/functions/value_table.h"

#define NO_NODE UINT32_MAX

struct graph_edge {
    uint32_t source, target; // indexes
};
VEC_DEFINE(graph_edge_vec, struct graph_edge);
VEC_DEFINE(index_vec, uint32_t);

struct graph {
    struct map64 index_of;       // by id
    struct int64_vec ids;        // by index
    struct graph_edge_vec edges; // until graph_close()
    uint32_t *first;             // owned; by index: the start of the node's targets; then the end
    uint32_t *targets;           // owned; indexes, in the order in which the edges came
};

// Returns the index of an id. Adds an id that the graph lacks. Returns NO_NODE if memory ran out.
uint32_t graph_node(struct graph *graph, int64_t id);
// Returns the index of an id, or NO_NODE.
uint32_t graph_find(const struct graph *graph, int64_t id);
// Adds an edge. Returns 0 or -ENOMEM.
int graph_add_edge(struct graph *graph, int64_t source, int64_t target);
// Sorts the edges by their sources; nothing can be added afterwards. `ret_order` may be NULL;
// otherwise *ret_order gets, for each target, the number of its edge. The caller frees *ret_order.
// Returns 0 or -ENOMEM.
int graph_close(struct graph *graph, uint32_t **ret_order);
void graph_done(struct graph *graph);

static inline uint32_t graph_size(const struct graph *graph)
{
    return (uint32_t)graph->ids.n;
}

// One value of a row.
enum cell_kind {
    CELL_NULL,
    CELL_INT,
    CELL_REAL,
    CELL_TEXT,
};

struct cell {
    enum cell_kind kind;
    union {
        int64_t integer;
        double real;
        uint32_t text; // its number in cell_texts
    };
};
VEC_DEFINE(cell_vec, struct cell);

// A set of texts: each distinct text has a number.
struct cell_texts {
    struct strset set;
    struct value_vec values; // owned; by number
};

// Reads a value. Returns 0, -ENOMEM, or -EINVAL for a BLOB, which no cell can hold.
int cell_read(struct cell_texts *texts, sqlite3_value *value, struct cell *ret);
void cell_texts_done(struct cell_texts *texts);

#define ROW_NAME_BYTES 64

// Rows of cells, one after the other.
struct value_rows {
    int n_columns;
    char (*names)[ROW_NAME_BYTES]; // owned
    struct cell_vec cells;
    struct cell_texts texts;
};

// Adds a row from the arguments of an aggregate: ('name', value)... The first row sets the names.
// Returns false if the function has failed, with a message that begins with `who`.
bool value_rows_add(struct value_rows *rows, sqlite3_context *context, const char *who, int argc,
                    sqlite3_value **argv);

static inline size_t value_rows_count(const struct value_rows *rows)
{
    return rows->n_columns ? rows->cells.n / (size_t)rows->n_columns : 0;
}

// Fills a column with cells that are `step` apart. `order` is the order of the rows; NULL: the
// order of the cells. `texts`, by number, must live as long as the table. Integers beside reals
// become reals. Returns false, with nothing added, if numbers and texts are mixed, or if an integer
// is too large for a real. If memory runs out, the table has failed.
bool cells_to_column(struct value_table *table, int column, const struct cell *cells, size_t step,
                     size_t n, const uint32_t *order, sqlite3_value *const *texts);
