// SPDX-License-Identifier: Apache-2.0
//
// Trees of pages, built from left to right: a table's from rows in the order of their ids, an
// index's from its entries in order. Pages that are full are never touched again.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/tables/pages.h"
#include "converter/tables/record_format.h"

#define BTREE_LEVELS_MAX 12 // above the leaves; thousands of pages to a page make this plenty
#define BTREE_ENTRY_MAX  72 // bytes of an index's entry

struct btree_child {
    uint32_t page;
    uint8_t size;
    uint8_t border[BTREE_ENTRY_MAX]; // between it and the next one
};

struct btree_level {
    uint8_t *page; // owned
    size_t n_cells, content;
    struct btree_child pending[2]; // not in the page yet
    size_t n_pending;
};

// All zero is an empty tree.
struct btree {
    uint8_t *leaf; // owned; NULL: no row yet
    size_t n_cells, content;
    int64_t last;                        // id of the last row
    uint8_t held[BTREE_ENTRY_MAX], size; // the last entry, not in the tree yet
    bool is_index;
    uint32_t root; // where the root goes; 0: behind the other pages
    struct btree_level levels[BTREE_LEVELS_MAX];
};

// A row, whose id is larger than those before. 0 or -ENOMEM; pages have failures of their own.
int btree_add(struct btree *tree, struct pages *pages, int64_t id, const struct record *record);

// Rows of one number each, with ids that go up by one.
int btree_add_numbers(struct btree *tree, struct pages *pages, int64_t first_id,
                      const int64_t *numbers, size_t n);

// An entry of an index, behind those before: at most BTREE_ENTRY_MAX - 1 bytes.
int btree_add_entry(struct btree *tree, struct pages *pages, const struct record *record);

// Number of the root page. 0: no memory, or no room.
uint32_t btree_finish(struct btree *tree, struct pages *pages);

// The same; the root takes the place of page `root`, which the file has already. 0 or a
// negative errno.
int btree_finish_at(struct btree *tree, struct pages *pages, uint32_t root);
void btree_done(struct btree *tree);
