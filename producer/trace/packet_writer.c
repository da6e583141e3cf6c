// SPDX-License-Identifier: Apache-2.0
//
// The writer's own fields precede the payload. Every reservation is larger by their maximum size,
// so that one pass of unchecked writes is enough. Flags of a packet ("first packet", "packets
// lost", "state cleared") count as delivered only when the packet is committed. After a cancelled
// or overflowed packet, the next packet has these flags.
//
// The sequence id is in every packet. The writer (uid, pid) is constant in a sequence, and
// therefore only in packets where a reader can begin: the first packet, and the packet that clears
// the incremental state.
#include "producer/trace/packet_writer.h"

#include <assert.h>
#include <unistd.h>

#include "protos/fields.h"

#define PREFIX_MAX 48 // seven fields: tags of 1 or 2 bytes, values of at most 10, 5, 5, 5, 1, 1, 1

#define KEY_STATE UINT64_MAX

enum {
    STATE_CLEARED = 1, // SEQ_INCREMENTAL_STATE_CLEARED
    NEEDS_STATE = 2,   // SEQ_NEEDS_INCREMENTAL_STATE
};

struct packet_writer packet_writer_over(struct packet_buffer *buffer, uint32_t sequence_id)
{
    return (struct packet_writer){
        .buffer = buffer,
        .sequence_id = sequence_id,
        .uid = geteuid(),
        .pid = getpid(),
    };
}

static uint8_t *put_field(uint8_t *p, uint32_t field, uint64_t value)
{
    p = wire_put_varint(p, (uint64_t)field << 3 | WIRE_VARINT);
    return wire_put_varint(p, value);
}

static uint8_t *put_rare_fields(const struct packet_writer *writer, uint8_t *p)
{
    if (!writer->first_written || writer->clear_pending) {
        p = put_field(p, PB_TracePacket_trusted_uid, writer->uid);
        p = put_field(p, PB_TracePacket_trusted_pid, (uint32_t)writer->pid);
    }
    if (!writer->first_written)
        p = put_field(p, PB_TracePacket_first_packet_on_sequence, 1);
    if (writer->dropped)
        p = put_field(p, PB_TracePacket_previous_packet_dropped, 1);
    return p;
}

static uint8_t *put_prefix(const struct packet_writer *writer, uint8_t *p, nsec_t timestamp)
{
    if (timestamp)
        p = put_field(p, PB_TracePacket_timestamp, (uint64_t)timestamp);
    p = put_field(p, PB_TracePacket_trusted_packet_sequence_id, writer->sequence_id);
    if (writer->incremental)
        p = put_field(p, PB_TracePacket_sequence_flags,
                      writer->clear_pending ? STATE_CLEARED : NEEDS_STATE);
    if (__builtin_expect(!writer->first_written || writer->clear_pending || writer->dropped, 0))
        p = put_rare_fields(writer, p);
    return p;
}

static void count_drop(struct packet_writer *writer)
{
    writer->packets_dropped++;
    writer->dropped = true;
}

static void commit(struct packet_writer *writer, size_t size, struct packet_meta meta)
{
    meta.sequence_id = writer->sequence_id;
    packet_buffer_commit(writer->buffer, size, &meta);
    writer->packets++;
    writer->bytes += size;
    writer->first_written = true;
    writer->clear_pending = false;
    writer->dropped = false;
}

static bool begin_state(struct packet_writer *writer, nsec_t timestamp)
{
    size_t size;
    uint8_t *memory = packet_buffer_reserve(writer->buffer, PREFIX_MAX, PREFIX_MAX, &size);
    if (memory)
        commit(writer, (size_t)(put_prefix(writer, memory, timestamp) - memory),
               (struct packet_meta){.retain = PACKET_RETAIN_ALWAYS, .key = KEY_STATE});
    return memory;
}

struct wire_writer *packet_writer_begin_range(struct packet_writer *writer, nsec_t timestamp,
                                              size_t min, size_t want)
{
    assert(!writer->open);
    size_t size;
    uint8_t *memory = NULL;
    if (!writer->clear_pending || begin_state(writer, timestamp))
        memory = packet_buffer_reserve(writer->buffer, min + PREFIX_MAX, want + PREFIX_MAX, &size);
    if (!memory) {
        count_drop(writer);
        return NULL;
    }
    writer->wire = wire_writer_over(memory, size);
    writer->wire.pos = put_prefix(writer, memory, timestamp);
    writer->open = true;
    return &writer->wire;
}

struct wire_writer *packet_writer_begin(struct packet_writer *writer, nsec_t timestamp, size_t room)
{
    return packet_writer_begin_range(writer, timestamp, room, room);
}

struct wire_writer *packet_writer_begin_message(struct packet_writer *writer, nsec_t timestamp,
                                                size_t room, uint32_t field)
{
    struct wire_writer *w = packet_writer_begin(writer, timestamp, room);
    if (w)
        writer->message = wire_begin(w, field);
    return w;
}

static bool end_packet(struct packet_writer *writer, struct packet_meta meta)
{
    assert(writer->open);
    if (writer->message)
        wire_end(&writer->wire, writer->message);
    writer->message = 0;
    if (writer->wire.overflow) {
        packet_writer_cancel(writer);
        count_drop(writer);
        return false;
    }
    commit(writer, wire_size(&writer->wire), meta);
    writer->open = false;
    return true;
}

bool packet_writer_end_retained(struct packet_writer *writer, enum packet_retain retain,
                                uint64_t key)
{
    return end_packet(writer, (struct packet_meta){.retain = retain, .key = key});
}

bool packet_writer_end_events(struct packet_writer *writer, uint64_t n_events)
{
    return end_packet(writer, (struct packet_meta){.n_events = n_events});
}

bool packet_writer_end(struct packet_writer *writer)
{
    return packet_writer_end_events(writer, 0);
}

void packet_writer_cancel(struct packet_writer *writer)
{
    assert(writer->open);
    packet_buffer_cancel(writer->buffer);
    writer->open = false;
    writer->message = 0;
}

void packet_writer_clear_state(struct packet_writer *writer)
{
    writer->incremental = true;
    writer->clear_pending = true;
}
