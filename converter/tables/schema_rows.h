// SPDX-License-Identifier: Apache-2.0
//
// The table mmsql_schema: the database describes its tables, views and columns itself.
#pragma once

struct database;

// A table, or with `column` one of its columns. NULL: none.
struct schema_text {
    const char *table, *column, *type, *unit, *doc;
};
extern const struct schema_text schema_texts[]; // table NULL at the end; from docs/tables.md

// Writes the rows. Each database has them once; a database that is a part of another has none.
void schema_rows_write(struct database *db);
