// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/sql_definition.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/elements.h"
#include "converter/perfetto_sql/token.h"

struct reader {
    const char *at, *end;
    struct sql_definition *to;
    struct strbuf *why;
    const char **ret_at;
};

static int expected(struct reader *reader, const char *what)
{
    const char *at = sql_blanks_skip(reader->at, reader->end);
    if (!reader->why->size) {
        strbuf_addf(reader->why, "%s is expected", what);
        *reader->ret_at = at;
    }
    return reader->why->failed ? -ENOMEM : -EINVAL;
}

static bool take(struct reader *reader, const char *word)
{
    return sql_word_take(&reader->at, reader->end, word);
}

static bool peek(const struct reader *reader, const char *word)
{
    const char *at = reader->at;
    return sql_word_take(&at, reader->end, word);
}

static int need(struct reader *reader, const char *word)
{
    return take(reader, word) ? 0 : expected(reader, word);
}

static bool is_name(struct sql_token token)
{
    return token.kind == SQL_WORD || token.kind == SQL_QUOTED;
}

static int name_read(struct reader *reader, struct sql_part *ret, const char *what)
{
    const char *at = reader->at;
    struct sql_token token = sql_token_next(&at, reader->end);
    if (!is_name(token))
        return expected(reader, what);
    reader->at = at;
    *ret = (struct sql_part){token.text, token.size};
    return 0;
}

// Reads names and wildcards with dots between them.
static int module_read(struct reader *reader)
{
    const char *at = reader->at;
    struct sql_token token = sql_token_next(&at, reader->end);
    const char *begin = token.text, *end = begin;
    for (; is_name(token) || sql_token_is(token, ".") || sql_token_is(token, "*");
         token = sql_token_read(end, reader->end))
        end = token.text + token.size;
    if (end == begin)
        return expected(reader, "the name of a module");
    reader->at = end;
    reader->to->name = (struct sql_part){begin, (size_t)(end - begin)};
    return 0;
}

static struct sql_part rest_take(struct reader *reader)
{
    const char *begin = sql_blanks_skip(reader->at, reader->end);
    reader->at = reader->end;
    return (struct sql_part){begin, (size_t)(reader->end - begin)};
}

// Reads "(table.column)" after a type like JOINID.
static int type_table_read(struct reader *reader, struct sql_field *field)
{
    if (!take(reader, "("))
        return 0;
    const char *begin = sql_blanks_skip(reader->at, reader->end);
    struct sql_token token;
    do {
        token = sql_token_next(&reader->at, reader->end);
    } while (token.kind != SQL_END && !sql_token_is(token, ")"));
    field->table = (struct sql_part){begin, (size_t)(token.text - begin)};
    return token.kind == SQL_END ? expected(reader, ")") : 0;
}

static int dots_read(struct reader *reader, struct sql_field *field)
{
    if (!take(reader, "."))
        return 0;
    field->is_variadic = true;
    int r = need(reader, ".");
    return r == 0 ? need(reader, ".") : r;
}

static int field_read(struct reader *reader, struct sql_field_vec *ret, bool has_type)
{
    struct sql_field field = {.comments.text = reader->at};
    int r = name_read(reader, &field.name, "a name");
    if (r == 0)
        field.comments.size = (size_t)(field.name.text - field.comments.text);
    if (r == 0 && has_type)
        r = name_read(reader, &field.type, "a type");
    if (r == 0 && has_type)
        r = type_table_read(reader, &field);
    if (r == 0 && has_type)
        r = dots_read(reader, &field);
    return r == 0 ? sql_field_vec_push(ret, field) : r;
}

// Reads "(name Type, ...)".
static int fields_read(struct reader *reader, struct sql_field_vec *ret, bool has_type)
{
    int r = need(reader, "(");
    bool is_empty = r == 0 && take(reader, ")");
    while (r == 0 && !is_empty) {
        r = field_read(reader, ret, has_type);
        if (r < 0 || take(reader, ")"))
            break;
        r = need(reader, ",");
        if (r < 0)
            r = reader->why->size ? (strbuf_clear(reader->why), expected(reader, ", or )")) : r;
    }
    return r;
}

// As fields_read(), for a list of at least one field.
static int columns_read(struct reader *reader, struct sql_field_vec *ret, bool has_type)
{
    const char *at = reader->at;
    if (sql_word_take(&at, reader->end, "(") && sql_word_take(&at, reader->end, ")")) {
        need(reader, "(");
        return expected(reader, "the name of a column");
    }
    return fields_read(reader, ret, has_type);
}

static int body_read(struct reader *reader)
{
    int r = need(reader, "AS");
    if (r < 0)
        return r;
    reader->to->body = rest_take(reader);
    return sql_part_is_empty(reader->to->body) ? expected(reader, "SQL after AS") : 0;
}

// Reads the optional USING, which names the implementation of a table.
static int using_read(struct reader *reader)
{
    return take(reader, "USING") ? need(reader, "dataframe") : 0;
}

static int relation_read(struct reader *reader)
{
    int r = name_read(reader, &reader->to->name, "a name");
    if (r == 0 && reader->to->kind == DEFINITION_TABLE)
        r = using_read(reader);
    if (r == 0 && peek(reader, "("))
        r = columns_read(reader, &reader->to->columns, true);
    return r == 0 ? body_read(reader) : r;
}

static int returns_read(struct reader *reader)
{
    int r = need(reader, "RETURNS");
    struct sql_field type = {0};
    if (r == 0)
        r = name_read(reader, &reader->to->returns, "a type");
    if (r < 0)
        return r;
    struct sql_part returns = reader->to->returns;
    struct sql_token token = {SQL_WORD, returns.text, returns.size};
    return sql_token_is(token, "TABLE") ? columns_read(reader, &reader->to->columns, true)
                                        : type_table_read(reader, &type);
}

static int function_read(struct reader *reader)
{
    int r = name_read(reader, &reader->to->name, "the function's name");
    if (r == 0)
        r = fields_read(reader, &reader->to->arguments, true);
    if (r == 0)
        r = returns_read(reader);
    if (r == 0 && take(reader, "DELEGATES")) {
        r = need(reader, "TO");
        return r == 0 ? name_read(reader, &reader->to->delegate, "the function's name") : r;
    }
    if (r == 0 && !peek(reader, "AS"))
        return expected(reader, "AS or DELEGATES TO");
    return r == 0 ? body_read(reader) : r;
}

static int macro_read(struct reader *reader)
{
    int r = name_read(reader, &reader->to->name, "the macro's name");
    if (r == 0)
        r = fields_read(reader, &reader->to->arguments, true);
    if (r == 0)
        r = need(reader, "RETURNS");
    if (r == 0)
        r = name_read(reader, &reader->to->returns, "a type");
    if (r == 0)
        r = need(reader, "AS");
    if (r == 0) // the body of a macro may be empty
        reader->to->body = rest_take(reader);
    return r;
}

static int index_read(struct reader *reader)
{
    int r = name_read(reader, &reader->to->name, "the name of the index");
    if (r == 0)
        r = need(reader, "ON");
    if (r == 0)
        r = name_read(reader, &reader->to->on, "the name of a table");
    return r == 0 ? columns_read(reader, &reader->to->arguments, false) : r;
}

static int word_read(struct reader *reader, struct sql_part *ret, const char *const *words,
                     const char *what)
{
    for (size_t i = 0; words[i]; i++)
        if (peek(reader, words[i]))
            return name_read(reader, ret, what);
    return expected(reader, what);
}

static int drop_read(struct reader *reader)
{
    static const char *const kinds[] = {"TABLE", "VIEW", "MACRO", "INDEX", NULL};
    struct sql_definition *to = reader->to;
    to->kind = DEFINITION_DROP;
    int r = word_read(reader, &to->what, kinds, "TABLE, VIEW, MACRO or INDEX");
    if (r == 0 && take(reader, "IF")) {
        to->replaces = true;
        r = need(reader, "EXISTS");
    }
    if (r == 0)
        r = name_read(reader, &to->name, "a name");
    bool is_index = r == 0 && (to->what.text[0] | 0x20) == 'i';
    if (is_index)
        r = need(reader, "ON");
    if (r == 0 && is_index)
        r = name_read(reader, &to->on, "the name of a table");
    return r;
}

static int create_read(struct reader *reader)
{
    static const struct {
        const char *word;
        enum definition_kind kind;
        int (*read)(struct reader *reader);
    } kinds[] = {
        {"TABLE", DEFINITION_TABLE, relation_read},       {"VIEW", DEFINITION_VIEW, relation_read},
        {"FUNCTION", DEFINITION_FUNCTION, function_read}, {"MACRO", DEFINITION_MACRO, macro_read},
        {"INDEX", DEFINITION_INDEX, index_read},
    };
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (take(reader, kinds[i].word)) {
            reader->to->kind = kinds[i].kind;
            return kinds[i].read(reader);
        }
    return expected(reader, "TABLE, VIEW, FUNCTION, MACRO or INDEX");
}

// Reads a statement that would change the database. SQLite handles a name with a schema.
static int plain_create_read(struct reader *reader)
{
    struct sql_definition *to = reader->to;
    struct sql_part name;
    bool is_virtual = take(reader, "VIRTUAL"), is_view = !is_virtual && take(reader, "VIEW");
    if (!is_view && !take(reader, "TABLE"))
        return 0;
    bool careful = take(reader, "IF") && take(reader, "NOT") && take(reader, "EXISTS");
    struct sql_token token = sql_token_next(&reader->at, reader->end);
    if (!is_name(token) || peek(reader, "."))
        return 0;
    name = (struct sql_part){token.text, token.size};
    *to = (struct sql_definition){.kind = DEFINITION_CREATE, .name = name};
    to->only_if_missing = careful;
    to->what.text = is_virtual ? "VIRTUAL TABLE" : is_view ? "VIEW" : "TABLE";
    to->what.size = is_virtual ? 13 : is_view ? 4 : 5;
    to->body = rest_take(reader);
    return 0;
}

static int include_read(struct reader *reader)
{
    reader->to->kind = DEFINITION_INCLUDE;
    int r = need(reader, "MODULE");
    return r == 0 ? module_read(reader) : r;
}

static int statement_read(struct reader *reader)
{
    if (take(reader, "INCLUDE"))
        return take(reader, "PERFETTO") ? include_read(reader) : 0;
    if (take(reader, "DROP"))
        return take(reader, "PERFETTO") ? drop_read(reader) : 0;
    if (!take(reader, "CREATE"))
        return 0;
    if (!take(reader, "OR"))
        return take(reader, "PERFETTO") ? create_read(reader) : plain_create_read(reader);
    reader->to->replaces = take(reader, "REPLACE");
    return reader->to->replaces && take(reader, "PERFETTO") ? create_read(reader) : 0;
}

int definition_read(const char *at, const char *end, struct sql_definition *ret, struct strbuf *why,
                    const char **ret_at)
{
    struct reader reader = {at, end, ret, why, ret_at};
    int r = statement_read(&reader);
    bool is_plain = ret->kind == DEFINITION_NONE || ret->kind == DEFINITION_CREATE;
    if (r == 0 && !is_plain && sql_blanks_skip(reader.at, end) != end)
        r = expected(&reader, "the end of the statement");
    return r;
}

static const struct {
    const char *name;
    enum sql_type type;
} types[] = {
    {"LONG", SQL_TYPE_LONG},     {"DOUBLE", SQL_TYPE_DOUBLE}, {"STRING", SQL_TYPE_STRING},
    {"BYTES", SQL_TYPE_BYTES},   {"ANY", SQL_TYPE_ANY},       {"BOOL", SQL_TYPE_LONG},
    {"INT", SQL_TYPE_LONG},      {"UINT", SQL_TYPE_LONG},     {"TIMESTAMP", SQL_TYPE_LONG},
    {"DURATION", SQL_TYPE_LONG}, {"ID", SQL_TYPE_LONG},       {"JOINID", SQL_TYPE_LONG},
    {"ARGSETID", SQL_TYPE_LONG}, {"FLOAT", SQL_TYPE_DOUBLE},  {"PROTO", SQL_TYPE_BYTES},
};

enum sql_type sql_type_read(struct sql_part name)
{
    for (size_t i = 0; i < ELEMENTS(types); i++)
        if (name.size == strlen(types[i].name) &&
            strncasecmp(name.text, types[i].name, name.size) == 0)
            return types[i].type;
    return SQL_TYPE_UNKNOWN;
}

const char *sql_type_name(enum sql_type type)
{
    for (size_t i = 0; i < ELEMENTS(types); i++)
        if (types[i].type == type)
            return types[i].name;
    return "unknown";
}

bool definition_is_variadic(const struct sql_definition *definition)
{
    size_t n = definition->arguments.n;
    return n > 0 && definition->arguments.items[n - 1].is_variadic;
}

void definition_done(struct sql_definition *definition)
{
    sql_field_vec_done(&definition->arguments);
    sql_field_vec_done(&definition->columns);
}
