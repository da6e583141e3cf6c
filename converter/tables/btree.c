// SPDX-License-Identifier: Apache-2.0
//
// Every page but the root must have a cell. A page above the leaves has one child more than cells,
// so two children are held back: when a page is full, the one goes along as its last child, and the
// next page has at least two to begin with.
#include "converter/tables/btree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_TYPE      0x0d
#define LEAF_HEADER    8
#define INNER_TYPE     0x05
#define INNER_HEADER   12
#define INNER_CELL_MAX (4 + VARINT_MAX)
#define POINTER        2
#define LOCAL_MAX      (PAGE_BYTES - 35)
#define LOCAL_MIN      ((PAGE_BYTES - 12) * 32 / 255 - 23)
#define CHAIN_BYTES    (PAGE_BYTES - 4)

// A page was filled from its end and from its front; this makes it whole.
static void page_close(uint8_t *page, uint8_t type, size_t n_cells, size_t content)
{
    page[0] = type;
    put_u16(page + 3, (uint32_t)n_cells);
    put_u16(page + 5, (uint32_t)content);
}

static int child_add(struct btree *tree, struct pages *pages, size_t at, struct btree_child child);

static void inner_cell_add(struct btree_level *level, const struct btree_child *child)
{
    uint8_t cell[INNER_CELL_MAX];
    put_u32(cell, child->page);
    size_t size = 4 + put_varint(cell + 4, (uint64_t)child->key);
    level->content -= size;
    memcpy(level->page + level->content, cell, size);
    put_u16(level->page + INNER_HEADER + POINTER * level->n_cells++, (uint32_t)level->content);
}

// The page and its last child; the page is a child of the level above from now on.
static int inner_close(struct btree *tree, struct pages *pages, size_t at, struct btree_child last)
{
    struct btree_level *level = &tree->levels[at];
    page_close(level->page, INNER_TYPE, level->n_cells, level->content);
    put_u32(level->page + 8, last.page);
    struct btree_child self = {pages_add(pages, level->page), last.key};
    memset(level->page, 0, PAGE_BYTES);
    level->n_cells = 0;
    level->content = PAGE_BYTES;
    return child_add(tree, pages, at + 1, self);
}

static int child_add(struct btree *tree, struct pages *pages, size_t at, struct btree_child child)
{
    if (at == BTREE_LEVELS_MAX)
        return -EFBIG;
    struct btree_level *level = &tree->levels[at];
    if (!level->page) {
        level->page = calloc(1, PAGE_BYTES);
        if (!level->page)
            return -ENOMEM;
        level->content = PAGE_BYTES;
    }
    if (level->n_pending < 2) {
        level->pending[level->n_pending++] = child;
        return 0;
    }
    // Room stays for one cell more: the last one of the tree.
    struct btree_child oldest = level->pending[0];
    level->pending[0] = level->pending[1];
    level->pending[1] = child;
    size_t used = INNER_HEADER + POINTER * level->n_cells;
    if (level->content - used < 2 * (INNER_CELL_MAX + POINTER))
        return inner_close(tree, pages, at, oldest);
    inner_cell_add(level, &oldest);
    return 0;
}

static int leaf_close(struct btree *tree, struct pages *pages, struct btree_child *ret)
{
    page_close(tree->leaf, LEAF_TYPE, tree->n_cells, tree->content);
    *ret = (struct btree_child){pages_add(pages, tree->leaf), tree->last};
    memset(tree->leaf, 0, PAGE_BYTES);
    tree->n_cells = 0;
    tree->content = PAGE_BYTES;
    return 0;
}

// What does not fit into the leaf goes into a chain of pages of its own.
static uint32_t chain_write(struct pages *pages, const uint8_t *bytes, size_t size)
{
    uint8_t page[PAGE_BYTES];
    uint32_t first = pages_number(pages, 0);
    while (size) {
        size_t n = size < CHAIN_BYTES ? size : CHAIN_BYTES;
        memset(page, 0, sizeof(page));
        put_u32(page, n < size ? pages_number(pages, 1) : 0);
        memcpy(page + 4, bytes, n);
        pages_add(pages, page);
        bytes += n;
        size -= n;
    }
    return first;
}

static size_t local_size(size_t size)
{
    if (size <= LOCAL_MAX)
        return size;
    size_t local = LOCAL_MIN + (size - LOCAL_MIN) % CHAIN_BYTES;
    return local <= LOCAL_MAX ? local : LOCAL_MIN;
}

static int leaf_make(struct btree *tree)
{
    tree->leaf = calloc(1, PAGE_BYTES);
    tree->content = PAGE_BYTES;
    return tree->leaf ? 0 : -ENOMEM;
}

int btree_add(struct btree *tree, struct pages *pages, int64_t id, const struct record *record)
{
    uint8_t head[2 * VARINT_MAX];
    if (!tree->leaf && leaf_make(tree) < 0)
        return -ENOMEM;
    size_t n_head = put_varint(head, record->size);
    n_head += put_varint(head + n_head, (uint64_t)id);
    size_t local = local_size(record->size);
    bool chained = local < record->size;
    size_t size = n_head + local + (chained ? 4 : 0);
    if (tree->content - (LEAF_HEADER + POINTER * tree->n_cells) < size + POINTER) {
        struct btree_child child;
        int r = leaf_close(tree, pages, &child);
        if (r == 0)
            r = child_add(tree, pages, 0, child);
        if (r < 0)
            return r;
    }
    tree->content -= size;
    uint8_t *cell = tree->leaf + tree->content;
    memcpy(cell, head, n_head);
    if (!chained) {
        record_write(record, cell + n_head);
    } else {
        uint8_t *whole = malloc(record->size);
        if (!whole)
            return -ENOMEM;
        record_write(record, whole);
        memcpy(cell + n_head, whole, local);
        put_u32(cell + n_head + local, chain_write(pages, whole + local, record->size - local));
        free(whole);
    }
    put_u16(tree->leaf + LEAF_HEADER + POINTER * tree->n_cells++, (uint32_t)tree->content);
    tree->last = id;
    return 0;
}

uint32_t btree_finish(struct btree *tree, struct pages *pages)
{
    struct btree_child child;
    if (!tree->leaf && leaf_make(tree) < 0)
        return 0;
    leaf_close(tree, pages, &child);
    for (size_t at = 0; at < BTREE_LEVELS_MAX && tree->levels[at].page; at++) {
        struct btree_level *level = &tree->levels[at];
        if (child_add(tree, pages, at, child) < 0)
            return 0;
        inner_cell_add(level, &level->pending[0]);
        page_close(level->page, INNER_TYPE, level->n_cells, level->content);
        put_u32(level->page + 8, level->pending[1].page);
        child = (struct btree_child){pages_add(pages, level->page), level->pending[1].key};
    }
    return pages->failure < 0 ? 0 : child.page;
}

void btree_done(struct btree *tree)
{
    free(tree->leaf);
    for (size_t i = 0; i < BTREE_LEVELS_MAX; i++)
        free(tree->levels[i].page);
    *tree = (struct btree){0};
}
