// SPDX-License-Identifier: Apache-2.0
//
// Finds the sizes of nodes. The size of a node is the largest of three numbers: the node's own
// number, the sum of its children and its largest owner. If the children have less than the size, a
// further child has the rest. The effective size counts no byte twice: the owners of a node are
// charged for the node's memory, the highest importance first, and in equal parts for equal
// importance. Only the rest stays with the node.
//
// Each step needs the results of the previous steps for all nodes. A step visits children and
// owners before a node, or after the node if the step passes parts down. A step breaks a cycle of
// ownership at the node that closes the cycle.
#include <errno.h>
#include <stdlib.h>

#include "converter/import/memory_snapshot/graph.h"

VEC_DEFINE(node_index_vec, uint32_t);

#define LEAVING (1u << 31) // flag of a stack entry: its children and owners were pushed

static struct memory_node *node_at(struct memory_graph *graph, uint32_t index)
{
    return &graph->nodes.items[index];
}

#define CHILDREN_FOREACH(graph, node, child)                                                       \
    for (uint32_t child = (node)->first_child; child != MEMORY_NONE;                               \
         child = node_at(graph, child)->next_sibling)

#define OWNERS_FOREACH(graph, node, edge)                                                          \
    for (uint32_t edge = (node)->first_owner; edge != MEMORY_NONE;                                 \
         edge = (graph)->edges.items[edge].next_owner)

static void push(struct memory_graph *graph, struct node_index_vec *stack, uint32_t index)
{
    graph->failed |= node_index_vec_push(stack, index) < 0;
}

static void neighbours_push(struct memory_graph *graph, struct node_index_vec *stack,
                            uint32_t index)
{
    const struct memory_node *node = node_at(graph, index);
    CHILDREN_FOREACH(graph, node, child)
    push(graph, stack, child);
    OWNERS_FOREACH(graph, node, edge)
    push(graph, stack, graph->edges.items[edge].source);
}

static void roots_push(struct memory_graph *graph, struct node_index_vec *stack)
{
    vec_foreach(&graph->nodes, node)
        node->visited = false;
    for (size_t i = graph->processes.n; i-- > 0;)
        push(graph, stack, graph->processes.items[i].root);
    push(graph, stack, graph->shared_root);
}

typedef void visit_fn(struct memory_graph *graph, uint32_t index);

// Visits children and owners before the node.
static void visit_upwards(struct memory_graph *graph, visit_fn *visit)
{
    struct node_index_vec stack = {0};
    roots_push(graph, &stack);
    while (stack.n && !graph->failed) {
        uint32_t index = stack.items[--stack.n];
        if (index & LEAVING) {
            visit(graph, index & ~LEAVING);
        } else if (!node_at(graph, index)->visited) {
            node_at(graph, index)->visited = true;
            push(graph, &stack, index | LEAVING);
            neighbours_push(graph, &stack, index);
        }
    }
    node_index_vec_done(&stack);
}

// Visits the node before its children and owners. A node waits for its parent and for the node that
// it owns: the last of these two pushes the waiting node again.
static void visit_downwards(struct memory_graph *graph, visit_fn *visit)
{
    struct node_index_vec stack = {0};
    roots_push(graph, &stack);
    while (stack.n && !graph->failed) {
        uint32_t index = stack.items[--stack.n];
        struct memory_node *node = node_at(graph, index);
        bool is_ready = (node->owns == MEMORY_NONE ||
                         node_at(graph, graph->edges.items[node->owns].target)->visited) &&
                        (node->parent == MEMORY_NONE || node_at(graph, node->parent)->visited);
        if (node->visited || !is_ready)
            continue;
        node->visited = true;
        neighbours_push(graph, &stack, index);
        visit(graph, index);
    }
    node_index_vec_done(&stack);
}

static bool is_below(struct memory_graph *graph, uint32_t index, uint32_t root)
{
    while (index != MEMORY_NONE && index != root)
        index = node_at(graph, index)->parent;
    return index == root;
}

// Returns the bytes that a node adds to its ancestor `root`. graph.c limits the depth.
static uint64_t size_below(struct memory_graph *graph, uint32_t root, uint32_t index)
{
    const struct memory_node *node = node_at(graph, index);
    if (node->owns != MEMORY_NONE && is_below(graph, graph->edges.items[node->owns].target, root))
        return 0;
    if (node->first_child == MEMORY_NONE)
        return node->has_size ? node->size : 0;
    uint64_t sum = 0;
    CHILDREN_FOREACH(graph, node, child)
    sum += size_below(graph, root, child);
    return sum;
}

static uint64_t largest_owner(struct memory_graph *graph, const struct memory_node *node,
                              bool *ret_known)
{
    uint64_t largest = 0;
    *ret_known = false;
    OWNERS_FOREACH(graph, node, edge)
    {
        const struct memory_node *owner = node_at(graph, graph->edges.items[edge].source);
        *ret_known |= owner->has_size;
        if (owner->has_size && owner->size > largest)
            largest = owner->size;
    }
    return largest;
}

static void size_find(struct memory_graph *graph, uint32_t index)
{
    struct memory_node *node = node_at(graph, index);
    bool has_children = node->first_child != MEMORY_NONE, has_owner;
    uint64_t of_children = 0, size = largest_owner(graph, node, &has_owner);
    CHILDREN_FOREACH(graph, node, child)
    of_children += size_below(graph, index, child);
    if (!node->has_size && !has_children && !has_owner)
        return;
    if (node->has_size && node->size > size)
        size = node->size;
    if (of_children > size)
        size = of_children;
    node->has_size = true;
    node->size = size;
    if (size == of_children || !has_children)
        return;
    size_t n_before = graph->nodes.n;
    uint32_t rest = memory_child_get(graph, index, graph->unspecified_name);
    if (rest == MEMORY_NONE || graph->nodes.n == n_before)
        return;
    node_at(graph, rest)->has_size = true;
    node_at(graph, rest)->size = size - of_children;
    node_at(graph, rest)->visited = true; // this pass need not visit the new node
}

static void sub_sizes_find(struct memory_graph *graph, uint32_t index)
{
    struct memory_node *node = node_at(graph, index);
    if (!node->has_size)
        return;
    if (node->first_child == MEMORY_NONE) {
        node->not_owning = node->not_owned = node->size;
        return;
    }
    CHILDREN_FOREACH(graph, node, child_index)
    {
        const struct memory_node *child = node_at(graph, child_index);
        bool has_owner;
        if (child->owns == MEMORY_NONE)
            node->not_owning += child->not_owning;
        if (child->first_owner == MEMORY_NONE)
            node->not_owned += child->not_owned;
        else
            node->not_owned +=
                (child->has_size ? child->size : 0) - largest_owner(graph, child, &has_owner);
    }
}

struct owner {
    struct memory_node *node;
    uint32_t importance;
};
VEC_DEFINE(owner_vec, struct owner);

// Orders by importance, the highest first, then by size, the smallest first.
static int owner_compare(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;
    int32_t left = (int32_t)x->importance, right = (int32_t)y->importance;
    if (left != right)
        return left > right ? -1 : 1;
    uint64_t small = x->node->not_owning, large = y->node->not_owning;
    return (small > large) - (small < large);
}

// Charges owners of the same importance, in order of size. All owners share the size of the
// smallest owner; the other owners share the excess of the next owner, and so on. `charged`: bytes
// that owners are charged for already. Returns the new number.
static uint64_t owners_share(const struct owner *owners, size_t n, uint64_t charged)
{
    double own_part = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = owners[i].node->not_owning;
        if (size > charged) {
            own_part += (double)(size - charged) / (double)(n - i);
            charged = size;
        }
        if (size)
            owners[i].node->owning_part = own_part / (double)size;
    }
    return charged;
}

static void parts_find(struct memory_graph *graph, uint32_t index)
{
    struct memory_node *node = node_at(graph, index);
    struct owner_vec owners = {0};
    if (!node->has_size || node->first_owner == MEMORY_NONE)
        return;
    OWNERS_FOREACH(graph, node, edge)
    {
        struct owner owner = {node_at(graph, graph->edges.items[edge].source),
                              graph->edges.items[edge].importance};
        graph->failed |= owner_vec_push(&owners, owner) < 0;
    }
    if (owners.n)
        qsort(owners.items, owners.n, sizeof(*owners.items), owner_compare);
    uint64_t charged = 0;
    for (size_t begin = 0, end; begin < owners.n; begin = end) {
        for (end = begin; end < owners.n; end++)
            if (owners.items[end].importance != owners.items[begin].importance)
                break;
        charged = owners_share(owners.items + begin, end - begin, charged);
    }
    if (node->not_owned)
        node->owned_part = (double)(node->not_owned - charged) / (double)node->not_owned;
    owner_vec_done(&owners);
}

static void all_parts_find(struct memory_graph *graph, uint32_t index)
{
    struct memory_node *node = node_at(graph, index);
    const struct memory_node *parent =
        node->parent == MEMORY_NONE ? NULL : node_at(graph, node->parent);
    if (!node->has_size)
        return;
    node->all_owned_part = node->owned_part * (parent ? parent->all_owned_part : 1);
    if (node->owns != MEMORY_NONE)
        node->all_owning_part =
            node->owning_part *
            node_at(graph, graph->edges.items[node->owns].target)->all_owning_part;
    else
        node->all_owning_part = parent ? parent->all_owning_part : 1;
}

static uint64_t bytes_of(double bytes)
{
    if (!(bytes > 0))
        return 0;
    return bytes < 0x1p64 ? (uint64_t)bytes : UINT64_MAX;
}

static void effective_size_find(struct memory_graph *graph, uint32_t index)
{
    struct memory_node *node = node_at(graph, index);
    if (!node->has_size)
        node->has_effective_size = false;
    if (!node->has_size || node->has_effective_size)
        return;
    node->has_effective_size = true;
    if (node->first_child == MEMORY_NONE)
        node->effective_size =
            bytes_of((double)node->size * node->all_owning_part * node->all_owned_part);
    CHILDREN_FOREACH(graph, node, child)
    if (node_at(graph, child)->has_size)
        node->effective_size += node_at(graph, child)->effective_size;
}

int memory_sizes_find(struct memory_graph *graph)
{
    visit_upwards(graph, size_find);
    visit_upwards(graph, sub_sizes_find);
    visit_upwards(graph, parts_find);
    visit_downwards(graph, all_parts_find);
    visit_upwards(graph, effective_size_find);
    return graph->failed ? -ENOMEM : 0;
}
