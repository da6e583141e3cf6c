// SPDX-License-Identifier: Apache-2.0
//
// Statements run one after the other. The first error ends the run, because later statements may
// depend on the failed statement.
#include "converter/cli/statements.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/nsec.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/dialect.h"
#include "converter/cli/say.h"
#include "converter/functions/functions.h"
#include "converter/ground/spill.h"

// Prints SQLite's error, and the line of SQL with a caret under the place.
static void sql_error_print(sqlite3 *handle, const char *sql, const char *statement)
{
    int offset = -1;
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(handle);
#endif
    say("%s", sqlite3_errmsg(handle));
    // The offset of an error in a view refers to the view's text.
    if (offset < 0 || (size_t)offset > strlen(statement))
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

static bool more_follows(const char *rest)
{
    while (*(rest = sql_blanks_skip(rest)) == ';')
        rest++;
    return *rest;
}

// True for VACUUM: only this statement writes a named file although the database is read-only.
static bool is_vacuum(const char *statement)
{
    static const char mark[] = "\xef\xbb\xbf", word[] = "VACUUM"; // SQLite takes the mark for blank
    const char *at = statement, *before;
    do {
        before = at;
        at = sql_blanks_skip(at);
        at += *at == ';' ? 1 : str_starts_with(at, mark) ? strlen(mark) : 0;
    } while (at != before);
    return strncasecmp(at, word, strlen(word)) == 0;
}

// Runs the plain SQL at *rest. Returns 1; 0 if only blanks are left; -1 after an error, which is
// printed to stderr.
static int statement_run(sqlite3 *handle, const char *sql, const char **rest,
                         struct result_sets *sets)
{
    sqlite3_stmt *statement = NULL;
    const char *begin = *rest;
    int code = sqlite3_prepare_v2(handle, begin, -1, &statement, rest);
    if (code != SQLITE_OK) {
        sql_error_print(handle, sql, begin);
        return -1;
    }
    if (!statement)
        return 0;
    if (is_vacuum(begin)) {
        sqlite3_finalize(statement);
        say("VACUUM: a query writes no files ('mmsql convert FILE -o DB' makes a database, cp "
            "copies one)");
        return -1;
    }
    if (!sqlite3_column_count(statement))
        code = sqlite3_step(statement);
    else
        code = result_sets_print(sets, statement, more_follows(*rest));
    int why = errno;
    sqlite3_finalize(statement);
    if (code == SQLITE_DONE)
        return 1;
    if (sets->failed)
        say("temporary file in %s: %s (TMPDIR names another folder)", temporary_folder(NULL),
            strerror(why));
    else
        say("%s", code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(handle));
    return -1;
}

static int all_run(sqlite3 *handle, const char *sql, struct result_sets *sets, bool timing)
{
    const char *rest = sql;
    while (*rest && !ferror(stdout)) {
        nsec_t start = nsec_now(CLOCK_MONOTONIC);
        int r = dialect_run(handle, &rest);
        if (r > 0)
            continue;
        if (r == 0)
            r = statement_run(handle, sql, &rest, sets);
        if (r < 0)
            return EXIT_FAILED;
        if (timing && r > 0) {
            fflush(stdout);
            fprintf(sets->form->begin ? stdout : stderr, "%.3f s\n",
                    (double)(nsec_now(CLOCK_MONOTONIC) - start) / (double)NSEC_PER_SEC);
        }
    }
    return EXIT_DONE;
}

int statements_run(struct sqlite3 *handle, const char *sql, struct result_sets *sets, bool timing)
{
    int code = all_run(handle, sql, sets, timing);
    result_sets_finish(sets);
    if (code != EXIT_DONE || (fflush(stdout) == 0 && !ferror(stdout)) ||
        sets->form->begin) // a pager may end early
        return code;
    say("standard output: %s", strerror(errno));
    return EXIT_FAILED;
}

int functions_print(void)
{
    for (const struct function_doc *doc = function_docs; doc->call; doc++)
        printf("%s\n    %s\n", doc->call, doc->doc);
    return EXIT_DONE;
}
