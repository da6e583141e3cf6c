// SPDX-License-Identifier: Apache-2.0
//
// ConcurrentSessionEvent: the states of other recording sessions, each of which has a track of
// states. The last state of a session has no duration.
#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

static uint32_t session_track(struct import *im, const union message_ConcurrentSessionEvent *event,
                              bool is_clone)
{
    const struct wire_field *text = &event->session_name;
    int64_t id = field_i64(&event->session_id);
    // A clone has the name of its original.
    const char *more = is_clone ? " (clone)" : "";
    struct slice_name name =
        text->size ? import_text(im, "%.*s%s", (int)(text->size < 400 ? text->size : 400),
                                 field_text(text), more)
                   : import_text(im, "Session %llu%s", (unsigned long long)id, more);
    struct track_spec track = {
        .type = "concurrent_tracing_sessions",
        .state = true,
        .dimensions = {dimension_int("session_id", id)},
        .name = name,
    };
    return tracks_get(&im->tracks, &track);
}

static void session_sorted(struct import *im, const struct packet *packet)
{
    static const char *const names[] = {NULL,
                                        "DISABLED",
                                        "CONFIGURED",
                                        "STARTED",
                                        "DISABLING_WAITING_STOP_ACKS",
                                        "CLONED_READ_ONLY"};
    MESSAGE(event, ConcurrentSessionEvent, packet->message);
    uint64_t state = field_u64(&event.state);
    if (state < PB_ConcurrentSessionEvent_STATE_DISABLED || state > PB_STATE_CLONED_READ_ONLY) {
        stats_add(&im->stats, STAT_concurrent_session_event_unknown_state, 1);
        return;
    }
    struct arg args[] = {
        arg_int("consumer_uid", (int32_t)field_u64(&event.consumer_uid)),
        arg_int("num_data_sources", (uint32_t)field_u64(&event.num_data_sources)),
    };
    struct state_spec spec = {
        .ts = packet->ts,
        .track = session_track(im, &event, state == PB_STATE_CLONED_READ_ONLY),
        .value = slice_name(names[state]),
        .args = args,
        .n_args = ELEMENTS(args),
    };
    state_set(&im->states, &spec);
    if (state == PB_ConcurrentSessionEvent_STATE_DISABLED)
        state_set(&im->states, &(struct state_spec){.ts = spec.ts, .track = spec.track});
}

const struct importer importer_concurrent_sessions = {
    .field = PB_TracePacket_concurrent_session_event,
    .sorted = session_sorted,
};
