// SPDX-License-Identifier: Apache-2.0
//
// Tracks that the trace describes: a TrackDescriptor has a track's number, name, place (thread,
// process, below another track) and kind (slices, counter, state). Descriptors may follow the
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
    uint32_t pid;           // of the host, if known
    uint32_t named_pid;     // as in the descriptor
    int64_t tid, named_tid; // of the host, if known; as in the descriptor
    uint32_t trusted_pid;   // host's pid of the describing process; 0: not known
    // In strings; STRSET_NONE: none.
    uint32_t name, description, category, share_key, merge_key;
    bool has_pid, has_tid, is_counter, is_incremental, is_separate, is_state;
    bool is_sandboxed;                     // other processes may have the same tid
    bool orders_processes, orders_threads; // track 0: the ranks of processes or threads count
    uint8_t merge;                         // enum track_merge
    uint8_t child_ordering;                // TrackDescriptor.ChildTracksOrdering
    bool has_rank;
    int32_t rank;
    int64_t multiplier;       // of counter values, if positive
    const char *unit;         // static or in strings; NULL: unknown
    const char *builtin_type; // static; NULL: none
    // The resolved place.
    enum { PLACE_UNKNOWN, PLACE_THREAD, PLACE_PROCESS, PLACE_GLOBAL } place;
    bool is_root; // the track is the own track of a thread or process
    int64_t place_id;
    int64_t track;       // row of a track that is not merged; -1: none yet
    uint32_t event_name; // name of the first event, for a track without name; in strings
    bool has_event_name;
};
VEC_DEFINE(described_track_vec, struct described_track);

// The last value of an incremental counter on a sequence, in an epoch.
struct counter_sum {
    double value;
    uint32_t epoch;
};
VEC_DEFINE(counter_sum_vec, struct counter_sum);

// A slice of a flow.
struct flow_end {
    int64_t slice, ts;
};
VEC_DEFINE(flow_end_vec, struct flow_end);

// The thread of an epoch of a sequence, and the sums of the differences in its events.
struct epoch_thread {
    uint32_t pid;
    int64_t tid;
    int64_t thread_ts, instructions;
};
VEC_DEFINE(epoch_thread_vec, struct epoch_thread);

// An older flow. The number of a flow is its place in the list. In the trace, an id, a category and
// a name identify the flow.
struct named_flow {
    uint32_t category, name; // in strings; STRSET_NONE: none
};
VEC_DEFINE(named_flow_vec, struct named_flow);

// A flow that ends at the next slice of a track.
struct waiting_flow {
    uint64_t flow;
    uint32_t next; // in the ring of the track
};
VEC_DEFINE(waiting_flow_vec, struct waiting_flow);

struct track_events {
    struct map64 by_uuid;
    struct described_track_vec items;
    struct map64 threads; // sequence -> index in sequence_threads of its writer
    struct map64 epochs;  // epoch -> index in epoch_threads; complete after file order
    struct epoch_thread_vec sequence_threads, epoch_threads;
    struct map64 counters; // incremental counter and sequence -> index in counter_sums
    struct counter_sum_vec counter_sums;
    struct map64 by_utid, by_upid; // uuid of the thread's or process's own track
    struct map64 flows;            // flow -> index in flow_ends of its last slice
    struct flow_end_vec flow_ends;
    struct map64 named_flow_ids; // id, category and name of an older flow -> its number
    struct named_flow_vec named_flows;
    struct map64 waiting; // track -> the last of its waiting flows
    struct waiting_flow_vec waiting_flows;
    struct map64 async_names; // id of asynchronous events -> their first name
    bool is_cropped;          // events before crop_ts are left out
    int64_t crop_ts;
};

// The use of a track. Begins and ends determine the row of a merged track.
enum track_use { USE_BEGIN, USE_END, USE_INSTANT, USE_COUNTER, USE_STATE, USE_PARENT };

// Reads a TrackDescriptor. The first descriptor of a uuid counts. Later descriptors of the same
// track may name the track; other later descriptors are left out. `trusted_pid`: see struct
// described_track.
void described_track_read(struct import *im, const struct wire_field *descriptor,
                          uint32_t trusted_pid);

// Returns the track `uuid`; NULL: no descriptor or event of the track so far.
struct described_track *described_track_find(const struct track_events *events, uint64_t uuid);

// Adds a track, which must be new; `made` is copied. NULL: memory ran out.
struct described_track *described_track_add(struct import *im, const struct described_track *made);

// Returns an unknown track: only `uuid` is set.
struct described_track described_track_unknown(uint64_t uuid);

// Returns a unique number for a thread with a tid that other processes may have, too.
static inline int64_t synthetic_tid(uint32_t pid, int64_t tid)
{
    return (int64_t)((uint64_t)pid << 32 | (uint64_t)tid);
}

static inline bool tid_is_synthetic(int64_t tid)
{
    return (uint64_t)tid >> 32 != 0;
}

// Returns the track `uuid` after resolving its place, which may add the track's process or thread.
// NULL: too many ancestors, a cycle, or memory ran out. Valid until the next call.
struct described_track *described_track_get(struct import *im, uint64_t uuid);

// Returns the id of the track's row. `event_name` names a track without a name. `state`: state of
// the sequence that uses the track; NULL: no sequence.
uint32_t described_track_id(struct import *im, uint64_t uuid, uint32_t event_name,
                            enum track_use use, const struct generation *state);

// *ret_pid, *ret_tid: the thread of a sequence. False: not known.
bool sequence_thread(struct import *im, const struct generation *state, uint32_t *ret_pid,
                     int64_t *ret_tid);
// Returns the thread of this epoch of the sequence; NULL: not known.
struct epoch_thread *epoch_thread(struct import *im, const struct generation *state);

// Name a process or a thread, and add the args of its row, from two descriptors. `chrome`: a
// ChromeProcessDescriptor or ChromeThreadDescriptor, or an absent field.
void process_describe(struct import *im, int64_t upid, const struct wire_field *process,
                      const struct wire_field *chrome);
void thread_describe(struct import *im, int64_t utid, const struct wire_field *thread,
                     const struct wire_field *chrome);

#define CHROME_RENDERER_EXTENSION 40 // a kind of process that ProcessDescriptor does not have

// Return the names of Chrome's kinds of processes and threads. NULL: no name.
const char *chrome_process_name(uint64_t type);
const char *chrome_thread_name(uint64_t type);

// Returns the state of the current machine.
struct track_events *track_events_of(const struct import *im);

extern const struct importer importer_track_descriptor; // has the state
