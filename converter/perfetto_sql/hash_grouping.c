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
#include <sqlite3.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/hash_groups.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/group_clauses.h"
#include "converter/perfetto_sql/group_facts.h"

// -- keys --

// Returns whether two names mean one column. A name without a table belongs to the only table with
// such a column, unless columns join by name.
static bool columns_equal(const struct grouping *grouping, struct part a, struct part b)
{
    size_t n_a = a.end - a.begin, n_b = b.end - b.begin;
    if (n_a == n_b || grouping->joins_by_name)
        return group_parts_equal(grouping, a, b);
    return (n_a == 1 || n_b == 1) &&
           group_tokens_equal(token_at(grouping, a.end - 1), token_at(grouping, b.end - 1));
}

// Returns the number of the key that equals the expression, or -1.
static int key_find(const struct grouping *grouping, struct part part)
{
    for (size_t i = 0; i < grouping->n_keys; i++) {
        struct part key = grouping->keys[i];
        if (group_part_is_column(grouping, key) && group_part_is_column(grouping, part)
                ? columns_equal(grouping, key, part)
                : group_parts_equal(grouping, key, part))
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
        const struct result *result = group_alias_find(grouping, token);
        if (result && token.kind != SQL_WORD)
            return false;
        if (result && !group_is_column_of_tables(grouping, key->begin))
            *key = result->value;
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
    for (; group_element_take(grouping, &rest, &term); n++)
        for (size_t i = term.begin; n < grouping->n_keys && i < term.end; i++)
            if (i + 3 >= term.end && is_at(grouping, i, "DESC"))
                grouping->directions[n] = '-';
    if (n != grouping->n_keys)
        memset(grouping->directions, '+', grouping->n_keys);
}

static bool lists_read(struct grouping *grouping)
{
    struct part rest = grouping->clauses[RESULTS], element;
    while (group_element_take(grouping, &rest, &element)) {
        if (grouping->n_results == GROUP_COLUMNS_MAX || element.begin == element.end)
            return false;
        grouping->results[grouping->n_results++] = group_result_read(grouping, element);
    }
    rest = grouping->clauses[GROUP];
    while (group_element_take(grouping, &rest, &element)) {
        if (grouping->n_keys == GROUP_COLUMNS_MAX || !key_resolve(grouping, &element))
            return false;
        grouping->keys[grouping->n_keys++] = element;
    }
    directions_read(grouping);
    for (size_t i = grouping->clauses[FROM].begin; i < grouping->clauses[FROM].end; i++)
        grouping->joins_by_name |= is_at(grouping, i, "USING") || is_at(grouping, i, "NATURAL");
    return grouping->n_results && grouping->n_keys && group_aliases_are_safe(grouping) &&
           group_index_has_order(grouping) && group_lists_check(grouping);
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
    bool has_one = group_element_take(grouping, &rest, &argument);
    if (group_element_take(grouping, &rest, &more))
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
            group_parts_equal(grouping, grouping->aggregates[i].argument, argument))
            return CALL_AGGREGATE;
    }
    *ret = grouping->n_keys + grouping->n_aggregates;
    if (*ret == GROUP_COLUMNS_MAX)
        return CALL_UNKNOWN;
    grouping->aggregates[grouping->n_aggregates++] = (struct aggregate){letter, argument};
    return CALL_AGGREGATE;
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
    struct part column = group_column_at(grouping, at, end);
    int key = column.begin < column.end ? key_find(grouping, column) : -1;
    const struct result *result = group_alias_find(grouping, token_at(grouping, at));
    if (key < 0 && result) {
        struct part value = result->value;
        while (is_at(grouping, value.begin, "(") && is_at(grouping, value.end - 1, ")") &&
               key_find(grouping, value) < 0)
            value = (struct part){value.begin + 1, value.end - 1};
        key = key_find(grouping, value);
    }
    return key >= 0 && grouping->affinities[key] == AFFINITY_UNKNOWN;
}

// Returns whether the alias is the name of one column of the new statement.
static bool is_unique(const struct grouping *grouping, struct sql_token alias)
{
    size_t n = 0;
    for (size_t i = 0; i < grouping->n_results; i++) {
        const struct result *result = &grouping->results[i];
        size_t name = result->alias ? result->alias : result->value.end - 1;
        n += group_tokens_equal(token_at(grouping, name), alias);
    }
    return n == 1;
}

// Writes the name or the call at *at, and moves *at to its end. Returns false for any other
// expression.
static bool name_write(struct grouping *grouping, size_t *at, size_t end, bool takes_aliases,
                       struct strbuf *out)
{
    struct sql_token token = token_at(grouping, *at);
    struct part column = group_column_at(grouping, *at, end);
    size_t result = 0;
    if (group_is_keyword(grouping, *at)) {
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
             is_unique(grouping, token) && group_alias_find(grouping, token) &&
             !group_is_column_of_tables(grouping, *at))
        strbuf_add(out, token.text, token.size);
    else
        return false;
    *at = column.end - 1;
    return true;
}

// Returns whether the token is an operator that compares its operands by their affinities.
static bool is_comparison(const struct grouping *grouping, size_t i)
{
    static const char *const operators[] = {"=", "<", ">", "!", "IN", "BETWEEN", "CASE"};
    if (is_at(grouping, i, "IS"))
        return !is_at(grouping, i + 1 + is_at(grouping, i + 1, "NOT"), "NULL");
    return is_in(token_at(grouping, i), operators, ELEMENTS(operators));
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
    for (; group_element_take(grouping, &rest, &term); separator = ", ") {
        struct part value = term;
        static const char *const directions[] = {"ASC", "DESC", "NULLS", "FIRST", "LAST"};
        while (value.end > value.begin + 1 &&
               is_in(token_at(grouping, value.end - 1), directions, ELEMENTS(directions)))
            value.end--;
        bool is_one = value.end - value.begin == 1;
        struct sql_token token = token_at(grouping, value.begin);
        const struct result *result = is_one ? group_alias_find(grouping, token) : NULL;
        strbuf_add_str(out, separator);
        if (result) // another result may have the name
            strbuf_addf(out, "%zu", (size_t)(result - grouping->results) + 1);
        else if (is_one && token.kind == SQL_NUMBER)
            strbuf_add(out, token.text, token.size);
        else if (!expression_write(grouping, value, true, out))
            return false;
        strbuf_add_char(out, ' ');
        group_part_add(grouping, (struct part){value.end, term.end}, out);
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
    group_clause_add(grouping, PREFIX, "", &hashed);
    group_clause_add(grouping, PREFIX, "", &sorted);
    strbuf_add_str(&hashed, " SELECT __mmsql_group(?1");
    strbuf_add_str(&sorted, " SELECT ");
    for (size_t i = 0; i < grouping->n_keys; i++) {
        strbuf_add_str(&hashed, ", ");
        strbuf_add_str(&sorted, i ? ", " : "");
        group_part_add(grouping, grouping->keys[i], &hashed);
        group_part_add(grouping, grouping->keys[i], &sorted);
    }
    for (size_t i = 0; i < grouping->n_aggregates; i++) {
        static const char *const names[] = {
            ['n'] = "count(*", ['c'] = "count(", ['s'] = "sum(", ['t'] = "total(",
            ['a'] = "avg(",    ['m'] = "min(",   ['M'] = "max(",
        };
        struct aggregate aggregate = grouping->aggregates[i];
        strbuf_add_char(&form, aggregate.letter);
        strbuf_addf(&sorted, ", %s", names[(unsigned char)aggregate.letter]);
        group_part_add(grouping, aggregate.argument, &sorted);
        strbuf_add_char(&sorted, ')');
        if (aggregate.letter == 'n')
            continue;
        strbuf_add_str(&hashed, ", ");
        group_part_add(grouping, aggregate.argument, &hashed);
    }
    strbuf_add_char(&hashed, ')');
    group_source_add(grouping, &hashed);
    group_source_add(grouping, &sorted);
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
    group_clause_add(grouping, LIMIT, " LIMIT ", out);
    return !out->failed && !having.failed && !order.failed;
}

bool hash_grouping_prepare(sqlite3 *handle, const struct sql_rope *rope, sqlite3_stmt **statement)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    struct grouping grouping = {.handle = handle};
    sqlite3_stmt *hashed = NULL;
    bool is_known = group_clauses_read(&grouping, rope) && group_sorts_plainly(&grouping, rope) &&
                    lists_read(&grouping) && statement_write(&grouping, *statement, &sql) &&
                    sqlite3_prepare_v2(handle, sql.text, -1, &hashed, NULL) == SQLITE_OK;
    token_vec_done(&grouping.tokens);
    if (!is_known)
        return false;
    sqlite3_finalize(*statement);
    *statement = hashed;
    return true;
}
