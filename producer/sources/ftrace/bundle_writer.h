// SPDX-License-Identifier: Apache-2.0
//
// Writes FtraceEventBundles: the events of one CPU, in as many packets as they need.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/sources/ftrace/compact_sched.h"
#include "producer/sources/ftrace/event_plan.h"
#include "producer/trace/packet_writer.h"

// Keys of packets that survive the wrap of a ring (packet_retain).
enum {
    FTRACE_KEY_START_STATS = 1,
    FTRACE_KEY_SYMBOLS = 2,
    FTRACE_KEY_ENDS = 3, // other keys are UUIDs of tracks
};

// The head of each bundle, before its events.
struct bundle_head {
    uint32_t cpu;
    bool lost;             // the kernel lost events before the first one
    uint64_t previous_end; // time of the last event in the CPU's previous bundle; 0: none
    uint32_t clock;        // FtraceClock; 0: boot time, and the next two are unused
    int64_t ftrace_time;   // both clocks at the same moment
    int64_t boot_time;
};

#define BUNDLE_DESCRIBED_MAX 256 // distinct events of unknown type in one bundle

struct bundle {
    struct packet_writer *writer; // borrowed
    struct event_context *context;
    struct compact_sched *compact; // owned; NULL: scheduling events are written one by one
    struct bundle_head head;       // of the open bundle, or of the next one
    struct wire_writer *wire;      // of the open packet; NULL: none
    size_t body;                   // offset of the bundle's first field in the packet
    size_t closing;                // bytes reserved for the end of the bundle
    const struct event_plan
        *described[BUNDLE_DESCRIBED_MAX]; // described events that this bundle has
    size_t n_described;
    size_t symbols_sent; // kernel symbols whose names are in closed packets
    size_t symbols_due;  // symbols_sent, plus the symbols at the end of this bundle
    uint64_t last_time;  // of the last event, of this CPU
    size_t want;         // estimated bytes of the next packet
    uint64_t n_events;   // written so far, in all bundles
    uint64_t n_before;   // written before the open packet
    uint64_t n_refused;  // events that the buffer refused
};

// `compact` is the format of the kernel's scheduling events, or NULL. Returns 0 or -ENOMEM.
int bundle_init(struct bundle *bundle, struct packet_writer *writer, struct event_context *context,
                const struct compact_format *compact);
void bundle_done(struct bundle *bundle);

// Closes the open packet. The next events belong to this CPU.
void bundle_start(struct bundle *bundle, const struct bundle_head *head);

static inline void bundle_count_event(struct bundle *bundle, const struct page_record *record)
{
    bundle->n_events++;
    bundle->last_time = record->timestamp;
}

// Returns the bytes for further events in the open packet.
static inline size_t bundle_room(const struct bundle *bundle)
{
    size_t room = wire_room(bundle->wire);
    return room > bundle->closing ? room - bundle->closing : 0;
}

// Encodes an event that has room in the open packet.
static inline bool bundle_encode(struct bundle *bundle, const struct event_plan *plan,
                                 const struct page_record *record)
{
    uint8_t *end = event_plan_encode(plan, bundle->context, record, bundle->wire->pos);
    if (__builtin_expect(!end, 0))
        return false;
    bundle->wire->pos = end;
    bundle_count_event(bundle, record);
    return true;
}

bool bundle_add_slow(struct bundle *bundle, const struct event_plan *plan,
                     const struct page_record *record);

// Adds one record. Returns false, and writes nothing, if the record contradicts its format. Returns
// true and counts n_refused if the buffer has no room.
static inline bool bundle_add(struct bundle *bundle, const struct event_plan *plan,
                              const struct page_record *record)
{
    if (__builtin_expect(plan->explained || !bundle->wire ||
                             bundle_room(bundle) < event_plan_room(plan, record->size),
                         0))
        return bundle_add_slow(bundle, plan, record);
    return bundle_encode(bundle, plan, record);
}

// Adds a scheduling event to the columns; `compact` must not be NULL.
bool bundle_add_compact(struct bundle *bundle, const struct page_record *record);

// Adds a read error to the bundle. `timestamp` 0: unknown.
void bundle_add_error(struct bundle *bundle, uint64_t timestamp, enum page_status status);

// Begins another packet of the same CPU. The packet may stay without events, to report lost events.
void bundle_next(struct bundle *bundle);

// Closes the open packet, if there is one.
void bundle_close(struct bundle *bundle);

// Makes the next packets repeat the names of all kernel symbols, because readers drop the
// sequence's state.
void bundle_clear_state(struct bundle *bundle);
