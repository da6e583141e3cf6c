// SPDX-License-Identifier: Apache-2.0
//
// All files of a format are imported together. If the tables of the format have no rows, the new
// rows bypass SQLite (bulk.h).
#include "converter/cli/conversion_rest.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/say.h"
#include "converter/symbols/perf_map_frames.h"
#include "converter/symbols/symbolize.h"
#include "converter/tables/bulk.h"
#include "converter/tables/indexes.h"
#include "converter/tables/pages.h"
#include "converter/tables/statement.h"

DEFINE_CLEANUP(bulk_freep, struct bulk, bulk_free);

struct waiting {
    struct run *run;
    const struct content *content;
    sqlite3 *handle; // NULL: the rows bypass SQLite
    struct bulk *bulk;
    enum budget_limit stopped;
};

// Counts the pages of the database: the file lacks pages that SQLite still has in memory.
static void rows_count(struct run *run, sqlite3 *handle)
{
    int failure = 0;
    int64_t n_pages = sql_number_or_failure(handle, "PRAGMA page_count", 0, &failure);
    uint64_t size = (uint64_t)n_pages * PAGE_BYTES;
    if (size > run->n_counted) {
        budget_note(&run->budget, size - run->n_counted);
        run->n_counted = size;
    }
}

// Importers call this function from time to time. They do not need again the bytes that they have
// read.
static bool waiting_goes_on(void *userdata)
{
    struct waiting *waiting = userdata;
    input_forget(waiting->content->input);
    if (waiting->handle)
        rows_count(waiting->run, waiting->handle);
    if (waiting->bulk && budget_is_tight(&waiting->run->budget))
        bulk_settle(waiting->bulk);
    if (!waiting->stopped)
        waiting->stopped = budget_check(&waiting->run->budget, BUDGET_ROWS);
    return !waiting->stopped && run_goes_on(waiting->run);
}

__attribute__((format(printf, 2, 3))) static void note(struct strbuf *notes, const char *format,
                                                       ...)
{
    char *text;
    va_list values;
    va_start(values, format);
    int n = vasprintf(&text, format, values);
    va_end(values);
    notes->failed |= n < 0;
    if (n < 0)
        return;
    strbuf_add(notes, text, (size_t)n + 1);
    free(text);
}

static int waiting_import(struct run *run, sqlite3 *handle, struct bulk *bulk,
                          const struct content *content, struct strbuf *notes)
{
    struct waiting waiting = {
        .run = run, .content = content, .handle = bulk ? NULL : handle, .bulk = bulk};
    struct file_import in = {
        .handle = handle,
        .bulk = bulk,
        .path = content->name,
        .argument = content->argument,
        .goes_on = waiting_goes_on,
        .userdata = &waiting,
    };
    const char *damage = input_damage(content->input);
    size_t size = input_size(content->input);
    if (!size)
        return content_is_empty(run, content);
    char text[96];
    if (!waiting_goes_on(&waiting) && waiting.stopped) {
        note(notes, "%s: %s; left out", content->name,
             budget_text(&run->budget, waiting.stopped, text, sizeof(text)));
        run_is_cut(run);
        return 0;
    }
    int r = file_format_import(content->format, &in, input_bytes(content->input), size, run->err);
    if (r == -ECANCELED && waiting.stopped) {
        note(notes, "%s: %s; converted what could be read", content->name,
             budget_text(&run->budget, waiting.stopped, text, sizeof(text)));
        r = 0;
    }
    if (r < 0)
        return r;
    if (waiting.stopped || input_stopped(content->input))
        run_is_cut(run);
    if (damage)
        note(notes, "%s: %s; converted what could be read", content->name, damage);
    char in_all[64] = "";
    if (in.n_bad > 1)
        snprintf(in_all, sizeof(in_all), "; %" PRIu64 " lines are wrong in all", in.n_bad);
    if (in.n_bad)
        note(notes, "%s: line %" PRIu64 ": %s%s; the rest is loaded", content->name, in.first_bad,
             in.first_why, in_all);
    return 0;
}

// Prints the notes. A NUL separates the notes, because names can have any other byte.
static int notes_print(struct run *run, const struct strbuf *notes)
{
    run->result.is_partial |= notes->size > 0;
    for (size_t at = 0; at < notes->size; at += strlen(notes->text + at) + 1)
        say("%s", notes->text + at);
    return notes->failed ? err_errno(run->err, -ENOMEM, "database") : 0;
}

// Returns true if a file before this index has the same format.
static bool format_was_seen(const struct run *run, size_t before)
{
    for (size_t i = 0; i < before; i++)
        if (run->waiting.items[i].format == run->waiting.items[before].format)
            return true;
    return false;
}

// Imports all files of a format and bypasses SQLite, if the tables of the format have no rows yet.
// Sets *ret to true if the files are imported.
static int bulk_try(struct run *run, sqlite3 *handle, const struct file_format *format,
                    struct strbuf *notes, bool *ret)
{
    CLEANUP(bulk_freep) struct bulk *bulk = NULL;
    *run->err = (struct err){0};
    int r = format->n_tables
                ? bulk_open(handle, format->tables, format->n_tables, &run->budget, run->err, &bulk)
                : 0;
    for (size_t i = 0; i < run->waiting.n && bulk && r == 0; i++)
        if (run->waiting.items[i].format == format)
            r = waiting_import(run, handle, bulk, &run->waiting.items[i], notes);
    if (r == 0 && bulk)
        r = bulk_finish(bulk, run->err);
    for (size_t i = 0; i < format->n_tables && bulk && r == 0; i++)
        run->n_rows += (uint64_t)bulk_next_id(bulk, format->tables[i]); // ids begin with 0
    if (r == 0)
        *ret = bulk != NULL;
    return r;
}

// Imports all files of a format with bulk_try(), as the budget allows. Sets *ret to true if the
// files are imported, or left out for lack of room.
static int bulk_import(struct run *run, sqlite3 *handle, const struct file_format *format,
                       bool *ret)
{
    CLEANUP(strbuf_done) struct strbuf notes = {0};
    int r;
    budget_begin(&run->budget);
    do {
        strbuf_clear(&notes);
        r = bulk_try(run, handle, format, &notes, ret);
        budget_give(&run->budget, run->budget.output - run->budget.before);
        run_count(run);
    } while (r < 0 && budget_narrow(&run->budget, r));
    if (r == -EDQUOT) {
        char text[96];
        err_set(run->err, r, "%s: %s", format->name,
                budget_text(&run->budget, BUDGET_OUTPUT, text, sizeof(text)));
        *ret = true; // there is no room for rows of statements either
        return run_leave_out(run);
    }
    return r < 0 ? r : notes_print(run, &notes);
}

static int rows_import(struct run *run, sqlite3 *handle, const struct file_format *format)
{
    CLEANUP(strbuf_done) struct strbuf notes = {0};
    int r = sql_run(handle, "BEGIN", run->conversion->output, run->err);
    for (size_t i = 0; i < run->waiting.n && r == 0; i++)
        if (run->waiting.items[i].format == format)
            r = waiting_import(run, handle, NULL, &run->waiting.items[i], &notes);
    if (r == 0)
        r = sql_run(handle, "COMMIT", run->conversion->output, run->err);
    run_count(run);
    return r < 0 ? r : notes_print(run, &notes);
}

static int files_import(struct run *run, sqlite3 *handle)
{
    int r = 0;
    for (size_t i = 0; i < run->waiting.n && r == 0; i++) {
        const struct file_format *format = run->waiting.items[i].format;
        bool through = false;
        run->n_bytes += input_size(run->waiting.items[i].input);
        if (format_was_seen(run, i))
            continue;
        r = bulk_import(run, handle, format, &through);
        if (r == 0 && !through)
            r = rows_import(run, handle, format);
    }
    return r;
}

int run_import_rest(struct run *run)
{
    const struct conversion *conversion = run->conversion;
    if (!run->waiting.n && !run->has_maps && !conversion->append && !conversion->symbolize &&
        run->n_traces < 2)
        return 0;
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    int r = run_handle_open(run, run->working, &handle);
    if (r == 0)
        r = files_import(run, handle);
    if (r == 0)
        run->n_rows += (uint64_t)sqlite3_total_changes(handle);
    if (r == 0 && conversion->symbolize)
        r = symbolize(handle, conversion->symbols.items, conversion->symbols.n, run_goes_on, run,
                      run->err);
    if (r == 0)
        r = sql_run(handle, "BEGIN", run->conversion->output, run->err);
    if (r == 0)
        r = perf_map_frames_name(handle, run->err);
    if (r == 0)
        r = sql_run(handle, "COMMIT", run->conversion->output, run->err);
    if (r == 0)
        r = sql_run(handle, analyze_sql, run->conversion->output, run->err);
    return r;
}
