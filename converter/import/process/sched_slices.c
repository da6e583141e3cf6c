// SPDX-License-Identifier: Apache-2.0
//
// A slice is complete when its thread is switched out, so memory holds one slice per CPU.
#include "converter/import/process/sched_slices.h"

#include <errno.h>

#include "common/task_state.h"
#include "converter/import/importer.h"

struct sched {
    struct sched_cpu_vec cpus;
};

extern const struct importer importer_sched;

struct sched_cpu *sched_cpu_get(struct import *im, uint32_t cpu)
{
    struct sched_cpu_vec *cpus = &((struct sched *)importer_state(im, &importer_sched))->cpus;
    while (cpus->n <= cpu)
        if (sched_cpu_vec_push(cpus, (struct sched_cpu){.last_utid = UTID_NONE}) < 0) {
            import_fail(im, -ENOMEM);
            return NULL;
        }
    return &cpus->items[cpu];
}

// Returns the kernel's prev_state as letters ("S", "D", "R+"); NULL: not a state of this kernel.
// The text lives as long as the conversion.
static const char *sched_state_text(struct import *im, int64_t prev_state)
{
    char text[TASK_STATE_SIZE];
    size_t size = task_state_text(im->machine->kernel_version, prev_state, '\0', text);
    return size ? strset_text(&im->strings, strset_add(&im->strings, text, size)) : NULL;
}

void sched_slice_write(struct import *im, uint32_t cpu, const struct sched_cpu *state, int64_t dur,
                       const char *end_state)
{
    struct cell *row = database_row_with_id(im->db, TABLE_sched_slice, state->slice_id);
    cell_int(row, COL_sched_slice_ts, state->slice_ts);
    cell_int(row, COL_sched_slice_dur, dur);
    cell_int(row, COL_sched_slice_utid, state->last_utid);
    cell_text(row, COL_sched_slice_end_state, end_state);
    cell_int(row, COL_sched_slice_priority, state->slice_priority);
    cell_int(row, COL_sched_slice_ucpu, ucpu_of(im, cpu));
    import_bounds(im, state->slice_ts);
}

void sched_switch(struct import *im, struct sched_cpu *state, const struct sched_switch *event)
{
    sched_switch_as(im, state, event, sched_state_text(im, event->prev_state));
}

void sched_switch_as(struct import *im, struct sched_cpu *state, const struct sched_switch *event,
                     const char *prev_state)
{
    if (!prev_state)
        stats_add(&im->stats, STAT_task_state_invalid, 1);
    if (state->running && event->prev_tid == state->last_tid) {
        int64_t dur = (int64_t)((uint64_t)event->ts - (uint64_t)state->slice_ts);
        sched_slice_write(im, event->cpu, state, dur, prev_state);
        import_bounds(im, event->ts);
    } else if (state->running) {
        // Switches are missing, so the end of the slice is unknown.
        stats_add(&im->stats, STAT_mismatched_sched_switch_tids, 1);
        sched_slice_write(im, event->cpu, state, -1, NULL);
    }
    *state = (struct sched_cpu){
        .running = true,
        .slice_id = database_reserve_id(im->db, TABLE_sched_slice),
        .slice_ts = event->ts,
        .slice_priority = event->next_priority,
        .last_utid = event->next_utid,
        .last_tid = event->next_tid,
        .last_priority = event->next_priority,
    };
    thread_states_switch(&im->thread_states, event->ts, ucpu_of(im, event->cpu), event->prev_utid,
                         prev_state, event->next_utid);
}

// Writes the slices that are still open.
static void sched_write(struct import *im, void *state)
{
    const struct sched_cpu_vec *cpus = &((struct sched *)state)->cpus;
    for (size_t cpu = 0; cpu < cpus->n; cpu++)
        if (cpus->items[cpu].running)
            sched_slice_write(im, (uint32_t)cpu, &cpus->items[cpu], -1, NULL);
}

static void sched_done(void *state)
{
    sched_cpu_vec_done(&((struct sched *)state)->cpus);
}

const struct importer importer_sched = {
    .state_size = sizeof(struct sched),
    .write = sched_write,
    .done = sched_done,
};
