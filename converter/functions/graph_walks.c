// SPDX-License-Identifier: Apache-2.0
//
// Walks over a graph. __intrinsic_dfs and __intrinsic_bfs give each reached node, with the node
// before it on the walk. __intrinsic_dfs_weight_bounded walks from each root separately, until the
// edges of the walk weigh more than the root allows.
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/functions.h"
#include "converter/functions/graph.h"

SQLITE_EXTENSION_INIT3

struct visit {
    uint32_t node, from; // indexes; from: NO_NODE at a start
};
VEC_DEFINE(visit_vec, struct visit);

// A start that the graph lacks is a node without edges. Its index follows the indexes of the graph.
struct walk {
    const struct graph *graph;
    struct graph strangers;
    struct visit_vec visits; // a stack, or a queue
    uint8_t *visited;        // owned; by index
    struct value_table *table;
};

static int64_t node_id(const struct walk *walk, uint32_t node)
{
    uint32_t n = graph_size(walk->graph);
    return node < n ? walk->graph->ids.items[node] : walk->strangers.ids.items[node - n];
}

static bool walk_start(struct walk *walk, int64_t id)
{
    uint32_t n = graph_size(walk->graph), node = graph_find(walk->graph, id);
    if (node == NO_NODE) {
        uint32_t stranger = graph_node(&walk->strangers, id);
        if (stranger >= NO_NODE - n)
            return false;
        node = n + stranger;
    }
    return visit_vec_push(&walk->visits, (struct visit){node, NO_NODE}) == 0;
}

static void visit_add(struct walk *walk, struct visit visit)
{
    struct value_table *table = walk->table;
    value_table_add_int(table, 0, node_id(walk, visit.node));
    if (visit.from == NO_NODE)
        value_table_add_null(table, 1);
    else
        value_table_add_int(table, 1, node_id(walk, visit.from));
    table->n_rows++;
}

// Walks depth first. The visits are a stack. Targets are pushed in reverse, so a node's first
// target is visited first. Starts were pushed in order, so the last start is visited first.
static bool depth_first(struct walk *walk)
{
    const struct graph *graph = walk->graph;
    while (walk->visits.n && !walk->table->failed) {
        struct visit visit = walk->visits.items[--walk->visits.n];
        if (walk->visited[visit.node])
            continue;
        walk->visited[visit.node] = 1;
        visit_add(walk, visit);
        if (visit.node >= graph_size(graph))
            continue;
        for (uint32_t i = graph->first[visit.node + 1]; i > graph->first[visit.node]; i--) {
            struct visit next = {graph->targets[i - 1], visit.node};
            if (!walk->visited[next.node] && visit_vec_push(&walk->visits, next) < 0)
                return false;
        }
    }
    return true;
}

static bool breadth_first(struct walk *walk)
{
    const struct graph *graph = walk->graph;
    size_t n = 0;
    for (size_t i = 0; i < walk->visits.n; i++) {
        struct visit start = walk->visits.items[i];
        if (!walk->visited[start.node])
            walk->visits.items[n++] = start;
        walk->visited[start.node] = 1;
    }
    walk->visits.n = n;
    for (size_t head = 0; head < walk->visits.n && !walk->table->failed; head++) {
        struct visit visit = walk->visits.items[head];
        visit_add(walk, visit);
        if (visit.node >= graph_size(graph))
            continue;
        for (uint32_t i = graph->first[visit.node]; i < graph->first[visit.node + 1]; i++) {
            struct visit next = {graph->targets[i], visit.node};
            if (!walk->visited[next.node] && visit_vec_push(&walk->visits, next) < 0)
                return false;
            walk->visited[next.node] = 1;
        }
    }
    return true;
}

// SQL arguments: (graph, starts). Without a graph or without starts the table is empty.
static void reach(sqlite3_context *context, sqlite3_value **argv, bool (*run)(struct walk *walk))
{
    static const char *const names[] = {"node_id", "parent_node_id"};
    const struct int64_vec *starts = sqlite3_value_pointer(argv[1], VALUE_ARRAY);
    struct walk walk = {.graph = sqlite3_value_pointer(argv[0], VALUE_GRAPH),
                        .table = value_table_new(ELEMENTS(names), names)};
    bool done = walk.table != NULL;
    if (done && walk.graph && starts) {
        vec_foreach(starts, id)
            done = done && walk_start(&walk, *id);
        if (done)
            walk.visited = calloc((size_t)graph_size(walk.graph) + walk.strangers.ids.n + 1, 1);
        done = walk.visited && run(&walk);
    }
    if (walk.table)
        walk.table->failed |= !done;
    graph_done(&walk.strangers);
    visit_vec_done(&walk.visits);
    free(walk.visited);
    value_table_result(context, walk.table);
}

static void dfs(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    reach(context, argv, depth_first);
}

static void bfs(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    reach(context, argv, breadth_first);
}

// -- walks within a weight --

enum {
    SOURCES,
    TARGETS,
    WEIGHTS,
    ROOTS,
    BOUNDS,
    IS_FLOOR,
    N_ARGUMENTS,
};

struct bounded_visit {
    uint32_t node, from;
    uint32_t weight;
};
VEC_DEFINE(bounded_visit_vec, struct bounded_visit);

struct bounded {
    struct graph graph;
    uint32_t *weights; // owned; beside the graph's targets
    uint32_t *seen_by; // owned; by index: the number of the root, from 1
    struct bounded_visit_vec stack;
    bool is_floor;
    struct value_table *table;
};

// Returns a weight. A weight is an unsigned number of 32 bits; for any other number, the weight is
// above every bound.
static uint32_t weight_of(int64_t number)
{
    return number < 0 || number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

// Reads the integers of a RepeatedField. Returns false if the value is not a RepeatedField.
static bool repeated_read(sqlite3_value *value, const int64_t **ret, size_t *ret_n)
{
    int type = sqlite3_value_type(value);
    size_t size = type == SQLITE_BLOB ? (size_t)sqlite3_value_bytes(value) : 0;
    *ret = size ? sqlite3_value_blob(value) : NULL;
    *ret_n = size / sizeof(**ret);
    return (type == SQLITE_NULL || type == SQLITE_BLOB) && size % sizeof(**ret) == 0;
}

// Returns an integer of the BLOB, which may have any alignment.
static int64_t repeated_at(const int64_t *numbers, size_t i)
{
    int64_t ret;
    memcpy(&ret, (const char *)numbers + i * sizeof(ret), sizeof(ret));
    return ret;
}

static bool bounded_open(struct bounded *bounded, const int64_t *const *numbers, size_t n)
{
    struct graph *graph = &bounded->graph;
    uint32_t *order CLEANUP(freep) = NULL;
    for (size_t i = 0; i < n; i++)
        if (graph_add_edge(graph, repeated_at(numbers[SOURCES], i),
                           repeated_at(numbers[TARGETS], i)) < 0)
            return false;
    if (graph_close(graph, &order) < 0)
        return false;
    bounded->weights = malloc((n + 1) * sizeof(*bounded->weights));
    bounded->seen_by = calloc((size_t)graph_size(graph) + 1, sizeof(*bounded->seen_by));
    if (!bounded->weights || !bounded->seen_by)
        return false;
    for (size_t i = 0; i < n; i++)
        bounded->weights[i] = weight_of(repeated_at(numbers[WEIGHTS], order[i]));
    return true;
}

static void bounded_add(struct bounded *bounded, int64_t root, int64_t id, uint32_t from)
{
    struct value_table *table = bounded->table;
    value_table_add_int(table, 0, root);
    value_table_add_int(table, 1, id);
    if (from == NO_NODE)
        value_table_add_null(table, 2);
    else
        value_table_add_int(table, 2, bounded->graph.ids.items[from]);
    table->n_rows++;
}

// Walks from a root. Each node counts with the weight of the edge that led to the node. With
// `is_floor`, the node that makes the sum too large belongs to the answer.
static bool bounded_walk(struct bounded *bounded, int64_t root, uint32_t bound, uint32_t number)
{
    const struct graph *graph = &bounded->graph;
    struct bounded_visit start = {graph_find(graph, root), NO_NODE, 0};
    uint64_t sum = 0;
    if (start.node == NO_NODE) {
        bounded_add(bounded, root, root, NO_NODE);
        return true;
    }
    bounded_visit_vec_clear(&bounded->stack);
    bool done = bounded_visit_vec_push(&bounded->stack, start) == 0;
    while (done && bounded->stack.n && !bounded->table->failed) {
        struct bounded_visit visit = bounded->stack.items[--bounded->stack.n];
        if (bounded->seen_by[visit.node] == number)
            continue;
        bounded->seen_by[visit.node] = number;
        sum += visit.weight;
        if (sum <= bound || bounded->is_floor)
            bounded_add(bounded, root, graph->ids.items[visit.node], visit.from);
        if (sum > bound)
            break;
        for (uint32_t i = graph->first[visit.node + 1]; i > graph->first[visit.node] && done; i--) {
            struct bounded_visit next = {graph->targets[i - 1], visit.node,
                                         bounded->weights[i - 1]};
            done = bounded->seen_by[next.node] == number ||
                   bounded_visit_vec_push(&bounded->stack, next) == 0;
        }
    }
    return done;
}

static void bounded_run(struct bounded *bounded, const int64_t *const *numbers, const size_t *sizes)
{
    bool done = bounded_open(bounded, numbers, sizes[SOURCES]);
    for (size_t i = 0; i < sizes[ROOTS] && done; i++)
        done = i < UINT32_MAX - 1 &&
               bounded_walk(bounded, repeated_at(numbers[ROOTS], i),
                            weight_of(repeated_at(numbers[BOUNDS], i)), (uint32_t)i + 1);
    bounded->table->failed |= !done;
}

// SQL arguments: (sources, targets, weights, roots, bounds, is_floor)
static void dfs_weight_bounded(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    static const char *const names[] = {"root_node_id", "node_id", "parent_node_id"};
    const int64_t *numbers[IS_FLOOR];
    size_t sizes[IS_FLOOR];
    bool fits = argc == N_ARGUMENTS;
    for (int i = 0; i < IS_FLOOR && fits; i++)
        fits = repeated_read(argv[i], &numbers[i], &sizes[i]);
    if (!fits || sizes[SOURCES] != sizes[TARGETS] || sizes[SOURCES] != sizes[WEIGHTS] ||
        sizes[ROOTS] != sizes[BOUNDS]) {
        sqlite3_result_error(
            context,
            "bounded walk: five lists made by RepeatedField are expected: sources, "
            "targets and weights of the edges, of one length; roots and their "
            "bounds, of one length",
            -1);
        return;
    }
    struct bounded bounded = {.table = value_table_new(ELEMENTS(names), names),
                              .is_floor = sqlite3_value_int64(argv[IS_FLOOR]) != 0};
    if (bounded.table && sizes[SOURCES])
        bounded_run(&bounded, numbers, sizes);
    graph_done(&bounded.graph);
    free(bounded.weights);
    free(bounded.seen_by);
    bounded_visit_vec_done(&bounded.stack);
    value_table_result(context, bounded.table);
}

int graph_walk_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_dfs", 2, dfs, NULL, NULL},
        {"__intrinsic_bfs", 2, bfs, NULL, NULL},
        {"__intrinsic_dfs_weight_bounded_value", N_ARGUMENTS, dfs_weight_bounded, NULL, NULL},
    };
    int code = value_functions_add(handle, functions, ELEMENTS(functions));
    if (code != SQLITE_OK)
        return code;
    return table_function_add(
        handle, "__intrinsic_dfs_weight_bounded",
        "SELECT c0 AS root_node_id, c1 AS node_id, c2 AS parent_node_id FROM "
        "__intrinsic_table_ptr(__intrinsic_dfs_weight_bounded_value(?1, ?2, ?3, ?4, ?5, ?6)) "
        "WHERE __intrinsic_table_ptr_bind(c0, 'root_node_id') AND "
        "__intrinsic_table_ptr_bind(c1, 'node_id') AND "
        "__intrinsic_table_ptr_bind(c2, 'parent_node_id')",
        N_ARGUMENTS);
}
