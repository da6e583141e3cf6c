// SPDX-License-Identifier: Apache-2.0
//
// The packets and ftrace runs of a trace in order of time, as references into the trace. Runs are
// merged during the walk, so an ftrace event takes no memory. If the items are many, most of them
// are in a temporary file.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/decode/bundle.h"
#include "converter/ground/scratch.h"

#define TIMELINE_PACKET N_RUN_KINDS       // kind of an item that is a whole packet
#define TIMELINE_ETW    (N_RUN_KINDS + 1) // kind of an item that is an ETW event

#define TIMELINE_CPUS 4096

#define TIMELINE_AFTER_EVENTS UINT16_MAX // queue of packets whose time is the time of an event

struct timeline_item {
    int64_t ts; // of a run: its earliest time
    const uint8_t *data;
    uint32_t size;
    uint32_t order;            // order of items with equal time and queue
    uint32_t generation;       // see sequence.h
    uint16_t queue;            // packet: 0 or TIMELINE_AFTER_EVENTS; event: see timeline_queue()
    uint8_t kind;              // enum run_kind, TIMELINE_PACKET or TIMELINE_ETW
    uint8_t sorted : 1;        // of a run
    uint8_t clock : 6;         // of a run: FtraceClock
    uint8_t in_file_order : 1; // of a run: all runs with this bit are in queue 1
};
VEC_DEFINE(timeline_item_vec, struct timeline_item);

struct open_run; // a run being walked
VEC_DEFINE(open_run_vec, struct open_run *);
struct run_queue; // open runs of one kind and processor
VEC_DEFINE(queue_number_vec, uint16_t);
VEC_DEFINE(run_queue_vec, struct run_queue *);

// Sorted items that are not yet begun, at least one.
struct timeline_piece {
    struct timeline_item first; // a copy of *next
    const struct timeline_item *next, *end;
};
VEC_DEFINE(timeline_piece_vec, struct timeline_piece);

// All zero is empty.
struct timeline {
    const char *folder;             // borrowed, for temporary files; NULL: the system's folder
    struct timeline_item_vec items; // the last added items
    struct scratch scratch;         // the earlier items, in sorted pieces
    size_t n_items, n_begun;
    struct timeline_piece_vec pieces; // a heap by their next item
    struct queue_number_vec numbers;  // of queues, by kind and processor; 0: not used so far
    struct queue_number_vec keys;     // kind and processor, by number of the queue; 0: not used
    struct run_queue_vec queues;      // owned, by number; NULL: not used so far
    struct run_queue_vec waiting;     // a heap by the next event of queues
    struct run_queue *current;        // had the last event, and is not in the heap; NULL: none
    bool used_current;                // the next record of `current` was returned
    // Converts a time of a run; false drops the record. Called in the order of the run.
    bool (*convert)(void *userdata, const struct timeline_item *item, int64_t ts, int64_t *ret);
    void *userdata;
};

// *ret: the number of the queue for events of a kind and processor (below TIMELINE_CPUS). Numbers
// ascend in the order of first use. Returns 0 or -ENOMEM.
int timeline_queue(struct timeline *timeline, uint8_t kind, uint32_t cpu, uint16_t *ret);

// Returns the processor of a queue.
uint32_t timeline_cpu(const struct timeline *timeline, uint16_t queue);

// Adds an item and sets its `order`. Returns 0 or a negative errno.
int timeline_add(struct timeline *timeline, struct timeline_item item);

// Sorts the items. Called between the last timeline_add() and the first timeline_next(). Returns 0
// or -ENOMEM.
int timeline_sort(struct timeline *timeline);

// *ret_item: the next item in time. *ret_record: the next record of a run, or NULL. *ret_ts: trace
// time. Pointers are valid until the next call. Returns 1; 0 at the end; -ENOMEM.
int timeline_next(struct timeline *timeline, const struct timeline_item **ret_item,
                  const struct run_record **ret_record, int64_t *ret_ts);

// Removes the temporary file's pages from this process's memory; a read maps them again.
void timeline_forget(const struct timeline *timeline);

void timeline_done(struct timeline *timeline);
