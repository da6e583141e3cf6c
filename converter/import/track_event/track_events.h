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

enum track_merge { MERGE_BY_NAME, MERGE_NEVER, MERGE_BY_KEY };

struct described_track {
    uint64_t uuid, parent_uuid;
    uint32_t pid, tid;
    uint32_t trusted_pid; // of the process that described it, as seen from outside; 0: not known
    // In strings; STRSET_NONE: none.
    uint32_t name, description, category, share_key, merge_key;
    bool has_pid, has_tid, is_counter, is_incremental, is_separate;
    uint8_t merge;          // enum track_merge
    uint8_t child_ordering; // TrackDescriptor.ChildTracksOrdering
    bool has_rank;
    int32_t rank;
    int64_t multiplier;       // of counter values
    const char *unit;         // static or in strings; NULL: unknown
    const char *builtin_type; // static; NULL: none
    // Where it turned out to be.
    enum { PLACE_UNKNOWN, PLACE_THREAD, PLACE_PROCESS, PLACE_GLOBAL } place;
    bool is_root; // it is the thread's or process's own
    int64_t place_id;
    int64_t track;       // of one that is not merged with others; -1: has none yet
    uint32_t event_name; // name of its first event, for one without name; in strings
    bool has_event_name;
    // Of incremental counters.
    double value;
    uint32_t epoch;
};
VEC_DEFINE(described_track_vec, struct described_track);

// A slice that a flow came by.
struct flow_end {
    int64_t slice, ts;
};
VEC_DEFINE(flow_end_vec, struct flow_end);

// The thread that an epoch of a sequence is of, and what the differences in its events amount to.
struct epoch_thread {
    uint32_t pid, tid;
    int64_t thread_ts, instructions;
};
VEC_DEFINE(epoch_thread_vec, struct epoch_thread);

struct track_events {
    struct map64 by_uuid;
    struct described_track_vec items;
    struct map64 threads; // sequence -> pid and tid of the thread that writes it
    struct map64 epochs;  // the same by epoch, known early -> index in epoch_threads
    struct epoch_thread_vec epoch_threads;
    struct map64 by_utid, by_upid; // the track that is a thread's or process's own
    struct map64 flows;            // flow -> index in flow_ends, of the slice it came by last
    struct flow_end_vec flow_ends;
    struct map64 async_names; // id of asynchronous events -> the first name they had
};

// What a track is asked for, because slices of merged tracks are told apart by begin and end.
enum track_use { USE_BEGIN, USE_END, USE_INSTANT, USE_COUNTER, USE_PARENT };

// Reads a TrackDescriptor. Later ones add to earlier ones. `trusted_pid`: see above.
void described_track_read(struct import *im, const struct wire_field *descriptor,
                          uint32_t trusted_pid);

// The track of that number with its place found, which may make its process or thread known. NULL:
// its parents are too many or run in a circle, or memory is out. Valid until the next call.
struct described_track *described_track_get(struct import *im, uint64_t uuid);

// The id of its row in the track table; `event_name` names a track that has no name of its own.
// `state` is that of the sequence that uses it; NULL: of no sequence.
uint32_t described_track_id(struct import *im, uint64_t uuid, uint32_t event_name,
                            enum track_use use, const struct generation *state);

// The thread that the packets of a sequence are of. False: it did not say.
bool sequence_thread(struct import *im, const struct generation *state, uint32_t *ret_pid,
                     uint32_t *ret_tid);
// What is known of it for this epoch of the sequence; NULL: nothing.
struct epoch_thread *epoch_thread(struct import *im, const struct generation *state);

// Those of the machine at hand.
struct track_events *track_events_of(const struct import *im);

extern const struct importer importer_track_descriptor; // has the state
