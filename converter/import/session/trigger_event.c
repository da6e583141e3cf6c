// SPDX-License-Identifier: Apache-2.0
//
// Trigger: the reason for the start, stop or clone of a recording. A trigger is an instant on the
// track of triggers.
#include "converter/import/importer.h"
#include "converter/import/track_event/track_event.h"
#include "protos/fields.h"

static int64_t moment_add(struct import *im, int64_t ts, struct slice_name name,
                          const struct arg *args, size_t n)
{
    struct track_spec track = {.type = "triggers", .name = slice_name("Trace Triggers")};
    struct slice_spec spec = {
        .ts = ts,
        .track = tracks_get(&im->tracks, &track),
        .name = name,
        .args = args,
        .n_args = n,
    };
    return slice_add(&im->slices, &spec);
}

static void trigger_add(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(trigger, Trigger, message);
    const struct wire_field *producer = &trigger.producer_name;
    struct arg args[2];
    size_t n = 0;
    if (field_present(producer))
        ARG_APPEND(args, n, arg_text("producer_name", producer->data, producer->size));
    if (field_present(&trigger.trusted_producer_uid))
        ARG_APPEND(args, n,
                   arg_int("trusted_producer_uid", field_i64(&trigger.trusted_producer_uid)));
    moment_add(im, ts,
               (struct slice_name){.text = field_text(&trigger.trigger_name),
                                   .size = trigger.trigger_name.size},
               args, n);
}

static void chrome_trigger_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(trigger, ChromeTrigger, packet->message);
    const struct wire_field *name = &trigger.trigger_name, *hash = &trigger.trigger_name_hash;
    struct arg args[2] = {arg_uint("chrome_trigger.name_hash", field_u64(hash))};
    size_t n = 1;
    struct slice_name text = {.text = "chrome_trigger", .size = 14};
    if (field_present(name)) {
        text = field_name(name);
        ARG_APPEND(args, n, arg_text("chrome_trigger.name", name->data, name->size));
    }
    int64_t slice = moment_add(im, packet->ts, text, args, n);
    if (slice != SLICE_NONE && field_present(&trigger.flow_id))
        flow_apply(im, field_u64(&trigger.flow_id), (struct flow_end){slice, packet->ts},
                   FLOW_CLOSE);
    metadata_add_int(&im->metadata, "cr-triggered_rule_name_hash", field_i64(hash));
}

static void fact_set(struct import *im, const struct wire_field *message)
{
    MESSAGE(trigger, Trigger, message);
    metadata_set_text(&im->metadata, "trace_trigger", field_words(&trigger.trigger_name));
}

static void trigger_sorted(struct import *im, const struct packet *packet)
{
    trigger_add(im, packet->ts, packet->message);
    if (!metadata_has(&im->metadata, "trace_trigger"))
        fact_set(im, packet->message);
}

// Adds the trigger of a clone. In the metadata, this trigger replaces earlier triggers.
static void clone_trigger_sorted(struct import *im, const struct packet *packet)
{
    trigger_add(im, packet->ts, packet->message);
    fact_set(im, packet->message);
    stats_set(&im->stats, STAT_traced_clone_trigger_timestamp_ns, packet->ts);
}

const struct importer importer_trigger = {
    .field = PB_TracePacket_trigger,
    .sorted = trigger_sorted,
};

const struct importer importer_clone_trigger = {
    .field = PB_TracePacket_clone_snapshot_trigger,
    .sorted = clone_trigger_sorted,
};

const struct importer importer_chrome_trigger = {
    .field = PB_TracePacket_chrome_trigger,
    .sorted = chrome_trigger_sorted,
};
