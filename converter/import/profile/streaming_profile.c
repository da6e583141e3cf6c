// SPDX-License-Identifier: Apache-2.0
//
// StreamingProfilePacket: samples of the thread that the sequence describes. A time is the
// difference to the previous sample; the first time is relative to the packet's time
// (thread_clock.h).
#include "converter/decode/thread_clock.h"
#include "converter/import/importer.h"
#include "converter/import/profile/samples.h"
#include "converter/import/profile/stacks.h"
#include "converter/import/track_event/track_events.h"
#include "protos/fields.h"

static void streaming_profile_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(head, StreamingProfilePacket, packet->message);
    uint32_t pid = 0;
    int64_t tid = 0;
    bool has_thread = sequence_thread(im, packet->state, &pid, &tid);
    struct sample sample = {
        .ts = packet->ts,
        .source = "chrome",
        .utid = has_thread ? processes_update_thread(&im->processes, tid, pid) : SAMPLE_NONE,
        .upid = has_thread ? processes_process(&im->processes, pid) : SAMPLE_NONE,
        .async = SAMPLE_NONE,
        .cpu = SAMPLE_NONE,
        .session = SAMPLE_NONE,
        .priority = (int32_t)field_u64(&head.process_priority),
    };
    struct stack_source source = stack_source_interned(packet->state);
    struct values callstacks = values_of(packet->message, PB_StreamingProfilePacket_callstack_iid);
    struct values deltas = values_of(packet->message, PB_StreamingProfilePacket_timestamp_delta_us);
    uint64_t callstack, delta;
    while (values_next(&deltas, &delta)) { // differences after the last sample only move the clock
        sample.ts = nsec_after_usec(sample.ts, (int64_t)delta);
        if (sample.ts < 0) {
            stats_add(&im->stats, STAT_streaming_profile_invalid_timestamp, 1);
            return;
        }
        if (!values_next(&callstacks, &callstack))
            continue;
        sample.callsite = stacks_callsite(im, &source, callstack);
        if (sample.callsite == CALLSITE_NONE)
            stats_add(&im->stats, STAT_stackprofile_parser_error, 1);
        else
            sample_write(im, &sample);
    }
    if (values_next(&callstacks, &callstack)) // a callstack without a time
        stats_add(&im->stats, STAT_stackprofile_parser_error, 1);
}

const struct importer importer_streaming_profile = {
    .field = PB_TracePacket_streaming_profile_packet,
    .sorted = streaming_profile_sorted,
};
