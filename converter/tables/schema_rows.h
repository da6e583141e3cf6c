// SPDX-License-Identifier: Apache-2.0
//
// The table mmsql_schema: the database describes its tables, views and columns itself.
#pragma once

struct database;

// The text about a table, or about a column if `column` is not NULL. The other texts may be NULL.
struct schema_text {
    const char *table, *column, *type, *unit, *doc;
};
extern const struct schema_text schema_texts[]; // table NULL at the end; from docs/tables.md

// Writes the rows. Each database has these rows once. A database that is joined to another has no
// such rows.
void schema_rows_write(struct database *db);
