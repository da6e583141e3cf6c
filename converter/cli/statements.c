// SPDX-License-Identifier: Apache-2.0
//
// Statements are run one after the other, and the first that fails ends it: what follows may build
// upon it.
#include "converter/cli/statements.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/nsec.h"
#include "converter/cli/cli.h"
#include "converter/cli/dialect.h"

// The line of SQL that an error is in, with a caret under the place.
static void sql_error_print(sqlite3 *handle, const char *sql, const char *statement)
{
    int offset = -1;
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(handle);
#endif
    fprintf(stderr, "mmsql: %s\n", sqlite3_errmsg(handle));
    if (offset < 0)
        return;
    const char *at = statement + offset, *line = at;
    while (line > sql && line[-1] != '\n')
        line--;
    int number = 1;
    for (const char *c = sql; c < line; c++)
        number += *c == '\n';
    int prefix = fprintf(stderr, "  line %d: ", number);
    fprintf(stderr, "%.*s\n%*s^\n", (int)strcspn(line, "\n"), line, prefix + (int)(at - line), "");
}

int statements_run(struct sqlite3 *handle, const char *sql, const struct result_form *form,
                   bool timing)
{
    const char *rest = sql;
    while (*rest && !ferror(stdout)) {
        sqlite3_stmt *statement = NULL;
        const char *begin = rest;
        nsec_t start = nsec_now(CLOCK_MONOTONIC);
        int dialect = dialect_run(handle, &rest);
        if (dialect < 0)
            return EXIT_FAILED;
        if (dialect > 0)
            continue;
        int code = sqlite3_prepare_v2(handle, rest, -1, &statement, &rest);
        if (code != SQLITE_OK) {
            sql_error_print(handle, sql, begin);
            return EXIT_FAILED;
        }
        if (!statement) // blanks or a comment
            continue;
        if (!sqlite3_column_count(statement))
            code = sqlite3_step(statement);
        else
            code = result_print(statement, form);
        sqlite3_finalize(statement);
        if (code != SQLITE_DONE) {
            fprintf(stderr, "mmsql: %s\n",
                    code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(handle));
            return EXIT_FAILED;
        }
        if (timing) {
            fflush(stdout);
            fprintf(form->begin ? stdout : stderr, "%.3f s\n",
                    (double)(nsec_now(CLOCK_MONOTONIC) - start) / (double)NSEC_PER_SEC);
        }
    }
    if ((fflush(stdout) == 0 && !ferror(stdout)) || form->begin) // a pager may go when it likes
        return EXIT_DONE;
    fprintf(stderr, "mmsql: standard output: %s\n", strerror(errno));
    return EXIT_FAILED;
}
