// SPDX-License-Identifier: Apache-2.0
//
// An index of a table, made from its rows as they are written.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/scratch.h"
#include "converter/tables/btree.h"
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
    struct scratch log;          // entries in order of arrival
    size_t n, n_forget;          // entries; n_forget: when memory was released last
    int64_t n_groups;            // largest group + 1
    int64_t add_group, add_id;   // shifts of groups and ids in the written index
    bool given_up;               // a row that is not supported: SQLite makes the index
    struct row_index_text texts[ROW_INDEX_TEXTS_MAX];
    size_t n_texts, last_text;
};

// The result of row_index_finish().
struct row_index_result {
    uint32_t root;                          // root page; 0: SQLite must make the index
    uint64_t n;                             // entries
    uint64_t n_distinct[INDEX_COLUMNS_MAX]; // distinct values of the first 1, 2, ... columns
};

// Adds the row `id` of `width` cells. Returns 0 or a negative errno.
int row_index_add(struct row_index *index, const char *folder, const struct cell *row, size_t width,
                  int64_t id);

// Writes the index. 0 or a negative errno.
int row_index_finish(struct row_index *index, const char *folder, struct pages *pages,
                     struct row_index_result *ret);
void row_index_done(struct row_index *index);
