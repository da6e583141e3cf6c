// SPDX-License-Identifier: Apache-2.0
//
// Imports any bytes as a file of a format: the file is recognised or not, and imported or refused
// with a reason; the database stays sound. One database serves all runs; each run is rolled back.
#pragma once

#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "converter/import/files/file_format.h"
#include "converter/tables/database.h"
#include "converter/tables/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_expect(int good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

static inline sqlite3 *fuzz_database(void)
{
    static struct database *db;
    struct err err = {0};
    if (!db) {
        fuzz_expect(database_create(NULL, &err, &db) == 0 &&
                        database_finish(db, NULL, NULL, &err) == 0,
                    "database", err.text);
        sqlite3_exec(database_handle(db), "PRAGMA journal_mode=MEMORY", NULL, NULL, NULL);
    }
    return database_handle(db);
}

// `orphans`: a query for the number of rows that refer to a row that does not exist.
static inline int fuzz_file_format(const char *option, const char *path, const char *orphans,
                                   const uint8_t *data, size_t size)
{
    const struct file_format *format = file_format_of_option(option);
    sqlite3 *handle = fuzz_database();
    struct file_import in = {.handle = handle, .path = path};
    struct err err = {0};
    file_format_fits(format, "x", data, size);
    fuzz_expect(sql_run(handle, "BEGIN", "begin", &err) == 0, "begin", err.text);
    int r = size ? file_format_import(format, &in, data, size, &err) : -1;
    fuzz_expect(r == 0 || !size || *err.text, option, "it failed without a word");
    fuzz_expect(r < 0 || sql_number(handle, orphans, -1) == 0, option, "rows name missing rows");
    fuzz_expect(!in.n_bad || (in.first_bad && *in.first_why), option, "a bad line without a name");
    fuzz_expect(sql_run(handle, "ROLLBACK", "rollback", &err) == 0, "rollback", err.text);
    return 0;
}
