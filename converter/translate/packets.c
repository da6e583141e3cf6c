// SPDX-License-Identifier: Apache-2.0
//
// Finished packets gather in one block. The packet that is being written follows, after room for
// its tag and size.
#include "converter/translate/packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protos/fields.h"

#define BLOCK_SIZE  ((size_t)4 << 20)
#define FLUSH_SIZE  ((size_t)1 << 20)
#define HEAD_MAX    (1 + WIRE_VARINT_MAX)
#define SEQUENCE_ID 1

int packets_init(struct packets *packets, struct spill *spill, struct err *err)
{
    *packets = (struct packets){.spill = spill, .err = err, .memory = malloc(BLOCK_SIZE)};
    return packets->memory ? 0 : err_errno(err, -ENOMEM, "packets");
}

static void append(struct packets *packets, const void *bytes, size_t size)
{
    if (packets->failure == 0 && size)
        packets->failure = spill_append(packets->spill, bytes, size, packets->err);
}

int packets_flush(struct packets *packets)
{
    append(packets, packets->memory, packets->size);
    packets->size = 0;
    return packets->failure;
}

struct wire_writer *packets_begin(struct packets *packets, int64_t ts)
{
    if (packets->size > FLUSH_SIZE)
        packets_flush(packets);
    size_t start = packets->size + HEAD_MAX;
    packets->body = wire_writer_over(packets->memory + start, BLOCK_SIZE - start);
    packets->has_events |= ts != PACKETS_NO_TIME;
    if (ts != PACKETS_NO_TIME)
        wire_uint(&packets->body, PB_TracePacket_timestamp, (uint64_t)ts);
    wire_uint(&packets->body, PB_TracePacket_trusted_packet_sequence_id, SEQUENCE_ID);
    return &packets->body;
}

// Writes the tag and the size of a packet.
static size_t head_write(uint8_t *head, uint64_t size)
{
    struct wire_writer w = wire_writer_over(head, HEAD_MAX);
    wire_tag(&w, PB_Trace_packet, WIRE_BYTES);
    wire_varint(&w, size);
    return wire_size(&w);
}

bool packets_end(struct packets *packets)
{
    uint8_t head[HEAD_MAX];
    if (packets->body.overflow)
        return false;
    size_t size = wire_size(&packets->body), n = head_write(head, size);
    uint8_t *at = packets->memory + packets->size;
    memmove(at + n, packets->body.start, size);
    memcpy(at, head, n);
    packets->size += n + size;
    return true;
}

void packets_drop(struct packets *packets)
{
    packets->body = (struct wire_writer){0};
}

void packets_put(struct packets *packets, int64_t ts, uint32_t field, const void *bytes,
                 size_t size)
{
    struct wire_writer *w = packets_begin(packets, ts);
    wire_tag(w, field, WIRE_BYTES);
    wire_varint(w, size);
    if (wire_room(w) >= size) {
        memcpy(w->pos, bytes, size);
        w->pos += size;
        packets_end(packets);
        return;
    }
    uint8_t head[HEAD_MAX];
    size_t n = head_write(head, wire_size(w) + size);
    packets_flush(packets);
    append(packets, head, n);
    append(packets, w->start, wire_size(w));
    append(packets, bytes, size);
}

void packets_put_whole(struct packets *packets, const void *bytes, size_t size)
{
    uint8_t head[HEAD_MAX];
    size_t n = head_write(head, size);
    packets->has_events = true;
    if (packets->size > FLUSH_SIZE || BLOCK_SIZE - packets->size < n + size)
        packets_flush(packets);
    if (BLOCK_SIZE < n + size) {
        append(packets, head, n);
        append(packets, bytes, size);
        return;
    }
    memcpy(packets->memory + packets->size, head, n);
    memcpy(packets->memory + packets->size + n, bytes, size);
    packets->size += n + size;
}

void packets_done(struct packets *packets)
{
    free(packets->memory);
    packets->memory = NULL;
}
