// SPDX-License-Identifier: Apache-2.0
//
// Trees: __intrinsic_tree_from_table makes a tree of rows with an id and the id of a parent, and
// __intrinsic_tree_to_table returns the rows, each parent before its children.
// __intrinsic_structural_tree_partition makes a forest of a tree: each node gets its nearest
// ancestor of the same group as a parent.
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/tree.h"

SQLITE_EXTENSION_INIT3

#define VALUE_TREE  "TREE"
#define COLUMNS_MAX 32

void tree_free(void *userdata)
{
    struct tree *tree = userdata;
    if (!tree)
        return;
    free(tree->rows.names);
    cell_vec_done(&tree->rows.cells);
    cell_texts_done(&tree->rows.texts);
    map64_done(&tree->row_of);
    free(tree->parent);
    free(tree->order);
    free(tree->place);
    free(tree);
}

static const struct cell *tree_row(const struct tree *tree, uint32_t row)
{
    return &tree->rows.cells.items[(size_t)row * (size_t)tree->rows.n_columns];
}

// Returns NULL, or an error text about the rows. *ret_failed is true if memory ran out.
static const char *ids_read(struct tree *tree, bool *ret_failed)
{
    for (uint32_t row = 0; row < tree->n; row++) {
        const struct cell *id = tree_row(tree, row);
        bool is_new;
        if (id->kind != CELL_INT)
            return "tree: an id is not an integer";
        if (!map64_get_or_add(&tree->row_of, (uint64_t)id->integer, row, &is_new))
            *ret_failed = true;
        if (*ret_failed)
            return NULL;
        if (!is_new)
            return "tree: duplicate id: two rows have the same id";
    }
    return NULL;
}

static const char *parents_read(struct tree *tree)
{
    for (uint32_t row = 0; row < tree->n; row++) {
        const struct cell *parent = tree_row(tree, row) + 1;
        if (parent->kind != CELL_INT && parent->kind != CELL_NULL)
            return "tree: a parent_id is not an integer";
        const uint64_t *found =
            parent->kind == CELL_INT ? map64_find(&tree->row_of, (uint64_t)parent->integer) : NULL;
        if (parent->kind == CELL_INT && !found)
            return "tree: parent_id not found: no row has the id that is the parent of a row";
        tree->parent[row] = found ? (uint32_t)*found : NO_NODE;
    }
    return NULL;
}

// Orders the rows so that each row comes after its ancestors. Until the rows of a path get their
// places, the end of `order` holds the path.
static const char *rows_order(struct tree *tree)
{
    const uint32_t on_the_way = NO_NODE - 1;
    uint32_t n_placed = 0;
    for (uint32_t row = 0; row < tree->n; row++)
        tree->place[row] = NO_NODE;
    for (uint32_t start = 0; start < tree->n; start++) {
        uint32_t n_path = 0, row = start;
        for (; row != NO_NODE && tree->place[row] == NO_NODE; row = tree->parent[row]) {
            tree->place[row] = on_the_way;
            tree->order[tree->n - ++n_path] = row;
        }
        if (row != NO_NODE && tree->place[row] == on_the_way)
            return "tree: cycle detected: a row is its own ancestor";
        while (n_path > 0) {
            uint32_t next = tree->order[tree->n - n_path--];
            tree->place[next] = n_placed;
            tree->order[n_placed++] = next;
        }
    }
    return NULL;
}

const char *tree_build(struct tree *tree, bool *ret_failed)
{
    size_t n = value_rows_count(&tree->rows);
    if (n >= NO_NODE - 1)
        return "tree: too many rows";
    tree->n = (uint32_t)n;
    tree->parent = malloc((n + 1) * sizeof(*tree->parent));
    tree->order = malloc((n + 1) * sizeof(*tree->order));
    tree->place = malloc((n + 1) * sizeof(*tree->place));
    *ret_failed = !tree->parent || !tree->order || !tree->place;
    const char *why = *ret_failed ? NULL : ids_read(tree, ret_failed);
    if (!why && !*ret_failed)
        why = parents_read(tree);
    if (!why && !*ret_failed)
        why = rows_order(tree);
    map64_done(&tree->row_of);
    return why;
}

// SQL arguments: ('id', id, 'parent_id', parent_id, ['name', value]...)
static void tree_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct tree *tree = aggregate_get(context, sizeof(*tree));
    if (tree && (argc < 4 || argc / 2 > COLUMNS_MAX - 2))
        sqlite3_result_error(context,
                             "tree: names and values of id, parent_id and up to 28 other "
                             "columns are expected",
                             -1);
    else if (tree)
        value_rows_add(&tree->rows, context, "tree", argc, argv);
}

static void tree_final(sqlite3_context *context)
{
    struct tree *tree = aggregate_take(context);
    bool failed = false;
    if (!tree)
        return;
    const char *why = tree_build(tree, &failed);
    if (!why && !failed) {
        sqlite3_result_pointer(context, tree, VALUE_TREE, tree_free);
        return;
    }
    tree_free(tree);
    if (why)
        sqlite3_result_error(context, why, -1);
    else
        sqlite3_result_error_nomem(context);
}

// Copies the tree's texts to the table, with the same numbers.
static void texts_keep(struct value_table *table, const struct value_vec *texts)
{
    vec_foreach(texts, text)
        if (!table->failed)
            value_table_keep(table, *text);
}

// Fills the table. Returns false if a column has values of different types.
static bool tree_fill(struct value_table *table, const struct tree *tree)
{
    texts_keep(table, &tree->rows.texts.values);
    for (uint32_t i = 0; i < tree->n && !table->failed; i++) {
        uint32_t parent = tree->parent[tree->order[i]];
        value_table_add_int(table, 0, i);
        if (parent == NO_NODE)
            value_table_add_null(table, 1);
        else
            value_table_add_int(table, 1, tree->place[parent]);
        table->n_rows++;
    }
    int n = tree->rows.n_columns;
    for (int i = 0; i < n && tree->n && !table->failed; i++)
        if (!cells_to_column(table, 2 + i, tree->rows.cells.items + i, (size_t)n, tree->n,
                             tree->order, table->kept.items))
            return false;
    return true;
}

// SQL arguments: (tree)
static void tree_to_table(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const struct tree *tree = sqlite3_value_pointer(argv[0], VALUE_TREE);
    const char *names[COLUMNS_MAX] = {"_tree_id", "_tree_parent_id"};
    if (!tree) {
        sqlite3_result_error(context,
                             "tree to table: the value is not a tree, or its table is empty", -1);
        return;
    }
    for (int i = 0; i < tree->rows.n_columns; i++)
        names[2 + i] = tree->rows.names[i];
    struct value_table *table = value_table_new(2 + tree->rows.n_columns, names);
    if (!table || tree_fill(table, tree)) {
        value_table_result(context, table);
        return;
    }
    value_table_free(table);
    sqlite3_result_error(context,
                         "tree to table: a column has values that no column can have together: "
                         "numbers and texts, or reals and integers beyond 2^53",
                         -1);
}

// -- for each node of a dominator tree: sums over the node and the nodes that it dominates --

enum dominated { DOMINATED_SIZE, DOMINATED_NATIVE, DOMINATED_COUNT, N_DOMINATED };

// Reads the columns after id and parent_id. NULL counts as 0. Returns false if a value is not an
// integer.
static bool dominated_read(const struct tree *tree, int64_t (*sums)[N_DOMINATED])
{
    for (uint32_t i = 0; i < tree->n; i++)
        for (int column = 0; column < N_DOMINATED; column++) {
            const struct cell *cell = tree_row(tree, tree->order[i]) + 2 + column;
            if (cell->kind != CELL_INT && cell->kind != CELL_NULL)
                return false;
            sums[i][column] = cell->kind == CELL_INT ? cell->integer : 0;
        }
    return true;
}

// Parents come before their children, so one pass forward and one pass back are enough.
static void dominated_fill(struct value_table *table, const struct tree *tree,
                           int64_t (*sums)[N_DOMINATED], uint32_t *depths)
{
    for (uint32_t i = 0; i < tree->n; i++) {
        uint32_t parent = tree->parent[tree->order[i]];
        depths[i] = parent == NO_NODE ? 1 : depths[tree->place[parent]] + 1;
    }
    for (uint32_t i = tree->n; i-- > 0;) {
        uint32_t parent = tree->parent[tree->order[i]];
        for (int column = 0; column < N_DOMINATED && parent != NO_NODE; column++) {
            int64_t *sum = &sums[tree->place[parent]][column];
            *sum = (int64_t)((uint64_t)*sum + (uint64_t)sums[i][column]);
        }
    }
    for (uint32_t i = 0; i < tree->n && !table->failed; i++) {
        const struct cell *row = tree_row(tree, tree->order[i]);
        value_table_add_int(table, 0, row->integer);
        if (row[1].kind == CELL_INT)
            value_table_add_int(table, 1, row[1].integer);
        else
            value_table_add_null(table, 1);
        value_table_add_int(table, 2, sums[i][DOMINATED_COUNT]);
        value_table_add_int(table, 3, sums[i][DOMINATED_SIZE]);
        value_table_add_int(table, 4, sums[i][DOMINATED_NATIVE]);
        value_table_add_int(table, 5, depths[i]);
        table->n_rows++;
    }
}

// SQL arguments: (tree)
static void dominator_summary(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {
        "id",
        "idom_id",
        "dominated_obj_count",
        "dominated_size_bytes",
        "dominated_native_size_bytes",
        "depth",
    };
    const struct tree *tree = sqlite3_value_pointer(argv[0], VALUE_TREE);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    if (!tree || !table) { // a tree without rows is NULL
        value_table_result(context, table);
        return;
    }
    CLEANUP(freep) int64_t(*sums)[N_DOMINATED] = calloc((size_t)tree->n + 1, sizeof(*sums));
    CLEANUP(freep) uint32_t *depths = calloc((size_t)tree->n + 1, sizeof(*depths));
    table->failed |= !sums || !depths;
    bool fits = tree->rows.n_columns == 2 + N_DOMINATED;
    if (!table->failed && fits)
        fits = dominated_read(tree, sums);
    if (!table->failed && fits)
        dominated_fill(table, tree, sums, depths);
    if (fits) {
        value_table_result(context, table);
        return;
    }
    value_table_free(table);
    sqlite3_result_error(context,
                         "tree dominator summary: a tree with the columns id, parent_id, "
                         "self_size, native_size and self_count is expected, of integers",
                         -1);
}

// -- the partition --

struct member {
    int64_t id, parent_id, group;
    bool is_root;
};
VEC_DEFINE(member_vec, struct member);

// A node on the way down.
struct open_member {
    uint32_t row;
    uint32_t before; // the nearest ancestor of this node in its group; NO_NODE: none
    bool is_open;    // its children are on the stack above it
};
VEC_DEFINE(open_member_vec, struct open_member);

struct partition {
    const struct member *members;
    uint32_t n;
    struct graph children; // its ids are the ids of the members
    uint32_t *row_of;      // owned; by index of the graph
    struct map64 last;     // by group: the nearest ancestor's row; NO_NODE: none
    struct open_member_vec stack;
    struct value_table *table;
};

static void partition_done(struct partition *all)
{
    graph_done(&all->children);
    free(all->row_of);
    map64_done(&all->last);
    open_member_vec_done(&all->stack);
}

// Reads the rows. *ret_root: the only row without a parent. Returns NULL, or an error text.
static const char *partition_open(struct partition *all, uint32_t *ret_root)
{
    *ret_root = NO_NODE;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct member *member = &all->members[i];
        if (member->is_root && *ret_root != NO_NODE)
            return "tree partition: several rows have no parent; a tree has one root";
        if (member->is_root)
            *ret_root = i;
        if ((member->is_root ? graph_node(&all->children, member->id) == NO_NODE
                             : graph_add_edge(&all->children, member->parent_id, member->id)) != 0)
            all->table->failed = true;
        if (all->table->failed)
            return NULL;
    }
    if (*ret_root == NO_NODE)
        return "tree partition: no row is without a parent; a tree has a root";
    size_t n = graph_size(&all->children);
    all->row_of = malloc((n + 1) * sizeof(*all->row_of));
    if (!all->row_of || graph_close(&all->children, NULL) < 0) {
        all->table->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        all->row_of[i] = NO_NODE;
    for (uint32_t i = 0; i < all->n; i++) {
        uint32_t *row = &all->row_of[graph_find(&all->children, all->members[i].id)];
        if (*row != NO_NODE)
            return "tree partition: two rows have the same id";
        *row = i;
    }
    return NULL;
}

static void member_add(struct value_table *table, const struct member *member,
                       const struct member *parent)
{
    value_table_add_int(table, 0, member->id);
    if (parent)
        value_table_add_int(table, 1, parent->id);
    else
        value_table_add_null(table, 1);
    value_table_add_int(table, 2, member->group);
    table->n_rows++;
}

// Writes a node. The node is the nearest of its group until all nodes below it are done.
static bool member_open(struct partition *all, struct open_member *open)
{
    const struct member *member = &all->members[open->row];
    uint64_t *last = map64_get_or_add(&all->last, (uint64_t)member->group, NO_NODE, NULL);
    if (!last)
        return false;
    open->before = (uint32_t)*last;
    open->is_open = true;
    *last = open->row;
    member_add(all->table, member, open->before == NO_NODE ? NULL : &all->members[open->before]);
    const struct graph *children = &all->children;
    uint32_t node = graph_find(children, member->id);
    bool done = true;
    for (uint32_t i = children->first[node]; i < children->first[node + 1] && done; i++)
        done = open_member_vec_push(&all->stack, (struct open_member){
                                                     .row = all->row_of[children->targets[i]],
                                                 }) == 0;
    return done;
}

static void partition_run(struct partition *all, uint32_t root)
{
    bool done = open_member_vec_push(&all->stack, (struct open_member){.row = root}) == 0;
    while (done && all->stack.n && !all->table->failed) {
        struct open_member *open = &all->stack.items[all->stack.n - 1];
        if (open->is_open) {
            map64_set(&all->last, (uint64_t)all->members[open->row].group, open->before);
            all->stack.n--;
        } else {
            done = member_open(all, open);
        }
    }
    all->table->failed |= !done;
}

// SQL arguments: (id, parent_id, group)
static void partition_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct member_vec *members = aggregate_get(context, sizeof(*members));
    struct member member = {.id = sqlite3_value_int64(argv[0]),
                            .parent_id = sqlite3_value_int64(argv[1]),
                            .group = sqlite3_value_int64(argv[2]),
                            .is_root = sqlite3_value_type(argv[1]) == SQLITE_NULL};
    if (members && (members->n >= NO_NODE || member_vec_push(members, member) < 0))
        sqlite3_result_error_nomem(context);
}

static void partition_final(sqlite3_context *context)
{
    static const char *const names[] = {"node_id", "parent_node_id", "group_key"};
    struct member_vec *members = aggregate_take(context);
    struct partition all = {.table = value_table_new(ELEMENTS(names), names)};
    const char *why = NULL;
    if (members && all.table) {
        uint32_t root;
        all.members = members->items;
        all.n = (uint32_t)members->n;
        why = partition_open(&all, &root);
        if (!why && !all.table->failed)
            partition_run(&all, root);
    }
    partition_done(&all);
    if (members)
        member_vec_done(members);
    free(members);
    if (!why) {
        value_table_result(context, all.table);
        return;
    }
    value_table_free(all.table);
    sqlite3_result_error(context, why, -1);
}

int tree_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_tree_from_table", -1, NULL, tree_step, tree_final},
        {"__intrinsic_tree_to_table", 1, tree_to_table, NULL, NULL},
        {"__intrinsic_tree_dominator_summary", 1, dominator_summary, NULL, NULL},
        {"__intrinsic_structural_tree_partition", 3, NULL, partition_step, partition_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
