// SPDX-License-Identifier: Apache-2.0
//
// The clauses and lists of a SELECT with GROUP BY, as tokens. A part of hash grouping.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/str.h"
#include "common/vec.h"
#include "converter/functions/hash_groups.h"
#include "converter/perfetto_sql/token.h"

struct sql_rope;

// Where SQLite compares, a column without an affinity differs from an expression without one.
enum affinity {
    AFFINITY_EXPRESSION,
    AFFINITY_BLOB,
    AFFINITY_TEXT,
    AFFINITY_NUMERIC,
    AFFINITY_UNKNOWN, // the key must not be compared
};

VEC_DEFINE(token_vec, struct sql_token);

// Tokens from `begin` up to, but not including, `end`.
struct part {
    size_t begin, end;
};

enum clause { PREFIX, RESULTS, FROM, WHERE, GROUP, HAVING, ORDER, LIMIT, N_CLAUSES };

struct result {
    struct part value;
    size_t alias; // the token of the alias; 0: none
};

struct aggregate {
    char letter;
    struct part argument;
};

struct grouping {
    sqlite3 *handle; // borrowed
    struct token_vec tokens;
    struct part clauses[N_CLAUSES];
    struct result results[GROUP_COLUMNS_MAX];
    struct part keys[GROUP_COLUMNS_MAX];
    enum affinity affinities[GROUP_COLUMNS_MAX]; // of the keys
    struct aggregate aggregates[GROUP_COLUMNS_MAX];
    size_t n_results, n_keys, n_aggregates;
    // If ORDER BY has as many terms as GROUP BY, SQLite sorts the groups in the directions of ORDER
    // BY. Groups that are equal in ORDER BY keep this order.
    char directions[GROUP_COLUMNS_MAX + 1];
    bool joins_by_name; // a name without a table may be a column of both tables
    bool has_compound;  // UNION and its like: the types of columns do not tell their affinities
    char index[64];     // has the order of the groups; empty: SQLite sorts
};

static inline struct sql_token token_at(const struct grouping *grouping, size_t i)
{
    return i < grouping->tokens.n ? grouping->tokens.items[i] : (struct sql_token){0};
}

static inline bool is_at(const struct grouping *grouping, size_t i, const char *word)
{
    return sql_token_is(token_at(grouping, i), word);
}

static inline bool is_in(struct sql_token token, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sql_token_is(token, words[i]))
            return true;
    return false;
}

static inline bool is_name(struct sql_token token)
{
    return token.kind == SQL_WORD || token.kind == SQL_QUOTED;
}

// Reads the tokens and finds the clauses. Returns false if the statement is not a single SELECT
// with GROUP BY, or if it has variables. The caller frees grouping->tokens.
bool group_clauses_read(struct grouping *grouping, const struct sql_rope *rope);

// Takes the next element of a list from *rest. Returns false at the end.
bool group_element_take(const struct grouping *grouping, struct part *rest, struct part *ret);

// Returns whether the token is a word of an expression, and not a name.
bool group_is_keyword(const struct grouping *grouping, size_t i);

// Reads a result. The alias follows AS, or the last value.
struct result group_result_read(const struct grouping *grouping, struct part part);

bool group_tokens_equal(struct sql_token a, struct sql_token b);
bool group_parts_equal(const struct grouping *grouping, struct part a, struct part b);

// Returns the name of a column at `begin`, with the names of its table and schema. Empty: there is
// no name.
struct part group_column_at(const struct grouping *grouping, size_t begin, size_t end);

// Returns whether the whole part is the name of a column.
bool group_part_is_column(const struct grouping *grouping, struct part part);

// Returns the result with the alias, or NULL.
const struct result *group_alias_find(const struct grouping *grouping, struct sql_token token);

// Returns whether the names of aliases mean aliases only: no alias is a word of SQL or a name of
// the new statement, and the old tables and conditions have no text in double quotes with the name
// of an alias.
bool group_aliases_are_safe(const struct grouping *grouping);

// Add a part; `word` and a clause, if the statement has the clause; FROM and WHERE.
void group_part_add(const struct grouping *grouping, struct part part, struct strbuf *out);
void group_clause_add(const struct grouping *grouping, enum clause clause, const char *word,
                      struct strbuf *out);
void group_source_add(const struct grouping *grouping, struct strbuf *out);
