// SPDX-License-Identifier: Apache-2.0
//
// If SQLite would sort the rows of a SELECT with GROUP BY, the groups come from a hash table
// instead:
//
//     SELECT name, sum(dur) / 1e6 AS ms FROM slice GROUP BY 1 ORDER BY ms
// ->  SELECT +__g0 AS "name", +__g1 / 1e6 AS "ms" FROM __mmsql_groups('+:s',
//         'SELECT __mmsql_group(?1, name, dur) FROM slice',
//         'SELECT name, sum(dur) FROM slice GROUP BY 1') ORDER BY ms
//
// Sorting takes most of the time of such statements. If an index has the order of the groups but
// lacks other columns, SQLite looks up each row separately, which takes as long. A statement whose
// columns are all in an index is not changed. A statement is changed only if the code understands
// all its parts: the tokens give the places of the parts, and SQLite gives the sorts, the
// collations and the names of columns. The plain statement was prepared before, so it has no
// errors.
#include <errno.h>
#include <sqlite3.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/hash_groups.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/token.h"

#define TOKENS_MAX 4000

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
};

static struct sql_token token_at(const struct grouping *grouping, size_t i)
{
    return i < grouping->tokens.n ? grouping->tokens.items[i] : (struct sql_token){0};
}

static bool is_at(const struct grouping *grouping, size_t i, const char *word)
{
    return sql_token_is(token_at(grouping, i), word);
}

static bool is_in(struct sql_token token, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sql_token_is(token, words[i]))
            return true;
    return false;
}

// -- the parts of the statement --

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

// Takes the next element of a list from *rest. Returns false at the end.
static bool element_take(const struct grouping *grouping, struct part *rest, struct part *ret)
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

static bool is_name(struct sql_token token)
{
    return token.kind == SQL_WORD || token.kind == SQL_QUOTED;
}

// Words that are not names, in expressions.
static const char *const words[] = {
    "AND",  "OR",     "NOT",     "NULL",    "IS",     "IN",   "BETWEEN", "LIKE",   "GLOB",
    "CASE", "WHEN",   "THEN",    "ELSE",    "END",    "AS",   "TRUE",    "FALSE",  "ISNULL",
    "INT",  "DOUBLE", "INTEGER", "NOTNULL", "BIGINT", "ASC",  "TEXT",    "ESCAPE", "REAL",
    "DESC", "FLOAT",  "NULLS",   "FIRST",   "LAST",   "BLOB",
};

// Reads a result. The alias follows AS, or the last value.
static struct result result_read(const struct grouping *grouping, struct part part)
{
    struct result result = {.value = part};
    size_t n = part.end - part.begin;
    struct sql_token last = token_at(grouping, part.end - 1);
    struct sql_token before = token_at(grouping, part.end - 2);
    if (n >= 3 && sql_token_is(before, "AS")) {
        result.alias = part.end - 1;
        result.value.end -= 2;
    } else if (n >= 2 && is_name(last) && !is_in(last, words, ELEMENTS(words)) &&
               (before.kind == SQL_NUMBER || before.kind == SQL_STRING ||
                before.kind == SQL_QUOTED || sql_token_is(before, ")") ||
                sql_token_is(before, "END") ||
                (before.kind == SQL_WORD && !is_in(before, words, ELEMENTS(words))))) {
        result.alias = part.end - 1;
        result.value.end -= 1;
    }
    return result;
}

// -- facts from SQLite --

static void part_add(const struct grouping *grouping, struct part part, struct strbuf *out)
{
    if (part.begin >= part.end)
        return;
    struct sql_token last = token_at(grouping, part.end - 1);
    const char *begin = token_at(grouping, part.begin).text;
    strbuf_add(out, begin, (size_t)(last.text + last.size - begin));
}

static void clause_add(const struct grouping *grouping, enum clause clause, const char *word,
                       struct strbuf *out)
{
    if (clause != PREFIX && !grouping->clauses[clause].begin)
        return;
    strbuf_addf(out, "%s", word);
    part_add(grouping, grouping->clauses[clause], out);
}

static void source_add(const struct grouping *grouping, struct strbuf *out)
{
    clause_add(grouping, FROM, " FROM ", out);
    clause_add(grouping, WHERE, " WHERE ", out);
}

// Returns whether the name is a column of the tables. Otherwise the name can only be a result.
static bool is_column(const struct grouping *grouping, size_t token)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *statement = NULL;
    clause_add(grouping, PREFIX, "", &sql);
    strbuf_add_str(&sql, " SELECT ");
    part_add(grouping, (struct part){token, token + 1}, &sql);
    clause_add(grouping, FROM, " FROM ", &sql);
    bool is = sql.failed ||
              sqlite3_prepare_v2(grouping->handle, sql.text, -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    return is;
}

// Returns whether a line of the plan reads a whole table in the order of an index, and looks up
// each row.
static bool looks_rows_up(const char *detail)
{
    return strncmp(detail, "SCAN ", strlen("SCAN ")) == 0 && strstr(detail, " USING INDEX ");
}

// Returns whether all collations are BINARY, and SQLite sorts rows to group them or looks up each
// row of a table in the order of the groups.
static bool sorts_plainly(const struct grouping *grouping, const struct sql_rope *rope)
{
    sqlite3 *handle = grouping->handle;
    bool is_limited = grouping->clauses[LIMIT].end > grouping->clauses[LIMIT].begin;
    static const char marks[] = "k(0123456789,BN.-)"; // of keys with the collation BINARY
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *plan = NULL, *program = NULL;
    bool sorts = false, is_plain = true;
    strbuf_addf(&sql, "EXPLAIN QUERY PLAN %s", rope->sql.text);
    if (!sql.failed && sqlite3_prepare_v2(handle, sql.text, -1, &plan, NULL) == SQLITE_OK)
        while (!sorts && sqlite3_step(plan) == SQLITE_ROW) {
            const char *detail = (const char *)sqlite3_column_text(plan, 3);
            sorts = sqlite3_column_int(plan, 1) == 0 && detail &&
                    (strcmp(detail, "USE TEMP B-TREE FOR GROUP BY") == 0 ||
                     (!is_limited && looks_rows_up(detail)));
        }
    sqlite3_finalize(plan);
    if (!sorts)
        return false;
    strbuf_clear(&sql);
    strbuf_addf(&sql, "EXPLAIN %s", rope->sql.text);
    if (sql.failed || sqlite3_prepare_v2(handle, sql.text, -1, &program, NULL) != SQLITE_OK)
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

// -- keys --

static bool tokens_equal(struct sql_token a, struct sql_token b)
{
    return a.kind == b.kind && a.size == b.size &&
           (a.kind == SQL_WORD ? strncasecmp(a.text, b.text, a.size)
                               : memcmp(a.text, b.text, a.size)) == 0;
}

static bool parts_equal(const struct grouping *grouping, struct part a, struct part b)
{
    if (a.end - a.begin != b.end - b.begin)
        return false;
    for (size_t i = 0; i < a.end - a.begin; i++)
        if (!tokens_equal(token_at(grouping, a.begin + i), token_at(grouping, b.begin + i)))
            return false;
    return true;
}

// Returns the name of a column at `begin`, with the names of its table and schema. Empty: there is
// no name.
static struct part column_at(const struct grouping *grouping, size_t begin, size_t end)
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

// Returns whether two names mean one column. A name without a table belongs to the only table with
// such a column, unless columns join by name.
static bool columns_equal(const struct grouping *grouping, struct part a, struct part b)
{
    size_t n_a = a.end - a.begin, n_b = b.end - b.begin;
    if (n_a == n_b || grouping->joins_by_name)
        return parts_equal(grouping, a, b);
    return (n_a == 1 || n_b == 1) &&
           tokens_equal(token_at(grouping, a.end - 1), token_at(grouping, b.end - 1));
}

static bool part_is_column(const struct grouping *grouping, struct part part)
{
    struct part column = column_at(grouping, part.begin, part.end);
    return column.end == part.end && column.begin < column.end &&
           !is_in(token_at(grouping, part.begin), words, ELEMENTS(words));
}

// Returns the number of the key that equals the expression, or -1.
static int key_find(const struct grouping *grouping, struct part part)
{
    for (size_t i = 0; i < grouping->n_keys; i++) {
        struct part key = grouping->keys[i];
        if (part_is_column(grouping, key) && part_is_column(grouping, part)
                ? columns_equal(grouping, key, part)
                : parts_equal(grouping, key, part))
            return (int)i;
    }
    return -1;
}

static size_t number_of(struct sql_token token)
{
    size_t n = 0;
    for (size_t i = 0; i < token.size && n < 1000; i++) {
        if (token.text[i] < '0' || token.text[i] > '9')
            return 0;
        n = 10 * n + (size_t)(token.text[i] - '0');
    }
    return n;
}

// Replaces a key by its expression. A key is a number of a result, a column, the alias of a result,
// or an expression. Returns false for any other key.
static bool key_resolve(const struct grouping *grouping, struct part *key)
{
    struct sql_token token = token_at(grouping, key->begin);
    bool is_one = key->end - key->begin == 1;
    if (is_one && token.kind == SQL_NUMBER) {
        size_t n = number_of(token);
        if (n < 1 || n > grouping->n_results)
            return false;
        *key = grouping->results[n - 1].value;
    } else if (is_one && is_name(token)) {
        for (size_t i = 0; i < grouping->n_results; i++) {
            const struct result *result = &grouping->results[i];
            if (!result->alias || !tokens_equal(token_at(grouping, result->alias), token))
                continue;
            if (token.kind != SQL_WORD)
                return false;
            if (!is_column(grouping, key->begin))
                *key = result->value;
            break;
        }
    }
    for (size_t i = key->begin; i < key->end; i++)
        if (is_at(grouping, i, "COLLATE"))
            return false;
    is_one = key->end - key->begin == 1;
    enum sql_token_kind kind = token_at(grouping, key->begin).kind;
    return key->begin < key->end && !(is_one && kind != SQL_WORD && kind != SQL_QUOTED);
}

static void directions_read(struct grouping *grouping)
{
    struct part rest = grouping->clauses[ORDER], term;
    size_t n = 0;
    memset(grouping->directions, '+', grouping->n_keys);
    for (; element_take(grouping, &rest, &term); n++)
        for (size_t i = term.begin; n < grouping->n_keys && i < term.end; i++)
            if (i + 3 >= term.end && is_at(grouping, i, "DESC"))
                grouping->directions[n] = '-';
    if (n != grouping->n_keys)
        memset(grouping->directions, '+', grouping->n_keys);
}

// Returns whether the token is an operator that compares its operands by their affinities.
static bool is_comparison(const struct grouping *grouping, size_t i)
{
    static const char *const operators[] = {"=", "<", ">", "!", "IN", "BETWEEN", "CASE"};
    if (is_at(grouping, i, "IS"))
        return !is_at(grouping, i + 1 + is_at(grouping, i + 1, "NOT"), "NULL");
    return is_in(token_at(grouping, i), operators, ELEMENTS(operators));
}

// Returns whether the statement compares results or groups.
static bool compares(const struct grouping *grouping)
{
    static const enum clause clauses[] = {RESULTS, HAVING, ORDER};
    for (size_t n = 0; n < ELEMENTS(clauses); n++)
        for (size_t i = grouping->clauses[clauses[n]].begin; i < grouping->clauses[clauses[n]].end;
             i++)
            if (is_comparison(grouping, i))
                return true;
    return false;
}

// Returns the affinity of a column by the rules of SQLite. `type`: NULL for an expression, whose
// affinity only SQLite knows.
static enum affinity affinity_of_type(const char *type)
{
    static const struct {
        const char *pattern;
        enum affinity affinity;
    } rules[] = {{"%INT%", AFFINITY_NUMERIC},
                 {"%CHAR%", AFFINITY_TEXT},
                 {"%CLOB%", AFFINITY_TEXT},
                 {"%TEXT%", AFFINITY_TEXT},
                 {"%BLOB%", AFFINITY_BLOB}};
    for (size_t i = 0; type && i < ELEMENTS(rules); i++)
        if (sqlite3_strlike(rules[i].pattern, type, 0) == 0)
            return rules[i].affinity;
    return type ? AFFINITY_NUMERIC : AFFINITY_UNKNOWN;
}

// The value of an expression has no affinity, unless the expression is a CAST or in parentheses.
static enum affinity affinity_of_expression(const struct grouping *grouping, struct part key)
{
    bool may_have = is_at(grouping, key.begin, "CAST") || is_at(grouping, key.begin, "(");
    return may_have ? AFFINITY_UNKNOWN : AFFINITY_EXPRESSION;
}

static void affinities_find(struct grouping *grouping)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    sqlite3_stmt *statement = NULL;
    if (!compares(grouping))
        return;
    clause_add(grouping, PREFIX, "", &sql);
    for (size_t i = 0; i < grouping->n_keys; i++) {
        strbuf_add_str(&sql, i ? ", " : " SELECT ");
        part_add(grouping, grouping->keys[i], &sql);
    }
    clause_add(grouping, FROM, " FROM ", &sql);
    if (!sql.failed) // without a statement the types are NULL
        sqlite3_prepare_v2(grouping->handle, sql.text, -1, &statement, NULL);
    for (size_t i = 0; i < grouping->n_keys; i++)
        grouping->affinities[i] = part_is_column(grouping, grouping->keys[i])
                                      ? affinity_of_type(sqlite3_column_decltype(statement, (int)i))
                                      : affinity_of_expression(grouping, grouping->keys[i]);
    sqlite3_finalize(statement);
}

static bool lists_read(struct grouping *grouping)
{
    struct part rest = grouping->clauses[RESULTS], element;
    while (element_take(grouping, &rest, &element)) {
        if (grouping->n_results == GROUP_COLUMNS_MAX || element.begin == element.end)
            return false;
        grouping->results[grouping->n_results++] = result_read(grouping, element);
    }
    rest = grouping->clauses[GROUP];
    while (element_take(grouping, &rest, &element)) {
        if (grouping->n_keys == GROUP_COLUMNS_MAX || !key_resolve(grouping, &element))
            return false;
        grouping->keys[grouping->n_keys++] = element;
    }
    directions_read(grouping);
    affinities_find(grouping);
    for (size_t i = grouping->clauses[FROM].begin; i < grouping->clauses[FROM].end; i++)
        grouping->joins_by_name |= is_at(grouping, i, "USING") || is_at(grouping, i, "NATURAL");
    return grouping->n_results && grouping->n_keys;
}

// -- expressions --

// Returns the letter of an aggregate for __mmsql_groups, or 0 for any other function.
static char letter_of(struct sql_token name)
{
    static const struct {
        const char *name;
        char letter;
    } aggregates[] = {{"count", 'c'}, {"sum", 's'}, {"total", 't'},
                      {"avg", 'a'},   {"min", 'm'}, {"max", 'M'}};
    for (size_t i = 0; i < ELEMENTS(aggregates); i++)
        if (sql_token_is(name, aggregates[i].name))
            return aggregates[i].letter;
    return 0;
}

// Functions that compute a value from one row.
static const char *const functions[] = {
    "abs",       "cast",        "coalesce",   "format",     "hex",       "ifnull",     "iif",
    "instr",     "length",      "lower",      "ltrim",      "max",       "min",        "nullif",
    "printf",    "quote",       "replace",    "round",      "rtrim",     "str_split",  "substr",
    "substring", "time_to_min", "time_to_ms", "time_to_ns", "time_to_s", "time_to_us", "trace_dur",
    "trace_end", "trace_start", "trim",       "typeof",     "upper",
};

// Returns the parenthesis that closes the parenthesis at `open`, or `end` if none does.
static size_t close_find(const struct grouping *grouping, size_t open, size_t end)
{
    int depth = 0;
    for (size_t i = open; i < end; i++) {
        depth += is_at(grouping, i, "(") ? 1 : is_at(grouping, i, ")") ? -1 : 0;
        if (depth == 0)
            return i;
    }
    return end;
}

enum call { CALL_OTHER, CALL_AGGREGATE, CALL_UNKNOWN };

// Reads a call of an aggregate, and moves *at to its end. *ret: the column of its result.
static enum call aggregate_take(struct grouping *grouping, size_t *at, size_t end, size_t *ret)
{
    static const char *const unknown[] = {"SELECT", "ORDER", "DISTINCT", "COLLATE", "OVER"};
    char letter = letter_of(token_at(grouping, *at));
    size_t close = close_find(grouping, *at + 1, end);
    struct part rest = {*at + 2, close}, argument = {0}, more;
    if (!letter)
        return CALL_OTHER;
    if (close == end || is_at(grouping, close + 1, "OVER") || is_at(grouping, close + 1, "FILTER"))
        return CALL_UNKNOWN;
    bool has_one = element_take(grouping, &rest, &argument);
    if (element_take(grouping, &rest, &more))
        return letter == 'm' || letter == 'M' ? CALL_OTHER : CALL_UNKNOWN;
    if (letter == 'c' && (!has_one || is_at(grouping, argument.begin, "*")))
        letter = 'n', argument = (struct part){0};
    else if (!has_one)
        return CALL_UNKNOWN;
    for (size_t i = argument.begin; i < argument.end; i++)
        if (is_in(token_at(grouping, i), unknown, ELEMENTS(unknown)))
            return CALL_UNKNOWN;
    *at = close;
    for (size_t i = 0; i < grouping->n_aggregates; i++) {
        *ret = grouping->n_keys + i;
        if (grouping->aggregates[i].letter == letter &&
            parts_equal(grouping, grouping->aggregates[i].argument, argument))
            return CALL_AGGREGATE;
    }
    *ret = grouping->n_keys + grouping->n_aggregates;
    if (*ret == GROUP_COLUMNS_MAX)
        return CALL_UNKNOWN;
    grouping->aggregates[grouping->n_aggregates++] = (struct aggregate){letter, argument};
    return CALL_AGGREGATE;
}

// Returns the result with the alias, or NULL.
static const struct result *alias_find(const struct grouping *grouping, struct sql_token token)
{
    for (size_t i = 0; i < grouping->n_results; i++)
        if (grouping->results[i].alias &&
            tokens_equal(token_at(grouping, grouping->results[i].alias), token))
            return &grouping->results[i];
    return NULL;
}

static void column_write(size_t column, enum affinity affinity, struct strbuf *out)
{
    static const char *const prefixes[] = {
        [AFFINITY_EXPRESSION] = "+__g", [AFFINITY_BLOB] = "__g",    [AFFINITY_TEXT] = "__t",
        [AFFINITY_NUMERIC] = "__n",     [AFFINITY_UNKNOWN] = "__g",
    };
    strbuf_addf(out, " %s%zu ", prefixes[affinity], column);
}

static void key_write(const struct grouping *grouping, int key, struct strbuf *out)
{
    column_write((size_t)key, grouping->affinities[key], out);
}

// Returns whether the name at `at` is a key whose affinity is unknown, or the alias of one.
static bool is_uncertain(const struct grouping *grouping, size_t at, size_t end)
{
    struct part column = column_at(grouping, at, end);
    int key = column.begin < column.end ? key_find(grouping, column) : -1;
    const struct result *result = alias_find(grouping, token_at(grouping, at));
    if (key < 0 && result)
        key = key_find(grouping, result->value);
    return key >= 0 && grouping->affinities[key] == AFFINITY_UNKNOWN;
}

// Writes the name or the call at *at, and moves *at to its end. Returns false for any other
// expression.
static bool name_write(struct grouping *grouping, size_t *at, size_t end, bool takes_aliases,
                       struct strbuf *out)
{
    struct sql_token token = token_at(grouping, *at);
    struct part column = column_at(grouping, *at, end);
    size_t result = 0;
    if (token.kind == SQL_WORD && is_in(token, words, ELEMENTS(words))) {
        strbuf_add(out, token.text, token.size);
        return true;
    }
    if (column.begin == column.end) {
        enum call call = aggregate_take(grouping, at, end, &result);
        if (call == CALL_AGGREGATE)
            column_write(result, AFFINITY_EXPRESSION, out);
        else if (call == CALL_OTHER && is_in(token, functions, ELEMENTS(functions)))
            strbuf_add(out, token.text, token.size);
        else
            return false;
        return true;
    }
    int key = key_find(grouping, column);
    if (key >= 0)
        key_write(grouping, key, out);
    else if (takes_aliases && column.end - column.begin == 1 && token.kind == SQL_WORD &&
             alias_find(grouping, token) && !is_column(grouping, *at))
        strbuf_add(out, token.text, token.size);
    else
        return false;
    *at = column.end - 1;
    return true;
}

// Writes an expression that is computed from keys and aggregates. Returns false if the expression
// has other parts.
static bool expression_write(struct grouping *grouping, struct part part, bool takes_aliases,
                             struct strbuf *out)
{
    int key = key_find(grouping, part);
    if (key >= 0) {
        key_write(grouping, key, out);
        return true;
    }
    if (part.begin >= part.end || is_at(grouping, part.begin, "*"))
        return false;
    bool has_comparison = false, has_uncertain = false;
    for (size_t i = part.begin; i < part.end; i++) {
        struct sql_token token = token_at(grouping, i), before = token_at(grouping, i - 1);
        if (i > part.begin && before.text + before.size < token.text)
            strbuf_add_char(out, ' ');
        has_comparison |= is_comparison(grouping, i);
        has_uncertain |= is_name(token) && is_uncertain(grouping, i, part.end);
        if (!is_name(token))
            strbuf_add(out, token.text, token.size);
        else if (!name_write(grouping, &i, part.end, takes_aliases, out))
            return false;
    }
    return !(has_comparison && has_uncertain);
}

static bool order_write(struct grouping *grouping, struct strbuf *out)
{
    struct part rest = grouping->clauses[ORDER], term;
    const char *separator = " ORDER BY ";
    for (; element_take(grouping, &rest, &term); separator = ", ") {
        struct part value = term;
        static const char *const directions[] = {"ASC", "DESC", "NULLS", "FIRST", "LAST"};
        while (value.end > value.begin + 1 &&
               is_in(token_at(grouping, value.end - 1), directions, ELEMENTS(directions)))
            value.end--;
        bool is_one = value.end - value.begin == 1;
        struct sql_token token = token_at(grouping, value.begin);
        strbuf_add_str(out, separator);
        if (is_one && (token.kind == SQL_NUMBER || alias_find(grouping, token)))
            strbuf_add(out, token.text, token.size);
        else if (!expression_write(grouping, value, true, out))
            return false;
        strbuf_add_char(out, ' ');
        part_add(grouping, (struct part){value.end, term.end}, out);
    }
    return true;
}

// -- the new statement --

// Adds a text in single quotes.
static void quoted_add(struct strbuf *out, const struct strbuf *text)
{
    char *quoted = text->failed || !text->text ? NULL : sqlite3_mprintf("%Q", text->text);
    if (quoted)
        strbuf_add_str(out, quoted);
    out->failed |= !quoted;
    sqlite3_free(quoted);
}

static void groups_add(const struct grouping *grouping, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf form = {0}, hashed = {0}, sorted = {0};
    strbuf_addf(&form, "%s:", grouping->directions);
    clause_add(grouping, PREFIX, "", &hashed);
    clause_add(grouping, PREFIX, "", &sorted);
    strbuf_add_str(&hashed, " SELECT __mmsql_group(?1");
    strbuf_add_str(&sorted, " SELECT ");
    for (size_t i = 0; i < grouping->n_keys; i++) {
        strbuf_add_str(&hashed, ", ");
        strbuf_add_str(&sorted, i ? ", " : "");
        part_add(grouping, grouping->keys[i], &hashed);
        part_add(grouping, grouping->keys[i], &sorted);
    }
    for (size_t i = 0; i < grouping->n_aggregates; i++) {
        static const char *const names[] = {
            ['n'] = "count(*", ['c'] = "count(", ['s'] = "sum(", ['t'] = "total(",
            ['a'] = "avg(",    ['m'] = "min(",   ['M'] = "max(",
        };
        struct aggregate aggregate = grouping->aggregates[i];
        strbuf_add_char(&form, aggregate.letter);
        strbuf_addf(&sorted, ", %s", names[(unsigned char)aggregate.letter]);
        part_add(grouping, aggregate.argument, &sorted);
        strbuf_add_char(&sorted, ')');
        if (aggregate.letter == 'n')
            continue;
        strbuf_add_str(&hashed, ", ");
        part_add(grouping, aggregate.argument, &hashed);
    }
    strbuf_add_char(&hashed, ')');
    source_add(grouping, &hashed);
    source_add(grouping, &sorted);
    strbuf_add_str(&sorted, " GROUP BY ");
    for (size_t i = 0; i < grouping->n_keys; i++)
        strbuf_addf(&sorted, "%s%zu", i ? ", " : "", i + 1);
    if (strchr(grouping->directions, '-'))
        for (size_t i = 0; i < grouping->n_keys; i++)
            strbuf_addf(&sorted, "%s%zu%s", i ? ", " : " ORDER BY ", i + 1,
                        grouping->directions[i] == '-' ? " DESC" : "");
    strbuf_add_str(out, " FROM __mmsql_groups(");
    quoted_add(out, &form);
    strbuf_add_str(out, ", ");
    quoted_add(out, &hashed);
    strbuf_add_str(out, ", ");
    quoted_add(out, &sorted);
    strbuf_add_char(out, ')');
}

static bool statement_write(struct grouping *grouping, sqlite3_stmt *plain, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf having = {0}, order = {0};
    struct part limit = grouping->clauses[LIMIT];
    if ((size_t)sqlite3_column_count(plain) != grouping->n_results)
        return false;
    for (size_t i = 0; i < grouping->n_results; i++) {
        const char *name = sqlite3_column_name(plain, (int)i);
        char *quoted = name ? sqlite3_mprintf(" AS \"%w\"", name) : NULL;
        strbuf_add_str(out, i ? ", " : "SELECT ");
        bool is_known =
            quoted && expression_write(grouping, grouping->results[i].value, false, out);
        strbuf_add_str(out, quoted ? quoted : "");
        sqlite3_free(quoted);
        if (!is_known)
            return false;
    }
    if (grouping->clauses[HAVING].begin) {
        strbuf_add_str(&having, " WHERE ");
        if (!expression_write(grouping, grouping->clauses[HAVING], true, &having))
            return false;
    }
    if (!order_write(grouping, &order))
        return false;
    groups_add(grouping, out);
    strbuf_add(out, having.text, having.size);
    strbuf_add(out, order.text, order.size);
    for (size_t i = limit.begin; i < limit.end; i++)
        if (is_name(token_at(grouping, i)) && !is_at(grouping, i, "OFFSET"))
            return false;
    clause_add(grouping, LIMIT, " LIMIT ", out);
    return !out->failed && !having.failed && !order.failed;
}

bool hash_grouping_prepare(sqlite3 *handle, const struct sql_rope *rope, sqlite3_stmt **statement)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    struct grouping grouping = {.handle = handle};
    sqlite3_stmt *hashed = NULL;
    bool is_known = tokens_read(&grouping, rope) && clauses_find(&grouping) &&
                    sorts_plainly(&grouping, rope) && lists_read(&grouping) &&
                    statement_write(&grouping, *statement, &sql) &&
                    sqlite3_prepare_v2(handle, sql.text, -1, &hashed, NULL) == SQLITE_OK;
    token_vec_done(&grouping.tokens);
    if (!is_known)
        return false;
    sqlite3_finalize(*statement);
    *statement = hashed;
    return true;
}
