// SPDX-License-Identifier: Apache-2.0
//
// Every page but the root must have a cell. A page above the leaves has one child more than cells.
// Therefore two children are held back: a full page gets one of them as its last child, and the
// next page begins with two children. In an index, the border between two leaves is an entry that
// is in neither leaf: the last entry of the leaf that is full.
#include "converter/tables/btree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_TYPE    0x0d
#define INDEX_LEAF   0x0a
#define INDEX_INNER  0x02
#define LEAF_HEADER  8
#define INNER_TYPE   0x05
#define INNER_HEADER 12
#define POINTER      2
#define LOCAL_MAX    (PAGE_BYTES - 35)
#define LOCAL_MIN    ((PAGE_BYTES - 12) * 32 / 255 - 23)
#define CHAIN_BYTES  (PAGE_BYTES - 4)

// Writes the header of a page that was filled from both ends.
static void page_close(uint8_t *page, uint8_t type, size_t n_cells, size_t content)
{
    page[0] = type;
    put_u16(page + 3, (uint32_t)n_cells);
    put_u16(page + 5, (uint32_t)content);
}

static void inner_cell_add(struct btree_level *level, const struct btree_child *child)
{
    level->content -= 4u + child->size;
    put_u32(level->page + level->content, child->page);
    memcpy(level->page + level->content + 4, child->border, child->size);
    put_u16(level->page + INNER_HEADER + POINTER * level->n_cells++, (uint32_t)level->content);
}

static uint32_t page_put(struct pages *pages, const uint8_t *page, uint32_t place)
{
    if (!place)
        return pages_put(pages, page);
    pages_replace(pages, place, page);
    return place;
}

// Writes the page with its last child and begins a new page. Returns the page's number.
static uint32_t inner_close(struct btree *tree, struct pages *pages, struct btree_level *level,
                            uint32_t last, uint32_t place)
{
    page_close(level->page, tree->is_index ? INDEX_INNER : INNER_TYPE, level->n_cells,
               level->content);
    put_u32(level->page + 8, last);
    uint32_t number = page_put(pages, level->page, place);
    memset(level->page, 0, PAGE_BYTES);
    level->n_cells = 0;
    level->content = PAGE_BYTES;
    return number;
}

// Holds back a child with its border. The level has at most one pending child before the call.
static void pending_push(struct btree_level *level, const struct btree_child *child)
{
    uint8_t *border = level->page + PAGE_BYTES + level->next_border * BTREE_ENTRY_MAX;
    level->next_border = !level->next_border;
    memcpy(border, child->border, child->size);
    level->pending[level->n_pending++] =
        (struct btree_child){.page = child->page, .size = child->size, .border = border};
}

static size_t inner_cell_room(const struct btree_child *child)
{
    return 4u + child->size + POINTER;
}

static int child_add(struct btree *tree, struct pages *pages, size_t at,
                     const struct btree_child *child)
{
    int r = 0;
    if (at == BTREE_LEVELS_MAX)
        return -EFBIG;
    struct btree_level *level = &tree->levels[at];
    if (!level->page) {
        level->page = calloc(1, PAGE_BYTES + 2 * BTREE_ENTRY_MAX);
        if (!level->page)
            return -ENOMEM;
        level->content = PAGE_BYTES;
    }
    if (level->n_pending == 2) {
        struct btree_child oldest = level->pending[0];
        // Two more cells must fit: they can be the last cells of the tree.
        size_t room = level->content - (INNER_HEADER + POINTER * level->n_cells);
        if (room < inner_cell_room(&oldest) + inner_cell_room(&level->pending[1]) +
                       inner_cell_room(child)) {
            oldest.page = inner_close(tree, pages, level, oldest.page, 0);
            r = child_add(tree, pages, at + 1, &oldest);
        } else {
            inner_cell_add(level, &oldest);
        }
        level->pending[0] = level->pending[1];
        level->n_pending = 1;
    }
    pending_push(level, child);
    return r;
}

static uint32_t leaf_close(struct btree_leaf *leaf, struct pages *pages, uint8_t type,
                           uint32_t place)
{
    page_close(leaf->page, type, leaf->n_cells, leaf->content);
    uint32_t number = page_put(pages, leaf->page, place);
    memset(leaf->page, 0, PAGE_BYTES);
    leaf->n_cells = 0;
    leaf->content = PAGE_BYTES;
    return number;
}

static size_t leaf_room(const struct btree_leaf *leaf)
{
    return leaf->content - (LEAF_HEADER + POINTER * leaf->n_cells);
}

// Adds a cell of `size` bytes and returns its place. The leaf must have room for the cell.
static inline uint8_t *leaf_cell(struct btree_leaf *leaf, size_t size)
{
    leaf->content -= size;
    put_u16(leaf->page + LEAF_HEADER + POINTER * leaf->n_cells++, (uint32_t)leaf->content);
    return leaf->page + leaf->content;
}

// Writes the rest of a long record into a chain of overflow pages. Returns the first page.
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

int btree_leaf_open(struct btree_leaf *leaf)
{
    *leaf = (struct btree_leaf){.page = calloc(1, PAGE_BYTES), .content = PAGE_BYTES};
    return leaf->page ? 0 : -ENOMEM;
}

// Writes the full leaf and adds it to the level above.
static int leaf_next(struct btree *tree, struct pages *pages)
{
    uint8_t border[VARINT_MAX];
    struct btree_child child = {.page = leaf_close(&tree->leaf, pages, LEAF_TYPE, 0),
                                .size = (uint16_t)put_varint(border, (uint64_t)tree->last),
                                .border = border};
    return child_add(tree, pages, 0, &child);
}

// Prepares the leaf for a cell of `size` bytes. Returns 0 or a negative errno.
static inline int leaf_prepare(struct btree *tree, struct pages *pages, size_t size)
{
    if (!tree->leaf.page && btree_leaf_open(&tree->leaf) < 0)
        return -ENOMEM;
    return leaf_room(&tree->leaf) < size + POINTER ? leaf_next(tree, pages) : 0;
}

int btree_add(struct btree *tree, struct pages *pages, int64_t id, const struct record *record)
{
    uint8_t head[2 * VARINT_MAX];
    size_t n_head = put_varint(head, record->size);
    n_head += put_varint(head + n_head, (uint64_t)id);
    size_t local = local_size(record->size);
    bool chained = local < record->size;
    size_t size = n_head + local + (chained ? 4 : 0);
    int r = leaf_prepare(tree, pages, size);
    if (r < 0)
        return r;
    uint8_t *cell = leaf_cell(&tree->leaf, size);
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
    tree->last = id;
    return 0;
}

_Static_assert(sizeof(struct event_record) < LOCAL_MAX, "records of events have no chains");

int btree_add_event(struct btree *tree, struct pages *pages, int64_t id,
                    const struct event_record *record)
{
    uint8_t head[2 * VARINT_MAX];
    size_t n_head = put_varint(head, record->n_head + record->n_body);
    n_head += put_varint(head + n_head, (uint64_t)id);
    size_t size = n_head + record->n_head + record->n_body;
    int r = leaf_prepare(tree, pages, size);
    if (r < 0)
        return r;
    uint8_t *cell = leaf_cell(&tree->leaf, size);
    memcpy(cell, head, n_head);
    memcpy(cell + n_head, record->head, record->n_head);
    memcpy(cell + n_head + record->n_head, record->body, record->n_body);
    tree->last = id;
    return 0;
}

// Copies a cell. Fast for the usual 8 to 16 bytes.
static void cell_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    if (size < 8 || size > 16) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, from, 8);
    memcpy(to + size - 8, from + size - 8, 8);
}

int btree_add_numbers(struct btree *tree, struct pages *pages, int64_t first_id,
                      const int64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t cell[1 + VARINT_MAX + RECORD_NUMBER_MAX];
        int64_t id = first_id + (int64_t)i;
        size_t n_head = 1 + put_varint(cell + 1, (uint64_t)id);
        size_t size = n_head + record_write_number(numbers[i], cell + n_head);
        cell[0] = (uint8_t)(size - n_head);
        int r = leaf_prepare(tree, pages, size);
        if (r < 0)
            return r;
        cell_copy(leaf_cell(&tree->leaf, size), cell, size);
        tree->last = id;
    }
    return 0;
}

// Returns the size of an entry. The entry begins with the size of its record, in one or two bytes.
static size_t entry_size(const uint8_t *entry)
{
    return entry[0] < 0x80 ? 1u + entry[0] : 2u + ((entry[0] & 0x7fu) << 7 | entry[1]);
}

// Takes the entry that was added last out of the leaf. Returns its size.
static uint16_t last_entry_take(struct btree_leaf *leaf, uint8_t *ret)
{
    uint8_t *last = leaf->page + leaf->content;
    uint16_t size = (uint16_t)entry_size(last);
    if (ret)
        memcpy(ret, last, size);
    memset(last, 0, size);
    leaf->content += size;
    put_u16(leaf->page + LEAF_HEADER + POINTER * --leaf->n_cells, 0);
    return size;
}

// Takes the last entry out of the full leaf, writes the leaf and adds it to the level above.
static int entry_leaf_next(struct btree *tree, struct pages *pages)
{
    uint8_t border[BTREE_ENTRY_MAX];
    struct btree_child child = {.border = border};
    child.size = last_entry_take(&tree->leaf, border);
    child.page = leaf_close(&tree->leaf, pages, INDEX_LEAF, 0);
    return child_add(tree, pages, 0, &child);
}

// Copies an entry. Fast for the usual 16 to 32 bytes.
static void entry_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    if (size < 16 || size > 32) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, from, 16);
    memcpy(to + size - 16, from + size - 16, 16);
}

bool btree_leaf_add(struct btree_leaf *leaf, const uint8_t *entry, size_t size)
{
    if (leaf_room(leaf) < size + POINTER)
        return false;
    entry_copy(leaf_cell(leaf, size), entry, size);
    return true;
}

uint32_t btree_leaf_write(struct btree_leaf *leaf, struct pages *pages)
{
    last_entry_take(leaf, NULL);
    return leaf_close(leaf, pages, INDEX_LEAF, 0);
}

void btree_leaf_end(struct btree_leaf *leaf)
{
    page_close(leaf->page, INDEX_LEAF, leaf->n_cells, leaf->content);
}

static size_t get_u16(const uint8_t *from)
{
    return (size_t)from[0] << 8 | from[1];
}

size_t btree_n_cells(const uint8_t *page)
{
    return get_u16(page + 3);
}

const uint8_t *btree_cell(const uint8_t *page, size_t i)
{
    return page + get_u16(page + LEAF_HEADER + POINTER * i);
}

int btree_add_entry(struct btree *tree, struct pages *pages, const uint8_t *entry, size_t size)
{
    if (!tree->leaf.page && btree_leaf_open(&tree->leaf) < 0)
        return -ENOMEM;
    if (size > BTREE_ENTRY_MAX)
        return -EINVAL;
    if (btree_leaf_add(&tree->leaf, entry, size))
        return 0;
    int r = entry_leaf_next(tree, pages);
    btree_leaf_add(&tree->leaf, entry, size);
    return r;
}

int btree_reserve_two(struct btree *tree, struct pages *pages, size_t size)
{
    bool has_room = !tree->leaf.page || leaf_room(&tree->leaf) >= 2 * (size + POINTER);
    return has_room ? 0 : entry_leaf_next(tree, pages);
}

int btree_add_leaf(struct btree *tree, struct pages *pages, uint32_t page, const uint8_t *border,
                   size_t size)
{
    struct btree_child child = {.page = page, .size = (uint16_t)size, .border = border};
    int r = tree->leaf.n_cells ? entry_leaf_next(tree, pages) : 0;
    return r < 0 ? r : child_add(tree, pages, 0, &child);
}

int btree_add_open_leaf(struct btree *tree, struct pages *pages, const struct btree_leaf *leaf)
{
    int r = tree->leaf.n_cells ? entry_leaf_next(tree, pages) : 0;
    memcpy(tree->leaf.page, leaf->page, PAGE_BYTES);
    tree->leaf.n_cells = leaf->n_cells;
    tree->leaf.content = leaf->content;
    return r;
}

static bool is_top(const struct btree *tree, size_t level)
{
    return level == BTREE_LEVELS_MAX || !tree->levels[level].page;
}

uint32_t btree_finish(struct btree *tree, struct pages *pages)
{
    if (!tree->leaf.page && btree_leaf_open(&tree->leaf) < 0)
        return 0;
    uint32_t last = leaf_close(&tree->leaf, pages, tree->is_index ? INDEX_LEAF : LEAF_TYPE,
                               is_top(tree, 0) ? tree->root : 0);
    for (size_t at = 0; !is_top(tree, at); at++) {
        struct btree_level *level = &tree->levels[at];
        for (size_t i = 0; i < level->n_pending; i++)
            inner_cell_add(level, &level->pending[i]);
        last = inner_close(tree, pages, level, last, is_top(tree, at + 1) ? tree->root : 0);
    }
    return pages->failure < 0 ? 0 : last;
}

int btree_finish_at(struct btree *tree, struct pages *pages, uint32_t root)
{
    tree->root = root;
    if (btree_finish(tree, pages))
        return 0;
    return pages->failure < 0 ? pages->failure : -ENOMEM;
}

void btree_done(struct btree *tree)
{
    free(tree->leaf.page);
    for (size_t i = 0; i < BTREE_LEVELS_MAX; i++)
        free(tree->levels[i].page);
    *tree = (struct btree){0};
}
