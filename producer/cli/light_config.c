// SPDX-License-Identifier: Apache-2.0
//
// The config is built from structs on the stack of one call, and encoded before the call returns.
// protobuf-c never owns any of them.
#include "producer/cli/light_config.h"

#include <errno.h>
#include <inttypes.h>

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

static int encode(const Pb__TraceConfig *trace, struct config *ret, struct err *err)
{
    Pb__TraceConfig *copy = config_copy_message(trace);
    return copy ? config_from_message(copy, ret, err) : err_errno(err, -ENOMEM, "config");
}

int light_config_make(const struct light_config *light, struct config *ret, struct err *err)
{
    Pb__TraceConfig trace = PB__TRACE_CONFIG__INIT;
    Pb__TraceConfig__BufferConfig buffer = PB__TRACE_CONFIG__BUFFER_CONFIG__INIT;
    Pb__TraceConfig__BufferConfig *buffers[] = {&buffer};
    int r = duration_ms(light->duration, &trace.duration_ms, err);
    if (r == 0)
        r = size_kb(light->buffer_bytes ? light->buffer_bytes : LIGHT_CONFIG_BUFFER_BYTES,
                    &buffer.size_kb, err);
    if (r < 0)
        return r;
    trace.has_duration_ms = light->duration > 0;
    buffer.has_size_kb = true;
    buffer.has_fill_policy = true;
    buffer.fill_policy = PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__RING_BUFFER;
    trace.n_buffers = 1;
    trace.buffers = buffers;
    trace.has_flush_period_ms = true;
    trace.flush_period_ms = FLUSH_PERIOD_MS;
    trace.has_write_into_file = trace.write_into_file = light->max_file_bytes > 0;
    trace.has_max_file_size_bytes = light->max_file_bytes > 0;
    trace.max_file_size_bytes = light->max_file_bytes;

    Pb__FtraceConfig ftrace = PB__FTRACE_CONFIG__INIT;
    ftrace.n_ftrace_events = light->n_events;
    ftrace.ftrace_events = light->events;
    Pb__DataSourceConfig sources[3] = {PB__DATA_SOURCE_CONFIG__INIT, PB__DATA_SOURCE_CONFIG__INIT,
                                       PB__DATA_SOURCE_CONFIG__INIT};
    sources[0].name = "linux.ftrace";
    sources[0].ftrace_config = &ftrace;
    sources[1].name = "linux.process_stats";
    sources[2].name = "linux.system_info";
    Pb__TraceConfig__DataSource entries[3], *entry_ptrs[3];
    for (size_t i = 0; i < 3; i++) {
        pb__trace_config__data_source__init(&entries[i]);
        entries[i].config = &sources[i];
        entry_ptrs[i] = &entries[i];
    }
    trace.n_data_sources = 3;
    trace.data_sources = entry_ptrs;
    return encode(&trace, ret, err);
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
