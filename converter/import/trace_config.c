// SPDX-License-Identifier: Apache-2.0
//
// TraceConfig: what was asked to be recorded.
#include "converter/import/trace_uuid.h"
#include "protos/fields.h"

static int trace_config_now(struct import *im, void *state, const struct packet *packet,
                            const struct wire_field *message)
{
    (void)state;
    (void)packet;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field, msb = {0}, lsb = {0};
    wire_foreach(&reader, &field) {
        if (field.number == PB_TraceConfig_unique_session_name)
            metadata_set_text(&im->metadata, "unique_session_name", field.data, field.size);
        else if (field.number == PB_TraceConfig_trace_uuid_msb)
            msb = field;
        else if (field.number == PB_TraceConfig_trace_uuid_lsb)
            lsb = field;
    }
    if (!metadata_has(&im->metadata, "trace_uuid"))
        trace_uuid_set(im, field_u64(&msb), field_u64(&lsb));
    return 0;
}

const struct importer importer_trace_config = {
    .field = PB_TracePacket_trace_config,
    .now = trace_config_now,
};
