// SPDX-License-Identifier: Apache-2.0
//
// B-trees of pages, built from left to right: a table's tree from rows in the order of ids, an
// index's tree from sorted entries. A full page is never changed again.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/pages.h"
#include "converter/tables/record_format.h"

#define BTREE_LEVELS_MAX 12 // above the leaves; no tree is higher
#define BTREE_ENTRY_MAX  72 // bytes of an index's entry

struct btree_child {
    uint32_t page;
    uint8_t size;
    uint8_t border[BTREE_ENTRY_MAX]; // key between this child and the next child
};

struct btree_level {
    uint8_t *page; // owned
    size_t n_cells, content;
    struct btree_child pending[2]; // children that are not in the page yet
    size_t n_pending;
};

// All zero is an empty tree.
struct btree {
    uint8_t *leaf; // owned; NULL: no row yet
    size_t n_cells, content;
    int64_t last; // id of the last row
    bool is_index;
    uint32_t root; // page number of the root; 0: after the other pages
    struct btree_level levels[BTREE_LEVELS_MAX];
};

// Adds a row, whose id must be larger than all ids before. Returns 0 or a negative errno;
// pages->failure has failures of writing.
int btree_add(struct btree *tree, struct pages *pages, int64_t id, const struct record *record);

// Adds rows of one number each, with consecutive ids.
int btree_add_numbers(struct btree *tree, struct pages *pages, int64_t first_id,
                      const int64_t *numbers, size_t n);

// Adds an entry of an index, which must sort after all entries before: a byte with the size of its
// record, then the record. An entry has at most BTREE_ENTRY_MAX bytes.
int btree_add_entry(struct btree *tree, struct pages *pages, const uint8_t *entry, size_t size);

// Completes the tree. Returns the number of the root page; 0 if memory is out or writing failed.
uint32_t btree_finish(struct btree *tree, struct pages *pages);

// The same, but the root overwrites page `root` of the file. Returns 0 or a negative errno.
int btree_finish_at(struct btree *tree, struct pages *pages, uint32_t root);
void btree_done(struct btree *tree);
