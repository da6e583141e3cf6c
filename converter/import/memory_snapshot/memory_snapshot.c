// SPDX-License-Identifier: Apache-2.0
//
// MemoryTrackerSnapshot: the memory of the allocators of all processes at one time. Processes may
// come in separate packets, so a snapshot is open until a packet with another time. Shared memory
// belongs to a process with pid 0, as in Perfetto.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/memory_snapshot/graph.h"
#include "protos/fields.h"

#define NODE_ARGS_MAX 512

VEC_DEFINE(process_message_vec, struct wire_field);

struct memory_snapshots {
    struct process_message_vec processes; // of the open snapshot
    bool is_open;
    int64_t ts;
    uint64_t level;
    struct map64 node_rows; // id in the trace -> row; of the open snapshot
};

static const char *key_of(struct import *im, uint32_t name, const char *part)
{
    CLEANUP(strbuf_done) struct strbuf key = {0};
    strbuf_add_str(&key, strset_text(&im->strings, name));
    strbuf_add_str(&key, part);
    return strset_text(&im->strings, import_strbuf_keep(im, &key));
}

static int64_t node_args(struct import *im, const struct memory_graph *graph,
                         const struct memory_node *node)
{
    struct arg args[2 * NODE_ARGS_MAX];
    size_t n = 0;
    for (uint32_t i = node->first_entry; i != MEMORY_NONE; i = graph->entries.items[i].next) {
        const struct memory_entry *entry = &graph->entries.items[i];
        if (n + 2 > 2 * NODE_ARGS_MAX) {
            stats_add(&im->stats, STAT_memory_snapshot_parser_failure, 1);
            break;
        }
        const char *key = key_of(im, entry->name, ".value");
        if (!key || entry->text != MEMORY_NONE) {
            const char *text = strset_text(&im->strings, entry->text);
            ARG_APPEND(args, n, arg_text(key ? key : "", text, text ? strlen(text) : 0));
            continue;
        }
        const char *unit_key = key_of(im, entry->name, ".unit");
        const char *unit = entry->in_bytes ? "bytes" : "objects";
        ARG_APPEND(args, n, arg_int(key, (int64_t)entry->number));
        ARG_APPEND(args, n, arg_text(unit_key ? unit_key : "", unit, strlen(unit)));
    }
    return args_add(&im->args, args, n);
}

// Writes the nodes below `index`, whose path is `path`. graph.c limits the depth.
static void nodes_write(struct import *im, struct memory_snapshots *state,
                        const struct memory_graph *graph, uint32_t index, int64_t process_row,
                        int64_t parent_row, struct strbuf *path)
{
    size_t size_before = path->size;
    for (uint32_t child = graph->nodes.items[index].first_child; child != MEMORY_NONE;
         child = graph->nodes.items[child].next_sibling) {
        const struct memory_node *node = &graph->nodes.items[child];
        if (path->size)
            strbuf_add_char(path, '/');
        strbuf_add_str(path, strset_text(&im->strings, node->name));
        int64_t args = node_args(im, graph, node), id;
        struct cell *row = database_row(im->db, TABLE_memory_snapshot_node, &id);
        cell_int(row, COL_memory_snapshot_node_process_snapshot_id, process_row);
        if (parent_row >= 0)
            cell_int(row, COL_memory_snapshot_node_parent_node_id, parent_row);
        cell_bytes(row, COL_memory_snapshot_node_path,
                   database_copy(im->db, path->text ? path->text : "", path->size), path->size);
        if (node->has_size)
            cell_int(row, COL_memory_snapshot_node_size, (int64_t)node->size);
        if (node->has_effective_size)
            cell_int(row, COL_memory_snapshot_node_effective_size, (int64_t)node->effective_size);
        cell_arg_set(row, COL_memory_snapshot_node_arg_set_id, args);
        bool is_new;
        if (node->id)
            import_map_get(im, &state->node_rows, node->id, (uint64_t)id, &is_new);
        nodes_write(im, state, graph, child, process_row, id, path);
        path->size = size_before;
    }
}

static void process_write(struct import *im, struct memory_snapshots *state,
                          const struct memory_graph *graph, int64_t snapshot, int32_t pid,
                          uint32_t root)
{
    CLEANUP(strbuf_done) struct strbuf path = {0};
    int64_t id;
    int64_t upid = processes_process(&im->processes, (uint32_t)pid);
    struct cell *row = database_row(im->db, TABLE_process_memory_snapshot, &id);
    cell_int(row, COL_process_memory_snapshot_snapshot_id, snapshot);
    cell_int(row, COL_process_memory_snapshot_upid, upid);
    nodes_write(im, state, graph, root, id, -1, &path);
}

static void edges_write(struct import *im, const struct memory_snapshots *state,
                        const struct memory_graph *graph)
{
    vec_foreach(&graph->edges, edge) {
        const uint64_t *source = map64_find(&state->node_rows, graph->nodes.items[edge->source].id);
        const uint64_t *target = map64_find(&state->node_rows, graph->nodes.items[edge->target].id);
        if (!source || !target)
            continue;
        struct cell *row = database_row(im->db, TABLE_memory_snapshot_edge, NULL);
        cell_int(row, COL_memory_snapshot_edge_source_node_id, (int64_t)*source);
        cell_int(row, COL_memory_snapshot_edge_target_node_id, (int64_t)*target);
        cell_int(row, COL_memory_snapshot_edge_importance, edge->importance);
    }
}

static void snapshot_write(struct import *im, struct memory_snapshots *state,
                           const struct memory_graph *graph)
{
    static const char *const levels[] = {"detailed", "light", "background"};
    struct track_spec spec = {.type = "legacy_chrome_global_instants"};
    uint32_t track = tracks_get(&im->tracks, &spec);
    struct arg arg = arg_of_text("source", TEXT("chrome"));
    if (track < im->tracks.items.n && im->tracks.items.items[track].source_set == ARG_SET_NONE)
        im->tracks.items.items[track].source_set = args_add(&im->args, &arg, 1);
    int64_t id;
    struct cell *row = database_row(im->db, TABLE_memory_snapshot, &id);
    cell_int(row, COL_memory_snapshot_timestamp, state->ts);
    cell_int(row, COL_memory_snapshot_track_id, track);
    cell_text(row, COL_memory_snapshot_detail_level,
              levels[state->level < ELEMENTS(levels) ? state->level : 0]);
    import_bounds(im, state->ts);
    map64_clear(&state->node_rows);
    vec_foreach(&graph->processes, process)
        process_write(im, state, graph, id, process->pid, process->root);
    process_write(im, state, graph, id, 0, graph->shared_root);
    edges_write(im, state, graph);
}

// Writes and closes the open snapshot.
static void snapshot_finish(struct import *im, struct memory_snapshots *state)
{
    if (!state->is_open || !state->processes.n)
        return;
    struct memory_graph graph;
    int r = memory_graph_make(&graph, &im->strings, state->processes.items, state->processes.n);
    if (r == 0)
        r = memory_sizes_find(&graph);
    if (r == 0)
        snapshot_write(im, state, &graph);
    if (graph.n_failures)
        stats_add(&im->stats, STAT_memory_snapshot_parser_failure, graph.n_failures);
    memory_graph_done(&graph);
    state->is_open = false;
    process_message_vec_clear(&state->processes);
    import_fail(im, r);
}

static void memory_snapshot_sorted(struct import *im, const struct packet *packet)
{
    struct memory_snapshots *state = packet->own;
    if (state->ts != packet->ts)
        snapshot_finish(im, state);
    MESSAGE(head, MemoryTrackerSnapshot, packet->message);
    state->is_open = true;
    state->ts = packet->ts;
    state->level = field_u64(&head.level_of_detail);
    for (struct fields each =
             fields_of(packet->message, PB_MemoryTrackerSnapshot_process_memory_dumps);
         fields_next(&each);)
        import_fail(im, process_message_vec_push(&state->processes, each.field));
}

static void memory_snapshot_finish(struct import *im, void *userdata)
{
    snapshot_finish(im, userdata);
}

static void memory_snapshot_done(void *userdata)
{
    struct memory_snapshots *state = userdata;
    process_message_vec_done(&state->processes);
    map64_done(&state->node_rows);
}

const struct importer importer_memory_snapshot = {
    .field = PB_TracePacket_memory_tracker_snapshot,
    .sorted = memory_snapshot_sorted,
    .state_size = sizeof(struct memory_snapshots),
    .of_all_machines = true,
    .finish = memory_snapshot_finish,
    .done = memory_snapshot_done,
};
