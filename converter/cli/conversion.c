// SPDX-License-Identifier: Apache-2.0
//
// Everything goes into one working file in a folder beside the output, which takes the output's
// name when all is well. The first trace is written there directly. Others are converted into files
// of their own and joined; what is no trace is added last, because it refers to processes and
// frames. So the old database is never touched, and whoever is killed leaves it as it was.
//
// Nothing is loaded twice (sources.h): bytes that are in the database already are not looked at,
// and a part that turns out to be a recording that is there is not joined. If nothing is left, the
// old database keeps its place.
#include "converter/cli/conversion.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/sandbox.h"
#include "common/str.h"
#include "converter/cli/say.h"
#include "converter/cli/sources.h"
#include "converter/cli/verdict_print.h"
#include "converter/cli/working_file.h"
#include "converter/import/import_trace.h"
#include "converter/input/archive.h"
#include "converter/input/content_hash.h"
#include "converter/input/input.h"
#include "converter/input/recognise.h"
#include "converter/symbols/perf_map_frames.h"
#include "converter/symbols/symbolize.h"
#include "converter/tables/bulk.h"
#include "converter/tables/database.h"
#include "converter/tables/defend.h"
#include "converter/tables/indexes.h"
#include "converter/tables/join.h"
#include "converter/tables/pages.h"
#include "converter/tables/rows.h"

#define PROGRESS_PERIOD (100 * NSEC_PER_MSEC)
#define PROGRESS_WIDTH  40
#define WATCH_STEPS     100000
// Two clocks of one boot differ by what was slewed in between; those of two boots by more.
#define SAME_BOOT_NS (NSEC_PER_SEC / 2)

// Something to import: a file, or what is in an archive.
struct content {
    char *name;          // owned, for people
    struct input *input; // owned
    const struct file_format *format;
    const char *argument;
};
VEC_DEFINE(content_vec, struct content);

struct run {
    const struct conversion *conversion;
    struct budget budget;
    uint64_t n_counted; // bytes of the working file that the budget knows
    char *folder;       // owned
    struct working_folder beside;
    char *working; // owned; the file that becomes the output
    bool has_maps; // a trace had perf maps
    bool has_base; // there is a database in it
    struct content_vec waiting;
    struct sources sources;
    size_t n_skipped; // files that repeat others
    bool unchanged;   // nothing came to the database that is there
    struct conversion_result result;
    uint64_t n_packets, n_bytes, n_rows;
    int64_t n_traces; // in the database
    int64_t n_judged; // of those, the first, which have their verdict already
    struct verdict_vec verdicts;
    struct health_line_vec health;
    struct err *err;
    bool progress_shown;
    nsec_t progress_next;
};

DEFINE_CLEANUP(input_freep, struct input, input_free);
DEFINE_CLEANUP(bulk_freep, struct bulk, bulk_free);
DEFINE_CLEANUP(database_freep, struct database, database_free);

static void handle_closep(sqlite3 **handle)
{
    sqlite3_close(*handle);
}

static void run_is_cut(struct run *run)
{
    run->result = (struct conversion_result){.is_partial = true, .is_cut = true};
}

static bool run_goes_on(void *userdata)
{
    const struct run *run = userdata;
    return !run->conversion->goes_on || run->conversion->goes_on(run->conversion->userdata);
}

static bool progress_show(void *userdata, double done)
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

static void progress_wipe(struct run *run)
{
    if (run->progress_next)
        fprintf(stderr, "\r\033[K");
    run->progress_next = 0;
}

static int watch_stops(void *userdata)
{
    return !run_goes_on(userdata);
}

static int handle_open(struct run *run, const char *path, sqlite3 **ret)
{
    sqlite3 *handle = NULL;
    int code = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
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

static bool journal_is_there(const char *output, const char *suffix)
{
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "%s%s", output, suffix) < 0) {
        path = NULL;
        return true;
    }
    return access(path, F_OK) == 0;
}

// A journal that somebody left beside the old database would be taken for one of the new database
// and destroy it. SQLite brings it to its end, unless another program is at it.
static int journals_settle(struct run *run)
{
    const char *output = run->conversion->output;
    if (!journal_is_there(output, "-wal") && !journal_is_there(output, "-journal"))
        return 0;
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    if (sqlite3_open_v2(output, &handle, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        handle_defend_written(handle) == SQLITE_OK)
        sqlite3_exec(handle, "PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE; COMMIT", NULL, NULL,
                     NULL);
    sqlite3_close(STEAL(handle));
    if (!journal_is_there(output, "-wal") && !journal_is_there(output, "-journal"))
        return 0;
    err_set(run->err, -EBUSY, "%s: in use by another program", output);
    return err_hint(run->err, -EBUSY, "its journal is beside it; close that program first");
}

// SQLite does not ask before it makes the working file longer.
static void working_count(struct run *run)
{
    uint64_t size = file_size(run->working);
    if (size > run->n_counted)
        budget_note(&run->budget, size - run->n_counted);
    else
        budget_give(&run->budget, run->n_counted - size);
    run->n_counted = size;
}

// A copy of the old database, through SQLite, which knows what of a journal counts.
static int base_copy(struct run *run)
{
    const char *output = run->conversion->output;
    if (!run->budget.is_room && !budget_fits(&run->budget, file_size(output))) {
        char text[96];
        err_set(run->err, -EDQUOT, "%s: %s by what it has already", output,
                budget_text(&run->budget, BUDGET_OUTPUT, text, sizeof(text)));
        return err_hint(run->err, -EDQUOT, "give more");
    }
    CLEANUP(handle_closep) sqlite3 *from = NULL;
    CLEANUP(handle_closep) sqlite3 *to = NULL;
    // Not for reading only: a database in WAL mode would keep the files that reading it makes.
    int code = sqlite3_open_v2(output, &from, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK)
        code = handle_defend_written(from);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(run->working, &to, SQLITE_OPEN_READWRITE, NULL);
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
    // Who likes WAL for writing has it no longer: a reader would need to write beside the file.
    sqlite3_exec(to, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
    run->has_base = true;
    working_count(run);
    int r = 0;
    run->n_traces = sql_number_or_failure(to, "SELECT max(id) + 1 FROM trace", 0, &r);
    run->n_judged = run->n_traces;
    r = r < 0 ? err_errno(run->err, r, "%s", output) : database_same_schema(to, output, run->err);
    return r < 0 ? r : sources_load(&run->sources, to, run->err);
}

static void stop_print(struct run *run, const char *trace, const struct input *input,
                       const struct trace_result *result)
{
    char text[96];
    enum budget_limit limit = result->stopped ? result->stopped : result->stopped_late;
    if (!limit)
        return;
    run_is_cut(run);
    budget_text(&run->budget, limit, text, sizeof(text));
    if (result->stopped)
        say("%s: %s: the last %" PRIu64 " of %zu bytes are left out; what was read is converted "
            "(give more, or convert a part)",
            trace, text, input_size(input) - result->stopped_offset, input_size(input));
    if (result->stopped_late)
        say("%s: %s: what comes after %.3f s of the trace's clock is left out; the rest is "
            "converted (give more, or fill fewer tables with --tables)",
            trace, text, (double)result->stopped_ts / (double)NSEC_PER_SEC);
}

static void damage_print(struct run *run, const char *trace, const struct input *input,
                         const struct trace_result *result)
{
    stop_print(run, trace, input, result);
    if (input_damage(input)) {
        say("%s: %s; converted what could be read", trace, input_damage(input));
        run->result.is_partial = true;
        if (input_stopped(input))
            run_is_cut(run);
    }
    if (result->truncated) {
        say("%s: the trace ends or breaks at offset %" PRIu64 ", in packet %" PRIu64
            "; the %" PRIu64 " bytes from there on are left out",
            trace, result->truncated_offset, result->n_packets,
            input_size(input) - result->truncated_offset);
        run->result.is_partial = true;
    }
    if (result->n_damaged) {
        char in_all[64] = "", where[64] = "";
        if (result->first_damage == PROBLEM_MESSAGE_DAMAGED)
            snprintf(where, sizeof(where), " (field %" PRIu32 " of TracePacket)",
                     result->first_damaged_field);
        if (result->n_damaged > 1)
            snprintf(in_all, sizeof(in_all), "; %" PRIu64 " are damaged in all", result->n_damaged);
        say("%s: packet %" PRIu64 " at offset %" PRIu64
            " is damaged: %s%s%s; what could be read is converted",
            trace, result->first_damaged_packet, result->first_damaged_offset,
            trace_problem_text(result->first_damage), where, in_all);
        run->result.is_partial = true;
    }
}

// *ret_rows: how many rows the tables got. -EDQUOT, too: the database is there, and too large.
static int trace_try(struct run *run, const struct content *content, const char *path,
                     const struct id_shifts *shifts, struct trace_result *ret, uint64_t *ret_rows)
{
    CLEANUP(database_freep) struct database *db = NULL;
    *run->err = (struct err){0};
    int r = database_create(path, run->err, &db);
    if (r == 0 && shifts)
        database_shift_ids(db, shifts);
    if (r == 0)
        database_select(db, &run->conversion->selection);
    if (r == 0)
        database_budget(db, &run->budget);
    if (r == 0)
        r = import_trace(db, content->input, run->folder, progress_show, run, run->err, ret);
    progress_wipe(run);
    if (r == 0 && !ret->n_packets) {
        err_set(run->err, -EBADMSG, "%s: not a Perfetto trace", content->name);
        r = err_hint(run->err, -EBADMSG, "it does not begin with a packet");
    }
    if (r == 0)
        r = database_finish(db, run_goes_on, run, run->err);
    uint64_t n_bytes = r == 0 ? database_n_bytes(db) : 0, n_rows = 0;
    bool has_maps = r == 0 && database_n_rows(db, TABLE_perf_map) > 0;
    for (enum table_id table = 0; table < N_TABLES && r == 0; table++)
        n_rows += database_n_rows(db, table);
    db = database_free(db);
    budget_give(&run->budget, run->budget.output - run->budget.before);
    if (r < 0)
        return r;
    // The rows of a part are there twice while it is joined.
    bool is_part = path != run->working;
    budget_note(&run->budget, n_bytes);
    bool fits = budget_fits(&run->budget, is_part ? n_bytes : 0);
    if (!fits) {
        budget_give(&run->budget, n_bytes);
        return err_set(run->err, -EDQUOT, "%s: --max-output is reached", content->name);
    }
    run->n_counted += is_part ? 0 : n_bytes;
    run->has_maps |= has_maps;
    *ret_rows = n_rows;
    return 0;
}

// As much of the trace as there is room for.
static int trace_import(struct run *run, const struct content *content, const char *path,
                        const struct id_shifts *shifts, struct trace_result *ret,
                        uint64_t *ret_rows)
{
    int r;
    budget_begin(&run->budget);
    do
        r = trace_try(run, content, path, shifts, ret, ret_rows);
    while (r < 0 && budget_narrow(&run->budget, r));
    if (r != -EDQUOT)
        return r;
    char text[96];
    err_set(run->err, r, "%s: %s before anything is converted", content->name,
            budget_text(&run->budget, BUDGET_OUTPUT, text, sizeof(text)));
    return err_hint(run->err, r, "give more");
}

// What brings a trace onto the clock of the first one.
static int shift_find(struct run *run, sqlite3 *handle, const char *part, const char *name,
                      int64_t *ret)
{
    CLEANUP(handle_closep) sqlite3 *from = NULL;
    int64_t none = INT64_MIN;
    int failure = 0, r = handle_open(run, part, &from);
    if (r < 0)
        return r;
    int64_t base = sql_number_or_failure(
        handle, "SELECT realtime_offset - ts_shift FROM trace ORDER BY id LIMIT 1", none, &failure);
    int64_t own = sql_number_or_failure(from, "SELECT realtime_offset FROM trace", none, &failure);
    if (failure < 0)
        return err_errno(run->err, failure, "%s", name);
    if (own == none || base == none) {
        err_set(run->err, -EINVAL, "%s: nothing tells its clock from the first trace's", name);
        return err_hint(run->err, -EINVAL,
                        "%s has no reading of the real-time clock; leave out --merge-clocks",
                        own == none ? "it" : "the first trace");
    }
    int64_t shift;
    if (__builtin_sub_overflow(own, base, &shift))
        return err_set(run->err, -ERANGE, "%s: its clock cannot be", name);
    *ret = shift > -SAME_BOOT_NS && shift < SAME_BOOT_NS ? 0 : shift;
    return 0;
}

// -- what is there already --

static struct source source_of(const char *name, const struct input *input,
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

static void skip(struct run *run, const char *name, const char *why)
{
    progress_wipe(run);
    say("%s: left out, %s", name, why);
    run->n_skipped++;
}

// Whether the same is loaded; says so.
static bool source_skips(struct run *run, const struct source *source,
                         const struct file_format *format)
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
    skip(run, source->path, why.text ? why.text : "a repetition");
    return true;
}

static int source_taken(struct run *run, const struct source *source)
{
    int r = sources_add(&run->sources, source);
    return r < 0 ? err_errno(run->err, r, "%s", source->path) : 0;
}

// Whether the part is a recording that is there; says so, or that times overlap.
static int part_skips(struct run *run, const char *part, const char *name, bool *ret)
{
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    CLEANUP(freep) char *text = NULL;
    int r = handle_open(run, run->working, &handle);
    if (r == 0)
        r = trace_compare(handle, part, ret, &text, run->err);
    if (r == 0 && *ret)
        skip(run, name, text);
    else if (r == 0 && text)
        say("%s: %s", name, text);
    return r;
}

// What ids of the next trace grow by.
static int shifts_find(struct run *run, struct id_shifts **ret)
{
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    int r = handle_open(run, run->working, &handle);
    if (r < 0)
        return r;
    *ret = malloc(sizeof(**ret));
    if (!*ret)
        return err_errno(run->err, -ENOMEM, "database");
    r = join_shifts_find(handle, *ret);
    return r < 0 ? err_errno(run->err, r, "database") : 0;
}

static int part_join(struct run *run, const char *part, const char *name)
{
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    struct join join = {.shifted = true, .trace_id = run->n_traces};
    int r = handle_open(run, run->working, &handle);
    if (r == 0 && run->conversion->merge_clocks)
        r = shift_find(run, handle, part, name, &join.ts_shift);
    if (r == 0)
        r = database_join(handle, part, &join, run->err);
    char sql[128];
    snprintf(sql, sizeof(sql), "UPDATE trace SET ts_shift = %" PRId64 " WHERE id = %" PRId64,
             join.ts_shift, join.trace_id);
    return r < 0 ? r : sql_run(handle, sql, name, run->err);
}

static int content_empty(struct run *run, const struct content *content)
{
    const char *damage = input_damage(content->input);
    return err_set(run->err, -EINVAL, "%s: %s", content->name, damage ? damage : "empty");
}

static int trace_convert(struct run *run, const struct content *content, struct source *source)
{
    struct trace_result result = {0};
    uint64_t n_rows = 0;
    CLEANUP(freep) char *part = NULL;
    CLEANUP(freep) struct id_shifts *shifts = NULL;
    bool repeats = false;
    if (!input_size(content->input))
        return content_empty(run, content);
    int r = run->has_base ? working_file_make(&run->beside, "part", run->err, &part) : 0;
    const char *path = part ? part : run->working;
    if (r == 0 && part)
        r = shifts_find(run, &shifts);
    if (r == 0)
        r = trace_import(run, content, path, shifts, &result, &n_rows);
    bool imported = r == 0;
    if (r == 0 && part)
        r = part_skips(run, part, content->name, &repeats);
    if (r == 0 && part && !repeats) {
        r = part_join(run, part, content->name);
        working_count(run);
    }
    if (part && imported)
        budget_give(&run->budget, file_size(part));
    if (part)
        unlink(part);
    if (r < 0 || repeats)
        return r;
    run->has_base = true;
    source->trace_id = run->n_traces++;
    run->n_packets += result.n_packets;
    run->n_rows += n_rows;
    run->n_bytes += input_size(content->input);
    damage_print(run, content->name, content->input, &result);
    return source_taken(run, source);
}

static void content_done(struct content *content)
{
    free(content->name);
    input_free(content->input);
}

// No room is left for a further file; what is there already is kept.
static int left_out_print(struct run *run)
{
    progress_wipe(run);
    say("%s; left out", run->err->text);
    *run->err = (struct err){0};
    run_is_cut(run);
    return 0;
}

// Whether nothing of a further file can be read; says so.
static bool is_used_up(struct run *run, const char *name)
{
    char text[96];
    enum budget_limit limit = budget_check(&run->budget, BUDGET_WALK);
    if (!limit && !budget_fits(&run->budget, run->budget.output_max / 8))
        limit = BUDGET_OUTPUT;
    if (!limit)
        return false;
    say("%s: left out: %s", name, budget_text(&run->budget, limit, text, sizeof(text)));
    run_is_cut(run);
    return true;
}

// Takes over the content: a trace is converted now, other files wait until the traces are through.
static int content_take(struct run *run, struct content content)
{
    const uint8_t *bytes = input_bytes(content.input);
    size_t size = input_size(content.input);
    if (!content.format && size && !trace_recognise(bytes, size))
        content.format = file_format_recognise(content.name, bytes, size);
    struct source source = source_of(content.name, content.input, content.format, content.argument);
    int r = 0;
    if ((run->n_bytes && is_used_up(run, content.name)) ||
        source_skips(run, &source, content.format)) {
        content_done(&content);
        return 0;
    }
    if (content.format) {
        r = source_taken(run, &source);
        if (r == 0)
            r = content_vec_push(&run->waiting, content);
        if (r == 0)
            return 0;
    } else {
        r = trace_convert(run, &content, &source);
        if (r == -EDQUOT && run->has_base)
            r = left_out_print(run);
    }
    content_done(&content);
    return r;
}

// Of an archive, what is sure to be meant: names are believed where contents say little.
static bool archive_wants(const char *name, const uint8_t *head, size_t size)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    if (trace_recognise(head, size))
        return true;
    bool is_gzip = size > 2 && head[0] == 0x1f && head[1] == 0x8b;
    if (is_gzip && (strstr(last, "trace") || strstr(last, ".pb")))
        return true;
    const struct file_format *format = file_format_recognise(name, head, size);
    if (!format || format->of_moment || str_eq(format->option, "alloc-log"))
        return format != NULL;
    return str_starts_with(last, "perf-") || str_starts_with(last, "pin");
}

static struct input_needs needs_of(struct run *run)
{
    return (struct input_needs){.spill_folder = run->folder,
                                .budget = &run->budget,
                                .goes_on = run_goes_on,
                                .userdata = run};
}

static void left_out_tell(struct run *run, const struct archive_left_out *left_out)
{
    for (size_t i = 0; i < LEFT_OUT_TEXTS && left_out->texts[i]; i++)
        say("%s; left out", left_out->texts[i]);
    if (left_out->n > LEFT_OUT_TEXTS)
        say("and %zu further files in it; left out", left_out->n - LEFT_OUT_TEXTS);
    run->result.is_partial |= left_out->damaged;
    run->result.is_cut |= left_out->is_cut;
}

static int archive_take(struct run *run, struct input *archive, const struct conversion_file *file,
                        const char *name)
{
    CLEANUP(archive_files_free) struct archive_files files = {0};
    struct source source = source_of(name, archive, NULL, NULL);
    source.format = (char *)(uintptr_t)SOURCE_ARCHIVE;
    if (source_skips(run, &source, NULL))
        return 0;
    CLEANUP(archive_left_out_free) struct archive_left_out left_out = {0};
    const struct input_needs needs = needs_of(run);
    int r = archive_read(archive, name, &needs, archive_wants, run->err, &files, &left_out);
    if (r == -EDQUOT && run->n_bytes)
        return left_out_print(run);
    if (r == 0)
        left_out_tell(run, &left_out);
    size_t n_taken = 0;
    vec_foreach(&files, entry) {
        struct content content = {.input = STEAL(entry->input), .argument = file->argument};
        if (r == 0 && asprintf(&content.name, "%s!%s", name, entry->name) < 0) {
            content.name = NULL;
            r = err_errno(run->err, -ENOMEM, "%s", name);
        }
        if (r == 0)
            r = input_set_name(content.input, content.name);
        if (r == 0)
            r = content_take(run, content);
        else
            content_done(&content);
        n_taken += r == 0;
        if (r == -EBADMSG &&
            (n_taken || entry + 1 < files.items + files.n)) { // the others may be good
            say(*run->err->hint ? "%s (%s); left out" : "%s; left out", run->err->text,
                run->err->hint);
            run->result.is_partial = true;
            r = 0;
        }
    }
    return r < 0 ? r : source_taken(run, &source);
}

static int file_take(struct run *run, const struct conversion_file *file)
{
    CLEANUP(input_freep) struct input *input = NULL;
    const char *name = str_eq(file->path, "-") ? "standard input" : file->path;
    const struct input_needs needs = needs_of(run);
    budget_begin(&run->budget);
    int r = input_open(file->path, &needs, run->err, &input);
    if (r == -EDQUOT && run->n_bytes)
        return left_out_print(run);
    if (r < 0)
        return r;
    if (!file->format && archive_recognise(input))
        return archive_take(run, input, file, name);
    struct content content = {
        .name = strdup(name),
        .input = STEAL(input),
        .format = file->format,
        .argument = file->argument,
    };
    if (content.name)
        return content_take(run, content);
    content_done(&content);
    return err_errno(run->err, -ENOMEM, "%s", name);
}

struct waiting {
    struct run *run;
    const struct content *content;
    sqlite3 *handle; // NULL: the rows go past SQLite
    enum budget_limit stopped;
};

// SQLite has pages in memory that the file will have.
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

// Importers ask from time to time. What they have read does not come back, so it need not stay.
static bool waiting_goes_on(void *userdata)
{
    struct waiting *waiting = userdata;
    input_forget(waiting->content->input);
    if (waiting->handle)
        rows_count(waiting->run, waiting->handle);
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
    struct waiting waiting = {.run = run, .content = content, .handle = bulk ? NULL : handle};
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
        return content_empty(run, content);
    char text[96];
    if (!waiting_goes_on(&waiting) && waiting.stopped) {
        note(notes, "%s: %s; left out", content->name,
             budget_text(&run->budget, waiting.stopped, text, sizeof(text)));
        run_is_cut(run);
        return 0;
    }
    int r = content->format->import(&in, input_bytes(content->input), size, run->err);
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

// Names have any bytes but 0.
static int notes_print(struct run *run, const struct strbuf *notes)
{
    run->result.is_partial |= notes->size > 0;
    for (size_t at = 0; at < notes->size; at += strlen(notes->text + at) + 1)
        say("%s", notes->text + at);
    return notes->failed ? err_errno(run->err, -ENOMEM, "database") : 0;
}

// Whether files of the same format went before it.
static bool format_was_seen(const struct run *run, size_t before)
{
    for (size_t i = 0; i < before; i++)
        if (run->waiting.items[i].format == run->waiting.items[before].format)
            return true;
    return false;
}

// All files of a format in one go, past SQLite, if its tables have no rows yet. *ret: they are
// through.
static int bulk_try(struct run *run, sqlite3 *handle, const struct file_format *format,
                    struct strbuf *notes, bool *ret)
{
    CLEANUP(bulk_freep) struct bulk *bulk = NULL;
    *run->err = (struct err){0};
    int r = format->n_tables
                ? bulk_open(handle, format->tables, format->n_tables, &run->budget, run->err, &bulk)
                : 0;
    *ret = bulk != NULL;
    for (size_t i = 0; i < run->waiting.n && bulk && r == 0; i++)
        if (run->waiting.items[i].format == format)
            r = waiting_import(run, handle, bulk, &run->waiting.items[i], notes);
    return r == 0 && bulk ? bulk_finish(bulk, run->err) : r;
}

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
        working_count(run);
    } while (r < 0 && budget_narrow(&run->budget, r));
    if (r == -EDQUOT) {
        char text[96];
        err_set(run->err, r, "%s: %s", format->name,
                budget_text(&run->budget, BUDGET_OUTPUT, text, sizeof(text)));
        return left_out_print(run);
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
    working_count(run);
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

// What is no trace, and what follows from it for the traces.
static int rest_import(struct run *run)
{
    const struct conversion *conversion = run->conversion;
    if (!run->waiting.n && !run->has_maps && !conversion->append && !conversion->symbolize &&
        run->n_traces < 2)
        return 0;
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    int r = handle_open(run, run->working, &handle);
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

static int empty_base_make(struct run *run)
{
    CLEANUP(database_freep) struct database *db = NULL;
    int r = database_create(run->working, run->err, &db);
    if (r == 0)
        r = database_finish(db, NULL, NULL, run->err);
    if (r < 0)
        return r;
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    r = handle_open(run, run->working, &handle);
    working_count(run);
    return r < 0 ? r
                 : sql_run(handle, "INSERT INTO trace_bounds VALUES(0, 0)", run->conversion->output,
                           run->err);
}

static int sources_note(struct run *run)
{
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    int r = handle_open(run, run->working, &handle);
    return r < 0 ? r : sources_write(&run->sources, handle, run->err);
}

static bool nothing_new(const struct run *run)
{
    return run->conversion->append && run->n_skipped && !run->conversion->symbolize &&
           run->sources.all.n == run->sources.n_stored;
}

// What happened, and what the traces lack. The database is whole then.
static int traces_judge(struct run *run)
{
    CLEANUP(handle_closep) sqlite3 *handle = NULL;
    int r = handle_open(run, run->working, &handle);
    if (r == 0)
        r = verdict_make(handle, run->n_judged, &run->verdicts, run->err);
    if (r == 0)
        r = verdict_store(handle, &run->verdicts, run->err);
    vec_foreach(&run->verdicts, verdict)
        if (r == 0)
            r = health_read(handle, verdict->trace_id, &run->health, run->err);
    return r;
}

static int everything_convert(struct run *run)
{
    const struct conversion *conversion = run->conversion;
    int r = conversion->opened ? 0 : database_target_check(conversion->output, run->err);
    if (r == 0 && !conversion->opened)
        r = journals_settle(run);
    if (r == 0)
        r = working_folder_make(conversion->output, run->err, &run->beside);
    if (r == 0)
        r = working_file_make(&run->beside, "database", run->err, &run->working);
    if (r == 0 && conversion->append && file_size(conversion->output))
        r = base_copy(run);
    for (size_t i = 0; i < conversion->files.n && r == 0; i++)
        r = file_take(run, &conversion->files.items[i]);
    run->unchanged = r == 0 && nothing_new(run);
    if (r < 0 || run->unchanged)
        return r;
    if (!run->has_base)
        r = empty_base_make(run);
    if (r == 0)
        r = rest_import(run);
    if (r == 0)
        r = sources_note(run);
    if (r == 0)
        r = traces_judge(run);
    return r;
}

// SQLite opens the file when something is read.
static int working_open(struct run *run, struct sqlite3 **ret)
{
    int code = sqlite3_open_v2(run->working, ret, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = handle_defend(*ret);
    if (code == SQLITE_OK)
        code = sqlite3_exec(*ret, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL);
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

// Reading ends before the limit. What grows without being asked for, between two questions, meets
// the kernel's limit: then nothing is converted. *ret_before holds for what follows: statements,
// and the prompt's pager.
static void memory_bound(const struct budget *budget, struct rlimit *ret_before)
{
    getrlimit(RLIMIT_DATA, ret_before);
    if (budget->memory_max < UINT64_MAX - BUDGET_MEMORY_OWN)
        sandbox_data(budget->memory_max + BUDGET_MEMORY_OWN);
}

// A limit that somebody has set is the likely cause, and easy to overlook.
static void memory_hint(const struct budget *budget, int r, struct err *err)
{
    struct rlimit space, data;
    if (r != -ENOMEM || !err || *err->hint || getrlimit(RLIMIT_AS, &space) < 0 ||
        getrlimit(RLIMIT_DATA, &data) < 0)
        return;
    if (space.rlim_cur != RLIM_INFINITY)
        err_hint(err, r,
                 "the address space is limited to %llu MiB, ulimit -v; 64 MiB and four times the "
                 "size of the trace, inflated, are enough for most",
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
    progress_wipe(&run);
    if (r == 0 && conversion->opened)
        r = working_open(&run, conversion->opened);
    else if (r == 0 && !run.unchanged)
        r = working_file_publish(run.working, conversion->output, conversion->append, err);
    working_folder_remove(&run.beside);
    if (r == -ECANCELED)
        err_set(err, r, "interrupted; nothing was written");
    memory_hint(&run.budget, r, err);
    setrlimit(RLIMIT_DATA, &data_before);
    budget_close(&run.budget);
    if (run.unchanged)
        say("%s: unchanged, because all files were left out", conversion->output);
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
