// SPDX-License-Identifier: Apache-2.0
//
// TraceProvenance: the recorder's buffer and the producer of each sequence of packets. The packet
// may repeat during the recording.
#include "common/map.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

struct provenance {
    struct map64 seen; // buffer and sequence
};

static void sequence_read(struct import *im, struct provenance *state, uint32_t buffer,
                          const struct wire_field *message)
{
    MESSAGE(part, TraceProvenance_Sequence, message);
    uint32_t sequence = (uint32_t)field_u64(&part.id);
    bool is_new;
    if (!import_map_get(im, &state->seen, (uint64_t)buffer << 32 | sequence, 0, &is_new) || !is_new)
        return;
    struct cell *row = database_row(im->db, TABLE_trace_sequence, NULL);
    cell_int(row, COL_trace_sequence_trace_id, 0);
    cell_int(row, COL_trace_sequence_sequence, sequence);
    cell_int(row, COL_trace_sequence_buffer, buffer);
    if (field_present(&part.producer_id))
        cell_int(row, COL_trace_sequence_producer, (int32_t)field_u64(&part.producer_id));
}

static void provenance_now(struct import *im, const struct packet *packet)
{
    struct fields buffers = fields_of(packet->message, PB_TraceProvenance_buffers);
    for (uint32_t n = 0; fields_next(&buffers); n++) {
        struct fields each = fields_of(&buffers.field, PB_TraceProvenance_Buffer_sequences);
        while (fields_next(&each))
            sequence_read(im, packet->own, n, &each.field);
    }
}

static void provenance_done(void *state)
{
    map64_done(&((struct provenance *)state)->seen);
}

const struct importer importer_trace_provenance = {
    .field = PB_TracePacket_trace_provenance,
    .now = provenance_now,
    .state_size = sizeof(struct provenance),
    .of_all_machines = true,
    .done = provenance_done,
};
