// SPDX-License-Identifier: Apache-2.0
//
// The aggregates that collect a graph (source, target), an array (value) and rows ('name', value,
// ...), and the values that they make.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "converter/functions/graph.h"

SQLITE_EXTENSION_INIT3

#define FIELDS_MAX 8

// -- graphs --

uint32_t graph_node(struct graph *graph, int64_t id)
{
    bool is_new;
    uint64_t *index = map64_get_or_add(&graph->index_of, (uint64_t)id, graph->ids.n, &is_new);
    if (!index || graph->ids.n >= NO_NODE || (is_new && int64_vec_push(&graph->ids, id) < 0))
        return NO_NODE;
    return (uint32_t)*index;
}

uint32_t graph_find(const struct graph *graph, int64_t id)
{
    const uint64_t *index = map64_find(&graph->index_of, (uint64_t)id);
    return index ? (uint32_t)*index : NO_NODE;
}

int graph_add_edge(struct graph *graph, int64_t source, int64_t target)
{
    struct graph_edge edge = {.source = graph_node(graph, source)};
    edge.target = edge.source == NO_NODE ? NO_NODE : graph_node(graph, target);
    if (edge.target == NO_NODE || graph->edges.n >= UINT32_MAX)
        return -ENOMEM;
    return graph_edge_vec_push(&graph->edges, edge);
}

int graph_close(struct graph *graph, uint32_t **ret_order)
{
    size_t n = graph->ids.n, n_edges = graph->edges.n;
    uint32_t *order = ret_order ? malloc((n_edges + 1) * sizeof(*order)) : NULL;
    graph->first = calloc(n + 2, sizeof(*graph->first));
    graph->targets = malloc((n_edges + 1) * sizeof(*graph->targets));
    if (!graph->first || !graph->targets || (ret_order && !order)) {
        free(order);
        return -ENOMEM;
    }
    // first[i + 1] moves from the start of node i's targets to their end.
    for (size_t i = 0; i < n_edges; i++)
        graph->first[graph->edges.items[i].source + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        graph->first[i] += graph->first[i - 1];
    for (size_t i = 0; i < n_edges; i++) {
        uint32_t at = graph->first[graph->edges.items[i].source + 1]++;
        graph->targets[at] = graph->edges.items[i].target;
        if (order)
            order[at] = (uint32_t)i;
    }
    graph_edge_vec_done(&graph->edges);
    if (ret_order)
        *ret_order = order;
    return 0;
}

void graph_done(struct graph *graph)
{
    map64_done(&graph->index_of);
    int64_vec_done(&graph->ids);
    graph_edge_vec_done(&graph->edges);
    free(graph->first);
    free(graph->targets);
    *graph = (struct graph){0};
}

static void graph_free(void *userdata)
{
    if (userdata)
        graph_done(userdata);
    free(userdata);
}

// Adds an edge. A source whose target is NULL is a node without an edge.
static void graph_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct graph *graph = aggregate_get(context, sizeof(*graph));
    if (!graph)
        return;
    int64_t source = sqlite3_value_int64(argv[0]);
    bool is_alone = sqlite3_value_type(argv[1]) == SQLITE_NULL;
    if (is_alone ? graph_node(graph, source) == NO_NODE
                 : graph_add_edge(graph, source, sqlite3_value_int64(argv[1])) < 0)
        sqlite3_result_error_nomem(context);
}

static void graph_final(sqlite3_context *context)
{
    struct graph *graph = aggregate_take(context);
    if (graph && graph_close(graph, NULL) < 0) {
        graph_free(graph);
        sqlite3_result_error_nomem(context);
        return;
    }
    if (graph)
        sqlite3_result_pointer(context, graph, VALUE_GRAPH, graph_free);
}

// -- arrays --

struct array {
    int type; // SQLite's type of all values
    struct int64_vec ints;
    struct value_vec others; // owned
};

static void array_free(void *userdata)
{
    struct array *array = userdata;
    if (!array)
        return;
    vec_foreach(&array->others, value)
        sqlite3_value_free(*value);
    value_vec_done(&array->others);
    int64_vec_done(&array->ints);
    free(array);
}

static void ints_free(void *userdata)
{
    int64_vec_done(userdata);
    free(userdata);
}

static int array_add(struct array *array, sqlite3_value *value)
{
    if (array->type == SQLITE_INTEGER)
        return int64_vec_push(&array->ints, sqlite3_value_int64(value));
    sqlite3_value *copy = sqlite3_value_dup(value);
    if (copy && value_vec_push(&array->others, copy) == 0)
        return 0;
    sqlite3_value_free(copy);
    return -ENOMEM;
}

static void array_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct array *array = aggregate_get(context, sizeof(*array));
    int type = sqlite3_value_type(argv[0]);
    if (!array)
        return;
    if (!array->type)
        array->type = type;
    if (type == SQLITE_NULL)
        sqlite3_result_error(context, "array: a value is NULL; leave out such rows", -1);
    else if (type == SQLITE_BLOB)
        sqlite3_result_error(context, "array: a value is a BLOB; only numbers and texts are taken",
                             -1);
    else if (type != array->type)
        sqlite3_result_error(context, "array: the values have different types", -1);
    else if (array_add(array, argv[0]) < 0)
        sqlite3_result_error_nomem(context);
}

// Integers become a vector, because the functions on graphs take a vector.
static void array_final(sqlite3_context *context)
{
    struct array *array = aggregate_take(context);
    if (!array)
        return;
    if (array->type != SQLITE_INTEGER) {
        sqlite3_result_pointer(context, array,
                               array->type == SQLITE_FLOAT ? "ARRAY<DOUBLE>" : "ARRAY<STRING>",
                               array_free);
        return;
    }
    struct int64_vec *ints = malloc(sizeof(*ints));
    if (ints) {
        *ints = array->ints;
        array->ints = (struct int64_vec){0};
        sqlite3_result_pointer(context, ints, VALUE_ARRAY, ints_free);
    } else {
        sqlite3_result_error_nomem(context);
    }
    array_free(array);
}

// -- RepeatedField: integers as a BLOB, which can be an argument of a table --

static void repeated_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct int64_vec *ints = aggregate_get(context, sizeof(*ints));
    if (ints && int64_vec_push(ints, sqlite3_value_int64(argv[0])) < 0)
        sqlite3_result_error_nomem(context);
}

static void repeated_final(sqlite3_context *context)
{
    struct int64_vec *ints = aggregate_take(context);
    if (!ints)
        return;
    sqlite3_result_blob64(context, ints->items, ints->n * sizeof(*ints->items), SQLITE_TRANSIENT);
    ints_free(ints);
}

// -- rows of cells --

int cell_read(struct cell_texts *texts, sqlite3_value *value, struct cell *ret)
{
    *ret = (struct cell){.kind = CELL_NULL};
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        *ret = (struct cell){.kind = CELL_INT, .integer = sqlite3_value_int64(value)};
        return 0;
    case SQLITE_FLOAT:
        *ret = (struct cell){.kind = CELL_REAL, .real = sqlite3_value_double(value)};
        return 0;
    case SQLITE_NULL:
        return 0;
    case SQLITE_BLOB:
        return -EINVAL;
    default:
        break;
    }
    const char *text = (const char *)sqlite3_value_text(value);
    uint32_t number =
        text ? strset_add(&texts->set, text, (size_t)sqlite3_value_bytes(value)) : STRSET_NONE;
    if (number == STRSET_NONE)
        return -ENOMEM;
    *ret = (struct cell){.kind = CELL_TEXT, .text = number};
    if (number < texts->values.n)
        return 0;
    sqlite3_value *copy = sqlite3_value_dup(value);
    if (copy && value_vec_push(&texts->values, copy) == 0)
        return 0;
    sqlite3_value_free(copy);
    return -ENOMEM;
}

void cell_texts_done(struct cell_texts *texts)
{
    vec_foreach(&texts->values, value)
        sqlite3_value_free(*value);
    value_vec_done(&texts->values);
    strset_done(&texts->set);
}

static void value_rows_free(void *userdata)
{
    struct value_rows *rows = userdata;
    if (!rows)
        return;
    free(rows->names);
    cell_vec_done(&rows->cells);
    cell_texts_done(&rows->texts);
    free(rows);
}

static void fail(sqlite3_context *context, const char *who, const char *what)
{
    char *message = sqlite3_mprintf("%s: %s", who, what);
    if (message)
        sqlite3_result_error(context, message, -1);
    else
        sqlite3_result_error_nomem(context);
    sqlite3_free(message);
}

static bool names_read(struct value_rows *rows, sqlite3_context *context, const char *who, int argc,
                       sqlite3_value **argv)
{
    int n = argc / 2;
    rows->names = calloc((size_t)n + 1, sizeof(*rows->names));
    if (!rows->names) {
        sqlite3_result_error_nomem(context);
        return false;
    }
    for (int i = 0; i < n; i++) {
        bool is_text = sqlite3_value_type(argv[2 * i]) == SQLITE_TEXT;
        const char *name = is_text ? (const char *)sqlite3_value_text(argv[2 * i]) : NULL;
        if (!name || strlen(name) >= ROW_NAME_BYTES) {
            fail(context, who, "the name of a column must be a text of less than 64 bytes");
            return false;
        }
        memcpy(rows->names[i], name, strlen(name));
    }
    rows->n_columns = n;
    return true;
}

bool value_rows_add(struct value_rows *rows, sqlite3_context *context, const char *who, int argc,
                    sqlite3_value **argv)
{
    if (argc < 2 || argc % 2) {
        fail(context, who, "pairs of a name and a value are expected");
        return false;
    }
    if (!rows->n_columns && !names_read(rows, context, who, argc, argv))
        return false;
    for (int i = 0; i < rows->n_columns; i++) {
        struct cell cell;
        int r = cell_read(&rows->texts, argv[2 * i + 1], &cell);
        if (r == 0)
            r = cell_vec_push(&rows->cells, cell);
        if (r == -EINVAL)
            fail(context, who, "a value is a BLOB; only numbers and texts are taken");
        else if (r < 0)
            sqlite3_result_error_nomem(context);
        if (r < 0)
            return false;
    }
    return true;
}

#define EXACT_MAX ((int64_t)1 << 53)

bool cells_to_column(struct value_table *table, int column, const struct cell *cells, size_t step,
                     size_t n, const uint32_t *order, sqlite3_value *const *texts)
{
    bool has[CELL_TEXT + 1] = {false}, is_exact = true;
    for (size_t i = 0; i < n; i++) {
        const struct cell *cell = &cells[i * step];
        has[cell->kind] = true;
        is_exact &=
            cell->kind != CELL_INT || (cell->integer <= EXACT_MAX && cell->integer >= -EXACT_MAX);
    }
    bool is_real = has[CELL_REAL];
    if ((has[CELL_TEXT] && (is_real || has[CELL_INT])) || (is_real && !is_exact))
        return false;
    for (size_t i = 0; i < n && !table->failed; i++) {
        const struct cell *cell = &cells[(order ? order[i] : i) * step];
        if (cell->kind == CELL_NULL)
            value_table_add_null(table, column);
        else if (cell->kind == CELL_TEXT)
            value_table_add_value(table, column, texts[cell->text]);
        else if (cell->kind == CELL_REAL)
            value_table_add_real(table, column, cell->real);
        else if (is_real)
            value_table_add_real(table, column, (double)cell->integer);
        else
            value_table_add_int(table, column, cell->integer);
    }
    return true;
}

static void rows_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct value_rows *rows = aggregate_get(context, sizeof(*rows));
    if (rows)
        value_rows_add(rows, context, "rows", argc, argv);
}

static void rows_final(sqlite3_context *context)
{
    aggregate_result(context, VALUE_ROWS, value_rows_free);
}

// -- structures: ('name', ..., value, ...), as many values as names --

struct structure {
    int n_fields;
    struct {
        sqlite3_value *name, *value; // owned
    } fields[FIELDS_MAX];
};

static void structure_free(void *userdata)
{
    struct structure *structure = userdata;
    for (int i = 0; i < structure->n_fields; i++) {
        sqlite3_value_free(structure->fields[i].name);
        sqlite3_value_free(structure->fields[i].value);
    }
    free(structure);
}

static const char *structure_check(int argc, sqlite3_value **argv)
{
    if (argc % 2 || argc / 2 > FIELDS_MAX)
        return "structure: up to eight names and as many values are expected";
    for (int i = 0; i < argc / 2; i++) {
        if (sqlite3_value_type(argv[i]) != SQLITE_TEXT)
            return "structure: the names must be texts";
        if (sqlite3_value_type(argv[argc / 2 + i]) == SQLITE_BLOB)
            return "structure: a value is a BLOB; only numbers and texts are taken";
    }
    return NULL;
}

static void structure_make(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *why = structure_check(argc, argv);
    if (why) {
        sqlite3_result_error(context, why, -1);
        return;
    }
    struct structure *structure = calloc(1, sizeof(*structure));
    bool made = structure != NULL;
    for (int i = 0; i < argc / 2 && made; i++) {
        structure->n_fields++;
        structure->fields[i].name = sqlite3_value_dup(argv[i]);
        structure->fields[i].value = sqlite3_value_dup(argv[argc / 2 + i]);
        made = structure->fields[i].name && structure->fields[i].value;
    }
    if (made) {
        sqlite3_result_pointer(context, structure, "STRUCT", structure_free);
        return;
    }
    if (structure)
        structure_free(structure);
    sqlite3_result_error_nomem(context);
}

int graph_value_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_graph_agg", 2, NULL, graph_step, graph_final},
        {"__intrinsic_array_agg", 1, NULL, array_step, array_final},
        {"__intrinsic_row_dataframe_agg", -1, NULL, rows_step, rows_final},
        {"__intrinsic_struct", -1, structure_make, NULL, NULL},
        {"RepeatedField", 1, NULL, repeated_step, repeated_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
