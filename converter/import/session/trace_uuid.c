// SPDX-License-Identifier: Apache-2.0
//
// TraceUuid: the id of the trace. Older traces have the id only in their config; see
// trace_config.c. A trace without an id gets a hash of its first bytes, as in Perfetto.
#include "converter/import/session/trace_uuid.h"

#include <stdio.h>

#include "common/fnv.h"
#include "protos/fields.h"

#define HASHED_MAX 4096

void trace_uuid_set(struct import *im, uint64_t msb, uint64_t lsb)
{
    char text[40];
    int n = snprintf(text, sizeof(text), "%08x-%04x-%04x-%04x-%012llx", (unsigned)(msb >> 32),
                     (unsigned)(msb >> 16 & 0xffff), (unsigned)(msb & 0xffff),
                     (unsigned)(lsb >> 48), (unsigned long long)(lsb & 0xffffffffffffULL));
    if (msb || lsb)
        metadata_set_text(&im->metadata, "trace_uuid", (struct text){text, (size_t)n});
}

// Sets a uuid from the trace's bytes, unless the trace has a uuid.
static void trace_uuid_indexed(struct import *im, void *state)
{
    (void)state;
    const uint8_t *bytes = input_bytes(im->input);
    size_t size = input_size(im->input);
    uint64_t hash = fnv_add(FNV_BEGIN, bytes, size < HASHED_MAX ? size : HASHED_MAX);
    if (metadata_has(&im->metadata, "trace_uuid"))
        return;
    trace_uuid_set(im, 0, hash);
    metadata_made(&im->metadata, "trace_uuid");
}

static void trace_uuid_now(struct import *im, const struct packet *packet)
{
    MESSAGE(uuid, TraceUuid, packet->message);
    trace_uuid_set(im, field_u64(&uuid.msb), field_u64(&uuid.lsb));
}

const struct importer importer_trace_uuid = {
    .field = PB_TracePacket_trace_uuid,
    .now = trace_uuid_now,
    .of_all_machines = true,
    .indexed = trace_uuid_indexed,
};
