// SPDX-License-Identifier: Apache-2.0
//
// Values go to the process's track if the process is known, the usual case. Otherwise the values go
// to a track of the thread. If the process becomes known later, the thread's track becomes the
// process's track. If the process already has a track, the values move to that track at the end.
#include "converter/import/process/process_counters.h"

#include <stdio.h>

#include "converter/import/importer.h"

#define NAME_SIZE 128

extern const struct importer importer_process_counters;

static struct process_counters *process_counters_of(const struct import *im)
{
    return importer_state(im, &importer_process_counters);
}

static uint32_t track_make(struct import *im, bool of_process, int64_t id,
                           enum process_counter counter, const char *key, const char *metric)
{
    static const struct {
        const char *process, *thread, *key;
    } types[] = {
        [PROCESS_COUNTER_MEMORY] = {"process_memory", "process_memory_thread_fallback",
                                    "process_memory_key"},
        [PROCESS_COUNTER_OOM_SCORE] = {"oom_score_adj", "oom_score_adj_thread_fallback", NULL},
        [PROCESS_COUNTER_MM_EVENT] = {"mm_event", "mm_event_thread_fallback", "mm_event_type"},
    };
    char name[NAME_SIZE] = "oom_score_adj";
    struct track_spec spec = {
        .type = of_process ? types[counter].process : types[counter].thread,
        .counter = true,
        .dimensions = {dimension_int(of_process ? "upid" : "utid", id)},
    };
    if (types[counter].key)
        spec.dimensions[1] = dimension_text(types[counter].key, key, strlen(key));
    if (counter == PROCESS_COUNTER_MEMORY)
        snprintf(name, sizeof(name), "mem.%s", key);
    if (counter == PROCESS_COUNTER_MM_EVENT) {
        snprintf(name, sizeof(name), "mem.mm.%s.%s", key, metric);
        spec.dimensions[2] = dimension_text("mm_event_metric", metric, strlen(metric));
    }
    spec.name = slice_name(name);
    return tracks_get(&im->tracks, &spec);
}

// Returns the index of a kind; adds a new kind. The search is linear, because a trace has a few
// dozen kinds at most.
static size_t kind_get(struct import *im, enum process_counter counter, const char *key,
                       const char *metric)
{
    struct process_counters *counters = process_counters_of(im);
    size_t i = 0;
    for (; i < counters->kinds.n; i++) {
        const struct process_counter_kind *kind = &counters->kinds.items[i];
        if (kind->counter == counter && kind->key == key && kind->metric == metric)
            return i;
    }
    struct process_counter_kind kind = {counter, key, metric};
    import_fail(im, process_counter_kind_vec_push(&counters->kinds, kind));
    return i;
}

static uint64_t track_key(bool of_process, int64_t id, uint64_t kind)
{
    return (uint64_t)id << 16 | kind << 1 | of_process;
}

static uint32_t track_get(struct import *im, bool of_process, int64_t id,
                          enum process_counter counter, const char *key, const char *metric)
{
    struct process_counters *counters = process_counters_of(im);
    uint64_t kind = kind_get(im, counter, key, metric);
    uint64_t at = track_key(of_process, id, kind);
    const uint64_t *known = map64_find(&counters->tracks, at);
    if (known)
        return (uint32_t)*known;
    uint32_t track = track_make(im, of_process, id, counter, key, metric);
    import_fail(im, map64_set(&counters->tracks, at, track));
    return track;
}

uint32_t process_counter_track(struct import *im, int64_t upid, enum process_counter counter,
                               const char *key, const char *metric)
{
    return track_get(im, true, upid, counter, key, metric);
}

static int64_t set_get(struct import *im, struct process_counters *counters, int64_t utid)
{
    const uint64_t *known = map64_find(&counters->sets, (uint64_t)utid);
    if (known)
        return (int64_t)*known;
    struct arg arg = arg_uint("utid", (uint64_t)utid);
    int64_t set = args_add(&im->args, &arg, 1);
    import_fail(im, map64_set(&counters->sets, (uint64_t)utid, (uint64_t)set));
    return set;
}

void process_counter_push(struct import *im, int64_t ts, int64_t utid, enum process_counter counter,
                          const char *key, const char *metric, double value)
{
    struct process_counters *counters = process_counters_of(im);
    int64_t upid = processes_thread_at(&im->processes, utid)->upid;
    int64_t set = set_get(im, counters, utid);
    if (upid != UPID_NONE) {
        uint32_t track = track_get(im, true, upid, counter, key, metric);
        counter_push(im, ts, track, value, set);
        return;
    }
    size_t n_before = im->tracks.items.n;
    uint32_t track = track_get(im, false, utid, counter, key, metric);
    if (im->tracks.items.n > n_before) {
        struct waiting_track waiting = {track, utid, counter, key, metric};
        import_fail(im, waiting_track_vec_push(&counters->waiting, waiting));
    }
    counter_push(im, ts, track, value, set);
}

// Returns the process's track for values on the thread's track. If the process has no track, the
// thread's track becomes the process's track.
static uint32_t waiting_settle(struct import *im, const struct waiting_track *waiting, int64_t upid)
{
    struct track_vec *tracks = &im->tracks.items;
    size_t n_before = tracks->n;
    uint32_t track = track_get(im, true, upid, waiting->counter, waiting->key, waiting->metric);
    if (tracks->n == n_before || import_failed(im)) {
        tracks->items[waiting->track].replaced = true;
        return track;
    }
    tracks->items[waiting->track] = tracks->items[track];
    tracks->items[track].replaced = true;
    uint64_t kind = kind_get(im, waiting->counter, waiting->key, waiting->metric);
    import_fail(im, map64_set(&process_counters_of(im)->tracks, track_key(true, upid, kind),
                              waiting->track));
    return waiting->track;
}

// Moves the values of threads whose process became known to the process's track.
static void process_counters_write(struct import *im, void *state)
{
    struct process_counters *counters = state;
    vec_foreach(&counters->waiting, waiting) {
        int64_t upid = processes_thread_at(&im->processes, waiting->utid)->upid;
        if (upid == UPID_NONE)
            continue;
        uint32_t track = waiting_settle(im, waiting, upid);
        if (track != waiting->track)
            database_move_track(im->db, TABLE_counter, waiting->track, track);
    }
}

static void process_counters_done(void *state)
{
    struct process_counters *counters = state;
    waiting_track_vec_done(&counters->waiting);
    process_counter_kind_vec_done(&counters->kinds);
    map64_done(&counters->tracks);
    map64_done(&counters->sets);
}

const struct importer importer_process_counters = {
    .state_size = sizeof(struct process_counters),
    .of_all_machines = true,
    .write = process_counters_write,
    .done = process_counters_done,
};
