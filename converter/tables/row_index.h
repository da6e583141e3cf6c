// SPDX-License-Identifier: Apache-2.0
//
// An index of a table, built while the rows of the table arrive; or a clustered table, whose only
// rows are the entries of the index (see indexes.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/tables/btree.h"
#include "converter/tables/group_log.h"
#include "converter/tables/indexes.h"

#define ROW_INDEX_TEXTS_MAX      64 // different texts
#define ROW_INDEX_TEXT_BYTES_MAX 24

struct row_index_text {
    char bytes[ROW_INDEX_TEXT_BYTES_MAX];
    uint8_t size;
};

// The leaf that a group fills.
struct open_leaf {
    struct btree_leaf leaf;
    struct index_result counts; // of the group's entries in leaves
    int64_t last[GROUP_LOG_COLUMNS_MAX];
};
VEC_DEFINE(open_leaf_vec, struct open_leaf);

struct row_index {
    const struct index_def *def; // borrowed
    struct pages *pages;         // borrowed
    const char *folder;          // borrowed; may be NULL
    struct group_log log;        // the entries that are in no leaf yet
    struct group_log leaves;     // leaves in the file: the page, and the entry after the leaf
    struct open_leaf_vec open;   // owned; of the groups that fill leaves
    uint64_t n_until_reserved;   // entries whose room in the file is reserved
    uint64_t n_reserved;         // bytes of the budget
    struct map64 moved;          // groups whose rows belong to another group -> that group
    const int64_t *add;          // borrowed: shifts of the table's columns; NULL: none
    bool given_up;               // a row is not supported, so SQLite makes the index
    struct row_index_text texts[ROW_INDEX_TEXTS_MAX];
    size_t n_texts, last_text;
};

// Makes an empty index. All pointers are borrowed; `folder` may be NULL.
void row_index_init(struct row_index *index, const struct index_def *def, struct pages *pages,
                    const char *folder);

// Adds an entry of the index of kernel events. Returns 0 or a negative errno.
int row_index_add_event(struct row_index *index, int64_t kind, int64_t ts, int64_t id);

// Adds the row `id` of `width` cells. Returns 0 or a negative errno.
int row_index_add(struct row_index *index, const struct cell *row, size_t width, int64_t id);

// Moves all rows of a group of a clustered table to another group, also rows that are added later.
// Returns 0 or -ENOMEM.
int row_index_move(struct row_index *index, uint32_t from, uint32_t to);

// Writes the index. Returns 0 or a negative errno.
int row_index_finish(struct row_index *index, struct index_result *ret);
void row_index_done(struct row_index *index);
