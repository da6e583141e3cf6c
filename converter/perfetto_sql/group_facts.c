// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/group_facts.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/engine_state.h"

bool group_is_column_of_tables(const struct grouping *grouping, size_t token)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *statement = NULL;
    group_clause_add(grouping, PREFIX, "", &sql);
    strbuf_add_str(&sql, " SELECT ");
    group_part_add(grouping, (struct part){token, token + 1}, &sql);
    group_clause_add(grouping, FROM, " FROM ", &sql);
    bool is = sql.failed ||
              sqlite3_prepare_v2(grouping->handle, sql.text, -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    return is;
}

// Returns the name of the index if a line of the plan reads a whole table in the order of an index,
// and looks up each row.
static const char *index_of(const char *detail)
{
    static const char using[] = " USING INDEX ";
    const char *at = strncmp(detail, "SCAN ", strlen("SCAN ")) == 0 ? strstr(detail, using) : NULL;
    return at ? at + strlen(using) : NULL;
}

static bool is_compound(const char *detail)
{
    static const char *const lines[] = {"COMPOUND QUERY", "MERGE (", "RECURSIVE STEP"};
    for (size_t i = 0; i < ELEMENTS(lines); i++)
        if (strncmp(detail, lines[i], strlen(lines[i])) == 0)
            return true;
    return false;
}

// Reads the plan. Returns whether SQLite sorts rows to group them, or looks up each row of a table
// in the order of the groups.
static bool plan_read(struct grouping *grouping, const struct sql_rope *rope)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *plan = NULL;
    bool is_limited = grouping->clauses[LIMIT].end > grouping->clauses[LIMIT].begin;
    bool sorts = false, looks_up = false;
    strbuf_addf(&sql, "EXPLAIN QUERY PLAN %s", rope->sql.text);
    if (sql.failed || sqlite3_prepare_v2(grouping->handle, sql.text, -1, &plan, NULL) != SQLITE_OK)
        return false;
    while (sqlite3_step(plan) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(plan, 3);
        bool is_outer = sqlite3_column_int(plan, 1) == 0;
        const char *index = detail && is_outer ? index_of(detail) : NULL;
        if (!detail)
            continue;
        grouping->has_compound |= is_compound(detail);
        sorts |= is_outer && strcmp(detail, "USE TEMP B-TREE FOR GROUP BY") == 0;
        if (index && !is_limited && !looks_up)
            looks_up = snprintf(grouping->index, sizeof(grouping->index), "%s", index) <
                       (int)sizeof(grouping->index);
    }
    sqlite3_finalize(plan);
    if (sorts)
        grouping->index[0] = '\0';
    return sorts || looks_up;
}

// Returns whether all collations of the program are BINARY.
static bool collates_plainly(const struct grouping *grouping, const struct sql_rope *rope)
{
    static const char marks[] = "k(0123456789,BN.-)"; // of keys with the collation BINARY
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *program = NULL;
    bool is_plain = true;
    strbuf_addf(&sql, "EXPLAIN %s", rope->sql.text);
    if (sql.failed ||
        sqlite3_prepare_v2(grouping->handle, sql.text, -1, &program, NULL) != SQLITE_OK)
        return false;
    while (is_plain && sqlite3_step(program) == SQLITE_ROW) {
        const char *operation = (const char *)sqlite3_column_text(program, 1);
        const char *operand = (const char *)sqlite3_column_text(program, 5);
        if (!operation || !operand)
            continue;
        if (strcmp(operation, "SorterOpen") == 0 || strcmp(operation, "Compare") == 0)
            is_plain = operand[strspn(operand, marks)] == '\0';
        else if (strcmp(operation, "CollSeq") == 0)
            is_plain = strncmp(operand, "BINARY", strlen("BINARY")) == 0;
    }
    sqlite3_finalize(program);
    return is_plain;
}

// Returns whether texts are UTF-8, as the hash table takes them.
static bool is_utf8(sqlite3 *handle)
{
    sqlite3_stmt *statement = NULL;
    const char *encoding = NULL;
    if (sqlite3_prepare_v2(handle, "PRAGMA encoding", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        encoding = (const char *)sqlite3_column_text(statement, 0);
    bool is = encoding && str_eq(encoding, "UTF-8");
    sqlite3_finalize(statement);
    return is;
}

bool group_sorts_plainly(struct grouping *grouping, const struct sql_rope *rope)
{
    return plan_read(grouping, rope) && collates_plainly(grouping, rope) &&
           is_utf8(grouping->handle);
}

bool group_index_has_order(const struct grouping *grouping)
{
    sqlite3_stmt *columns = NULL;
    bool has = true;
    if (!grouping->index[0])
        return true;
    if (sqlite3_prepare_v2(grouping->handle,
                           "SELECT name, desc FROM pragma_index_xinfo(?1) WHERE key ORDER BY seqno",
                           -1, &columns, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(columns, 1, grouping->index, -1, SQLITE_STATIC);
    for (size_t i = 0; i < grouping->n_keys && has; i++) {
        struct part key = grouping->keys[i];
        has = sqlite3_step(columns) == SQLITE_ROW && group_part_is_column(grouping, key) &&
              sqlite3_column_int(columns, 1) == 0;
        const char *name = has ? (const char *)sqlite3_column_text(columns, 0) : NULL;
        has = name && is_at(grouping, key.end - 1, name);
    }
    sqlite3_finalize(columns);
    return has;
}

// Returns the affinity of a column by the rules of SQLite. `type`: NULL for an expression, whose
// affinity only SQLite knows.
static enum affinity affinity_of_type(const char *type)
{
    static const struct {
        const char *pattern;
        enum affinity affinity;
    } rules[] = {{"%INT%", AFFINITY_NUMERIC}, {"%CHAR%", AFFINITY_TEXT}, {"%CLOB%", AFFINITY_TEXT},
                 {"%TEXT%", AFFINITY_TEXT},   {"%BLOB%", AFFINITY_BLOB}, {"ANY", AFFINITY_UNKNOWN}};
    for (size_t i = 0; type && i < ELEMENTS(rules); i++)
        if (sqlite3_strlike(rules[i].pattern, type, 0) == 0)
            return rules[i].affinity;
    return type ? AFFINITY_NUMERIC : AFFINITY_UNKNOWN;
}

// Returns the affinity of a key without a type.
static enum affinity affinity_of_expression(const struct grouping *grouping, struct part key)
{
    bool may_have = is_at(grouping, key.begin, "CAST") || is_at(grouping, key.begin, "(");
    return may_have ? AFFINITY_UNKNOWN : AFFINITY_EXPRESSION;
}

bool group_lists_check(struct grouping *grouping)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *statement = NULL;
    group_clause_add(grouping, PREFIX, "", &sql);
    for (size_t i = 0; i < grouping->n_results + grouping->n_keys; i++) {
        strbuf_add_str(&sql, i ? "), (" : " SELECT (");
        group_part_add(grouping,
                       i < grouping->n_results ? grouping->results[i].value
                                               : grouping->keys[i - grouping->n_results],
                       &sql);
    }
    strbuf_add_char(&sql, ')');
    group_source_add(grouping, &sql);
    if (sql.failed ||
        sqlite3_prepare_v2(grouping->handle, sql.text, -1, &statement, NULL) != SQLITE_OK)
        return false;
    for (size_t i = 0; i < grouping->n_keys; i++) {
        const char *type = sqlite3_column_decltype(statement, (int)(grouping->n_results + i));
        if (!group_part_is_column(grouping, grouping->keys[i]))
            grouping->affinities[i] = affinity_of_expression(grouping, grouping->keys[i]);
        else
            grouping->affinities[i] =
                grouping->has_compound ? AFFINITY_UNKNOWN : affinity_of_type(type);
    }
    sqlite3_finalize(statement);
    return true;
}
