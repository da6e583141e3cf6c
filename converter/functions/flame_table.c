// SPDX-License-Identifier: Apache-2.0
//
// CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph((SELECT id, parent_id, name, value, ...))
// keeps the rows of the query. SELECT ... FROM f(__intrinsic_flamegraph_config('value', 'value',
// 'view', 'TOP_DOWN', ...)) builds a flame graph of the rows.
//
// The query runs when the table is made. Only a statement of the user can make the table. A table
// that the database brings along is refused, because its query would run without a request of the
// user.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "converter/functions/flame_tree.h"
#include "converter/functions/functions.h"
#include "converter/functions/regex.h"

SQLITE_EXTENSION_INIT3

#define FLAME_QUERY       "FLAMEGRAPH_CONFIG"
#define PATTERN_BYTES_MAX 4096
#define SOURCE_COLUMNS    64
#define FIND              (SQLITE_INDEX_CONSTRAINT_FUNCTION + 1)

enum column {
    COLUMN_CONFIG,
    COLUMN_ID,
    COLUMN_PARENT,
    COLUMN_DEPTH,
    COLUMN_NAME,
    COLUMN_SELF,
    COLUMN_CUMULATIVE,
    COLUMN_PARENT_CUMULATIVE,
    COLUMN_X_START,
    COLUMN_X_END,
    N_FIXED,
};

static const char *const fixed[N_FIXED] = {
    "in_config",  "_tree_id",         "_tree_parent_id",         "depth",   "name",
    "self_value", "cumulative_value", "parent_cumulative_value", "x_start", "x_end",
};

// The content of a column after the fixed columns.
enum shows { SHOWS_PROPERTY, SHOWS_SELF, SHOWS_CUMULATIVE };

struct flame_column {
    enum shows shows;
    int column; // of the source
};

struct flame_table {
    sqlite3_vtab base;
    struct flame_source source;
    int n_columns; // after the fixed columns
    struct flame_column columns[3 * SOURCE_COLUMNS];
};

struct flame_cursor {
    sqlite3_vtab_cursor base;
    struct flame_tree flame;
    const struct flame_query *query; // borrowed: lives as long as the statement runs
    bool is_super_root;
    size_t row;
};

// -- the configuration --

struct item {
    const char *tag;
    int n_values;
    // Reads the values. Returns NULL, or an error text.
    const char *(*read)(struct flame_query *query, sqlite3_value **values, bool *ret_failed);
};

static const char *text_of(sqlite3_value *value)
{
    return sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value)
                                                    : NULL;
}

// Returns the number of the word among `n`, or -1.
static int word_find(sqlite3_value *value, const char *const *words, int n)
{
    const char *text = text_of(value);
    for (int i = 0; text && i < n; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return -1;
}

static const char *regex_read(sqlite3_value **values, struct regex **ret, bool *ret_failed)
{
    const char *pattern = text_of(values[0]), *flags = text_of(values[1]), *why = NULL;
    if (!pattern || !flags)
        return "a pattern and its flags are texts";
    if (*flags && strcmp(flags, "i") != 0)
        return "the flags of a pattern are '' or 'i'";
    size_t size = (size_t)sqlite3_value_bytes(values[0]);
    if (size > PATTERN_BYTES_MAX)
        return "a pattern is too long";
    int r = regex_new(pattern, size, *flags == 'i', ret, &why);
    *ret_failed |= r == -ENOMEM;
    return r == -EINVAL ? why : NULL;
}

static const char *view_read(struct flame_query *query, sqlite3_value **values, bool *ret_failed)
{
    static const char *const views[] = {"TOP_DOWN", "BOTTOM_UP", "PIVOT", "FROM_FRAME"};
    (void)ret_failed;
    int view = word_find(values[0], views, ELEMENTS(views));
    if (view < 0)
        return "view is TOP_DOWN, BOTTOM_UP, PIVOT or FROM_FRAME";
    query->view = (enum flame_view)view;
    return NULL;
}

static const char *pattern_read(struct flame_query *query, sqlite3_value **values, bool *ret_failed)
{
    return query->view_pattern ? "view_pattern is given twice"
                               : regex_read(values, &query->view_pattern, ret_failed);
}

static const char *filter_read(struct flame_query *query, sqlite3_value **values, bool *ret_failed)
{
    static const char *const kinds[] = {"SHOW_STACK", "HIDE_STACK", "HIDE_FRAME"};
    int kind = word_find(values[0], kinds, ELEMENTS(kinds)), n_shows = 0;
    for (int i = 0; i < query->n_filters; i++)
        n_shows += query->filters[i].kind == FLAME_SHOW_STACK;
    if (kind < 0)
        return "filter is SHOW_STACK, HIDE_STACK or HIDE_FRAME";
    if (query->n_filters == FLAME_FILTERS_MAX ||
        (kind == FLAME_SHOW_STACK && n_shows == FLAME_SHOWS_MAX))
        return "too many filters: 61 SHOW_STACK and 128 in all are allowed";
    struct flame_filter *filter = &query->filters[query->n_filters];
    filter->kind = (enum flame_filter_kind)kind;
    const char *why = regex_read(values + 1, &filter->regex, ret_failed);
    query->n_filters += filter->regex != NULL;
    return why;
}

static const char *name_add(struct flame_query *query, enum flame_role role, sqlite3_value *value)
{
    const char *name = text_of(value);
    if (!name || !*name || strlen(name) >= ROW_NAME_BYTES)
        return "the name of a column is a text of less than 64 bytes";
    if (query->n_names == FLAME_NAMES_MAX)
        return "too many columns: 64 are allowed";
    query->names[query->n_names].role = role;
    memcpy(query->names[query->n_names++].name, name, strlen(name) + 1);
    return NULL;
}

static const char *grouping_read(struct flame_query *query, sqlite3_value **values,
                                 bool *ret_failed)
{
    (void)ret_failed;
    return name_add(query, FLAME_GROUPING, values[0]);
}

static const char *value_read(struct flame_query *query, sqlite3_value **values, bool *ret_failed)
{
    (void)ret_failed;
    return name_add(query, FLAME_VALUE, values[0]);
}

static const char *aggregate_read(struct flame_query *query, sqlite3_value **values,
                                  bool *ret_failed)
{
    static const char *const roles[] = {"SUM", "ONE_OR_SUMMARY", "CONCAT_WITH_COMMA"};
    (void)ret_failed;
    int role = word_find(values[0], roles, ELEMENTS(roles));
    const char *input = text_of(values[1]), *output = text_of(values[2]);
    if (role < 0)
        return "aggregate is SUM, ONE_OR_SUMMARY or CONCAT_WITH_COMMA";
    if (!input || !output || strcmp(input, output) != 0)
        return "aggregate output must match its source column";
    return name_add(query, (enum flame_role)(FLAME_SUM + role), values[1]);
}

static const struct item items[] = {
    {"view", 1, view_read},     {"view_pattern", 2, pattern_read},
    {"filter", 3, filter_read}, {"grouping", 1, grouping_read},
    {"value", 1, value_read},   {"aggregate", 3, aggregate_read},
};

static const char *query_read(struct flame_query *query, int argc, sqlite3_value **argv,
                              bool *ret_failed)
{
    for (int at = 0; at < argc;) {
        const char *tag = text_of(argv[at]), *why;
        const struct item *item = NULL;
        for (size_t i = 0; tag && i < ELEMENTS(items); i++)
            if (strcmp(tag, items[i].tag) == 0)
                item = &items[i];
        if (!item)
            return "expected is view, view_pattern, filter, grouping, value or aggregate";
        if (argc - at - 1 < item->n_values)
            return "values are missing at the end";
        why = item->read(query, argv + at + 1, ret_failed);
        if (why || *ret_failed)
            return why;
        at += 1 + item->n_values;
    }
    bool needs_pattern = query->view == FLAME_PIVOT || query->view == FLAME_FROM_FRAME;
    return needs_pattern != (query->view_pattern != NULL)
               ? "PIVOT and FROM_FRAME require a view pattern, and the others have none"
               : NULL;
}

// SQL arguments: ('view', view, 'value', column, ...)
static void config(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct flame_query *query = calloc(1, sizeof(*query));
    bool failed = !query;
    const char *why = query ? query_read(query, argc, argv, &failed) : NULL;
    if (!why && !failed) {
        sqlite3_result_pointer(context, query, FLAME_QUERY, flame_query_free);
        return;
    }
    char *message = why ? sqlite3_mprintf("flamegraph_config: %s", why) : NULL;
    flame_query_free(query);
    if (message)
        sqlite3_result_error(context, message, -1);
    else
        sqlite3_result_error_nomem(context);
    sqlite3_free(message);
}

static void find(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc, (void)argv;
    sqlite3_result_error(
        context, "__intrinsic_flamegraph_find is a condition on _tree_id of a flame graph", -1);
}

// -- the source --

static int columns_read(struct flame_source *source, sqlite3_stmt *statement, char **ret_error)
{
    static const char *const first[] = {"id", "parent_id", "name", "value"};
    struct value_rows *rows = &source->tree->rows;
    int n = sqlite3_column_count(statement);
    if (n < (int)ELEMENTS(first) || n > SOURCE_COLUMNS) {
        *ret_error = sqlite3_mprintf("flamegraph: source must contain id, parent_id, name and "
                                     "value, and at most 64 columns");
        return SQLITE_ERROR;
    }
    rows->names = calloc((size_t)n, sizeof(*rows->names));
    source->kinds = calloc((size_t)n, sizeof(*source->kinds));
    if (!rows->names || !source->kinds)
        return SQLITE_NOMEM;
    rows->n_columns = n;
    for (int i = 0; i < n; i++) {
        const char *name = sqlite3_column_name(statement, i);
        bool fits = name && strlen(name) < ROW_NAME_BYTES;
        if (!fits || (i < (int)ELEMENTS(first) && strcmp(name, first[i]) != 0)) {
            *ret_error = sqlite3_mprintf("flamegraph: first source columns must be id, parent_id, "
                                         "name, value, and no name may have 64 bytes or more");
            return SQLITE_ERROR;
        }
        for (int j = 0; j < N_FIXED && i >= (int)ELEMENTS(first); j++)
            if (strcmp(name, fixed[j]) == 0) {
                *ret_error = sqlite3_mprintf("flamegraph: reserved property column '%s'", name);
                return SQLITE_ERROR;
            }
        memcpy(rows->names[i], name, strlen(name));
    }
    return SQLITE_OK;
}

// Adds the kind of a cell to the kind of a column. Returns false if the column has numbers and
// texts.
static bool kind_join(enum cell_kind *kind, enum cell_kind cell)
{
    if (cell == CELL_NULL || *kind == cell)
        return true;
    if (*kind == CELL_NULL)
        *kind = cell;
    else if (*kind == CELL_TEXT || cell == CELL_TEXT)
        return false;
    else
        *kind = CELL_REAL;
    return true;
}

static int row_read(struct flame_source *source, sqlite3_stmt *statement, char **ret_error)
{
    struct value_rows *rows = &source->tree->rows;
    for (int i = 0; i < rows->n_columns; i++) {
        struct cell cell;
        int r = cell_read(&rows->texts, sqlite3_column_value(statement, i), &cell);
        if (r == 0)
            r = cell_vec_push(&rows->cells, cell);
        if (r == -ENOMEM)
            return SQLITE_NOMEM;
        if (r < 0 || !kind_join(&source->kinds[i], cell.kind)) {
            *ret_error = sqlite3_mprintf("flamegraph: the column %s has numbers and texts, or a "
                                         "BLOB; a column has numbers or texts",
                                         rows->names[i]);
            return SQLITE_ERROR;
        }
        if (i == 3 && cell.kind != CELL_NULL)
            source->value_sum += cell.kind == CELL_INT ? (double)cell.integer : cell.real;
    }
    return SQLITE_OK;
}

int flame_source_read(sqlite3 *handle, struct flame_source *source, const char *query,
                      char **ret_error)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT * FROM %s", query);
    int code = sql ? sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code == SQLITE_OK)
        code = columns_read(source, statement, ret_error);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        code = row_read(source, statement, ret_error);
    if (code != SQLITE_DONE && code != SQLITE_NOMEM && !*ret_error)
        *ret_error = sqlite3_mprintf("flamegraph: %s", sqlite3_errmsg(handle));
    sqlite3_finalize(statement);
    if (code != SQLITE_DONE)
        return code;
    bool failed = false, is_empty = source->tree->rows.cells.n == 0;
    const char *why = tree_build(source->tree, &failed);
    if (!why && !is_empty && source->kinds[2] == CELL_INT)
        why = "name column must be a string";
    if (!why && !is_empty && source->kinds[3] != CELL_INT && source->kinds[3] != CELL_REAL)
        why = "value column must be numeric";
    if (why)
        *ret_error = sqlite3_mprintf("flamegraph: %s", why);
    return why ? SQLITE_ERROR : failed ? SQLITE_NOMEM : SQLITE_OK;
}

void flame_source_done(struct flame_source *source)
{
    tree_free(source->tree);
    free(source->kinds);
    *source = (struct flame_source){0};
}

// Declares the columns: the properties, then two columns for each property that is a number.
static int declare(sqlite3 *handle, struct flame_table *table)
{
    const struct value_rows *rows = &table->source.tree->rows;
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendf(sql, "CREATE TABLE x(%s HIDDEN", fixed[0]);
    for (int i = 1; i < N_FIXED; i++)
        sqlite3_str_appendf(sql, ", %s", fixed[i]);
    for (int i = 4; i < rows->n_columns; i++) {
        sqlite3_str_appendf(sql, ", \"%w\"", rows->names[i]);
        table->columns[table->n_columns++] = (struct flame_column){SHOWS_PROPERTY, i};
    }
    for (int i = 4; i < rows->n_columns; i++) {
        if (table->source.kinds[i] != CELL_INT && table->source.kinds[i] != CELL_REAL)
            continue;
        sqlite3_str_appendf(sql, ", \"self_%w\", \"cumulative_%w\"", rows->names[i],
                            rows->names[i]);
        table->columns[table->n_columns++] = (struct flame_column){SHOWS_SELF, i};
        table->columns[table->n_columns++] = (struct flame_column){SHOWS_CUMULATIVE, i};
    }
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    int code = text ? sqlite3_declare_vtab(handle, text) : SQLITE_NOMEM;
    sqlite3_free(text);
    return code;
}

static int flame_disconnect(sqlite3_vtab *base)
{
    struct flame_table *table = (struct flame_table *)base;
    flame_source_done(&table->source);
    sqlite3_free(table);
    return SQLITE_OK;
}

static int flame_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **ret_error)
{
    (void)userdata;
    if (argc != 4 || strcmp(argv[1], "temp") != 0) {
        *ret_error =
            sqlite3_mprintf("flamegraph: %s", argc != 4 ? "one query is expected: ((SELECT ...))"
                                                        : "the table must be a temporary one");
        return SQLITE_ERROR;
    }
    struct flame_table *table = sqlite3_malloc(sizeof(*table));
    if (!table)
        return SQLITE_NOMEM;
    *table = (struct flame_table){.source.tree = calloc(1, sizeof(struct tree))};
    int code = table->source.tree ? flame_source_read(handle, &table->source, argv[3], ret_error)
                                  : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = declare(handle, table);
    if (code == SQLITE_OK)
        *ret = &table->base;
    else
        flame_disconnect(&table->base);
    return code;
}

// -- the graph --

static int fail(sqlite3_vtab *vtab, const char *what, const char *name)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("flamegraph: %s%s", what, name);
    return SQLITE_ERROR;
}

static int flame_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    bool has_config = false;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *in = &info->aConstraint[i];
        bool is_config = in->iColumn == COLUMN_CONFIG && in->op == SQLITE_INDEX_CONSTRAINT_EQ;
        bool is_find = in->iColumn == COLUMN_ID && in->op == FIND;
        if (is_config && !in->usable)
            return SQLITE_CONSTRAINT;
        if (!in->usable || (!is_config && (!is_find || info->idxNum)))
            continue;
        info->aConstraintUsage[i].argvIndex = is_config ? 1 : 2;
        info->aConstraintUsage[i].omit = 1;
        has_config |= is_config;
        info->idxNum |= is_find;
    }
    if (!has_config)
        return fail(base,
                    "the configuration is missing: ", "f(__intrinsic_flamegraph_config(...))");
    info->estimatedCost = 10000;
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int flame_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
    (void)base;
    struct flame_cursor *cursor = calloc(1, sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int flame_close(sqlite3_vtab_cursor *base)
{
    flame_tree_done(&((struct flame_cursor *)base)->flame);
    free(base);
    return SQLITE_OK;
}

static int names_find(const struct flame_table *table, struct flame_query *query,
                      sqlite3_vtab *base)
{
    const struct value_rows *rows = &table->source.tree->rows;
    bool has_value = false;
    for (int i = 0; i < query->n_names; i++) {
        int column = -1;
        for (int j = 0; j < rows->n_columns; j++)
            if (strcmp(rows->names[j], query->names[i].name) == 0)
                column = j;
        if (column < 0)
            return fail(base, "there is no column ", query->names[i].name);
        enum cell_kind kind = table->source.kinds[column];
        enum flame_role role = query->names[i].role;
        bool is_number = kind == CELL_INT || kind == CELL_REAL;
        bool may_be_empty = kind == CELL_NULL && (role == FLAME_SUM || table->source.tree->n == 0);
        if ((role == FLAME_VALUE || role == FLAME_SUM) && !is_number && !may_be_empty)
            return fail(base, "value and SUM columns must be numeric: ", query->names[i].name);
        has_value |= role == FLAME_VALUE;
        query->names[i].column = column;
    }
    return has_value ? SQLITE_OK : fail(base, "at least one value column is required", "");
}

static int flame_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                        sqlite3_value **argv)
{
    (void)text;
    struct flame_cursor *cursor = (struct flame_cursor *)base;
    const struct flame_table *table = (const struct flame_table *)base->pVtab;
    struct flame_query *query = argc > 0 ? sqlite3_value_pointer(argv[0], FLAME_QUERY) : NULL;
    flame_tree_done(&cursor->flame);
    cursor->row = 0;
    cursor->query = query;
    cursor->is_super_root = number != 0;
    if (!query)
        return fail(base->pVtab, "the argument is not a value of __intrinsic_flamegraph_config",
                    "");
    int code = names_find(table, query, base->pVtab);
    if (code != SQLITE_OK)
        return code;
    const char *what = number ? text_of(argv[1]) : "SUPER_ROOT", *why = NULL;
    if (!what || strcmp(what, "SUPER_ROOT") != 0)
        return fail(base->pVtab, "find knows SUPER_ROOT only", "");
    bool failed = false;
    if (!number)
        why = flame_tree_build(&cursor->flame, &table->source, query, &failed);
    if (failed)
        return SQLITE_NOMEM;
    if (!why)
        return SQLITE_OK;
    sqlite3_free(base->pVtab->zErrMsg);
    base->pVtab->zErrMsg = sqlite3_mprintf("%s", why);
    return SQLITE_ERROR;
}

static int flame_next(sqlite3_vtab_cursor *base)
{
    ((struct flame_cursor *)base)->row++;
    return SQLITE_OK;
}

static int flame_eof(sqlite3_vtab_cursor *base)
{
    const struct flame_cursor *cursor = (const struct flame_cursor *)base;
    return cursor->row >= (cursor->is_super_root ? 1 : cursor->flame.n_lines);
}

static void number_result(sqlite3_context *context, const struct flame_tree *flame, int value,
                          union flame_number number)
{
    if (flame->source->kinds[flame->value_columns[value]] == CELL_INT)
        sqlite3_result_int64(context, number.integer);
    else
        sqlite3_result_double(context, number.real);
}

static void cell_result(sqlite3_context *context, const struct flame_tree *flame, uint32_t row,
                        int column)
{
    const struct cell *cell = flame_cell(flame->source, row, column);
    if (cell->kind == CELL_TEXT)
        sqlite3_result_value(context, flame->source->tree->rows.texts.values.items[cell->text]);
    else if (cell->kind == CELL_INT)
        sqlite3_result_int64(context, cell->integer);
    else if (cell->kind == CELL_REAL)
        sqlite3_result_double(context, cell->real);
}

// Makes a place on the line the result: a whole number if the weight is a whole number.
static void x_result(sqlite3_context *context, const struct flame_tree *flame, double x)
{
    if (flame->source->kinds[flame->value_columns[0]] == CELL_INT)
        sqlite3_result_int64(context, (sqlite3_int64)x);
    else
        sqlite3_result_double(context, x);
}

static void fixed_result(sqlite3_context *context, const struct flame_cursor *cursor, int column)
{
    const struct flame_tree *flame = &cursor->flame;
    const struct flame_line *line = &flame->lines[cursor->row];
    const struct flame_node *node = &flame->nodes.items[line->node];
    union flame_number sum = flame->sums[0][line->node];
    if (column == COLUMN_ID)
        sqlite3_result_int64(context, (sqlite3_int64)cursor->row);
    else if (column == COLUMN_PARENT && line->parent != NO_NODE)
        sqlite3_result_int64(context, line->parent);
    else if (column == COLUMN_DEPTH)
        sqlite3_result_int(context, node->depth);
    else if (column == COLUMN_NAME)
        cell_result(context, flame, node->row, 2);
    else if (column == COLUMN_SELF)
        number_result(context, flame, 0, flame->self[0][line->node]);
    else if (column == COLUMN_CUMULATIVE)
        number_result(context, flame, 0, sum);
    else if (column == COLUMN_PARENT_CUMULATIVE && line->parent != NO_NODE)
        number_result(context, flame, 0, flame->sums[0][flame->lines[line->parent].node]);
    else if (column == COLUMN_X_START)
        x_result(context, flame, line->x);
    else if (column == COLUMN_X_END)
        x_result(context, flame,
                 line->x + (flame->source->kinds[flame->value_columns[0]] == CELL_INT
                                ? (double)sum.integer
                                : sum.real));
}

static void property_result(sqlite3_context *context, const struct flame_cursor *cursor, int column)
{
    const struct flame_tree *flame = &cursor->flame;
    const struct flame_query *query = cursor->query;
    uint32_t node = flame->lines[cursor->row].node;
    for (int i = 0; i < query->n_names; i++) {
        if (query->names[i].column != column || query->names[i].role == FLAME_VALUE)
            continue;
        if (query->names[i].role == FLAME_GROUPING)
            cell_result(context, flame, flame->nodes.items[node].row, column);
        else
            flame_tree_aggregate(flame, node, query->names[i].role, column, context);
        return;
    }
}

static int flame_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int n)
{
    const struct flame_cursor *cursor = (const struct flame_cursor *)base;
    const struct flame_table *table = (const struct flame_table *)base->pVtab;
    if (cursor->is_super_root) {
        if (n == COLUMN_ID || n == COLUMN_DEPTH)
            sqlite3_result_int(context, 0);
        else if (n == COLUMN_CUMULATIVE)
            sqlite3_result_double(context, table->source.value_sum);
        return SQLITE_OK;
    }
    if (n < N_FIXED) {
        fixed_result(context, cursor, n);
        return SQLITE_OK;
    }
    const struct flame_column *column = &table->columns[n - N_FIXED];
    uint32_t node = cursor->flame.lines[cursor->row].node;
    if (column->shows == SHOWS_PROPERTY) {
        property_result(context, cursor, column->column);
        return SQLITE_OK;
    }
    for (int i = 0; i < cursor->flame.n_values; i++)
        if (cursor->flame.value_columns[i] == column->column) {
            number_result(context, &cursor->flame, i,
                          column->shows == SHOWS_SELF ? cursor->flame.self[i][node]
                                                      : cursor->flame.sums[i][node]);
            break;
        }
    return SQLITE_OK;
}

static int flame_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((struct flame_cursor *)base)->row;
    return SQLITE_OK;
}

static int flame_function(sqlite3_vtab *base, int argc, const char *name,
                          void (**ret)(sqlite3_context *, int, sqlite3_value **), void **ret_data)
{
    (void)base, (void)ret_data;
    if (argc != 2 || sqlite3_stricmp(name, "__intrinsic_flamegraph_find") != 0)
        return 0;
    *ret = find;
    return FIND;
}

static const sqlite3_module module = {
    .xCreate = flame_connect,
    .xConnect = flame_connect,
    .xBestIndex = flame_best_index,
    .xDisconnect = flame_disconnect,
    .xDestroy = flame_disconnect,
    .xOpen = flame_open,
    .xClose = flame_close,
    .xFilter = flame_filter,
    .xNext = flame_next,
    .xEof = flame_eof,
    .xColumn = flame_column,
    .xRowid = flame_rowid,
    .xFindFunction = flame_function,
};

int flame_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {.name = "__intrinsic_flamegraph_config", .n_arguments = -1, .call = config},
        {.name = "__intrinsic_flamegraph_find", .n_arguments = 2, .call = find},
    };
    int code = sqlite3_create_module_v2(handle, "__intrinsic_flamegraph", &module, NULL, NULL);
    return code == SQLITE_OK ? value_functions_add(handle, functions, ELEMENTS(functions)) : code;
}
