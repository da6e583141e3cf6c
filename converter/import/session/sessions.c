// SPDX-License-Identifier: Apache-2.0
//
// ConcurrentSessionEvent: the states of other recording sessions. Each session has a track with a
// slice for each state. The end of a session is an instant.
#include <errno.h>

#include "common/elements.h"
#include "common/map.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct sessions {
    struct map64 states; // session -> its current state
};

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
    struct sessions *sessions = packet->own;
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
    struct slice_spec spec = {
        .ts = packet->ts,
        .track = session_track(im, &event, state == PB_STATE_CLONED_READ_ONLY),
        .name = slice_name(names[state]),
        .args = args,
        .n_args = ELEMENTS(args),
    };
    bool is_new;
    uint64_t *now = import_map_get(im, &sessions->states, field_u64(&event.session_id), 0, &is_new);
    if (!now)
        return;
    if (*now == state && state != PB_ConcurrentSessionEvent_STATE_DISABLED) {
        slice_add_args(&im->slices, &spec);
        return;
    }
    struct slice_spec end = {.ts = packet->ts, .track = spec.track};
    if (*now && *now != PB_ConcurrentSessionEvent_STATE_DISABLED)
        slice_end(&im->slices, &end);
    *now = state;
    if (state == PB_ConcurrentSessionEvent_STATE_DISABLED)
        slice_add(&im->slices, &spec);
    else
        slice_begin(&im->slices, &spec);
}

static void sessions_done(void *userdata)
{
    map64_done(&((struct sessions *)userdata)->states);
}

const struct importer importer_concurrent_sessions = {
    .field = PB_TracePacket_concurrent_session_event,
    .sorted = session_sorted,
    .state_size = sizeof(struct sessions),
    .done = sessions_done,
};
