// SPDX-License-Identifier: Apache-2.0
//
// Configs that Perfetto refuses are an error here, too, so that a config behaves alike in both.
// Settings that Perfetto accepts and ignores cause a warning, with two exceptions. Triggers without
// a mode are an error, because Perfetto would record at once. A trace filter is an error, because
// filters are not implemented, and unfiltered data must not get into the file.
//
// Strings of a binary config may have any bytes. Therefore every text from the config passes
// through str_printable() before a person sees it.
#include "producer/service/config/config_check.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/str.h"
#include "producer/service/config/config.h"
#include "producer/service/config/config_unread.h"
#include "producer/service/triggers/name_regex.h"
#include "producer/sources/source.h"

#define BUFFERS_MAX             128
#define DATA_SOURCES_MAX        256
#define DURATION_MS_MAX         (7u * 24 * 3600 * 1000)
#define GUARDED_DURATION_MS_MAX (24u * 3600 * 1000)
#define GUARDED_BUFFERS_KB_MAX  (128u * 1024)
#define SESSION_NAME_MAX        255 // bytes
#define QUOTED_MAX              68

struct check {
    const Pb__TraceConfig *trace;
    const struct config_check_env *env;
    struct err *err;
};

#define FAIL(check, ...) err_set((check)->err, -EINVAL, __VA_ARGS__)
#define WARN(check, ...) log_warning((check)->env->log, __VA_ARGS__)

static bool is_set(const char *text)
{
    return text && *text;
}

static const char *quoted(const char *text, char ret[QUOTED_MAX])
{
    return str_printable(ret, QUOTED_MAX, text ? text : "", text ? strlen(text) : 0);
}

static int check_buffer_names(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    char name[QUOTED_MAX];
    for (size_t i = 0; i < trace->n_buffers; i++)
        for (size_t j = 0; is_set(trace->buffers[i]->name) && j < i; j++)
            if (trace->buffers[j]->name && str_eq(trace->buffers[i]->name, trace->buffers[j]->name))
                return FAIL(check, "buffers[%zu].name: \"%s\" is the name of buffers[%zu] already",
                            i, quoted(trace->buffers[i]->name, name), j);
    return 0;
}

static int check_buffer(const struct check *check, size_t i)
{
    const Pb__TraceConfig__BufferConfig *buffer = check->trace->buffers[i];
    if (!buffer->size_kb) {
        if (!buffer->has_size_kb)
            return FAIL(check, "buffers[%zu].size_kb: is missing", i);
        return FAIL(check, "buffers[%zu].size_kb: is 0, must be %d at least", i,
                    CONFIG_BUFFER_KB_MIN);
    }
    if (buffer->size_kb < CONFIG_BUFFER_KB_MIN)
        WARN(check, "buffers[%zu].size_kb: %" PRIu32 " is raised to %d, the minimum", i,
             buffer->size_kb, CONFIG_BUFFER_KB_MIN);
    if (buffer->size_kb > CONFIG_BUFFER_KB_MAX)
        return FAIL(check, "buffers[%zu].size_kb: %" PRIu32 " is more than the maximum of %" PRIu32,
                    i, buffer->size_kb, CONFIG_BUFFER_KB_MAX);
    if (buffer->keep_first_kb && buffer->keep_first_kb + CONFIG_BUFFER_KB_MIN > buffer->size_kb)
        return FAIL(check,
                    "buffers[%zu].keep_first_kb: %" PRIu32
                    " leaves less than %d of size_kb %" PRIu32 " for the newest data",
                    i, buffer->keep_first_kb, CONFIG_BUFFER_KB_MIN, buffer->size_kb);
    if (buffer->keep_first_kb &&
        buffer->fill_policy == PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD)
        WARN(check,
             "buffers[%zu].keep_first_kb: has no effect with DISCARD, which keeps only the first "
             "data",
             i);
    if (check->trace->enable_extra_guardrails && buffer->size_kb % 4)
        return FAIL(check,
                    "buffers[%zu].size_kb: %" PRIu32
                    " is not a multiple of 4, which enable_extra_guardrails requires",
                    i, buffer->size_kb);
    if ((unsigned)buffer->fill_policy > PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD)
        WARN(check, "buffers[%zu].fill_policy: %d is unknown here, taken as RING_BUFFER", i,
             (int)buffer->fill_policy);
    return 0;
}

static int check_buffer_sum(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    uint64_t sum_kb = 0, memory_kb = check->env->memory_bytes / 1024;
    for (size_t i = 0; i < trace->n_buffers; i++)
        sum_kb += trace->buffers[i]->size_kb;
    if (memory_kb && sum_kb > memory_kb)
        return FAIL(check,
                    "buffers: size_kb adds up to %" PRIu64 ", but the machine has %" PRIu64
                    " kB of memory",
                    sum_kb, memory_kb);
    if (memory_kb && sum_kb > memory_kb / 2)
        WARN(check,
             "buffers: size_kb adds up to %" PRIu64 ", more than half of the machine's %" PRIu64
             " kB of memory",
             sum_kb, memory_kb);
    uint64_t limit_kb = GUARDED_BUFFERS_KB_MAX;
    if (trace->guardrail_overrides &&
        trace->guardrail_overrides->max_tracing_buffer_size_kb > limit_kb)
        limit_kb = trace->guardrail_overrides->max_tracing_buffer_size_kb;
    if (trace->enable_extra_guardrails && sum_kb > limit_kb)
        return FAIL(check,
                    "buffers: size_kb adds up to %" PRIu64 ", more than the %" PRIu64
                    " that enable_extra_guardrails allows",
                    sum_kb, limit_kb);
    return 0;
}

static int check_buffers(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    // A config may only fire triggers of other sessions.
    if (!trace->n_buffers && (!trace->n_activate_triggers || trace->n_data_sources)) {
        FAIL(check, "buffers: the config has no buffer");
        return err_hint(check->err, -EINVAL, "add: buffers { size_kb: 16384 }");
    }
    if (trace->n_buffers > BUFFERS_MAX)
        return FAIL(check, "buffers: %zu are more than the maximum of %d", trace->n_buffers,
                    BUFFERS_MAX);
    for (size_t i = 0; i < trace->n_buffers; i++) {
        int r = check_buffer(check, i);
        if (r < 0)
            return r;
    }
    int r = check_buffer_names(check);
    return r < 0 ? r : check_buffer_sum(check);
}

static int check_target(const struct check *check, size_t i, const Pb__DataSourceConfig *source)
{
    const Pb__TraceConfig *trace = check->trace;
    char name[QUOTED_MAX];
    uint32_t target;
    if (config_target_buffer(trace, source, &target) < 0) {
        if (is_set(source->target_buffer_name))
            return FAIL(check,
                        "data_sources[%zu].config.target_buffer_name: no buffer is called \"%s\"",
                        i, quoted(source->target_buffer_name, name));
        return FAIL(check,
                    "data_sources[%zu].config.target_buffer: %" PRIu32
                    " is out of range, there %s %zu buffer%s, counted from 0",
                    i, source->target_buffer, trace->n_buffers == 1 ? "is" : "are",
                    trace->n_buffers, trace->n_buffers == 1 ? "" : "s");
    }
    if (source->target_buffer && source->target_buffer != target)
        return FAIL(check,
                    "data_sources[%zu].config.target_buffer: %" PRIu32
                    " contradicts target_buffer_name \"%s\", which is buffer %" PRIu32,
                    i, source->target_buffer, quoted(source->target_buffer_name, name), target);
    return 0;
}

static void check_source_name(const struct check *check, size_t i, const char *name)
{
    char printable[QUOTED_MAX];
    const char *const *names = check->env->source_names;
    size_t n = 0;
    for (; names && names[n]; n++)
        if (str_eq(names[n], name))
            return;
    if (!names)
        return;
    const char *near = str_nearest(name, names, n);
    WARN(check,
         "data_sources[%zu].config.name: nobody here provides \"%s\", nothing is recorded%s%s%s", i,
         quoted(name, printable), near ? ", did you mean \"" : "", near ? near : "",
         near ? "\"?" : "");
}

// Data sources of Perfetto that do not exist here, and the fields of their configs.
static const struct {
    const char *source;
    const char *field;
} foreign_configs[] = {
    {"android.java_hprof", "java_hprof_config"},
    {"linux.inode_file_map", "inode_file_config"},
    {"track_event", "track_event_config"},
};

#define FIRST_SOURCE_CONFIG 100 // first of the fields of DataSourceConfig that belong to one source

static bool is_own_config(const ProtobufCFieldDescriptor *field)
{
    return field->id >= FIRST_SOURCE_CONFIG && field->type == PROTOBUF_C_TYPE_MESSAGE &&
           !str_eq(field->name, "interceptor_config") && !str_eq(field->name, "for_testing");
}

// Warns of a config that belongs to another source. Sources that are unknown here and not in the
// list above may have any config.
static void check_own_config(const struct check *check, size_t i,
                             const Pb__DataSourceConfig *source, const struct source_class *class)
{
    const char *own = class ? class->config : NULL;
    for (size_t k = 0; k < ELEMENTS(foreign_configs); k++)
        if (str_eq(foreign_configs[k].source, source->name))
            own = foreign_configs[k].field;
    const ProtobufCMessageDescriptor *descriptor = source->base.descriptor;
    for (unsigned k = 0; (own || class) && k < descriptor->n_fields; k++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[k];
        if (!is_own_config(field) || (own && str_eq(field->name, own)))
            continue;
        if (*(const void *const *)((const char *)source + field->offset))
            WARN(check, "data_sources[%zu].config.%s: has no effect on \"%s\", which %s%s", i,
                 field->name, source->name, own ? "reads " : "has no config of its own",
                 own ? own : "");
    }
}

struct source_check {
    const struct check *check;
    size_t i;
};

static void warn_of_source(void *userdata, const char *what)
{
    const struct source_check *of = userdata;
    WARN(of->check, "data_sources[%zu].config.%s", of->i, what);
}

static int check_data_sources(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    if (!trace->n_data_sources && !trace->n_activate_triggers)
        WARN(check,
             "data_sources: the config has no source; only the service's own packets are recorded");
    if (trace->n_data_sources > DATA_SOURCES_MAX)
        return FAIL(check, "data_sources: %zu are more than the maximum of %d",
                    trace->n_data_sources, DATA_SOURCES_MAX);
    for (size_t i = 0; i < trace->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = trace->data_sources[i]->config;
        if (!source)
            return FAIL(check, "data_sources[%zu].config: is missing", i);
        if (!is_set(source->name))
            return FAIL(check, "data_sources[%zu].config.name: is missing", i);
        int r = check_target(check, i, source);
        if (r < 0)
            return r;
        check_source_name(check, i, source->name);
        const struct source_class *class = source_class_find(source->name);
        check_own_config(check, i, source, class);
        if (class && class->check)
            class->check(source, warn_of_source, &(struct source_check){check, i});
    }
    return 0;
}

static uint32_t duration_ms_max(const Pb__TraceConfig *trace)
{
    return trace->enable_extra_guardrails ? GUARDED_DURATION_MS_MAX : DURATION_MS_MAX;
}

static int check_trigger(const struct check *check, const Pb__TraceConfig__TriggerConfig *config,
                         size_t i)
{
    const Pb__TraceConfig__TriggerConfig__Trigger *trigger = config->triggers[i];
    char name[QUOTED_MAX];
    if (!is_set(trigger->name))
        return FAIL(check, "trigger_config.triggers[%zu].name: is missing", i);
    for (size_t j = 0; j < i; j++)
        if (str_eq(config->triggers[j]->name, trigger->name))
            return FAIL(check,
                        "trigger_config.triggers[%zu].name: \"%s\" is the name of triggers[%zu] "
                        "already",
                        i, quoted(trigger->name, name), j);
    if (trigger->stop_delay_ms > DURATION_MS_MAX)
        return FAIL(check,
                    "trigger_config.triggers[%zu].stop_delay_ms: %" PRIu32 " is more than 7 days",
                    i, trigger->stop_delay_ms);
    if (!(trigger->skip_probability >= 0 && trigger->skip_probability <= 1))
        return FAIL(check,
                    "trigger_config.triggers[%zu].skip_probability: %g is out of range, it goes "
                    "from 0 to 1",
                    i, trigger->skip_probability);
    return 0;
}

static int check_trigger_mode(const struct check *check,
                              const Pb__TraceConfig__TriggerConfig *config)
{
    const Pb__TraceConfig *trace = check->trace;
    bool is_stop =
        config->trigger_mode == PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__STOP_TRACING;
    bool is_start =
        config->trigger_mode == PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__START_TRACING;
    const char *mode = is_stop ? "STOP_TRACING" : is_start ? "START_TRACING" : "CLONE_SNAPSHOT";
    if (!config->trigger_timeout_ms)
        return FAIL(check, "trigger_config.trigger_timeout_ms: %s, must be positive for %s",
                    config->has_trigger_timeout_ms ? "is 0" : "is missing", mode);
    if (config->trigger_timeout_ms > duration_ms_max(trace))
        return FAIL(check, "trigger_config.trigger_timeout_ms: %" PRIu32 " is more than %s",
                    config->trigger_timeout_ms,
                    trace->enable_extra_guardrails ? "24 hours" : "7 days");
    if (trace->duration_ms)
        return FAIL(check, "duration_ms: must not be set together with trigger_config, where "
                           "trigger_timeout_ms and stop_delay_ms say how long");
    if (trace->write_into_file && !is_start)
        return FAIL(check, "write_into_file: does not go together with trigger_mode %s", mode);
    if (!config->n_triggers)
        WARN(check,
             "trigger_config.triggers: the config has no trigger; only the timeout ends the wait");
    return 0;
}

static int check_triggers(const struct check *check)
{
    const Pb__TraceConfig__TriggerConfig *config = check->trace->trigger_config;
    if (!config)
        return 0;
    if (!protobuf_c_enum_descriptor_get_value(
            &pb__trace_config__trigger_config__trigger_mode__descriptor, (int)config->trigger_mode))
        return FAIL(check, "trigger_config.trigger_mode: %d is unknown here",
                    (int)config->trigger_mode);
    if (config->use_clone_snapshot_if_available &&
        config->trigger_mode != PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__STOP_TRACING)
        return FAIL(check, "trigger_config.use_clone_snapshot_if_available: is for trigger_mode "
                           "STOP_TRACING only");
    bool has_mode =
        config->trigger_mode != PB__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__UNSPECIFIED;
    if (!has_mode && config->n_triggers)
        return FAIL(check, "trigger_config.trigger_mode: is missing, so the triggers would do "
                           "nothing");
    for (size_t i = 0; i < config->n_triggers; i++) {
        int r = check_trigger(check, config, i);
        if (r < 0)
            return r;
    }
    return has_mode ? check_trigger_mode(check, config) : 0;
}

static void check_file(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    if (trace->write_into_file) {
        if (trace->file_write_period_ms &&
            trace->file_write_period_ms != config_file_write_period_ms(trace))
            WARN(check, "file_write_period_ms: %" PRIu32 " is raised to %" PRIu32,
                 trace->file_write_period_ms, config_file_write_period_ms(trace));
        if (trace->write_flush_mode == PB__TRACE_CONFIG__WRITE_FLUSH_MODE__WRITE_FLUSH_DISABLED &&
            !trace->flush_period_ms)
            WARN(check, "write_flush_mode: WRITE_FLUSH_DISABLED without flush_period_ms: data that "
                        "sources hold come into the file only at the end, and not at all if the "
                        "recording is killed");
        return;
    }
    const struct {
        const char *name;
        bool set;
    } fields[] = {
        {"file_write_period_ms", trace->file_write_period_ms != 0},
        {"max_file_size_bytes", trace->max_file_size_bytes != 0},
        {"output_path", is_set(trace->output_path)},
    };
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        if (fields[i].set)
            WARN(check, "%s: has no effect without write_into_file", fields[i].name);
}

static int check_compression(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    if ((unsigned)trace->compression_type >
        PB__TRACE_CONFIG__COMPRESSION_TYPE__COMPRESSION_TYPE_DEFLATE)
        WARN(check, "compression_type: %d is unknown here and has no effect",
             (int)trace->compression_type);
    if (!trace->compression || !trace->compression->zstd)
        return 0;
    FAIL(check, "compression.zstd: is not supported");
    return err_hint(check->err, -EINVAL, "use: compression { deflate { } }");
}

static int check_names(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    const char *name = trace->unique_session_name ? trace->unique_session_name : "";
    if (strlen(name) > SESSION_NAME_MAX)
        return FAIL(check, "unique_session_name: longer than %d bytes", SESSION_NAME_MAX);
    for (const char *p = name, *end = p + strlen(p); p < end;) {
        bool printable;
        p += str_character(p, end, &printable);
        if (!printable || p[-1] == '\t')
            return FAIL(check, "unique_session_name: holds a control character or broken UTF-8");
    }
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    const char *file = trace->bugreport_filename;
    if (file && file[strspn(file, allowed)])
        return FAIL(check, "bugreport_filename: only letters, digits, \"-\", \"_\" and \".\" are "
                           "allowed");
    return 0;
}

static int check_session(const struct check *check)
{
    const Pb__TraceConfig *trace = check->trace;
    const Pb__TraceConfig__CmdTraceStartDelay *delay = trace->cmd_trace_start_delay;
    if (trace->duration_ms > duration_ms_max(trace))
        return FAIL(check, "duration_ms: %" PRIu32 " is more than %s", trace->duration_ms,
                    trace->enable_extra_guardrails ? "24 hours" : "7 days");
    if (trace->enable_extra_guardrails && trace->deferred_start)
        return FAIL(check, "deferred_start: does not go together with enable_extra_guardrails");
    if (delay && (!delay->has_min_delay_ms || !delay->has_max_delay_ms))
        return FAIL(check, "cmd_trace_start_delay.%s: is missing",
                    delay->has_min_delay_ms ? "max_delay_ms" : "min_delay_ms");
    if (delay && delay->min_delay_ms > delay->max_delay_ms)
        return FAIL(check, "cmd_trace_start_delay.min_delay_ms: is more than max_delay_ms");
    if (trace->trace_filter) {
        FAIL(check, "trace_filter: is not supported");
        return err_hint(check->err, -EINVAL,
                        "without the filter the trace would have data that the filter removes");
    }
    return 0;
}

int config_check_regexes(const Pb__TraceConfig *trace, struct err *err)
{
    const Pb__TraceConfig__TriggerConfig *triggers = trace->trigger_config;
    size_t n = 0;
    for (size_t i = 0; triggers && i < triggers->n_triggers; i++)
        n += is_set(triggers->triggers[i]->producer_name_regex);
    for (size_t i = 0; i < trace->n_data_sources; i++) {
        const Pb__TraceConfig__DataSource *source = trace->data_sources[i];
        n += source->n_producer_name_regex_filter;
        for (size_t k = 0; n <= NAME_REGEXES_MAX && k < source->n_producer_name_regex_filter; k++)
            if (name_regex_check(source->producer_name_regex_filter[k], err) < 0)
                return err_prefix(err, -EINVAL, "data_sources[%zu].producer_name_regex_filter[%zu]",
                                  i, k);
    }
    if (n <= NAME_REGEXES_MAX)
        return 0;
    return err_set(err, -EINVAL,
                   "producer_name_regex, producer_name_regex_filter: more than %d expressions",
                   NAME_REGEXES_MAX);
}

static int check_regexes(const struct check *check)
{
    return config_check_regexes(check->trace, check->err);
}

int config_check(const Pb__TraceConfig *trace, const struct config_check_env *env, struct err *err)
{
    static int (*const parts[])(const struct check *) = {
        check_buffers, check_data_sources, check_triggers, check_session,
        check_names,   check_compression,  check_regexes,
    };
    struct check check = {.trace = trace, .env = env, .err = err};
    for (size_t i = 0; i < ELEMENTS(parts); i++) {
        int r = parts[i](&check);
        if (r < 0)
            return r;
    }
    check_file(&check);
    config_unread_warn(trace, env->runs, env->log);
    return 0;
}

uint64_t config_machine_memory_bytes(void)
{
    long n_pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return n_pages > 0 && page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)page_bytes : 0;
}
