// SPDX-License-Identifier: Apache-2.0
//
// A trace as a handler sees it: every packet once in file order (for what must be known early:
// clocks, the trace's config, descriptors), then packets and single ftrace events in order of time.
// trace.h has the function that calls the handler.
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
    const struct generation *state;   // interned data and defaults in force
    const struct wire_field *message; // the field at hand
    void *own;                        // whoever handles it may use this
};

// An event of a bundle: FtraceEvent or one of the compact forms, or EtwTraceEvent.
struct bundle_event {
    int64_t ts; // trace time
    uint32_t cpu;
    enum run_kind kind;           // RUN_EVENTS, unless it is a compact form
    const struct run_record *run; // its ts is not trace time
    const struct generation *state;
};

// When a field of TracePacket is to be handed over.
enum field_interest {
    FIELD_IGNORED,
    FIELD_NOW,    // in file order
    FIELD_SORTED, // in order of time
    FIELD_BOTH,   // in file order, then in order of time
    FIELD_EVENTS, // a bundle (FtraceEventBundle, EtwTraceEventBundle): its events in order of time
};

// What goes wrong in a trace without ending it.
enum trace_problem {
    PROBLEM_PACKET_DAMAGED,         // its fields cannot be read
    PROBLEM_MESSAGE_DAMAGED,        // a message in it cannot be read to its end; see intact.h
    PROBLEM_COMPRESSED_DAMAGED,     // compressed packets cannot be inflated
    PROBLEM_COMPRESSED_UNSUPPORTED, // by what this build cannot inflate
    PROBLEM_CLOCK_UNKNOWN,          // time stamp of a clock that no snapshot has
    PROBLEM_CLOCK_UNRELATED,        // that nothing connects with the trace's
    PROBLEM_TIME_NEGATIVE,          // before the trace's clock began
    PROBLEM_CLOCK_SNAPSHOT,         // contradicts itself or earlier ones
    PROBLEM_STATE_MISSING,          // needs interned data that was lost
    PROBLEM_BUNDLE_DAMAGED,         // ftrace bundle without processor, or unreadable
    PROBLEM_COMPACT_SCHED_DAMAGED,  // compact sched events do not fit together
    PROBLEM_EVENTS_LOST,            // ftrace: the kernel overwrote events; detail is the cpu
    PROBLEM_PACKETS_LOST,           // a sequence lost packets
    PROBLEM_SEQUENCE_MISSING,     // a packet of no sequence has what is of one; detail is the field
    PROBLEM_INTERNED_IGNORED,     // interned data of a sequence that lost packets
    PROBLEM_INTERNED_MISSING,     // interned data that packets refer to; detail is how often
    PROBLEM_INTERNED_WITHHELD,    // see sequence.h; detail is how often
    PROBLEM_THREAD_TIME_UNSET,    // see thread_clock.h; detail is the field of TracePacket
    PROBLEM_THREAD_TIME_NEGATIVE, // the same
    PROBLEM_THREAD_TIME_IGNORED,  // a ThreadDescriptor of a sequence that lost packets
    PROBLEM_MACHINES_MANY,        // of more machines than are told apart
    PROBLEM_FIELD_LEFT_OUT,       // of a kind that no handler wants; detail is the field
    PROBLEM_ETW_DAMAGED,          // ETW event without processor or time, or unreadable
    N_TRACE_PROBLEMS
};

// How reading went. Offsets are in the trace as input_bytes() has it.
struct trace_result {
    uint64_t n_packets; // whole ones, compressed packets counted as one
    bool truncated;     // the bytes end or break in the middle of the packet behind these
    uint64_t truncated_offset;
    uint64_t n_damaged; // packets whose inside cannot be read in full
    uint64_t first_damaged_offset, first_damaged_packet;
    enum trace_problem first_damage;
    uint32_t first_damaged_field; // of TracePacket, where it is a message; else 0
    bool has_trace_clock;         // a snapshot told which it is
    // Which limit ended reading. Either the bytes from `stopped_offset` on are left out, or what
    // comes later than `stopped_ts`.
    enum budget_limit stopped, stopped_late;
    uint64_t stopped_offset;
    int64_t stopped_ts;
};

struct trace_handler {
    void *userdata; // borrowed
    // What follows, in both walks, is of this machine; see machine_numbers.h. At the start it is 0.
    // `raw_id` is its number in the trace. Returns 0 or a negative errno.
    int (*machine)(void *userdata, uint32_t machine, uint32_t raw_id);
    enum field_interest (*interest)(void *userdata, uint32_t field);
    // Both return 0 or a negative errno that ends the conversion.
    int (*now)(void *userdata, struct packet *packet);
    int (*sorted)(void *userdata, struct packet *packet);
    // The same; `field` of TracePacket is that of the bundle.
    int (*event)(void *userdata, uint32_t field, const struct bundle_event *event);
    // The same, in file order: a descriptor of events that the bundle carries.
    int (*describe)(void *userdata, uint32_t field, const struct wire_field *descriptor);
    // Before the next, for machines of which it is known: the moment from which the data of all
    // processors is complete.
    int (*complete)(void *userdata, uint32_t field, int64_t ts);
    // Between the two: all packets were seen in file order.
    int (*indexed)(void *userdata, const struct trace_result *result);
    // At the end, however it went (0 or a negative errno), while trace bytes can still be read.
    // Returns the outcome.
    int (*finished)(void *userdata, int outcome);
    void (*snapshot)(void *userdata, uint32_t id, int64_t ts, const struct clock_reading *readings,
                     size_t n);
    void (*problem)(void *userdata, enum trace_problem problem, uint32_t detail);
    // From time to time, share done in 0..1; false stops the conversion with -ECANCELED. May be
    // NULL.
    bool (*progress)(void *userdata, double done);
    // Writes what waits, before the room in files is asked about. May be NULL.
    void (*settle)(void *userdata);
};
