// SPDX-License-Identifier: Apache-2.0
//
// A table's tree of pages, built from rows in the order of their ids: leaves are filled one behind
// the other and never touched again.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/tables/pages.h"
#include "converter/tables/record.h"

#define BTREE_LEVELS_MAX 12 // above the leaves; thousands of pages to a page make this plenty

struct btree_child {
    uint32_t page;
    int64_t key; // the largest below it
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
    int64_t last; // id of the last row
    struct btree_level levels[BTREE_LEVELS_MAX];
};

// A row, whose id is larger than those before. 0 or -ENOMEM; pages have failures of their own.
int btree_add(struct btree *tree, struct pages *pages, int64_t id, const struct record *record);

// Number of the root page. 0: no memory, or no room.
uint32_t btree_finish(struct btree *tree, struct pages *pages);
void btree_done(struct btree *tree);
