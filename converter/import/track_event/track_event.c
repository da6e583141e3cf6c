// SPDX-License-Identifier: Apache-2.0
//
// TrackEvent: begins and ends of slices, instants and counter values on described tracks. The
// defaults of a sequence supply missing fields. Older events name their thread or use the thread of
// their sequence; see track_event_legacy.c.
#include "converter/import/track_event/track_event.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/import/arg_writer.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define CATEGORIES_MAX  65536 // bytes of the names of categories in one event
#define GPU_NUMBERS_MAX 256   // of one event

static uint32_t event_name(const struct event *event)
{
    uint64_t iid = field_u64(&event->fields.name_iid);
    if (!iid)
        iid = field_u64(&event->legacy.name_iid);
    if (!iid)
        return field_present(&event->fields.name) ? import_keep(event->im, &event->fields.name)
                                                  : STRSET_NONE;
    struct interned *entry =
        generation_find(event->packet->state, PB_InternedData_event_names, iid);
    return entry ? interned_text_id(event->im, entry) : STRSET_NONE;
}

static void category_add(struct strbuf *all, const struct wire_field *name)
{
    if (all->size)
        strbuf_add_char(all, ',');
    strbuf_add(all, field_text(name), name->size);
}

static void categories_read(struct event *event)
{
    CLEANUP(strbuf_done) struct strbuf all = {0}, unknown = {0};
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field, name;
    size_t n = 0;
    if (!event_has(event,
                   FIELD_BIT(PB_TrackEvent_categories) | FIELD_BIT(PB_TrackEvent_category_iids)))
        return;
    wire_foreach(&reader, &field) {
        n += field.number == PB_TrackEvent_categories;
        if (field.number == PB_TrackEvent_categories)
            category_add(&all, &field);
        struct wire_packed iids = {0};
        uint64_t iid;
        while (field.number == PB_TrackEvent_category_iids && all.size < CATEGORIES_MAX &&
               wire_packed_next(&iids, &field, WIRE_VARINT, &iid)) {
            n++;
            strbuf_clear(&unknown);
            strbuf_addf(&unknown, "unknown(%llu)", (unsigned long long)iid);
            if (interned_text(event->packet->state, PB_InternedData_event_categories, iid, &name))
                category_add(&all, &name);
        }
    }
    struct strbuf *text = n == 1 && !all.size && unknown.size ? &unknown : &all;
    if (!text->size)
        return;
    uint32_t id = strset_add(&event->im->strings, text->text, text->size);
    event->category = id;
}

struct slice_name event_string(const struct event *event, uint32_t id)
{
    if (id == STRSET_NONE)
        return (struct slice_name){0};
    const struct strset_entry *entry = &event->im->strings.entries[id];
    return (struct slice_name){.text = entry->text, .size = entry->size};
}

// Adds a difference and returns the sum. Each sequence has a separate sum, which starts from 0 when
// the sequence starts over.
static double counter_add(struct event *event, uint64_t uuid, double difference)
{
    struct import *im = event->im;
    struct track_events *all = track_events_of(im);
    uint32_t epoch = event->packet->state->epoch;
    uint64_t key[] = {uuid, event->packet->state->sequence_id};
    struct counter_sum none = {.epoch = epoch};
    bool is_new;
    uint64_t *index = import_map_get(im, &all->counters, hash_bytes(key, sizeof(key)),
                                     all->counter_sums.n, &is_new);
    if (!index)
        return difference;
    if (is_new && counter_sum_vec_push(&all->counter_sums, none) < 0) {
        import_fail(im, -ENOMEM);
        return difference;
    }
    struct counter_sum *sum = &all->counter_sums.items[*index];
    if (sum->epoch != epoch)
        *sum = none;
    return sum->value += difference;
}

// Converts a value of a counter to the absolute value. False: no counter has this uuid.
static bool counter_value(struct event *event, uint64_t uuid, double value, enum stat wrong,
                          double *ret_value)
{
    struct import *im = event->im;
    struct described_track *track = described_track_get(im, uuid);
    if (!track || !track->is_counter) {
        stats_add(&im->stats, wrong, 1);
        return false;
    }
    if (track->multiplier > 0)
        value *= (double)track->multiplier;
    *ret_value = track->is_incremental ? counter_add(event, uuid, value) : value;
    return true;
}

static void counter_event(struct event *event)
{
    struct import *im = event->im;
    const struct wire_field *integer = &event->fields.counter_value;
    double value;
    if (!event->has_track) {
        stats_add(&im->stats, STAT_track_event_counter_missing_track_uuid, 1);
        return;
    }
    if (!field_present(&event->fields.double_counter_value) && !field_present(integer)) {
        stats_add(&im->stats, STAT_track_event_counter_missing_value, 1);
        return;
    }
    value = field_present(integer) ? (double)field_i64(integer)
                                   : field_double(&event->fields.double_counter_value);
    if (!counter_value(event, event->track_uuid, value, STAT_track_event_counter_invalid_track_uuid,
                       &value) ||
        event->is_cropped)
        return;
    uint32_t track =
        described_track_id(im, event->track_uuid, event->name, USE_COUNTER, event->packet->state);
    struct arg_vec args = {0};
    event_args(event, NULL, &args);
    counter_push(im, event->packet->ts, track, value, args_add(&im->args, args.items, args.n));
    arg_vec_done(&args);
}

// Returns a reader over the event or, if the event lacks the repeated field, over the event's
// defaults.
static struct wire_reader repeated_of(const struct event *event, uint32_t field)
{
    bool own = field < ELEMENTS(event->fields.at) && field_present(&event->fields.at[field]);
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field at;
    while (!own && wire_next(&reader, &at))
        own = at.number == field;
    return wire_sub(own ? &event->message : &event->defaults);
}

static int64_t saturated(double value)
{
    if (value >= 0x1p63)
        return INT64_MAX;
    return value >= -0x1p63 ? (int64_t)value : INT64_MIN;
}

static void extra_counter(struct event *event, uint64_t uuid, double value)
{
    struct import *im = event->im;
    if (!counter_value(event, uuid, value, STAT_track_event_extra_counter_invalid_track, &value) ||
        event->is_cropped)
        return;
    uint32_t id = described_track_id(im, uuid, STRSET_NONE, USE_COUNTER, event->packet->state);
    const struct described_track *track = described_track_get(im, uuid);
    counter_push(im, event->packet->ts, id, value, ARG_SET_NONE);
    const char *name = track ? strset_text(&im->strings, track->name) : NULL;
    if (name && str_eq(name, "thread_time")) {
        event->has_thread_ts = true;
        event->thread_ts = saturated(value);
    } else if (name && str_eq(name, "thread_instruction_count")) {
        event->has_instructions = true;
        event->instructions = saturated(value);
    }
}

static void extra_counters(struct event *event, uint32_t uuids_field, uint32_t values_field,
                           bool is_double)
{
    struct values uuids = {.reader = repeated_of(event, uuids_field), .number = uuids_field};
    struct values values = {.reader = wire_sub(&event->message),
                            .number = values_field,
                            .type = is_double ? WIRE_FIXED64 : WIRE_VARINT};
    uint64_t uuid, value;
    if (!event_has(event, FIELD_BIT(values_field)))
        return;
    for (size_t n = 0; values_next(&values, &value); n++) {
        if (!values_next(&uuids, &uuid)) {
            stats_add(&event->im->stats,
                      n ? STAT_track_event_extra_counter_track_uuid_mismatch
                        : STAT_track_event_extra_counter_missing_track_uuids,
                      1);
            return;
        }
        extra_counter(event, uuid, is_double ? wire_to_double(value) : (double)(int64_t)value);
    }
}

static int64_t flow_args(struct import *im, uint64_t flow)
{
    const struct track_events *all = track_events_of(im);
    if (flow >= all->named_flows.n)
        return ARG_SET_NONE;
    const struct named_flow *named = &all->named_flows.items[flow];
    struct arg args[] = {
        arg_name("name", slice_name_of(&im->strings, named->name)),
        arg_name("cat", slice_name_of(&im->strings, named->category)),
    };
    return args_add(&im->args, args, ELEMENTS(args));
}

static void flow_write(struct import *im, uint64_t flow, int64_t from, int64_t to)
{
    int64_t args = flow_args(im, flow);
    struct cell *row = database_row(im->db, TABLE_flow, NULL);
    cell_int(row, COL_flow_slice_out, from);
    cell_int(row, COL_flow_slice_in, to);
    cell_int(row, COL_flow_trace_id, (int64_t)flow);
    cell_arg_set(row, COL_flow_arg_set_id, args);
}

void flow_apply(struct import *im, uint64_t flow, struct flow_end to, enum flow_use use)
{
    struct track_events *all = track_events_of(im);
    const uint64_t *index = map64_find(&all->flows, flow);
    if (index) {
        struct flow_end *from = &all->flow_ends.items[*index];
        bool forward = from->ts <= to.ts;
        if (use == FLOW_BEGIN)
            stats_add(&im->stats, STAT_flow_duplicate_id, 1);
        else
            flow_write(im, flow, forward ? from->slice : to.slice,
                       forward ? to.slice : from->slice);
        if (use == FLOW_STEP || use == FLOW_ANY)
            *from = to;
        else if (use == FLOW_CLOSE)
            map64_remove(&all->flows, flow);
    } else if (use == FLOW_BEGIN || use == FLOW_ANY) {
        if (flow_end_vec_push(&all->flow_ends, to) < 0 ||
            map64_set(&all->flows, flow, all->flow_ends.n - 1) < 0)
            import_fail(im, -ENOMEM);
    } else if (use == FLOW_STEP) {
        stats_add(&im->stats, STAT_flow_step_without_start, 1);
    } else if (use == FLOW_END) {
        stats_add(&im->stats, STAT_flow_end_without_start, 1);
    }
}

// Reads flows. The older field is read only if the newer field is absent.
static void flows_read(struct event *event, struct flow_end slice, uint32_t field,
                       uint32_t old_field, enum flow_use use)
{
    struct values flows = {
        .reader = wire_sub(&event->message), .number = field, .type = WIRE_FIXED64};
    uint64_t flow;
    size_t n = 0;
    for (; values_next(&flows, &flow); n++)
        flow_apply(event->im, flow, slice, use);
    flows = (struct values){
        .reader = wire_sub(&event->message), .number = old_field, .type = WIRE_VARINT};
    while (!n && values_next(&flows, &flow))
        flow_apply(event->im, flow, slice, use);
}

static void gpu_numbers_read(struct event *event, int64_t slice, struct values numbers,
                             enum gpu_event_end end)
{
    uint64_t number;
    for (size_t n = 0; n < GPU_NUMBERS_MAX && values_next(&numbers, &number); n++)
        gpu_event_add(event->im, number, end, slice);
}

// Reads the GPU work that the slice submitted or waited for.
static void gpu_events_read(struct event *event, int64_t slice)
{
    struct fields each = fields_of(&event->message, PB_GpuTrackEvent_gpu_correlation);
    while (fields_next(&each)) {
        gpu_numbers_read(
            event, slice,
            values_of(&each.field, PB_GpuCorrelation_render_stage_submission_event_ids),
            GPU_EVENT_SUBMITTED);
        gpu_numbers_read(event, slice,
                         values_of(&each.field, PB_GpuCorrelation_render_stage_wait_event_ids),
                         GPU_EVENT_AWAITED);
    }
}

void event_flows(struct event *event, int64_t slice, int64_t slice_ts)
{
    if (gpu_events_of(event->im)->is_used)
        gpu_events_read(event, slice);
    if (!event_has(event, FIELD_BIT(PB_TrackEvent_flow_ids) |
                              FIELD_BIT(PB_TrackEvent_flow_ids_old) |
                              FIELD_BIT(PB_TrackEvent_terminating_flow_ids) |
                              FIELD_BIT(PB_TrackEvent_terminating_flow_ids_old)))
        return;
    struct flow_end end = {slice, slice_ts};
    flows_read(event, end, PB_TrackEvent_flow_ids, PB_TrackEvent_flow_ids_old, FLOW_ANY);
    flows_read(event, end, PB_TrackEvent_terminating_flow_ids,
               PB_TrackEvent_terminating_flow_ids_old, FLOW_CLOSE);
}

struct slice_spec event_slice(const struct event *event, uint32_t track)
{
    return (struct slice_spec){
        .ts = event->packet->ts,
        .track = track,
        .category = event_string(event, event->category),
        .name = event_string(event, event->name),
        .has_thread_ts = event->utid != UTID_NONE && event->has_thread_ts,
        .thread_ts = event->thread_ts,
        .has_instructions = event->utid != UTID_NONE && event->has_instructions,
        .instructions = event->instructions,
    };
}

void event_slice_args(struct event *event, struct slice_spec *spec, bool ends, struct arg_vec *args)
{
    event_args(event, ends ? slice_open_args(&event->im->slices, spec) : NULL, args);
    spec->args = args->items;
    spec->n_args = args->n;
}

// Finds the track and its thread or process. False: the event has no usable place.
static bool place_find(struct event *event)
{
    struct import *im = event->im;
    uint32_t pid = 0;
    int64_t tid = 0;
    bool has_thread = sequence_thread(im, event->packet->state, &pid, &tid);
    if (event->track_uuid) {
        const struct described_track *track = described_track_get(im, event->track_uuid);
        if (!track)
            return false;
        int64_t place_id = track->place_id;
        int place = track->place;
        if (place == PLACE_THREAD) {
            event->utid = place_id;
            event->upid = processes_thread_at(&im->processes, place_id)->upid;
        } else if (has_thread) {
            int64_t utid = processes_update_thread(&im->processes, tid, pid);
            if (place != PLACE_PROCESS ||
                processes_thread_at(&im->processes, utid)->upid == place_id)
                event->passthrough_utid = utid;
        }
        if (place == PLACE_PROCESS)
            event->upid = place_id;
        return true;
    }
    return event_legacy_place(event, has_thread, pid, tid);
}

static uint32_t event_track(const struct event *event, enum track_use use)
{
    if (event->is_of_thread)
        return thread_track_get(event->im, event->utid);
    return described_track_id(event->im, event->track_uuid, event->name, use, event->packet->state);
}

static void slice_event(struct event *event, uint64_t type)
{
    struct import *im = event->im;
    static const enum track_use uses[] = {
        [PB_TYPE_SLICE_BEGIN] = USE_BEGIN,
        [PB_TYPE_SLICE_END] = USE_END,
        [PB_TYPE_INSTANT] = USE_INSTANT,
    };
    struct arg_vec args = {0};
    struct slice_spec spec = event_slice(event, event_track(event, uses[type]));
    event_slice_args(event, &spec, type == PB_TYPE_SLICE_END, &args);
    int64_t slice, ts = spec.ts;
    if (type == PB_TYPE_SLICE_END)
        slice = slice_end_of(&im->slices, &spec, &ts);
    else
        slice = type == PB_TYPE_SLICE_BEGIN ? slice_begin(&im->slices, &spec)
                                            : slice_add(&im->slices, &spec);
    if (slice != SLICE_NONE) {
        event_flows(event, slice, ts);
        event_callstack_row(event, slice, spec.track);
    }
    arg_vec_done(&args);
}

// Sets the state of a track. A state without a name ends the track's last state.
static void state_event(struct event *event)
{
    struct import *im = event->im;
    const struct described_track *track =
        event->is_of_thread ? NULL : described_track_get(im, event->track_uuid);
    if (!track || !track->is_state) {
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
        return;
    }
    bool is_named = field_present(&event->fields.name_iid) || field_present(&event->fields.name);
    struct arg_vec args = {0};
    struct state_spec state = {.ts = event->packet->ts, .track = event_track(event, USE_STATE)};
    if (is_named)
        state.value = event_string(event, event->name);
    if (state.value.text) {
        event_args(event, state_args(&im->states, state.track, state.value), &args);
        state.category = event_string(event, event->category);
        state.args = args.items;
        state.n_args = args.n;
    }
    state_set(&im->states, &state);
    arg_vec_done(&args);
}

static void event_read(struct event *event, const struct packet *packet)
{
    event->defaults =
        message_field(packet->state->defaults, PB_TracePacketDefaults_track_event_defaults);
    event->seen =
        message_read_seen(wire_sub(&event->message), event->fields.at, ELEMENTS(event->fields.at));
    message_read_seen(wire_sub(&event->fields.legacy_event), event->legacy.at,
                      ELEMENTS(event->legacy.at));
    struct wire_field track_uuid = event->fields.track_uuid;
    if (!field_present(&track_uuid))
        track_uuid = message_field(wire_sub(&event->defaults), PB_TrackEventDefaults_track_uuid);
    event->has_track = field_present(&track_uuid);
    event->track_uuid = field_u64(&track_uuid);
    event->name = event_name(event);
    categories_read(event);
}

// Writes the rows of an event that is not a counter event.
static void rows_write(struct event *event, uint64_t type)
{
    uint64_t phase = field_u64(&event->legacy.phase);
    if (type == PB_TYPE_STATE)
        state_event(event);
    else if (phase)
        event_legacy(event, (char)phase);
    else if (type >= PB_TYPE_SLICE_BEGIN && type <= PB_TYPE_INSTANT)
        slice_event(event, type);
    else
        stats_add(&event->im->stats, STAT_track_event_parser_errors, 1);
}

static void track_event_sorted(struct import *im, const struct packet *packet)
{
    struct event event = {
        .im = im,
        .packet = packet,
        .message = *packet->message,
        .category = STRSET_NONE,
        .utid = UTID_NONE,
        .upid = UPID_NONE,
        .passthrough_utid = UTID_NONE,
        .callsite = CALLSITE_NONE,
    };
    if (!packet->sequence_id) {
        stats_add(&im->stats, STAT_track_event_missing_sequence_id, 1);
        return;
    }
    event_read(&event, packet);
    uint64_t type = field_u64(&event.fields.type);
    if (type == PB_TYPE_STATE && !event.has_track) {
        stats_add(&im->stats, STAT_track_event_state_missing_track_uuid, 1);
        return;
    }
    const struct track_events *all = packet->own;
    event.is_cropped = all->is_cropped && packet->ts < all->crop_ts;
    if (!event.is_cropped && !place_find(&event)) {
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
        return;
    }
    event_legacy_times(&event);
    extra_counters(&event, PB_TrackEvent_extra_counter_track_uuids,
                   PB_TrackEvent_extra_counter_values, false);
    extra_counters(&event, PB_TrackEvent_extra_double_counter_track_uuids,
                   PB_TrackEvent_extra_double_counter_values, true);
    if (type == PB_TYPE_COUNTER)
        counter_event(&event);
    if (event.is_cropped)
        stats_add(&im->stats, STAT_track_event_dropped_packets_outside_of_range_of_interest, 1);
    else if (type != PB_TYPE_COUNTER)
        rows_write(&event, type);
}

const struct importer importer_track_event = {
    .field = PB_TracePacket_track_event,
    .sorted = track_event_sorted,
    .shares = &importer_track_descriptor,
};
