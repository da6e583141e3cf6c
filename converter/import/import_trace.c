// SPDX-License-Identifier: Apache-2.0
//
// Connects the trace reader, which knows packets, to the importers, which know the contents of
// packets.
#include "converter/import/import_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/nsec.h"
#include "converter/import/importer.h"
#include "converter/import/importer_states.h"
#include "converter/import/problem_stats.h"
#include "protos/fields.h"

// Returns the importer of a field. *ret: the importer's state for the current machine. The field
// must have an importer.
static const struct importer *importer_find(const struct import *im, uint32_t field, void **ret)
{
    size_t index = im->importer_of[field] - 1u;
    *ret = im->machine->states[index];
    return importers[index];
}

static enum field_interest handle_interest(void *userdata, uint32_t field)
{
    const struct import *im = userdata;
    size_t number = field < ELEMENTS(im->importer_of) ? im->importer_of[field] : 0;
    const struct importer *importer = number ? importers[number - 1] : NULL;
    if (!importer)
        return FIELD_IGNORED;
    if (importer->event)
        return FIELD_EVENTS;
    if (importer->now && importer->sorted)
        return FIELD_BOTH;
    return importer->now ? FIELD_NOW : FIELD_SORTED;
}

static int handle_now(void *userdata, struct packet *packet)
{
    struct import *im = userdata;
    importer_find(im, packet->message->number, &packet->own)->now(im, packet);
    return im->failure->code;
}

static int handle_sorted(void *userdata, struct packet *packet)
{
    struct import *im = userdata;
    importer_find(im, packet->message->number, &packet->own)->sorted(im, packet);
    return im->failure->code;
}

static int handle_machine(void *userdata, uint32_t machine, uint32_t raw_id)
{
    struct import *im = userdata;
    machines_enter(im, machine, raw_id);
    return im->failure->code;
}

static int handle_event(void *userdata, uint32_t field, const struct bundle_event *event)
{
    struct import *im = userdata;
    void *state;
    const struct importer *importer = importer_find(im, field, &state);
    importer->event(im, state, event);
    return im->failure->code;
}

static int handle_describe(void *userdata, uint32_t field, const struct wire_field *descriptor)
{
    struct import *im = userdata;
    void *state;
    const struct importer *importer = importer_find(im, field, &state);
    if (importer->describe)
        importer->describe(im, state, descriptor);
    return im->failure->code;
}

static int handle_complete(void *userdata, uint32_t field, int64_t ts)
{
    struct import *im = userdata;
    void *state;
    const struct importer *importer = importer_find(im, field, &state);
    if (importer->complete)
        importer->complete(im, state, ts);
    return im->failure->code;
}

static int handle_indexed(void *userdata, const struct trace_result *result)
{
    struct import *im = userdata;
    im->n_packets = result->n_packets;
    im->is_cut = result->truncated || result->stopped || input_stopped(im->input);
    metadata_set_text(&im->metadata, "trace_type", text_from(input_type(im->input)));
    metadata_set_int(&im->metadata, "trace_size_bytes", (int64_t)input_file_size(im->input));
    if (result->has_trace_clock) {
        metadata_set_int(&im->metadata, "trace_time_clock_id", clock_id_of(im->clocks.trace_clock));
        metadata_made(&im->metadata, "trace_time_clock_id");
    }
    if (result->stopped || input_stopped(im->input))
        stats_set_at(&im->stats, STAT_mmsql_stopped_at_offset,
                     result->stopped ? result->stopped : input_stopped(im->input),
                     result->stopped ? (int64_t)result->stopped_offset
                                     : (int64_t)input_size(im->input));
    if (result->truncated)
        stats_set(&im->stats, STAT_mmsql_truncated_at, (int64_t)result->truncated_offset);
    machines_call(im, MACHINE_INDEXED);
    return im->failure->code;
}

static void handle_snapshot(void *userdata, uint32_t id, int64_t ts,
                            const struct clock_reading *readings, size_t n)
{
    struct import *im = userdata;
    for (size_t i = 0; i < n; i++) {
        uint32_t clock_id = clock_id_of(readings[i].clock);
        bool scoped = clock_id >= CLOCK_ID_SEQUENCE_MIN && clock_id <= CLOCK_ID_SEQUENCE_MAX;
        uint32_t machine = scoped ? im->machine->number : clock_machine_of(readings[i].clock);
        if (clock_id == CLOCK_ID_REALTIME && !machine && !im->has_realtime) {
            im->has_realtime = true;
            im->realtime_offset = (int64_t)((uint64_t)readings[i].timestamp - (uint64_t)ts);
        }
        struct cell *row = database_row(im->db, TABLE_clock_snapshot, NULL);
        cell_int(row, COL_clock_snapshot_ts, ts);
        cell_int(row, COL_clock_snapshot_clock_id, clock_id);
        cell_text(row, COL_clock_snapshot_clock_name, clock_name(clock_id));
        cell_int(row, COL_clock_snapshot_clock_value,
                 (int64_t)((uint64_t)readings[i].timestamp * (uint64_t)readings[i].unit_ns));
        cell_int(row, COL_clock_snapshot_snapshot_id, id);
        cell_int(row, COL_clock_snapshot_machine_id, machine);
    }
}

static void handle_problem(void *userdata, enum trace_problem problem, uint32_t detail)
{
    problem_count(&((struct import *)userdata)->stats, problem, detail);
}

static bool handle_progress(void *userdata, double done)
{
    struct import *im = userdata;
    return im->progress(im->userdata, done);
}

static void handle_settle(void *userdata)
{
    database_flush(((struct import *)userdata)->db, NULL);
}

static void bounds_write(struct import *im)
{
    const struct bounds *const more[] = {&im->slices.bounds, &im->states.bounds,
                                         &im->thread_states.bounds};
    for (size_t i = 0; i < ELEMENTS(more); i++)
        if (more[i]->is_set) {
            import_bounds(im, more[i]->start);
            import_bounds(im, more[i]->end);
        }
    struct cell *row = database_row(im->db, TABLE_trace_bounds, NULL);
    const struct bounds *all = &im->bounds;
    cell_int(row, COL_trace_bounds_start_ts, all->start);
    // As in Perfetto, a trace of one moment is 1 ns long.
    bool is_moment = all->is_set && all->start == all->end && all->end < INT64_MAX;
    cell_int(row, COL_trace_bounds_end_ts, all->end + is_moment);
}

// Returns whether a buffer of the recording counts anything in `stat`.
static bool any_buffer_has(const struct import *im, enum stat stat)
{
    int64_t value;
    for (uint32_t buffer = 0; stats_get_at(&im->stats, stat, buffer, &value); buffer++)
        if (value > 0)
            return true;
    return false;
}

// Returns whether the trace has everything up to its last packets, which are the statistics of its
// buffers.
static bool is_complete(const struct import *im)
{
    int64_t value;
    return stats_get_at(&im->stats, STAT_traced_buf_buffer_size, 0, &value) && !im->is_cut &&
           !stats_get(&im->stats, STAT_mmsql_recording_cut);
}

// Returns the time that the trace tells about. The time without events belongs to the recording,
// too, unless a buffer or the file has lost its beginning or its end.
static struct bounds recorded(const struct import *im)
{
    struct bounds bounds = im->bounds;
    int64_t ts;
    if (!is_complete(im))
        return bounds;
    if ((!bounds.is_set || !any_buffer_has(im, STAT_traced_buf_chunks_overwritten)) &&
        metadata_get_int(&im->metadata, "all_data_source_started_ns", &ts))
        bounds_add(&bounds, ts);
    if ((!bounds.is_set || !any_buffer_has(im, STAT_traced_buf_chunks_discarded)) &&
        metadata_get_int(&im->metadata, "tracing_disabled_ns", &ts))
        bounds_add(&bounds, ts);
    return bounds;
}

// Writes the row of the only trace. The path is copied, because the path must outlive the import.
static void trace_write(struct import *im)
{
    struct cell *row = database_row(im->db, TABLE_trace, NULL);
    struct bounds bounds = recorded(im);
    const char *name = input_name(im->input);
    cell_text(row, COL_trace_path, database_copy(im->db, name, strlen(name)));
    cell_text(row, COL_trace_uuid, metadata_get_text(&im->metadata, "trace_uuid"));
    cell_int(row, COL_trace_size_bytes, (int64_t)input_file_size(im->input));
    cell_int(row, COL_trace_n_packets, (int64_t)im->n_packets);
    cell_int(row, COL_trace_start_ts, im->bounds.start);
    cell_int(row, COL_trace_end_ts, im->bounds.end);
    cell_int(row, COL_trace_recorded_ts, bounds.start);
    cell_int(row, COL_trace_recorded_end_ts, bounds.end);
    cell_int(row, COL_trace_ts_shift, 0);
    if (im->has_realtime)
        cell_int(row, COL_trace_realtime_offset, im->realtime_offset);
    for (uint32_t i = 0; i < im->machines.n; i++) {
        row = database_row(im->db, TABLE_trace_machine, NULL);
        cell_int(row, COL_trace_machine_trace_id, 0);
        cell_int(row, COL_trace_machine_machine_id, i);
    }
}

// Writes the rows that depend on the whole trace.
static void held_back_write(struct import *im)
{
    machines_call(im, MACHINE_FINISH);
    slices_finish(&im->slices);
    states_finish(&im->states);
    thread_states_finish(&im->thread_states);
    machines_call(im, MACHINE_WRITE);
    processes_write(&im->processes, im->db, &im->args);
    tracks_write(&im->tracks, im->db);
    metadata_write(&im->metadata, im->db);
    stats_set(&im->stats, STAT_parse_trace_duration_ns, nsec_now(CLOCK_MONOTONIC) - im->start);
    stats_write(&im->stats, im->db);
    bounds_write(im);
    trace_write(im);
    database_flush(im->db, NULL);
}

static int handle_finished(void *userdata, int outcome, const struct trace_result *result)
{
    struct import *im = userdata;
    im->is_cut |= result->stopped_late != 0;
    if (result->stopped_late)
        stats_set_at(&im->stats, STAT_mmsql_stopped_at_time, result->stopped_late,
                     result->stopped_ts);
    import_fail(im, outcome);
    if (!import_failed(im))
        held_back_write(im);
    if (!import_failed(im))
        return 0;
    database_abandon(im->db);
    // An error message of the trace reader stays.
    return database_error(im->db, im->failure->err.text[0] ? im->err : NULL);
}

static void import_done(struct import *im)
{
    machines_done(im);
    slices_done(&im->slices);
    states_done(&im->states);
    translations_done(&im->translations);
    thread_states_done(&im->thread_states);
    processes_done(&im->processes);
    metadata_done(&im->metadata);
    stats_done(&im->stats);
    async_tracks_done(&im->async_tracks);
    tracks_done(&im->tracks);
    args_done(&im->args);
    clocks_done(&im->clocks);
    strset_done(&im->strings);
}

int import_trace(struct database *db, struct input *input, const char *spill_folder,
                 bool (*progress)(void *userdata, double done), void *userdata, struct err *err,
                 struct trace_result *ret)
{
    struct import im = {.db = db, .input = input, .err = err, .start = nsec_now(CLOCK_MONOTONIC)};
    im.failure = im.strings.failure = im.tracks.failure = im.stats.failure = im.metadata.failure =
        im.slices.failure = im.states.failure = im.thread_states.failure = database_failure(db);
    im.tracks.strings = &im.strings;
    im.tracks.args = &im.args;
    im.async_tracks.tracks = &im.tracks;
    im.slices.db = im.states.db = im.thread_states.db = db;
    im.slices.args = im.states.args = &im.args;
    im.slices.stats = &im.stats;
    im.slices.translations = &im.translations;
    im.translations.strings = &im.strings;
    struct trace_handler handler = {
        .userdata = &im,
        .machine = handle_machine,
        .interest = handle_interest,
        .now = handle_now,
        .sorted = handle_sorted,
        .event = handle_event,
        .describe = handle_describe,
        .complete = handle_complete,
        .indexed = handle_indexed,
        .finished = handle_finished,
        .snapshot = handle_snapshot,
        .problem = handle_problem,
        .progress = progress ? handle_progress : NULL,
        .settle = handle_settle,
    };
    im.progress = progress;
    im.userdata = userdata;
    importers_index(&im);
    import_fail(&im, args_init(&im.args, db));
    processes_init(&im.processes, &im.strings, im.failure);
    machines_enter(&im, 0, 0);
    int r = im.failure->code;
    if (r == 0)
        r = trace_read(input, spill_folder, &handler, &im.clocks, err, ret);
    else if (database_error(db, err) == 0 && err && !err->text[0])
        err_errno(err, r, "conversion");
    import_done(&im);
    return r;
}
