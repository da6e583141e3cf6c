// SPDX-License-Identifier: Apache-2.0
//
// An index over one or two numbers of a table's rows, made from the rows as they are written.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/input/scratch.h"
#include "converter/tables/btree.h"

// All zero is empty.
struct row_index {
    struct scratch log; // entries as they came
    size_t n, n_forget; // entries; and those when memory was given back last
    int64_t n_groups;   // largest first number + 1
    int64_t add_group;  // to the first numbers
    int64_t add_id;     // to the ids
    bool with_value;    // two numbers, not one
    bool given_up;      // something that this cannot do: let SQLite make the index
};

// The row `id` has these; `value` is NULL if the index is over one number. 0 or a negative errno.
int row_index_add(struct row_index *index, const char *folder, const struct cell *group,
                  const struct cell *value, int64_t id);

// Writes the index and sets its root page; 0: SQLite has to make it. 0 or a negative errno.
int row_index_finish(struct row_index *index, const char *folder, struct pages *pages,
                     uint32_t *ret_root);
void row_index_done(struct row_index *index);
