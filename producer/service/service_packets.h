// SPDX-License-Identifier: Apache-2.0
//
// The service's own packets, sequence 1 of every trace: clock snapshots, synchronization markers,
// the config, the machine, the events of the session with their times, and the losses. The service
// keeps them separately from the session's buffers, so that no load can push them out. They are
// encoded when the session is read.
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

// Encoded packets in a row, each after its size. All zero is an empty list. If memory runs out for
// a packet, the packet is missing: see service_packets_reserve().
struct packet_list {
    struct byte_vec bytes;
    size_t read; // bytes passed by packet_list_advance()
};

// Sets *ret to the present packet, borrowed until the list changes. Returns false at the end.
bool packet_list_peek(const struct packet_list *list, struct packet_view *ret);
void packet_list_advance(struct packet_list *list);
void packet_list_clear(struct packet_list *list);
void packet_list_done(struct packet_list *list);

// An event of the session: PB_TracingServiceEvent_*, its value and its boot time.
struct lifecycle_event {
    uint32_t field;
    uint32_t value;
    nsec_t time;
};

// A trigger that was fired.
struct service_trigger_hit {
    const char *name, *producer_name; // borrowed for the call
    uid_t producer_uid;
    nsec_t time; // boot time of the trigger
    uint32_t stop_delay_ms;
};

// Makes a copy that owns its strings.
int trigger_hit_copy(const struct service_trigger_hit *hit, struct service_trigger_hit *ret);
void trigger_hit_done(struct service_trigger_hit *hit);

#define SERVICE_EVENTS_MAX    64
#define SERVICE_SNAPSHOTS_MAX 16
#define SERVICE_TRIGGERS_MAX  64
#define SERVICE_SPARE_BYTES   64

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
    // Names of one trigger that came when memory was short, perhaps cut.
    char spare_name[SERVICE_SPARE_BYTES], spare_producer[SERVICE_SPARE_BYTES];
    bool spare_used;
    struct service_trigger_hit clone_trigger; // trigger of this snapshot; name NULL: none
    struct service_packets *twin; // borrowed: gets all events and snapshots of this struct too;
                                  // NULL: none
    bool sync_due;
    bool initial_written; // config, uuid and machine are in the trace
};

// The content of TraceStats.
struct service_stats {
    const struct packet_buffer_stats *buffers; // borrowed, n_buffers of them
    const uint64_t *writer_losses;             // borrowed; packets cut or refused, by buffer
    size_t n_buffers;
    uint64_t n_classes, n_sources;
    uint64_t n_flushes;        // successful; the sources are in this process
    uint64_t n_failed_flushes; // the requester had used up the time of its share
    bool final_flush_done;
};

// The borrowed objects must outlive `packets`.
void service_packets_init(struct service_packets *packets, const struct clock_reader *clock,
                          const struct session_settings *settings, const uint8_t *config,
                          size_t config_size);
void service_packets_done(struct service_packets *packets);

// Makes room for all packets of a read-out, so that no packet is missing for lack of memory. The
// names of a trigger count with 512 bytes. Returns 0 or -ENOMEM.
int service_packets_reserve(const struct service_packets *packets, size_t n_buffers,
                            struct packet_list *list);

// Turns `packets`, just initialised, into the start of a snapshot of `from`: pending packets of
// `from` are pending here too, and nothing counts as written. Returns 0, or -ENOMEM if a trigger is
// missing.
int service_packets_copy(struct service_packets *packets, const struct service_packets *from);

// Adds a clock snapshot if none is pending, or if the clocks have drifted since the last pending
// snapshot. Otherwise the older snapshot stays, because it translates more of the buffers' content.
void service_packets_snapshot(struct service_packets *packets);

// Adds the event (PB_TracingServiceEvent_*) with the present time.
void service_packets_event(struct service_packets *packets, uint32_t field);
// Adds an event with a value other than 1 and a time other than now.
void service_packets_event_at(struct service_packets *packets, uint32_t field, uint32_t value,
                              nsec_t time);

// Adds a trigger. If too many triggers are pending, the first and the newest stay. If memory is
// out, one trigger is added nevertheless. Returns 0, or -ENOMEM if the trigger is missing.
int service_packets_trigger(struct service_packets *packets, const struct service_trigger_hit *hit);
void service_packets_forget_triggers(struct service_packets *packets);

// Appends the packets that precede the buffers. Afterwards they count as written.
void service_packets_put_head(struct service_packets *packets, struct packet_list *list);

// Appends the packets that follow the buffers: pending events and the statistics.
void service_packets_put_tail(struct service_packets *packets, const struct service_stats *stats,
                              struct packet_list *list);

// Returns the statistics as a message (owned by the caller, freed by
// pb__trace_stats__free_unpacked()), or NULL if memory ran out.
Pb__TraceStats *service_stats_message(const struct service_stats *stats);
