// SPDX-License-Identifier: Apache-2.0
//
// Functions for all steps of a conversion: progress, handles, the list of loaded files.
#include "converter/cli/conversion_run.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/str.h"
#include "converter/cli/say.h"
#include "converter/input/content_hash.h"
#include "converter/tables/defend.h"

#define PROGRESS_PERIOD (100 * NSEC_PER_MSEC)
#define PROGRESS_WIDTH  40
#define WATCH_STEPS     100000

void run_handle_closep(sqlite3 **handle)
{
    sqlite3_close(*handle);
}

void run_is_cut(struct run *run)
{
    run->result = (struct conversion_result){.is_partial = true, .is_cut = true};
}

bool run_goes_on(void *userdata)
{
    const struct run *run = userdata;
    return !run->conversion->goes_on || run->conversion->goes_on(run->conversion->userdata);
}

bool run_progress_show(void *userdata, double done)
{
    struct run *run = userdata;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (run->progress_shown && now >= run->progress_next) {
        static const char full[PROGRESS_WIDTH + 1] = "########################################";
        double share = done < 0 ? 0 : done > 1 ? 1 : done;
        int n = (int)(share * PROGRESS_WIDTH);
        fprintf(stderr, "\rconverting [%.*s%*s] %3.0f %%", n, full, PROGRESS_WIDTH - n, "",
                share * 100);
        run->progress_next = now + PROGRESS_PERIOD;
    }
    return run_goes_on(run);
}

void run_progress_wipe(struct run *run)
{
    if (run->progress_next)
        fprintf(stderr, "\r\033[K");
    run->progress_next = 0;
}

static int watch_stops(void *userdata)
{
    return !run_goes_on(userdata);
}

int run_handle_open(struct run *run, const char *path, sqlite3 **ret)
{
    sqlite3 *handle = NULL;
    int code = handle_open_written(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, &handle);
    if (code == SQLITE_OK)
        code = sqlite3_exec(handle,
                            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA "
                            "cache_size=-16384; PRAGMA temp_store=FILE",
                            NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = handle_defend_written(handle);
    if (code != SQLITE_OK) {
        int r = err_set(run->err, -EIO, "%s: %s", err_name(run->conversion->output),
                        sqlite3_errmsg(handle));
        sqlite3_close(handle);
        return r;
    }
    sqlite3_progress_handler(handle, WATCH_STEPS, watch_stops, run);
    *ret = handle;
    return 0;
}

void run_count(struct run *run)
{
    uint64_t size = file_size(run->working);
    if (size > run->n_counted)
        budget_note(&run->budget, size - run->n_counted);
    else
        budget_give(&run->budget, run->n_counted - size);
    run->n_counted = size;
}

struct source source_of(const char *name, const struct input *input,
                        const struct file_format *format, const char *argument)
{
    return (struct source){
        .path = (char *)(uintptr_t)name,
        .format = (char *)(uintptr_t)(format ? format->name : SOURCE_TRACE),
        .argument = (char *)(uintptr_t)argument,
        .size_bytes = input_size(input),
        .hash = content_hash(input),
        .trace_id = -1,
    };
}

void run_skip(struct run *run, const char *name, const char *why)
{
    run_progress_wipe(run);
    say("%s: left out, %s", name, why);
    run->n_skipped++;
}

bool run_skips(struct run *run, const struct source *source, const struct file_format *format)
{
    const struct source *same = sources_find(&run->sources, source, format);
    CLEANUP(strbuf_done) struct strbuf why = {0};
    if (!same)
        return false;
    bool is_stored = (size_t)(same - run->sources.all.items) < run->sources.n_stored;
    if (str_eq(same->path, source->path))
        strbuf_addf(&why, is_stored ? "the database has it already" : "given twice");
    else
        strbuf_addf(&why, "%s has the same content%s", same->path,
                    is_stored ? ", and the database has that already" : "");
    run_skip(run, source->path, why.text ? why.text : "a repetition");
    return true;
}

int run_taken(struct run *run, const struct source *source)
{
    int r = sources_add(&run->sources, source);
    return r < 0 ? err_errno(run->err, r, "%s", source->path) : 0;
}

int content_is_empty(struct run *run, const struct content *content)
{
    const char *damage = input_damage(content->input);
    bool is_stream = str_eq(content->name, STDIN_NAME);
    return err_set(run->err, damage ? -EINVAL : -ENODATA, "%s: %s", content->name,
                   damage      ? damage
                   : is_stream ? "empty"
                               : "the file is empty");
}

void content_done(struct content *content)
{
    free(content->name);
    input_free(content->input);
}

int run_leave_out(struct run *run)
{
    run_progress_wipe(run);
    say("%s; left out", run->err->text);
    *run->err = (struct err){0};
    run_is_cut(run);
    return 0;
}
