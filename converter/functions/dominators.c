// SPDX-License-Identifier: Apache-2.0
//
// __intrinsic_dominator_tree(source, target, root): the immediate dominator of each node that the
// root reaches, by the algorithm of Lengauer and Tarjan, with simple path compression:
// O(m log n).
//
// The arrays below are indexed by a number: a depth-first walk numbers the nodes in the order in
// which it meets them. The number of a node is smaller than the numbers of all nodes below the node
// in the walk's tree.
#include <stdlib.h>

#include "common/elements.h"
#include "converter/functions/graph.h"

SQLITE_EXTENSION_INIT3

struct edges {
    struct graph graph;
    bool has_root;
    int64_t root; // an id
};

struct dominators {
    uint32_t n;           // nodes that the walk met
    uint32_t *memory;     // owned; the arrays below
    uint32_t *node;       // the index in the graph
    uint32_t *parent;     // in the walk's tree
    uint32_t *semi;       // the semidominator
    uint32_t *best;       // the node with the least semidominator, up to `above`
    uint32_t *above;      // in the forest that links build; NO_NODE: a root of the forest
    uint32_t *dominator;  // the immediate dominator
    uint32_t *bucket;     // the first node whose semidominator is this node; NO_NODE: none
    uint32_t *next;       // the next node in the node's bucket
    uint32_t *path;       // the stack of compress()
    uint32_t *number;     // by index in the graph; NO_NODE: not met
    uint32_t *sources_at; // the start of a node's sources
    uint32_t *sources;    // owned; of the edges between nodes that were met
};

struct met {
    uint32_t node;   // an index
    uint32_t parent; // a number
};
VEC_DEFINE(met_vec, struct met);

static void edges_free(struct edges *edges)
{
    if (edges)
        graph_done(&edges->graph);
    free(edges);
}

static void dominators_done(struct dominators *all)
{
    free(all->memory);
    free(all->sources);
}

static bool dominators_open(struct dominators *all, uint32_t n_nodes)
{
    uint32_t **arrays[] = {&all->node,      &all->parent, &all->semi,      &all->best,
                           &all->above,     &all->bucket, &all->next,      &all->path,
                           &all->dominator, &all->number, &all->sources_at};
    size_t size = (size_t)n_nodes + 2;
    all->memory = malloc(ELEMENTS(arrays) * size * sizeof(*all->memory));
    if (!all->memory)
        return false;
    for (size_t i = 0; i < ELEMENTS(arrays); i++)
        *arrays[i] = all->memory + i * size;
    for (size_t i = 0; i < size; i++) {
        all->number[i] = all->above[i] = all->bucket[i] = all->next[i] = NO_NODE;
        all->sources_at[i] = 0;
    }
    return true;
}

// Numbers the nodes. The first of a node's targets is met first.
static bool nodes_meet(struct dominators *all, const struct graph *graph, uint32_t root)
{
    struct met_vec stack = {0};
    bool done = met_vec_push(&stack, (struct met){root, NO_NODE}) == 0;
    while (done && stack.n) {
        struct met met = stack.items[--stack.n];
        if (all->number[met.node] != NO_NODE)
            continue;
        uint32_t number = all->n++;
        all->number[met.node] = number;
        all->node[number] = met.node;
        all->parent[number] = met.parent;
        all->semi[number] = all->best[number] = number;
        for (uint32_t i = graph->first[met.node + 1]; i > graph->first[met.node] && done; i--) {
            struct met next = {graph->targets[i - 1], number};
            done = all->number[next.node] != NO_NODE || met_vec_push(&stack, next) == 0;
        }
    }
    met_vec_done(&stack);
    return done;
}

// Reverses the edges. Edges of nodes that the walk has not met do not count.
static bool sources_make(struct dominators *all, const struct graph *graph)
{
    uint32_t *at = all->sources_at;
    size_t n_edges = 0;
    for (uint32_t v = 0; v < all->n; v++)
        for (uint32_t i = graph->first[all->node[v]]; i < graph->first[all->node[v] + 1]; i++) {
            at[all->number[graph->targets[i]] + 1]++;
            n_edges++;
        }
    for (uint32_t v = 0; v < all->n; v++)
        at[v + 1] += at[v];
    all->sources = malloc((n_edges + 1) * sizeof(*all->sources));
    if (!all->sources)
        return false;
    // at[w] moves to the end of w's sources, which is the start of the sources of w + 1.
    for (uint32_t v = 0; v < all->n; v++)
        for (uint32_t i = graph->first[all->node[v]]; i < graph->first[all->node[v] + 1]; i++)
            all->sources[at[all->number[graph->targets[i]]]++] = v;
    return true;
}

// Moves `v` and all nodes above `v` right below the root of their tree.
static void compress(struct dominators *all, uint32_t v)
{
    uint32_t n = 0;
    for (; all->above[all->above[v]] != NO_NODE; v = all->above[v])
        all->path[n++] = v;
    while (n > 0) {
        uint32_t x = all->path[--n], above = all->above[x];
        if (all->semi[all->best[above]] < all->semi[all->best[x]])
            all->best[x] = all->best[above];
        all->above[x] = all->above[above];
    }
}

static uint32_t best_of(struct dominators *all, uint32_t v)
{
    if (all->above[v] == NO_NODE)
        return v;
    compress(all, v);
    return all->best[v];
}

static void dominators_find(struct dominators *all)
{
    for (uint32_t w = all->n - 1; w > 0; w--) {
        for (uint32_t i = all->sources_at[w - 1]; i < all->sources_at[w]; i++) {
            uint32_t semi = all->semi[best_of(all, all->sources[i])];
            all->semi[w] = semi < all->semi[w] ? semi : all->semi[w];
        }
        uint32_t parent = all->parent[w];
        all->next[w] = all->bucket[all->semi[w]];
        all->bucket[all->semi[w]] = w;
        all->above[w] = parent;
        for (uint32_t v = all->bucket[parent]; v != NO_NODE; v = all->next[v]) {
            uint32_t best = best_of(all, v);
            all->dominator[v] = all->semi[best] < all->semi[v] ? best : parent;
        }
        all->bucket[parent] = NO_NODE;
    }
    for (uint32_t w = 1; w < all->n; w++)
        if (all->dominator[w] != all->semi[w])
            all->dominator[w] = all->dominator[all->dominator[w]];
}

static void dominators_add(const struct dominators *all, const struct graph *graph,
                           struct value_table *table)
{
    for (uint32_t v = 0; v < all->n; v++) {
        value_table_add_int(table, 0, graph->ids.items[all->node[v]]);
        if (v == 0)
            value_table_add_null(table, 1);
        else
            value_table_add_int(table, 1, graph->ids.items[all->node[all->dominator[v]]]);
    }
    table->n_rows = all->n;
}

// Returns NULL, or an error text about the graph. If memory runs out, the table has failed.
static const char *dominators_run(struct edges *edges, struct value_table *table)
{
    struct dominators all = {0};
    const char *why = NULL;
    uint32_t root = graph_find(&edges->graph, edges->root);
    if (root == NO_NODE)
        return "dominator tree: no edge of the graph has the root";
    bool done = graph_close(&edges->graph, NULL) == 0 &&
                dominators_open(&all, graph_size(&edges->graph)) &&
                nodes_meet(&all, &edges->graph, root) && sources_make(&all, &edges->graph);
    if (done && all.n < 2) {
        why = "dominator tree: no edge leads from the root to another node";
    } else if (done) {
        dominators_find(&all);
        dominators_add(&all, &edges->graph, table);
    }
    table->failed |= !done;
    dominators_done(&all);
    return why;
}

static void dominators_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct edges *edges = aggregate_get(context, sizeof(*edges));
    if (!edges)
        return;
    if (!edges->has_root)
        edges->root = sqlite3_value_int64(argv[2]);
    edges->has_root = true;
    if (graph_add_edge(&edges->graph, sqlite3_value_int64(argv[0]), sqlite3_value_int64(argv[1])))
        sqlite3_result_error_nomem(context);
}

static void dominators_final(sqlite3_context *context)
{
    static const char *const names[] = {"node_id", "dominator_node_id"};
    struct edges *edges = aggregate_take(context);
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    const char *why = edges && table ? dominators_run(edges, table) : NULL;
    edges_free(edges);
    if (!why) {
        value_table_result(context, table);
        return;
    }
    value_table_free(table);
    sqlite3_result_error(context, why, -1);
}

int dominator_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_dominator_tree", 3, NULL, dominators_step, dominators_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
