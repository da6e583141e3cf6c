// SPDX-License-Identifier: Apache-2.0
//
// Replaces SQL of newer versions of SQLite for an older version. A first walk over the tokens finds
// the places, and a second walk writes the statement anew:
//
//     group_concat(x, ',' ORDER BY y DESC) -> __mmsql_sorted('group_concat', 2,
//                                               __mmsql_sort('2a-l=', x, ',', y))
//     string_agg(x, ','), jsonb(x)         -> group_concat(x, ','), json(x)
//     1_000                                -> 1000
//     iif(x, y)                            -> CASE WHEN x THEN y END
//     datetime(x, 'subsec')                -> strftime('%Y-%m-%d %H:%M:%f', x)
#include <errno.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/token.h"

#define NO_CALL    UINT32_MAX
#define LEVELS_MAX 1000 // of parentheses; SQLite takes no more
#define NESTED_MAX 50   // sorted aggregates within each other
#define VALUES_MAX 100  // arguments and keys of an aggregate; SQLite takes 127 arguments

// First versions of SQLite that have the SQL.
enum {
    HAS_SUBSECONDS = 3042000,
    HAS_ORDER_IN_AGGREGATES = 3044000,
    HAS_JSONB = 3045000,
    HAS_DIGIT_GROUPS = 3046000,
    HAS_IF = 3048000,
    HAS_ALL = HAS_IF,
};

enum edit_kind {
    EDIT_NONE, // an unchanged call
    EDIT_NAME,
    EDIT_NUMBER,
    EDIT_SORT,
    EDIT_SUBSECONDS,
    EDIT_CASE,
};

// A function call, or a token, that is replaced. Edits are in the order in which they begin.
struct edit {
    enum edit_kind kind;
    struct sql_token name;
    const char *instead;    // the new name
    const char *open, *end; // of a call: after its opening parenthesis; after its closing one
    const char *order;      // ORDER; NULL: there is none
    const char *keys;       // after BY
    const char *close;      // the closing parenthesis
    const char *filter_end; // after FILTER (...); NULL: there is none
    const char *modifier;   // 'subsec'
    bool is_result;         // the call is a column of a SELECT, named by its text
};
VEC_DEFINE(edit_vec, struct edit);

// Parentheses that are open.
struct level {
    uint32_t call;           // the edit, or NO_CALL
    bool selects;            // within the columns of a SELECT
    struct sql_token begins; // the token before the name of the call
};
VEC_DEFINE(level_vec, struct level);

struct rewriting {
    const struct sql_rope *rope;
    int version;
    struct edit_vec edits;
    struct level_vec levels; // the first level is the statement
};

static const struct {
    const char *name, *instead;
    int version;
} names[] = {
    {"string_agg", "group_concat", HAS_ORDER_IN_AGGREGATES},
    {"jsonb", "json", HAS_JSONB},
    {"jsonb_array", "json_array", HAS_JSONB},
    {"jsonb_extract", "json_extract", HAS_JSONB},
    {"jsonb_group_array", "json_group_array", HAS_JSONB},
    {"jsonb_group_object", "json_group_object", HAS_JSONB},
    {"jsonb_insert", "json_insert", HAS_JSONB},
    {"jsonb_object", "json_object", HAS_JSONB},
    {"jsonb_patch", "json_patch", HAS_JSONB},
    {"jsonb_remove", "json_remove", HAS_JSONB},
    {"jsonb_replace", "json_replace", HAS_JSONB},
    {"jsonb_set", "json_set", HAS_JSONB},
};

// Functions of time that take the modifier 'subsec', and the text around the arguments that
// replaces the modifier.
static const struct time_form {
    const char *name, *before, *after;
} times[] = {
    {"datetime", "strftime('%Y-%m-%d %H:%M:%f', ", ")"},
    {"time", "strftime('%H:%M:%f', ", ")"},
    {"unixepoch", "round((julianday(", ") - 2440587.5) * 86400, 3)"},
    {"julianday", "julianday(", ")"},
    {"date", "date(", ")"},
};

static const char *name_instead(struct sql_token name, int version)
{
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (version < names[i].version && sql_token_is(name, names[i].name))
            return names[i].instead;
    return NULL;
}

static const struct time_form *time_form_find(struct sql_token name)
{
    for (size_t i = 0; i < ELEMENTS(times); i++)
        if (sql_token_is(name, times[i].name))
            return &times[i];
    return NULL;
}

static bool token_equals(struct sql_token token, const char *text)
{
    return token.size == strlen(text) && strncasecmp(token.text, text, token.size) == 0;
}

static bool is_number_of_groups(struct sql_token token)
{
    return token.kind == SQL_NUMBER && memchr(token.text, '_', token.size);
}

// Returns the end of the parentheses that open at `at`.
static const char *parenthesis_end(const char *at, const char *end)
{
    size_t depth = 0;
    do {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind == SQL_END)
            return NULL;
        depth += sql_token_is(token, "(") ? 1 : 0;
        depth -= sql_token_is(token, ")") ? 1 : 0;
    } while (depth);
    return at;
}

// Returns the next part of a list up to `end`, without the comma. *at is then after the comma, or
// NULL.
static struct sql_part list_next(const char **at, const char *end)
{
    const char *begin = *at, *cursor = begin;
    size_t depth = 0;
    for (;;) {
        struct sql_token token = sql_token_next(&cursor, end);
        bool is_comma = depth == 0 && sql_token_is(token, ",");
        if (token.kind == SQL_END || is_comma) {
            *at = is_comma ? cursor : NULL;
            return (struct sql_part){begin, (size_t)(token.text - begin)};
        }
        depth += sql_token_is(token, "(") ? 1 : 0;
        depth -= depth && sql_token_is(token, ")") ? 1 : 0;
    }
}

// A key of ORDER BY: its expression, and its way of sorting.
struct key {
    struct sql_part expression;
    char form[4]; // direction, place of NULL, collation
};

// Reads the words after the expression. Returns false if the collation is unknown.
static bool key_read(struct sql_part part, struct key *ret)
{
    const char *at = part.text, *end = at + part.size, *cut = end;
    struct sql_token last[4] = {0}; // the last token first
    bool falls = false, is_known = true;
    char nulls = 0, collation = '=';
    size_t depth = 0;
    for (;;) {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind == SQL_END)
            break;
        depth += sql_token_is(token, "(") ? 1 : 0;
        depth -= depth && sql_token_is(token, ")") ? 1 : 0;
        if (depth)
            continue;
        memmove(last + 1, last, sizeof(last) - sizeof(*last));
        *last = token;
        bool is_nulls = sql_token_is(last[1], "NULLS");
        if (sql_token_is(token, "ASC") || sql_token_is(token, "DESC")) {
            falls = sql_token_is(token, "DESC");
            cut = token.text;
        } else if (is_nulls && (sql_token_is(token, "FIRST") || sql_token_is(token, "LAST"))) {
            nulls = sql_token_is(token, "FIRST") ? 'f' : 'l';
            cut = cut < last[1].text ? cut : last[1].text;
        } else if (sql_token_is(last[1], "COLLATE")) {
            collation = token_equals(token, "NOCASE")  ? 'n'
                        : token_equals(token, "RTRIM") ? 'r'
                                                       : '=';
            is_known = collation != '=' || token_equals(token, "BINARY");
        }
    }
    ret->expression = (struct sql_part){part.text, (size_t)(cut - part.text)};
    ret->form[0] = falls ? '-' : '+';
    ret->form[1] = nulls ? nulls : falls ? 'l' : 'f';
    ret->form[2] = collation;
    ret->form[3] = 0;
    return is_known;
}

static size_t list_count(const char *at, const char *end)
{
    size_t n = 0;
    for (; at; n++)
        list_next(&at, end);
    return n;
}

// Returns whether a sorted aggregate can be rewritten.
static bool sort_is_known(const struct edit *edit)
{
    size_t n = list_count(edit->open, edit->order);
    for (const char *at = edit->keys; at; n++) {
        struct key key;
        if (!key_read(list_next(&at, edit->close), &key))
            return false;
    }
    return n < VALUES_MAX;
}

static bool is_any_of(struct sql_token token, const char *const *words)
{
    for (; *words; words++)
        if (sql_token_is(token, *words))
            return true;
    return false;
}

// Returns whether the call that began at `level` and ends at `at` is a whole column without another
// name.
static bool is_result(const struct rewriting *rewriting, const struct level *level, const char *at,
                      const char *end)
{
    static const char *const before[] = {"SELECT", "DISTINCT", "ALL", ",", NULL};
    static const char *const after[] = {",",     "FROM",  "WHERE",     "GROUP",  "HAVING", "ORDER",
                                        "LIMIT", "UNION", "INTERSECT", "EXCEPT", ")",      NULL};
    struct sql_token token = sql_token_next(&at, end);
    return rewriting->levels.items[rewriting->levels.n - 1].selects &&
           is_any_of(level->begins, before) && (token.kind == SQL_END || is_any_of(token, after));
}

// Returns whether the call is a form of if() or iif() that older versions lack. All versions have
// iif() with three arguments.
static bool is_if(const struct edit *edit)
{
    bool is_short = sql_token_is(edit->name, "IF");
    if (!is_short && !sql_token_is(edit->name, "IIF"))
        return false;
    size_t n = list_count(edit->open, edit->close);
    return n >= 2 && (is_short || n != 3);
}

static void call_close(struct rewriting *rewriting, struct sql_token token, const char *end)
{
    if (rewriting->levels.n < 2)
        return;
    struct level level = rewriting->levels.items[--rewriting->levels.n];
    if (level.call == NO_CALL)
        return;
    struct edit *edit = &rewriting->edits.items[level.call];
    const char *at = token.text + 1;
    edit->close = token.text;
    edit->end = at;
    if (edit->modifier && time_form_find(edit->name))
        edit->kind = EDIT_SUBSECONDS;
    if (rewriting->version < HAS_IF && is_if(edit))
        edit->kind = EDIT_CASE;
    if (edit->order && sort_is_known(edit)) {
        if (sql_word_take(&at, end, "FILTER"))
            edit->filter_end = at = parenthesis_end(at, end);
        // SQLite allows no ORDER BY within a window function.
        const char *over = at;
        if (at && !sql_word_take(&over, end, "OVER")) {
            edit->kind = EDIT_SORT;
            edit->end = at;
        }
    }
    edit->is_result = is_result(rewriting, &level, edit->end, end);
}

// Begins a call. `before` is the token before the name.
static int call_open(struct rewriting *rewriting, struct sql_token before, struct sql_token name,
                     const char *open, const char *end)
{
    struct edit edit = {.name = name, .open = open, .end = open};
    bool is_call = (name.kind == SQL_WORD || name.kind == SQL_QUOTED) &&
                   rewriting->levels.n < LEVELS_MAX && !sql_token_is(name, "OVER") &&
                   !sql_token_is(name, "AS");
    const char *at = open;
    struct sql_token first = sql_token_next(&at, end);
    is_call = is_call && !sql_token_is(first, "SELECT") && !sql_token_is(first, "WITH") &&
              !sql_token_is(first, "VALUES");
    edit.instead = is_call ? name_instead(name, rewriting->version) : NULL;
    edit.kind = edit.instead ? EDIT_NAME : EDIT_NONE;
    struct level level = {is_call ? (uint32_t)rewriting->edits.n : NO_CALL, false, before};
    int r = level_vec_push(&rewriting->levels, level);
    return r == 0 && is_call ? edit_vec_push(&rewriting->edits, edit) : r;
}

static bool is_subsecond(struct sql_token token)
{
    return token.kind == SQL_STRING &&
           (token_equals(token, "'subsec'") || token_equals(token, "'subsecond'"));
}

// Handles a token that is not a parenthesis. `last` is the token before; `at` is after the token.
static int token_see(struct rewriting *rewriting, struct sql_token last, struct sql_token token,
                     const char *at, const char *end)
{
    static const char *const clauses[] = {"FROM",  "WHERE", "GROUP",     "HAVING", "ORDER",
                                          "LIMIT", "UNION", "INTERSECT", "EXCEPT", NULL};
    struct level *level = &rewriting->levels.items[rewriting->levels.n - 1];
    struct edit *edit = level->call == NO_CALL ? NULL : &rewriting->edits.items[level->call];
    if (rewriting->version < HAS_DIGIT_GROUPS && is_number_of_groups(token)) {
        struct edit number = {.kind = EDIT_NUMBER, .name = token, .end = at};
        return edit_vec_push(&rewriting->edits, number);
    }
    if (!edit)
        level->selects =
            sql_token_is(token, "SELECT") || (level->selects && !is_any_of(token, clauses));
    else if (is_subsecond(token) && rewriting->version < HAS_SUBSECONDS)
        edit->modifier = token.text;
    else if (!edit->order && sql_token_is(token, "ORDER") && !sql_token_is(last, "(") &&
             rewriting->version < HAS_ORDER_IN_AGGREGATES && sql_word_take(&at, end, "BY")) {
        edit->order = token.text;
        edit->keys = at;
    }
    return 0;
}

static int edits_find(struct rewriting *rewriting)
{
    const char *at = rewriting->rope->sql.text, *end = at + rewriting->rope->sql.size;
    struct sql_token before = {0}, last = {0};
    int r = level_vec_push(&rewriting->levels, (struct level){.call = NO_CALL});
    while (r == 0) {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind == SQL_END)
            break;
        if (sql_token_is(token, "("))
            r = call_open(rewriting, before, last, at, end);
        else if (sql_token_is(token, ")"))
            call_close(rewriting, token, end);
        else
            r = token_see(rewriting, last, token, at, end);
        before = last;
        last = token;
    }
    return r;
}

// -- writing: `next` is the first edit that has not been written --

struct writer {
    const struct rewriting *rewriting;
    struct sql_rope *out;
    size_t next;
    unsigned depth;
};

static void copy(struct writer *writer, const char *begin, const char *end)
{
    const struct sql_rope *rope = writer->rewriting->rope;
    if (begin < end)
        rope_add(writer->out, rope, (size_t)(begin - rope->sql.text),
                 (size_t)(end - rope->sql.text));
}

static void range_write(struct writer *writer, const char *begin, const char *end);

static void number_write(struct writer *writer, struct sql_token number)
{
    const char *at = number.text, *end = at + number.size, *gap;
    for (; (gap = memchr(at, '_', (size_t)(end - at))); at = gap + 1)
        copy(writer, at, gap);
    copy(writer, at, end);
}

static void name_write(struct writer *writer, const struct edit *edit)
{
    const struct sql_rope *rope = writer->rewriting->rope;
    size_t at = (size_t)(edit->name.text - rope->sql.text);
    rope_add_made_at(writer->out, edit->instead, rope_origin(rope, at));
}

// Writes the name of the aggregate as a text.
static void aggregate_write(struct writer *writer, const struct edit *edit)
{
    bool is_quoted = edit->name.kind == SQL_QUOTED && edit->name.size >= 2;
    const char *begin = edit->name.text + is_quoted;
    rope_add_made(writer->out, "__mmsql_sorted('");
    if (edit->instead)
        name_write(writer, edit);
    else
        copy(writer, begin, begin + edit->name.size - 2 * is_quoted);
}

static void sort_write(struct writer *writer, const struct edit *edit)
{
    const char *open = edit->open, *at = open;
    bool is_distinct = sql_word_take(&at, edit->order, "DISTINCT");
    open = is_distinct ? at : open;
    struct sql_part keys[VALUES_MAX];
    char text[64];
    unsigned n = (unsigned)list_count(open, edit->order), n_keys = 0;
    at = open;
    bool is_all = n == 1 && sql_word_take(&at, edit->order, "*");
    n = is_all ? 0 : n;
    aggregate_write(writer, edit);
    snprintf(text, sizeof(text), "', %u, __mmsql_sort('%u%c", n, n, is_distinct ? 'd' : 'a');
    rope_add_made(writer->out, text);
    for (at = edit->keys; at;) {
        struct key key;
        key_read(list_next(&at, edit->close), &key);
        rope_add_made(writer->out, key.form);
        keys[n_keys++] = key.expression;
    }
    rope_add_made(writer->out, is_all ? "'" : "',");
    if (!is_all)
        range_write(writer, open, edit->order);
    for (unsigned i = 0; i < n_keys; i++) {
        rope_add_made(writer->out, ",");
        range_write(writer, keys[i].text, keys[i].text + keys[i].size);
    }
    rope_add_made(writer->out, ")");
    if (edit->filter_end)
        range_write(writer, edit->close + 1, edit->filter_end);
    rope_add_made(writer->out, ")");
}

// Writes a function of time without the modifier, and without the comma before or after the
// modifier.
static void subseconds_write(struct writer *writer, const struct edit *edit)
{
    const struct time_form *form = time_form_find(edit->name);
    bool is_first = true;
    rope_add_made(writer->out, form->before);
    for (const char *at = edit->open; at;) {
        struct sql_part part = list_next(&at, edit->close);
        bool is_modifier = part.text <= edit->modifier && edit->modifier < part.text + part.size;
        if (is_modifier && !is_first)
            continue;
        rope_add_made(writer->out, is_first ? "" : ", ");
        if (is_modifier)
            rope_add_made(writer->out, "'now'");
        else
            range_write(writer, part.text, part.text + part.size);
        is_first = false;
    }
    rope_add_made(writer->out, form->after);
}

static void case_write(struct writer *writer, const struct edit *edit)
{
    rope_add_made(writer->out, "CASE");
    for (const char *at = edit->open; at;) {
        struct sql_part part = list_next(&at, edit->close);
        rope_add_made(writer->out, at ? " WHEN " : " ELSE ");
        range_write(writer, part.text, part.text + part.size);
        if (!at)
            break;
        rope_add_made(writer->out, " THEN ");
        part = list_next(&at, edit->close);
        range_write(writer, part.text, part.text + part.size);
    }
    rope_add_made(writer->out, " END");
}

// Writes the name that the column would have without the edit: the text of the call.
static void result_name_write(struct writer *writer, const struct edit *edit)
{
    const char *at = edit->name.text, *end = edit->end, *quote;
    rope_add_made(writer->out, " AS \"");
    for (; (quote = memchr(at, '"', (size_t)(end - at))); at = quote + 1) {
        copy(writer, at, quote);
        rope_add_made(writer->out, "\"\"");
    }
    copy(writer, at, end);
    rope_add_made(writer->out, "\"");
}

static void edit_write(struct writer *writer, const struct edit *edit)
{
    writer->depth++;
    switch (edit->kind) {
    case EDIT_NUMBER:
        number_write(writer, edit->name);
        break;
    case EDIT_SORT:
        sort_write(writer, edit);
        break;
    case EDIT_SUBSECONDS:
        subseconds_write(writer, edit);
        break;
    case EDIT_CASE:
        case_write(writer, edit);
        break;
    default:
        name_write(writer, edit);
        range_write(writer, edit->name.text + edit->name.size, edit->end);
    }
    if (edit->is_result)
        result_name_write(writer, edit);
    writer->depth--;
}

// Writes the text from `begin` to `end` with its edits.
static void range_write(struct writer *writer, const char *begin, const char *end)
{
    const struct edit_vec *edits = &writer->rewriting->edits;
    while (writer->next < edits->n && edits->items[writer->next].name.text < end) {
        const struct edit *edit = &edits->items[writer->next++];
        if (edit->kind == EDIT_NONE || edit->name.text < begin || writer->depth == NESTED_MAX)
            continue;
        copy(writer, begin, edit->name.text);
        edit_write(writer, edit);
        begin = edit->end;
    }
    copy(writer, begin, end);
}

static bool has_edits(const struct rewriting *rewriting)
{
    vec_foreach(&rewriting->edits, edit)
        if (edit->kind != EDIT_NONE)
            return true;
    return false;
}

int newer_sql_replace(struct sql_rope *rope, int version)
{
    CLEANUP(rope_done) struct sql_rope out = {0};
    struct rewriting rewriting = {.rope = rope, .version = version};
    if (version >= HAS_ALL || !rope->sql.size)
        return 0;
    int r = edits_find(&rewriting);
    bool is_changed = r == 0 && has_edits(&rewriting);
    if (is_changed) {
        struct writer writer = {.rewriting = &rewriting, .out = &out};
        range_write(&writer, rope->sql.text, rope->sql.text + rope->sql.size);
        r = rope_check(&out);
    }
    edit_vec_done(&rewriting.edits);
    level_vec_done(&rewriting.levels);
    if (r < 0)
        return -ENOMEM;
    if (is_changed) {
        struct sql_rope old = *rope;
        *rope = out;
        out = old;
    }
    return 0;
}
