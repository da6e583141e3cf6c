// SPDX-License-Identifier: Apache-2.0
//
// Inside of trace_read(): the state of the two walks, and how packets get their time (times.c).
#pragma once

#include "converter/decode/clock_packets.h"
#include "converter/decode/machine_numbers.h"
#include "converter/decode/sequence.h"
#include "converter/decode/timeline.h"
#include "converter/decode/trace_handler.h"
#include "converter/ground/scratch.h"
#include "converter/ground/spill.h"

#define DATA_FIELDS_MAX 8 // of one packet; Perfetto writes one

struct deferred {
    struct wire_reader fields;
    uint32_t sequence_id, generation;
};

// The fields of a packet that say where it belongs, and those that a handler wants.
struct header {
    struct wire_reader fields;
    bool has_timestamp, cleared, dropped, is_first, needs_state;
    int64_t timestamp;
    uint32_t clock_id, sequence_id, raw_machine;
    bool is_marker;
    struct wire_field defaults, interned, snapshot, remote_sync, packets;
    bool has_thread_time; // see thread_clock.h
    int64_t thread_time;
    struct wire_field data[DATA_FIELDS_MAX];
    enum field_interest interest[DATA_FIELDS_MAX];
    size_t n_data;
    uint32_t left_out; // number of a field with data that is not among them; 0: none
};

struct reader {
    struct input *input;
    struct spill spill; // inflated packets
    const struct trace_handler *handler;
    struct clocks *clocks;
    struct sequences sequences;
    struct timeline timeline;
    const char *folder;      // borrowed, for temporary files
    struct scratch deferred; // struct deferred, in file order
    size_t n_deferred;
    struct trace_result *result;
    struct err *err;
    uint64_t packet_offset; // of the outermost packet at hand
    bool damage_noted;      // of that packet
    int64_t latest_ts;
    bool latest_is_event; // of ftrace
    struct trace_machines machines;
    uint32_t machine;            // at hand
    size_t since_forget;         // bytes read since pages were let go
    uint64_t n_steps, steps_due; // value of n_steps at which it is asked
    bool final;                  // no more snapshots will come
    struct budget *budget;       // borrowed; NULL: none
    enum budget_stage stage;
    size_t due; // value of since_forget at which it is asked
};

static inline void reader_problem(struct reader *reader, enum trace_problem kind, uint32_t detail)
{
    reader->handler->problem(reader->handler->userdata, kind, detail);
}

static inline struct trace_machine *reader_machine(const struct reader *reader)
{
    return machine_at(&reader->machines, reader->machine);
}

// The machine of what follows. 0 or a negative errno.
static inline int reader_enter(struct reader *reader, uint32_t machine)
{
    if (machine == reader->machine)
        return 0;
    reader->machine = machine;
    return reader->handler->machine(reader->handler->userdata, machine,
                                    reader_machine(reader)->raw_id);
}

// The events of an EtwTraceEventBundle. 0 or a negative errno.
int etw_events_place(struct reader *reader, const struct wire_field *field, uint32_t generation);

// A ClockSnapshot, a RemoteClockSync. 0 or -ENOMEM.
int reader_snapshot(struct reader *reader, const struct header *header, uint32_t generation);
int reader_remote_sync(struct reader *reader, const struct header *header);

// The packet's trace time; false: its clock is unknown.
bool reader_packet_time(struct reader *reader, const struct header *header,
                        const struct generation *state, int64_t *ret, clock_key_t *ret_clock);
void reader_clock_problem(struct reader *reader, clock_key_t clock);

// The clock of a bundle, and what it says of it. False: it is not a known one.
bool reader_bundle_clock(struct reader *reader, const struct bundle_measure *bundle,
                         uint32_t sequence, clock_key_t *ret);

// `timestamp` of a clock of the machine at hand; false: nothing connects it with the trace's.
bool reader_time(struct reader *reader, clock_key_t clock, int64_t timestamp, int64_t *ret);

// The clock that a run's times are of.
clock_key_t reader_item_clock(const struct reader *reader, const struct timeline_item *item);
