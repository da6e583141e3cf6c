// SPDX-License-Identifier: Apache-2.0
//
// The entry point of mmsql_functions.so, for example for `.load mmsql_functions` in the sqlite3
// shell.
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT1

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *handle, char **ret_error,
                                                                  const sqlite3_api_routines *api);

int sqlite3_extension_init(sqlite3 *handle, char **ret_error, const sqlite3_api_routines *api)
{
    (void)ret_error;
    SQLITE_EXTENSION_INIT2(api);
    int code = functions_register(handle);
    return code == SQLITE_OK ? table_functions_register(handle) : code;
}
