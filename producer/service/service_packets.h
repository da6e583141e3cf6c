// SPDX-License-Identifier: Apache-2.0
//
// The packets of the service itself, sequence 1 of every trace: clock snapshots, synchronization
// markers, the config, the machine, what happened to the session when, and the losses. They are
// kept as state, not in the session's buffers, so no load can push them out, and are encoded when
// the session is read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/vec.h"
#include "common/wire.h"
#include "producer/service/session/clock_set.h"
#include "producer/service/session/session_settings.h"
#include "producer/trace/packet_buffer.h"
#include "protos/trace/trace_stats.pb-c.h"

#define SERVICE_SEQUENCE_ID 1

VEC_DEFINE(byte_vec, uint8_t);

// Encoded packets one behind the other, each with its size in front. All zero is an empty list.
// Where memory runs out, packets are missing.
struct packet_list {
    struct byte_vec bytes;
    size_t read; // bytes that packet_list_advance() has passed
};

// The packet at hand, borrowed until the list changes; false at the end.
bool packet_list_peek(const struct packet_list *list, struct packet_view *ret);
void packet_list_advance(struct packet_list *list);
void packet_list_clear(struct packet_list *list);
void packet_list_done(struct packet_list *list);

// What happened to the session: PB_TracingServiceEvent_* and when (boot time).
struct lifecycle_event {
    uint32_t field;
    uint32_t value;
    nsec_t time;
};

// A trigger that somebody fired.
struct service_trigger_hit {
    const char *name, *producer_name; // borrowed for the call
    uid_t producer_uid;
    nsec_t time; // boot time of the trigger
    uint32_t stop_delay_ms;
};

// A copy whose strings are its own.
int trigger_hit_copy(const struct service_trigger_hit *hit, struct service_trigger_hit *ret);
void trigger_hit_done(struct service_trigger_hit *hit);

#define SERVICE_EVENTS_MAX    64
#define SERVICE_SNAPSHOTS_MAX 16
#define SERVICE_TRIGGERS_MAX  64

struct service_packets {
    const struct clock_reader *clock;        // borrowed
    const struct session_settings *settings; // borrowed
    const uint8_t *config;                   // borrowed, the packed TraceConfig
    size_t config_size;

    struct clock_set snapshots[SERVICE_SNAPSHOTS_MAX]; // not yet written, oldest first
    size_t n_snapshots;
    struct lifecycle_event events[SERVICE_EVENTS_MAX]; // not yet written, oldest first
    size_t n_events;
    struct service_trigger_hit triggers[SERVICE_TRIGGERS_MAX]; // not yet written, owned strings
    size_t n_triggers;
    struct service_trigger_hit clone_trigger; // that this snapshot was made for; name NULL: none
    struct service_packets *twin;             // borrowed: is told of everything, too; NULL: none
    bool sync_due;
    bool initial_written; // config, uuid and machine are in the trace
};

// TraceStats as the service fills it.
struct service_stats {
    const struct packet_buffer_stats *buffers; // borrowed, n_buffers of them
    const uint64_t *writer_losses;             // borrowed, packets cut or refused, by buffer
    size_t n_buffers;
    uint64_t n_classes, n_sources;
    uint64_t n_flushes; // all succeed: sources are in this process
    bool final_flush_done;
};

// The borrowed ones must outlive `packets`.
void service_packets_init(struct service_packets *packets, const struct clock_reader *clock,
                          const struct session_settings *settings, const uint8_t *config,
                          size_t config_size);
void service_packets_done(struct service_packets *packets);

// Makes `packets`, just initialised, the beginning of a snapshot of `from`: what waits to be
// written there waits here too, and nothing counts as written. -ENOMEM: a trigger is missing.
int service_packets_copy(struct service_packets *packets, const struct service_packets *from);

// Remembers a snapshot if none waits to be written, or if the clocks have drifted since the last
// one that waits: the older one translates more of what is in the buffers.
void service_packets_snapshot(struct service_packets *packets);

// Remembers that the event (PB_TracingServiceEvent_*) happens now.
void service_packets_event(struct service_packets *packets, uint32_t field);
// The same with a value other than 1 and a time other than now.
void service_packets_event_at(struct service_packets *packets, uint32_t field, uint32_t value,
                              nsec_t time);

// Remembers a trigger. Of too many that wait to be written, the first and the newest are kept.
int service_packets_trigger(struct service_packets *packets, const struct service_trigger_hit *hit);
void service_packets_forget_triggers(struct service_packets *packets);

// Appends what has to be read before the buffers; it then counts as written.
void service_packets_put_head(struct service_packets *packets, struct packet_list *list);

// Appends what has to be read after the buffers: pending events and the statistics.
void service_packets_put_tail(struct service_packets *packets, const struct service_stats *stats,
                              struct packet_list *list);

// The same statistics as a message; free with pb__trace_stats__free_unpacked(). NULL: no memory.
Pb__TraceStats *service_stats_message(const struct service_stats *stats);
