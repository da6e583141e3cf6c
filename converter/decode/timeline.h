// SPDX-License-Identifier: Apache-2.0
//
// What is to be done in order of time: packets and ftrace runs, each a reference into the trace.
// Runs are merged while they are walked, so an ftrace event costs no memory at all; of many items,
// most are in a temporary file.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/decode/bundle.h"
#include "converter/ground/scratch.h"

#define TIMELINE_PACKET N_RUN_KINDS       // kind of items that are whole packets
#define TIMELINE_ETW    (N_RUN_KINDS + 1) // and of single events of Windows

#define TIMELINE_AFTER_EVENTS UINT16_MAX // queue of packets that have their time from an event

struct timeline_item {
    int64_t ts; // of a run: its least
    const uint8_t *data;
    uint32_t size;
    uint32_t order;      // of items with equal time and queue
    uint32_t generation; // see sequence.h
    uint16_t queue;      // packets 0 or as above, ftrace of processor N is N + 1
    uint8_t kind;        // enum run_kind, TIMELINE_PACKET or TIMELINE_ETW
    uint8_t sorted : 1;  // of a run
    uint8_t clock : 7;   // of a run: FtraceClock
};
VEC_DEFINE(timeline_item_vec, struct timeline_item);

struct open_run; // a run being walked
VEC_DEFINE(open_run_vec, struct open_run *);

// Items in order of time that are not yet begun, at least one.
struct timeline_piece {
    struct timeline_item first; // a copy of *next
    const struct timeline_item *next, *end;
};
VEC_DEFINE(timeline_piece_vec, struct timeline_piece);

// All zero is empty.
struct timeline {
    const char *folder;             // borrowed, for temporary files; NULL: the system's place
    struct timeline_item_vec items; // added last
    struct scratch scratch;         // those before, sorted piece by piece
    size_t n_items, n_begun;
    struct timeline_piece_vec pieces; // a heap by their next item
    bool used_top;                    // the record at the top of the heap was handed out
    struct open_run_vec runs;         // owned, a heap by time of their next record
    // Converts a run's time; false drops the record. Called in the order of each run.
    bool (*convert)(void *userdata, const struct timeline_item *item, int64_t ts, int64_t *ret);
    void *userdata;
};

// Sets ->order. 0 or a negative errno.
int timeline_add(struct timeline *timeline, struct timeline_item item);

// To be called between the last addition and the first timeline_next(). 0 or -ENOMEM.
int timeline_sort(struct timeline *timeline);

// The next item in time; for runs, their next record, with its trace time in *ret_ts. Pointers are
// valid until the next call. 1, 0 at the end, or -ENOMEM.
int timeline_next(struct timeline *timeline, const struct timeline_item **ret_item,
                  const struct run_record **ret_record, int64_t *ret_ts);

// Takes the temporary file out of this process's memory; it comes back where it is read.
void timeline_forget(const struct timeline *timeline);

void timeline_done(struct timeline *timeline);
