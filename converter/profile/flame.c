// SPDX-License-Identifier: Apache-2.0
//
// The tree is a vector with parents before their children. One walk from the end sums up all
// weights without recursion, however deep the stacks are.
#include "converter/profile/flame.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"

static uint32_t node_add(struct flame *flame, uint32_t parent, uint32_t name)
{
    struct flame_node node = {
        .name = name, .parent = parent, .first_child = FLAME_NONE, .next_sibling = FLAME_NONE};
    uint32_t id = (uint32_t)flame->nodes.n;
    if (parent != FLAME_NONE) {
        node.depth = flame->nodes.items[parent].depth + 1;
        node.next_sibling = flame->nodes.items[parent].first_child;
    }
    if (id == FLAME_NONE || flame_node_vec_push(&flame->nodes, node) < 0)
        return FLAME_NONE;
    if (parent != FLAME_NONE)
        flame->nodes.items[parent].first_child = id;
    return id;
}

static int root_add(struct flame *flame)
{
    if (flame->nodes.n > 0)
        return 0;
    uint32_t all = strset_add_text(&flame->names, TEXT("all"));
    return all == STRSET_NONE || node_add(flame, FLAME_NONE, all) == FLAME_NONE ? -ENOMEM : 0;
}

// Finds or makes the child of a node with this name. Returns FLAME_NONE if memory ran out.
static uint32_t child_of(struct flame *flame, uint32_t parent, const char *text)
{
    uint32_t name = strset_add(&flame->names, text, strlen(text));
    if (name == STRSET_NONE)
        return FLAME_NONE;
    bool is_new;
    uint64_t key = (uint64_t)parent << 32 | name;
    uint64_t *child = map64_get_or_add(&flame->children, key, (uint64_t)flame->nodes.n, &is_new);
    if (!child || (is_new && node_add(flame, parent, name) == FLAME_NONE))
        return FLAME_NONE;
    return (uint32_t)*child;
}

int flame_add(struct flame *flame, const char *const *frames, size_t n, int64_t before,
              int64_t after)
{
    uint32_t at = 0;
    int r = root_add(flame);
    for (size_t i = 0; r == 0 && i < n; i++) {
        at = child_of(flame, at, frames[i]);
        r = at == FLAME_NONE ? -ENOMEM : 0;
    }
    if (r < 0)
        return r;
    flame->nodes.items[at].self_before += before;
    flame->nodes.items[at].self_after += after;
    return 0;
}

int flame_add_tree(struct flame *flame, const struct flame *other, bool is_before)
{
    CLEANUP(freep) uint32_t *places = calloc(other->nodes.n + 1, sizeof(*places));
    int r = places ? root_add(flame) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < other->nodes.n; i++) { // parents before children
        const struct flame_node *node = &other->nodes.items[i];
        if (i > 0)
            places[i] =
                child_of(flame, places[node->parent], strset_text(&other->names, node->name));
        if (places[i] == FLAME_NONE)
            return -ENOMEM;
        struct flame_node *sum = &flame->nodes.items[places[i]];
        *(is_before ? &sum->self_before : &sum->self_after) += node->self_after;
    }
    return r;
}

void flame_finish(struct flame *flame)
{
    vec_foreach(&flame->nodes, node) {
        int64_t most = node->self_before > node->self_after ? node->self_before : node->self_after;
        node->before = node->self_before;
        node->after = node->self_after;
        node->width = most > 0 ? most : 0;
    }
    for (size_t i = flame->nodes.n; i-- > 1;) {
        const struct flame_node *node = &flame->nodes.items[i];
        struct flame_node *parent = &flame->nodes.items[node->parent];
        parent->before += node->before;
        parent->after += node->after;
        parent->width += node->width;
    }
}

void flame_done(struct flame *flame)
{
    flame_node_vec_done(&flame->nodes);
    strset_done(&flame->names);
    map64_done(&flame->children);
}

static void folded_name(const char *name, FILE *out)
{
    for (; *name; name++)
        putc(*name == ';' || (unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name, out);
}

void flame_folded(const struct flame *flame, FILE *out)
{
    struct flame_node_vec path = {0};
    for (size_t i = 1; i < flame->nodes.n; i++) {
        const struct flame_node *node = &flame->nodes.items[i];
        if (node->self_before == 0 && node->self_after == 0)
            continue;
        flame_node_vec_clear(&path);
        for (uint32_t at = (uint32_t)i; at != 0; at = flame->nodes.items[at].parent)
            if (flame_node_vec_push(&path, flame->nodes.items[at]) < 0)
                break;
        for (size_t k = path.n; k-- > 0;) {
            folded_name(strset_text(&flame->names, path.items[k].name), out);
            putc(k ? ';' : ' ', out);
        }
        if (flame->is_diff)
            fprintf(out, "%lld ", (long long)node->self_before);
        fprintf(out, "%lld\n", (long long)node->self_after);
    }
    flame_node_vec_done(&path);
}
