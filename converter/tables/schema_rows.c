// SPDX-License-Identifier: Apache-2.0
#include "converter/tables/schema_rows.h"

#include <stdbool.h>

#include "common/str.h"
#include "converter/tables/database.h"
#include "converter/tables/meaning.h"

void schema_rows_write(struct database *db)
{
    const struct table_def *def = NULL;
    for (const struct schema_text *text = schema_texts; text->table; text++) {
        struct cell *row = database_row(db, TABLE_mmsql_schema, NULL);
        if (!text->column)
            def = table_def_find(text->table);
        // A table that is stored under another name is a view for users of the database.
        bool is_table = def && str_eq(def->name, def->stored_name);
        const char *key = NULL, *refers = NULL;
        if (text->column)
            refers = column_refers_to(def, text->column, &key);
        cell_text(row, COL_mmsql_schema_table_name, text->table);
        cell_text(row, COL_mmsql_schema_kind, is_table ? "table" : "view");
        cell_text(row, COL_mmsql_schema_column_name, text->column);
        cell_text(row, COL_mmsql_schema_type, text->type);
        cell_text(row, COL_mmsql_schema_unit, text->unit);
        cell_text(row, COL_mmsql_schema_doc, text->doc);
        cell_text(row, COL_mmsql_schema_refers_table, refers);
        cell_text(row, COL_mmsql_schema_refers_column, refers ? key : NULL);
    }
}
