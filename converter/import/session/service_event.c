// SPDX-License-Identifier: Apache-2.0
//
// TracingServiceEvent: milestones of the recording. RecordingCut: the recorder died before the end
// of the trace, or stopped because space ran out. The file was closed later.
#include "converter/import/importer.h"
#include "protos/fields.h"

static void slow_sources(struct import *im, const struct wire_field *message)
{
    for (struct fields each = fields_of(message, PB_TracingServiceEvent_DataSources_data_source);
         fields_next(&each);) {
        MESSAGE(source, TracingServiceEvent_DataSources_DataSource, &each.field);
        const struct wire_field *producer = &source.producer_name;
        const struct wire_field *name = &source.data_source_name;
        struct strbuf text = {0};
        strbuf_add(&text, field_text(producer), producer->size);
        strbuf_add_char(&text, ' ');
        strbuf_add(&text, field_text(name), name->size);
        metadata_add_text(&im->metadata, "slow_start_data_source",
                          (struct text){text.text, text.size});
        strbuf_done(&text);
    }
}

// Returns the time of an event. The service takes the times of its events from CLOCK_BOOTTIME,
// without a clock id, even if the trace has another clock.
static int64_t event_ts(struct import *im, const struct packet *packet)
{
    uint64_t ts = 0;
    int64_t converted;
    bool has_clock = false;
    struct wire_reader reader = packet->fields;
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_TracePacket_timestamp)
            ts = field.value;
        has_clock |= field.number == PB_TracePacket_timestamp_clock_id;
    }
    if (has_clock || ts > INT64_MAX ||
        !clocks_convert(&im->clocks, CLOCK_ID_BOOTTIME, (int64_t)ts, &converted))
        return packet->ts;
    return converted;
}

static void service_event_now(struct import *im, const struct packet *packet)
{
    struct metadata *metadata = &im->metadata;
    int64_t ts = event_ts(im, packet);
    MESSAGE(event, TracingServiceEvent, packet->message);
    if (field_u64(&event.tracing_started))
        metadata_set_int(metadata, "tracing_started_ns", ts);
    if (field_u64(&event.tracing_disabled))
        metadata_set_int(metadata, "tracing_disabled_ns", ts);
    if (field_u64(&event.all_data_sources_started))
        metadata_set_int(metadata, "all_data_source_started_ns", ts);
    if (field_u64(&event.all_data_sources_flushed))
        metadata_add_int(metadata, "all_data_source_flushed_ns", ts);
    if (field_present(&event.slow_starting_data_sources))
        slow_sources(im, &event.slow_starting_data_sources);
    if (field_present(&event.clone_started))
        stats_set(&im->stats, STAT_traced_clone_started_timestamp_ns, ts);
    if (field_present(&event.buffer_cloned))
        stats_set_at(&im->stats, STAT_traced_buf_clone_done_timestamp_ns,
                     (uint32_t)field_u64(&event.buffer_cloned), ts);
}

const struct importer importer_service_event = {
    .field = PB_TracePacket_service_event,
    .now = service_event_now,
};

static void recording_cut_now(struct import *im, const struct packet *packet)
{
    (void)packet;
    stats_add(&im->stats, STAT_mmsql_recording_cut, 1);
}

const struct importer importer_recording_cut = {
    .field = PB_TracePacket_recording_cut,
    .now = recording_cut_now,
};
