// SPDX-License-Identifier: Apache-2.0
//
// A config that flags stand for is written as text, and loaded like the config of a file.
#include "producer/cli/light_config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/cleanup.h"

#define FLUSH_PERIOD_MS 30000

static int duration_ms(nsec_t duration, uint32_t *ret, struct err *err)
{
    nsec_t ms = duration / NSEC_PER_MSEC + (duration % NSEC_PER_MSEC > 0);
    if (ms > UINT32_MAX)
        return err_set(err, -ERANGE, "--time: longer than the 49 days that a config can say");
    *ret = (uint32_t)ms;
    return 0;
}

static int size_kb(uint64_t bytes, uint32_t *ret, struct err *err)
{
    uint64_t kb = bytes / 1024 + (bytes % 1024 > 0);
    if (kb < CONFIG_BUFFER_KB_MIN)
        return err_set(err, -ERANGE, "--buffer: less than the minimum of %d kB",
                       CONFIG_BUFFER_KB_MIN);
    if (kb > CONFIG_BUFFER_KB_MAX)
        return err_set(err, -ERANGE, "--buffer: more than the maximum of %" PRIu32 " kB",
                       CONFIG_BUFFER_KB_MAX);
    *ret = (uint32_t)kb;
    return 0;
}

void light_config_add_string(struct strbuf *text, const char *field, const char *value)
{
    strbuf_addf(text, " %s: \"", field);
    for (; *value; value++)
        strbuf_addf(text, *value < ' ' || strchr("\\\"\x7f", *value) ? "\\%03o" : "%c",
                    (unsigned char)*value);
    strbuf_add_str(text, "\"");
}

int light_config_load(const struct strbuf *text, struct config *ret, struct err *err)
{
    return text->failed
               ? err_errno(err, -ENOMEM, "config")
               : config_load("<options>", text->text, text->size, CONFIG_FORMAT_TEXT, ret, err);
}

int light_config_make(const struct light_config *light, struct config *ret, struct err *err)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    uint32_t ms = 0, kb = 0;
    int r = duration_ms(light->duration, &ms, err);
    if (r == 0)
        r = size_kb(light->buffer_bytes ? light->buffer_bytes : LIGHT_CONFIG_BUFFER_BYTES, &kb,
                    err);
    if (r < 0)
        return r;
    strbuf_addf(&text, "buffers { size_kb: %" PRIu32 " fill_policy: RING_BUFFER }\n", kb);
    strbuf_addf(&text, "flush_period_ms: %d\n", FLUSH_PERIOD_MS);
    if (light->duration > 0)
        strbuf_addf(&text, "duration_ms: %" PRIu32 "\n", ms);
    if (light->max_file_bytes > 0)
        strbuf_addf(&text, "write_into_file: true max_file_size_bytes: %" PRIu64 "\n",
                    light->max_file_bytes);
    strbuf_add_str(&text, "data_sources { config { name: \"linux.ftrace\" ftrace_config {");
    for (size_t i = 0; i < light->n_events; i++)
        light_config_add_string(&text, "ftrace_events", light->events[i]);
    strbuf_add_str(&text, "} } }\n"
                          "data_sources { config { name: \"linux.process_stats\" } }\n"
                          "data_sources { config { name: \"linux.system_info\" } }\n");
    return light_config_load(&text, ret, err);
}

int light_config_override(const struct light_config *light, struct config *config, struct err *err)
{
    Pb__TraceConfig *trace = config->trace;
    int r = 0;
    if (light->duration > 0) {
        r = duration_ms(light->duration, &trace->duration_ms, err);
        trace->has_duration_ms = true;
        // A config has either a duration or triggers, and recording starts at once in any case. The
        // effect of the trigger_config on buffers stays.
        for (size_t i = 0; i < trace->n_buffers; i++) {
            Pb__TraceConfig__BufferConfig *buffer = trace->buffers[i];
            buffer->keep_first_kb = config_keep_first_kb(trace, buffer);
            buffer->has_keep_first_kb = buffer->keep_first_kb > 0;
        }
        if (trace->trigger_config)
            protobuf_c_message_free_unpacked(&trace->trigger_config->base, NULL);
        trace->trigger_config = NULL;
    }
    if (r == 0 && light->buffer_bytes > 0) {
        if (trace->n_buffers != 1)
            return err_set(err, -EINVAL, "--buffer: the config has %zu buffers, not one",
                           trace->n_buffers);
        r = size_kb(light->buffer_bytes, &trace->buffers[0]->size_kb, err);
        trace->buffers[0]->has_size_kb = true;
    }
    if (light->max_file_bytes > 0) {
        trace->has_write_into_file = trace->write_into_file = true;
        trace->has_max_file_size_bytes = true;
        trace->max_file_size_bytes = light->max_file_bytes;
    }
    return r < 0 ? r : config_encode(config, err);
}
