// SPDX-License-Identifier: Apache-2.0
//
// Statements run one after the other. The first error ends the run, because later statements may
// depend on the failed statement.
#include "converter/cli/statements.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/say.h"
#include "converter/functions/functions.h"
#include "converter/ground/spill.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/token.h"

static bool more_follows(const struct sql_text *text, size_t at)
{
    const char *end = text->sql + text->size, *rest = text->sql + at;
    while ((rest = sql_blanks_skip(rest, end)) < end && *rest == ';')
        rest++;
    return rest < end;
}

// VACUUM is the only statement that can write a named file although the database is open for
// reading.
static bool is_vacuum(const char *sql)
{
    static const char mark[] = "\xef\xbb\xbf", word[] = "VACUUM"; // SQLite skips the mark
    const char *at = sql, *before, *end = sql + strlen(sql);
    do {
        before = at;
        at = sql_blanks_skip(at, end);
        at += *at == ';' ? 1 : str_starts_with(at, mark) ? strlen(mark) : 0;
    } while (at != before);
    return strncasecmp(at, word, strlen(word)) == 0;
}

// Prints the message, and each place on a separate line.
static void error_print(const char *text)
{
    size_t n = strcspn(text, "\n");
    say("%.*s", (int)n, text);
    CLEANUP(freep) char *places = text[n] ? strdup(text + n + 1) : NULL;
    if (places)
        str_make_printable(places, true);
    if (places)
        fprintf(stderr, "%s\n", places);
}

// Runs plain SQL. Returns 0 or -1; an error is printed to stderr.
static int statement_run(struct sql_engine *engine, sqlite3_stmt *statement,
                         struct result_sets *sets, bool more)
{
    int code = SQLITE_ROW;
    if (is_vacuum(sqlite3_sql(statement))) {
        sqlite3_finalize(statement);
        say("VACUUM: a query writes no files ('mmsql convert FILE -o DB' makes a database, cp "
            "copies one)");
        return -1;
    }
    bool has_rows = sqlite3_column_count(statement) && !sql_is_silent(statement);
    if (has_rows && sets->single && more) {
        sqlite3_finalize(statement);
        say("one answer at a time: the statement that asks for rows must be the last");
        return -1;
    }
    if (has_rows)
        code = result_sets_print(sets, statement, more);
    else
        while (code == SQLITE_ROW)
            code = sqlite3_step(statement);
    int why = errno;
    if (code != SQLITE_DONE && !sets->failed)
        sql_engine_step_failed(engine);
    sqlite3_finalize(statement);
    if (code == SQLITE_DONE)
        return 0;
    if (sets->failed)
        say("temporary file in %s: %s (TMPDIR names another folder)", temporary_folder(NULL),
            strerror(why));
    else if (code == SQLITE_NOMEM)
        say("out of memory");
    else
        error_print(sql_engine_error(engine));
    return -1;
}

static int all_run(struct sql_engine *engine, const struct sql_text *text, struct result_sets *sets,
                   bool timing)
{
    size_t at = 0;
    while (!ferror(result_output(sets->form))) {
        nsec_t start = nsec_now(CLOCK_MONOTONIC);
        sqlite3_stmt *statement = NULL;
        int r = sql_engine_next(engine, text, &at, &statement);
        if (r < 0)
            error_print(sql_engine_error(engine));
        if (r <= 0)
            return r < 0 ? EXIT_FAILED : EXIT_DONE;
        if (!statement)
            continue;
        if (statement_run(engine, statement, sets, more_follows(text, at)) < 0)
            return EXIT_FAILED;
        if (timing) {
            fflush(stdout);
            fprintf(sets->form->begin ? stdout : stderr, "%.3f s\n",
                    (double)(nsec_now(CLOCK_MONOTONIC) - start) / (double)NSEC_PER_SEC);
        }
    }
    return EXIT_DONE;
}

int statements_run(struct sql_engine *engine, const char *name, const char *sql,
                   struct result_sets *sets, bool timing)
{
    const struct sql_text *text = sql_engine_text(engine, name, sql);
    if (!text)
        say("out of memory");
    int code = text ? all_run(engine, text, sets, timing) : EXIT_FAILED;
    result_sets_finish(sets);
    if (code != EXIT_DONE || (fflush(stdout) == 0 && !ferror(stdout)) ||
        sets->form->out || // the caller flushes `out`
        sets->form->begin) // the user may end the pager at any time
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
