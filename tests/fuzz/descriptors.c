// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as descriptions of messages in a trace, and as an event with such messages: two
// bytes of length, the descriptions, the event. The trace has the descriptions before the event,
// and once more after the event, without an effect.
#include <string.h>

#include "common/wire.h"
#include "protos/fields.h"
#include "tests/fuzz/trace.h"

#define ROOM 256 // bytes of the trace that are not input

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void descriptions_put(struct wire_writer *w, const uint8_t *set, size_t size)
{
    // A compressed set begins like gzip data.
    uint32_t field = size > 1 && set[0] == 0x1f && set[1] == 0x8b
                         ? PB_ExtensionDescriptor_extension_set_gzip
                         : PB_ExtensionDescriptor_extension_set;
    size_t packet = wire_begin(w, PB_Trace_packet);
    size_t descriptor = wire_begin(w, PB_TracePacket_extension_descriptor);
    wire_bytes(w, field, set, size);
    wire_end(w, descriptor);
    wire_end(w, packet);
}

static void event_put(struct wire_writer *w, const uint8_t *fields, size_t size)
{
    enum { TYPE_INSTANT = 3 };
    size_t packet = wire_begin(w, PB_Trace_packet);
    wire_uint(w, PB_TracePacket_timestamp, 1000);
    wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, 1);
    size_t event = wire_begin(w, PB_TracePacket_track_event);
    if (size && wire_reserve(w, size)) {
        memcpy(w->pos, fields, size);
        w->pos += size;
    }
    wire_uint(w, PB_TrackEvent_type, TYPE_INSTANT);
    wire_end(w, event);
    wire_end(w, packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t n = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    if (n > size)
        n = size;
    size_t room = 2 * size + ROOM;
    uint8_t *trace = malloc(room);
    if (!trace)
        return 0;
    struct wire_writer w = wire_writer_over(trace, room);
    descriptions_put(&w, data, n);
    event_put(&w, data + n, size - n);
    descriptions_put(&w, data, n);
    if (w.overflow)
        abort();
    database_free(fuzz_convert(trace, wire_size(&w)));
    free(trace);
    return 0;
}
