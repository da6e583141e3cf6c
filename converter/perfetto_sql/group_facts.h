// SPDX-License-Identifier: Apache-2.0
//
// Facts that SQLite gives about a SELECT with GROUP BY. A part of hash grouping.
#pragma once

#include "converter/perfetto_sql/group_clauses.h"

// Returns whether the name is a column of the tables. Otherwise the name can only be a result.
bool group_is_column_of_tables(const struct grouping *grouping, size_t token);

// Reads the plan. Returns whether all collations are BINARY, texts are UTF-8, and SQLite sorts rows
// to group them or looks up each row of a table in the order of the groups.
bool group_sorts_plainly(struct grouping *grouping, const struct sql_rope *rope);

// Returns whether SQLite sorts, or the index of the plan has the keys in their order, the least
// first.
bool group_index_has_order(const struct grouping *grouping);

// Checks that each value of a result, each key and the conditions are understood: SQLite must
// accept the values in parentheses, without aliases. Finds the affinities of the keys.
bool group_lists_check(struct grouping *grouping);
