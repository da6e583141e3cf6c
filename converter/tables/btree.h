// SPDX-License-Identifier: Apache-2.0
//
// B-trees of pages, built from left to right: a table's tree from rows in the order of ids, an
// index's tree from sorted entries. A full page is never changed again.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/event_rows.h"
#include "converter/tables/pages.h"
#include "converter/tables/record_format.h"

#define BTREE_LEVELS_MAX 12 // above the leaves; no tree is higher
// Bytes of an index's entry. SQLite moves the rest of a longer record to other pages.
#define BTREE_ENTRY_MAX (2 + (PAGE_BYTES - 12) * 64 / 255 - 23)

struct btree_child {
    uint32_t page;
    uint16_t size;
    const uint8_t *border; // borrowed: the key between this child and the next child
};

struct btree_level {
    uint8_t *page; // owned, with room for the borders of `pending` after the page
    size_t n_cells, content;
    struct btree_child pending[2]; // children that are not in the page yet
    size_t n_pending;
    size_t next_border; // the place of the next border: 0 or 1
};

// A leaf that is being filled. All zero has no page.
struct btree_leaf {
    uint8_t *page; // owned
    size_t n_cells, content;
};

// All zero is an empty tree.
struct btree {
    struct btree_leaf leaf; // without a page: the tree has no row yet
    int64_t last;           // id of the last row
    bool is_index;
    uint32_t root; // page number of the root; 0: after the other pages
    struct btree_level levels[BTREE_LEVELS_MAX];
};

// Adds a row. The id must be larger than the ids of all rows before. Returns 0 or a negative errno;
// pages->failure has failures of writing.
int btree_add(struct btree *tree, struct pages *pages, int64_t id, const struct record *record);

// Adds the row of a kernel event, whose record fits into a page.
int btree_add_event(struct btree *tree, struct pages *pages, int64_t id,
                    const struct event_record *record);

// Adds rows of one number each, with consecutive ids.
int btree_add_numbers(struct btree *tree, struct pages *pages, int64_t first_id,
                      const int64_t *numbers, size_t n);

// Adds an entry of an index: the size of its record as a varint, then the record. The entry must
// sort after all entries before. An entry has at most BTREE_ENTRY_MAX bytes.
int btree_add_entry(struct btree *tree, struct pages *pages, const uint8_t *entry, size_t size);

// -- leaves of an index's tree that are filled outside the tree --

// Opens an empty leaf. Returns 0 or -ENOMEM.
int btree_leaf_open(struct btree_leaf *leaf);

// Adds an entry. Returns false if the leaf is full.
bool btree_leaf_add(struct btree_leaf *leaf, const uint8_t *entry, size_t size);

// Takes the last entry out of the leaf and writes the leaf, which must have other entries. The tree
// has this entry between this leaf and the next. Empties the leaf. Returns the number of the page,
// or 0 if pages->failure is set.
uint32_t btree_leaf_write(struct btree_leaf *leaf, struct pages *pages);

// Writes the header of a leaf that stays in memory, for btree_n_cells() and btree_cell().
void btree_leaf_end(struct btree_leaf *leaf);

// btree_n_cells() returns the number of entries of a leaf's page. btree_cell() returns an entry, in
// order of arrival.
size_t btree_n_cells(const uint8_t *page);
const uint8_t *btree_cell(const uint8_t *page, size_t i);

// Makes room for two entries of at most `size` bytes in the tree's last leaf, so that a leaf can
// follow the two entries.
int btree_reserve_two(struct btree *tree, struct pages *pages, size_t size);

// Adds a written leaf and the entry after the leaf. Both must sort after all entries before. The
// tree's last leaf must have two entries or more, or btree_add_leaf() must have added it.
int btree_add_leaf(struct btree *tree, struct pages *pages, uint32_t page, const uint8_t *border,
                   size_t size);

// Adds the entries of a leaf with a page. Further entries may follow.
int btree_add_open_leaf(struct btree *tree, struct pages *pages, const struct btree_leaf *leaf);

// Completes the tree. Returns the number of the root page, or 0 if memory ran out or writing
// failed.
uint32_t btree_finish(struct btree *tree, struct pages *pages);

// As btree_finish(), but the root overwrites page `root` of the file. Returns 0 or a negative
// errno.
int btree_finish_at(struct btree *tree, struct pages *pages, uint32_t root);
void btree_done(struct btree *tree);
