// SPDX-License-Identifier: Apache-2.0
//
// TraceConfig: the config of the recording. The metadata table also has the config as text.
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/pbtext.h"
#include "converter/import/session/attributes.h"
#include "converter/import/session/diagnostics.h"
#include "converter/import/session/trace_uuid.h"
#include "protos/config/trace_config.pb-c.h"
#include "protos/fields.h"

#define PRINTED_MAX ((size_t)256 << 10) // bytes of a config; its parsed form is much larger

static void *counted_alloc(void *failed, size_t size)
{
    void *memory = memory_malloc(size);
    *(bool *)failed |= !memory;
    return memory;
}

static void counted_free(void *failed, void *memory)
{
    (void)failed;
    free(memory);
}

// Keeps the config as text. An invalid config is left out.
static void config_print(struct import *im, const struct wire_field *message)
{
    bool failed = false;
    ProtobufCAllocator allocator = {counted_alloc, counted_free, &failed};
    if (message->size > PRINTED_MAX)
        return;
    ProtobufCMessage *config = protobuf_c_message_unpack(&pb__trace_config__descriptor, &allocator,
                                                         message->size, message->data);
    if (!config) {
        import_fail(im, failed ? -ENOMEM : 0);
        return;
    }
    CLEANUP(strbuf_done) struct strbuf text = {0};
    pbtext_print(config, &text);
    protobuf_c_message_free_unpacked(config, &allocator);
    if (text.size && text.text[text.size - 1] == '\n')
        text.size--;
    if (import_strbuf_whole(im, &text))
        metadata_set_text(&im->metadata, "trace_config_pbtxt", (struct text){text.text, text.size});
}

// A recording with a longer period between writes keeps its buffers as rings on purpose.
#define RING_PERIOD_MS ((uint64_t)24 * 60 * 60 * 1000)

struct config {
    bool without_flush; // the recording was written into a file
    bool is_streamed;   // the recording is written into a file periodically
    uint32_t n_buffers;
    struct wire_field message; // the last config
};

static void written_read(struct import *im, struct config *state, const struct wire_field *message)
{
    MESSAGE(config, TraceConfig, message);
    if (!field_u64(&config.write_into_file))
        return;
    state->without_flush = !field_u64(&config.flush_period_ms);
    state->is_streamed = field_u64(&config.file_write_period_ms) < RING_PERIOD_MS;
    uint32_t n = 0;
    for (struct fields each = fields_of(message, PB_TraceConfig_buffers); fields_next(&each);) {
        MESSAGE(buffer, TraceConfig_BufferConfig, &each.field);
        if (field_u64(&buffer.fill_policy) == PB_DISCARD)
            stats_add_at(&im->stats, STAT_config_write_into_file_discard, n, 1);
        n++;
    }
    state->n_buffers = n;
}

// Counts the lost packets, which a buffer overwrote before they were written into the file.
static void overwritten_count(struct import *im, uint32_t n_buffers)
{
    for (uint32_t i = 0; i < n_buffers; i++) {
        int64_t bytes = 0;
        if (stats_get_at(&im->stats, STAT_traced_buf_bytes_overwritten, i, &bytes) && bytes > 0)
            stats_set_at(&im->stats, STAT_long_trace_mode_bytes_overwritten, i, bytes);
    }
}

// Returns true if the service flushes before each write, as Perfetto's service does since version
// 54.
static bool flushes_by_itself(const struct import *im)
{
    static const char prefix[] = "Perfetto v";
    const char *version = metadata_get_text(&im->metadata, "tracing_service_version");
    if (!version || strncmp(version, prefix, strlen(prefix)) != 0)
        return false;
    char *end;
    unsigned long major = strtoul(version + strlen(prefix), &end, 10);
    return major >= 54 && (*end == '.' || *end == '-');
}

static void trace_config_finish(struct import *im, void *state)
{
    const struct config *config = state;
    if (config->without_flush && !flushes_by_itself(im))
        stats_add(&im->stats, STAT_config_write_into_file_no_flush, 1);
    if (config->is_streamed)
        overwritten_count(im, config->n_buffers);
}

static void trace_config_write(struct import *im, void *state)
{
    const struct config *config = state;
    if (config->message.data)
        diagnostics_write(im, &config->message);
}

static void trace_config_now(struct import *im, const struct packet *packet)
{
    ((struct config *)packet->own)->message = *packet->message;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field, msb = {0}, lsb = {0};
    wire_foreach(&reader, &field) {
        if (field.number == PB_TraceConfig_unique_session_name)
            metadata_set_text(&im->metadata, "unique_session_name", field_words(&field));
        else if (field.number == PB_TraceConfig_trace_uuid_msb)
            msb = field;
        else if (field.number == PB_TraceConfig_trace_uuid_lsb)
            lsb = field;
        else if (field.number == PB_TraceConfig_trace_attributes)
            attributes_read(im, &field);
    }
    config_print(im, packet->message);
    written_read(im, packet->own, packet->message);
    if (!metadata_has(&im->metadata, "trace_uuid"))
        trace_uuid_set(im, field_u64(&msb), field_u64(&lsb));
}

const struct importer importer_trace_config = {
    .field = PB_TracePacket_trace_config,
    .now = trace_config_now,
    .state_size = sizeof(struct config),
    .of_all_machines = true,
    .finish = trace_config_finish,
    .write = trace_config_write,
};
