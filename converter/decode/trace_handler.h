// SPDX-License-Identifier: Apache-2.0
//
// The interface of a handler of traces. The handler first gets packets in file order, for data that
// is needed early: clocks, the trace's config, descriptors. Then the handler gets packets and
// single events in order of time. interest() chooses the order of each field. trace_read() in
// trace.h calls the handler.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/wire.h"
#include "converter/decode/bundle.h"
#include "converter/decode/clocks.h"
#include "converter/decode/sequence.h"
#include "converter/input/input.h"

struct packet {
    int64_t ts;                // trace time
    struct wire_reader fields; // the whole TracePacket
    uint32_t sequence_id;
    const struct generation *state;    // interned data and defaults in force
    const struct sequences *sequences; // in file order: state after the packets so far; else NULL
    const struct wire_field *message;  // the field to handle
    void *own;                         // free for use by the handler
};

// An event of a bundle: FtraceEvent or one of the compact forms, or EtwTraceEvent.
struct bundle_event {
    int64_t ts; // trace time
    uint32_t cpu;
    enum run_kind kind;           // RUN_EVENTS, or a compact form
    const struct run_record *run; // the run's `ts` is not trace time
    const struct generation *state;
};

// The order in which the handler gets a field of TracePacket.
enum field_interest {
    FIELD_IGNORED,
    FIELD_NOW,    // in file order
    FIELD_SORTED, // in order of time
    FIELD_BOTH,   // in file order, then in order of time
    FIELD_EVENTS, // a bundle (FtraceEventBundle, EtwTraceEventBundle): its events in order of time
};

// Problems in a trace that do not end the conversion.
enum trace_problem {
    PROBLEM_PACKET_DAMAGED,         // the fields of the packet cannot be read
    PROBLEM_MESSAGE_DAMAGED,        // a message cannot be read to its end; see intact.h
    PROBLEM_COMPRESSED_DAMAGED,     // compressed packets cannot be inflated
    PROBLEM_COMPRESSED_UNSUPPORTED, // zstd packets in a build without zstd
    PROBLEM_CLOCK_UNKNOWN,          // time stamp of a clock that no snapshot has
    PROBLEM_CLOCK_UNRELATED,        // time stamp of a clock without connection to the trace clock
    PROBLEM_TIME_NEGATIVE,          // time stamp before the trace's clock began
    PROBLEM_CLOCK_SNAPSHOT,         // snapshot contradicts itself or earlier snapshots
    PROBLEM_STATE_MISSING,          // packet needs interned data that was lost
    PROBLEM_BUNDLE_DAMAGED,         // ftrace bundle without processor, or unreadable
    PROBLEM_COMPACT_SCHED_DAMAGED,  // compact sched events do not fit together
    PROBLEM_EVENTS_LOST,            // ftrace: the kernel overwrote events; detail is the cpu
    PROBLEM_PACKETS_LOST,           // a sequence lost packets
    PROBLEM_SEQUENCE_MISSING,       // a packet without sequence has state; detail is the field
    PROBLEM_INTERNED_IGNORED,       // interned data of a sequence that lost packets
    PROBLEM_INTERNED_MISSING,       // packets refer to missing interned data; detail is the count
    PROBLEM_INTERNED_WITHHELD,      // see sequence.h; detail is the count
    PROBLEM_THREAD_TIME_UNSET,      // see thread_clock.h; detail is the field of TracePacket
    PROBLEM_THREAD_TIME_NEGATIVE,   // see thread_clock.h; detail is the field of TracePacket
    PROBLEM_THREAD_TIME_IGNORED,    // a ThreadDescriptor of a sequence that lost packets
    PROBLEM_MACHINES_MANY,          // packet of a machine beyond MACHINES_MAX
    PROBLEM_FIELD_LEFT_OUT,         // the handler does not want the field; detail is the field
    PROBLEM_ETW_DAMAGED,            // ETW event without processor or time, or unreadable
    N_TRACE_PROBLEMS
};

// The result of trace_read(). Offsets are offsets in input_bytes().
struct trace_result {
    uint64_t n_packets; // complete packets; compressed packets count as one
    bool truncated;     // the bytes end or break within the next packet
    uint64_t truncated_offset;
    uint64_t n_damaged; // packets with damaged content
    uint64_t first_damaged_offset, first_damaged_packet;
    enum trace_problem first_damage;
    uint32_t first_damaged_field; // of TracePacket, if a message is damaged; else 0
    bool has_trace_clock;         // a snapshot named the trace clock
    // The limit that ended reading, if any. `stopped`: the bytes from `stopped_offset` on are left
    // out. `stopped_late`: packets and events after `stopped_ts` are left out.
    enum budget_limit stopped, stopped_late;
    uint64_t stopped_offset;
    int64_t stopped_ts;
};

struct trace_handler {
    void *userdata; // borrowed
    // Sets the machine of the following calls, in both walks; see machine_numbers.h. Initially 0.
    // `raw_id`: machine id in the trace. Returns 0 or a negative errno.
    int (*machine)(void *userdata, uint32_t machine, uint32_t raw_id);
    enum field_interest (*interest)(void *userdata, uint32_t field);
    // now() handles a packet in file order, sorted() in order of time. Both, and the next two,
    // return 0 or a negative errno that ends the conversion.
    int (*now)(void *userdata, struct packet *packet);
    int (*sorted)(void *userdata, struct packet *packet);
    // Handles an event. `field`: the field of TracePacket with the bundle.
    int (*event)(void *userdata, uint32_t field, const struct bundle_event *event);
    // Handles a descriptor of events in a bundle, in file order.
    int (*describe)(void *userdata, uint32_t field, const struct wire_field *descriptor);
    // Called before indexed(), for machines with a known start. `ts`: the time from which the data
    // of all processors is complete.
    int (*complete)(void *userdata, uint32_t field, int64_t ts);
    // Called between the two walks.
    int (*indexed)(void *userdata, const struct trace_result *result);
    // Called at the end with the outcome (0 or a negative errno), while trace bytes can still be
    // read. Returns the final outcome.
    int (*finished)(void *userdata, int outcome, const struct trace_result *result);
    void (*snapshot)(void *userdata, uint32_t id, int64_t ts, const struct clock_reading *readings,
                     size_t n);
    void (*problem)(void *userdata, enum trace_problem problem, uint32_t detail);
    // Called from time to time; `done`: 0 to 1. Returns false to end the conversion with
    // -ECANCELED. May be NULL.
    bool (*progress)(void *userdata, double done);
    // Writes all waiting rows, before a check of the budget. May be NULL.
    void (*settle)(void *userdata);
};
