// SPDX-License-Identifier: Apache-2.0
//
// TraceUuid: the trace's own name. Older traces have it in their config only; see trace_config.c.
#include "converter/import/trace_uuid.h"

#include <stdio.h>

#include "protos/fields.h"

void trace_uuid_set(struct import *im, uint64_t msb, uint64_t lsb)
{
    char text[40];
    int n = snprintf(text, sizeof(text), "%08x-%04x-%04x-%04x-%012llx", (unsigned)(msb >> 32),
                     (unsigned)(msb >> 16 & 0xffff), (unsigned)(msb & 0xffff),
                     (unsigned)(lsb >> 48), (unsigned long long)(lsb & 0xffffffffffffULL));
    if (msb || lsb)
        metadata_set_text(&im->metadata, "trace_uuid", text, (size_t)n);
}

static int trace_uuid_now(struct import *im, void *state, const struct packet *packet,
                          const struct wire_field *message)
{
    (void)state;
    (void)packet;
    MESSAGE(uuid, PB_TraceUuid_lsb, message);
    trace_uuid_set(im, field_u64(&uuid[PB_TraceUuid_msb]), field_u64(&uuid[PB_TraceUuid_lsb]));
    return 0;
}

const struct importer importer_trace_uuid = {
    .field = PB_TracePacket_trace_uuid,
    .now = trace_uuid_now,
};
