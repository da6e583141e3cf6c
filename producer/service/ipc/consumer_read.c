// SPDX-License-Identifier: Apache-2.0
//
// A packet is copied once, from the session's buffer into the message, and then removed from the
// session. Packets that the connection does not take stay in the session: reading continues when
// the connection has room, and recording continues meanwhile. Only a packet larger than a message
// is copied to the consumer, because the buffer may overwrite the packet before all of it is sent.
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/wire.h"
#include "producer/service/ipc/consumer.h"
#include "producer/service/ipc/frame.h"
#include "protos/fields.h"

#define MESSAGE_MAX    (IPC_FRAME_MAX - 128) // leaves room for the frame around it
#define SLICE_OVERHEAD 16                    // tags, lengths and the flag of one slice

static void put_slice(struct wire_writer *w, const uint8_t *bytes, size_t size, bool is_last)
{
    size_t slice = wire_begin(w, PB_ReadBuffersResponse_slices);
    wire_bytes(w, PB_ReadBuffersResponse_Slice_data, bytes, size);
    wire_uint(w, PB_ReadBuffersResponse_Slice_last_slice_for_packet, is_last);
    wire_end(w, slice);
}

static void drop_packet(struct consumer *consumer)
{
    free(consumer->packet);
    consumer->packet = NULL;
}

static void put_part_of_packet(struct consumer *consumer, struct wire_writer *w)
{
    size_t size = consumer->packet_size - consumer->packet_sent;
    size_t room = wire_room(w) - SLICE_OVERHEAD;
    bool is_last = size <= room;
    if (!is_last)
        size = room;
    put_slice(w, consumer->packet + consumer->packet_sent, size, is_last);
    consumer->packet_sent += size;
    if (is_last)
        drop_packet(consumer);
}

static int keep_packet(struct consumer *consumer, const struct packet_view *view)
{
    consumer->packet = malloc(view->size);
    if (!consumer->packet)
        return -ENOMEM;
    memcpy(consumer->packet, view->data, view->size);
    consumer->packet_size = view->size;
    consumer->packet_sent = 0;
    return 0;
}

// Fills one message. Returns 1 if more data follow, 0 at the end, or -ENOMEM.
static int fill_message(struct consumer *consumer, struct wire_writer *w)
{
    struct service *service = consumer->port->service;
    struct packet_view view;
    for (;;) {
        if (wire_room(w) < 2 * SLICE_OVERHEAD)
            return 1;
        if (consumer->packet) {
            put_part_of_packet(consumer, w);
            continue;
        }
        if (!service_read_peek(service, consumer->session_id, &view))
            return 0;
        if (view.size + SLICE_OVERHEAD <= wire_room(w)) {
            put_slice(w, view.data, view.size, true);
        } else {
            if (wire_size(w) > 0)
                return 1;
            if (keep_packet(consumer, &view) < 0)
                return -ENOMEM;
        }
        service_read_advance(service, consumer->session_id);
    }
}

void consumer_read_end(struct consumer *consumer)
{
    drop_packet(consumer);
    Pb__ReadBuffersResponse nothing = PB__READ_BUFFERS_RESPONSE__INIT;
    consumer_settle(consumer, &consumer->reading, &nothing.base);
}

void consumer_read_on(struct consumer *consumer)
{
    if (!consumer->reading.wanted)
        return;
    CLEANUP(freep) uint8_t *message = malloc(MESSAGE_MAX);
    if (!message) {
        consumer_settle(consumer, &consumer->reading, NULL);
        return;
    }
    while (consumer->reading.wanted && ipc_peer_has_room(consumer->peer)) {
        struct wire_writer w = wire_writer_over(message, MESSAGE_MAX);
        int r = fill_message(consumer, &w);
        if (r < 0) {
            consumer_settle(consumer, &consumer->reading, NULL);
            return;
        }
        ipc_peer_reply_bytes(consumer->peer, &consumer->reading, message, wire_size(&w), r > 0);
        if (r == 0)
            consumer->reading.wanted = false;
    }
}

void consumer_read(struct consumer *consumer, const struct ipc_call *call)
{
    consumer_settle(consumer, &consumer->reading, NULL);
    drop_packet(consumer);
    consumer->reading = call->ticket;
    struct err err = {0};
    int r = consumer->session_id
                ? service_read_begin(consumer->port->service, consumer->session_id, &err)
                : err_set(&err, -ESRCH, "there is no session");
    if (r < 0) {
        consumer_log(consumer, "%s reads nothing: %s", consumer->as_client.name, err.text);
        consumer_read_end(consumer);
        return;
    }
    consumer_read_on(consumer);
}
