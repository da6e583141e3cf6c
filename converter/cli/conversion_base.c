// SPDX-License-Identifier: Apache-2.0
//
// The old database is never changed: --append adds to a copy.
#include "converter/cli/conversion_base.h"

#include <errno.h>
#include <sqlite3.h>

#include "common/cleanup.h"
#include "converter/tables/database.h"
#include "converter/tables/defend.h"
#include "converter/tables/join.h"
#include "converter/tables/schema_rows.h"
#include "converter/tables/statement.h"

DEFINE_CLEANUP(database_freep, struct database, database_free);

// Completes a journal of the old database. Otherwise SQLite would apply the journal to the new
// database and destroy the new database. An exclusive transaction completes the journal, unless
// another program uses the database.
int run_settle_journals(struct run *run)
{
    const char *output = run->conversion->output;
    if (!has_journal(output))
        return 0;
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    if (handle_open_written(output, SQLITE_OPEN_READWRITE, &handle) == SQLITE_OK &&
        handle_defend_written(handle) == SQLITE_OK)
        sqlite3_exec(handle, "PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE; COMMIT", NULL, NULL,
                     NULL);
    sqlite3_close(STEAL(handle));
    if (!has_journal(output))
        return 0;
    err_set(run->err, -EBUSY, "%s: in use by another program", output);
    return err_hint(run->err, -EBUSY, "its journal is beside it; close that program first");
}

// Copies the old database with SQLite's backup functions, because SQLite knows which parts of a
// journal are valid.
int run_copy_base(struct run *run)
{
    const char *output = run->conversion->output;
    if (!run->budget.is_room && !budget_fits(&run->budget, file_size(output))) {
        char text[96];
        err_set(run->err, -EDQUOT, "%s: %s by the size of the old database", output,
                budget_text(&run->budget, BUDGET_OUTPUT, text, sizeof(text)));
        return err_hint(run->err, -EDQUOT, "give more");
    }
    CLEANUP(run_handle_closep) sqlite3 *from = NULL;
    CLEANUP(run_handle_closep) sqlite3 *to = NULL;
    // Opened for writing: a read-only handle would leave the -wal and -shm files of a database in
    // WAL mode.
    int code = handle_open_written(output, SQLITE_OPEN_READWRITE, &from);
    if (code == SQLITE_OK)
        code = handle_defend_written(from);
    if (code == SQLITE_OK)
        code = handle_open_written(run->working, SQLITE_OPEN_READWRITE, &to);
    if (code == SQLITE_OK)
        code =
            sqlite3_exec(to, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = handle_defend_written(to);
    sqlite3_backup *backup =
        code == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
    while (backup && (code = sqlite3_backup_step(backup, 4096)) == SQLITE_OK)
        if (!run_goes_on(run)) {
            sqlite3_backup_finish(backup);
            return -ECANCELED;
        }
    sqlite3_backup_finish(backup);
    if (code != SQLITE_DONE)
        return err_set(run->err, -EIO, "%s: %s", output,
                       from ? sqlite3_errmsg(backup ? to : from) : "cannot be opened");
    // The copy leaves WAL mode, because a reader of a WAL database must write beside the file.
    sqlite3_exec(to, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
    run->has_base = true;
    run_count(run);
    int r = 0;
    run->n_traces = sql_number_or_failure(to, "SELECT max(id) + 1 FROM trace", 0, &r);
    run->n_judged = run->n_traces;
    r = r < 0 ? err_errno(run->err, r, "%s", output) : database_same_schema(to, output, run->err);
    return r < 0 ? r : sources_load(&run->sources, to, run->err);
}

int run_make_base(struct run *run)
{
    CLEANUP(database_freep) struct database *db = NULL;
    int r = database_create(run->working, run->err, &db);
    if (r == 0)
        schema_rows_write(db);
    if (r == 0)
        r = database_finish(db, NULL, NULL, run->err);
    if (r < 0)
        return r;
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    r = run_handle_open(run, run->working, &handle);
    run_count(run);
    return r < 0 ? r
                 : sql_run(handle, "INSERT INTO trace_bounds VALUES(0, 0)", run->conversion->output,
                           run->err);
}
