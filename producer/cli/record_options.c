// SPDX-License-Identifier: Apache-2.0
//
// Names, letters and units are the same as in the `perfetto` command, so that its users need not
// relearn. Flags of `perfetto` without a meaning here are known too, so that the error can give the
// reason.
#include "producer/cli/record_options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/remote.h"

#define FLUSH_PERIOD_MS 30000
#define UPLOAD_REFUSAL  "mmtrace keeps traces on this machine; copy the output file instead"
#define ATRACE_REFUSAL  "atrace categories are not available; name ftrace events instead"

static int take_event(void *userdata, const struct cli_option *option, const char *value,
                      struct err *err)
{
    struct light_config *light = &((struct record_options *)userdata)->light;
    (void)option;
    if (!strchr(value, '/')) {
        err_set(err, -EINVAL, "\"%s\" is not an event", value);
        return err_hint(err, -EINVAL,
                        "events are called group/event, like vmscan/mm_vmscan_kswapd_wake");
    }
    char **events = realloc(light->events, (light->n_events + 1) * sizeof(events[0]));
    if (!events)
        return err_errno(err, -ENOMEM, "events");
    light->events = events;
    events[light->n_events] = strdup(value);
    if (!events[light->n_events])
        return err_errno(err, -ENOMEM, "events");
    light->n_events++;
    return 0;
}

static int take_key(void *userdata, const struct cli_option *option, const char *value,
                    struct err *err)
{
    struct record_options *o = userdata;
    const char **key = option->id == RECORD_ACTION_RECORD  ? &o->detach_key
                       : option->id == RECORD_ACTION_CLONE ? &o->clone_name
                                                           : &o->key;
    if (!value[0])
        return err_set(err, -EINVAL, "an empty key names no session");
    *key = value;
    return 0;
}

// The option's id is the action.
static int take_action(void *userdata, const struct cli_option *option, const char *value,
                       struct err *err)
{
    struct record_options *o = userdata;
    if (o->action != RECORD_ACTION_RECORD)
        return err_set(err, -EINVAL,
                       "more than one of --attach, --is_detached, --clone, "
                       "--clone-by-name, --save-for-bugreport and --query");
    o->action = (enum record_action)option->id;
    return option->id != RECORD_ACTION_CLONE && value ? take_key(o, option, value, err) : 0;
}

static int take_clone(void *userdata, const struct cli_option *option, const char *value,
                      struct err *err)
{
    struct record_options *o = userdata;
    int r = take_action(o, option, value, err);
    if (r == 0 && (str_parse_u64(value, &o->clone_id) < 0 || o->clone_id == 0))
        r = err_set(err, -EINVAL, "--clone %s: not the number of a session", value);
    return r;
}

static int take_clone_by_name(void *userdata, const struct cli_option *option, const char *value,
                              struct err *err)
{
    int r = take_action(userdata, option, value, err);
    return r < 0 ? r : take_key(userdata, option, value, err);
}

static int take_save_for_bugreport(void *userdata, const struct cli_option *option,
                                   const char *value, struct err *err)
{
    struct record_options *o = userdata;
    o->clone_for_bugreport = true;
    o->clone_id = UINT64_MAX;
    return take_action(o, option, value, err);
}

static int take_notify_fd(void *userdata, const struct cli_option *option, const char *value,
                          struct err *err)
{
    struct record_options *o = userdata;
    uint32_t fd;
    (void)option;
    if (str_parse_u32(value, &fd) < 0 || fd > INT32_MAX || fcntl((int)fd, F_GETFD) < 0)
        return err_set(err, -EINVAL, "--notify-fd %s: not an open file descriptor", value);
    o->notify_fd = (int)fd;
    return 0;
}

#define SETS(member) CLI_SETS(struct record_options, member)

static const struct cli_option options[] = {
    {.help = "What to record:"},
    {'c', "config", "FILE", "trace config, text or binary; - reads standard input",
     SETS(config_path), .min = 1},
    {'t', "time", "TIME",
     "stop after TIME, as in 500ms, 10s, 2m or 1h; default: as the config says, 10s without a "
     "config",
     SETS(light.duration), .min = 1},
    {'b', "buffer", "SIZE",
     "size of the packet buffer, as in 512kb, 32mb or 1gb; default: as the config says, 32mb "
     "without a config",
     SETS(light.buffer_bytes), .min = 1},
    {0, "check", NULL, "check the config, print it as mmtrace understands it, record nothing",
     SETS(check)},
    {.help = "Output:"},
    {'o', "out", "FILE", "trace file; - writes to standard output", SETS(out_path), .min = 1},
    {0, "no-clobber", NULL, "fail if the trace file exists", SETS(no_clobber)},
    {'s', "size", "SIZE", "write into the file while recording, SIZE at most",
     SETS(light.max_file_bytes), .min = 1},
    {'q', "quiet", NULL, "say nothing but errors", SETS(quiet)},
    {0, "no-verdict", NULL, "do not say what happened in the trace", SETS(no_verdict)},
    {.help = "In the background:"},
    {'d', "background", NULL, "record in another process, print its pid and return",
     SETS(background)},
    {'D', "background-wait", NULL, "as --background, but return when all sources have started",
     SETS(background_wait)},
    {.help = "With a tracing service (mmtrace daemon, traced):"},
    {0, "detach", "KEY",
     "leave the session to the service, and return; needs -s or a config "
     "with write_into_file",
     .take = take_key, .id = RECORD_ACTION_RECORD},
    {0, "attach", "KEY", "wait for the end of a detached session", .take = take_action,
     .id = RECORD_ACTION_ATTACH},
    {0, "stop", NULL, "with --attach: end the session", SETS(stop)},
    {0, "is_detached", "KEY", "exit with 0 if the session exists, 2 if not", .take = take_action,
     .id = RECORD_ACTION_IS_DETACHED},
    {0, "no-daemon", NULL, "record in this process, even if a service runs", SETS(no_daemon)},
    REMOTE_SOCKET_OPTION,

    {0, "txt", NULL, "the config is text (this is recognised without it)", SETS(text),
     .is_named_only = true},
    {0, "notify-fd", "FD", "write the byte 0 to FD when all data sources have started",
     .take = take_notify_fd, .is_named_only = true},
    {0, "clone", "ID", "as mmtrace clone ID", .take = take_clone, .id = RECORD_ACTION_CLONE,
     .is_named_only = true},
    {0, "clone-by-name", "NAME", "as mmtrace clone --name NAME", .take = take_clone_by_name,
     .id = RECORD_ACTION_CLONE, .is_named_only = true},
    {0, "clone-for-bugreport", NULL, "with --clone or --clone-by-name: no trace filter",
     SETS(clone_for_bugreport), .is_named_only = true},
    {0, "save-for-bugreport", NULL, "as mmtrace clone --bugreport", .take = take_save_for_bugreport,
     .id = RECORD_ACTION_CLONE, .is_named_only = true},
    {0, "query", NULL, "as mmtrace status", .take = take_action, .id = RECORD_ACTION_QUERY,
     .is_named_only = true},
    {0, "query-raw", NULL, "as mmtrace status --raw", .take = take_action,
     .id = RECORD_ACTION_QUERY_RAW, .is_named_only = true},
    {0, "dry-run", NULL, "as --check", SETS(check), .is_named_only = true},
    {0, "no-guardrails", NULL, "accepted, without effect", .is_named_only = true},
    {0, "long"},

    {0, "upload", .refusal = UPLOAD_REFUSAL},
    {0, "dropbox", "TAG", .refusal = UPLOAD_REFUSAL},
    {0, "alert-id", "ID", .refusal = UPLOAD_REFUSAL},
    {0, "config-id", "ID", .refusal = UPLOAD_REFUSAL},
    {0, "config-uid", "ID", .refusal = UPLOAD_REFUSAL},
    {0, "subscription-id", "ID", .refusal = UPLOAD_REFUSAL},
    {0, "reset-guardrails", .refusal = "mmtrace has no guardrails"},
    {0, "save-all-for-bugreport", .refusal = "mmtrace bugreport -o FILE.zip has them all"},
    {'a', "app", "NAME", .refusal = ATRACE_REFUSAL},
    {0, "txt-lossy",
     .refusal =
         "a config with unknown fields is never recorded in part; use --txt and take them out"},
    {0, "add-attribute", "KEY=VALUE", .refusal = "put trace_attributes into the config instead"},
    {0},
};

static int check_together(void *userdata, struct err *err)
{
    const struct record_options *o = userdata;
    bool background = o->background || o->background_wait;
    bool records = o->action == RECORD_ACTION_RECORD, clones = o->action == RECORD_ACTION_CLONE;
    const struct cli_rule rules[] = {
        {o->stop && o->action != RECORD_ACTION_ATTACH, "--stop goes with --attach KEY only"},
        {o->clone_for_bugreport && !clones,
         "--clone-for-bugreport goes with --clone and --clone-by-name"},
        {o->detach_key && (background || o->no_daemon),
         "--detach does not go with --background or --no-daemon"},
        {background && o->out_path && str_eq(o->out_path, "-"),
         "--background has no standard output to write to"},
        {!records && (o->config_path || o->light.n_events > 0 || o->detach_key || background),
         "options for another session take no config, no --detach and no --background"},
        {clones && !o->out_path, "no output file", "give one with -o FILE"},
        {!records && !clones && o->out_path, "--out: the session has its file already"},
        {records && o->config_path && o->light.n_events > 0,
         "events and --config do not go together",
         "put the events into the config's ftrace_config"},
        {records && !o->config_path && o->light.n_events == 0, "nothing to record",
         "give a config with -c FILE, or events like vmscan/*"},
        {0},
    };
    return cli_check(rules, err);
}

const struct cli_command record_command = {
    .program = CLI_PROGRAM,
    .verb = "record",
    .usage = "usage: mmtrace record -c CONFIG -o FILE [OPTION...]\n"
             "       mmtrace record -o FILE [-t TIME] [-b SIZE] [-s SIZE] GROUP/EVENT...\n"
             "\n"
             "Records until the time is over, the file is full, or you press Ctrl-C. The file\n"
             "is complete in each case. If a tracing service runs and has the data sources,\n"
             "the service records; otherwise this process does. The trace is the same.\n",
    .more = "\n"
            "Exit code: 0 recorded, 1 failed (also if only a data source is left out), 2\n"
            "wrong usage, or no such detached session.\n"
            "\n"
            "Examples:\n"
            "  mmtrace record -c mm_events.cfg -o trace.pftrace\n"
            "  mmtrace record -t 10s -o trace.pftrace 'vmscan/*' kmem/rss_stat\n"
            "  mmtrace record -c mm_events.cfg --check\n",
    .options = options,
    .operand = take_event,
    .check = check_together,
};

int record_options_parse(int argc, char **argv, struct record_options *ret, struct err *err)
{
    struct record_options o = {.notify_fd = -1};
    int r = cli_command_parse(&record_command, argc, argv, &o, err);
    if (!o.config_path && o.light.duration == 0)
        o.light.duration = LIGHT_CONFIG_DURATION;
    if (r != 0)
        record_options_done(&o);
    else
        *ret = o;
    return r;
}

void record_options_done(struct record_options *o)
{
    for (size_t i = 0; i < o->light.n_events; i++)
        free(o->light.events[i]);
    free(o->light.events);
    *o = (struct record_options){.notify_fd = -1};
}

// The config of the flags is written as text, and loaded like the config of a file.

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
        // A config has either a duration or triggers, and recording starts at once in both cases.
        // The effect of the trigger_config on buffers stays.
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
