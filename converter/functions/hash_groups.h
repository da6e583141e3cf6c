// SPDX-License-Identifier: Apache-2.0
//
// GROUP BY by a hash table, for statements in which SQLite would sort all rows:
//
//     SELECT __g0, __g1, __g2 FROM __mmsql_groups('+:ns',
//         'SELECT __mmsql_group(?1, state, dur) FROM thread_state',
//         'SELECT state, count(*), sum(dur) FROM thread_state GROUP BY 1')
//
// has the rows of the last statement in the same order. The first argument, the form, has a sign
// for each key (- if the key's largest value comes first, otherwise +) and then a letter for each
// aggregate.
// Each aggregate but n has one argument in __mmsql_group:
//
//     n count(*)   c count(x)   s sum(x)   t total(x)   a avg(x)   m min(x)   M max(x)
//
// The column __g2 has no affinity. __t2 has the same values with the affinity TEXT, and __n2 with
// NUMERIC: SQLite compares `dur = '5'` by the affinity of a column.
//
// SQLite runs the last statement if the groups are too many for a hash table.
#pragma once

#include "sqlite3ext.h"

#define GROUP_COLUMNS_MAX 16 // keys and aggregates

// Registers the functions. Returns SQLite's code.
int hash_groups_register(sqlite3 *handle);
