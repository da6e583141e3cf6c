// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/group_clauses.h"

#include <string.h>
#include <strings.h>

#include "common/elements.h"
#include "common/text.h"
#include "converter/perfetto_sql/engine_state.h"

#define TOKENS_MAX 4000

static bool tokens_read(struct grouping *grouping, const struct sql_rope *rope)
{
    const char *at = rope->sql.text, *end = at + rope->sql.size;
    for (;;) {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind == SQL_END)
            return true;
        if (token.kind == SQL_VARIABLE || grouping->tokens.n == TOKENS_MAX ||
            token_vec_push(&grouping->tokens, token) < 0)
            return false;
    }
}

// Returns the clause that begins at the token, or PREFIX. The token must not be in parentheses.
static enum clause clause_of(const struct grouping *grouping, size_t i)
{
    static const char *const words[N_CLAUSES] = {
        [RESULTS] = "SELECT", [FROM] = "FROM",   [WHERE] = "WHERE",
        [HAVING] = "HAVING",  [LIMIT] = "LIMIT",
    };
    bool has_by = is_at(grouping, i + 1, "BY");
    if (is_at(grouping, i, "GROUP") || is_at(grouping, i, "ORDER"))
        return !has_by ? PREFIX : is_at(grouping, i, "GROUP") ? GROUP : ORDER;
    for (size_t clause = RESULTS; clause < N_CLAUSES; clause++)
        if (words[clause] && is_at(grouping, i, words[clause]))
            return (enum clause)clause;
    return PREFIX;
}

// Finds the clauses. Returns false if the statement is not a single SELECT with GROUP BY.
static bool clauses_find(struct grouping *grouping)
{
    static const char *const others[] = {"UNION", "INTERSECT", "EXCEPT", "WINDOW", "VALUES", ";"};
    enum clause current = PREFIX;
    int depth = 0;
    if (!is_at(grouping, 0, "SELECT") && !is_at(grouping, 0, "WITH"))
        return false;
    for (size_t i = 0; i < grouping->tokens.n; i++) {
        struct sql_token token = grouping->tokens.items[i];
        enum clause next = depth == 0 ? clause_of(grouping, i) : PREFIX;
        depth += sql_token_is(token, "(") ? 1 : sql_token_is(token, ")") ? -1 : 0;
        if (depth == 0 && is_in(token, others, ELEMENTS(others)))
            return false;
        if (depth == 0 && sql_token_is(token, "SELECT") && current != PREFIX)
            return false;
        if (next > current) { // FROM after IS DISTINCT begins no clause
            grouping->clauses[current].end = i;
            current = next;
            i += current == GROUP || current == ORDER;
            grouping->clauses[current].begin = i + 1;
        }
        grouping->clauses[current].end = i + 1;
    }
    return depth == 0 && grouping->clauses[GROUP].begin && grouping->clauses[FROM].begin &&
           !is_at(grouping, grouping->clauses[RESULTS].begin, "DISTINCT") &&
           !is_at(grouping, grouping->clauses[RESULTS].begin, "ALL") &&
           !is_at(grouping, grouping->clauses[FROM].begin - 2, "DISTINCT");
}

bool group_clauses_read(struct grouping *grouping, const struct sql_rope *rope)
{
    return tokens_read(grouping, rope) && clauses_find(grouping);
}

bool group_element_take(const struct grouping *grouping, struct part *rest, struct part *ret)
{
    int depth = 0;
    size_t i = rest->begin;
    if (i >= rest->end)
        return false;
    for (; i < rest->end && !(depth == 0 && is_at(grouping, i, ",")); i++)
        depth += is_at(grouping, i, "(") ? 1 : is_at(grouping, i, ")") ? -1 : 0;
    *ret = (struct part){rest->begin, i};
    rest->begin = i + 1;
    return true;
}

// Words that end an operand.
static const char *const ends[] = {"NULL", "ISNULL", "NOTNULL", "TRUE", "FALSE", "END"};
// Words that need an operand.
static const char *const operators[] = {"AND",  "OR",   "NOT",  "IS",   "IN", "BETWEEN", "LIKE",
                                        "GLOB", "CASE", "WHEN", "THEN", "AS", "ESCAPE",  "ELSE"};
// Words of types, after AS of a CAST.
static const char *const types[] = {"INT",    "INTEGER", "BIGINT", "REAL",
                                    "DOUBLE", "FLOAT",   "TEXT",   "BLOB"};
// Names that mean something else in the new statement.
static const char *const taken[] = {"rowid", "oid", "_rowid_"};

bool group_is_keyword(const struct grouping *grouping, size_t i)
{
    struct sql_token token = token_at(grouping, i);
    return is_in(token, ends, ELEMENTS(ends)) || is_in(token, operators, ELEMENTS(operators)) ||
           (i && is_at(grouping, i - 1, "AS") && is_in(token, types, ELEMENTS(types)));
}

// Returns whether an operand can end with the token.
static bool is_operand_end(struct sql_token token)
{
    if (token.kind == SQL_WORD)
        return !is_in(token, operators, ELEMENTS(operators));
    return token.kind == SQL_NUMBER || token.kind == SQL_STRING || token.kind == SQL_QUOTED ||
           sql_token_is(token, ")");
}

struct result group_result_read(const struct grouping *grouping, struct part part)
{
    struct result result = {.value = part};
    size_t n = part.end - part.begin;
    if (n >= 3 && is_at(grouping, part.end - 2, "AS")) {
        result.alias = part.end - 1;
        result.value.end -= 2;
    } else if (n >= 2 && is_name(token_at(grouping, part.end - 1)) &&
               !group_is_keyword(grouping, part.end - 1) &&
               is_operand_end(token_at(grouping, part.end - 2))) {
        result.alias = part.end - 1;
        result.value.end -= 1;
    }
    return result;
}

bool group_tokens_equal(struct sql_token a, struct sql_token b)
{
    return a.kind == b.kind && a.size == b.size &&
           (a.kind == SQL_WORD ? strncasecmp(a.text, b.text, a.size)
                               : memcmp(a.text, b.text, a.size)) == 0;
}

bool group_parts_equal(const struct grouping *grouping, struct part a, struct part b)
{
    if (a.end - a.begin != b.end - b.begin)
        return false;
    for (size_t i = 0; i < a.end - a.begin; i++)
        if (!group_tokens_equal(token_at(grouping, a.begin + i), token_at(grouping, b.begin + i)))
            return false;
    return true;
}

struct part group_column_at(const struct grouping *grouping, size_t begin, size_t end)
{
    struct part part = {begin, begin};
    while (part.end < end && is_name(token_at(grouping, part.end))) {
        part.end++;
        if (part.end >= end || !is_at(grouping, part.end, "."))
            break;
        part.end++;
    }
    bool is_call = part.end < end && is_at(grouping, part.end, "(");
    return is_call ? (struct part){begin, begin} : part;
}

bool group_part_is_column(const struct grouping *grouping, struct part part)
{
    struct part column = group_column_at(grouping, part.begin, part.end);
    return column.end == part.end && column.begin < column.end &&
           !group_is_keyword(grouping, part.begin);
}

const struct result *group_alias_find(const struct grouping *grouping, struct sql_token token)
{
    for (size_t i = 0; i < grouping->n_results; i++)
        if (grouping->results[i].alias &&
            group_tokens_equal(token_at(grouping, grouping->results[i].alias), token))
            return &grouping->results[i];
    return NULL;
}

// Returns a name without its quotes.
static struct sql_token bare(struct sql_token token)
{
    if (token.kind != SQL_QUOTED || token.size < 2)
        return token;
    return (struct sql_token){SQL_WORD, token.text + 1, token.size - 2};
}

static bool has_quoted_alias(const struct grouping *grouping, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        for (size_t n = 0; n < grouping->n_results; n++)
            if (token_at(grouping, i).kind == SQL_QUOTED && grouping->results[n].alias &&
                group_tokens_equal(bare(token_at(grouping, i)),
                                   bare(token_at(grouping, grouping->results[n].alias))))
                return true;
    return false;
}

bool group_aliases_are_safe(const struct grouping *grouping)
{
    for (size_t n = 0; n < grouping->n_results; n++) {
        struct sql_token alias = bare(token_at(grouping, grouping->results[n].alias));
        bool is_taken =
            is_in(alias, taken, ELEMENTS(taken)) || is_in(alias, ends, ELEMENTS(ends)) ||
            is_in(alias, operators, ELEMENTS(operators)) || is_in(alias, types, ELEMENTS(types)) ||
            text_starts_with((struct text){alias.text, alias.size}, TEXT("__"));
        if (grouping->results[n].alias && is_taken)
            return false;
    }
    return !has_quoted_alias(grouping, grouping->clauses[FROM].begin, grouping->clauses[GROUP].end);
}

void group_part_add(const struct grouping *grouping, struct part part, struct strbuf *out)
{
    if (part.begin >= part.end)
        return;
    struct sql_token last = token_at(grouping, part.end - 1);
    const char *begin = token_at(grouping, part.begin).text;
    strbuf_add(out, begin, (size_t)(last.text + last.size - begin));
}

void group_clause_add(const struct grouping *grouping, enum clause clause, const char *word,
                      struct strbuf *out)
{
    if (clause != PREFIX && !grouping->clauses[clause].begin)
        return;
    strbuf_addf(out, "%s", word);
    group_part_add(grouping, grouping->clauses[clause], out);
}

void group_source_add(const struct grouping *grouping, struct strbuf *out)
{
    group_clause_add(grouping, FROM, " FROM ", out);
    group_clause_add(grouping, WHERE, " WHERE ", out);
}
