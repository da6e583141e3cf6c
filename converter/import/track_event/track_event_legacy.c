// SPDX-License-Identifier: Apache-2.0
//
// Track events that Chrome wrote before tracks were described: a phase letter is the kind of the
// event, the sequence has the thread, and slices that may overlap have an id.
#include <errno.h>

#include "converter/decode/thread_clock.h"
#include "converter/import/arg_writer.h"
#include "converter/import/track_event/track_event.h"
#include "protos/fields.h"

#define TID_ANY (-1) // thread of an event that has only a process

static int64_t nsec_from_usec(const struct wire_field *field)
{
    return (int64_t)(field_u64(field) * NSEC_PER_USEC);
}

static bool is_asynchronous(uint64_t phase)
{
    return phase && phase < 128 && strchr("benSTpF", (char)phase);
}

static uint64_t phase_of(const struct event *event)
{
    return field_u64(&event->legacy.phase);
}

// Sets passthrough_utid. Global instants and instants of a process have no thread.
static void thread_pass(struct event *event)
{
    uint64_t phase = phase_of(event);
    uint64_t scope = field_u64(&event->legacy.instant_event_scope);
    bool is_moment = phase == 'i' || phase == 'I';
    if (is_asynchronous(phase) && event->utid != UTID_NONE)
        event->passthrough_utid = event->utid;
    if (is_moment && (scope == PB_SCOPE_GLOBAL || scope == PB_SCOPE_PROCESS)) {
        event->passthrough_utid = event->utid;
        event->utid = UTID_NONE;
    }
}

bool event_legacy_place(struct event *event, bool has_thread, uint32_t pid, int64_t tid)
{
    struct import *im = event->im;
    const struct wire_field *own_pid = &event->legacy.pid_override;
    const struct wire_field *own_tid = &event->legacy.tid_override;
    bool has_track = field_present(&event->fields.track_uuid);
    bool has_type = field_present(&event->fields.type);
    event->is_of_thread = (has_thread && (!has_track || !has_type)) || field_present(own_pid) ||
                          (has_thread && field_present(own_tid));
    if (!event->is_of_thread)
        return described_track_get(im, 0) != NULL;
    bool is_synthetic = has_thread && tid_is_synthetic(tid);
    if (field_present(own_pid)) {
        pid = (uint32_t)field_u64(own_pid);
        tid = TID_ANY;
    }
    if (field_present(own_tid)) {
        tid = (uint32_t)field_u64(own_tid);
        if (is_synthetic)
            tid = synthetic_tid(pid, tid);
    }
    if (!pid || !tid) // an event of an idle thread
        return false;
    event->utid = processes_update_thread(&im->processes, tid, pid);
    event->upid = processes_thread_at(&im->processes, event->utid)->upid;
    thread_pass(event);
    return true;
}

static void time_counter(struct event *event, const char *type, const char *name, int64_t value)
{
    struct import *im = event->im;
    struct track_spec spec = {
        .type = type,
        .counter = true,
        .dimensions = {dimension_int("utid", event->utid)},
        .name = slice_name(name),
    };
    counter_push(im, event->packet->ts, tracks_get(&im->tracks, &spec), (double)value,
                 ARG_SET_NONE);
}

// Adds differences in order of time. For the events of a thread, this order is file order.
static void differences_add(struct event *event)
{
    const struct wire_field *time = &event->fields.thread_time_delta_us;
    const struct wire_field *count = &event->fields.thread_instruction_count_delta;
    if (!field_present(time) && !field_present(count))
        return;
    struct epoch_thread *thread = epoch_thread(event->im, event->packet->state);
    if (!thread)
        return;
    if (field_present(time)) {
        thread->thread_ts = nsec_after_usec(thread->thread_ts, field_i64(time));
        event->has_thread_ts = true;
        event->thread_ts = thread->thread_ts;
    }
    if (field_present(count)) {
        thread->instructions = (int64_t)((uint64_t)thread->instructions + field_u64(count));
        event->has_instructions = true;
        event->instructions = thread->instructions;
    }
}

void event_legacy_times(struct event *event)
{
    const struct wire_field *time = &event->fields.thread_time_absolute_us;
    const struct wire_field *count = &event->fields.thread_instruction_count_absolute;
    if (field_present(time)) {
        event->has_thread_ts = true;
        event->thread_ts = nsec_from_usec(time);
    }
    if (field_present(count)) {
        event->has_instructions = true;
        event->instructions = field_i64(count);
    }
    differences_add(event);
    if (event->utid == UTID_NONE)
        return;
    if (event->has_thread_ts)
        time_counter(event, "thread_time", "thread_time", event->thread_ts);
    if (event->has_instructions)
        time_counter(event, "thread_instructions", "thread_instruction_count", event->instructions);
}

// *ret: the id of an asynchronous slice. *ret_local: the id is unique in its process only. False:
// no id.
static bool source_id(const struct event *event, int64_t *ret, bool *ret_local)
{
    const union message_TrackEvent_LegacyEvent *legacy = &event->legacy;
    const struct wire_field *id = &legacy->unscoped_id;
    if (!field_present(id))
        id = &legacy->global_id;
    bool is_local = !field_present(id);
    if (is_local)
        id = &legacy->local_id;
    if (!field_present(id) || (is_local && event->upid == UPID_NONE))
        return false;
    *ret = field_i64(id);
    *ret_local = is_local;
    return true;
}

static struct slice_name scope_text(const struct event *event, char phase)
{
    const struct wire_field *scope = &event->legacy.id_scope;
    struct slice_name category = event_string(event, event->category);
    if (field_present(scope)) {
        struct strbuf text = {0};
        strbuf_add(&text, category.text ? category.text : "", category.size);
        strbuf_add_char(&text, ':');
        strbuf_add(&text, field_text(scope), scope->size);
        uint32_t id = import_strbuf_keep(event->im, &text);
        strbuf_done(&text);
        return event_string(event, id);
    }
    return strchr("STpF", phase) ? event_string(event, event->name) : category;
}

static uint32_t track_name(const struct event *event, bool local)
{
    return local ? translate_process_track(&event->im->translations, event->name) : event->name;
}

// Returns the name for the tracks of an id: the first name of the id's slices.
static struct slice_name root_name(struct event *event, bool local, int64_t id)
{
    struct import *im = event->im;
    uint64_t key = hash_u64((uint64_t)id) ^ (local ? hash_u64((uint64_t)event->upid + 1) : 0);
    bool is_new;
    uint32_t first = track_name(event, local);
    const uint64_t *name = map64_get_or_add(&track_events_of(im)->async_names, key, first, &is_new);
    return event_string(event, name ? (uint32_t)*name : first);
}

static uint32_t asynchronous_track(struct event *event, char phase, int64_t id, bool local)
{
    struct import *im = event->im;
    struct slice_name scope = scope_text(event, phase), root = root_name(event, local, id);
    struct slice_name name = event_string(event, track_name(event, local));
    struct track_spec spec = {
        .type = local ? "legacy_async_process_slice" : "legacy_async_global_slice",
        .name = name,
    };
    size_t n = 0;
    if (local)
        spec.dimensions[n++] = dimension_int("upid", event->upid);
    spec.dimensions[n++] = dimension_text("scope", scope.text, scope.size);
    spec.dimensions[n] = dimension_text("name", root.text, root.size);
    uint32_t track;
    size_t n_before = im->tracks.items.n;
    // As in Perfetto, T ends the use of its track and F does not.
    if (phase == 'b' || phase == 'S') {
        track = async_track_begin(&im->async_tracks, &spec, id, false);
    } else if (phase == 'e' || phase == 'T') {
        track = async_track_end(&im->async_tracks, &spec, id);
    } else {
        async_track_begin(&im->async_tracks, &spec, id, false);
        track = async_track_end(&im->async_tracks, &spec, id);
    }
    if (im->tracks.items.n > n_before && track < im->tracks.items.n) {
        struct arg args[] = {
            arg_of_text("source", TEXT("chrome")),
            arg_bool("trace_id_is_process_scoped", local),
            arg_uint("upid", event->upid == UPID_NONE ? 0 : (uint64_t)event->upid),
            arg_text("source_scope", scope.text, scope.size),
        };
        im->tracks.items.items[track].source_set = args_add(&im->args, args, 4);
    }
    return track;
}

static uint32_t moment_track(struct event *event, bool of_process)
{
    struct import *im = event->im;
    struct track_spec spec = {.type = "legacy_chrome_global_instants"};
    if (of_process) {
        spec.type = "chrome_process_instant";
        spec.dimensions[0] = dimension_int("upid", event->upid);
    }
    size_t n_before = im->tracks.items.n;
    uint32_t track = tracks_get(&im->tracks, &spec);
    struct arg source = arg_of_text("source", TEXT("chrome"));
    if (im->tracks.items.n > n_before)
        im->tracks.items.items[track].source_set = args_add(&im->args, &source, 1);
    return track;
}

static void phase_arg(struct event *event, char phase, struct arg_vec *args)
{
    struct slice_name text = import_text(event->im, "%c", phase);
    import_fail(event->im,
                arg_vec_push(args, arg_text("legacy_event.phase", text.text, text.size)));
}

static void bound_flow(struct event *event, int64_t slice, int64_t ts)
{
    static const enum flow_use uses[] = {
        [PB_FLOW_IN] = FLOW_END, [PB_FLOW_OUT] = FLOW_BEGIN, [PB_FLOW_INOUT] = FLOW_STEP};
    const struct wire_field *bind = &event->legacy.bind_id;
    uint64_t direction = field_u64(&event->legacy.flow_direction);
    if (field_present(bind) && direction && direction < ELEMENTS(uses))
        flow_apply(event->im, field_u64(bind), (struct flow_end){slice, ts}, uses[direction]);
    else if (field_present(bind))
        stats_add(&event->im->stats, STAT_flow_without_direction, 1);
    event_flows(event, slice, ts);
}

// *ret: the number of a flow that has an id, a category and a name. False: memory ran out.
static bool named_flow(struct event *event, uint64_t id, uint64_t *ret)
{
    struct import *im = event->im;
    struct track_events *all = track_events_of(im);
    uint64_t key[] = {id, event->category, event->name};
    bool is_new;
    uint64_t *number = import_map_get(im, &all->named_flow_ids, hash_bytes(key, sizeof(key)),
                                      all->named_flows.n, &is_new);
    if (!number)
        return false;
    *ret = *number;
    struct named_flow named = {event->category, event->name};
    if (is_new && named_flow_vec_push(&all->named_flows, named) < 0)
        import_fail(im, -ENOMEM);
    return !import_failed(im);
}

// Ends the flows that wait for this slice.
static void waiting_flows_end(void *userdata, uint32_t track, int64_t slice, int64_t ts)
{
    struct import *im = userdata;
    struct track_events *all = track_events_of(im);
    const uint64_t *last = map64_find(&all->waiting, track);
    if (!last)
        return;
    uint32_t end = (uint32_t)*last, i = end;
    map64_remove(&all->waiting, track);
    do {
        i = all->waiting_flows.items[i].next;
        flow_apply(im, all->waiting_flows.items[i].flow, (struct flow_end){slice, ts}, FLOW_END);
    } while (i != end);
    if (!all->waiting.n)
        all->waiting_flows.n = 0;
}

// Makes the flow end at the next slice of the track. The waiting flows of a track form a ring; the
// map has the last flow of the ring.
static void flow_wait(struct import *im, uint32_t track, uint64_t flow)
{
    struct track_events *all = track_events_of(im);
    struct waiting_flow_vec *flows = &all->waiting_flows;
    uint32_t at = (uint32_t)flows->n;
    bool is_new;
    uint64_t *last = import_map_get(im, &all->waiting, track, at, &is_new);
    if (!last || waiting_flow_vec_push(flows, (struct waiting_flow){flow, at}) < 0) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (!is_new) {
        flows->items[at].next = flows->items[*last].next;
        flows->items[*last].next = at;
        *last = at;
    }
    im->slices.begun = waiting_flows_end;
    im->slices.userdata = im;
    slice_await(&im->slices, track);
}

// Handles s, t and f: flows between open slices of threads. An end may precede its slice.
static void flow_event(struct event *event, char phase, uint32_t track)
{
    struct import *im = event->im;
    const struct wire_field *id = &event->legacy.unscoped_id;
    uint64_t flow;
    if (!field_present(id)) {
        stats_add(&im->stats, STAT_flow_invalid_id, 1);
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
        return;
    }
    if (!named_flow(event, field_u64(id), &flow))
        return;
    if (phase == 'f' && !field_u64(&event->legacy.bind_to_enclosing)) {
        flow_wait(im, track, flow);
        return;
    }
    int64_t ts, slice = slices_top(&im->slices, track, &ts);
    if (slice == SLICE_NONE)
        stats_add(&im->stats, STAT_flow_no_enclosing_slice, 1);
    else
        flow_apply(im, flow, (struct flow_end){slice, ts},
                   phase == 's'   ? FLOW_BEGIN
                   : phase == 't' ? FLOW_STEP
                                  : FLOW_END);
}

// Reads names of threads and processes, which are in annotations.
static void name_event(struct event *event)
{
    struct import *im = event->im;
    struct slice_name what = event_string(event, event->name);
    MESSAGE(annotation, DebugAnnotation, &event->fields.debug_annotations);
    const struct wire_field *value = &annotation.string_value;
    if (!what.text || !value->size)
        return;
    uint32_t name = strset_add(&im->strings, field_text(value), value->size);
    if (str_eq(what.text, "thread_name") && event->utid != UTID_NONE)
        processes_name_thread(&im->processes, event->utid, name, NAME_TRACK_TYPE);
    else if (str_eq(what.text, "process_name") && event->upid != UPID_NONE)
        processes_name(&im->processes, event->upid, name, PROCESS_NAME_TRACK);
}

// Returns the row of the event's own track, or of the default track.
static uint32_t named_track(const struct event *event, char phase)
{
    enum track_use use = strchr("BbS", phase)   ? USE_BEGIN
                         : strchr("EeF", phase) ? USE_END
                                                : USE_INSTANT;
    return described_track_id(event->im, event->track_uuid, event->name, use, event->packet->state);
}

// *ret: the row of the event's track. False: the event has no usable track.
static bool legacy_track(struct event *event, char phase, uint32_t *ret)
{
    struct import *im = event->im;
    bool local;
    uint64_t scope = field_u64(&event->legacy.instant_event_scope);
    bool is_thread_moment =
        strchr("iI", phase) && scope != PB_SCOPE_GLOBAL && scope != PB_SCOPE_PROCESS;
    if (event->utid == UTID_NONE && (is_thread_moment || strchr("BEX", phase)))
        return false;
    // As in Perfetto, the event's own track gets a row, even if the phase implies another track.
    if (!event->is_of_thread)
        *ret = named_track(event, phase);
    if (is_asynchronous((uint64_t)phase)) {
        if (!source_id(event, &event->source_id, &local))
            return false;
        event->has_source_id = true;
        *ret = asynchronous_track(event, phase, event->source_id, local);
    } else if (strchr("iI", phase) && !is_thread_moment) {
        if (scope == PB_SCOPE_PROCESS && event->upid == UPID_NONE)
            return false;
        *ret = moment_track(event, scope == PB_SCOPE_PROCESS);
    } else if (event->is_of_thread) {
        *ret = thread_track_get(im, event->utid);
    }
    return true;
}

static void slice_event(struct event *event, char phase, uint32_t track)
{
    struct import *im = event->im;
    struct arg_vec args = {0};
    struct slice_spec spec = event_slice(event, track);
    event_slice_args(event, &spec, strchr("EeF", phase) != NULL, &args);
    if (strchr("RSTp", phase)) {
        phase_arg(event, phase, &args);
        spec.args = args.items;
        spec.n_args = args.n;
    }
    int64_t slice, ts = spec.ts;
    bool is_step = phase == 'T' || phase == 'p';
    if (phase == 'X') {
        spec.dur = nsec_from_usec(&event->legacy.duration_us);
        spec.thread_dur = nsec_from_usec(&event->legacy.thread_duration_us);
        spec.instruction_delta = field_i64(&event->legacy.thread_instruction_delta);
    }
    if (strchr("BbS", phase))
        slice = slice_begin(&im->slices, &spec);
    else
        slice = strchr("EeF", phase) ? slice_end_of(&im->slices, &spec, &ts)
                                     : slice_add(&im->slices, &spec);
    if (slice != SLICE_NONE && !is_step)
        bound_flow(event, slice, ts);
    if (slice != SLICE_NONE)
        event_callstack_row(event, slice, track);
    arg_vec_done(&args);
}

void event_legacy(struct event *event, char phase)
{
    struct import *im = event->im;
    uint32_t track = 0;
    if (phase == 'M') {
        name_event(event);
    } else if (!phase || !strchr("BEXstfiIRbSeFnTp", phase)) {
        stats_add(&im->stats, STAT_mmsql_legacy_events_skipped, 1);
    } else if (!legacy_track(event, phase, &track)) {
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
    } else if (strchr("stf", phase)) {
        flow_event(event, phase, track);
    } else {
        slice_event(event, phase, track);
    }
}
