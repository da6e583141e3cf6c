// SPDX-License-Identifier: Apache-2.0
//
// HeapGraph: the objects of a Java heap and their references. A dump takes several packets, and
// names of types and fields follow the objects, so a dump is kept until its last packet. The
// message is Android's extension of TracePacket.
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/str.h"
#include "converter/import/heap_graph/parts.h"
#include "protos/fields.h"

// A row of heap_graph.
struct graph_row {
    int64_t id, upid, ts, heap_size;
    const char *reason; // of the dump; NULL: unknown
    bool has_graph, truncated, has_size;
};
VEC_DEFINE(graph_row_vec, struct graph_row);

struct heap_graphs {
    struct map64 open; // sequence -> struct graph
    struct strset keys;
    struct graph_row_vec rows; // by key
    struct graph_ids ids;
};

// Returns the row of a process and time; creates a new row if needed. NULL: memory is out.
static struct graph_row *row_of(struct import *im, struct heap_graphs *state, int64_t upid,
                                int64_t ts)
{
    int64_t key[] = {upid, ts};
    uint32_t index = strset_add(&state->keys, (const char *)key, sizeof(key));
    if (index == STRSET_NONE)
        return NULL;
    if (index == state->rows.n) {
        struct graph_row initial = {.upid = upid, .ts = ts};
        initial.id = database_reserve_id(im->db, TABLE_heap_graph);
        if (graph_row_vec_push(&state->rows, initial) < 0)
            return NULL;
    }
    return &state->rows.items[index];
}

int64_t heap_graph_reason(struct import *im, int64_t upid, int64_t ts, const char *reason)
{
    struct graph_row *row = row_of(im, importer_state(im, &importer_heap_graph), upid, ts);
    if (!row)
        return -ENOMEM;
    if (reason)
        row->reason = reason;
    return row->id;
}

static int graph_note(struct import *im, struct heap_graphs *state, const struct graph *graph)
{
    struct graph_row *row = row_of(im, state, graph->upid, graph->ts);
    if (!row)
        return -ENOMEM;
    row->has_graph = true;
    row->truncated |= graph->truncated;
    if (graph->has_size) {
        row->has_size = true;
        row->heap_size = graph->heap_size;
    }
    return 0;
}

static void graph_finish(struct import *im, struct heap_graphs *state, struct graph *graph)
{
    if (!graph->failed && graph->has_begun)
        graph_resolve(im, graph);
    if (graph->failed) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (!graph->has_begun)
        return;
    graph_write(im, graph, &state->ids);
    import_bounds(im, graph->ts);
    import_fail(im, graph_note(im, state, graph));
}

static struct graph *graph_of(struct heap_graphs *state, uint32_t sequence)
{
    const uint64_t *found = map64_find(&state->open, sequence);
    if (found)
        return (struct graph *)(uintptr_t)*found;
    struct graph *graph = memory_calloc(1, sizeof(*graph));
    if (graph && map64_set(&state->open, sequence, (uintptr_t)graph) < 0) {
        free(graph);
        return NULL;
    }
    return graph;
}

static void index_check(struct import *im, struct graph *graph, uint64_t index)
{
    if (index != (graph->has_index ? graph->index + 1 : 0)) {
        graph->truncated = true;
        stats_add_at(&im->stats, STAT_heap_graph_missing_packet, (uint32_t)graph->upid, 1);
    }
    graph->has_index = true;
    graph->index = index;
}

static void heap_graph_sorted(struct import *im, const struct packet *packet)
{
    struct heap_graphs *state = packet->own;
    struct graph *graph = graph_of(state, packet->sequence_id);
    if (!graph) {
        import_fail(im, -ENOMEM);
        return;
    }
    MESSAGE(head, HeapGraph, packet->message);
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&head.pid));
    index_check(im, graph, field_u64(&head.index));
    if (field_present(&head.heap_bytes_allocated)) {
        graph->has_size = true;
        graph->heap_size = field_i64(&head.heap_bytes_allocated);
    }
    // By field. True: the rest of the list is ignored.
    bool broken[PB_HeapGraph_heap_bytes_allocated] = {false};
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (graph->failed || field.number >= PB_HeapGraph_heap_bytes_allocated ||
            field.type != WIRE_BYTES || broken[field.number])
            continue;
        broken[field.number] = !graph_part_read(im, graph, upid, packet->ts, &field);
        if (broken[field.number])
            graph_malformed(im, graph);
    }
    if (field_u64(&head.continued) && !graph->failed)
        return;
    map64_remove(&state->open, packet->sequence_id);
    if (!graph->has_begun)
        graph_begin(im, graph, upid, packet->ts);
    graph_finish(im, state, graph);
    graph_free(graph);
}

static void heap_graph_finish(struct import *im, void *userdata)
{
    struct heap_graphs *state = userdata;
    CLEANUP(freep) struct map64_slot *open = map64_sorted(&state->open);
    if (!open)
        import_fail(im, -ENOMEM);
    if (state->open.n)
        stats_add(&im->stats, STAT_heap_graph_non_finalized_graph, 1);
    for (size_t i = 0; i < state->open.n && !import_failed(im); i++)
        graph_finish(im, state, (struct graph *)(uintptr_t)open[i].value);
    vec_foreach(&state->rows, graph) {
        struct cell *row = database_row_with_id(im->db, TABLE_heap_graph, graph->id);
        cell_int(row, COL_heap_graph_ts, graph->ts);
        cell_int(row, COL_heap_graph_upid, graph->upid);
        if (graph->reason)
            cell_text(row, COL_heap_graph_dump_reason, graph->reason);
        if (graph->has_graph)
            cell_int(row, COL_heap_graph_truncated, graph->truncated);
        if (graph->has_size)
            cell_int(row, COL_heap_graph_heap_size, graph->heap_size);
    }
}

static void heap_graph_done(void *userdata)
{
    struct heap_graphs *state = userdata;
    size_t cursor = 0;
    const struct map64_slot *slot;
    while ((slot = map64_next(&state->open, &cursor)))
        graph_free((struct graph *)(uintptr_t)slot->value);
    map64_done(&state->open);
    strset_done(&state->keys);
    graph_row_vec_done(&state->rows);
}

const struct importer importer_heap_graph = {
    .field = PB_TracePacket_heap_graph,
    .sorted = heap_graph_sorted,
    .state_size = sizeof(struct heap_graphs),
    .of_all_machines = true,
    .finish = heap_graph_finish,
    .done = heap_graph_done,
};
