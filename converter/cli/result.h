// SPDX-License-Identifier: Apache-2.0
//
// What a statement returns, printed for people or for programs.
#pragma once

struct sqlite3_stmt;

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

// Steps through the statement and prints its rows to standard output. Returns SQLite's code:
// SQLITE_DONE if all is well.
int result_print(struct sqlite3_stmt *statement, enum format format);
