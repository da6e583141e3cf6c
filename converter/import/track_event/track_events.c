// SPDX-License-Identifier: Apache-2.0
//
// See track_events.h. A track without a descriptor stands alone; number 0 is the track of events
// without a track. Slice tracks with the same parent and name (or key) are shown as one, so they
// share rows of the track table while their slices do not overlap.
#include "converter/import/track_event/track_events.h"

#include <errno.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/decode/thread_clock.h"
#include "converter/import/importer.h"
#include "converter/import/process/pid_namespaces.h"
#include "protos/fields.h"

#define ANCESTORS_MAX 100 // as in Perfetto

static const char thread_time_name[] = "thread_time";
static const char instructions_name[] = "thread_instruction_count";

static struct described_track *item_find(const struct track_events *events, uint64_t uuid)
{
    const uint64_t *index = map64_find(&events->by_uuid, uuid);
    return index ? &events->items.items[*index] : NULL;
}

static struct described_track *item_get(struct import *im, uint64_t uuid)
{
    struct track_events *events = track_events_of(im);
    struct described_track *track = item_find(events, uuid);
    if (track)
        return track;
    struct described_track made = {
        .uuid = uuid,
        .name = STRSET_NONE,
        .description = STRSET_NONE,
        .category = STRSET_NONE,
        .share_key = STRSET_NONE,
        .merge_key = STRSET_NONE,
        .multiplier = 1,
        .place_id = -1,
        .track = -1,
        .event_name = STRSET_NONE,
    };
    if (!uuid)
        made.name = strset_add_text(&im->strings, TEXT("Default Track"));
    if (described_track_vec_push(&events->items, made) < 0 ||
        map64_set(&events->by_uuid, uuid, events->items.n - 1) < 0) {
        import_fail(im, -ENOMEM);
        return NULL;
    }
    return &events->items.items[events->items.n - 1];
}

static void categories_read(struct import *im, struct described_track *track,
                            const struct wire_field *field)
{
    CLEANUP(strbuf_done) struct strbuf all = {0};
    for (struct fields each = fields_of(field, PB_CounterDescriptor_categories);
         fields_next(&each);) {
        if (all.size)
            strbuf_add_char(&all, ',');
        strbuf_add(&all, field_text(&each.field), each.field.size);
    }
    if (all.size)
        track->category = import_strbuf_keep(im, &all);
}

static void counter_read(struct import *im, struct described_track *track,
                         const struct wire_field *field)
{
    static const char *const units[] = {
        [PB_UNIT_TIME_NS] = "ns",
        [PB_CounterDescriptor_UNIT_COUNT] = "count",
        [PB_UNIT_SIZE_BYTES] = "bytes",
    };
    MESSAGE(counter, CounterDescriptor, field);
    track->is_counter = true;
    track->is_incremental = field_u64(&counter.is_incremental) != 0;
    int64_t multiplier = field_i64(&counter.unit_multiplier);
    track->multiplier = multiplier > 0 ? multiplier : 1;
    uint64_t unit = field_u64(&counter.unit);
    uint64_t type = field_u64(&counter.type);
    if (type == PB_COUNTER_THREAD_TIME_NS) {
        unit = PB_UNIT_TIME_NS;
        track->builtin_type = thread_time_name;
    }
    if (type == PB_COUNTER_THREAD_INSTRUCTION_COUNT) {
        unit = PB_CounterDescriptor_UNIT_COUNT;
        track->builtin_type = instructions_name;
    }
    if (track->name == STRSET_NONE && track->builtin_type)
        track->name = strset_add(&im->strings, track->builtin_type, strlen(track->builtin_type));
    if (unit && unit < ELEMENTS(units))
        track->unit = units[unit];
    else if (field_present(&counter.unit_name))
        track->unit = strset_text(&im->strings, import_keep(im, &counter.unit_name));
    if (field_present(&counter.y_axis_share_key))
        track->share_key = import_keep(im, &counter.y_axis_share_key);
    categories_read(im, track, field);
}

static void merge_read(struct import *im, struct described_track *track,
                       const union message_TrackDescriptor *part)
{
    switch (field_u64(&part->sibling_merge_behavior)) {
    case PB_SIBLING_MERGE_BEHAVIOR_NONE:
        track->merge = MERGE_NEVER;
        break;
    case PB_SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY:
        track->merge = MERGE_BY_KEY;
        if (field_present(&part->sibling_merge_key)) {
            track->merge_key = import_keep(im, &part->sibling_merge_key);
        } else if (field_present(&part->sibling_merge_key_int)) {
            char text[64];
            int n = snprintf(text, sizeof(text), "sibling_merge_key_int:%llu",
                             (unsigned long long)field_u64(&part->sibling_merge_key_int));
            track->merge_key = strset_add(&im->strings, text, (size_t)n);
        }
        break;
    default:
        break;
    }
}

static void place_read(struct described_track *track, const union message_TrackDescriptor *part)
{
    if (field_present(&part->thread)) {
        MESSAGE(thread, ThreadDescriptor, &part->thread);
        track->pid = (uint32_t)field_u64(&thread.pid);
        track->tid = (uint32_t)field_u64(&thread.tid);
        track->has_tid = track->has_pid = true;
    } else if (field_present(&part->process)) {
        MESSAGE(process, ProcessDescriptor, &part->process);
        track->pid = (uint32_t)field_u64(&process.pid);
        track->has_pid = true;
    }
}

void described_track_read(struct import *im, const struct wire_field *descriptor,
                          uint32_t trusted_pid)
{
    MESSAGE(part, TrackDescriptor, descriptor);
    if (!field_present(&part.uuid)) {
        stats_add(&im->stats, STAT_track_descriptor_missing_uuid, 1);
        return;
    }
    struct described_track *track = item_get(im, field_u64(&part.uuid));
    if (!track)
        return;
    const struct wire_field *name = &part.name;
    if (!field_present(name))
        name = &part.static_name;
    if (!field_present(name))
        name = &part.atrace_name;
    merge_read(im, track, &part);
    if (field_present(name) && (track->name == STRSET_NONE || track->merge == MERGE_NEVER ||
                                track->is_counter || !track->uuid))
        track->name = import_keep(im, name);
    if (field_present(&part.parent_uuid))
        track->parent_uuid = field_u64(&part.parent_uuid);
    if (field_present(&part.description))
        track->description = import_keep(im, &part.description);
    if (field_present(&part.child_ordering))
        track->child_ordering = (uint8_t)field_u64(&part.child_ordering);
    if (field_present(&part.sibling_order_rank)) {
        track->has_rank = true;
        track->rank = (int32_t)field_u64(&part.sibling_order_rank);
    }
    track->is_separate |= field_u64(&part.disallow_merging_with_system_tracks) != 0;
    place_read(track, &part);
    if (trusted_pid)
        track->trusted_pid = trusted_pid;
    if (field_present(&part.counter))
        counter_read(im, track, &part.counter);
}

static bool ancestors_fit(struct import *im, const struct described_track *track)
{
    const struct track_events *events = track_events_of(im);
    uint64_t seen[ANCESTORS_MAX];
    size_t n = 0;
    while (track && track->parent_uuid) {
        for (size_t i = 0; i < n; i++)
            if (seen[i] == track->uuid) {
                stats_add(&im->stats, STAT_track_event_track_hierarchy_loop, 1);
                return false;
            }
        if (n == ANCESTORS_MAX) {
            stats_add(&im->stats, STAT_track_event_track_hierarchy_too_deep, 1);
            return false;
        }
        seen[n++] = track->uuid;
        track = item_find(events, track->parent_uuid);
    }
    return true;
}

// A thread or process has one track of its own. A second track means that the tid or pid was
// reused.
static bool is_taken(struct import *im, struct map64 *owners, int64_t id, uint64_t uuid)
{
    const uint64_t *owner = map64_find(owners, (uint64_t)id);
    bool taken = owner && *owner != uuid;
    if (!taken && map64_set(owners, (uint64_t)id, uuid) < 0)
        import_fail(im, -ENOMEM);
    return taken;
}

static void place_find(struct import *im, struct described_track *track,
                       const struct described_track *parent)
{
    struct track_events *events = track_events_of(im);
    struct processes *processes = &im->processes;
    track->is_root = track->has_pid;
    if (track->has_pid && track->trusted_pid) {
        const struct pid_namespaces *namespaces = pid_namespaces_of(im);
        pid_namespaces_find(namespaces, track->trusted_pid, track->pid, &track->pid);
        if (track->has_tid)
            pid_namespaces_find(namespaces, track->trusted_pid, track->tid, &track->tid);
    }
    if (track->has_tid) {
        track->place = PLACE_THREAD;
        track->place_id = processes_update_thread(processes, track->tid, track->pid);
        if (is_taken(im, &events->by_utid, track->place_id, track->uuid)) {
            processes_renew_thread(processes, track->tid);
            track->place_id = processes_update_thread(processes, track->tid, track->pid);
            is_taken(im, &events->by_utid, track->place_id, track->uuid);
        }
    } else if (track->has_pid) {
        track->place = PLACE_PROCESS;
        track->place_id = processes_process(processes, track->pid);
        if (is_taken(im, &events->by_upid, track->place_id, track->uuid)) {
            track->place_id = processes_renew(processes, track->pid);
            is_taken(im, &events->by_upid, track->place_id, track->uuid);
        }
    } else {
        track->place = parent->place;
        track->place_id = parent->place_id;
    }
}

struct described_track *described_track_get(struct import *im, uint64_t uuid)
{
    struct described_track *track = item_get(im, uuid);
    if (!track || track->place != PLACE_UNKNOWN)
        return track;
    if (!ancestors_fit(im, track))
        return NULL;
    // Depth is limited by the check above.
    struct described_track parent = {.place = PLACE_GLOBAL};
    if (track->parent_uuid) {
        const struct described_track *found = described_track_get(im, track->parent_uuid);
        if (!found)
            return NULL;
        parent = *found;
        track = item_find(track_events_of(im), uuid); // the array may have moved
    }
    place_find(im, track, &parent);
    return track;
}

static const char *track_type(const struct described_track *track, bool is_merged)
{
    static const char *const types[][3] = {
        [PLACE_THREAD] = {"thread_counter_track_event", "thread_track_event",
                          "thread_merged_track_event"},
        [PLACE_PROCESS] = {"process_counter_track_event", "process_track_event",
                           "process_merged_track_event"},
        [PLACE_GLOBAL] = {"global_counter_track_event", "global_track_event",
                          "global_merged_track_event"},
    };
    return types[track->place][track->is_counter ? 0 : is_merged ? 2 : 1];
}

static struct arg string_arg(const struct import *im, const char *key, uint32_t id)
{
    return arg_text(key, im->strings.entries[id].text, im->strings.entries[id].size);
}

// Further data of a track, as args.
static int64_t source_args(struct import *im, const struct described_track *track, bool is_root,
                           const struct generation *state)
{
    static const char *const orderings[] = {NULL, "lexicographic", "chronological", "explicit"};
    struct arg args[10] = {
        arg_of_text("source", TEXT("descriptor")),
        arg_int("trace_id", (int64_t)track->uuid),
        arg_bool("is_root_in_scope", is_root),
    };
    size_t n = 3;
    if (track->category != STRSET_NONE)
        ARG_APPEND(args, n, string_arg(im, "category", track->category));
    if (track->builtin_type)
        ARG_APPEND(
            args, n,
            arg_text("builtin_counter_type", track->builtin_type, strlen(track->builtin_type)));
    if (track->share_key != STRSET_NONE)
        ARG_APPEND(args, n, string_arg(im, "y_axis_share_key", track->share_key));
    if (state && state->has_first)
        ARG_APPEND(args, n, arg_bool("has_first_packet_on_sequence", 1));
    if (track->child_ordering && track->child_ordering < ELEMENTS(orderings))
        ARG_APPEND(args, n,
                   arg_text("child_ordering", orderings[track->child_ordering],
                            strlen(orderings[track->child_ordering])));
    if (track->has_rank)
        ARG_APPEND(args, n, arg_int("sibling_order_rank", track->rank));
    if (track->description != STRSET_NONE)
        ARG_APPEND(args, n, string_arg(im, "description", track->description));
    return args_add(&im->args, args, n);
}

// The row of the parent track, created if missing; -1 if either is the own track of a thread or
// process.
static int64_t parent_row(struct import *im, uint64_t uuid, const struct generation *state)
{
    const struct described_track *track = item_find(track_events_of(im), uuid);
    bool is_root = track->is_root;
    if (!track->parent_uuid)
        return -1;
    uint64_t parent_uuid = track->parent_uuid;
    uint32_t row = described_track_id(im, parent_uuid, STRSET_NONE, USE_PARENT, state);
    if (is_root)
        return -1;
    const struct described_track *parent = item_find(track_events_of(im), parent_uuid);
    return parent && !parent->is_root ? (int64_t)row : -1;
}

// Sets the dimensions of the track's place, and returns their number.
static size_t place_dimensions(const struct described_track *track, struct track_spec *spec)
{
    if (track->place == PLACE_GLOBAL)
        return 0;
    spec->dimensions[0] =
        dimension_int(track->place == PLACE_THREAD ? "utid" : "upid", track->place_id);
    return 1;
}

// Completes a new row, which only has a name.
static void row_complete(struct import *im, size_t n_before, uint32_t id, uint64_t uuid,
                         const struct generation *state, int64_t parent)
{
    if (im->tracks.items.n == n_before || id >= im->tracks.items.n)
        return;
    const struct described_track *track = item_find(track_events_of(im), uuid);
    bool is_root = track->is_root || !uuid;
    int64_t set = source_args(im, track, is_root, state);
    struct track *row = &im->tracks.items.items[id];
    row->parent_id = parent;
    row->source_set = set;
    row->description = strset_text(&im->strings, track->description);
}

static uint32_t merged_track(struct import *im, const struct described_track *track, uint32_t name,
                             enum track_use use)
{
    struct track_spec spec = {
        .type = track_type(track, true),
        .name = slice_name_of(&im->strings, name),
    };
    uint32_t key = track->merge == MERGE_BY_KEY ? track->merge_key : name;
    size_t n = place_dimensions(track, &spec);
    spec.dimensions[n++] = dimension_int("parent_track_uuid", (int64_t)track->parent_uuid);
    spec.dimensions[n++] = dimension_int("merge_key_type", track->merge);
    spec.dimensions[n] = dimension_name("merge_key_value", slice_name_of(&im->strings, key));
    int64_t cookie = (int64_t)track->uuid;
    switch (use) {
    case USE_BEGIN:
        return async_track_begin(&im->async_tracks, &spec, cookie, false);
    case USE_END:
        return async_track_end(&im->async_tracks, &spec, cookie);
    case USE_INSTANT:
        async_track_begin(&im->async_tracks, &spec, cookie, false);
        return async_track_end(&im->async_tracks, &spec, cookie);
    default:
        return async_track_first(&im->async_tracks, &spec);
    }
}

static uint32_t own_track(struct import *im, const struct described_track *track, uint32_t name)
{
    struct track_spec spec = {
        .type = track_type(track, false),
        .unit = track->unit,
        .counter = track->is_counter,
        .name = slice_name_of(&im->strings, name),
    };
    size_t n = place_dimensions(track, &spec);
    spec.dimensions[n] = dimension_int("track_uuid", (int64_t)track->uuid);
    return tracks_get(&im->tracks, &spec);
}

uint32_t described_track_id(struct import *im, uint64_t uuid, uint32_t event_name,
                            enum track_use use, const struct generation *state)
{
    struct described_track *track = item_find(track_events_of(im), uuid);
    if (!track || track->place == PLACE_UNKNOWN)
        track = described_track_get(im, uuid);
    if (!track)
        return 0;
    if (track->track >= 0)
        return (uint32_t)track->track;
    bool is_first = !track->has_event_name;
    int64_t parent =
        is_first || (!track->is_root && !track->is_counter) ? parent_row(im, uuid, state) : -1;
    track = item_find(track_events_of(im), uuid); // finding the parent may have moved it
    if (track->place == PLACE_THREAD && track->is_root && !track->is_counter &&
        !track->is_separate) {
        struct track_spec spec = {.type = "thread_execution",
                                  .dimensions = {dimension_int("utid", track->place_id)}};
        track->track = tracks_get(&im->tracks, &spec);
        return (uint32_t)track->track;
    }
    if (is_first) {
        track->has_event_name = true;
        track->event_name = track->is_counter || track->is_root ? STRSET_NONE : event_name;
    }
    uint32_t name = track->name == STRSET_NONE ? track->event_name : track->name;
    if (track->place == PLACE_PROCESS)
        name = translate_process_track(&im->translations, name);
    bool is_merged = !track->is_counter && !track->is_root && track->merge != MERGE_NEVER;
    size_t n_before = im->tracks.items.n;
    uint32_t id = is_merged ? merged_track(im, track, name, use) : own_track(im, track, name);
    if (!is_merged)
        track->track = id;
    row_complete(im, n_before, id, uuid, state, parent);
    return id;
}

struct epoch_thread *epoch_thread(struct import *im, const struct generation *state)
{
    const uint64_t *index = map64_find(&track_events_of(im)->epochs, state->epoch);
    return index ? &track_events_of(im)->epoch_threads.items[*index] : NULL;
}

bool sequence_thread(struct import *im, const struct generation *state, uint32_t *ret_pid,
                     uint32_t *ret_tid)
{
    const struct epoch_thread *own = epoch_thread(im, state);
    const uint64_t *other = map64_find(&track_events_of(im)->threads, state->sequence_id);
    if (!own && !other)
        return false;
    *ret_pid = own ? own->pid : (uint32_t)(*other >> 32);
    *ret_tid = own ? own->tid : (uint32_t)*other;
    return true;
}

// A descriptor is valid for its whole epoch, even for earlier packets of it, and for later epochs.
static void sequence_thread_now(struct import *im, const struct packet *packet,
                                const struct wire_field *message)
{
    struct track_events *events = track_events_of(im);
    if (!packet->sequence_id)
        return;
    MESSAGE(thread, ThreadDescriptor, message);
    struct epoch_thread found = {
        .pid = (uint32_t)field_u64(&thread.pid),
        .tid = (uint32_t)field_u64(&thread.tid),
        .thread_ts = nsec_after_usec(0, field_i64(&thread.reference_thread_time_us)),
        .instructions = field_i64(&thread.reference_thread_instruction_count),
    };
    bool is_new;
    uint64_t *index =
        map64_get_or_add(&events->epochs, packet->state->epoch, events->epoch_threads.n, &is_new);
    if (!index || (is_new && epoch_thread_vec_push(&events->epoch_threads, found) < 0))
        import_fail(im, -ENOMEM);
    else
        events->epoch_threads.items[*index] = found;
}

static void sequence_thread_sorted(struct import *im, const struct packet *packet,
                                   const struct wire_field *message)
{
    MESSAGE(thread, ThreadDescriptor, message);
    uint64_t pid = (uint32_t)field_u64(&thread.pid);
    uint64_t tid = (uint32_t)field_u64(&thread.tid);
    if (packet->sequence_id &&
        map64_set(&track_events_of(im)->threads, packet->sequence_id, pid << 32 | tid) < 0)
        import_fail(im, -ENOMEM);
}

static void track_descriptor_now(struct import *im, const struct packet *packet)
{
    MESSAGE(part, TrackDescriptor, packet->message);
    if (field_present(&part.thread))
        sequence_thread_now(im, packet, &part.thread);
    struct wire_field pid = message_field(packet->fields, PB_TracePacket_trusted_pid);
    described_track_read(im, packet->message, (uint32_t)field_u64(&pid));
}

static void thread_name(struct import *im, int64_t utid, const struct wire_field *message)
{
    MESSAGE(thread, ThreadDescriptor, message);
    if (thread.thread_name.size)
        processes_name_thread(&im->processes, utid, import_keep(im, &thread.thread_name),
                              NAME_TRACK);
}

static void process_describe(struct import *im, int64_t upid, const struct wire_field *message)
{
    MESSAGE(process, ProcessDescriptor, message);
    int64_t start_ts = field_i64(&process.start_timestamp_ns);
    struct process *row = processes_at(&im->processes, upid);
    if (start_ts > 0 && !row->has_start) {
        row->start_ts = start_ts;
        row->has_start = true;
    }
    if (process.process_name.size)
        processes_name(&im->processes, upid, import_keep(im, &process.process_name),
                       PROCESS_NAME_TRACK);
}

// Processes and threads get their names in order of time.
static void track_descriptor_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, TrackDescriptor, packet->message);
    if (field_present(&part.thread))
        sequence_thread_sorted(im, packet, &part.thread);
    if (!field_present(&part.uuid))
        return;
    const struct described_track *track = described_track_get(im, field_u64(&part.uuid));
    if (track && field_present(&part.thread) && track->place == PLACE_THREAD)
        thread_name(im, track->place_id, &part.thread);
    else if (track && field_present(&part.process) && track->place == PLACE_PROCESS)
        process_describe(im, track->place_id, &part.process);
}

// The older packets, which describe no track.
static void thread_descriptor_now(struct import *im, const struct packet *packet)
{
    if (!packet->sequence_id)
        stats_add(&im->stats, STAT_thread_descriptor_missing_sequence_id, 1);
    sequence_thread_now(im, packet, packet->message);
}

static void thread_descriptor_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(thread, ThreadDescriptor, packet->message);
    sequence_thread_sorted(im, packet, packet->message);
    thread_name(im,
                processes_update_thread(&im->processes, (uint32_t)field_u64(&thread.tid),
                                        (uint32_t)field_u64(&thread.pid)),
                packet->message);
}

static void process_descriptor_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(process, ProcessDescriptor, packet->message);
    process_describe(im, processes_process(&im->processes, (uint32_t)field_u64(&process.pid)),
                     packet->message);
}

struct track_events *track_events_of(const struct import *im)
{
    return importer_state(im, &importer_track_descriptor);
}

static void track_events_done(void *state)
{
    struct track_events *events = state;
    map64_done(&events->by_uuid);
    map64_done(&events->threads);
    map64_done(&events->epochs);
    epoch_thread_vec_done(&events->epoch_threads);
    map64_done(&events->by_utid);
    map64_done(&events->by_upid);
    map64_done(&events->flows);
    map64_done(&events->async_names);
    flow_end_vec_done(&events->flow_ends);
    described_track_vec_done(&events->items);
}

const struct importer importer_track_descriptor = {
    .field = PB_TracePacket_track_descriptor,
    .now = track_descriptor_now,
    .sorted = track_descriptor_sorted,
    .state_size = sizeof(struct track_events),
    .done = track_events_done,
};

const struct importer importer_thread_descriptor = {
    .field = PB_TracePacket_thread_descriptor,
    .now = thread_descriptor_now,
    .sorted = thread_descriptor_sorted,
    .shares = &importer_track_descriptor,
};

const struct importer importer_process_descriptor = {
    .field = PB_TracePacket_process_descriptor,
    .sorted = process_descriptor_sorted,
    .shares = &importer_track_descriptor,
};
