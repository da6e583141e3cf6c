// SPDX-License-Identifier: Apache-2.0
//
// The first trace becomes the working file. Each further trace is converted into a separate file
// and joined. If the room is not enough, the same trace is converted again with a smaller share of
// the budget (budget.h).
#include "converter/cli/conversion_traces.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "converter/cli/say.h"
#include "converter/import/import_trace.h"
#include "converter/tables/database.h"
#include "converter/tables/join.h"
#include "converter/tables/schema_rows.h"
#include "converter/tables/statement.h"

// The real-time offsets of two traces of one boot differ by the clock's slew between them; offsets
// of two boots differ by more.
#define SAME_BOOT_NS (NSEC_PER_SEC / 2)

DEFINE_CLEANUP(database_freep, struct database, database_free);

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
    if (input_remark(input))
        say("%s: %s", trace, input_remark(input));
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

// Converts the trace within the budget's present share. Sets *ret_rows to the number of rows in all
// tables. Returns -EDQUOT also for a complete database that is too large.
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
        r = import_trace(db, content->input, run->folder, run_progress_show, run, run->err, ret);
    run_progress_wipe(run);
    if (r == 0 && !ret->n_packets) {
        err_set(run->err, -EBADMSG, "%s: not a Perfetto trace", content->name);
        r = err_hint(run->err, -EBADMSG, "it does not begin with a packet");
    }
    bool is_part = path != run->working;
    if (r == 0 && !is_part)
        schema_rows_write(db);
    if (r == 0)
        r = database_finish(db, run_goes_on, run, run->err);
    uint64_t n_bytes = r == 0 ? database_n_bytes(db) : 0, n_rows = 0;
    bool has_maps = r == 0 && database_n_rows(db, TABLE_perf_map) > 0;
    for (enum table_id table = 0; table < N_TABLES && r == 0; table++)
        n_rows += table == TABLE_mmsql_schema ? 0 : database_n_rows(db, table);
    db = database_free(db);
    budget_give(&run->budget, run->budget.output - run->budget.before);
    if (r < 0)
        return r;
    // During the join, the rows of a part exist twice.
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

// Imports as much of the trace as the budget allows.
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

// Finds *ret, the shift (ns) of a trace onto the clock of the first trace.
static int shift_find(struct run *run, sqlite3 *handle, const char *part, const char *name,
                      int64_t *ret)
{
    CLEANUP(run_handle_closep) sqlite3 *from = NULL;
    int64_t none = INT64_MIN;
    int failure = 0, r = run_handle_open(run, part, &from);
    if (r < 0)
        return r;
    int64_t base = sql_number_or_failure(
        handle, "SELECT realtime_offset - ts_shift FROM trace ORDER BY id LIMIT 1", none, &failure);
    int64_t own = sql_number_or_failure(from, "SELECT realtime_offset FROM trace", none, &failure);
    if (failure < 0)
        return err_errno(run->err, failure, "%s", name);
    if (own == none || base == none) {
        err_set(run->err, -EINVAL, "%s: its clock cannot be compared with that of the first trace",
                name);
        return err_hint(run->err, -EINVAL,
                        "%s has no reading of the real-time clock; leave out --merge-clocks",
                        own == none ? "it" : "the first trace");
    }
    int64_t shift;
    if (__builtin_sub_overflow(own, base, &shift))
        return err_set(run->err, -ERANGE, "%s: its clock is out of range", name);
    *ret = shift > -SAME_BOOT_NS && shift < SAME_BOOT_NS ? 0 : shift;
    return 0;
}

// Sets *ret to whether the database already has the recording of the part. Prints a message if so,
// or if times overlap.
static int part_skips(struct run *run, const char *part, const char *name, bool *ret)
{
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    CLEANUP(freep) char *text = NULL;
    int r = run_handle_open(run, run->working, &handle);
    if (r == 0)
        r = trace_compare(handle, part, ret, &text, run->err);
    if (r == 0 && *ret)
        run_skip(run, name, text);
    else if (r == 0 && text)
        say("%s: %s", name, text);
    return r;
}

// Finds *ret, the shifts of ids for the next trace. The caller frees *ret.
static int shifts_find(struct run *run, struct id_shifts **ret)
{
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    int r = run_handle_open(run, run->working, &handle);
    if (r < 0)
        return r;
    CLEANUP(freep) struct id_shifts *shifts = malloc(sizeof(*shifts));
    r = shifts ? join_shifts_find(handle, shifts) : -ENOMEM;
    if (r < 0)
        return err_errno(run->err, r, "database");
    *ret = STEAL(shifts);
    return 0;
}

static int part_join(struct run *run, const char *part, const char *name)
{
    CLEANUP(run_handle_closep) sqlite3 *handle = NULL;
    struct join join = {.shifted = true, .trace_id = run->n_traces};
    int r = run_handle_open(run, run->working, &handle);
    if (r == 0 && run->conversion->merge_clocks)
        r = shift_find(run, handle, part, name, &join.ts_shift);
    if (r == 0)
        r = database_join(handle, part, &join, run->err);
    char sql[128];
    snprintf(sql, sizeof(sql), "UPDATE trace SET ts_shift = %" PRId64 " WHERE id = %" PRId64,
             join.ts_shift, join.trace_id);
    return r < 0 ? r : sql_run(handle, sql, name, run->err);
}

int run_convert_trace(struct run *run, const struct content *content, struct source *source)
{
    struct trace_result result = {0};
    uint64_t n_rows = 0;
    CLEANUP(freep) char *part = NULL;
    CLEANUP(freep) struct id_shifts *shifts = NULL;
    bool repeats = false;
    if (!input_size(content->input))
        return content_is_empty(run, content);
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
        run_count(run);
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
    return run_taken(run, source);
}
