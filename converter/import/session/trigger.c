// SPDX-License-Identifier: Apache-2.0
//
// Trigger: what made a recording start, stop or be cloned; a moment on a track of its own.
#include "converter/import/importer.h"
#include "protos/fields.h"

static void trigger_add(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(trigger, PB_Trigger_trusted_producer_uid, message);
    const struct wire_field *name = &trigger[PB_Trigger_trigger_name];
    const struct wire_field *producer = &trigger[PB_Trigger_producer_name];
    const struct wire_field *uid = &trigger[PB_Trigger_trusted_producer_uid];
    struct arg args[2];
    size_t n = 0;
    if (field_present(producer))
        args[n++] = arg_text("producer_name", producer->data, producer->size);
    if (field_present(uid))
        args[n++] = arg_int("trusted_producer_uid", field_i64(uid));
    static const char track_name[] = "Trace Triggers";
    struct track_spec track = {
        .type = "triggers", .name = track_name, .name_size = sizeof(track_name) - 1};
    struct slice_spec spec = {
        .ts = ts,
        .track = tracks_get(&im->tracks, &track),
        .name = {.text = field_text(name), .size = name->size},
        .args = args,
        .n_args = n,
    };
    slice_add(&im->slices, &spec);
}

static void fact_set(struct import *im, const struct wire_field *message)
{
    MESSAGE(trigger, PB_Trigger_trigger_name, message);
    const struct wire_field *name = &trigger[PB_Trigger_trigger_name];
    metadata_set_text(&im->metadata, "trace_trigger", name->data, name->size);
}

static int trigger_sorted(struct import *im, void *state, const struct packet *packet,
                          const struct wire_field *message)
{
    (void)state;
    trigger_add(im, packet->ts, message);
    if (!metadata_has(&im->metadata, "trace_trigger"))
        fact_set(im, message);
    return 0;
}

// The trigger that a clone was made for tells more than those before it.
static int clone_trigger_sorted(struct import *im, void *state, const struct packet *packet,
                                const struct wire_field *message)
{
    (void)state;
    trigger_add(im, packet->ts, message);
    fact_set(im, message);
    stats_set(&im->stats, STAT_traced_clone_trigger_timestamp_ns, packet->ts);
    return 0;
}

const struct importer importer_trigger = {
    .field = PB_TracePacket_trigger,
    .sorted = trigger_sorted,
};

const struct importer importer_clone_trigger = {
    .field = PB_TracePacket_clone_snapshot_trigger,
    .sorted = clone_trigger_sorted,
};
