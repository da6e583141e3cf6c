// SPDX-License-Identifier: Apache-2.0
//
// Output of a statement's rows, for people or for programs.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sqlite3_stmt;

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON, FORMAT_JSON_LINES };

struct result_form {
    enum format format;
    bool apart;                    // print a blank line first
    int64_t max_rows;              // of CSV and JSON; 0: all
    FILE *out;                     // borrowed; NULL: standard output
    void (*begin)(void *userdata); // called before the first output; may be NULL
    void *userdata;
};

// Returns where the rows go.
FILE *result_output(const struct result_form *form);

// Steps through the statement and prints its rows. Returns SQLite's code: SQLITE_DONE on success,
// and also if the output fails.
int result_print(struct sqlite3_stmt *statement, const struct result_form *form);
