// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

// For CLEANUP().
static inline void statement_finalizep(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}
