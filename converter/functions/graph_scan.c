// SPDX-License-Identifier: Apache-2.0
//
// Scans: __intrinsic_graph_scan and __intrinsic_graph_aggregating_scan carry rows along the edges
// of a graph. An SQL query makes new rows from the rows that arrive at nodes; "$table" in the query
// is the table of these rows, with the id of the node in the column "id".
//
// A plain scan takes a step along all edges at once, until no row is left. A node then has a row
// for each path to the node. An aggregating scan runs the query for a node after all nodes that
// lead to the node: nodes are grouped by the longest path that begins at them, and the query runs
// once for each group.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/graph.h"

SQLITE_EXTENSION_INIT3

#define COLUMNS_MAX 32

struct scan {
    const char *who;               // for messages
    sqlite3 *handle;               // borrowed
    const struct graph *graph;     // borrowed; NULL: no edges
    const struct value_rows *init; // borrowed
    sqlite3_stmt *statement;       // owned
    struct cell_texts texts;       // of all rows below
    struct cell_vec out;           // the rows of the answer
    struct cell_vec *levels;       // owned; the rows that wait, by level
    uint32_t n_levels;
    bool is_aggregating;
    uint32_t level;  // an aggregating scan: the group that the query runs for
    uint32_t *depth; // owned; by index: the level of a node; NULL: all rows wait in level 0
    char *error;     // owned; the message of a failure; NULL after a failure: out of memory
};

__attribute__((format(printf, 2, 3))) static int fail(struct scan *scan, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *what = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    if (what && !scan->error)
        scan->error = sqlite3_mprintf("%s: %s", scan->who, what);
    sqlite3_free(what);
    return -EINVAL;
}

static void scan_done(struct scan *scan)
{
    sqlite3_finalize(scan->statement);
    for (uint32_t i = 0; i < scan->n_levels; i++)
        cell_vec_done(&scan->levels[i]);
    free(scan->levels);
    free(scan->depth);
    cell_vec_done(&scan->out);
    cell_texts_done(&scan->texts);
    sqlite3_free(scan->error);
}

static bool levels_open(struct scan *scan, uint32_t n)
{
    scan->levels = calloc(n, sizeof(*scan->levels));
    scan->n_levels = scan->levels ? n : 0;
    return scan->levels;
}

static struct value_table *table_new(const struct scan *scan)
{
    const char *names[COLUMNS_MAX];
    for (int i = 0; i < scan->init->n_columns; i++)
        names[i] = scan->init->names[i];
    return value_table_new(scan->init->n_columns, names);
}

// Makes a table that borrows the texts. Returns NULL on failure.
static struct value_table *table_make(struct scan *scan, const struct cell_vec *rows)
{
    size_t n_columns = (size_t)scan->init->n_columns, n = rows->n / n_columns;
    struct value_table *table = table_new(scan);
    for (size_t i = 0; i < n_columns && table && n > 0; i++)
        if (!cells_to_column(table, (int)i, rows->items + i, n_columns, n, NULL,
                             scan->texts.values.items)) {
            fail(scan,
                 "the column %s has values that no column can have together: numbers and texts, or "
                 "reals and integers beyond 2^53",
                 scan->init->names[i]);
            value_table_free(table);
            return NULL;
        }
    if (table && table->failed) {
        value_table_free(table);
        return NULL;
    }
    if (table)
        table->n_rows = n;
    return table;
}

// Returns the subquery that replaces "$table".
static char *table_sql(const struct scan *scan)
{
    sqlite3_str *sql = sqlite3_str_new(scan->handle);
    sqlite3_str_appendall(sql, "(SELECT ");
    for (int i = 0; i < scan->init->n_columns; i++)
        sqlite3_str_appendf(sql, "%sc%d AS \"%w\"", i ? ", " : "", i, scan->init->names[i]);
    sqlite3_str_appendall(sql, " FROM __intrinsic_table_ptr(?1) WHERE ");
    for (int i = 0; i < scan->init->n_columns; i++)
        sqlite3_str_appendf(sql, "%s__intrinsic_table_ptr_bind(c%d, %Q)", i ? " AND " : "", i,
                            scan->init->names[i]);
    sqlite3_str_appendall(sql, ")");
    return sqlite3_str_finish(sql);
}

static char *statement_sql(const struct scan *scan, const char *text)
{
    static const char variable[] = "$table";
    char *table = table_sql(scan);
    if (!table)
        return NULL;
    sqlite3_str *sql = sqlite3_str_new(scan->handle);
    sqlite3_str_appendall(sql, "SELECT * FROM ");
    for (const char *at; (at = strstr(text, variable)); text = at + strlen(variable)) {
        sqlite3_str_append(sql, text, (int)(at - text));
        sqlite3_str_appendall(sql, table);
    }
    sqlite3_str_appendall(sql, text);
    sqlite3_free(table);
    return sqlite3_str_finish(sql);
}

static int statement_prepare(struct scan *scan, const char *text)
{
    char *sql = statement_sql(scan, text);
    if (!sql)
        return -ENOMEM;
    int code = sqlite3_prepare_v2(scan->handle, sql, -1, &scan->statement, NULL);
    sqlite3_free(sql);
    if (code != SQLITE_OK)
        return fail(scan, "the query of a step cannot be run: %s", sqlite3_errmsg(scan->handle));
    int n = scan->init->n_columns;
    bool fits = sqlite3_column_count(scan->statement) == n;
    for (int i = 0; i < n && fits && scan->is_aggregating; i++)
        fits = sqlite3_stricmp(sqlite3_column_name(scan->statement, i), scan->init->names[i]) == 0;
    return fits ? 0
                : fail(scan, "the query of a step must have the columns of the first rows, in the "
                             "same order");
}

// Adds a row to the answer, and to the rows that wait at the targets of its node. In a graph with a
// cycle, an edge may lead back to a group that is done: no row follows such an edge.
static int row_add(struct scan *scan, const struct cell *row)
{
    int n = scan->init->n_columns, r = 0;
    for (int i = 0; i < n && r == 0; i++)
        r = cell_vec_push(&scan->out, row[i]);
    const struct graph *graph = scan->graph;
    uint32_t node = graph && row[0].kind == CELL_INT ? graph_find(graph, row[0].integer) : NO_NODE;
    if (node == NO_NODE)
        return r;
    for (uint32_t k = graph->first[node]; k < graph->first[node + 1] && r == 0; k++) {
        uint32_t target = graph->targets[k], level = scan->depth ? scan->depth[target] : 0;
        if (scan->depth && level >= scan->level)
            continue;
        struct cell id = {.kind = CELL_INT, .integer = graph->ids.items[target]};
        r = cell_vec_push(&scan->levels[level], id);
        for (int i = 1; i < n && r == 0; i++)
            r = cell_vec_push(&scan->levels[level], row[i]);
    }
    return r;
}

// Adds the rows of the statement.
static int answers_add(struct scan *scan)
{
    int code, r = 0, n = scan->init->n_columns;
    struct cell row[COLUMNS_MAX];
    while (r == 0 && (code = sqlite3_step(scan->statement)) == SQLITE_ROW) {
        for (int i = 0; i < n && r == 0; i++)
            r = cell_read(&scan->texts, sqlite3_column_value(scan->statement, i), &row[i]);
        if (r == -EINVAL)
            return fail(scan, "a step gave a BLOB; only numbers and texts are taken");
        row[0] = (struct cell){.kind = CELL_INT,
                               .integer = row[0].kind == CELL_INT ? row[0].integer : 0};
        if (r == 0)
            r = row_add(scan, row);
    }
    if (r == 0 && code != SQLITE_DONE)
        return fail(scan, "a step failed: %s", sqlite3_errmsg(scan->handle));
    return r;
}

// Runs the query for the rows that wait in a level.
static int level_run(struct scan *scan, uint32_t level)
{
    struct cell_vec rows CLEANUP(cell_vec_done) = scan->levels[level];
    scan->levels[level] = (struct cell_vec){0};
    struct value_table *table = table_make(scan, &rows);
    if (!table)
        return -ENOMEM;
    cell_vec_done(&rows);
    sqlite3_reset(scan->statement);
    if (sqlite3_bind_pointer(scan->statement, 1, table, VALUE_TABLE, value_table_free) != SQLITE_OK)
        return fail(scan, "the query of a step must read $table");
    int r = answers_add(scan);
    sqlite3_reset(scan->statement);
    return r;
}

// Adds the first rows. Their texts get numbers of the scan.
static int first_rows_add(struct scan *scan)
{
    const struct value_rows *init = scan->init;
    struct cell row[COLUMNS_MAX];
    size_t n_columns = (size_t)init->n_columns;
    int r = 0;
    for (size_t i = 0; i < value_rows_count(init) && r == 0; i++) {
        memcpy(row, init->cells.items + i * n_columns, n_columns * sizeof(*row));
        for (size_t k = 0; k < n_columns && r == 0; k++)
            if (row[k].kind == CELL_TEXT)
                r = cell_read(&scan->texts, init->texts.values.items[row[k].text], &row[k]);
        if (row[0].kind != CELL_INT)
            return fail(scan, "the ids of the first rows must be integers");
        if (r == 0)
            r = row_add(scan, row);
    }
    return r;
}

static int plain_scan(struct scan *scan, const char *text)
{
    int r = levels_open(scan, 1) ? statement_prepare(scan, text) : -ENOMEM;
    if (r == 0)
        r = first_rows_add(scan);
    while (r == 0 && scan->levels[0].n)
        r = level_run(scan, 0);
    return r;
}

// -- longest paths from the nodes that the first rows lead to --

enum {
    UNSEEN,
    BELOW, // the walk is at nodes that this node leads to
    SEEN,
};

static void depth_set(struct scan *scan, uint32_t node)
{
    const struct graph *graph = scan->graph;
    for (uint32_t i = graph->first[node]; i < graph->first[node + 1]; i++)
        if (scan->depth[graph->targets[i]] + 1 > scan->depth[node])
            scan->depth[node] = scan->depth[graph->targets[i]] + 1;
    if (scan->depth[node] > scan->level)
        scan->level = scan->depth[node];
}

static int targets_push(const struct graph *graph, uint32_t node, const uint8_t *states,
                        struct index_vec *stack)
{
    int r = 0;
    for (uint32_t i = graph->first[node]; i < graph->first[node + 1] && r == 0; i++)
        if (states[graph->targets[i]] != SEEN)
            r = index_vec_push(stack, graph->targets[i]);
    return r;
}

static int depths_find(struct scan *scan)
{
    const struct graph *graph = scan->graph;
    struct index_vec stack CLEANUP(index_vec_done) = {0};
    uint8_t *states CLEANUP(freep) = calloc((size_t)graph_size(graph) + 1, 1);
    scan->depth = calloc((size_t)graph_size(graph) + 1, sizeof(*scan->depth));
    int r = states && scan->depth ? 0 : -ENOMEM;
    size_t n_columns = (size_t)scan->init->n_columns;
    for (size_t i = 0; i < value_rows_count(scan->init) && r == 0; i++) {
        uint32_t node = graph_find(graph, scan->init->cells.items[i * n_columns].integer);
        if (node != NO_NODE)
            r = targets_push(graph, node, states, &stack);
    }
    while (stack.n && r == 0) {
        uint32_t node = stack.items[stack.n - 1];
        if (states[node] == UNSEEN) {
            states[node] = BELOW;
            r = targets_push(graph, node, states, &stack);
            continue;
        }
        stack.n--;
        if (states[node] == BELOW)
            depth_set(scan, node);
        states[node] = SEEN;
    }
    return r;
}

static int aggregating_scan(struct scan *scan, const char *text)
{
    int r = scan->graph ? depths_find(scan) : 0;
    scan->is_aggregating = true;
    uint32_t n_levels = scan->level + 1;
    if (r == 0)
        r = levels_open(scan, n_levels) ? statement_prepare(scan, text) : -ENOMEM;
    scan->level = n_levels;
    if (r == 0)
        r = first_rows_add(scan);
    while (r == 0 && scan->level > 0) {
        scan->level--;
        if (scan->levels[scan->level].n)
            r = level_run(scan, scan->level);
    }
    return r;
}

// Reads "(a, b)" and compares the names with the names of `init` after the id.
static bool names_are(const struct value_rows *init, const char *list)
{
    int n = 1;
    if (!init->n_columns || strcmp(init->names[0], "id") != 0)
        return false;
    while (*(list += strspn(list, "() ,\n\t"))) {
        size_t size = strcspn(list, "() ,\n\t");
        if (n == init->n_columns || strlen(init->names[n]) != size ||
            sqlite3_strnicmp(init->names[n], list, (int)size) != 0)
            return false;
        list += size;
        n++;
    }
    return n == init->n_columns;
}

// Makes the answer to a call without first rows: a table with the columns of the list and no rows.
static struct value_table *empty_table(const char *list)
{
    char names[COLUMNS_MAX][ROW_NAME_BYTES] = {"id"};
    const char *all[COLUMNS_MAX] = {names[0]};
    int n = 1;
    while (*(list += strspn(list, "() ,\n\t")) && n < COLUMNS_MAX) {
        size_t size = strcspn(list, "() ,\n\t");
        sqlite3_snprintf(ROW_NAME_BYTES, names[n], "%.*s", (int)size, list);
        all[n] = names[n];
        list += size;
        n++;
    }
    return value_table_new(n, all);
}

static void scan_result(sqlite3_context *context, struct scan *scan, int r)
{
    struct value_table *table = r == 0 ? table_make(scan, &scan->out) : NULL;
    if (table) {
        table->kept = scan->texts.values;
        scan->texts.values = (struct value_vec){0};
        value_table_result(context, table);
    } else if (scan->error) {
        sqlite3_result_error(context, scan->error, -1);
    } else {
        sqlite3_result_error_nomem(context);
    }
}

// SQL arguments: (graph, first rows, SQL, '(columns)')
static void scan_call(sqlite3_context *context, sqlite3_value **argv, const char *who,
                      int (*run)(struct scan *scan, const char *text))
{
    const char *text = (const char *)sqlite3_value_text(argv[2]);
    const char *list = (const char *)sqlite3_value_text(argv[3]);
    struct scan scan = {.who = who,
                        .handle = sqlite3_context_db_handle(context),
                        .graph = sqlite3_value_pointer(argv[0], VALUE_GRAPH),
                        .init = sqlite3_value_pointer(argv[1], VALUE_ROWS)};
    int r = 0;
    if (!text || !list)
        r = fail(&scan, "the query of a step or the list of columns is NULL");
    else if (scan.init && (scan.init->n_columns > COLUMNS_MAX || !names_are(scan.init, list)))
        r = fail(&scan,
                 "the first rows must have the column id and then those of the list %s, at "
                 "most 32",
                 list);
    if (r == 0 && !scan.init) {
        value_table_result(context, empty_table(list));
        return;
    }
    if (r == 0)
        r = run(&scan, text);
    scan_result(context, &scan, r);
    scan_done(&scan);
}

static void graph_scan(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    scan_call(context, argv, "graph scan", plain_scan);
}

static void graph_aggregating_scan(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    scan_call(context, argv, "graph aggregating scan", aggregating_scan);
}

int graph_scan_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_graph_scan", 4, graph_scan, NULL, NULL},
        {"__intrinsic_graph_aggregating_scan", 4, graph_aggregating_scan, NULL, NULL},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
