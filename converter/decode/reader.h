// SPDX-License-Identifier: Apache-2.0
//
// Internals of trace_read(): the state of both walks, and the times of packets (times.c).
#pragma once

#include "converter/decode/clock_packets.h"
#include "converter/decode/machine_numbers.h"
#include "converter/decode/sequence.h"
#include "converter/decode/timeline.h"
#include "converter/decode/trace_handler.h"
#include "converter/ground/scratch.h"
#include "converter/ground/spill.h"

#define DATA_FIELDS_MAX 8 // of one packet; Perfetto writes one field

struct deferred {
    struct wire_reader fields;
    uint32_t sequence_id, generation;
};

// The fields of a packet that decide its place and time, and the fields that the handler wants.
struct header {
    struct wire_reader fields;
    bool has_timestamp, cleared, is_first, needs_state;
    uint32_t dropped; // bits of DataLossReason; 0: no packet is missing
    int64_t timestamp;
    uint32_t clock_id, sequence_id, raw_machine;
    bool is_marker;
    struct wire_field defaults, interned, snapshot, remote_sync, packets;
    bool has_thread_time; // see thread_clock.h
    int64_t thread_time;
    size_t n_data;
    uint32_t left_out; // number of a data field that is not in `data`; 0: none
    // The first n_data elements are set.
    struct wire_field data[DATA_FIELDS_MAX];
    enum field_interest interest[DATA_FIELDS_MAX];
};

#define READER_FAULTS 1024 // number of noted windows of 64 KiB

struct reader {
    struct input *input;
    struct spill spill; // inflated packets
    const struct trace_handler *handler;
    struct clocks *clocks;
    struct sequences sequences;
    struct timeline timeline;
    const char *folder;      // borrowed, folder of temporary files
    struct scratch deferred; // array of struct deferred, in file order
    size_t n_deferred;
    struct trace_result result;
    struct err *err;
    uint64_t packet_offset; // of the current outermost packet
    bool damage_noted;      // damage of this packet is counted
    int64_t latest_ts;
    bool latest_is_event; // latest_ts is the time of a kernel event
    struct trace_machines machines;
    uint32_t machine;                // current machine
    uint32_t raw_machine;            // id of the current machine in the trace
    size_t since_forget;             // bytes read since pages were released
    uintptr_t faults[READER_FAULTS]; // windows of memory that are counted in since_forget
    uint64_t n_steps, steps_due;     // steps_due: value of n_steps at the next pause
    bool final;                      // all snapshots are read
    struct budget *budget;           // borrowed; NULL: none
    enum budget_stage stage;
    size_t due; // value of since_forget at the next pause
};

static inline void reader_problem(struct reader *reader, enum trace_problem kind, uint32_t detail)
{
    reader->handler->problem(reader->handler->userdata, kind, detail);
}

static inline struct trace_machine *reader_machine(const struct reader *reader)
{
    return machine_at(&reader->machines, reader->machine);
}

// Makes `machine` the current machine. Returns 0 or a negative errno.
static inline int reader_enter(struct reader *reader, uint32_t machine)
{
    uint32_t raw_id = machine_at(&reader->machines, machine)->raw_id;
    if (machine == reader->machine && raw_id == reader->raw_machine)
        return 0;
    reader->machine = machine;
    reader->raw_machine = raw_id;
    return reader->handler->machine(reader->handler->userdata, machine, raw_id);
}

// Adds the events of an EtwTraceEventBundle to the timeline. Returns 0 or a negative errno.
int etw_events_place(struct reader *reader, const struct wire_field *field, uint32_t generation);

// reader_snapshot() handles a ClockSnapshot, reader_remote_sync() a RemoteClockSync. Both return 0
// or -ENOMEM.
int reader_snapshot(struct reader *reader, const struct header *header, uint32_t generation);
int reader_remote_sync(struct reader *reader, const struct header *header);

// *ret: the packet's trace time. Returns false if no snapshots connect the packet's clock,
// *ret_clock, with the trace clock.
bool reader_packet_time(struct reader *reader, const struct header *header,
                        const struct generation *state, int64_t *ret, clock_key_t *ret_clock);
void reader_clock_problem(struct reader *reader, clock_key_t clock);

// *ret: the clock of a bundle. Adds the bundle's clock pair as a snapshot. Returns false for an
// unknown clock.
bool reader_bundle_clock(struct reader *reader, const struct bundle_measure *bundle,
                         uint32_t sequence, clock_key_t *ret);

// Converts `timestamp` of a clock of the current machine to trace time. Returns false if no
// snapshots connect the clock with the trace clock.
bool reader_time(struct reader *reader, clock_key_t clock, int64_t timestamp, int64_t *ret);

// Returns the clock of a run's times.
clock_key_t reader_item_clock(const struct reader *reader, const struct timeline_item *item);
