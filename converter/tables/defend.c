// SPDX-License-Identifier: Apache-2.0
//
// These are SQLite's own precautions against untrusted files
// (https://www.sqlite.org/security.html). A setting that SQLite does not know is ignored, because
// this SQLite is built without the feature.
#include "converter/tables/defend.h"

#include <sqlite3.h>
#include <stddef.h>

int handle_defend(struct sqlite3 *handle)
{
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
    return sqlite3_exec(handle, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL, NULL);
}

int handle_defend_written(struct sqlite3 *handle)
{
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    return handle_defend(handle);
}

int handle_open_reading(const char *path, struct sqlite3 **ret)
{
    int code = sqlite3_open_v2(path, ret, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = handle_defend(*ret);
    return code == SQLITE_OK ? sqlite3_exec(*ret, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL)
                             : code;
}
