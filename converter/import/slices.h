// SPDX-License-Identifier: Apache-2.0
//
// Slices: nested spans of time on a track. A row is written when its slice leaves the stack, so
// memory holds only open slices.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/import/args.h"

// A slice that a new slice would partly overlap
struct slice_overlap {
    struct slice_name name;
    int64_t ts, dur;
};

struct slice_spec {
    int64_t ts, dur; // dur is for slice_add() only
    uint32_t track;
    struct slice_name category, name;
    const struct arg *args; // copied
    size_t n_args;
    // CPU time (ns) and instructions of the thread at `ts`; for slice_add() also of the slice.
    bool has_thread_ts, has_instructions;
    int64_t thread_ts, instructions, thread_dur, instruction_delta;
    enum { THREAD_DUR_WITH_TS, THREAD_DUR_KNOWN, THREAD_DUR_UNKNOWN } thread_dur_is;
    // If the new slice ends after the slice around it, slice_add() returns SLICE_OVERLAPS, counts
    // nothing and sets *overlap. NULL: slice_add() leaves out and counts the new slice.
    struct slice_overlap *overlap;
    // The track holds one slice at a time. A begin in an open slice is only counted, in the args of
    // the open slice.
    bool single;
};

struct open_slice;
struct slice_stack;
VEC_DEFINE(slice_stack_vec, struct slice_stack *);

struct stats;
struct translations;

struct slices {
    struct database *db;                     // borrowed
    struct args *args;                       // borrowed
    struct stats *stats;                     // borrowed
    const struct translations *translations; // borrowed
    struct slice_stack_vec stacks;           // owned, by track
    struct bounds bounds;                    // of all slices
    struct failure *failure;                 // borrowed
    // Called with the next slice of a track for which slice_await() was called.
    void (*begun)(void *userdata, uint32_t track, int64_t slice, int64_t ts);
    void *userdata;
};

#define SLICE_NONE     (-1)
#define SLICE_OVERLAPS (-2)

// Opens a slice. Returns the slice's id, or SLICE_NONE if the slice is nested too deeply or only
// counted.
int64_t slice_begin(struct slices *slices, const struct slice_spec *spec);

// Closes the innermost open slice with the spec's category and name, and adds the args. An absent
// category or name matches any. Returns the slice's id, or SLICE_NONE if no slice matches.
int64_t slice_end(struct slices *slices, const struct slice_spec *spec);
// Closes the innermost open slice of a track, with any category and name.
static inline void slice_close(struct slices *slices, int64_t ts, uint32_t track)
{
    slice_end(slices, &(struct slice_spec){.ts = ts, .track = track});
}

// Does the work of slice_end(). *ret_ts: the slice's start.
int64_t slice_end_of(struct slices *slices, const struct slice_spec *spec, int64_t *ret_ts);

// Adds the spec's args to the innermost open slice with the spec's category and name, if a slice
// matches.
void slice_add_args(struct slices *slices, const struct slice_spec *spec);

// Returns the args so far of the slice that slice_end() would close; NULL: no slice. Valid until
// the next call.
const struct arg_vec *slice_open_args(const struct slices *slices, const struct slice_spec *spec);

// Renames the innermost open slice of the track, if a slice is open.
void slice_rename(struct slices *slices, uint32_t track, struct slice_name name);

// Adds a slice of known duration (ns); 0 is an instant.
int64_t slice_add(struct slices *slices, const struct slice_spec *spec);

// Reports the track's next slice to `begun`.
void slice_await(struct slices *slices, uint32_t track);

// Returns the innermost slice on the track's stack, or SLICE_NONE. *ret_ts: the slice's start.
int64_t slices_top(const struct slices *slices, uint32_t track, int64_t *ret_ts);

// Writes the slices that are still open.
void slices_finish(struct slices *slices);
void slices_done(struct slices *slices);
