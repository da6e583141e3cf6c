// SPDX-License-Identifier: Apache-2.0
//
// Sources write during a read-out. The read-out still ends, because it takes no more bytes from a
// buffer than the buffer can hold when the read-out reaches the buffer.
#include "producer/service/session/session_reader.h"

#include <stdlib.h>

static void enter_buffer(struct session_reader *reader, size_t buffer)
{
    reader->buffer = buffer;
    if (buffer == reader->n_buffers) {
        reader->phase = SESSION_READER_TAIL;
        packet_list_clear(&reader->list);
        reader->put_tail(reader->userdata, &reader->list);
        return;
    }
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(reader->buffers[buffer], &stats);
    reader->phase = SESSION_READER_BUFFERS;
    if (reader->cursors)
        reader->cursors[buffer].started = false; // continues to the present end
    reader->bytes_left = stats.size_bytes + stats.retained_bytes;
}

void session_reader_begin(struct session_reader *reader)
{
    if (!session_reader_active(reader))
        packet_list_clear(&reader->list);
    service_packets_put_head(reader->packets, &reader->list);
    reader->phase = SESSION_READER_HEAD;
}

static bool peek_buffer(struct session_reader *reader, struct packet_view *ret)
{
    const struct packet_buffer *buffer = reader->buffers[reader->buffer];
    if (!reader->cursors)
        return reader->bytes_left > 0 && packet_buffer_peek(reader->buffers[reader->buffer], ret);
    reader->next = reader->cursors[reader->buffer];
    bool found = packet_buffer_next(buffer, &reader->next, ret);
    if (!found)
        reader->cursors[reader->buffer] = reader->next;
    return found;
}

bool session_reader_peek(struct session_reader *reader, struct packet_view *ret)
{
    reader->from_buffer = false;
    for (;;) {
        switch (reader->phase) {
        case SESSION_READER_IDLE:
            return false;
        case SESSION_READER_HEAD:
            if (packet_list_peek(&reader->list, ret))
                return true;
            enter_buffer(reader, 0);
            break;
        case SESSION_READER_BUFFERS:
            if (peek_buffer(reader, ret)) {
                reader->from_buffer = true;
                reader->size = ret->size;
                return true;
            }
            enter_buffer(reader, reader->buffer + 1);
            break;
        case SESSION_READER_TAIL:
            if (packet_list_peek(&reader->list, ret))
                return true;
            packet_list_clear(&reader->list);
            reader->phase = SESSION_READER_IDLE;
            return false;
        }
    }
}

void session_reader_advance(struct session_reader *reader)
{
    if (!reader->from_buffer) {
        packet_list_advance(&reader->list);
        return;
    }
    reader->from_buffer = false;
    if (reader->cursors) {
        reader->cursors[reader->buffer] = reader->next;
        return;
    }
    packet_buffer_consume(reader->buffers[reader->buffer]);
    reader->bytes_left -= reader->size < reader->bytes_left ? reader->size : reader->bytes_left;
}

void session_reader_reset(struct session_reader *reader)
{
    packet_list_clear(&reader->list);
    reader->phase = SESSION_READER_IDLE;
    reader->from_buffer = false;
    for (size_t i = 0; reader->cursors && i < reader->n_buffers; i++)
        reader->cursors[i] = (struct packet_cursor){0};
}

void session_reader_done(struct session_reader *reader)
{
    packet_list_done(&reader->list);
    free(reader->cursors);
    reader->cursors = NULL;
}
