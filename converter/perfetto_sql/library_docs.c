// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/library_docs.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/perfetto_sql/sql_definition.h"
#include "converter/perfetto_sql/token.h"

// The documentation of one object.
struct object {
    const struct sql_package_module *module;
    struct sql_part name; // empty: the module itself
    const char *type;
    const char *description;
    struct sql_part returns;
    const char *return_description;
    const struct sql_field_vec *arguments, *columns; // NULL: none
};

static void json_text_add(struct strbuf *out, const char *text, size_t size)
{
    strbuf_add_char(out, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            strbuf_addf(out, "\\%c", c);
        else if (c < ' ')
            strbuf_addf(out, "\\u%04x", c);
        else
            strbuf_add_char(out, (char)c);
    }
    strbuf_add_char(out, '"');
}

static void member_add(struct strbuf *out, const char *key, const char *text, size_t size)
{
    char last = out->size ? out->text[out->size - 1] : '\0';
    strbuf_addf(out, "%s\"%s\":", last == '{' ? "" : ",", key);
    json_text_add(out, text, size);
}

static void string_add(struct strbuf *out, const char *key, const char *text)
{
    member_add(out, key, text, strlen(text));
}

// Appends the comments between two places as one text. Lines of a paragraph are joined.
static void comments_read(struct strbuf *out, const char *at, const char *end)
{
    bool is_new = true;
    while (at < end) {
        struct sql_token token = sql_token_read(at, end);
        at = token.text + token.size;
        if (token.kind != SQL_BLANK || token.size < 2 || token.text[0] != '-')
            continue;
        const char *line = token.text + 2, *line_end = token.text + token.size;
        while (line < line_end && isspace((unsigned char)*line))
            line++;
        while (line_end > line && isspace((unsigned char)line_end[-1]))
            line_end--;
        if (line == line_end && out->size && !is_new)
            strbuf_add_str(out, "\n\n");
        else if (line < line_end && out->size && !is_new)
            strbuf_add_char(out, ' ');
        is_new = line == line_end;
        strbuf_add(out, line, (size_t)(line_end - line));
    }
    while (out->size && isspace((unsigned char)out->text[out->size - 1]))
        out->text[--out->size] = '\0';
}

static void field_type_add(struct strbuf *out, const struct sql_field *field)
{
    strbuf_add(out, field->type.text, field->type.size);
    if (field->table.size)
        strbuf_addf(out, "(%.*s)", (int)field->table.size, field->table.text);
}

// Appends the fields as a JSON array, in a text.
static void fields_add(struct strbuf *out, const char *key, const struct sql_field_vec *fields)
{
    CLEANUP(strbuf_done) struct strbuf array = {0};
    strbuf_add_char(&array, '[');
    for (size_t i = 0; fields && i < fields->n; i++) {
        const struct sql_field *field = &fields->items[i];
        CLEANUP(strbuf_done) struct strbuf comment = {0}, type = {0};
        comments_read(&comment, field->comments.text, field->comments.text + field->comments.size);
        field_type_add(&type, field);
        strbuf_add_str(&array, i ? ",{" : "{");
        member_add(&array, "name", field->name.text, field->name.size);
        string_add(&array, "type", type.text ? type.text : "");
        string_add(&array, "description", comment.text ? comment.text : "");
        strbuf_add_char(&array, '}');
    }
    strbuf_add_char(&array, ']');
    string_add(out, key, array.text ? array.text : "[]");
}

static void fields_summarize(struct strbuf *out, const char *heading,
                             const struct sql_field_vec *fields)
{
    if (!fields || !fields->n)
        return;
    strbuf_addf(out, "\n%s:", heading);
    vec_foreach(fields, field) {
        CLEANUP(strbuf_done) struct strbuf comment = {0};
        comments_read(&comment, field->comments.text, field->comments.text + field->comments.size);
        strbuf_addf(out, "\n- %.*s (", (int)field->name.size, field->name.text);
        field_type_add(out, field);
        strbuf_addf(out, ")%s%s", comment.size ? ": " : "", comment.size ? comment.text : "");
    }
}

// Appends words for searches: the names, without dots and underscores.
static void aliases_add(struct strbuf *out, const struct object *object, const char *package)
{
    CLEANUP(strbuf_done) struct strbuf words = {0};
    strbuf_addf(&words, "%s %s %.*s", package, object->module->name, (int)object->name.size,
                object->name.text ? object->name.text : "");
    for (size_t i = 0; i < words.size; i++)
        if (words.text[i] == '.' || words.text[i] == '_')
            words.text[i] = ' ';
    strbuf_addf(out, "\nSearch aliases: %s", words.text ? words.text : "");
}

static void summary_make(struct strbuf *out, const struct object *object, const char *package,
                         const char *qualified, bool exposed)
{
    strbuf_addf(out, "Package: %s\nModule: %s", package, object->module->name);
    if (object->name.size)
        strbuf_addf(out, "\nName: %.*s", (int)object->name.size, object->name.text);
    strbuf_addf(out, "\nQualified name: %s", qualified);
    aliases_add(out, object, package);
    strbuf_addf(out, "\nKind: %s %s", exposed ? "public" : "internal", object->type);
    if (*object->description)
        strbuf_addf(out, "\nDescription: %s", object->description);
    fields_summarize(out, "Arguments", object->arguments);
    if (object->returns.size)
        strbuf_addf(out, "\nReturns: %.*s%s%s", (int)object->returns.size, object->returns.text,
                    *object->return_description ? ": " : "", object->return_description);
    fields_summarize(out, "Columns", object->columns);
}

// Returns the size of the first sentence.
static size_t sentence_size(const char *text)
{
    for (const char *at = text; *at; at++)
        if ((*at == '.' && (!at[1] || isspace((unsigned char)at[1]))) || *at == '\n')
            return (size_t)(at - text) + (*at == '.');
    return strlen(text);
}

static void object_add(struct strbuf *out, const struct object *object)
{
    const char *module = object->module->name;
    CLEANUP(strbuf_done) struct strbuf package = {0}, qualified = {0}, summary = {0};
    strbuf_add(&package, module, strcspn(module, "."));
    strbuf_add_str(&qualified, module);
    if (object->name.size)
        strbuf_addf(&qualified, ".%.*s", (int)object->name.size, object->name.text);
    bool exposed = !object->name.size || *object->name.text != '_';
    if (package.failed || qualified.failed)
        return;
    summary_make(&summary, object, package.text, qualified.text, exposed);
    strbuf_add_str(out, ",{");
    string_add(out, "package", package.text);
    string_add(out, "module", module);
    if (object->name.size)
        member_add(out, "name", object->name.text, object->name.size);
    string_add(out, "qualified_name", qualified.text);
    string_add(out, "object_type", object->type);
    strbuf_addf(out, ",\"exposed\":%d", exposed);
    member_add(out, "short_description", object->description, sentence_size(object->description));
    string_add(out, "description", object->description);
    string_add(out, "summary", summary.text ? summary.text : "");
    if (object->returns.size) {
        member_add(out, "return_type", object->returns.text, object->returns.size);
        string_add(out, "return_description", object->return_description);
    }
    fields_add(out, "args", object->arguments);
    fields_add(out, "cols", object->columns);
    strbuf_add_char(out, '}');
}

static const char *type_of(const struct sql_definition *definition)
{
    struct sql_token returns = {SQL_WORD, definition->returns.text, definition->returns.size};
    switch (definition->kind) {
    case DEFINITION_TABLE:
        return "TABLE";
    case DEFINITION_VIEW:
        return "VIEW";
    case DEFINITION_MACRO:
        return "MACRO";
    case DEFINITION_FUNCTION:
        return sql_token_is(returns, "TABLE") ? "TABLE_FUNCTION" : "FUNCTION";
    default:
        return NULL;
    }
}

// Returns the begin of the comments directly above the statement, without a blank line between.
static const char *comments_begin(const char *text, const char *statement)
{
    const char *begin = statement;
    while (begin > text) {
        const char *line = begin - 1;
        while (line > text && line[-1] != '\n')
            line--;
        const char *at = line + strspn(line, " \t");
        if (at[0] != '-' || at[1] != '-')
            break;
        begin = line;
    }
    return begin;
}

typedef void object_take(void *userdata, const struct object *object);

static void statement_visit(const struct sql_package_module *module, const char *begin,
                            const char *end, object_take *take, void *userdata)
{
    CLEANUP(definition_done) struct sql_definition definition = {0};
    CLEANUP(strbuf_done) struct strbuf why = {0}, comment = {0}, returns = {0};
    const char *at = begin;
    int r = definition_read(begin, end, &definition, &why, &at);
    const char *type = r == 0 ? type_of(&definition) : NULL;
    if (!type)
        return;
    comments_read(&comment, comments_begin(module->sql, begin), begin);
    if (definition.returns.size) { // comments before RETURNS describe the result
        const char *front = definition.returns.text;
        while (front > begin && front[-1] != ')')
            front--;
        comments_read(&returns, front, definition.returns.text);
    }
    struct object object = {.module = module,
                            .name = definition.name,
                            .type = type,
                            .description = comment.text ? comment.text : "",
                            .returns = definition.returns,
                            .return_description = returns.text ? returns.text : "",
                            .arguments = &definition.arguments,
                            .columns = &definition.columns};
    take(userdata, &object);
}

static void objects_visit(const struct sql_package_module *module, object_take *take,
                          void *userdata)
{
    const char *at = module->sql, *end = at + strlen(at);
    while (at < end) {
        const char *begin = sql_blanks_skip(at, end), *after = sql_statement_end(begin, end);
        statement_visit(module, begin, after, take, userdata);
        at = after + 1;
    }
}

// Reads the description of the whole module: the first comments that belong to no statement and are
// no licence.
static void head_read(struct strbuf *out, const char *sql)
{
    const char *text = NULL;
    while (*sql == '-' || *sql == '\n') {
        size_t size = strcspn(sql, "\n");
        const char *next = sql + size + (sql[size] == '\n');
        const char *words = sql + strspn(sql, "- ");
        bool is_mark = *words == '@' || str_starts_with(words, "SPDX");
        if (text && size == 0) {
            comments_read(out, text, sql);
            return;
        }
        if (str_starts_with(words, "Copyright")) // skip the lines of the licence
            while (*next == '-')
                next += strcspn(next, "\n") + 1;
        else if (!text && size > 0 && !is_mark && words < sql + size)
            text = sql;
        sql = next;
    }
    if (text && !*sql)
        comments_read(out, text, sql);
}

static void object_json(void *userdata, const struct object *object)
{
    object_add(userdata, object);
}

void library_docs_add(struct strbuf *ret, const struct sql_package_module *module)
{
    CLEANUP(strbuf_done) struct strbuf head = {0};
    head_read(&head, module->sql);
    struct object itself = {.module = module,
                            .type = "MODULE",
                            .description = head.text ? head.text : "",
                            .return_description = ""};
    object_add(ret, &itself);
    objects_visit(module, object_json, ret);
}

void library_summary_add(struct strbuf *ret, const struct sql_package_module *module)
{
    CLEANUP(strbuf_done) struct strbuf head = {0};
    head_read(&head, module->sql);
    if (head.size && !head.failed)
        strbuf_add(ret, head.text, sentence_size(head.text));
}

struct text_state {
    struct strbuf *out;
    const char *name; // NULL: all objects
    bool found;
};

static void fields_print(struct strbuf *out, const char *heading,
                         const struct sql_field_vec *fields)
{
    if (fields->n && *heading)
        strbuf_addf(out, "  %s\n", heading);
    vec_foreach(fields, field) {
        CLEANUP(strbuf_done) struct strbuf comment = {0}, type = {0};
        comments_read(&comment, field->comments.text, field->comments.text + field->comments.size);
        field_type_add(&type, field);
        strbuf_addf(out, "  %-26.*s %-16s %s\n", (int)field->name.size, field->name.text,
                    type.text ? type.text : "", comment.text ? comment.text : "");
    }
}

static void object_print(void *userdata, const struct object *object)
{
    static const char *const types[][2] = {{"TABLE", "table"},
                                           {"VIEW", "view"},
                                           {"MACRO", "macro"},
                                           {"FUNCTION", "function"},
                                           {"TABLE_FUNCTION", "function, a table"}};
    struct text_state *state = userdata;
    const char *type = "";
    size_t size = object->name.size;
    bool is_own = *object->name.text == '_';
    if (state->name
            ? strlen(state->name) != size || strncasecmp(object->name.text, state->name, size) != 0
            : is_own)
        return;
    state->found = true;
    for (size_t i = 0; i < ELEMENTS(types); i++)
        if (strcmp(types[i][0], object->type) == 0)
            type = types[i][1];
    strbuf_addf(state->out, "%s%.*s (%s): %s\n\n", state->out->size ? "\n" : "", (int)size,
                object->name.text, type, object->description);
    fields_print(state->out, object->columns->n || object->returns.size ? "arguments:" : "",
                 object->arguments);
    if (object->columns->n)
        fields_print(state->out, object->arguments->n ? "columns:" : "", object->columns);
    else if (*object->return_description)
        strbuf_addf(state->out, "  returns: %s\n", object->return_description);
}

bool library_text_add(struct strbuf *ret, const struct sql_package_module *module, const char *name)
{
    struct text_state state = {.out = ret, .name = name, .found = !name};
    if (!name) {
        CLEANUP(strbuf_done) struct strbuf head = {0};
        head_read(&head, module->sql);
        strbuf_addf(ret, "%s%s%s\n", module->name, head.size ? ": " : "",
                    head.text ? head.text : "");
    }
    objects_visit(module, object_print, &state);
    return state.found;
}

struct names_state {
    void (*take)(void *userdata, const char *name, size_t size);
    void *userdata;
};

static void object_name(void *userdata, const struct object *object)
{
    const struct names_state *state = userdata;
    if (*object->name.text != '_')
        state->take(state->userdata, object->name.text, object->name.size);
}

void library_names(const struct sql_package_module *module,
                   void (*take)(void *userdata, const char *name, size_t size), void *userdata)
{
    struct names_state state = {take, userdata};
    objects_visit(module, object_name, &state);
}
