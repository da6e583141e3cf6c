// SPDX-License-Identifier: Apache-2.0
//
// Control bytes distinguish binary from text: every useful binary config has control bytes (the tag
// of a buffer's size is 0x08), and a text has none. A text with a stray control byte gets the text
// parser's error, which points at the byte. A file with many unprintable bytes is neither.
//
// The bytes of a binary config stay unchanged, so that unknown fields reach the trace.
#include "producer/service/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/pbtext.h"
#include "common/wire.h"

#define FIRST_PART 4 // 1/4 of a ring keeps the first packets

static size_t count_control_bytes(const uint8_t *bytes, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += (bytes[i] < 0x20 && (bytes[i] < '\t' || bytes[i] > '\r')) || bytes[i] == 0x7f;
    return n;
}

static int load_binary(const uint8_t *bytes, size_t size, struct config *ret)
{
    Pb__TraceConfig *trace = pb__trace_config__unpack(NULL, size, bytes);
    if (!trace)
        return -EINVAL;
    uint8_t *copy = malloc(size);
    if (!copy) {
        pb__trace_config__free_unpacked(trace, NULL);
        return -ENOMEM;
    }
    memcpy(copy, bytes, size);
    *ret = (struct config){.trace = trace, .bytes = copy, .size = size};
    return 0;
}

static int load_text(const char *name, const void *text, size_t size, struct config *ret,
                     struct err *err)
{
    ProtobufCMessage *message;
    int r = pbtext_parse(&pb__trace_config__descriptor, name, text, size, &message, err);
    return r < 0 ? r : config_from_message((Pb__TraceConfig *)message, ret, err);
}

static bool is_blank(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != ' ' && (bytes[i] < '\t' || bytes[i] > '\r'))
            return false;
    return true;
}

int config_load(const char *name, const void *data, size_t size, enum config_format format,
                struct config *ret, struct err *err)
{
    const uint8_t *bytes = data;
    if (size > CONFIG_SIZE_MAX)
        return err_set(err, -E2BIG, "%s: larger than %zu MB, too large for a trace config", name,
                       CONFIG_SIZE_MAX >> 20);
    if (is_blank(bytes, size))
        return err_set(err, -EINVAL, "%s: the trace config is empty", name);
    size_t n_control = count_control_bytes(bytes, size);
    if (format == CONFIG_FORMAT_ANY && n_control) {
        int r = load_binary(bytes, size, ret);
        if (r == -ENOMEM)
            return err_set(err, r, "%s: not enough memory", name);
        if (r == 0)
            return 0;
        if (n_control > size / 16)
            return err_set(err, -EINVAL, "%s: neither text nor an encoded trace config", name);
    }
    return load_text(name, bytes, size, ret, err);
}

int config_encode(struct config *config, struct err *err)
{
    size_t size = pb__trace_config__get_packed_size(config->trace);
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return err_set(err, -ENOMEM, "trace config: not enough memory");
    pb__trace_config__pack(config->trace, bytes);
    free(config->bytes);
    config->bytes = bytes;
    config->size = size;
    return 0;
}

Pb__TraceConfig *config_copy_message(const Pb__TraceConfig *trace)
{
    size_t size = pb__trace_config__get_packed_size(trace);
    CLEANUP(freep) uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return NULL;
    pb__trace_config__pack(trace, bytes);
    return pb__trace_config__unpack(NULL, size, bytes);
}

int config_from_message(Pb__TraceConfig *trace, struct config *ret, struct err *err)
{
    struct config config = {.trace = trace};
    int r = config_encode(&config, err);
    if (r < 0)
        config_done(&config);
    else
        *ret = config;
    return r;
}

void config_done(struct config *config)
{
    int saved = errno;
    pb__trace_config__free_unpacked(config->trace, NULL);
    free(config->bytes);
    *config = (struct config){0};
    errno = saved;
}

static void mend_message(uint8_t *bytes, size_t size, const ProtobufCMessageDescriptor *message)
{
    struct wire_reader reader = wire_reader_over(bytes, size);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field(message, field.number);
        if (!known || field.type != WIRE_BYTES)
            continue;
        uint8_t *data = bytes + (field.data - bytes);
        if (known->type == PROTOBUF_C_TYPE_STRING)
            wire_mend_text(data, field.size);
        else if (known->type == PROTOBUF_C_TYPE_MESSAGE)
            mend_message(data, field.size, known->descriptor);
    }
}

void config_mend_texts(uint8_t *bytes, size_t size)
{
    mend_message(bytes, size, &pb__trace_config__descriptor);
}

int config_target_buffer(const Pb__TraceConfig *trace, const Pb__DataSourceConfig *source,
                         uint32_t *ret)
{
    uint32_t index = source->target_buffer;
    if (source->target_buffer_name && *source->target_buffer_name) {
        for (index = 0; index < trace->n_buffers; index++) {
            const char *name = trace->buffers[index]->name;
            if (name && strcmp(name, source->target_buffer_name) == 0)
                break;
        }
    }
    if (index >= trace->n_buffers)
        return -ENOENT;
    *ret = index;
    return 0;
}

uint32_t config_keep_first_kb(const Pb__TraceConfig *trace,
                              const Pb__TraceConfig__BufferConfig *buffer)
{
    const Pb__TraceConfig__TriggerConfig *triggers = trace->trigger_config;
    bool waits = triggers && triggers->trigger_mode ==
                                 PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__START_TRACING;
    if (buffer->fill_policy == PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD)
        return 0;
    uint32_t first = buffer->has_keep_first_kb ? buffer->keep_first_kb
                     : waits                   ? buffer->size_kb / FIRST_PART
                                               : 0;
    if (buffer->size_kb < 2 * CONFIG_BUFFER_KB_MIN || first < CONFIG_BUFFER_KB_MIN)
        return 0;
    uint32_t most = buffer->size_kb - CONFIG_BUFFER_KB_MIN;
    return first < most ? first : most;
}

uint32_t config_file_write_period_ms(const Pb__TraceConfig *trace)
{
    if (!trace->file_write_period_ms)
        return 5000;
    return trace->file_write_period_ms < 100 ? 100 : trace->file_write_period_ms;
}
