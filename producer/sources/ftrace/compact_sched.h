// SPDX-License-Identifier: Apache-2.0
//
// Scheduling events in columns: FtraceEventBundle.compact_sched. A switch takes some 10 bytes
// instead of 90, because names are interned and times are deltas, within one bundle.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "producer/sources/ftrace/format.h"
#include "producer/sources/ftrace/page.h"

#define COMPACT_EVENTS_MAX 1024 // of each kind in a bundle
#define COMPACT_COMMS_MAX  256
#define COMPACT_COMM_SIZE  16
#define COMPACT_ADD_MAX    96 // bytes by which one event can grow the outcome

// Where the columns stand in this kernel's records.
struct compact_format {
    uint16_t switch_id, switch_size, next_pid, next_prio, next_comm, prev_state;
    bool prev_state_wide;
    uint16_t waking_id, waking_size, pid, target_cpu, prio, comm, common_flags;
};

// False if the kernel's events are not as expected: they must be encoded one by one then.
// `waking_event` may be NULL.
bool compact_format_of(const struct event_format *switch_event,
                       const struct event_format *waking_event, struct compact_format *ret);

struct compact_column {
    uint8_t *end; // behind what is written
    uint8_t bytes[COMPACT_EVENTS_MAX * WIRE_VARINT_MAX];
};

struct compact_sched {
    struct compact_format format;
    uint64_t switch_time, waking_time; // of the last event
    uint32_t n_switch, n_waking, n_comms;
    size_t size; // bytes that compact_sched_write() takes at most
    struct compact_column switch_times, switch_states, switch_pids, switch_prios, switch_comms;
    struct compact_column waking_times, waking_pids, waking_cpus, waking_prios, waking_comms,
        waking_flags;
    uint64_t comms[COMPACT_COMMS_MAX][2];  // zero behind their end
    uint16_t slots[2 * COMPACT_COMMS_MAX]; // index + 1, by hash
};

// Empties it; needed before the first use. The format stays.
void compact_sched_reset(struct compact_sched *compact);

static inline bool compact_sched_is_full(const struct compact_sched *compact)
{
    return compact->n_switch == COMPACT_EVENTS_MAX || compact->n_waking == COMPACT_EVENTS_MAX ||
           compact->n_comms == COMPACT_COMMS_MAX;
}

// Both want compact_sched_is_full() to be false and a record of at least switch_size (waking_size)
// bytes. They return the pid that was switched to or woken up.
int32_t compact_sched_add_switch(struct compact_sched *compact, const struct page_record *record);
int32_t compact_sched_add_waking(struct compact_sched *compact, const struct page_record *record);

// Writes FtraceEventBundle.compact_sched, if there is anything, and empties it.
void compact_sched_write(struct compact_sched *compact, struct wire_writer *w);
