// SPDX-License-Identifier: Apache-2.0
//
// The conversion writes one working file in a folder beside the output, and renames the file at the
// end. The first trace of a new database is written there directly. Each further trace is converted
// into a separate file and joined. Other files are added last, because they refer to processes and
// frames. The conversion does not touch the old database: if the process is killed, the old
// database is unchanged.
//
// Nothing is loaded twice (sources.h): a file whose bytes are in the database is not converted, and
// a converted trace whose recording is in the database is not joined. If no file is left, the old
// database stays.
#include "converter/cli/conversion.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/sandbox.h"
#include "common/str.h"
#include "converter/cli/conversion_base.h"
#include "converter/cli/conversion_inputs.h"
#include "converter/cli/conversion_rest.h"
#include "converter/cli/conversion_run.h"
#include "converter/cli/say.h"
#include "converter/perfetto_sql/compat.h"
#include "converter/perfetto_sql/stored_modules.h"
#include "converter/tables/database.h"
#include "converter/tables/defend.h"

static bool nothing_new(const struct run *run)
{
    const struct conversion *conversion = run->conversion;
    bool changes_old = conversion->symbolize || conversion->compat || conversion->modules.n;
    return conversion->append && run->n_skipped && !changes_old &&
           run->sources.all.n == run->sources.n_stored;
}

// Makes and stores the verdicts, and reads the health of the traces. The database must be complete.
static int traces_judge(struct run *run, sqlite3 *handle)
{
    int r = verdict_make(handle, run->n_judged, &run->verdicts, run->err);
    if (r == 0)
        r = verdict_store(handle, &run->verdicts, run->err);
    vec_foreach(&run->verdicts, verdict)
        if (r == 0)
            r = health_read(handle, verdict->trace_id, &run->health, run->err);
    return r;
}

static int modules_add(struct run *run, sqlite3 *handle)
{
    const struct conversion *conversion = run->conversion;
    CLEANUP(strbuf_done) struct strbuf empty = {0};
    int r = modules_store(handle, conversion->packages, conversion->modules.items,
                          conversion->modules.n, &empty, run->err);
    if (r == 0 && empty.size)
        say("--include %s: nothing to store: there are only functions and macros, which need "
            "'mmsql query'",
            empty.text);
    return r;
}

// Makes the tables answer as trace_processor's, with --compat, or if the old database already
// answers in this way.
static int compat_make(struct run *run, sqlite3 *handle)
{
    return run->conversion->compat || compat_is_stored(handle) ? compat_store(handle, run->err) : 0;
}

// Runs the last steps. The steps share a handle, because SQLite reads the whole schema for each
// handle.
static int database_complete(struct run *run)
{
    const struct conversion *conversion = run->conversion;
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    int r = run_handle_open(run, run->working, &handle);
    if (r == 0)
        r = sources_write(&run->sources, handle, run->err);
    if (r == 0)
        r = traces_judge(run, handle);
    if (r == 0 && (conversion->compat || run->has_base))
        r = compat_make(run, handle);
    if (r == 0 && conversion->modules.n)
        r = modules_add(run, handle);
    return r;
}

static int everything_convert(struct run *run)
{
    const struct conversion *conversion = run->conversion;
    int r = conversion->opened ? 0 : database_target_check(conversion->output, run->err);
    if (r == 0 && !conversion->opened)
        r = run_settle_journals(run);
    if (r == 0)
        r = working_folder_make(conversion->output, run->err, &run->beside);
    if (r == 0)
        r = working_file_make(&run->beside, "database", run->err, &run->working);
    if (r == 0 && conversion->append && file_size(conversion->output))
        r = run_copy_base(run);
    for (size_t i = 0; i < conversion->files.n && r == 0; i++)
        r = run_take_file(run, &conversion->files.items[i]);
    run->unchanged = r == 0 && nothing_new(run);
    if (r < 0 || run->unchanged)
        return r;
    if (!run->has_base)
        r = run_make_base(run);
    if (r == 0)
        r = run_import_rest(run);
    return r < 0 ? r : database_complete(run);
}

// Opens the working file before its name is removed.
static int working_open(struct run *run, struct sqlite3 **ret)
{
    int code = handle_open_reading(run->working, ret);
    return code == SQLITE_OK ? 0
                             : err_set(run->err, -EIO, "%s: %s", err_name(run->conversion->output),
                                       sqlite3_errmsg(*ret));
}

static void summary_print(const struct run *run, nsec_t took)
{
    const struct conversion *conversion = run->conversion;
    const char *shown = conversion->shown ? conversion->shown : conversion->output;
    char name[PATH_MAX];
    fprintf(stderr, "%s: %" PRIu64 " packets (%.1f MB) -> %" PRIu64 " rows (%.1f MB) in %.2f s\n",
            str_printable(name, sizeof(name), shown, strlen(shown)), run->n_packets,
            (double)run->n_bytes / 1e6, run->n_rows, (double)file_size(conversion->output) / 1e6,
            (double)took / (double)NSEC_PER_SEC);
    verdicts_print(stderr, &run->verdicts, "  ", VERDICT_WITHOUT_LOSS | VERDICT_WITHOUT_EMPTY);
    health_print(&run->verdicts, &run->health, true);
}

// Sets the kernel's limit of data. Reading stops before the budget's limit. Memory that grows
// between two checks of the budget meets the kernel's limit, and the conversion fails. *ret_before:
// the limit to restore for statements and for the prompt's pager.
static void memory_bound(const struct budget *budget, struct rlimit *ret_before)
{
#ifdef M_ARENA_MAX
    // A second arena takes 64 MiB of a limited address space at once.
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
#endif
    getrlimit(RLIMIT_DATA, ret_before);
    if (budget->memory_max < UINT64_MAX - BUDGET_MEMORY_OWN)
        sandbox_data(budget->memory_max + BUDGET_MEMORY_OWN);
}

// Names a resource limit as the likely cause of -ENOMEM, because a limit is easy to overlook.
static void memory_hint(const struct budget *budget, int r, struct err *err)
{
    struct rlimit space, data;
    if (r != -ENOMEM || !err || *err->hint || getrlimit(RLIMIT_AS, &space) < 0 ||
        getrlimit(RLIMIT_DATA, &data) < 0)
        return;
    if (space.rlim_cur != RLIM_INFINITY)
        err_hint(err, r,
                 "the address space is limited to %llu MiB, ulimit -v; most traces need at most 64 "
                 "MiB and four times their inflated size",
                 (unsigned long long)space.rlim_cur >> 20);
    else if (data.rlim_cur == budget->memory_max + BUDGET_MEMORY_OWN)
        err_hint(err, r, "--max-memory, %" PRIu64 " MiB, is reached: give more",
                 budget->memory_max >> 20);
    else if (data.rlim_cur != RLIM_INFINITY)
        err_hint(err, r, "the data of a process are limited to %llu MiB, ulimit -d",
                 (unsigned long long)data.rlim_cur >> 20);
}

int conversion_run(const struct conversion *conversion, struct conversion_result *ret,
                   struct err *err)
{
    struct run run = {
        .conversion = conversion, .folder = folder_of(conversion->output), .err = err};
    run.progress_shown = !conversion->quiet && isatty(STDERR_FILENO);
    nsec_t start = nsec_now(CLOCK_MONOTONIC);
    budget_open(&run.budget, conversion->limits.memory, conversion->limits.output, run.folder);
    struct rlimit data_before;
    memory_bound(&run.budget, &data_before);
    int r = everything_convert(&run);
    run_progress_wipe(&run);
    if (r == 0 && conversion->opened)
        r = working_open(&run, conversion->opened);
    else if (r == 0 && !run.unchanged)
        r = working_file_publish(run.working, conversion->output, conversion->append, err);
    if (r == 0 && conversion->kept) {
        *conversion->kept = run.beside;
        run.beside = (struct working_folder){.fd = -1};
    }
    working_folder_remove(&run.beside);
    if (r == -ECANCELED)
        err_set(err, r, "interrupted; nothing was written");
    memory_hint(&run.budget, r, err);
    setrlimit(RLIMIT_DATA, &data_before);
    budget_close(&run.budget);
    if (run.unchanged)
        say("%s: unchanged, because all files were left out",
            conversion->shown ? conversion->shown : conversion->output);
    else if (r == 0 && !conversion->quiet)
        summary_print(&run, nsec_now(CLOCK_MONOTONIC) - start);
    *ret = run.result;
    vec_foreach(&run.waiting, content)
        content_done(content);
    content_vec_done(&run.waiting);
    sources_done(&run.sources);
    verdicts_done(&run.verdicts);
    health_lines_done(&run.health);
    free(run.folder);
    free(run.working);
    return r;
}
