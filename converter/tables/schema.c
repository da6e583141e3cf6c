// SPDX-License-Identifier: Apache-2.0
//
// The lists of schema.h, expanded into data.
#include "converter/tables/schema.h"

#include "common/elements.h"
#include "common/str.h"

#define DEF_KEY(table, column, text)                                                               \
    {.name = #column, .doc = (text), .type = COLUMN_INT, .key = true, .hidden = #column[0] == '_'},
#define DEF_COLUMN(table, column, kind, text)                                                      \
    {.name = #column, .doc = (text), .type = COLUMN_##kind, .hidden = #column[0] == '_'},
#define DEF_GENERATED(table, column, kind, sql, text)                                              \
    {.name = #column, .doc = (text), .type = COLUMN_##kind, .generated = (sql)},
#define DEF_COLUMNS(table, text)                                                                   \
    static const struct column_def columns_##table[] = {                                           \
        COLUMNS_##table(DEF_KEY, DEF_COLUMN, DEF_GENERATED)};
TABLE_LIST(DEF_COLUMNS)

#define N_COLUMNS(table) ELEMENTS(columns_##table)

// If a table has computed columns, its two counts of columns differ. A table with hidden columns
// always has computed columns.
#define DEF_TABLE(table, text)                                                                     \
    [TABLE_##table] = {.name = #table,                                                             \
                       .stored_name = N_COLUMNS(table) == N_COL_##table ? #table : "_" #table,     \
                       .doc = (text),                                                              \
                       .columns = columns_##table,                                                 \
                       .n_columns = N_COLUMNS(table),                                              \
                       .n_stored = N_COL_##table},
const struct table_def table_defs[N_TABLES] = {TABLE_LIST(DEF_TABLE)};

const char *column_type_name(enum column_type type)
{
    static const char *const names[] = {
        [COLUMN_INT] = "INTEGER",
        [COLUMN_REAL] = "REAL",
        [COLUMN_TEXT] = "TEXT",
        [COLUMN_BLOB] = "BLOB",
    };
    return names[type];
}

const struct table_def *table_def_find(const char *name)
{
    for (size_t i = 0; i < N_TABLES; i++)
        if (str_eq(table_defs[i].name, name))
            return &table_defs[i];
    return NULL;
}
