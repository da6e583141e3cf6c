// SPDX-License-Identifier: Apache-2.0
//
// Tables about the library: __intrinsic_stdlib_objects, with a row for each module and for each
// object of it, and __intrinsic_stdlib_modules.
#include <sqlite3.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "converter/functions/functions.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/library_docs.h"
#include "converter/perfetto_sql/packages.h"

#define VALUE(name) "json_extract(value, '$." name "') AS " name

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

int library_tables_register(struct sql_engine *engine)
{
    static const char
        all[] =
            "SELECT " VALUE("package") ", " VALUE("module") ", " VALUE("name") ", " VALUE("qualifie"
                                                                                          "d_name") ", " VALUE("object_type") ", " VALUE("exposed") ", " VALUE("short_description") ", " VALUE(
                "summary") ", " VALUE("description") ", " VALUE("return_type") ", " VALUE("return_"
                                                                                          "descript"
                                                                                          "ion") ","
                                                                                                 " " VALUE("args") ", " VALUE("cols") " FROM json_each(__mmsql_library()) WHERE key > 0";
    static const char modules[] = "SELECT module, package FROM __intrinsic_stdlib_objects "
                                  "WHERE object_type = 'MODULE'";
    int code = sqlite3_create_function_v2(engine->handle, "__mmsql_library", 0, SQLITE_UTF8, engine,
                                          objects, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = table_function_add(engine->handle, "__intrinsic_stdlib_objects", all, 0);
    return code == SQLITE_OK
               ? table_function_add(engine->handle, "__intrinsic_stdlib_modules", modules, 0)
               : code;
}
