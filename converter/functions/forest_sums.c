// SPDX-License-Identifier: Apache-2.0
//
// Forests of many nodes, such as call sites: __intrinsic_forest_sums adds up the values below each
// node, and __intrinsic_forest_reach gives the nodes that lead to start nodes, group by group.
//
// The rows of a forest are (id, parent_id, x). A row without x (NULL) declares a node; a row with x
// adds a value, or makes the node a start. Rows of one node may repeat. A parent without a row is
// not in the result.
//
// Ids of tables are numbers without large gaps, so an array finds a node by its id. Other ids are
// looked up in a hash table.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/graph.h"

SQLITE_EXTENSION_INIT3

struct forest_row {
    int64_t id, parent_id;
    union {
        int64_t integer;
        double real;
    };
    bool has_parent, has_value;
};
VEC_DEFINE(forest_row_vec, struct forest_row);

struct forest_input {
    struct forest_row_vec rows;
    bool is_real; // a value is a real number, so all sums are real numbers
};

struct forest {
    const struct forest_row_vec *rows;
    uint32_t *by_offset; // owned; by id - min_id: the node; NULL: use index_of
    int64_t min_id;
    uint64_t n_offsets;
    struct map64 index_of;
    uint32_t n;         // nodes
    uint32_t *row;      // owned; by node: its first row
    uint32_t *parent;   // owned; by node, or NO_NODE
    uint32_t *children; // owned; by node: children that are not done yet
    uint32_t *order;    // owned; nodes, each after its children
};

static void forest_done(struct forest *forest)
{
    free(forest->by_offset);
    map64_done(&forest->index_of);
    free(forest->row);
    free(forest->parent);
    free(forest->children);
    free(forest->order);
}

static void input_free(struct forest_input *input)
{
    if (input)
        forest_row_vec_done(&input->rows);
    free(input);
}

static uint32_t node_find(const struct forest *forest, int64_t id)
{
    if (!forest->by_offset) {
        const uint64_t *node = map64_find(&forest->index_of, (uint64_t)id);
        return node ? (uint32_t)*node : NO_NODE;
    }
    uint64_t offset = (uint64_t)id - (uint64_t)forest->min_id;
    return offset < forest->n_offsets ? forest->by_offset[offset] : NO_NODE;
}

static bool places_make(struct forest *forest)
{
    int64_t min = INT64_MAX, max = INT64_MIN;
    vec_foreach(forest->rows, row) {
        min = row->id < min ? row->id : min;
        max = row->id > max ? row->id : max;
    }
    uint64_t n = (uint64_t)max - (uint64_t)min;
    if (forest->rows->n && n / 4 <= forest->rows->n + 256) {
        forest->min_id = min;
        forest->n_offsets = n + 1;
        forest->by_offset = malloc((n + 1) * sizeof(*forest->by_offset));
        if (!forest->by_offset)
            return false;
        memset(forest->by_offset, 0xff, (n + 1) * sizeof(*forest->by_offset)); // NO_NODE
    }
    size_t size = (forest->rows->n + 1) * sizeof(uint32_t);
    forest->row = malloc(size);
    forest->parent = malloc(size);
    forest->children = calloc(forest->rows->n + 1, sizeof(uint32_t));
    forest->order = malloc(size);
    return forest->row && forest->parent && forest->children && forest->order;
}

static bool nodes_number(struct forest *forest)
{
    for (uint32_t i = 0; i < forest->rows->n; i++) {
        int64_t id = forest->rows->items[i].id;
        if (node_find(forest, id) != NO_NODE)
            continue;
        if (forest->by_offset)
            forest->by_offset[(uint64_t)id - (uint64_t)forest->min_id] = forest->n;
        else if (map64_set(&forest->index_of, (uint64_t)id, forest->n) < 0)
            return false;
        forest->parent[forest->n] = NO_NODE;
        forest->row[forest->n++] = i;
    }
    return true;
}

// Links each node to its parent. Returns NULL, or an error text about the rows.
static const char *parents_link(struct forest *forest)
{
    vec_foreach(forest->rows, row) {
        uint32_t node = node_find(forest, row->id);
        uint32_t parent = row->has_parent ? node_find(forest, row->parent_id) : NO_NODE;
        if (parent == NO_NODE || parent == forest->parent[node])
            continue;
        if (forest->parent[node] != NO_NODE)
            return "forest: a node has two parents";
        forest->parent[node] = parent;
        forest->children[parent]++;
    }
    return NULL;
}

static const char *nodes_sort(struct forest *forest)
{
    uint32_t n = 0;
    for (uint32_t node = 0; node < forest->n; node++)
        if (!forest->children[node])
            forest->order[n++] = node;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t parent = forest->parent[forest->order[i]];
        if (parent != NO_NODE && --forest->children[parent] == 0)
            forest->order[n++] = parent;
    }
    return n == forest->n ? NULL : "forest: the parents of nodes form a circle";
}

// Returns NULL, or an error text. *ret_failed is true if memory ran out.
static const char *forest_make(struct forest *forest, const struct forest_input *input,
                               bool *ret_failed)
{
    forest->rows = &input->rows;
    *ret_failed = input->rows.n >= NO_NODE || !places_make(forest) || !nodes_number(forest);
    const char *why = *ret_failed ? NULL : parents_link(forest);
    return *ret_failed || why ? why : nodes_sort(forest);
}

static void forest_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct forest_input *input = aggregate_get(context, sizeof(*input));
    if (!input || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    int type = sqlite3_value_type(argv[2]);
    struct forest_row row = {
        .id = sqlite3_value_int64(argv[0]),
        .parent_id = sqlite3_value_int64(argv[1]),
        .has_parent = sqlite3_value_type(argv[1]) != SQLITE_NULL,
        .has_value = type != SQLITE_NULL,
    };
    if (type == SQLITE_FLOAT && !input->is_real) {
        input->is_real = true;
        vec_foreach(&input->rows, before)
            before->real = (double)before->integer;
    }
    if (input->is_real)
        row.real = sqlite3_value_double(argv[2]);
    else
        row.integer = sqlite3_value_int64(argv[2]);
    if (forest_row_vec_push(&input->rows, row) < 0)
        sqlite3_result_error_nomem(context);
}

// -- sums --

union number {
    int64_t integer;
    double real;
};

static void number_add(union number *to, union number added, bool is_real)
{
    if (is_real)
        to->real += added.real;
    else
        to->integer = (int64_t)((uint64_t)to->integer + (uint64_t)added.integer);
}

static void number_put(struct value_table *table, int column, union number number, bool is_real)
{
    if (is_real)
        value_table_add_real(table, column, number.real);
    else
        value_table_add_int(table, column, number.integer);
}

struct sums {
    union number *self, *total; // owned; by node
    bool *is_reached;           // owned
};

static void sums_done(struct sums *sums)
{
    free(sums->self);
    free(sums->total);
    free(sums->is_reached);
}

static bool sums_make(struct sums *sums, const struct forest *forest, bool is_real)
{
    sums->self = calloc((size_t)forest->n + 1, sizeof(*sums->self));
    sums->total = calloc((size_t)forest->n + 1, sizeof(*sums->total));
    sums->is_reached = calloc((size_t)forest->n + 1, sizeof(*sums->is_reached));
    if (!sums->self || !sums->total || !sums->is_reached)
        return false;
    vec_foreach(forest->rows, row) {
        uint32_t node = row->has_value ? node_find(forest, row->id) : NO_NODE;
        if (node == NO_NODE)
            continue;
        number_add(&sums->self[node], (union number){.integer = row->integer}, is_real);
        sums->is_reached[node] = true;
    }
    for (uint32_t i = 0; i < forest->n; i++) {
        uint32_t node = forest->order[i], parent = forest->parent[node];
        number_add(&sums->total[node], sums->self[node], is_real);
        if (parent == NO_NODE)
            continue;
        number_add(&sums->total[parent], sums->total[node], is_real);
        sums->is_reached[parent] |= sums->is_reached[node];
    }
    return true;
}

static void sums_write(struct value_table *table, const struct forest *forest,
                       const struct sums *sums, bool is_real)
{
    for (uint32_t node = 0; node < forest->n && !table->failed; node++) {
        if (!sums->is_reached[node])
            continue;
        value_table_add_int(table, 0, forest->rows->items[forest->row[node]].id);
        number_put(table, 1, sums->self[node], is_real);
        number_put(table, 2, sums->total[node], is_real);
        table->n_rows++;
    }
}

static const char *sums_run(const struct forest_input *input, struct value_table *table)
{
    CLEANUP(forest_done) struct forest forest = {0};
    CLEANUP(sums_done) struct sums sums = {0};
    const char *why = forest_make(&forest, input, &table->failed);
    if (!why && !table->failed && !sums_make(&sums, &forest, input->is_real))
        table->failed = true;
    if (!why && !table->failed)
        sums_write(table, &forest, &sums, input->is_real);
    return why;
}

// -- reach --

struct start {
    int64_t group;
    uint32_t node;
};
VEC_DEFINE(start_vec, struct start);

static int start_compare(const void *left, const void *right)
{
    const struct start *a = left, *b = right;
    return a->group < b->group ? -1 : a->group > b->group;
}

static bool starts_read(const struct forest *forest, struct start_vec *starts)
{
    vec_foreach(forest->rows, row) {
        struct start start = {.group = row->integer, .node = node_find(forest, row->id)};
        if (row->has_value && start_vec_push(starts, start) < 0)
            return false;
    }
    if (starts->n)
        qsort(starts->items, starts->n, sizeof(*starts->items), start_compare);
    return true;
}

// Writes the nodes that each group reaches. `seen`, by node: the number of the last group that
// reached the node.
static void reach_write(struct value_table *table, const struct forest *forest,
                        const struct start_vec *starts, uint32_t *seen)
{
    uint32_t group = 0;
    for (size_t i = 0; i < starts->n && !table->failed; i++) {
        const struct start *start = &starts->items[i];
        group += i == 0 || start->group != starts->items[i - 1].group;
        for (uint32_t node = start->node; node != NO_NODE && seen[node] != group;
             node = forest->parent[node]) {
            seen[node] = group;
            value_table_add_int(table, 0, start->group);
            value_table_add_int(table, 1, forest->rows->items[forest->row[node]].id);
            table->n_rows++;
        }
    }
}

static const char *reach_run(const struct forest_input *input, struct value_table *table)
{
    CLEANUP(forest_done) struct forest forest = {0};
    CLEANUP(start_vec_done) struct start_vec starts = {0};
    if (input->is_real)
        return "forest: a group is not an integer";
    const char *why = forest_make(&forest, input, &table->failed);
    if (why || table->failed)
        return why;
    uint32_t *seen = calloc((size_t)forest.n + 1, sizeof(*seen));
    table->failed = !seen || !starts_read(&forest, &starts);
    if (!table->failed)
        reach_write(table, &forest, &starts, seen);
    free(seen);
    return NULL;
}

static void forest_final(sqlite3_context *context, int n_columns, const char *const *names,
                         const char *(*run)(const struct forest_input *, struct value_table *))
{
    struct forest_input *input = aggregate_take(context);
    struct value_table *table = value_table_new(n_columns, names);
    const char *why = input && table ? run(input, table) : NULL;
    input_free(input);
    if (!why) {
        value_table_result(context, table);
        return;
    }
    value_table_free(table);
    sqlite3_result_error(context, why, -1);
}

static void sums_final(sqlite3_context *context)
{
    static const char *const names[] = {"id", "self", "total"};
    forest_final(context, ELEMENTS(names), names, sums_run);
}

static void reach_final(sqlite3_context *context)
{
    static const char *const names[] = {"group_id", "id"};
    forest_final(context, ELEMENTS(names), names, reach_run);
}

int forest_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_forest_sums", 3, NULL, forest_step, sums_final},
        {"__intrinsic_forest_reach", 3, NULL, forest_step, reach_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
