// SPDX-License-Identifier: Apache-2.0
//
// Memory that processes report of themselves, as a graph: a tree of nodes for each process and one
// for memory that they share, and edges that say which node's memory another one's owner pays for.
// Sizes of the nodes follow from it (sizes.c).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "common/wire.h"

#define MEMORY_NONE UINT32_MAX

// A statistic of a node.
struct memory_entry {
    uint32_t name, text; // strings; text MEMORY_NONE: it is a number
    uint32_t next;
    bool in_bytes;
    uint64_t number;
};
VEC_DEFINE(memory_entry_vec, struct memory_entry);

struct memory_node {
    uint32_t name; // string: the last part of its path
    uint32_t parent, first_child, last_child, next_sibling;
    uint32_t first_entry, last_entry;
    uint32_t owns;        // edge to what it owns, the last one
    uint32_t first_owner; // edge that ends here
    uint64_t id;          // in the trace; 0: none
    bool has_size, has_effective_size;
    uint64_t size, effective_size;
    // Of its size, what it does not own elsewhere, and what nobody else owns; see sizes.c.
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
    struct wire_field message; // its ProcessSnapshot; borrowed
};
VEC_DEFINE(memory_process_vec, struct memory_process);

struct memory_graph {
    struct strset *strings;              // borrowed
    struct memory_process_vec processes; // by pid
    uint32_t shared_root;
    struct memory_node_vec nodes;
    struct memory_edge_vec edges;
    struct memory_entry_vec entries;
    struct map64 by_id;    // nodes
    struct map64 children; // of node and name
    struct map64 named;    // entries of node and name
    uint32_t size_name, effective_size_name, unspecified_name;
    uint32_t n_failures; // parts that cannot be read, or are more than a limit
    bool failed;         // memory is out
};

// Processes of one moment, from pid 0 up; of several with one pid the first counts.
int memory_graph_make(struct memory_graph *graph, struct strset *strings,
                      const struct wire_field *processes, size_t n);

// The child of that name, made if there is none. MEMORY_NONE: too many, or graph->failed.
uint32_t memory_child_get(struct memory_graph *graph, uint32_t parent, uint32_t name);

// Sizes of all nodes, and the parts that their owners pay for. -ENOMEM.
int memory_sizes_find(struct memory_graph *graph);

void memory_graph_done(struct memory_graph *graph);
