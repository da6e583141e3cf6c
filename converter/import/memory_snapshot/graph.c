// SPDX-License-Identifier: Apache-2.0
//
// A path names a node and its ancestors, which the trace may lack. Each process that uses a shared
// node reports the node: the first report places the node, and all reports add entries. Nodes are
// therefore read first, in order of pid and path, then edges.
#include "converter/import/memory_snapshot/graph.h"

#include <stdlib.h>

#include "common/str.h"
#include "converter/decode/message.h"
#include "protos/fields.h"

#define PARTS_MAX (1u << 20) // nodes, edges, entries
#define DEPTH_MAX 24
#define NAME_MAX  1024

struct raw_node {
    struct text name;
    struct wire_field message;
    size_t index;
};
VEC_DEFINE(raw_node_vec, struct raw_node);

struct raw_edge {
    uint64_t source, target;
    uint32_t importance;
    size_t index;
};
VEC_DEFINE(raw_edge_vec, struct raw_edge);

static int order(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int raw_node_compare(const void *a, const void *b)
{
    const struct raw_node *x = a, *y = b;
    int r = text_compare(x->name, y->name);
    return r ? r : order(x->index, y->index);
}

static int raw_edge_compare(const void *a, const void *b)
{
    const struct raw_edge *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return order(x->index, y->index);
}

// Orders by pid, then by index.
static int process_compare(const void *a, const void *b)
{
    const struct memory_process *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return order(x->root, y->root); // `root` still has the index
}

static uint32_t node_add(struct memory_graph *graph, uint32_t parent, uint32_t name)
{
    struct memory_node node = {
        .name = name,
        .parent = parent,
        .first_child = MEMORY_NONE,
        .last_child = MEMORY_NONE,
        .next_sibling = MEMORY_NONE,
        .first_entry = MEMORY_NONE,
        .last_entry = MEMORY_NONE,
        .owns = MEMORY_NONE,
        .first_owner = MEMORY_NONE,
        .owned_part = 1,
        .owning_part = 1,
        .all_owned_part = 1,
        .all_owning_part = 1,
    };
    if (graph->nodes.n >= PARTS_MAX) {
        graph->n_failures++;
        return MEMORY_NONE;
    }
    graph->failed |= memory_node_vec_push(&graph->nodes, node) < 0;
    return graph->failed ? MEMORY_NONE : (uint32_t)(graph->nodes.n - 1);
}

uint32_t memory_child_get(struct memory_graph *graph, uint32_t parent, uint32_t name)
{
    uint64_t key = (uint64_t)parent << 32 | name;
    const uint64_t *known = map64_find(&graph->children, key);
    if (known)
        return (uint32_t)*known;
    uint32_t index = node_add(graph, parent, name);
    if (index == MEMORY_NONE || map64_set(&graph->children, key, index) < 0) {
        graph->failed |= index != MEMORY_NONE;
        return MEMORY_NONE;
    }
    struct memory_node *in = &graph->nodes.items[parent];
    if (in->last_child == MEMORY_NONE)
        in->first_child = index;
    else
        graph->nodes.items[in->last_child].next_sibling = index;
    in->last_child = index;
    return index;
}

// Returns the node at the end of a path.
static uint32_t path_get(struct memory_graph *graph, uint32_t root, const struct raw_node *raw)
{
    const char *pos = raw->name.at, *end = pos + raw->name.size;
    uint32_t node = root;
    for (size_t depth = 0; pos < end && node != MEMORY_NONE;) {
        const char *slash = memchr(pos, '/', (size_t)(end - pos));
        size_t size = (size_t)((slash ? slash : end) - pos);
        if (size && ++depth > DEPTH_MAX) {
            graph->n_failures++;
            return MEMORY_NONE;
        }
        if (size)
            node = memory_child_get(graph, node, strset_add(graph->strings, pos, size));
        pos += size + 1;
    }
    return node;
}

static void entry_add(struct memory_graph *graph, uint32_t node_index, struct memory_entry entry)
{
    struct memory_node *node = &graph->nodes.items[node_index];
    bool is_number = entry.text == MEMORY_NONE, is_new;
    uint64_t key = (uint64_t)node_index << 32 | entry.name;
    const uint64_t *known = map64_get_or_add(&graph->named, key, graph->entries.n, &is_new);
    graph->failed |= !known;
    if (graph->failed || !is_new)
        return;
    if (entry.name == graph->size_name) {
        node->has_size = true;
        node->size = entry.number;
    } else if (entry.name == graph->effective_size_name && is_number) {
        node->has_effective_size = true;
        node->effective_size = entry.number;
    } else if (graph->entries.n >= PARTS_MAX) {
        graph->n_failures++;
    } else if (memory_entry_vec_push(&graph->entries, entry) < 0) {
        graph->failed = true;
    } else {
        uint32_t index = (uint32_t)(graph->entries.n - 1);
        if (node->last_entry == MEMORY_NONE)
            node->first_entry = index;
        else
            graph->entries.items[node->last_entry].next = index;
        node->last_entry = index;
    }
}

static void entry_read(struct memory_graph *graph, uint32_t node, const struct wire_field *message)
{
    MESSAGE(part, MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_MemoryNodeEntry, message);
    const struct wire_field *name = &part.name;
    const struct wire_field *units = &part.units;
    const struct wire_field *number = &part.value_uint64;
    const struct wire_field *text = &part.value_string;
    struct memory_entry entry = {
        .name = strset_add(graph->strings, field_text(name), name->size),
        .text = MEMORY_NONE,
        .next = MEMORY_NONE,
        .in_bytes = field_u64(units) == PB_BYTES,
        .number = field_u64(number),
    };
    if (!field_present(number) && field_present(text))
        entry.text = strset_add(graph->strings, field_text(text), text->size);
    if (field_present(number) || field_present(text))
        entry_add(graph, node, entry);
    else
        graph->n_failures++;
}

static void node_read(struct memory_graph *graph, uint32_t root, const struct raw_node *raw)
{
    MESSAGE(part, MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode, &raw->message);
    uint64_t id = field_u64(&part.id);
    const uint64_t *known = id ? map64_find(&graph->by_id, id) : NULL;
    bool is_global = text_starts_with(raw->name, TEXT("global/"));
    uint32_t node =
        known ? (uint32_t)*known : path_get(graph, is_global ? graph->shared_root : root, raw);
    if (node == MEMORY_NONE)
        return;
    if (!known) {
        graph->nodes.items[node].id = id;
        graph->failed |= id && map64_set(&graph->by_id, id, node) < 0;
    }
    const struct wire_field *size = &part.size_bytes;
    if (field_present(size))
        entry_add(graph, node,
                  (struct memory_entry){.name = graph->size_name,
                                        .text = MEMORY_NONE,
                                        .next = MEMORY_NONE,
                                        .number = field_u64(size)});
    for (struct fields each =
             fields_of(&raw->message, PB_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_entries);
         !graph->failed && fields_next(&each);)
        entry_read(graph, node, &each.field);
}

static void nodes_read(struct memory_graph *graph, const struct memory_process *process)
{
    struct raw_node_vec raw = {0};
    for (struct fields each =
             fields_of(&process->message, PB_MemoryTrackerSnapshot_ProcessSnapshot_allocator_dumps);
         !graph->failed && raw.n < PARTS_MAX && fields_next(&each);) {
        MESSAGE(part, MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode, &each.field);
        const struct wire_field *name = &part.absolute_name;
        struct raw_node node = {field_words(name), each.field, raw.n};
        if (name->size > NAME_MAX)
            graph->n_failures++;
        else
            graph->failed |= raw_node_vec_push(&raw, node) < 0;
    }
    if (raw.n)
        qsort(raw.items, raw.n, sizeof(*raw.items), raw_node_compare);
    for (size_t i = 0; i < raw.n && !graph->failed; i++) {
        const struct raw_node *node = &raw.items[i];
        if (!i || !text_eq(node[-1].name, node->name))
            node_read(graph, process->root, node);
    }
    raw_node_vec_done(&raw);
}

static void edge_add(struct memory_graph *graph, const struct raw_edge *raw)
{
    const uint64_t *source = map64_find(&graph->by_id, raw->source);
    const uint64_t *target = map64_find(&graph->by_id, raw->target);
    if (!source || !target) // if a node is missing, the memory stays with the other node
        return;
    struct memory_node *owned = &graph->nodes.items[*target];
    struct memory_edge edge = {.source = (uint32_t)*source,
                               .target = (uint32_t)*target,
                               .next_owner = owned->first_owner,
                               .importance = raw->importance};
    if (memory_edge_vec_push(&graph->edges, edge) < 0) {
        graph->failed = true;
        return;
    }
    owned->first_owner = graph->nodes.items[*source].owns = (uint32_t)(graph->edges.n - 1);
}

static void edges_read(struct memory_graph *graph, const struct memory_process *process)
{
    struct raw_edge_vec raw = {0};
    for (struct fields each =
             fields_of(&process->message, PB_MemoryTrackerSnapshot_ProcessSnapshot_memory_edges);
         !graph->failed && raw.n < PARTS_MAX && fields_next(&each);) {
        MESSAGE(part, MemoryTrackerSnapshot_ProcessSnapshot_MemoryEdge, &each.field);
        struct raw_edge edge = {
            .source = field_u64(&part.source_id),
            .target = field_u64(&part.target_id),
            .importance = (uint32_t)field_u64(&part.importance),
            .index = raw.n,
        };
        graph->failed |= raw_edge_vec_push(&raw, edge) < 0;
    }
    if (raw.n)
        qsort(raw.items, raw.n, sizeof(*raw.items), raw_edge_compare);
    for (size_t i = 0; i < raw.n && !graph->failed && graph->edges.n < PARTS_MAX; i++)
        if (!i || raw.items[i].source != raw.items[i - 1].source)
            edge_add(graph, &raw.items[i]);
    raw_edge_vec_done(&raw);
}

static void processes_sort(struct memory_graph *graph, const struct wire_field *processes, size_t n)
{
    for (size_t i = 0; i < n && i < PARTS_MAX && !graph->failed; i++) {
        MESSAGE(part, MemoryTrackerSnapshot_ProcessSnapshot, &processes[i]);
        struct memory_process process = {
            .pid = (int32_t)field_u64(&part.pid),
            .root = (uint32_t)i,
            .message = processes[i],
        };
        graph->failed |= memory_process_vec_push(&graph->processes, process) < 0;
    }
    struct memory_process_vec *all = &graph->processes;
    if (all->n)
        qsort(all->items, all->n, sizeof(*all->items), process_compare);
    size_t n_kept = 0;
    for (size_t i = 0; i < all->n; i++)
        if (!n_kept || all->items[n_kept - 1].pid != all->items[i].pid)
            all->items[n_kept++] = all->items[i];
    all->n = n_kept;
}

int memory_graph_make(struct memory_graph *graph, struct strset *strings,
                      const struct wire_field *processes, size_t n)
{
    *graph = (struct memory_graph){.strings = strings};
    graph->size_name = strset_add_text(strings, TEXT("size"));
    graph->effective_size_name = strset_add_text(strings, TEXT("effective_size"));
    graph->unspecified_name = strset_add_text(strings, TEXT("<unspecified>"));
    graph->shared_root = node_add(graph, MEMORY_NONE, STRSET_NONE);
    processes_sort(graph, processes, n);
    for (size_t i = 0; i < graph->processes.n && !graph->failed; i++) {
        struct memory_process *process = &graph->processes.items[i];
        process->root = node_add(graph, MEMORY_NONE, STRSET_NONE);
        if (process->root == MEMORY_NONE) {
            graph->processes.n = i;
            break;
        }
        nodes_read(graph, process);
    }
    for (size_t i = 0; i < graph->processes.n && !graph->failed; i++)
        edges_read(graph, &graph->processes.items[i]);
    return graph->failed ? -ENOMEM : 0;
}

void memory_graph_done(struct memory_graph *graph)
{
    memory_process_vec_done(&graph->processes);
    memory_node_vec_done(&graph->nodes);
    memory_edge_vec_done(&graph->edges);
    memory_entry_vec_done(&graph->entries);
    map64_done(&graph->by_id);
    map64_done(&graph->children);
    map64_done(&graph->named);
}
