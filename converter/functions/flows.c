// SPDX-License-Identifier: Apache-2.0
//
// The flows that lead from a slice to others: directly_connected_flow, following_flow and
// preceding_flow. A search visits slices in the order in which it finds them. Following flows also
// begin at slices inside a found slice; preceding flows also end at slices around a found slice.
//
// The functions are called for many slices, so flows and slices are read once, and again when the
// database has changed.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/vec.h"
#include "converter/functions/functions.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define NONE UINT32_MAX

// One end of a flow, and the slice at its other end.
struct flow_end {
    int64_t slice, other, flow;
};
VEC_DEFINE(flow_end_vec, struct flow_end);

struct slice_node {
    int64_t id;
    uint32_t parent, first_child, next; // nodes; NONE: none
};
VEC_DEFINE(slice_node_vec, struct slice_node);

struct flow_graph {
    bool is_read;
    unsigned version;              // of the database
    int changes;                   // of this connection
    struct flow_end_vec outs, ins; // by slice, then by flow
    struct slice_node_vec slices;  // by id
};

enum mode { MODE_DIRECT, MODE_FOLLOWING, MODE_PRECEDING };
enum reached { REACHED_FIRST, REACHED_BACKWARD, REACHED_FORWARD, REACHED_AS_RELATIVE };

struct visit {
    int64_t slice;
    enum reached reached;
};
VEC_DEFINE(visit_vec, struct visit);

struct search {
    const struct flow_graph *graph;
    enum mode mode;
    struct map64 known;
    struct visit_vec queue;
    struct int64_vec flows, relatives;
    bool failed; // out of memory
};

static void graph_clear(struct flow_graph *graph)
{
    flow_end_vec_done(&graph->outs);
    flow_end_vec_done(&graph->ins);
    slice_node_vec_done(&graph->slices);
    graph->is_read = false;
}

static void graph_free(void *graph)
{
    graph_clear(graph);
    free(graph);
}

static int by_slice(const void *a, const void *b)
{
    const struct flow_end *x = a, *y = b;
    if (x->slice != y->slice)
        return x->slice < y->slice ? -1 : 1;
    return x->flow < y->flow ? -1 : x->flow > y->flow;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// Returns the node of a slice. bsearch() compares the id, which is the first member of a node.
static uint32_t node_find(const struct flow_graph *graph, int64_t id)
{
    const struct slice_node *nodes = graph->slices.items;
    if (id >= 0 && (uint64_t)id < graph->slices.n && nodes[id].id == id)
        return (uint32_t)id;
    const struct slice_node *found =
        graph->slices.n ? bsearch(&id, nodes, graph->slices.n, sizeof(*nodes), by_id) : NULL;
    return found ? (uint32_t)(found - nodes) : NONE;
}

static int flows_read(sqlite3_stmt *statement, struct flow_graph *graph)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t flow = sqlite3_column_int64(statement, 0);
        int64_t out = sqlite3_column_int64(statement, 1), in = sqlite3_column_int64(statement, 2);
        struct flow_end begin = {out, in, flow}, end = {in, out, flow};
        if (flow_end_vec_push(&graph->outs, begin) < 0 || flow_end_vec_push(&graph->ins, end) < 0)
            return SQLITE_NOMEM;
    }
    if (graph->outs.n) {
        qsort(graph->outs.items, graph->outs.n, sizeof(*graph->outs.items), by_slice);
        qsort(graph->ins.items, graph->ins.n, sizeof(*graph->ins.items), by_slice);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

// Reads the slices by id. A parent that does not come before its child is ignored.
static int slices_read(sqlite3_stmt *statement, struct flow_graph *graph)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct slice_node node = {sqlite3_column_int64(statement, 0), NONE, NONE, NONE};
        if (sqlite3_column_type(statement, 1) != SQLITE_NULL)
            node.parent = node_find(graph, sqlite3_column_int64(statement, 1));
        uint32_t number = (uint32_t)graph->slices.n;
        if (number == NONE || slice_node_vec_push(&graph->slices, node) < 0)
            return SQLITE_NOMEM;
        if (node.parent == NONE)
            continue;
        graph->slices.items[number].next = graph->slices.items[node.parent].first_child;
        graph->slices.items[node.parent].first_child = number;
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int table_read(sqlite3 *handle, const char *sql, struct flow_graph *graph,
                      int (*read)(sqlite3_stmt *statement, struct flow_graph *graph))
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = read(statement, graph);
    sqlite3_finalize(statement);
    return code;
}

// Reads the graph unless the database has not changed since the last call. Returns SQLite's code.
static int graph_update(sqlite3 *handle, struct flow_graph *graph)
{
    unsigned version = 0;
    int changes = sqlite3_total_changes(handle);
    sqlite3_file_control(handle, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    if (graph->is_read && graph->version == version && graph->changes == changes)
        return SQLITE_OK;
    graph_clear(graph);
    int code = table_read(handle, "SELECT id, slice_out, slice_in FROM flow", graph, flows_read);
    if (code == SQLITE_OK)
        code =
            table_read(handle, "SELECT id, parent_id FROM slice ORDER BY id", graph, slices_read);
    graph->version = version;
    graph->changes = changes;
    graph->is_read = code == SQLITE_OK;
    return code;
}

static void visit_add(struct search *search, int64_t slice, enum reached reached)
{
    bool is_new = false;
    struct visit visit = {slice, reached};
    if (!map64_get_or_add(&search->known, (uint64_t)slice, 1, &is_new))
        search->failed = true;
    else if (is_new)
        search->failed |= visit_vec_push(&search->queue, visit) < 0;
}

// Follows all flows that begin, or end, at the slice.
static void flows_visit(struct search *search, int64_t slice, const struct flow_end_vec *ends,
                        enum reached reached)
{
    size_t low = 0, high = ends->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ends->items[middle].slice < slice)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < ends->n && ends->items[low].slice == slice && !search->failed; low++) {
        search->failed |= int64_vec_push(&search->flows, ends->items[low].flow) < 0;
        visit_add(search, ends->items[low].other, reached);
    }
}

// Collects the slices inside a slice. The list is also the queue of the walk: the slices from
// `next` on are not visited yet.
static void inner_collect(struct search *search, uint32_t node)
{
    const struct slice_node *nodes = search->graph->slices.items;
    for (size_t next = 0; !search->failed; next++) {
        for (uint32_t child = nodes[node].first_child; child != NONE; child = nodes[child].next)
            search->failed |= int64_vec_push(&search->relatives, nodes[child].id) < 0;
        if (next >= search->relatives.n)
            break;
        node = node_find(search->graph, search->relatives.items[next]);
    }
}

static void relatives_visit(struct search *search, int64_t slice)
{
    const struct slice_node *nodes = search->graph->slices.items;
    uint32_t node = node_find(search->graph, slice);
    int64_vec_clear(&search->relatives);
    if (node == NONE || search->mode == MODE_DIRECT)
        return;
    if (search->mode == MODE_FOLLOWING)
        inner_collect(search, node);
    for (node = nodes[node].parent; search->mode == MODE_PRECEDING && node != NONE;
         node = nodes[node].parent)
        search->failed |= int64_vec_push(&search->relatives, nodes[node].id) < 0;
    if (search->relatives.n && !search->failed)
        qsort(search->relatives.items, search->relatives.n, sizeof(int64_t), by_id);
    for (size_t i = 0; i < search->relatives.n && !search->failed; i++)
        visit_add(search, search->relatives.items[i], REACHED_AS_RELATIVE);
}

// Runs a search. The search does not go back along a flow: from a slice that was reached forwards,
// it continues only forwards, and from a slice that was reached backwards, only backwards.
static void search_run(struct search *search, int64_t slice)
{
    visit_add(search, slice, REACHED_FIRST);
    for (size_t i = 0; i < search->queue.n && !search->failed; i++) {
        struct visit visit = search->queue.items[i];
        if (visit.reached != REACHED_AS_RELATIVE)
            relatives_visit(search, visit.slice);
        if (search->mode != MODE_FOLLOWING && visit.reached != REACHED_FORWARD)
            flows_visit(search, visit.slice, &search->graph->ins, REACHED_BACKWARD);
        if (search->mode != MODE_PRECEDING && visit.reached != REACHED_BACKWARD)
            flows_visit(search, visit.slice, &search->graph->outs, REACHED_FORWARD);
    }
}

static struct value_table *search_table(const struct search *search)
{
    static const char *const names[] = {"id"};
    struct value_table *table = value_table_new(ELEMENTS(names), names);
    vec_foreach(&search->flows, flow) {
        if (!table)
            break;
        value_table_add_int(table, 0, *flow);
        table->n_rows++;
    }
    return table;
}

// SQL arguments: (mode, slice)
static void connected_flow(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct flow_graph *graph = sqlite3_user_data(context);
    struct search search = {.graph = graph, .mode = (enum mode)sqlite3_value_int(argv[0])};
    sqlite3 *handle = sqlite3_context_db_handle(context);
    int type = sqlite3_value_type(argv[1]), code = SQLITE_OK;
    if (type != SQLITE_NULL && type != SQLITE_INTEGER) {
        sqlite3_result_error(context, "connected flows: the id of a slice is a whole number", -1);
        return;
    }
    if (type == SQLITE_INTEGER)
        code = graph_update(handle, graph);
    if (type == SQLITE_INTEGER && code == SQLITE_OK)
        search_run(&search, sqlite3_value_int64(argv[1]));
    if (code == SQLITE_NOMEM || search.failed)
        sqlite3_result_error_nomem(context);
    else if (code != SQLITE_OK)
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
    else
        value_table_result(context, search_table(&search));
    map64_done(&search.known);
    visit_vec_done(&search.queue);
    int64_vec_done(&search.flows);
    int64_vec_done(&search.relatives);
}

#define CONNECTED(mode)                                                                            \
    "SELECT f.* FROM __intrinsic_table_ptr(__mmsql_connected_flow(" mode ", ?1)) t CROSS JOIN "    \
    "flow f ON f.id = t.c0 WHERE __intrinsic_table_ptr_bind(t.c0, 'id')"

int flow_functions_register(sqlite3 *handle)
{
    static const struct {
        const char *name, *sql;
    } tables[] = {
        {"directly_connected_flow", CONNECTED("0")},
        {"following_flow", CONNECTED("1")},
        {"preceding_flow", CONNECTED("2")},
    };
    struct flow_graph *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return SQLITE_NOMEM;
    int code = sqlite3_create_function_v2(handle, "__mmsql_connected_flow", 2, SQLITE_UTF8, graph,
                                          connected_flow, NULL, NULL, graph_free);
    for (size_t i = 0; i < ELEMENTS(tables) && code == SQLITE_OK; i++)
        code = table_function_add(handle, tables[i].name, tables[i].sql, 1);
    return code;
}
