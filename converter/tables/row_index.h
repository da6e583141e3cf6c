// SPDX-License-Identifier: Apache-2.0
//
// An index of a table, made from its rows as they come; or a clustered table, which has no other
// rows (see indexes.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "converter/tables/btree.h"
#include "converter/tables/group_log.h"
#include "converter/tables/indexes.h"

#define ROW_INDEX_TEXTS_MAX      64 // different texts
#define ROW_INDEX_TEXT_BYTES_MAX 24

struct row_index_text {
    char bytes[ROW_INDEX_TEXT_BYTES_MAX];
    uint8_t size;
};

// All zero but `def` is empty.
struct row_index {
    const struct index_def *def; // borrowed
    struct group_log log;        // the entries
    uint64_t n_until_reserved;   // entries whose room in the file is reserved
    uint64_t n_reserved;         // bytes of the budget
    struct map64 moved;          // groups whose rows belong to another group -> that group
    const int64_t *add;          // borrowed: shifts of the table's columns; NULL: none
    bool given_up;               // an index with a row that is not supported: SQLite makes it
    struct row_index_text texts[ROW_INDEX_TEXTS_MAX];
    size_t n_texts, last_text;
};

// The result of row_index_finish().
struct row_index_result {
    uint32_t root;                          // root page; 0: SQLite must make the index
    uint64_t n;                             // entries
    uint64_t n_distinct[INDEX_COLUMNS_MAX]; // distinct values of the first 1, 2, ... key columns
};

// Adds the row `id` of `width` cells. Returns 0 or a negative errno.
int row_index_add(struct row_index *index, const char *folder, const struct cell *row, size_t width,
                  int64_t id);

// Moves the rows of a group of a clustered table, those before and after this call, to another
// group. Returns 0 or -ENOMEM.
int row_index_move(struct row_index *index, uint32_t from, uint32_t to);

// Writes the index. 0 or a negative errno.
int row_index_finish(struct row_index *index, const char *folder, struct pages *pages,
                     struct row_index_result *ret);
void row_index_done(struct row_index *index);
