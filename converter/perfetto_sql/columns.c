// SPDX-License-Identifier: Apache-2.0
//
// The columns of CREATE PERFETTO TABLE and VIEW. A column of such a table has values of one type:
// integers, reals or texts. A column with integers and reals has reals only. SQLite has no such
// rule, so the rows are read once after their insertion: SQLite calls a function for each row,
// which checks the types. A column needs no check if SQLite itself declares its type, because all
// values come from a column of the database or from a CAST. Tables of the built-in library need no
// check either, because the tests of the library compare types.
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/perfetto_sql/token.h"
#include "converter/tables/statement.h"

#define LOOK             "__mmsql_types"
#define INDEXED_ROWS_MIN 1000
#define COLUMNS_LOOK     100 // columns of a call; SQLite's functions have at most 127 arguments
#define EXACT_IN_REAL    "9007199254740992" // up to this number, each integer is equal to a real

// The values that a column has.
enum {
    HAS_INTEGER = 1 << SQLITE_INTEGER,
    HAS_REAL = 1 << SQLITE_FLOAT,
    HAS_TEXT = 1 << SQLITE_TEXT,
    HAS_BLOB = 1 << SQLITE_BLOB,
    HAS_NULL = 1 << SQLITE_NULL,
};

struct column {
    const char *name;  // borrowed
    unsigned declared; // 0: no type
    unsigned has;
    bool is_known; // the type needs no check
};

// A walk over the rows.
struct column_scan {
    struct column columns[COLUMNS_LOOK];
    int n, id; // `id`: the index of the column, or -1
    int64_t n_rows, last_id;
    bool rises; // each id is larger than the id before
};

static int names_fail(struct sql_engine *engine, const struct sql_definition *definition,
                      const char *format, const char *name)
{
    char *what = sqlite3_mprintf(format, name);
    int r = engine_fail(engine, what ? -EINVAL : -ENOMEM, NULL, NULL, "%.*s: %s",
                        (int)definition->name.size, definition->name.text,
                        what ? what : "out of memory");
    sqlite3_free(what);
    return r;
}

static bool is_identifier(const char *name)
{
    const char *end = name + strlen(name);
    struct sql_token token = sql_token_read(name, end);
    if (token.kind != SQL_WORD || token.text + token.size != end)
        return false;
    for (const char *c = name; c < end; c++)
        if (*c == '$' || (unsigned char)*c & 0x80)
            return false;
    return true;
}

// Returns whether a column before has the same name. SQLite calls a second column "a" of a table
// "a:1".
static bool is_second(sqlite3_stmt *statement, int column)
{
    const char *name = sqlite3_column_name(statement, column);
    const char *colon = strchr(name, ':');
    size_t n = colon ? (size_t)(colon - name) : strlen(name);
    for (int i = 0; i < column; i++) {
        const char *other = sqlite3_column_name(statement, i);
        if (strlen(other) == n && strncasecmp(other, name, n) == 0)
            return true;
    }
    return false;
}

static int name_check(struct sql_engine *engine, const struct sql_definition *definition,
                      sqlite3_stmt *statement, int column)
{
    const char *name = sqlite3_column_name(statement, column);
    if (!name)
        return -ENOMEM;
    if (is_second(statement, column)) {
        CLEANUP(freep) char *first = strndup(name, strcspn(name, ":"));
        return first ? names_fail(engine, definition, "two columns have the name %s", first)
                     : -ENOMEM;
    }
    return is_identifier(name) ? 0
                               : names_fail(engine, definition,
                                            "the column \"%s\" needs a name of letters, digits and "
                                            "_ (AS name)",
                                            name);
}

static const struct sql_field *field_find(const struct sql_definition *definition, const char *name)
{
    vec_foreach(&definition->columns, field)
        if (field->name.size == strlen(name) && strncmp(field->name.text, name, strlen(name)) == 0)
            return field;
    return NULL;
}

static int declared_check(struct sql_engine *engine, const struct sql_rope *rope,
                          const struct sql_definition *definition, sqlite3_stmt *statement)
{
    int n = sqlite3_column_count(statement);
    vec_foreach(&definition->columns, field) {
        bool found = false;
        for (int i = 0; i < n && !found; i++)
            found = field_find(definition, sqlite3_column_name(statement, i)) == field;
        for (const struct sql_field *other = definition->columns.items; other < field; other++)
            found |= other->name.size == field->name.size &&
                     strncmp(other->name.text, field->name.text, field->name.size) == 0;
        if (!found)
            return engine_fail(engine, -EINVAL, rope, field->name.text,
                               "%.*s: the SQL has no column %.*s, which is declared",
                               (int)definition->name.size, definition->name.text,
                               (int)field->name.size, field->name.text);
    }
    for (int i = 0; i < n; i++)
        if (!field_find(definition, sqlite3_column_name(statement, i)))
            return names_fail(engine, definition, "the SQL has a column %s, which is not declared",
                              sqlite3_column_name(statement, i));
    return 0;
}

int columns_check(struct sql_engine *engine, const struct sql_rope *rope,
                  const struct sql_definition *definition, sqlite3_stmt *statement)
{
    bool is_checked = definition->columns.n > 0 || definition->kind == DEFINITION_TABLE;
    int n = is_checked ? sqlite3_column_count(statement) : 0, r = 0;
    for (int i = 0; i < n && r == 0; i++)
        r = name_check(engine, definition, statement, i);
    if (r == 0 && definition->columns.n)
        r = declared_check(engine, rope, definition, statement);
    return r;
}

static bool types_clash(unsigned has)
{
    return has & HAS_BLOB || (has & HAS_TEXT && has & (HAS_INTEGER | HAS_REAL));
}

// The SQL function that checks a row. Its result is true if the walk must end.
static void look(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct column_scan *scan = ((struct sql_engine *)sqlite3_user_data(context))->scan;
    bool ends = !scan || argc != scan->n, looks = false;
    for (int i = 0; i < argc && !ends; i++) {
        struct column *column = &scan->columns[i];
        if (column->is_known)
            continue;
        looks = true;
        column->has |= (1u << sqlite3_value_type(argv[i])) & ~(unsigned)HAS_NULL;
        ends = types_clash(column->has | column->declared);
    }
    if (!ends && scan->rises) {
        int64_t id = sqlite3_value_int64(argv[scan->id]);
        scan->rises = sqlite3_value_type(argv[scan->id]) == SQLITE_INTEGER &&
                      (scan->n_rows == 0 || id > scan->last_id);
        scan->last_id = id;
        ends = !scan->rises && !looks;
    }
    if (scan)
        scan->n_rows++;
    sqlite3_result_int(context, ends);
}

static const struct {
    enum sql_type type;
    unsigned has;
    const char *affinity; // as SQLite declares the columns of CREATE TABLE AS
} kinds[] = {
    {SQL_TYPE_LONG, HAS_INTEGER, "INT"},
    {SQL_TYPE_DOUBLE, HAS_REAL, "REAL"},
    {SQL_TYPE_STRING, HAS_TEXT, "TEXT"},
};

static const char *type_names(unsigned has)
{
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (has == kinds[i].has)
            return sql_type_name(kinds[i].type);
    return "LONG or DOUBLE";
}

static struct column column_of(const struct sql_definition *definition, sqlite3_stmt *statement,
                               int index, bool trusts)
{
    struct column column = {.name = sqlite3_column_name(statement, index)};
    const char *affinity = trusts ? sqlite3_column_decltype(statement, index) : NULL;
    const struct sql_field *field = column.name ? field_find(definition, column.name) : NULL;
    enum sql_type type = field ? sql_type_read(field->type) : SQL_TYPE_UNKNOWN;
    unsigned known = 0;
    for (size_t i = 0; i < ELEMENTS(kinds); i++) {
        column.declared |= kinds[i].type == type ? kinds[i].has : 0;
        known |= affinity && strcmp(affinity, kinds[i].affinity) == 0 ? kinds[i].has : 0;
    }
    column.is_known = known && (!column.declared || column.declared == known ||
                                (column.declared == HAS_INTEGER && known == HAS_REAL));
    return column;
}

static int clash_fail(struct sql_engine *engine, const struct sql_definition *definition,
                      const struct column_scan *scan)
{
    for (int i = 0; i < scan->n; i++) {
        const struct column *column = &scan->columns[i];
        unsigned has = column->has;
        const char *name = column->name;
        if (!types_clash(has | column->declared))
            continue;
        if (has & HAS_BLOB)
            return names_fail(engine, definition,
                              "the column %s has blobs, which such a table cannot have", name);
        char *what = types_clash(has)
                         ? sqlite3_mprintf("the column %s has texts and numbers (row %lld is the "
                                           "first of the other type)",
                                           name, (long long)scan->n_rows)
                         : sqlite3_mprintf("the column %s is declared %s, but row %lld has a %s",
                                           name, type_names(column->declared),
                                           (long long)scan->n_rows, type_names(has));
        int r = what ? names_fail(engine, definition, "%s", what) : -ENOMEM;
        sqlite3_free(what);
        return r;
    }
    return 0;
}

// Reads the rows. Returns 0 or a negative errno.
static int rows_look(struct sql_engine *engine, const struct sql_definition *definition,
                     const char *table, struct column_scan *scan)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    sqlite3_str *sql = sqlite3_str_new(engine->handle);
    sqlite3_str_appendall(sql, "SELECT 1 FROM temp.");
    sqlite3_str_appendf(sql, "%s WHERE " LOOK "(", table);
    for (int i = 0; i < scan->n; i++)
        sqlite3_str_appendf(sql, "%s\"%w\"", i ? "," : "", scan->columns[i].name);
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    int code = text ? sqlite3_prepare_v2(engine->handle, text, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(text);
    engine->scan = scan;
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    engine->scan = NULL;
    if (code == SQLITE_ROW)
        return clash_fail(engine, definition, scan);
    return code == SQLITE_DONE ? 0 : engine_fail_sqlite(engine, NULL, NULL);
}

static bool becomes_real(const struct column *column)
{
    return column->has & HAS_INTEGER && (column->has & HAS_REAL || column->declared == HAS_REAL);
}

// Refuses an integer to which no real is equal.
static int reals_check(struct sql_engine *engine, const struct sql_definition *definition,
                       const char *table, const struct column *column)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT 1 FROM temp.%s WHERE typeof(\"%w\") = 'integer' AND "
                                "\"%w\" NOT BETWEEN -" EXACT_IN_REAL " AND " EXACT_IN_REAL,
                                table, column->name, column->name);
    int code = sql ? sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return names_fail(engine, definition,
                          "the column %s is of the type DOUBLE, and has an integer that is too "
                          "large for it",
                          column->name);
    return code == SQLITE_DONE ? 0 : engine_fail_sqlite(engine, NULL, NULL);
}

// Checks up to COLUMNS_LOOK columns from `first` on. Appends all these columns to ret->reals.
static int some_check(struct sql_engine *engine, const struct sql_definition *definition,
                      const char *table, sqlite3_stmt *rows, int first, bool trusts,
                      struct column_values *ret)
{
    struct column_scan scan = {.id = -1};
    int n = sqlite3_column_count(rows), r = 0;
    bool is_own = engine->module && engine->module->is_own;
    for (int i = first; i < n && i < first + COLUMNS_LOOK; i++) {
        struct column column = column_of(definition, rows, i, trusts);
        if (!column.name)
            return -ENOMEM;
        column.is_known |= is_own;
        bool is_id = strcasecmp(column.name, "id") == 0;
        if (is_id)
            scan.id = scan.n;
        scan.rises |= is_id;
        if (is_id || !column.is_known)
            scan.columns[scan.n++] = column;
    }
    if (scan.n > 0)
        r = rows_look(engine, definition, table, &scan);
    ret->ids_rise |= scan.rises && scan.n_rows >= INDEXED_ROWS_MIN;
    for (int i = first, k = 0; i < n && i < first + COLUMNS_LOOK && r == 0; i++) {
        const char *name = sqlite3_column_name(rows, i);
        bool was_read = k < scan.n && strcmp(name, scan.columns[k].name) == 0;
        bool is_real = was_read && becomes_real(&scan.columns[k]);
        if (is_real)
            r = reals_check(engine, definition, table, &scan.columns[k]);
        k += was_read;
        ret->has_reals |= is_real;
        strbuf_addf(&ret->reals, "%s%s\"%s\"%s", i ? ", " : "", is_real ? "CAST(" : "", name,
                    is_real ? " AS REAL) AS " : "");
        if (is_real)
            strbuf_addf(&ret->reals, "\"%s\"", name);
    }
    return r;
}

void values_done(struct column_values *values)
{
    strbuf_done(&values->reals);
}

int columns_check_values(struct sql_engine *engine, const struct sql_definition *definition,
                         const char *table, sqlite3_stmt *rows, bool trusts,
                         struct column_values *ret)
{
    int n = sqlite3_column_count(rows), r = 0;
    for (int i = 0; i < n && r == 0; i += COLUMNS_LOOK)
        r = some_check(engine, definition, table, rows, i, trusts && !engine->is_mixed, ret);
    return r == 0 && ret->reals.failed ? -ENOMEM : r;
}

int columns_register(struct sql_engine *engine)
{
    return sqlite3_create_function_v2(engine->handle, LOOK, -1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                      engine, look, NULL, NULL, NULL);
}
