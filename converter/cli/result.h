// SPDX-License-Identifier: Apache-2.0
//
// What a statement returns, printed for people or for programs.
#pragma once

struct sqlite3_stmt;

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

struct result_form {
    enum format format;
    void (*begin)(void *userdata); // NULL or called before something is printed
    void *userdata;
};

// Steps through the statement and prints its rows to standard output. Returns SQLite's code:
// SQLITE_DONE if all is well, or standard output takes no more.
int result_print(struct sqlite3_stmt *statement, const struct result_form *form);
