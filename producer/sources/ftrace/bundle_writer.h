// SPDX-License-Identifier: Apache-2.0
//
// The FtraceEventBundle that is being written: one CPU's events, in as many packets as they need.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/compact_sched.h"
#include "producer/sources/ftrace/event_plan.h"
#include "producer/trace/packet_writer.h"

// Keys of the packets of a sequence that outlive a ring (packet_retain).
enum {
    FTRACE_KEY_START_STATS = 1,
    FTRACE_KEY_SYMBOLS = 2,
    FTRACE_KEY_ENDS = 3, // others are UUIDs of tracks
};

// What stands in front of the events of each bundle.
struct bundle_head {
    uint32_t cpu;
    bool lost;             // the kernel lost events before the first one
    uint64_t previous_end; // time of the last event of this CPU's bundle before; 0: none
    uint32_t clock;        // FtraceClock; 0: boot time, and the other two are not written
    int64_t ftrace_time;   // both clocks at one moment
    int64_t boot_time;
};

#define BUNDLE_DESCRIBED_MAX 256 // different events of unknown type in one bundle

struct bundle {
    struct packet_writer *writer; // borrowed
    const struct event_context *context;
    struct compact_sched *compact; // owned; NULL: scheduling events are written one by one
    struct bundle_head head;       // of the bundle that is open or will be opened next
    struct wire_writer *wire;      // of the open packet; NULL: none
    size_t body;                   // offset of the bundle's first field in it
    size_t closing;                // bytes to keep free for what is written at the end
    const struct event_plan *described[BUNDLE_DESCRIBED_MAX]; // of which this bundle holds events
    size_t n_described;
    size_t symbols_sent; // kernel symbols whose names are in closed packets
    size_t symbols_due;  // and in closed packets or at the end of this bundle
    uint64_t last_time;  // of the event added last, of this CPU
    size_t want;         // a guess at the bytes of what comes: how much room the next packet gets
    uint64_t n_events;   // written so far, in all bundles
    uint64_t n_before;   // and before the open packet
    uint64_t n_refused;  // events that the buffer had no room for
};

// `compact` is NULL or the format of the kernel's scheduling events. 0 or -ENOMEM.
int bundle_init(struct bundle *bundle, struct packet_writer *writer,
                const struct event_context *context, const struct compact_format *compact);
void bundle_done(struct bundle *bundle);

// The next events are of this CPU; what is open is closed.
void bundle_start(struct bundle *bundle, const struct bundle_head *head);

// Adds one record. False if it contradicts its format; nothing is written then. A record that the
// buffer has no room for counts in n_refused, and is true.
bool bundle_add(struct bundle *bundle, const struct event_plan *plan,
                const struct page_record *record);

// The same for scheduling events in columns; `compact` must not be NULL.
bool bundle_add_compact(struct bundle *bundle, const struct page_record *record);

// Notes that something could not be read. `timestamp` 0: unknown.
void bundle_add_error(struct bundle *bundle, uint64_t timestamp, enum page_status status);

// Begins another packet of the same CPU, also without events (to say that some were lost).
void bundle_next(struct bundle *bundle);

// Ends the open packet, if there is one.
void bundle_close(struct bundle *bundle);

// Sends the names of all kernel symbols again: readers forget the sequence's state.
void bundle_clear_state(struct bundle *bundle);
