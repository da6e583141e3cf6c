// SPDX-License-Identifier: Apache-2.0
//
// Tracks that the trace itself describes: a TrackDescriptor gives a track a number, a name, a place
// (thread, process, below another track), and makes it a counter or not. Descriptors may follow the
// events that use them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"

struct import;
struct generation;
struct wire_field;

struct described_track {
    uint64_t uuid, parent_uuid;
    uint32_t pid, tid;
    uint32_t name; // in strings; STRSET_NONE: none
    bool has_pid, has_tid, is_counter, is_incremental;
    int64_t multiplier; // of counter values
    const char *unit;   // static or in strings; NULL: unknown
    // Where it turned out to be.
    enum { PLACE_UNKNOWN, PLACE_THREAD, PLACE_PROCESS, PLACE_GLOBAL } place;
    bool is_root; // it is the thread's or process's own
    int64_t place_id;
    int64_t track; // -1: has none yet
    // Of incremental counters.
    double value;
    uint32_t epoch;
};
VEC_DEFINE(described_track_vec, struct described_track);

struct track_events {
    struct map64 by_uuid;
    struct described_track_vec items;
    struct map64 flows; // flow -> slice it came by last
    int failure;        // negative errno of the first failure
};

// Reads a TrackDescriptor. Later ones add to earlier ones.
void described_track_read(struct import *im, const struct wire_field *descriptor);

// The track of that number with its place found, which may make its process or thread known. NULL:
// its parents are too many or run in a circle, or memory is out. Valid until the next call.
struct described_track *described_track_get(struct import *im, uint64_t uuid);

// The id of its row in the track table; `event_name` names a track that has no name of its own.
uint32_t described_track_id(struct import *im, struct described_track *track, uint32_t event_name);

void track_events_done(struct track_events *events);
