// SPDX-License-Identifier: Apache-2.0
//
// See samples.h. Contexts of samples repeat, so contexts have separate tables, as in Perfetto.
#include "converter/import/profile/samples.h"

#include <string.h>

#include "converter/import/importer.h"
#include "converter/import/profile/deobfuscation.h"

extern const struct importer importer_samples;

// Returns the state, which all machines share.
static struct samples *samples_of(const struct import *im)
{
    return importer_state(im, &importer_samples);
}

static int64_t task_get(struct import *im, const struct sample *sample)
{
    struct samples *samples = samples_of(im);
    int64_t key[] = {sample->upid, sample->utid, sample->async};
    bool is_new;
    if (sample->upid == SAMPLE_NONE && sample->utid == SAMPLE_NONE && sample->async == SAMPLE_NONE)
        return SAMPLE_NONE;
    int64_t id = import_set_add(im, &samples->tasks, key, sizeof(key), &is_new);
    if (!is_new || id == SAMPLE_NONE)
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE__profiler_task_context, id);
    cell_known(row, COL__profiler_task_context_upid, sample->upid);
    cell_known(row, COL__profiler_task_context_utid, sample->utid);
    cell_known(row, COL__profiler_task_context_async_context_id, sample->async);
    return id;
}

static int64_t execution_get(struct import *im, const struct sample *sample)
{
    struct samples *samples = samples_of(im);
    struct {
        int64_t cpu;
        char mode[16];
    } key = {.cpu = sample->cpu};
    if (sample->cpu_mode)
        strncpy(key.mode, sample->cpu_mode, sizeof(key.mode) - 1);
    bool is_new;
    if (sample->cpu == SAMPLE_NONE && !sample->cpu_mode)
        return SAMPLE_NONE;
    int64_t id = import_set_add(im, &samples->executions, &key, sizeof(key), &is_new);
    if (!is_new || id == SAMPLE_NONE)
        return id;
    struct cell *row = database_row_with_id(im->db, TABLE__profiler_execution_context, id);
    cell_known(row, COL__profiler_execution_context_ucpu,
               sample->cpu < 0 ? SAMPLE_NONE : (int64_t)ucpu_of(im, (uint32_t)sample->cpu));
    cell_text(row, COL__profiler_execution_context_cpu_mode, sample->cpu_mode);
    return id;
}

void sample_write(struct import *im, const struct sample *sample)
{
    struct samples *samples = samples_of(im);
    int64_t task = task_get(im, sample), execution = execution_get(im, sample);
    struct cell *row = database_row(im->db, TABLE__profiler_sample, NULL);
    cell_int(row, COL__profiler_sample_ts, sample->ts);
    cell_text(row, COL__profiler_sample_source, sample->source);
    cell_known(row, COL__profiler_sample_task_context_id, task);
    cell_known(row, COL__profiler_sample_execution_context_id, execution);
    cell_known(row, COL__profiler_sample_callsite_id, sample->callsite);
    cell_known(row, COL__profiler_sample_session_id, sample->session);
    cell_text(row, COL__profiler_sample_unwind_error, sample->unwind_error);
    cell_known(row, COL__profiler_sample_utid, sample->utid);
    cell_known(row, COL__profiler_sample_cpu, sample->cpu);
    cell_text(row, COL__profiler_sample_cpu_mode, sample->cpu_mode);
    if (sample->priority)
        cell_int(row, COL__profiler_sample_process_priority, sample->priority);
    if (sample->n_counters)
        cell_int(row, COL__profiler_sample_counter_set_id, samples->n_counter_sets);
    for (size_t i = 0; i < sample->n_counters; i++) {
        struct cell *counter = database_row(im->db, TABLE__profiler_counter_set, NULL);
        cell_int(counter, COL__profiler_counter_set_counter_set_id, samples->n_counter_sets);
        cell_int(counter, COL__profiler_counter_set_counter_id, sample->counters[i]);
    }
    samples->n_counter_sets += (int64_t)sample->n_counters;
    if (sample->cpu != SAMPLE_NONE)
        cpus_see(im, (uint32_t)sample->cpu);
    deobfuscation_user(im, sample->callsite, sample->upid);
    import_bounds(im, sample->ts);
}

int64_t samples_session(struct import *im, const char *source, uint32_t sequence_id, bool *ret_new)
{
    struct samples *samples = samples_of(im);
    bool is_perf = source && strcmp(source, "linux.perf") == 0;
    const uint64_t *known =
        import_map_get(im, &samples->by_sequence,
                       (uint64_t)(im->machine->number * 2 + is_perf) << 32 | sequence_id,
                       samples->sessions.n, ret_new);
    struct session session = {.sequence_id = sequence_id, .source = source};
    if (known && *ret_new)
        import_fail(im, session_vec_push(&samples->sessions, session));
    return known && !import_failed(im) ? (int64_t)*known : SAMPLE_NONE;
}

int64_t samples_session_add(struct import *im, struct session session)
{
    struct samples *samples = samples_of(im);
    import_fail(im, session_vec_push(&samples->sessions, session));
    return import_failed(im) ? SAMPLE_NONE : (int64_t)samples->sessions.n - 1;
}

void samples_set_unit(struct import *im, int64_t session, const char *unit)
{
    struct session_vec *sessions = &samples_of(im)->sessions;
    if (session >= 0 && (size_t)session < sessions->n && !sessions->items[session].unit)
        sessions->items[session].unit = unit;
}

static void samples_write(struct import *im, void *state)
{
    const struct samples *samples = state;
    vec_foreach(&samples->sessions, session) {
        struct cell *row = database_row(im->db, TABLE__profiler_session, NULL);
        cell_text(row, COL__profiler_session_source, session->source);
        cell_text(row, COL__profiler_session_timebase_unit, session->unit);
        cell_text(row, COL__profiler_session_cmdline, session->cmdline);
    }
}

static void samples_done(void *state)
{
    struct samples *samples = state;
    strset_done(&samples->tasks);
    strset_done(&samples->executions);
    map64_done(&samples->by_sequence);
    session_vec_done(&samples->sessions);
}

const struct importer importer_samples = {
    .state_size = sizeof(struct samples),
    .of_all_machines = true,
    .write = samples_write,
    .done = samples_done,
};
