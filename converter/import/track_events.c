// SPDX-License-Identifier: Apache-2.0
//
// See track_events.h. A track that nothing describes stands by itself; number 0 is the one for
// events that name none.
#include "converter/import/track_events.h"

#include <errno.h>

#include "converter/import/importer.h"
#include "protos/fields.h"

#define ANCESTORS_MAX 10 // as Perfetto

static struct described_track *item_find(const struct track_events *events, uint64_t uuid)
{
    const uint64_t *index = map64_find(&events->by_uuid, uuid);
    return index ? &events->items.items[*index] : NULL;
}

static struct described_track *item_get(struct import *im, uint64_t uuid)
{
    struct track_events *events = &im->track_events;
    struct described_track *track = item_find(events, uuid);
    if (track)
        return track;
    struct described_track made = {
        .uuid = uuid, .name = STRSET_NONE, .multiplier = 1, .track = -1, .place_id = -1};
    if (!uuid)
        made.name = strset_add(&im->strings, "Default Track", 13);
    if (described_track_vec_push(&events->items, made) < 0 ||
        map64_set(&events->by_uuid, uuid, events->items.n - 1) < 0) {
        events->failure = -ENOMEM;
        return NULL;
    }
    return &events->items.items[events->items.n - 1];
}

static void counter_read(struct import *im, struct described_track *track,
                         const struct wire_field *field)
{
    enum { UNIT_TIME_NS = 1, UNIT_COUNT = 2, UNIT_SIZE_BYTES = 3 };
    static const char *const units[] = {
        [UNIT_TIME_NS] = "ns",
        [UNIT_COUNT] = "count",
        [UNIT_SIZE_BYTES] = "bytes",
    };
    MESSAGE(counter, PB_CounterDescriptor_unit_name, field);
    track->is_counter = true;
    track->is_incremental = field_u64(&counter[PB_CounterDescriptor_is_incremental]) != 0;
    int64_t multiplier = field_i64(&counter[PB_CounterDescriptor_unit_multiplier]);
    track->multiplier = multiplier ? multiplier : 1;
    uint64_t unit = field_u64(&counter[PB_CounterDescriptor_unit]);
    uint64_t type = field_u64(&counter[PB_CounterDescriptor_type]);
    const struct wire_field *unit_name = &counter[PB_CounterDescriptor_unit_name];
    if (type == PB_COUNTER_THREAD_TIME_NS)
        unit = UNIT_TIME_NS;
    if (type == PB_COUNTER_THREAD_INSTRUCTION_COUNT)
        unit = UNIT_COUNT;
    if (unit && unit < sizeof(units) / sizeof(units[0]))
        track->unit = units[unit];
    else if (field_present(unit_name))
        track->unit = strset_text(&im->strings,
                                  strset_add(&im->strings, field_text(unit_name), unit_name->size));
}

void described_track_read(struct import *im, const struct wire_field *descriptor)
{
    MESSAGE(part, PB_TrackDescriptor_atrace_name, descriptor);
    struct described_track *track = item_get(im, field_u64(&part[PB_TrackDescriptor_uuid]));
    if (!track)
        return;
    const struct wire_field *name = &part[PB_TrackDescriptor_name];
    if (!field_present(name))
        name = &part[PB_TrackDescriptor_static_name];
    if (!field_present(name))
        name = &part[PB_TrackDescriptor_atrace_name];
    if (field_present(name))
        track->name = strset_add(&im->strings, field_text(name), name->size);
    if (field_present(&part[PB_TrackDescriptor_parent_uuid]))
        track->parent_uuid = field_u64(&part[PB_TrackDescriptor_parent_uuid]);
    if (field_present(&part[PB_TrackDescriptor_thread])) {
        MESSAGE(thread, PB_ThreadDescriptor_tid, &part[PB_TrackDescriptor_thread]);
        track->pid = (uint32_t)field_u64(&thread[PB_ThreadDescriptor_pid]);
        track->tid = (uint32_t)field_u64(&thread[PB_ThreadDescriptor_tid]);
        track->has_tid = track->has_pid = true;
    } else if (field_present(&part[PB_TrackDescriptor_process])) {
        MESSAGE(process, PB_ProcessDescriptor_pid, &part[PB_TrackDescriptor_process]);
        track->pid = (uint32_t)field_u64(&process[PB_ProcessDescriptor_pid]);
        track->has_pid = true;
    }
    if (field_present(&part[PB_TrackDescriptor_counter]))
        counter_read(im, track, &part[PB_TrackDescriptor_counter]);
}

static bool ancestors_fit(const struct track_events *events, const struct described_track *track)
{
    size_t n = 0;
    while (track && track->parent_uuid) {
        if (track->parent_uuid == track->uuid || ++n > ANCESTORS_MAX)
            return false;
        track = item_find(events, track->parent_uuid);
    }
    return true;
}

struct described_track *described_track_get(struct import *im, uint64_t uuid)
{
    struct described_track *track = item_get(im, uuid);
    if (!track || track->place != PLACE_UNKNOWN)
        return track;
    if (!ancestors_fit(&im->track_events, track)) {
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
        return NULL;
    }
    // Depth is limited by the check above.
    struct described_track parent = {.place = PLACE_GLOBAL};
    if (track->parent_uuid) {
        const struct described_track *found = described_track_get(im, track->parent_uuid);
        if (!found)
            return NULL;
        parent = *found;
        track = item_find(&im->track_events, uuid); // the array may have moved
    }
    track->is_root = track->has_pid;
    if (track->has_tid) {
        track->place = PLACE_THREAD;
        track->place_id = processes_update_thread(&im->processes, track->tid, track->pid);
    } else if (track->has_pid) {
        track->place = PLACE_PROCESS;
        track->place_id = processes_process(&im->processes, track->pid);
    } else {
        track->place = parent.place;
        track->place_id = parent.place_id;
    }
    return track;
}

static const char *track_type(const struct described_track *track)
{
    static const char *const counters[] = {
        [PLACE_THREAD] = "thread_counter_track_event",
        [PLACE_PROCESS] = "process_counter_track_event",
        [PLACE_GLOBAL] = "global_counter_track_event",
    };
    static const char *const slices[] = {
        [PLACE_THREAD] = "thread_track_event",
        [PLACE_PROCESS] = "process_track_event",
        [PLACE_GLOBAL] = "global_track_event",
    };
    if (track->is_counter)
        return counters[track->place];
    return track->place == PLACE_THREAD && track->is_root ? "thread_execution"
                                                          : slices[track->place];
}

// The row of the track above, unless that is the thread's or process's own.
static int64_t parent_row(struct import *im, const struct described_track *track)
{
    struct described_track *parent =
        track->parent_uuid ? described_track_get(im, track->parent_uuid) : NULL;
    if (!parent || parent->is_root || track->is_root)
        return -1;
    return described_track_id(im, parent, STRSET_NONE);
}

uint32_t described_track_id(struct import *im, struct described_track *track, uint32_t event_name)
{
    if (track->track >= 0)
        return (uint32_t)track->track;
    bool is_own = track->place == PLACE_THREAD && track->is_root && !track->is_counter;
    uint32_t name = track->name == STRSET_NONE ? event_name : track->name;
    struct track_spec spec = {
        .type = track_type(track),
        .unit = track->unit,
        .counter = track->is_counter,
        .name = is_own ? NULL : strset_text(&im->strings, name),
        .name_size = name == STRSET_NONE || is_own ? 0 : im->strings.entries[name].size,
    };
    size_t n = 0;
    if (track->place == PLACE_THREAD)
        spec.dimensions[n++] = dimension_int("utid", track->place_id);
    if (track->place == PLACE_PROCESS)
        spec.dimensions[n++] = dimension_int("upid", track->place_id);
    if (!is_own)
        spec.dimensions[n] = dimension_int("track_uuid", (int64_t)track->uuid);
    uint64_t uuid = track->uuid;
    uint32_t id = tracks_get(&im->tracks, &spec);
    int64_t parent = parent_row(im, track);
    struct arg source[] = {
        arg_text("source", "descriptor", 10),
        arg_int("trace_id", (int64_t)uuid),
        {.key = "is_root_in_scope", .integer = track->is_root, .type = ARG_BOOL},
    };
    if (id < im->tracks.items.n && !is_own) {
        struct track *row = &im->tracks.items.items[id];
        row->parent_id = parent;
        row->source_set = args_add(&im->args, source, 3);
    }
    track = item_find(&im->track_events, uuid); // finding the parent may have moved it
    track->track = id;
    return id;
}

void track_events_done(struct track_events *events)
{
    map64_done(&events->by_uuid);
    map64_done(&events->flows);
    described_track_vec_done(&events->items);
}

static int track_descriptor_now(struct import *im, void *state, const struct packet *packet,
                                const struct wire_field *message)
{
    (void)state;
    (void)packet;
    described_track_read(im, message);
    return im->track_events.failure;
}

// Processes and threads get to know their names when their time has come.
static int track_descriptor_sorted(struct import *im, void *state, const struct packet *packet,
                                   const struct wire_field *message)
{
    (void)state;
    (void)packet;
    MESSAGE(part, PB_TrackDescriptor_parent_uuid, message);
    const struct described_track *track =
        described_track_get(im, field_u64(&part[PB_TrackDescriptor_uuid]));
    if (!track)
        return im->track_events.failure;
    if (field_present(&part[PB_TrackDescriptor_thread]) && track->place == PLACE_THREAD) {
        MESSAGE(thread, PB_ThreadDescriptor_thread_name, &part[PB_TrackDescriptor_thread]);
        const struct wire_field *name = &thread[PB_ThreadDescriptor_thread_name];
        if (name->size)
            processes_name_thread(&im->processes, track->place_id,
                                  strset_add(&im->strings, field_text(name), name->size),
                                  NAME_TRACK);
    } else if (field_present(&part[PB_TrackDescriptor_process]) && track->place == PLACE_PROCESS) {
        MESSAGE(process, PB_ProcessDescriptor_process_name, &part[PB_TrackDescriptor_process]);
        const struct wire_field *name = &process[PB_ProcessDescriptor_process_name];
        if (name->size)
            processes_name(&im->processes, track->place_id,
                           strset_add(&im->strings, field_text(name), name->size),
                           PROCESS_NAME_TRACK);
    }
    return im->track_events.failure;
}

const struct importer importer_track_descriptor = {
    .field = PB_TracePacket_track_descriptor,
    .now = track_descriptor_now,
    .sorted = track_descriptor_sorted,
};
