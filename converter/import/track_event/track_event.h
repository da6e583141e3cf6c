// SPDX-License-Identifier: Apache-2.0
//
// A track event during its conversion, shared by the files that read the event.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "converter/import/importer.h"
#include "converter/import/track_event/track_events.h"
#include "protos/fields.h"

struct event {
    struct import *im;
    const struct packet *packet;
    struct wire_field message;
    struct wire_field defaults; // TrackEventDefaults; empty if there are none
    union message_TrackEvent fields;
    uint64_t seen; // numbers of the event's fields, see FIELD_BIT()
    union message_TrackEvent_LegacyEvent legacy;
    uint32_t name, category;  // in strings; STRSET_NONE: none
    bool has_track;           // the event or its defaults name a track
    uint64_t track_uuid;      // 0: the default track, or the thread's track
    bool is_of_thread;        // the event's track is the track of `utid`
    int64_t utid, upid;       // of the track; UTID_NONE, UPID_NONE: none
    int64_t passthrough_utid; // thread that wrote the event, if the event is not of a thread
    bool has_source_id;       // source_id is set
    int64_t source_id;        // of older asynchronous events
    bool has_thread_ts, has_instructions; // thread_ts (ns), instructions are set
    int64_t thread_ts, instructions;      // of the thread, at the event
    bool is_cropped;                      // the event makes no rows, but its differences count
    int64_t callsite;                     // CALLSITE_NONE: none; set by event_args()
};

// Returns true if the event has one of the fields.
static inline bool event_has(const struct event *event, uint64_t fields)
{
    return (event->seen & fields) != 0;
}

// Returns the text of an id; no text for STRSET_NONE.
struct slice_name event_string(const struct event *event, uint32_t id);

// Appends the event's data to *ret as args, except place and time. `before`: earlier args of the
// row; NULL: none.
void event_args(struct event *event, const struct arg_vec *before, struct arg_vec *ret);

// event_slice() returns a slice with the event's name, category and time. event_slice_args() reads
// the args of the slice into *args, which the caller releases. `ends`: the args belong to the slice
// that the event ends.
struct slice_spec event_slice(const struct event *event, uint32_t track);
void event_slice_args(struct event *event, struct slice_spec *spec, bool ends,
                      struct arg_vec *args);

// FLOW_ANY begins or continues a flow. FLOW_CLOSE ends the flow for good; FLOW_END may be repeated.
enum flow_use { FLOW_BEGIN, FLOW_STEP, FLOW_END, FLOW_ANY, FLOW_CLOSE };
void flow_apply(struct import *im, uint64_t flow, struct flow_end to, enum flow_use use);
void event_flows(struct event *event, int64_t slice, int64_t slice_ts);

// Adds the row of the event's call stack, if the event has a call stack. Called after event_args().
void event_callstack_row(const struct event *event, int64_t slice, uint32_t track);

// For older events. event_legacy_place() finds the place of an event without a track. False: the
// event has no usable place.
bool event_legacy_place(struct event *event, bool has_thread, uint32_t pid, int64_t tid);
void event_legacy_times(struct event *event);
void event_legacy(struct event *event, char phase);
