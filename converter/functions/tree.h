// SPDX-License-Identifier: Apache-2.0
//
// A tree made of rows. The first two columns of a row are its id and the id of its parent; ids may
// be any 64-bit number. Parents may come after their children.
#pragma once

#include "converter/functions/graph.h"

struct tree {
    struct value_rows rows;
    struct map64 row_of; // by id
    uint32_t n;          // rows
    uint32_t *parent;    // owned; by row, of the input; NO_NODE: a root
    uint32_t *order;     // owned; the input's row at each place of the output
    uint32_t *place;     // owned; the inverse of order
};

// Finds the parents of the collected rows, and an order in which each parent comes before its
// children. Returns NULL, or an error text about the rows. *ret_failed is true if memory ran out.
const char *tree_build(struct tree *tree, bool *ret_failed);
void tree_free(void *tree); // a destructor for SQLite; NULL is allowed
