// SPDX-License-Identifier: Apache-2.0
//
// See track_events.h. A track without a descriptor has no parent; number 0 is the track of events
// without a track. Viewers show slice tracks with the same parent and name (or key) as one track,
// so these tracks share rows of the track table while their slices do not overlap.
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

struct described_track *described_track_find(const struct track_events *events, uint64_t uuid)
{
    const uint64_t *index = map64_find(&events->by_uuid, uuid);
    return index ? &events->items.items[*index] : NULL;
}

struct described_track *described_track_add(struct import *im, const struct described_track *made)
{
    struct track_events *events = track_events_of(im);
    if (described_track_vec_push(&events->items, *made) < 0 ||
        map64_set(&events->by_uuid, made->uuid, events->items.n - 1) < 0) {
        import_fail(im, -ENOMEM);
        return NULL;
    }
    return &events->items.items[events->items.n - 1];
}

struct described_track described_track_unknown(uint64_t uuid)
{
    return (struct described_track){
        .uuid = uuid,
        .name = STRSET_NONE,
        .description = STRSET_NONE,
        .category = STRSET_NONE,
        .share_key = STRSET_NONE,
        .merge_key = STRSET_NONE,
        .place_id = -1,
        .track = -1,
        .event_name = STRSET_NONE,
    };
}

static struct described_track *item_get(struct import *im, uint64_t uuid)
{
    struct described_track *track = described_track_find(track_events_of(im), uuid);
    if (track)
        return track;
    struct described_track made = described_track_unknown(uuid);
    if (!uuid)
        made.name = strset_add_text(&im->strings, TEXT("Default Track"));
    return described_track_add(im, &made);
}

static bool ancestors_fit(struct import *im, uint64_t uuid)
{
    const struct track_events *events = track_events_of(im);
    uint64_t seen[ANCESTORS_MAX];
    for (size_t n = 0; n < ANCESTORS_MAX; n++) {
        if (!uuid)
            return true;
        for (size_t i = 0; i < n; i++)
            if (seen[i] == uuid) {
                stats_add(&im->stats, STAT_track_event_track_hierarchy_loop, 1);
                return false;
            }
        const struct described_track *track = described_track_find(events, uuid);
        if (!track) { // a ring buffer lost the descriptor: events of tracks below stay
            stats_add(&im->stats, STAT_track_hierarchy_missing_uuid, 1);
            return true;
        }
        seen[n] = uuid;
        uuid = track->parent_uuid;
    }
    stats_add(&im->stats, STAT_track_event_track_hierarchy_too_deep, 1);
    return false;
}

// Returns true if the thread or process has another track already. A second track means that the
// tid or pid was reused. Otherwise notes the track.
static bool is_taken(struct import *im, struct map64 *owners, int64_t id, uint64_t uuid)
{
    const uint64_t *owner = map64_find(owners, (uint64_t)id);
    bool taken = owner && *owner != uuid;
    if (!taken && map64_set(owners, (uint64_t)id, uuid) < 0)
        import_fail(im, -ENOMEM);
    return taken;
}

// Replaces pid and tid of the process's namespace by pid and tid of the host.
static void numbers_translate(struct import *im, struct described_track *track)
{
    const struct pid_namespaces *namespaces = pid_namespaces_of(im);
    uint32_t tid;
    if (track->trusted_pid)
        pid_namespaces_find(namespaces, track->trusted_pid, track->pid, &track->pid);
    if (track->has_tid && track->trusted_pid &&
        pid_namespaces_find(namespaces, track->trusted_pid, (uint32_t)track->tid, &tid))
        track->tid = tid;
    else if (track->has_tid && track->is_sandboxed)
        track->tid = synthetic_tid(track->pid, track->tid);
}

static void thread_place(struct import *im, struct described_track *track)
{
    struct track_events *events = track_events_of(im);
    struct processes *processes = &im->processes;
    const struct described_track *root = described_track_find(events, 0);
    track->place = PLACE_THREAD;
    track->place_id = processes_update_thread(processes, track->tid, track->pid);
    if (is_taken(im, &events->by_utid, track->place_id, track->uuid)) {
        processes_renew_thread(processes, track->tid);
        track->place_id = processes_update_thread(processes, track->tid, track->pid);
        is_taken(im, &events->by_utid, track->place_id, track->uuid);
    }
    if (track->has_rank && root && root->orders_threads) {
        struct thread *thread = processes_thread_at(processes, track->place_id);
        thread->has_sort_index = true;
        thread->sort_index = track->rank;
    }
}

static void process_place(struct import *im, struct described_track *track)
{
    struct track_events *events = track_events_of(im);
    struct processes *processes = &im->processes;
    const struct described_track *root = described_track_find(events, 0);
    track->place = PLACE_PROCESS;
    track->place_id = processes_process(processes, track->pid);
    if (is_taken(im, &events->by_upid, track->place_id, track->uuid)) {
        track->place_id = processes_renew(processes, track->pid);
        is_taken(im, &events->by_upid, track->place_id, track->uuid);
    }
    if (track->has_rank && root && root->orders_processes) {
        struct process *process = processes_at(processes, track->place_id);
        process->has_sort_index = true;
        process->sort_index = track->rank;
    }
}

static void place_find(struct import *im, struct described_track *track,
                       const struct described_track *parent)
{
    track->is_root = track->has_pid;
    if (track->has_pid)
        numbers_translate(im, track);
    if (track->has_tid) {
        thread_place(im, track);
    } else if (track->has_pid) {
        process_place(im, track);
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
    if (!ancestors_fit(im, uuid))
        return NULL;
    // ancestors_fit() limits the depth of the recursion.
    struct described_track parent = {.place = PLACE_GLOBAL};
    if (track->parent_uuid) {
        const struct described_track *found = described_track_get(im, track->parent_uuid);
        if (!found)
            return NULL;
        parent = *found;
        track = described_track_find(track_events_of(im), uuid); // the array may have moved
    }
    place_find(im, track, &parent);
    return track;
}

static const char *track_type(const struct described_track *track, bool is_merged)
{
    static const char *const types[][4] = {
        [PLACE_THREAD] = {"thread_counter_track_event", "thread_state_track_event",
                          "thread_track_event", "thread_merged_track_event"},
        [PLACE_PROCESS] = {"process_counter_track_event", "process_state_track_event",
                           "process_track_event", "process_merged_track_event"},
        [PLACE_GLOBAL] = {"global_counter_track_event", "global_state_track_event",
                          "global_track_event", "global_merged_track_event"},
    };
    size_t kind = track->is_counter ? 0 : track->is_state ? 1 : is_merged ? 3 : 2;
    return types[track->place][kind];
}

static struct arg string_arg(const struct import *im, const char *key, uint32_t id)
{
    return arg_text(key, im->strings.entries[id].text, im->strings.entries[id].size);
}

// Returns the args with further data of a track.
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

// Returns the row of the parent track; adds a missing row. -1: the track or its parent is the own
// track of a thread or process, or there is no parent.
static int64_t parent_row(struct import *im, uint64_t uuid, const struct generation *state)
{
    const struct described_track *track = described_track_find(track_events_of(im), uuid);
    bool is_root = track->is_root;
    if (!track->parent_uuid)
        return -1;
    uint64_t parent_uuid = track->parent_uuid;
    uint32_t row = described_track_id(im, parent_uuid, STRSET_NONE, USE_PARENT, state);
    if (is_root)
        return -1;
    const struct described_track *parent = described_track_find(track_events_of(im), parent_uuid);
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

// Completes a new row. A new row has only a name.
static void row_complete(struct import *im, size_t n_before, uint32_t id, uint64_t uuid,
                         const struct generation *state, int64_t parent)
{
    if (im->tracks.items.n == n_before || id >= im->tracks.items.n)
        return;
    const struct described_track *track = described_track_find(track_events_of(im), uuid);
    bool is_root = track->is_root || !uuid;
    int64_t set = source_args(im, track, is_root, uuid ? state : NULL);
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
        .state = track->is_state,
        .name = slice_name_of(&im->strings, name),
    };
    size_t n = place_dimensions(track, &spec);
    spec.dimensions[n] = dimension_int("track_uuid", (int64_t)track->uuid);
    return tracks_get(&im->tracks, &spec);
}

uint32_t described_track_id(struct import *im, uint64_t uuid, uint32_t event_name,
                            enum track_use use, const struct generation *state)
{
    struct described_track *track = described_track_find(track_events_of(im), uuid);
    if (!track || track->place == PLACE_UNKNOWN)
        track = described_track_get(im, uuid);
    if (!track)
        return 0;
    if (track->track >= 0)
        return (uint32_t)track->track;
    bool is_first = !track->has_event_name;
    int64_t parent =
        is_first || (!track->is_root && !track->is_counter) ? parent_row(im, uuid, state) : -1;
    track = described_track_find(track_events_of(im), uuid); // parent_row() may move items
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
    bool is_merged =
        !track->is_counter && !track->is_state && !track->is_root && track->merge != MERGE_NEVER;
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
                     int64_t *ret_tid)
{
    const struct track_events *events = track_events_of(im);
    const struct epoch_thread *thread = epoch_thread(im, state);
    const uint64_t *other = thread ? NULL : map64_find(&events->threads, state->sequence_id);
    if (other)
        thread = &events->sequence_threads.items[*other];
    if (!thread)
        return false;
    *ret_pid = thread->pid;
    *ret_tid = thread->tid;
    return true;
}

static struct epoch_thread thread_read(const struct wire_field *message, bool is_sandboxed)
{
    MESSAGE(thread, ThreadDescriptor, message);
    uint32_t pid = (uint32_t)field_u64(&thread.pid);
    int64_t tid = (uint32_t)field_u64(&thread.tid);
    return (struct epoch_thread){
        .pid = pid,
        .tid = is_sandboxed ? synthetic_tid(pid, tid) : tid,
        .thread_ts = nsec_after_usec(0, field_i64(&thread.reference_thread_time_us)),
        .instructions = field_i64(&thread.reference_thread_instruction_count),
    };
}

static void thread_set(struct import *im, struct map64 *map, struct epoch_thread_vec *threads,
                       uint64_t key, struct epoch_thread thread)
{
    bool is_new;
    uint64_t *index = map64_get_or_add(map, key, threads->n, &is_new);
    if (!index || (is_new && epoch_thread_vec_push(threads, thread) < 0))
        import_fail(im, -ENOMEM);
    else
        threads->items[*index] = thread;
}

// Notes the thread of a sequence. A descriptor is valid for its whole epoch, also for earlier
// packets, and for later epochs. A descriptor of a sequence that lost packets does not count.
static void sequence_thread_now(struct import *im, const struct packet *packet,
                                const struct wire_field *message, bool is_sandboxed)
{
    struct track_events *events = track_events_of(im);
    if (packet->sequence_id &&
        sequences_is_valid(packet->sequences, packet->state->machine, packet->sequence_id))
        thread_set(im, &events->epochs, &events->epoch_threads, packet->state->epoch,
                   thread_read(message, is_sandboxed));
}

static void sequence_thread_sorted(struct import *im, const struct packet *packet,
                                   const struct wire_field *message, bool is_sandboxed)
{
    struct track_events *events = track_events_of(im);
    if (packet->sequence_id && map64_find(&events->epochs, packet->state->epoch))
        thread_set(im, &events->threads, &events->sequence_threads, packet->sequence_id,
                   thread_read(message, is_sandboxed));
}

static bool is_sandboxed(const union message_TrackDescriptor *part)
{
    MESSAGE(chrome, ChromeThreadDescriptor, &part->chrome_thread);
    return field_present(&part->chrome_thread) && field_u64(&chrome.is_sandboxed_tid);
}

static void track_descriptor_now(struct import *im, const struct packet *packet)
{
    MESSAGE(part, TrackDescriptor, packet->message);
    if (field_present(&part.thread))
        sequence_thread_now(im, packet, &part.thread, is_sandboxed(&part));
    struct wire_field pid = message_field(packet->fields, PB_TracePacket_trusted_pid);
    described_track_read(im, packet->message, (uint32_t)field_u64(&pid));
}

// Return the thread or process of a descriptor: the thread or process of its track, unless the
// descriptor contradicts the track.
static int64_t thread_of(struct import *im, const struct described_track *track,
                         const union message_TrackDescriptor *part)
{
    struct epoch_thread thread = thread_read(&part->thread, false);
    if (track->place == PLACE_THREAD && track->is_root && track->named_pid == thread.pid &&
        track->named_tid == thread.tid)
        return track->place_id;
    thread = thread_read(&part->thread, is_sandboxed(part));
    return processes_update_thread(&im->processes, thread.tid, thread.pid);
}

static int64_t process_of(struct import *im, const struct described_track *track,
                          const union message_TrackDescriptor *part)
{
    MESSAGE(process, ProcessDescriptor, &part->process);
    uint32_t pid = (uint32_t)field_u64(&process.pid);
    bool is_of_track = track->place == PLACE_PROCESS && track->is_root && track->named_pid == pid;
    return is_of_track ? track->place_id : processes_process(&im->processes, pid);
}

// False: the descriptor lacks a number. The missing number was counted in file order.
static bool has_numbers(const union message_TrackDescriptor *part)
{
    MESSAGE(thread, ThreadDescriptor, &part->thread);
    MESSAGE(process, ProcessDescriptor, &part->process);
    if (field_present(&part->thread))
        return field_present(&thread.pid) && field_present(&thread.tid);
    return !field_present(&part->process) || field_present(&process.pid);
}

// Names processes and threads, in order of time.
static void track_descriptor_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, TrackDescriptor, packet->message);
    if (field_present(&part.thread))
        sequence_thread_sorted(im, packet, &part.thread, is_sandboxed(&part));
    if (!field_present(&part.uuid) || !has_numbers(&part))
        return;
    const struct described_track *track = described_track_get(im, field_u64(&part.uuid));
    if (!track)
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
    else if (field_present(&part.thread))
        thread_describe(im, thread_of(im, track, &part), &part.thread, &part.chrome_thread);
    else if (field_present(&part.process))
        process_describe(im, process_of(im, track, &part), &part.process, &part.chrome_process);
}

// Handles older packets, which describe no track.
static void thread_descriptor_now(struct import *im, const struct packet *packet)
{
    if (!packet->sequence_id)
        stats_add(&im->stats, STAT_thread_descriptor_missing_sequence_id, 1);
    sequence_thread_now(im, packet, packet->message, false);
}

static void thread_descriptor_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(thread, ThreadDescriptor, packet->message);
    sequence_thread_sorted(im, packet, packet->message, false);
    thread_describe(im,
                    processes_update_thread(&im->processes, (uint32_t)field_u64(&thread.tid),
                                            (uint32_t)field_u64(&thread.pid)),
                    packet->message, &(struct wire_field){0});
}

static void process_descriptor_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(process, ProcessDescriptor, packet->message);
    process_describe(im, processes_process(&im->processes, (uint32_t)field_u64(&process.pid)),
                     packet->message, &(struct wire_field){0});
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
    epoch_thread_vec_done(&events->sequence_threads);
    map64_done(&events->counters);
    counter_sum_vec_done(&events->counter_sums);
    map64_done(&events->by_utid);
    map64_done(&events->by_upid);
    map64_done(&events->flows);
    map64_done(&events->async_names);
    map64_done(&events->named_flow_ids);
    named_flow_vec_done(&events->named_flows);
    map64_done(&events->waiting);
    waiting_flow_vec_done(&events->waiting_flows);
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
