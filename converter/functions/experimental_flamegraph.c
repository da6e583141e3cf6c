// SPDX-License-Identifier: Apache-2.0
//
// experimental_flamegraph(type, ts, ts_constraint, upid, upid_group, focus): a flame graph of a
// heap profile ('native'), of CPU samples ('perf') or of a heap graph ('graph'). Frames of one name
// and one mapping that have the same caller are one row. As in Perfetto, call stacks without a
// weight are rows, too.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "converter/functions/flame_tree.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

#define FUNCTION        "experimental_flamegraph"
#define CONSTRAINTS_MAX 8

enum { SIZE, COUNT, ALLOC_SIZE, ALLOC_COUNT, N_WEIGHTS };

struct flame_row {
    uint32_t parent; // a row before this row; NO_NODE: none
    int32_t depth;
    int64_t ts;
    sqlite3_value *name, *mapping, *file; // borrowed from `kept`; NULL: none
    int64_t line;                         // -1: not known
    int64_t self[N_WEIGHTS], sums[N_WEIGHTS];
    bool is_found, is_below; // the focus matches the row or a row below; the row or a row above
};
VEC_DEFINE(flame_row_vec, struct flame_row);

struct constraint {
    char form[4]; // =, >, >=, <, <=
    int64_t ts;
};

struct flames {
    sqlite3 *handle; // borrowed
    const char *type, *upid_group, *focus;
    bool has_ts, has_upid;
    int64_t ts, upid;
    struct constraint constraints[CONSTRAINTS_MAX];
    int n_constraints;
    struct flame_row_vec rows;
    struct cell_texts texts;
    struct map64 row_of_frame; // row by parent + 1 << 32 | frame
    struct map64 frames;       // number of a frame by name << 32 | mapping
    struct map64 row_of_site;  // row by callsite
    char *error;               // of sqlite3_malloc()
    bool failed;               // out of memory
};

// Returns false, and keeps the first message.
__attribute__((format(printf, 2, 3))) static bool fail(struct flames *flames, const char *format,
                                                       ...)
{
    va_list arguments;
    if (flames->error)
        return false;
    va_start(arguments, format);
    char *why = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    flames->error = why ? sqlite3_mprintf(FUNCTION ": %s", why) : NULL;
    flames->failed |= !flames->error;
    sqlite3_free(why);
    return false;
}

static bool prepare(struct flames *flames, const char *sql, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v2(flames->handle, sql, -1, ret, NULL) == SQLITE_OK ||
           fail(flames, "%s", sqlite3_errmsg(flames->handle));
}

// Finalizes a statement after its last step.
static bool finish(struct flames *flames, sqlite3_stmt *statement, int code)
{
    sqlite3_finalize(statement);
    return code == SQLITE_DONE || fail(flames, "%s", sqlite3_errmsg(flames->handle));
}

// Returns the number of a text in `texts`, or NO_NODE for NULL.
static uint32_t text_number(struct flames *flames, sqlite3_value *value)
{
    struct cell cell = {0};
    if (sqlite3_value_type(value) != SQLITE_TEXT)
        return NO_NODE;
    flames->failed |= cell_read(&flames->texts, value, &cell) < 0;
    return flames->failed ? NO_NODE : cell.text;
}

static sqlite3_value *text_kept(const struct flames *flames, uint32_t number)
{
    return number == NO_NODE ? NULL : flames->texts.values.items[number];
}

// Returns the row of a frame below `parent`. Adds a new row if the frame is new there.
static uint32_t frame_row(struct flames *flames, uint32_t parent, sqlite3_stmt *symbol,
                          sqlite3_value *name, sqlite3_value *mapping)
{
    uint32_t text = text_number(flames, name), file = text_number(flames, mapping);
    bool is_new = false;
    uint64_t *frame =
        map64_get_or_add(&flames->frames, (uint64_t)text << 32 | file, flames->frames.n, &is_new);
    if (!frame || flames->failed) {
        flames->failed = true;
        return NO_NODE;
    }
    uint64_t *row = map64_get_or_add(&flames->row_of_frame, (uint64_t)(parent + 1) << 32 | *frame,
                                     flames->rows.n, &is_new);
    if (!row || !is_new) {
        flames->failed |= !row;
        return row ? (uint32_t)*row : NO_NODE;
    }
    struct flame_row made = {
        .parent = parent,
        .depth = parent == NO_NODE ? 0 : flames->rows.items[parent].depth + 1,
        .ts = flames->ts,
        .name = text_kept(flames, text),
        .mapping = text_kept(flames, file),
        .line = -1,
    };
    if (symbol) {
        made.file = text_kept(flames, text_number(flames, sqlite3_column_value(symbol, 1)));
        if (sqlite3_column_type(symbol, 2) == SQLITE_INTEGER)
            made.line = sqlite3_column_int64(symbol, 2);
    }
    flames->failed |= flame_row_vec_push(&flames->rows, made) < 0;
    return (uint32_t)*row;
}

// Adds the frames of a call site: its symbols from the outermost to the innermost, or its frame.
// Returns the row of the last.
static uint32_t site_rows(struct flames *flames, sqlite3_stmt *site, sqlite3_stmt *symbols,
                          uint32_t parent)
{
    sqlite3_value *mapping = sqlite3_column_value(site, 4);
    bool has_symbols = false;
    if (sqlite3_column_type(site, 2) == SQLITE_INTEGER) {
        sqlite3_reset(symbols);
        sqlite3_bind_int64(symbols, 1, sqlite3_column_int64(site, 2));
        for (; sqlite3_step(symbols) == SQLITE_ROW && !flames->failed; has_symbols = true)
            parent = frame_row(flames, parent, symbols, sqlite3_column_value(symbols, 0), mapping);
    }
    return has_symbols ? parent
                       : frame_row(flames, parent, NULL, sqlite3_column_value(site, 3), mapping);
}

// Makes rows of all call sites.
static bool sites_read(struct flames *flames)
{
    static const char sites_sql[] =
        "SELECT c.id, c.parent_id, f.symbol_set_id, coalesce(f.deobfuscated_name, f.name), m.name "
        "FROM stack_profile_callsite c LEFT JOIN stack_profile_frame f ON f.id = c.frame_id "
        "LEFT JOIN stack_profile_mapping m ON m.id = f.mapping ORDER BY c.id";
    static const char symbols_sql[] = "SELECT name, source_file, line_number FROM "
                                      "stack_profile_symbol WHERE symbol_set_id = ?1 "
                                      "ORDER BY id DESC";
    sqlite3_stmt *sites = NULL, *symbols = NULL;
    if (!prepare(flames, sites_sql, &sites))
        return false;
    if (!prepare(flames, symbols_sql, &symbols)) {
        sqlite3_finalize(sites);
        return false;
    }
    int code;
    while ((code = sqlite3_step(sites)) == SQLITE_ROW && !flames->failed) {
        const uint64_t *up =
            sqlite3_column_type(sites, 1) == SQLITE_INTEGER
                ? map64_find(&flames->row_of_site, (uint64_t)sqlite3_column_int64(sites, 1))
                : NULL;
        uint32_t row = site_rows(flames, sites, symbols, up ? (uint32_t)*up : NO_NODE);
        flames->failed |=
            map64_set(&flames->row_of_site, (uint64_t)sqlite3_column_int64(sites, 0), row) < 0;
    }
    sqlite3_finalize(symbols);
    return finish(flames, sites, flames->failed ? SQLITE_DONE : code) && !flames->failed;
}

static struct flame_row *row_of_site(struct flames *flames, sqlite3_stmt *statement)
{
    const uint64_t *row =
        map64_find(&flames->row_of_site, (uint64_t)sqlite3_column_int64(statement, 0));
    return row ? &flames->rows.items[*row] : NULL;
}

static void sums_make(struct flames *flames)
{
    vec_foreach(&flames->rows, row)
        memcpy(row->sums, row->self, sizeof(row->sums));
    for (size_t i = flames->rows.n; i-- > 0;) {
        const struct flame_row *row = &flames->rows.items[i];
        for (int w = 0; w < N_WEIGHTS && row->parent != NO_NODE; w++)
            flames->rows.items[row->parent].sums[w] += row->sums[w];
    }
}

static bool native_build(struct flames *flames)
{
    sqlite3_stmt *statement = NULL;
    int64_t n = 0;
    if (!sites_read(flames) ||
        !prepare(flames,
                 "SELECT callsite_id, size, count FROM heap_profile_allocation WHERE ts <= ?1 AND "
                 "upid = ?2",
                 &statement))
        return false;
    sqlite3_bind_int64(statement, 1, flames->ts);
    sqlite3_bind_int64(statement, 2, flames->upid);
    int code;
    for (; (code = sqlite3_step(statement)) == SQLITE_ROW; n++) {
        struct flame_row *row = row_of_site(flames, statement);
        int64_t size = sqlite3_column_int64(statement, 1);
        int64_t count = sqlite3_column_int64(statement, 2);
        if (!row)
            continue;
        row->self[SIZE] += size;
        row->self[COUNT] += count;
        row->self[ALLOC_SIZE] += size > 0 ? size : 0;
        row->self[ALLOC_COUNT] += count > 0 ? count : 0;
    }
    if (!finish(flames, statement, code))
        return false;
    return n > 0 || fail(flames, "the process has no heap profile before that time");
}

// Returns the query for the samples of the processes that match the constraints.
static char *perf_sql(const struct flames *flames)
{
    sqlite3_str *sql = sqlite3_str_new(flames->handle);
    sqlite3_str_appendall(sql, "SELECT s.callsite_id, s.ts FROM _profiler_sample s JOIN thread t "
                               "USING (utid) WHERE s.callsite_id IS NOT NULL AND t.upid IN (");
    if (flames->has_upid)
        sqlite3_str_appendf(sql, "%lld", flames->upid);
    const char *at = flames->has_upid ? NULL : flames->upid_group;
    for (bool is_first = true; at && *at; at += *at == ',') {
        char *end = NULL;
        unsigned long number = strtoul(at, &end, 10);
        if (end != at && (*end == ',' || !*end)) {
            sqlite3_str_appendf(sql, "%s%lu", is_first ? "" : ", ", number);
            is_first = false;
        }
        at += strcspn(at, ",");
    }
    sqlite3_str_appendall(sql, ")");
    for (int i = 0; i < flames->n_constraints; i++)
        sqlite3_str_appendf(sql, " AND s.ts %s %lld", flames->constraints[i].form,
                            flames->constraints[i].ts);
    sqlite3_str_appendall(sql, " ORDER BY s.id");
    return sqlite3_str_finish(sql);
}

static bool perf_build(struct flames *flames)
{
    const struct constraint *first = flames->n_constraints ? &flames->constraints[0] : NULL;
    sqlite3_stmt *statement = NULL;
    flames->ts = !first                          ? 0
                 : strcmp(first->form, ">") == 0 ? first->ts + 1
                 : strcmp(first->form, "<") == 0 ? first->ts - 1
                                                 : first->ts;
    if (!sites_read(flames))
        return false;
    char *sql = perf_sql(flames);
    flames->failed |= !sql;
    bool is_fine = sql && prepare(flames, sql, &statement);
    sqlite3_free(sql);
    if (!is_fine)
        return false;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct flame_row *row = row_of_site(flames, statement);
        if (!row)
            continue;
        row->self[SIZE]++;
        row->self[COUNT]++;
        row->ts = sqlite3_column_int64(statement, 1);
    }
    return finish(flames, statement, code);
}

// The heap graph: a tree of shortest paths from the roots, as in
// android.memory.heap_graph.class_tree. The memory outside of the heap is a row below its object.
// LIMIT and CROSS JOIN keep the order of the objects: SQLite drops the ORDER BY of a subquery in a
// join.
#define NAME                                                                                       \
    "coalesce(c.deobfuscated_name, c.name) || coalesce(' [' || o.root_type || ']', '') AS name"
#define FROM_TREE                                                                                  \
    "FROM tree t CROSS JOIN heap_graph_object o ON o.id = t.id CROSS JOIN heap_graph_class c ON "  \
    "c.id = o.type_id"

static const char graph_sql[] =
    "(WITH edges AS MATERIALIZED (SELECT owner_id, owned_id FROM heap_graph_reference WHERE "
    "owned_id IS NOT NULL AND NOT (field_name = 'java.lang.ref.Reference.referent' AND owner_id IN "
    "(SELECT o.id FROM heap_graph_object o JOIN heap_graph_class c ON c.id = o.type_id WHERE "
    "c.kind IN ('KIND_WEAK_REFERENCE', 'KIND_PHANTOM_REFERENCE', 'KIND_FINALIZER_REFERENCE'))) "
    "ORDER BY owned_id), "
    "roots AS MATERIALIZED (SELECT o.id FROM heap_graph_object o JOIN heap_graph_class c ON "
    "c.id = o.type_id WHERE o.root_type IS NOT NULL ORDER BY c.name, o.id), "
    "paths AS MATERIALIZED (SELECT c0 AS id, c1 AS parent_id FROM "
    "__intrinsic_table_ptr(__intrinsic_bfs((SELECT __intrinsic_graph_agg(owner_id, owned_id) FROM "
    "edges), (SELECT __intrinsic_array_agg(id) FROM roots))) WHERE "
    "__intrinsic_table_ptr_bind(c0, 'node_id') AND "
    "__intrinsic_table_ptr_bind(c1, 'parent_node_id')), "
    "tree AS MATERIALIZED (SELECT p.id, p.parent_id FROM paths p JOIN heap_graph_object o ON "
    "o.id = p.id WHERE o.upid = %lld AND o.graph_sample_ts = %lld UNION ALL SELECT o.id, NULL FROM "
    "heap_graph_object o WHERE o.upid = %lld AND o.graph_sample_ts = %lld AND o.root_type IS NOT "
    "NULL AND o.id NOT IN (SELECT id FROM paths) ORDER BY 1 LIMIT -1) "
    "SELECT o.id * 2 AS id, t.parent_id * 2 AS parent_id, " NAME
    ", 1 AS value, o.self_size AS size, 'JAVA' AS map_name " FROM_TREE " UNION ALL "
    "SELECT o.id * 2 + 1, o.id * 2, '[native] ' || " NAME ", 1, o.native_size, 'JAVA' " FROM_TREE
    " WHERE o.native_size != 0)";

// Adds the nodes in the order of their first objects. Each node has objects, so no node is left
// out.
static void flame_rows_add(struct flames *flames, const struct flame_tree *flame)
{
    const struct value_vec *texts = &flame->source->tree->rows.texts.values;
    for (size_t i = 0; i < flame->nodes.n && !flames->failed; i++) {
        const struct flame_node *node = &flame->nodes.items[i];
        const struct cell *name = flame_cell(flame->source, node->row, 2);
        struct flame_row row = {
            .parent = node->parent, .depth = node->depth - 1, .ts = flames->ts, .line = -1};
        if (name->kind == CELL_TEXT)
            row.name = text_kept(flames, text_number(flames, texts->items[name->text]));
        const struct cell *mapping = flame_cell(flame->source, node->row, 5);
        row.mapping = text_kept(flames, text_number(flames, texts->items[mapping->text]));
        row.self[COUNT] = flame->self[0][i].integer;
        row.self[SIZE] = flame->self[1][i].integer;
        flames->failed |= flame_row_vec_push(&flames->rows, row) < 0;
    }
}

// Returns true for a dump that lost its roots: the result is then one row with Perfetto's message.
static bool no_graph(struct flames *flames)
{
    sqlite3_stmt *statement = NULL;
    if (!prepare(flames,
                 "SELECT 'ERROR: INCOMPLETE GRAPH (try increasing buffer size)', 'JAVA' FROM "
                 "heap_graph WHERE ts = ?1 AND upid = ?2 AND truncated",
                 &statement))
        return false;
    sqlite3_bind_int64(statement, 1, flames->ts);
    sqlite3_bind_int64(statement, 2, flames->upid);
    bool is_cut = sqlite3_step(statement) == SQLITE_ROW;
    if (is_cut) {
        uint32_t row = frame_row(flames, NO_NODE, NULL, sqlite3_column_value(statement, 0),
                                 sqlite3_column_value(statement, 1));
        if (row != NO_NODE)
            flames->rows.items[row].self[SIZE] = flames->rows.items[row].self[COUNT] = 1;
    }
    sqlite3_finalize(statement);
    return is_cut || fail(flames, "the process has no heap graph of that time");
}

static bool graph_build(struct flames *flames)
{
    struct flame_source source = {.tree = calloc(1, sizeof(struct tree))};
    struct flame_query query = {.n_names = 3,
                                .names = {{.role = FLAME_VALUE, .column = 3},
                                          {.role = FLAME_VALUE, .column = 4},
                                          {.role = FLAME_GROUPING, .column = 5}}};
    struct flame_tree flame = {0};
    char *why = NULL,
         *sql = sqlite3_mprintf(graph_sql, flames->upid, flames->ts, flames->upid, flames->ts);
    flames->failed |= !sql || !source.tree;
    int code =
        flames->failed ? SQLITE_NOMEM : flame_source_read(flames->handle, &source, sql, &why);
    sqlite3_free(sql);
    if (code == SQLITE_OK && source.tree->n == 0)
        no_graph(flames);
    else if (code == SQLITE_OK) {
        const char *wrong = flame_tree_build(&flame, &source, &query, &flames->failed);
        if (wrong)
            fail(flames, "%s", wrong);
        else if (!flames->failed)
            flame_rows_add(flames, &flame);
    } else if (why) {
        fail(flames, "%s", why);
    }
    flames->failed |= code == SQLITE_NOMEM;
    sqlite3_free(why);
    flame_tree_done(&flame);
    flame_source_done(&source);
    return !flames->failed && !flames->error;
}

// -- the focus: rows whose name has the text, rows below and rows above --

static bool contains(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; text && *text; text++)
        if (sqlite3_strnicmp(text, part, (int)n) == 0)
            return true;
    return false;
}

static void focus_apply(struct flames *flames)
{
    for (size_t i = 0; i < flames->rows.n; i++) {
        struct flame_row *row = &flames->rows.items[i];
        const struct flame_row *up =
            row->parent == NO_NODE ? NULL : &flames->rows.items[row->parent];
        row->is_below =
            (up && up->is_below) ||
            (row->name && contains((const char *)sqlite3_value_text(row->name), flames->focus));
        row->is_found = row->is_below;
    }
    for (size_t i = flames->rows.n; i-- > 0;) {
        const struct flame_row *row = &flames->rows.items[i];
        if (row->is_found && row->parent != NO_NODE)
            flames->rows.items[row->parent].is_found = true;
    }
    // Weights of rows that are left out do not count.
    uint32_t *number = malloc((flames->rows.n + 1) * sizeof(*number)), n = 0;
    if (!number) {
        flames->failed = true;
        return;
    }
    for (size_t i = 0; i < flames->rows.n; i++) {
        struct flame_row row = flames->rows.items[i];
        if (!row.is_found)
            continue;
        number[i] = n;
        row.parent = row.parent == NO_NODE ? NO_NODE : number[row.parent];
        row.file = NULL;
        row.line = -1;
        flames->rows.items[n++] = row;
    }
    flames->rows.n = n;
    free(number);
}

// -- the arguments --

static bool constraints_read(struct flames *flames, const char *text)
{
    static const char *const forms[] = {"=", ">=", ">", "<=", "<"};
    for (const char *at = text; *at; at += *at == ',') {
        struct constraint *constraint = &flames->constraints[flames->n_constraints];
        const char *form = NULL;
        char *end = NULL;
        for (size_t i = 0; i < ELEMENTS(forms) && !form; i++)
            if (strncmp(at, forms[i], strlen(forms[i])) == 0)
                form = forms[i];
        if (!form)
            return fail(flames, "a time constraint begins with =, >=, >, <= or <");
        if (flames->n_constraints++ == CONSTRAINTS_MAX)
            return fail(flames, "too many time constraints");
        strncpy(constraint->form, form, sizeof(constraint->form));
        constraint->ts = strtoll(at + strlen(form), &end, 10);
        if (end == at + strlen(form) || (*end && *end != ','))
            return fail(flames, "a time constraint ends with a number");
        at = end;
    }
    return true;
}

static bool is_type(sqlite3_value *value, int type)
{
    return sqlite3_value_type(value) == type || sqlite3_value_type(value) == SQLITE_NULL;
}

static bool arguments_read(struct flames *flames, sqlite3_value **argv)
{
    flames->type = (const char *)sqlite3_value_text(argv[0]);
    if (!flames->type || !is_type(argv[1], SQLITE_INTEGER) || !is_type(argv[2], SQLITE_TEXT) ||
        !is_type(argv[3], SQLITE_INTEGER) || !is_type(argv[4], SQLITE_TEXT) ||
        !is_type(argv[5], SQLITE_TEXT))
        return fail(flames, "the arguments are a type (text), ts (whole number or NULL), time "
                            "constraints (text or NULL), upid (whole number or NULL), upids with "
                            "commas (text or NULL) and a part of a name (text or NULL)");
    flames->has_ts = sqlite3_value_type(argv[1]) != SQLITE_NULL;
    flames->ts = sqlite3_value_int64(argv[1]);
    flames->has_upid = sqlite3_value_type(argv[3]) != SQLITE_NULL;
    flames->upid = sqlite3_value_int64(argv[3]);
    flames->upid_group = (const char *)sqlite3_value_text(argv[4]);
    flames->focus = (const char *)sqlite3_value_text(argv[5]);
    const char *constraints = (const char *)sqlite3_value_text(argv[2]);
    if (!flames->has_ts && !constraints)
        return fail(flames, "one of ts and the time constraints is needed");
    if (!flames->has_upid && !flames->upid_group)
        return fail(flames, "one of upid and the group of upids is needed");
    return !constraints || constraints_read(flames, constraints);
}

static bool build(struct flames *flames)
{
    bool is_perf = strcmp(flames->type, "perf") == 0;
    bool is_graph = strcmp(flames->type, "graph") == 0;
    if (!is_perf && !is_graph && strcmp(flames->type, "native") != 0)
        return fail(flames, "the type is native, perf or graph, not %s", flames->type);
    if (!is_perf && (!flames->has_ts || !flames->has_upid))
        return fail(flames, "%s needs ts and upid", flames->type);
    if (!(is_perf ? perf_build(flames) : is_graph ? graph_build(flames) : native_build(flames)))
        return false;
    if (flames->focus && *flames->focus)
        focus_apply(flames);
    sums_make(flames);
    return !flames->failed;
}

// -- the result --

static const char *const columns[] = {
    "ts",          "depth",    "name",      "mapping",        "parent_id",
    "file",        "line",     "size",      "count",          "alloc_size",
    "alloc_count", "sum_size", "sum_count", "sum_alloc_size", "sum_alloc_count",
};

static void text_add(struct value_table *table, int column, sqlite3_value *value)
{
    sqlite3_value *copy = value ? value_table_keep(table, value) : NULL;
    if (copy)
        value_table_add_value(table, column, copy);
    else
        value_table_add_null(table, column);
}

static struct value_table *table_make(const struct flames *flames)
{
    struct value_table *table = value_table_new(ELEMENTS(columns), columns);
    vec_foreach(&flames->rows, row) {
        if (!table)
            break;
        value_table_add_int(table, 0, row->ts);
        value_table_add_int(table, 1, row->depth);
        text_add(table, 2, row->name);
        text_add(table, 3, row->mapping);
        if (row->parent == NO_NODE)
            value_table_add_null(table, 4);
        else
            value_table_add_int(table, 4, row->parent);
        text_add(table, 5, row->file);
        if (row->line < 0)
            value_table_add_null(table, 6);
        else
            value_table_add_int(table, 6, row->line);
        for (int w = 0; w < N_WEIGHTS; w++) {
            value_table_add_int(table, 7 + w, row->self[w]);
            value_table_add_int(table, 7 + N_WEIGHTS + w, row->sums[w]);
        }
        table->n_rows++;
    }
    return table;
}

// SQL arguments: (type, ts, time constraints, upid, group of upids, focus)
static void flamegraph(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct flames flames = {.handle = sqlite3_context_db_handle(context)};
    if (arguments_read(&flames, argv) && build(&flames))
        value_table_result(context, table_make(&flames));
    else if (flames.error)
        sqlite3_result_error(context, flames.error, -1);
    else
        sqlite3_result_error_nomem(context);
    sqlite3_free(flames.error);
    flame_row_vec_done(&flames.rows);
    cell_texts_done(&flames.texts);
    map64_done(&flames.row_of_frame);
    map64_done(&flames.frames);
    map64_done(&flames.row_of_site);
}

#define BIND(n, name) " AND __intrinsic_table_ptr_bind(c" #n ", '" name "')"

int experimental_flamegraph_register(sqlite3 *handle)
{
    static const char sql[] =
        "SELECT row_number() OVER () - 1 AS id, ?1 AS profile_type, NULL AS ts_in, "
        "NULL AS ts_constraint, ?4 AS upid, iif(ifnull(?6, '') = '', ?5, NULL) AS upid_group, NULL "
        "AS focus_str, c0 AS ts, "
        "c1 AS depth, c2 AS name, c3 AS map_name, c8 AS count, c12 AS cumulative_count, "
        "c7 AS size, c11 AS cumulative_size, c10 AS alloc_count, c14 AS cumulative_alloc_count, "
        "c9 AS alloc_size, c13 AS cumulative_alloc_size, c4 AS parent_id, c5 AS source_file, "
        "c6 AS line_number "
        "FROM __intrinsic_table_ptr(__mmsql_experimental_flamegraph(?1, ?2, ?3, ?4, ?5, ?6)) "
        "WHERE 1" BIND(0, "ts") BIND(1, "depth") BIND(2, "name") BIND(3, "mapping")
            BIND(4, "parent_id") BIND(5, "file") BIND(6, "line") BIND(7, "size") BIND(8, "count")
                BIND(9, "alloc_size") BIND(10, "alloc_count") BIND(11, "sum_size")
                    BIND(12, "sum_count") BIND(13, "sum_alloc_size") BIND(14, "sum_alloc_count");
    int code = sqlite3_create_function_v2(handle, "__mmsql_experimental_flamegraph", 6, SQLITE_UTF8,
                                          NULL, flamegraph, NULL, NULL, NULL);
    return code == SQLITE_OK ? table_function_add(handle, FUNCTION, sql, 6) : code;
}
