// SPDX-License-Identifier: Apache-2.0
//
// The memory that processes report, as a graph: a tree of nodes for each process, a tree for shared
// memory, and edges from a node to a node whose memory it owns. sizes.c derives the sizes of the
// nodes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "common/wire.h"

#define MEMORY_NONE UINT32_MAX

// A statistic of a node.
struct memory_entry {
    uint32_t name, text; // strings; text MEMORY_NONE: the entry is a number
    uint32_t next;
    bool in_bytes;
    uint64_t number;
};
VEC_DEFINE(memory_entry_vec, struct memory_entry);

struct memory_node {
    uint32_t name; // string: the last part of its path
    uint32_t parent, first_child, last_child, next_sibling;
    uint32_t first_entry, last_entry;
    uint32_t owns;        // the last edge to an owned node
    uint32_t first_owner; // head of the list of edges to this node
    uint64_t id;          // in the trace; 0: none
    bool has_size, has_effective_size;
    uint64_t size, effective_size;
    // Parts of `size` in bytes: without nodes that own other nodes (not_owning), and without memory
    // that owners claim (not_owned); see sizes.c.
    uint64_t not_owning, not_owned;
    double owned_part, owning_part, all_owned_part, all_owning_part;
    bool visited;
};
VEC_DEFINE(memory_node_vec, struct memory_node);

struct memory_edge {
    uint32_t source, target, next_owner;
    uint32_t importance;
};
VEC_DEFINE(memory_edge_vec, struct memory_edge);

struct memory_process {
    int32_t pid;
    uint32_t root;
    struct wire_field message; // ProcessSnapshot of the process; borrowed
};
VEC_DEFINE(memory_process_vec, struct memory_process);

struct memory_graph {
    struct strset *strings;              // borrowed
    struct memory_process_vec processes; // in order of pid
    uint32_t shared_root;
    struct memory_node_vec nodes;
    struct memory_edge_vec edges;
    struct memory_entry_vec entries;
    struct map64 by_id;    // id -> node
    struct map64 children; // parent and name -> node
    struct map64 named;    // node and name -> entry
    uint32_t size_name, effective_size_name, unspecified_name;
    uint32_t n_failures; // parts that are damaged or exceed a limit
    bool failed;         // memory ran out
};

// Builds the graph of a snapshot's processes, in order of pid. The first of several processes with
// the same pid counts. Returns 0 or -ENOMEM.
int memory_graph_make(struct memory_graph *graph, struct strset *strings,
                      const struct wire_field *processes, size_t n);

// Returns the child `name`; adds a missing child. MEMORY_NONE: too many nodes, or graph->failed.
uint32_t memory_child_get(struct memory_graph *graph, uint32_t parent, uint32_t name);

// Finds the sizes and effective sizes of all nodes. Returns 0 or -ENOMEM.
int memory_sizes_find(struct memory_graph *graph);

void memory_graph_done(struct memory_graph *graph);
