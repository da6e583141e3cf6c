// SPDX-License-Identifier: Apache-2.0
//
// One consumer of consumer_port.c and its two streams: packets and events.
#pragma once

#include "producer/service/ipc/consumer_port.h"

struct consumer {
    const struct consumer_port *port;  // borrowed
    struct ipc_peer *peer;             // borrowed
    struct service_consumer as_client; // the consumer as the service knows it
    uint64_t session_id;               // 0: none
    bool started, ended;               // state of the session
    struct ipc_ticket enabling;        // EnableTracing, answered when the session ends

    struct ipc_ticket observing;
    uint32_t observed; // mask of ObservableEvents.Type

    struct ipc_ticket reading;
    uint8_t *packet; // owned: a packet larger than a frame, while being sent
    size_t packet_size, packet_sent;

    struct ipc_ticket cloning; // CloneSession into a file, answered when the file is written
    int64_t clone_uuid_msb, clone_uuid_lsb;

    struct consumer_save *save; // owned; a running SaveTraceForBugreport
};

// Logs a line about this consumer's actions. A user other than root and this process's user has a
// limited number of lines per minute.
__attribute__((format(printf, 2, 3))) void consumer_log(const struct consumer *consumer,
                                                        const char *format, ...);

// Sends the last reply to a request. NULL fails the request.
void consumer_settle(struct consumer *consumer, struct ipc_ticket *ticket,
                     const ProtobufCMessage *reply);

// consumer_read.c
void consumer_read(struct consumer *consumer, const struct ipc_call *call);
void consumer_read_on(struct consumer *consumer);  // continues when the connection has room
void consumer_read_end(struct consumer *consumer); // ends the reading after the sent packets

// consumer_observe.c
void consumer_observe(struct consumer *consumer, const struct ipc_call *call);
void consumer_tell_started(struct consumer *consumer);
void consumer_tell_ended(struct consumer *consumer);
void consumer_tell_clone(struct consumer *consumer, const struct service_trigger_hit *trigger);

// consumer_state.c
void consumer_query_state(struct consumer *consumer, const struct ipc_call *call);
void consumer_query_capabilities(struct consumer *consumer, const struct ipc_call *call);

// consumer_save.c
void consumer_save_trace(struct consumer *consumer, const struct ipc_call *call);
struct consumer_save *consumer_save_free(struct consumer_save *save);
