// SPDX-License-Identifier: Apache-2.0
//
// An index of a table by a text, made from the rows in the order of their ids (see indexes.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "converter/tables/cell.h"
#include "converter/tables/group_log.h"
#include "converter/tables/indexes.h"
#include "converter/tables/pages.h"

struct text_index {
    const struct index_def *def; // borrowed
    struct pages *pages;         // borrowed
    const char *folder;          // borrowed; may be NULL
    struct strset texts;         // the distinct texts
    struct group_log log;        // ids; the group is the text's id + 1, or 0 for NULL
    uint64_t n_reserved, n_free; // reserved bytes of the budget; the unused part of these bytes
    int64_t shift;               // added to each id
    bool given_up;               // SQLite makes the index
};

// Makes an empty index. All pointers are borrowed; `folder` may be NULL.
void text_index_init(struct text_index *index, const struct index_def *def, struct pages *pages,
                     const char *folder);

// Adds the row `id`, which is larger than all ids before. Returns 0 or a negative errno.
int text_index_add(struct text_index *index, const struct cell *text, int64_t id);

// Writes the index. Returns 0 or a negative errno.
int text_index_finish(struct text_index *index, struct index_result *ret);
void text_index_done(struct text_index *index);
