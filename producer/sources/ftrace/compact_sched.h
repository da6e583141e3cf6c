// SPDX-License-Identifier: Apache-2.0
//
// Scheduling events in columns: FtraceEventBundle.compact_sched. Within a bundle, names are
// interned and times are deltas. A switch takes about 10 bytes instead of 90.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "producer/sources/ftrace/format.h"
#include "producer/sources/ftrace/page.h"

#define COMPACT_EVENTS_MAX 1024 // of each kind, per bundle
#define COMPACT_COMMS_MAX  256
#define COMPACT_COMM_SIZE  16
#define COMPACT_ADD_MAX    96 // maximum growth in bytes per event

// Event ids, record sizes, and offsets of the fields in this kernel's records.
struct compact_format {
    uint16_t switch_id, switch_size, next_pid, next_prio, next_comm, prev_state;
    bool prev_state_wide;
    uint16_t waking_id, waking_size, pid, target_cpu, prio, comm, common_flags;
};

// Reads the format. Returns false if the kernel's format is not as expected: the events must then
// be encoded one by one. `waking_event` may be NULL.
bool compact_format_of(const struct event_format *switch_event,
                       const struct event_format *waking_event, struct compact_format *ret);

struct compact_column {
    uint8_t *end; // after the written bytes
    uint8_t bytes[COMPACT_EVENTS_MAX * WIRE_VARINT_MAX];
};

struct compact_sched {
    struct compact_format format;
    uint64_t switch_time, waking_time; // of the last event
    uint32_t n_switch, n_waking, n_comms;
    size_t size; // maximum bytes that compact_sched_write() writes
    struct compact_column switch_times, switch_states, switch_pids, switch_prios, switch_comms;
    struct compact_column waking_times, waking_pids, waking_cpus, waking_prios, waking_comms,
        waking_flags;
    uint64_t comms[COMPACT_COMMS_MAX][2];  // zero after the last one
    uint16_t slots[2 * COMPACT_COMMS_MAX]; // index + 1, by hash
};

// Empties the columns; required before the first use. The format stays.
void compact_sched_reset(struct compact_sched *compact);

static inline bool compact_sched_is_full(const struct compact_sched *compact)
{
    return compact->n_switch == COMPACT_EVENTS_MAX || compact->n_waking == COMPACT_EVENTS_MAX ||
           compact->n_comms == COMPACT_COMMS_MAX;
}

// Add an event. compact_sched_is_full() must be false, and the record must have at least
// switch_size (or waking_size) bytes. Return the pid that was switched to or woken up.
int32_t compact_sched_add_switch(struct compact_sched *compact, const struct page_record *record);
int32_t compact_sched_add_waking(struct compact_sched *compact, const struct page_record *record);

// Writes FtraceEventBundle.compact_sched, unless it is empty, and empties the columns.
void compact_sched_write(struct compact_sched *compact, struct wire_writer *w);
