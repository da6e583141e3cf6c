// SPDX-License-Identifier: Apache-2.0
//
// TrackEvent: begins and ends of slices, moments and counter values on described tracks. What an
// event leaves out is in its sequence's defaults.
#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/debug_annotations.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

struct event {
    struct import *im;
    const struct packet *packet;
    struct wire_field message;
    struct wire_field defaults; // TrackEventDefaults; empty if there are none
    struct wire_field fields[PB_TrackEvent_double_counter_value + 1];
    uint32_t name;        // in strings
    const char *category; // in strings; NULL: none
    size_t category_size;
};

// The name behind `iid`, which is field 2 of EventName and EventCategory.
static struct wire_field interned_name(const struct event *event, uint32_t field, uint64_t iid)
{
    struct wire_field fields[3] = {0};
    const struct interned *interned = generation_find(event->packet->state, field, iid);
    if (interned)
        message_read(wire_reader_over(interned->data, interned->size), fields, 3);
    return fields[2];
}

static uint32_t event_name(const struct event *event)
{
    struct wire_field name = event->fields[PB_TrackEvent_name];
    if (field_present(&event->fields[PB_TrackEvent_name_iid]))
        name = interned_name(event, PB_InternedData_event_names,
                             field_u64(&event->fields[PB_TrackEvent_name_iid]));
    if (!field_present(&name))
        return STRSET_NONE;
    return strset_add(&event->im->strings, field_text(&name), name.size);
}

static void category_add(struct strbuf *all, const struct wire_field *name)
{
    if (all->size)
        strbuf_add_char(all, ',');
    strbuf_add(all, field_text(name), name->size);
}

static void categories_read(struct event *event)
{
    CLEANUP(strbuf_done) struct strbuf all = {0};
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_TrackEvent_categories)
            category_add(&all, &field);
        struct wire_packed iids = {0};
        uint64_t iid;
        while (field.number == PB_TrackEvent_category_iids &&
               wire_packed_next(&iids, &field, WIRE_VARINT, &iid)) {
            struct wire_field name = interned_name(event, PB_InternedData_event_categories, iid);
            category_add(&all, &name);
        }
    }
    if (!all.size)
        return;
    uint32_t id = strset_add(&event->im->strings, all.text, all.size);
    event->category = strset_text(&event->im->strings, id);
    event->category_size = all.size;
}

static void counter_value(struct event *event, uint64_t uuid, double value)
{
    struct import *im = event->im;
    struct described_track *track = described_track_get(im, uuid);
    if (!track)
        return;
    if (!track->is_counter) {
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
        return;
    }
    value *= (double)track->multiplier;
    if (track->is_incremental) {
        // Differences count from 0 again when the sequence starts over.
        uint32_t epoch = event->packet->state->epoch;
        value += track->epoch == epoch ? track->value : 0;
        track->value = value;
        track->epoch = epoch;
    }
    uint32_t id = described_track_id(im, track, STRSET_NONE);
    counter_push(im, event->packet->ts, id, value, ARG_SET_NONE);
}

// A repeated field of the event or, if the event has none, of its defaults.
static struct wire_reader repeated_of(const struct event *event, uint32_t field)
{
    bool own = field < sizeof(event->fields) / sizeof(*event->fields) &&
               field_present(&event->fields[field]);
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field at;
    while (!own && wire_next(&reader, &at))
        own = at.number == field;
    return wire_sub(own ? &event->message : &event->defaults);
}

struct values {
    struct wire_reader reader;
    struct wire_field field;
    struct wire_packed packed;
    uint32_t number;
    enum wire_type type;
};

static bool values_next(struct values *values, uint64_t *ret)
{
    for (;;) {
        if (values->field.number == values->number &&
            wire_packed_next(&values->packed, &values->field, values->type, ret))
            return true;
        if (!wire_next(&values->reader, &values->field))
            return false;
        values->packed = (struct wire_packed){0};
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
    while (values_next(&values, &value) && values_next(&uuids, &uuid))
        counter_value(event, uuid, is_double ? wire_to_double(value) : (double)(int64_t)value);
}

static void args_read(struct event *event, struct arg_vec *args)
{
    struct wire_reader reader = wire_sub(&event->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_TrackEvent_debug_annotations && field.type == WIRE_BYTES)
            debug_annotation_read(event->im, event->packet->state, &field, args);
    }
}

static void flow_write(struct import *im, uint64_t flow, int64_t from, int64_t to)
{
    struct cell *row = database_row(im->db, TABLE_flow, NULL);
    cell_int(row, COL_flow_slice_out, from);
    cell_int(row, COL_flow_slice_in, to);
    cell_int(row, COL_flow_trace_id, (int64_t)flow);
}

static void flows_read(struct event *event, int64_t slice, uint32_t field, enum wire_type type,
                       bool terminates)
{
    struct import *im = event->im;
    struct values flows = {.reader = wire_sub(&event->message), .number = field, .type = type};
    uint64_t flow;
    while (values_next(&flows, &flow)) {
        const uint64_t *from = map64_find(&im->track_events.flows, flow);
        if (from)
            flow_write(im, flow, (int64_t)*from, slice);
        if (terminates)
            map64_remove(&im->track_events.flows, flow);
        else if (map64_set(&im->track_events.flows, flow, (uint64_t)slice) < 0)
            im->track_events.failure = -ENOMEM;
    }
}

static void slice_event(struct event *event, uint64_t type, uint64_t uuid)
{
    struct import *im = event->im;
    struct described_track *track = described_track_get(im, uuid);
    if (!track)
        return;
    if (track->is_counter) {
        stats_add(&im->stats, STAT_track_event_parser_errors, 1);
        return;
    }
    struct arg_vec args = {0};
    args_read(event, &args);
    const struct strset_entry *name =
        event->name == STRSET_NONE ? NULL : &im->strings.entries[event->name];
    struct slice_spec spec = {
        .ts = event->packet->ts,
        .track = described_track_id(im, track, event->name),
        .category = {.text = event->category, .size = event->category_size},
        .name = {.text = name ? name->text : NULL, .size = name ? name->size : 0},
        .args = args.items,
        .n_args = args.n,
    };
    int64_t slice = SLICE_NONE;
    if (type == TYPE_SLICE_END)
        slice_end(&im->slices, &spec);
    else
        slice = type == TYPE_SLICE_BEGIN ? slice_begin(&im->slices, &spec)
                                         : slice_add(&im->slices, &spec);
    if (slice != SLICE_NONE) {
        flows_read(event, slice, PB_TrackEvent_flow_ids, WIRE_FIXED64, false);
        flows_read(event, slice, PB_TrackEvent_flow_ids_old, WIRE_VARINT, false);
        flows_read(event, slice, PB_TrackEvent_terminating_flow_ids, WIRE_FIXED64, true);
        flows_read(event, slice, PB_TrackEvent_terminating_flow_ids_old, WIRE_VARINT, true);
    }
    arg_vec_done(&args);
}

static int track_event_sorted(struct import *im, void *state, const struct packet *packet,
                              const struct wire_field *message)
{
    (void)state;
    struct event event = {.im = im, .packet = packet, .message = *message};
    struct wire_field packet_defaults[PB_TracePacketDefaults_track_event_defaults + 1];
    struct wire_field defaults[PB_TrackEventDefaults_track_uuid + 1] = {0};
    message_read(packet->state->defaults, packet_defaults,
                 PB_TracePacketDefaults_track_event_defaults + 1);
    event.defaults = packet_defaults[PB_TracePacketDefaults_track_event_defaults];
    message_read(wire_sub(&event.defaults), defaults, PB_TrackEventDefaults_track_uuid + 1);
    message_read(wire_sub(message), event.fields, PB_TrackEvent_double_counter_value + 1);
    event.name = event_name(&event);
    categories_read(&event);

    const struct wire_field *track_uuid = &event.fields[PB_TrackEvent_track_uuid];
    if (!field_present(track_uuid))
        track_uuid = &defaults[PB_TrackEventDefaults_track_uuid];
    uint64_t uuid = field_u64(track_uuid), type = field_u64(&event.fields[PB_TrackEvent_type]);
    extra_counters(&event, PB_TrackEvent_extra_counter_track_uuids,
                   PB_TrackEvent_extra_counter_values, false);
    extra_counters(&event, PB_TrackEvent_extra_double_counter_track_uuids,
                   PB_TrackEvent_extra_double_counter_values, true);
    const struct wire_field *real = &event.fields[PB_TrackEvent_double_counter_value];
    if (type == TYPE_COUNTER)
        counter_value(&event, uuid,
                      field_present(real)
                          ? field_double(real)
                          : (double)field_i64(&event.fields[PB_TrackEvent_counter_value]));
    else if (type >= TYPE_SLICE_BEGIN && type <= TYPE_INSTANT)
        slice_event(&event, type, uuid);
    return im->track_events.failure;
}

const struct importer importer_track_event = {
    .field = PB_TracePacket_track_event,
    .sorted = track_event_sorted,
};
