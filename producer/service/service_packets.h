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

#include "common/vec.h"
#include "common/wire.h"
#include "producer/service/clock_set.h"
#include "producer/service/session_settings.h"
#include "producer/trace/packet_buffer.h"

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
struct service_event {
    uint32_t field;
    nsec_t time;
};

#define SERVICE_EVENTS_MAX    64
#define SERVICE_SNAPSHOTS_MAX 16

struct service_packets {
    const struct clock_reader *clock;        // borrowed
    const struct session_settings *settings; // borrowed
    const uint8_t *config;                   // borrowed, the packed TraceConfig
    size_t config_size;

    struct clock_set snapshots[SERVICE_SNAPSHOTS_MAX]; // not yet written, oldest first
    size_t n_snapshots;
    struct service_event events[SERVICE_EVENTS_MAX]; // not yet written, oldest first
    size_t n_events;
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

// Remembers a snapshot if none waits to be written, or if the clocks have drifted since the last
// one that waits: the older one translates more of what is in the buffers.
void service_packets_snapshot(struct service_packets *packets);

// Remembers that the event (PB_TracingServiceEvent_*) happens now.
void service_packets_event(struct service_packets *packets, uint32_t field);

// Appends what has to be read before the buffers; it then counts as written.
void service_packets_put_head(struct service_packets *packets, struct packet_list *list);

// Appends what has to be read after the buffers: pending events and the statistics.
void service_packets_put_tail(struct service_packets *packets, const struct service_stats *stats,
                              struct packet_list *list);
