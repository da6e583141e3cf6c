// SPDX-License-Identifier: Apache-2.0
//
// What a statement returns, printed for people or for programs.
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct sqlite3_stmt;

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON, FORMAT_JSON_LINES };

struct result_form {
    enum format format;
    bool apart;                    // a blank line stands in front
    FILE *out;                     // borrowed; NULL: standard output
    void (*begin)(void *userdata); // NULL or called before something is printed
    void *userdata;
};

// Steps through the statement and prints its rows. Returns SQLite's code: SQLITE_DONE if all is
// well, or the output takes no more.
int result_print(struct sqlite3_stmt *statement, const struct result_form *form);
