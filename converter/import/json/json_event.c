// SPDX-License-Identifier: Apache-2.0
//
// Events of Chrome's JSON. Events of one moment are sorted: first the ends of slices, then slices
// of known duration, the longest first, then all other events. Therefore the events of a moment
// wait until the next moment.
#include "converter/import/json/json_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "converter/import/json/json_values.h"

#define HELD_MAX 65536 // events of one moment that are sorted

struct held {
    int64_t key; // the smallest key comes first
    uint64_t order;
    struct wire_field message;
};
VEC_DEFINE(held_vec, struct held);

struct json_events {
    struct held_vec held; // of the moment `ts`
    int64_t ts;
    struct json_flows flows;
    struct map64 async_names; // id of asynchronous slices -> their first name
};

void json_event_wrong(struct json_event *event)
{
    char phase[] = {event->phase, '\0'};
    struct slice_name phase_text = import_text_keep(event->im, phase, 1);
    const struct arg args[] = {arg_name("event_name", event->name),
                               arg_name("event_phase", phase_text)};
    import_log(event->im, STAT_json_parser_failure, &event->ts, args, ELEMENTS(args));
}

static struct slice_name text_name(const struct wire_field *field)
{
    return (struct slice_name){.text = field->size ? field_text(field) : NULL, .size = field->size};
}

// Reads the id of a flow: a number, or a text with hexadecimal digits. False: no id.
static bool flow_id(const struct wire_field *text, const struct wire_field *number, uint64_t *ret)
{
    char copy[32], *end;
    if (field_present(number)) {
        *ret = field_u64(number);
        return true;
    }
    if (!text->size || text->size >= sizeof(copy))
        return false;
    memcpy(copy, text->data, text->size);
    copy[text->size] = '\0';
    errno = 0;
    *ret = strtoull(copy, &end, 16);
    return !*end && !errno;
}

static void bound_flow(struct json_event *event, int64_t slice, int64_t ts)
{
    const union message_JsonEvent *fields = &event->fields;
    bool in = field_u64(&fields->flow_in), out = field_u64(&fields->flow_out);
    struct json_flow flow = {.set = ARG_SET_NONE};
    if (!flow_id(&fields->bind_id_text, &fields->bind_id_number, &flow.number))
        return;
    if (!in && !out)
        import_log(event->im, STAT_flow_without_direction, &event->ts, NULL, 0);
    else
        json_flow_through(event->im, &event->all->flows, flow, slice, ts,
                          in && out ? JSON_FLOW_STEP
                          : out     ? JSON_FLOW_BEGIN
                                    : JSON_FLOW_END);
}

// Handles the phases s, t and f.
static void flow_event(struct json_event *event)
{
    struct import *im = event->im;
    struct json_flows *flows = &event->all->flows;
    uint32_t track = thread_track_get(im, event->utid);
    uint64_t id;
    int64_t ts = 0, slice;
    if (!flow_id(&event->fields.id_text, &event->fields.id_number, &id)) {
        import_log(im, STAT_flow_invalid_id, &event->ts, NULL, 0);
        return;
    }
    struct json_flow flow = json_flow_of(im, flows, id, event->category, event->name);
    if (event->phase == 'f' && !field_u64(&event->fields.binds_enclosing)) {
        json_flow_await(im, flows, flow, track);
        return;
    }
    slice = slices_top(&im->slices, track, &ts);
    json_flow_through(im, flows, flow, slice, ts,
                      event->phase == 's'   ? JSON_FLOW_BEGIN
                      : event->phase == 't' ? JSON_FLOW_STEP
                                            : JSON_FLOW_END);
}

// Returns in *ret a hash of category and id, which identify an asynchronous slice. *ret_local: the
// id is unique in its process only. False: no id.
static bool cookie_of(struct json_event *event, int64_t *ret, bool *ret_local)
{
    const union message_JsonEvent *fields = &event->fields;
    const struct {
        const struct wire_field *text, *number;
        bool is_local;
    } ids[] = {
        {&fields->id_text, &fields->id_number, false},
        {&fields->global_id_text, &fields->global_id_number, false},
        {&fields->local_id_text, &fields->local_id_number, true},
    };
    for (size_t i = 0; i < ELEMENTS(ids); i++) {
        bool is_text = field_present(ids[i].text);
        if (!is_text && !field_present(ids[i].number))
            continue;
        uint64_t id = is_text ? hash_bytes(field_text(ids[i].text), ids[i].text->size)
                              : hash_u64(field_u64(ids[i].number));
        uint64_t category =
            hash_bytes(event->category.text ? event->category.text : "", event->category.size);
        *ret = (int64_t)hash_u64(category ^ hash_u64(id + is_text));
        *ret_local = ids[i].is_local;
        return true;
    }
    return false;
}

// Returns the name for the tracks of an id: the first name of the id's slices.
static struct slice_name root_name(struct json_event *event, int64_t upid, int64_t cookie,
                                   bool is_local)
{
    struct import *im = event->im;
    uint64_t key = (uint64_t)cookie ^ (is_local ? hash_u64((uint64_t)upid + 1) : 0);
    bool is_new;
    struct slice_name name = event->name;
    uint32_t own = strset_add(&im->strings, name.text ? name.text : "", name.size);
    const uint64_t *first = import_map_get(im, &event->all->async_names, key, own, &is_new);
    const char *text = strset_text(&im->strings, first ? (uint32_t)*first : own);
    return slice_name(text ? text : "");
}

static uint32_t async_track(struct json_event *event, int64_t upid, int64_t cookie, bool is_local)
{
    struct import *im = event->im;
    size_t n = 0, n_before = im->tracks.items.n;
    struct track_spec spec = {
        .type = is_local ? "legacy_async_process_slice" : "legacy_async_global_slice",
        .name = event->name,
    };
    if (is_local)
        spec.dimensions[n++] = dimension_int("upid", upid);
    spec.dimensions[n++] = dimension_text("scope", "", 0);
    spec.dimensions[n] = dimension_name("name", root_name(event, upid, cookie, is_local));
    uint32_t track;
    if (event->phase == 'b') {
        track = async_track_begin(&im->async_tracks, &spec, cookie, false);
    } else {
        if (event->phase == 'n')
            async_track_begin(&im->async_tracks, &spec, cookie, false);
        track = async_track_end(&im->async_tracks, &spec, cookie);
    }
    if (im->tracks.items.n > n_before && track < im->tracks.items.n) {
        const struct arg args[] = {
            arg_of_text("source", TEXT("chrome")),
            arg_bool("trace_id_is_process_scoped", is_local),
            arg_uint("upid", (uint64_t)upid),
            arg_text("source_scope", NULL, 0),
        };
        im->tracks.items.items[track].source_set = args_add(&im->args, args, ELEMENTS(args));
    }
    return track;
}

static uint32_t moment_track(struct json_event *event, bool of_process)
{
    struct import *im = event->im;
    struct track_spec spec = {.type = of_process ? "chrome_process_instant"
                                                 : "legacy_chrome_global_instants"};
    if (of_process)
        spec.dimensions[0] = dimension_int("upid", processes_process(&im->processes, event->pid));
    size_t n_before = im->tracks.items.n;
    uint32_t track = tracks_get(&im->tracks, &spec);
    const struct arg source = arg_of_text("source", TEXT("chrome"));
    if (im->tracks.items.n > n_before && track < im->tracks.items.n)
        im->tracks.items.items[track].source_set = args_add(&im->args, &source, 1);
    return track;
}

static struct slice_spec slice_of(struct json_event *event, uint32_t track)
{
    const struct wire_field *tts = &event->fields.tts;
    return (struct slice_spec){
        .ts = event->ts,
        .track = track,
        .category = event->category,
        .name = event->name.text ? event->name : slice_name("[No name]"),
        .has_thread_ts = field_present(tts),
        .thread_ts = field_i64(tts),
        .thread_dur_is = THREAD_DUR_UNKNOWN,
    };
}

static void args_of(struct json_event *event, const struct arg_vec *before, struct slice_spec *spec,
                    struct arg_vec *args)
{
    if (event->fields.args.size)
        json_values_read(event->im, &event->fields.args, before, args);
    spec->args = args->items;
    spec->n_args = args->n;
}

static void slice_over(struct json_event *event, struct slice_spec *spec)
{
    struct slices *slices = &event->im->slices;
    struct arg_vec args = {0};
    spec->name = event->name;
    args_of(event, slice_open_args(slices, spec), spec, &args);
    slice_end(slices, spec);
    arg_vec_done(&args);
}

static int64_t slice_new(struct json_event *event, const struct slice_spec *spec, bool is_open)
{
    struct import *im = event->im;
    struct slice_spec whole = *spec;
    struct arg_vec args = {0};
    args_of(event, NULL, &whole, &args);
    int64_t slice = is_open ? slice_begin(&im->slices, &whole) : slice_add(&im->slices, &whole);
    arg_vec_done(&args);
    if (slice >= 0)
        json_flow_slice(im, &event->all->flows, spec->track, slice);
    return slice;
}

static int64_t end_of(int64_t ts, int64_t dur)
{
    int64_t end;
    return __builtin_add_overflow(ts, dur, &end) ? INT64_MAX : end;
}

// Adds a slice that overlaps another slice of its thread. The slice goes to a track beside the
// thread's track.
static void overlap_add(struct json_event *event, struct slice_spec *spec,
                        const struct slice_overlap *other)
{
    struct import *im = event->im;
    int64_t end = end_of(spec->ts, spec->dur), other_end = end_of(other->ts, other->dur);
    const struct arg args[] = {
        arg_name("event_name", event->name),
        arg_of_text("event_phase", TEXT("X")),
        arg_name("conflicting_slice_name", other->name),
        arg_int("conflicting_slice_ts", other->ts),
        arg_int("conflicting_slice_dur", other->dur),
        arg_int("overlap_start", spec->ts > other->ts ? spec->ts : other->ts),
        arg_int("overlap_end", end < other_end ? end : other_end),
    };
    struct track_spec track = {
        .type = "thread_overlapping_slice",
        .dimensions = {dimension_int("utid", event->utid)},
    };
    import_log(im, STAT_slice_spill_overlapping_complete_event, &event->ts, args, ELEMENTS(args));
    spec->track = async_track_span(&im->async_tracks, &track, spec->ts, spec->dur);
    spec->overlap = NULL;
    slice_new(event, spec, false);
}

static void complete_event(struct json_event *event, struct slice_spec *spec)
{
    const struct wire_field *tdur = &event->fields.tdur;
    if (!field_present(&event->fields.dur)) {
        json_event_wrong(event);
        return;
    }
    spec->dur = field_i64(&event->fields.dur);
    spec->thread_dur = field_i64(tdur);
    spec->thread_dur_is = field_present(tdur) ? THREAD_DUR_KNOWN : THREAD_DUR_UNKNOWN;
    struct slice_overlap overlap;
    spec->overlap = &overlap;
    if (slice_new(event, spec, false) == SLICE_OVERLAPS)
        overlap_add(event, spec, &overlap);
    int64_t ts = spec->ts, top = slices_top(&event->im->slices, spec->track, &ts);
    bound_flow(event, top, ts);
}

static void thread_slice_event(struct json_event *event)
{
    struct import *im = event->im;
    uint32_t track = thread_track_get(im, event->utid);
    struct slice_spec spec = slice_of(event, track);
    int64_t slice;
    if (event->phase == 'B') {
        slice = slice_new(event, &spec, true);
        int64_t ts = spec.ts, top = slices_top(&im->slices, track, &ts);
        bound_flow(event, slice == SLICE_NONE ? top : slice, ts);
    } else if (event->phase == 'E') {
        slice_over(event, &spec);
    } else {
        complete_event(event, &spec);
    }
}

static void async_event(struct json_event *event)
{
    struct import *im = event->im;
    int64_t cookie;
    bool is_local;
    if (!event->has_pid || !cookie_of(event, &cookie, &is_local)) {
        json_event_wrong(event);
        return;
    }
    int64_t upid = processes_process(&im->processes, event->pid);
    uint32_t track = async_track(event, upid, cookie, is_local);
    struct slice_spec spec = slice_of(event, track);
    spec.has_thread_ts = false;
    if (event->phase != 'b')
        spec.name = event->name;
    if (event->phase == 'e') {
        slice_over(event, &spec);
        return;
    }
    slice_new(event, &spec, event->phase == 'b');
    int64_t ts = spec.ts, top = slices_top(&im->slices, track, &ts);
    bound_flow(event, top, ts);
}

static void moment_event(struct json_event *event)
{
    struct import *im = event->im;
    bool has_scope = field_present(&event->fields.scope);
    char scope = has_scope ? (char)field_u64(&event->fields.scope) : 't';
    bool is_known =
        scope == 'g' || (scope == 'p' && event->has_pid) || (scope == 't' && event->has_tid);
    if (!is_known) {
        json_event_wrong(event);
        return;
    }
    uint32_t track =
        scope == 't' ? thread_track_get(im, event->utid) : moment_track(event, scope == 'p');
    struct slice_spec spec = slice_of(event, track);
    spec.has_thread_ts &= scope == 't';
    if (scope != 't')
        spec.name = event->name;
    slice_new(event, &spec, false);
}

static void tasks_find(struct json_event *event)
{
    struct import *im = event->im;
    struct processes *processes = &im->processes;
    const union message_JsonEvent *fields = &event->fields;
    event->has_pid = field_present(&fields->pid);
    event->has_tid = field_present(&fields->tid);
    event->pid = (uint32_t)field_u64(&fields->pid);
    event->tid = (uint32_t)field_u64(&fields->tid);
    if (!event->tid && event->pid && !field_present(&fields->tid_text))
        event->tid = event->pid;
    if (field_present(&fields->pid_text))
        processes_name(processes, processes_process(processes, event->pid),
                       import_keep(im, &fields->pid_text), PROCESS_NAME_OTHER);
    if (field_present(&fields->tid_text))
        processes_name_thread(processes, processes_thread(processes, event->tid),
                              import_keep(im, &fields->tid_text), NAME_OTHER);
    event->utid = processes_update_thread(processes, event->tid, event->pid);
}

static void event_import(struct import *im, struct json_events *all, const struct held *held)
{
    struct json_event event = {.im = im, .all = all, .ts = all->ts};
    message_read(wire_sub(&held->message), event.fields.at, ELEMENTS(event.fields.at));
    event.phase = (char)field_u64(&event.fields.phase);
    event.category = text_name(&event.fields.category);
    event.name = text_name(&event.fields.name);
    tasks_find(&event);
    switch (event.phase) {
    case 'B':
    case 'E':
    case 'X':
        thread_slice_event(&event);
        break;
    case 'b':
    case 'e':
    case 'n':
        async_event(&event);
        break;
    case 'i':
    case 'I':
    case 'R':
        moment_event(&event);
        break;
    case 'C':
        json_counters_read(&event);
        break;
    case 's':
    case 't':
    case 'f':
        flow_event(&event);
        break;
    case 'T':
        json_thread_state_read(&event);
        break;
    case 'M':
        json_names_read(&event);
        break;
    default:
        stats_add(&im->stats, STAT_mmsql_legacy_events_skipped, 1);
    }
}

static int held_compare(const void *left, const void *right)
{
    const struct held *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void held_import(struct import *im, struct json_events *all)
{
    if (all->held.n > 1)
        qsort(all->held.items, all->held.n, sizeof(*all->held.items), held_compare);
    for (size_t i = 0; i < all->held.n && !import_failed(im); i++)
        event_import(im, all, &all->held.items[i]);
    all->held.n = 0;
}

static int64_t key_of(const struct wire_field *message)
{
    MESSAGE(event, JsonEvent, message);
    char phase = (char)field_u64(&event.phase);
    if (phase == 'E')
        return INT64_MIN;
    bool has_dur = phase == 'X' && field_present(&event.dur);
    int64_t dur = has_dur ? field_i64(&event.dur) : 0;
    return dur > 0 ? INT64_MAX - dur : INT64_MAX;
}

static void json_event_now(struct import *im, const struct packet *packet)
{
    (void)packet;
    processes_without_idle(&im->processes);
}

static void json_event_sorted(struct import *im, const struct packet *packet)
{
    struct json_events *all = packet->own;
    if (all->held.n && (packet->ts != all->ts || all->held.n == HELD_MAX))
        held_import(im, all);
    all->ts = packet->ts;
    struct held held = {
        .key = key_of(packet->message), .order = all->held.n, .message = *packet->message};
    import_fail(im, held_vec_push(&all->held, held));
}

static void json_event_finish(struct import *im, void *state)
{
    held_import(im, state);
}

static void json_event_done(void *state)
{
    struct json_events *all = state;
    held_vec_done(&all->held);
    json_flows_done(&all->flows);
    map64_done(&all->async_names);
}

const struct importer importer_json_event = {
    .field = PB_TracePacket_json_event,
    .now = json_event_now,
    .sorted = json_event_sorted,
    .state_size = sizeof(struct json_events),
    .finish = json_event_finish,
    .done = json_event_done,
};

static void json_fact_now(struct import *im, const struct packet *packet)
{
    MESSAGE(fact, JsonFact, packet->message);
    const char *name =
        metadata_name(&im->metadata, "json_metadata.", field_text(&fact.name), fact.name.size);
    if (field_present(&fact.number))
        metadata_set_int(&im->metadata, name, field_i64(&fact.number));
    else
        metadata_set_text(&im->metadata, name, field_words(&fact.text));
}

const struct importer importer_json_fact = {
    .field = PB_TracePacket_json_fact,
    .now = json_fact_now,
};
