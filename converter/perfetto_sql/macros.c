// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/macros.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/token.h"

#define CALLS_SHOWN 8 // number of nested macro calls in an error

VEC_DEFINE(rope_vec, struct sql_rope);

static void ropes_done(struct rope_vec *ropes)
{
    vec_foreach(ropes, rope)
        rope_done(rope);
    rope_vec_done(ropes);
}

// One expansion: its macros, the place of an error, and the counts for the limits.
struct expansion {
    struct sql_macros *macros;
    struct strbuf *why;
    struct sql_piece *at;
    unsigned depth, n_nested, n_calls;
    size_t n_bytes; // copied by all calls
};

// The macro whose body is being expanded; NULL at the top.
struct scope {
    const struct sql_macro *macro;
    const struct rope_vec *values; // of its arguments
};

// A range of a rope.
struct range {
    const struct sql_rope *rope;
    const char *begin, *end;
};

static int expand(struct expansion *expansion, struct range in, const struct scope *scope,
                  struct sql_rope *ret);

static size_t offset_in(const struct sql_rope *rope, const char *at)
{
    return (size_t)(at - rope->sql.text);
}

static void part_add(struct sql_rope *ret, const struct sql_rope *rope, const char *begin,
                     const char *end)
{
    rope_add(ret, rope, offset_in(rope, begin), offset_in(rope, end));
}

static int fails(struct expansion *expansion, const struct sql_rope *rope, const char *at, int r,
                 const char *name, size_t size, const char *why)
{
    if (!expansion->why->size) {
        strbuf_addf(expansion->why, "macro %.*s!: %s", (int)size, name, why);
        *expansion->at = rope_origin(rope, offset_in(rope, at));
    }
    return r;
}

// Returns the range without the blanks and comments at both ends.
static struct range trimmed(struct range range)
{
    const char *at = range.begin, *after = NULL;
    struct sql_token token;
    for (bool first = true; (token = sql_token_next(&at, range.end)).kind != SQL_END;
         first = false) {
        if (first)
            range.begin = token.text;
        after = at;
    }
    if (after)
        range.end = after;
    else
        range.begin = range.end;
    return range;
}

VEC_DEFINE(range_vec, struct range);

// Reads the items between the parentheses at *cursor, and moves *cursor past the closing one.
// Returns -EINVAL if there is no closing parenthesis. An empty list has no items.
static int list_read(const struct sql_rope *rope, const char **cursor, const char *end,
                     struct range_vec *ret)
{
    const char *at = *cursor;
    if (!sql_word_take(&at, end, "("))
        return -EINVAL;
    const char *begin = at;
    for (int depth = 0;;) {
        struct sql_token token = sql_token_next(&at, end);
        bool closes = sql_token_is(token, ")"), is_end = closes && depth == 0;
        if (token.kind == SQL_END)
            return -EINVAL;
        if (is_end || (depth == 0 && sql_token_is(token, ","))) {
            struct range item = trimmed((struct range){rope, begin, token.text});
            bool is_empty = is_end && ret->n == 0 && item.begin == item.end;
            int r = is_empty ? 0 : range_vec_push(ret, item);
            if (r < 0)
                return r;
            begin = at;
        }
        if (is_end)
            break;
        depth += sql_token_is(token, "(") ? 1 : closes ? -1 : 0;
    }
    *cursor = at;
    return 0;
}

static int stringify(const struct rope_vec *values, struct sql_rope *ret)
{
    struct strbuf sql CLEANUP(strbuf_done) = {0};
    const struct strbuf *text = &values->items[0].sql;
    strbuf_addf(&sql, "'%.*s'", (int)text->size, text->size ? text->text : "");
    if (!sql.failed)
        rope_add_made(ret, sql.text);
    return sql.failed ? -ENOMEM : rope_check(ret);
}

// Adds the call name!(x[, y]).
static void apply_one(struct sql_rope *ret, const struct sql_rope *name, struct range x,
                      const struct range *y)
{
    rope_add(ret, name, 0, name->sql.size);
    rope_add_made(ret, "!(");
    part_add(ret, x.rope, x.begin, x.end);
    if (y) {
        rope_add_made(ret, ", ");
        part_add(ret, y->rope, y->begin, y->end);
    }
    rope_add_made(ret, ")");
}

static int list_of(const struct sql_rope *value, struct range_vec *ret)
{
    if (!value->sql.size)
        return -EINVAL;
    const char *at = value->sql.text, *end = at + value->sql.size;
    int r = list_read(value, &at, end, ret);
    if (r == 0 && ret->n > 1 && ret->items[ret->n - 1].begin == ret->items[ret->n - 1].end)
        ret->n--; // nothing follows the last comma
    return r == 0 && sql_blanks_skip(at, end) != end ? -EINVAL : r;
}

static int apply(struct expansion *expansion, const struct rope_vec *values, const char *between,
                 bool is_prefix, struct sql_rope *ret)
{
    struct range_vec xs CLEANUP(range_vec_done) = {0}, ys CLEANUP(range_vec_done) = {0};
    struct sql_rope calls CLEANUP(rope_done) = {0};
    int r = list_of(&values->items[1], &xs);
    if (r == 0 && values->n == 3)
        r = list_of(&values->items[2], &ys);
    size_t n = values->n == 3 && ys.n < xs.n ? ys.n : xs.n;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (i > 0 || is_prefix)
            rope_add_made(&calls, between);
        apply_one(&calls, &values->items[0], xs.items[i], values->n == 3 ? &ys.items[i] : NULL);
        r = rope_check(&calls);
    }
    if (r < 0 || n == 0)
        return r;
    struct range all = {&calls, calls.sql.text, calls.sql.text + calls.sql.size};
    return expand(expansion, all, NULL, ret);
}

static const struct built_in {
    const char *name;
    unsigned n_min, n_max; // arguments
    const char *between;   // NULL: the macro makes a text
    bool is_prefix;
} built_ins[] = {
    {"__intrinsic_stringify", 1, 1, NULL, false},
    {"__intrinsic_stringify_ignore_table", 1, 1, NULL, false},
    {"__intrinsic_token_apply", 2, 3, ", ", false},
    {"__intrinsic_token_apply_prefix", 2, 3, ", ", true},
    {"__intrinsic_token_apply_and", 2, 3, " AND ", false},
    {"__intrinsic_token_apply_and_prefix", 2, 3, " AND ", true},
};

static const struct built_in *built_in_find(struct sql_token name)
{
    for (size_t i = 0; i < ELEMENTS(built_ins); i++)
        if (name.size == strlen(built_ins[i].name) &&
            strncmp(name.text, built_ins[i].name, name.size) == 0)
            return &built_ins[i];
    return NULL;
}

static int body_expand(struct expansion *expansion, const struct sql_macro *macro,
                       const struct rope_vec *values, struct sql_piece place, struct sql_rope *ret)
{
    struct sql_rope body CLEANUP(rope_done) = {0};
    struct sql_call call = {macro->name, strlen(macro->name), place};
    int r = sql_call_vec_push(&expansion->macros->calls, call);
    uint32_t number = (uint32_t)expansion->macros->calls.n;
    rope_add_text(&body, macro->text, macro->begin, macro->end, number);
    if (r == 0)
        r = rope_check(&body);
    if (r < 0 || !body.sql.size)
        return r;
    struct scope scope = {macro, values};
    struct range in = {&body, body.sql.text, body.sql.text + body.sql.size};
    return expand(expansion, in, &scope, ret);
}

static int call_expand(struct expansion *expansion, const struct sql_rope *rope,
                       struct sql_token name, const struct rope_vec *values, struct sql_rope *ret)
{
    const struct built_in *built_in = built_in_find(name);
    const struct sql_macro *macro =
        built_in ? NULL : macros_find(expansion->macros, name.text, name.size);
    const char *why = NULL;
    if (!built_in && !macro)
        why = "there is no macro of this name";
    else if (built_in ? values->n < built_in->n_min || values->n > built_in->n_max
                      : values->n != macro->n)
        why = "the number of arguments is wrong";
    else if (expansion->depth == SQL_MACRO_DEPTH)
        why = "calls are nested too deeply";
    else if (expansion->n_calls++ == SQL_MACRO_CALLS || expansion->n_bytes > SQL_MACRO_BYTES)
        why = "the statement grows too large";
    if (why)
        return fails(expansion, rope, name.text, -EINVAL, name.text, name.size, why);
    expansion->depth++;
    int r;
    if (macro)
        r = body_expand(expansion, macro, values, rope_origin(rope, offset_in(rope, name.text)),
                        ret);
    else if (built_in->between)
        r = apply(expansion, values, built_in->between, built_in->is_prefix, ret);
    else
        r = stringify(values, ret);
    expansion->depth--;
    return r < 0 ? fails(expansion, rope, name.text, r, name.text, name.size,
                         r == -ENOMEM ? "out of memory" : "its arguments are not lists")
                 : 0;
}

// Reads and expands a call of the macro `name`. *cursor is after the exclamation mark.
static int call_read(struct expansion *expansion, const struct range *in, struct sql_token name,
                     const char **cursor, const struct scope *scope, struct sql_rope *ret)
{
    struct range_vec items CLEANUP(range_vec_done) = {0};
    struct rope_vec values CLEANUP(ropes_done) = {0};
    int r = list_read(in->rope, cursor, in->end, &items);
    if (r == 0)
        r = rope_vec_reserve(&values, items.n);
    if (r == 0 && expansion->n_nested == SQL_NESTED_MAX)
        return fails(expansion, in->rope, name.text, -E2BIG, name.text, name.size,
                     "calls are nested too deeply");
    if (r < 0)
        return fails(expansion, in->rope, name.text, r, name.text, name.size,
                     r == -ENOMEM ? "out of memory" : "the list of arguments has no end");
    expansion->n_nested++;
    for (size_t i = 0; i < items.n && r == 0; i++) {
        rope_vec_push(&values, (struct sql_rope){0});
        r = expand(expansion, items.items[i], scope, &values.items[i]);
    }
    expansion->n_nested--;
    return r < 0 ? r : call_expand(expansion, in->rope, name, &values, ret);
}

// Returns the value of the macro's argument that the token names, or NULL.
static const struct sql_rope *value_find(const struct scope *scope, struct sql_token token)
{
    if (!scope || token.kind != SQL_VARIABLE || *token.text != '$')
        return NULL;
    for (size_t i = 0; i < scope->macro->n; i++) {
        const char *name = scope->macro->arguments[i];
        if (strlen(name) == token.size - 1 && strncmp(name, token.text + 1, token.size - 1) == 0)
            return &scope->values->items[i];
    }
    return NULL;
}

// Returns whether a name before `at` is a macro's: an exclamation mark and an opening parenthesis
// follow. *ret is after the mark.
static bool is_call(const char *at, const char *end, const char **ret)
{
    if (!sql_word_take(&at, end, "!"))
        return false;
    *ret = at;
    return sql_word_take(&at, end, "(");
}

static int too_large(struct expansion *expansion, const struct sql_rope *rope,
                     struct sql_token token, const struct scope *scope)
{
    const char *name = scope ? scope->macro->name : token.text;
    return fails(expansion, rope, token.text, -E2BIG, name, scope ? strlen(name) : token.size,
                 "the statement grows too large");
}

static int expand(struct expansion *expansion, struct range in, const struct scope *scope,
                  struct sql_rope *ret)
{
    const char *copied = in.begin, *at = in.begin;
    int r = 0;
    while (r == 0 && at < in.end) {
        struct sql_token token = sql_token_read(at, in.end);
        const struct sql_rope *value = value_find(scope, token);
        const char *after = token.text + token.size;
        bool calls = token.kind == SQL_WORD && is_call(after, in.end, &after);
        at = calls ? after : token.text + token.size;
        if (!value && !calls)
            continue;
        part_add(ret, in.rope, copied, token.text);
        if (value) {
            expansion->n_bytes += value->sql.size + value->pieces.n * sizeof(struct sql_piece);
            rope_add(ret, value, 0, value->sql.size);
        } else {
            r = call_read(expansion, &in, token, &at, scope, ret);
        }
        if (r == 0)
            r = rope_check(ret);
        if (r == 0 && (ret->sql.size > SQL_EXPANDED_MAX || expansion->n_bytes > SQL_MACRO_BYTES))
            r = too_large(expansion, in.rope, token, scope);
        copied = at;
    }
    part_add(ret, in.rope, copied, in.end);
    return r == 0 ? rope_check(ret) : r;
}

int macros_expand(struct sql_macros *macros, const struct sql_text *text, size_t begin, size_t end,
                  struct sql_rope *ret, struct strbuf *why, struct sql_piece *at)
{
    struct expansion expansion = {.macros = macros, .why = why, .at = at};
    struct sql_rope whole CLEANUP(rope_done) = {0};
    sql_call_vec_clear(&macros->calls);
    rope_add_text(&whole, text, begin, end, 0);
    int r = rope_check(&whole);
    if (r == 0 && whole.sql.size) {
        struct range in = {&whole, whole.sql.text, whole.sql.text + whole.sql.size};
        r = expand(&expansion, in, NULL, ret);
    }
    if (r < 0 && !why->size)
        strbuf_add_str(why, strerror(-r));
    return r;
}

void macros_trace(const struct sql_macros *macros, struct strbuf *out, struct sql_piece place)
{
    unsigned n = 0, left_out = 0;
    while (place.text) {
        bool is_last = !place.call || place.call > macros->calls.n;
        if (n++ < CALLS_SHOWN || is_last) {
            if (left_out)
                strbuf_addf(out, "\n  ... %u more calls", left_out);
            sql_place_print(out, &place);
        } else {
            left_out++;
        }
        if (is_last)
            break;
        const struct sql_call *call = &macros->calls.items[place.call - 1];
        if (n <= CALLS_SHOWN)
            strbuf_addf(out, "\n  in macro %.*s!, called here:", (int)call->macro_size,
                        call->macro);
        place = call->place;
    }
}

struct sql_macro *macros_find(const struct sql_macros *macros, const char *name, size_t size)
{
    vec_foreach(&macros->all, macro)
        if (strlen(macro->name) == size && strncmp(macro->name, name, size) == 0)
            return macro;
    return NULL;
}

void sql_macro_done(struct sql_macro *macro)
{
    for (size_t i = 0; i < macro->n; i++)
        free(macro->arguments[i]);
    free(macro->arguments);
    free(macro->name);
}

int macros_add(struct sql_macros *macros, struct sql_macro macro)
{
    struct sql_macro *old = macros_find(macros, macro.name, strlen(macro.name));
    int r = old ? 0 : sql_macro_vec_push(&macros->all, macro);
    if (old) {
        sql_macro_done(old);
        *old = macro;
    }
    if (r < 0)
        sql_macro_done(&macro);
    return r;
}

bool macros_remove(struct sql_macros *macros, const char *name, size_t size)
{
    struct sql_macro *macro = macros_find(macros, name, size);
    if (!macro)
        return false;
    sql_macro_done(macro);
    *macro = macros->all.items[--macros->all.n];
    return true;
}

void macros_done(struct sql_macros *macros)
{
    vec_foreach(&macros->all, macro)
        sql_macro_done(macro);
    sql_macro_vec_done(&macros->all);
    sql_call_vec_done(&macros->calls);
}
