// SPDX-License-Identifier: Apache-2.0
//
// Tables about the library: __intrinsic_stdlib_objects, with a row for each module and each object
// of a module, and __intrinsic_stdlib_modules.
#include <sqlite3.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/functions/functions.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/library_docs.h"
#include "converter/perfetto_sql/packages.h"

// The columns of __intrinsic_stdlib_objects, which are members of the JSON objects.
static const char *const columns[] = {
    "package",           "module", "name",        "qualified_name", "object_type",        "exposed",
    "summary",           "args",   "description", "return_type",    "return_description", "cols",
    "short_description",
};

static void objects(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc, (void)argv;
    const struct sql_engine *engine = sqlite3_user_data(context);
    CLEANUP(strbuf_done) struct strbuf json = {0};
    strbuf_add_str(&json, "[{}");
    vec_foreach(&engine->packages->modules, module)
        library_docs_add(&json, module);
    strbuf_add_char(&json, ']');
    if (json.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text64(context, json.text, json.size, SQLITE_TRANSIENT, SQLITE_UTF8);
}

// Returns the SQL of __intrinsic_stdlib_objects, which the caller frees with sqlite3_free(), or
// NULL if memory ran out.
static char *objects_sql(void)
{
    sqlite3_str *sql = sqlite3_str_new(NULL);
    for (size_t i = 0; i < ELEMENTS(columns); i++)
        sqlite3_str_appendf(sql, "%s json_extract(value, '$.%s') AS %s", i ? "," : "SELECT",
                            columns[i], columns[i]);
    sqlite3_str_appendall(sql, " FROM json_each(__mmsql_library()) WHERE key > 0");
    return sqlite3_str_finish(sql);
}

int library_tables_register(struct sql_engine *engine)
{
    static const char modules[] = "SELECT module, package FROM __intrinsic_stdlib_objects "
                                  "WHERE object_type = 'MODULE'";
    char *sql = objects_sql();
    int code = sql ? sqlite3_create_function_v2(engine->handle, "__mmsql_library", 0, SQLITE_UTF8,
                                                engine, objects, NULL, NULL, NULL)
                   : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = table_function_add(engine->handle, "__intrinsic_stdlib_objects", sql, 0);
    if (code == SQLITE_OK)
        code = table_function_add(engine->handle, "__intrinsic_stdlib_modules", modules, 0);
    sqlite3_free(sql);
    return code;
}
