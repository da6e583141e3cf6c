// SPDX-License-Identifier: Apache-2.0
//
// Names, letters and units are those of the `perfetto` command, so that its users need not relearn.
// Flags of `perfetto` that have no meaning here are known too, so that the error can say why.
#include "producer/cli/record_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/cli/remote.h"
#include "producer/ground/options.h"

enum {
    OPTION_CONFIG = 1,
    OPTION_TXT,
    OPTION_OUT,
    OPTION_NO_CLOBBER,
    OPTION_NO_VERDICT,
    OPTION_TIME,
    OPTION_BUFFER,
    OPTION_SIZE,
    OPTION_CHECK,
    OPTION_DRY_RUN,
    OPTION_QUIET,
    OPTION_NO_GUARDRAILS,
    OPTION_NO_DAEMON,
    OPTION_SOCKET,
    OPTION_BACKGROUND,
    OPTION_BACKGROUND_WAIT,
    OPTION_NOTIFY_FD,
    OPTION_DETACH,
    OPTION_ATTACH,
    OPTION_STOP,
    OPTION_IS_DETACHED,
    OPTION_CLONE,
    OPTION_CLONE_BY_NAME,
    OPTION_CLONE_FOR_BUGREPORT,
    OPTION_SAVE_FOR_BUGREPORT,
    OPTION_QUERY,
    OPTION_QUERY_RAW,
    OPTION_LONG,
    OPTION_HELP,
    OPTION_HEADING,
    OPTION_REFUSED, // the first of several
};

#define UPLOAD_REFUSAL "mmtrace keeps traces on this machine; copy the output file instead"
#define ATRACE_REFUSAL "atrace categories are not available; name ftrace events instead"

static const struct cli_option options[] = {
    {.id = OPTION_HEADING, .help = "What to record:"},
    {OPTION_CONFIG, 'c', "config", "FILE", "trace config, text or binary; - reads standard input"},
    {OPTION_TXT, 0, "txt", NULL, "the config is text (this is recognised without it)",
     .sets = CLI_SETS(struct record_options, text)},
    {OPTION_TIME, 't', "time", "TIME",
     "stop after TIME, as in 500ms, 10s, 2m or 1h; default: as\n"
     "the config says, 10s without a config"},
    {OPTION_BUFFER, 'b', "buffer", "SIZE",
     "size of the packet buffer, as in 512kb, 32mb or 1gb;\n"
     "default: as the config says, 32mb without a config"},
    {.id = OPTION_HEADING, .help = "Output:"},
    {OPTION_OUT, 'o', "out", "FILE", "trace file; - writes to standard output"},
    {OPTION_NO_CLOBBER, 0, "no-clobber", NULL, "fail if the trace file exists",
     .sets = CLI_SETS(struct record_options, no_clobber)},
    {OPTION_SIZE, 's', "size", "SIZE",
     "write into the file while recording, and stop when it has SIZE"},
    {.id = OPTION_HEADING, .help = "In the background:"},
    {OPTION_BACKGROUND, 'd', "background", NULL,
     "record in another process, print its pid and return;\n"
     "kill -TERM PID ends the recording",
     .sets = CLI_SETS(struct record_options, background)},
    {OPTION_BACKGROUND_WAIT, 'D', "background-wait", NULL,
     "the same, but return when all data sources have started; fail if\n"
     "one is left out (the rest is recorded), or after 30s",
     .sets = CLI_SETS(struct record_options, background_wait)},
    {OPTION_NOTIFY_FD, 0, "notify-fd", "FD",
     "write the byte 0 to FD when all data sources have started;\n"
     "another byte says that this failed"},
    {.id = OPTION_HEADING, .help = "With a tracing service (mmtrace daemon, traced):"},
    {OPTION_DETACH, 0, "detach", "KEY",
     "leave the session to the service, and return; needs\n"
     "write_into_file (or -s)"},
    {OPTION_ATTACH, 0, "attach", "KEY", "wait for the end of a detached session"},
    {OPTION_STOP, 0, "stop", NULL, "with --attach: end the session",
     .sets = CLI_SETS(struct record_options, stop)},
    {OPTION_IS_DETACHED, 0, "is_detached", "KEY",
     "exit with 0 if there is a session of this key, 2 if not,\n"
     "1 on errors"},
    {OPTION_CLONE, 0, "clone", "ID", "as mmtrace clone ID"},
    {OPTION_CLONE_BY_NAME, 0, "clone-by-name", "NAME", "as mmtrace clone --name NAME"},
    {OPTION_CLONE_FOR_BUGREPORT, 0, "clone-for-bugreport", NULL,
     "with --clone or --clone-by-name: no trace filter",
     .sets = CLI_SETS(struct record_options, clone_for_bugreport)},
    {OPTION_SAVE_FOR_BUGREPORT, 0, "save-for-bugreport", NULL, "as mmtrace clone --bugreport"},
    {OPTION_QUERY, 0, "query", NULL, "as mmtrace status"},
    {OPTION_QUERY_RAW, 0, "query-raw", NULL, "as mmtrace status --raw"},
    {OPTION_LONG, 0, "long", NULL, NULL},
    {OPTION_NO_DAEMON, 0, "no-daemon", NULL, "record in this process, even if a service runs",
     .sets = CLI_SETS(struct record_options, no_daemon)},
    REMOTE_SOCKET_OPTION(OPTION_SOCKET),
    {.id = OPTION_HEADING, .help = "Other:"},
    {OPTION_CHECK, 0, "check", NULL,
     "check the config, print it as mmtrace understands it,\n"
     "record nothing"},
    {OPTION_DRY_RUN, 0, "dry-run", NULL, "the same"},
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors",
     .sets = CLI_SETS(struct record_options, quiet)},
    {OPTION_NO_VERDICT, 0, "no-verdict", NULL, "do not say what happened in the trace",
     .sets = CLI_SETS(struct record_options, no_verdict)},
    {OPTION_NO_GUARDRAILS, 0, "no-guardrails", NULL, "accepted, without effect"},
    {OPTION_HELP, 'h', "help", NULL, "this text", .sets = CLI_SETS(struct record_options, help)},

    {OPTION_REFUSED, 0, "upload", NULL, NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 1, 0, "dropbox", "TAG", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 2, 0, "alert-id", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 3, 0, "config-id", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 4, 0, "config-uid", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 5, 0, "subscription-id", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 6, 0, "reset-guardrails", NULL, NULL, "mmtrace has no guardrails"},
    {OPTION_REFUSED + 7, 0, "save-all-for-bugreport", NULL, NULL,
     "mmtrace bugreport -o FILE.zip has them all"},
    {OPTION_REFUSED + 8, 'a', "app", "NAME", NULL, ATRACE_REFUSAL},
    {OPTION_REFUSED + 9, 0, "txt-lossy", NULL, NULL,
     "a config with unknown fields is never recorded in part; use --txt and take them out"},
    {OPTION_REFUSED + 10, 0, "add-attribute", "KEY=VALUE", NULL,
     "put trace_attributes into the config instead"},
    {0},
};

static int take_time(const char *value, nsec_t *ret, struct err *err)
{
    int r = str_parse_duration(value, ret);
    if (r == 0 && *ret == 0)
        r = -EINVAL;
    if (r < 0) {
        err_set(err, -EINVAL, "--time %s: not a time", value);
        return err_hint(err, -EINVAL, "like 500ms, 0.5s, 10s, 2m or 1h");
    }
    return 0;
}

static int take_size(const char *option, const char *value, uint64_t *ret, struct err *err)
{
    int r = str_parse_size(value, ret);
    if (r == 0 && *ret == 0)
        r = -EINVAL;
    if (r < 0) {
        err_set(err, -EINVAL, "%s %s: not a size", option, value);
        return err_hint(err, -EINVAL, "like 512kb, 32mb or 1gb");
    }
    return 0;
}

static int take_name(const char *option, const char *value, const char **ret, struct err *err)
{
    *ret = value;
    return *value ? 0 : err_set(err, -EINVAL, "%s: the name of the file is empty", option);
}

static int take_event(struct light_config *light, const char *value, struct err *err)
{
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

static int set_action(struct record_options *o, enum record_action action, struct err *err)
{
    if (o->action != RECORD_ACTION_RECORD)
        return err_set(err, -EINVAL,
                       "more than one of --attach, --is_detached, --clone, "
                       "--clone-by-name, --save-for-bugreport and --query");
    o->action = action;
    return 0;
}

static int take_key(const char **key, const char *value, struct err *err)
{
    if (!value[0])
        return err_set(err, -EINVAL, "an empty key names no session");
    *key = value;
    return 0;
}

static int take_clone(struct record_options *o, int id, const char *value, struct err *err)
{
    int r = set_action(o, RECORD_ACTION_CLONE, err);
    if (r < 0)
        return r;
    o->clone_for_bugreport |= id == OPTION_SAVE_FOR_BUGREPORT;
    if (id == OPTION_SAVE_FOR_BUGREPORT)
        o->clone_id = UINT64_MAX;
    else if (id == OPTION_CLONE_BY_NAME)
        return take_key(&o->clone_name, value, err);
    else if (str_parse_u64(value, &o->clone_id) < 0 || o->clone_id == 0)
        return err_set(err, -EINVAL, "--clone %s: not the number of a session", value);
    return 0;
}

static int take_notify_fd(struct record_options *o, const char *value, struct err *err)
{
    uint32_t fd;
    if (str_parse_u32(value, &fd) < 0 || fd > INT32_MAX || fcntl((int)fd, F_GETFD) < 0)
        return err_set(err, -EINVAL, "--notify-fd %s: not an open file descriptor", value);
    o->notify_fd = (int)fd;
    return 0;
}

static int take_service_option(struct record_options *o, int id, const char *value, struct err *err)
{
    int r;
    switch (id) {
    case OPTION_NOTIFY_FD:
        return take_notify_fd(o, value, err);
    case OPTION_SOCKET:
        return remote_take_socket(value, err);
    case OPTION_DETACH:
        return take_key(&o->detach_key, value, err);
    case OPTION_ATTACH:
    case OPTION_IS_DETACHED:
        r = set_action(o, id == OPTION_ATTACH ? RECORD_ACTION_ATTACH : RECORD_ACTION_IS_DETACHED,
                       err);
        return r < 0 ? r : take_key(&o->key, value, err);
    case OPTION_CLONE:
    case OPTION_CLONE_BY_NAME:
    case OPTION_SAVE_FOR_BUGREPORT:
        return take_clone(o, id, value, err);
    case OPTION_QUERY:
        return set_action(o, RECORD_ACTION_QUERY, err);
    case OPTION_QUERY_RAW:
        return set_action(o, RECORD_ACTION_QUERY_RAW, err);
    default:
        return 0;
    }
}

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct record_options *o = userdata;
    switch (id) {
    case 0:
        return take_event(&o->light, value, err);
    case OPTION_CONFIG:
        return take_name("--config", value, &o->config_path, err);
    case OPTION_OUT:
        return take_name("--out", value, &o->out_path, err);
    case OPTION_TIME:
        return take_time(value, &o->light.duration, err);
    case OPTION_BUFFER:
        return take_size("--buffer", value, &o->light.buffer_bytes, err);
    case OPTION_SIZE:
        return take_size("--size", value, &o->light.max_file_bytes, err);
    case OPTION_CHECK:
    case OPTION_DRY_RUN:
        o->check = true;
        return 0;
    default:
        return take_service_option(o, id, value, err);
    }
}

static int check_service_options(const struct record_options *o, struct err *err)
{
    bool background = o->background || o->background_wait;
    if (o->stop && o->action != RECORD_ACTION_ATTACH)
        return err_set(err, -EINVAL, "--stop goes with --attach KEY only");
    if (o->clone_for_bugreport && o->action != RECORD_ACTION_CLONE)
        return err_set(err, -EINVAL, "--clone-for-bugreport goes with --clone and --clone-by-name");
    if (o->detach_key && (background || o->no_daemon))
        return err_set(err, -EINVAL, "--detach does not go with --background or --no-daemon");
    if (background && o->out_path && str_eq(o->out_path, "-"))
        return err_set(err, -EINVAL, "--background has no standard output to write to");
    if (o->action == RECORD_ACTION_RECORD)
        return 0;
    if (o->config_path || o->light.n_events > 0 || o->detach_key || background)
        return err_set(
            err, -EINVAL,
            "options for another session take no config, no --detach and no --background");
    if (o->action == RECORD_ACTION_CLONE && !o->out_path) {
        err_set(err, -EINVAL, "no output file");
        return err_hint(err, -EINVAL, "give one with -o FILE");
    }
    if (o->action != RECORD_ACTION_CLONE && o->out_path)
        return err_set(err, -EINVAL, "--out: the session has its file already");
    return 0;
}

static int check_together(const struct record_options *o, struct err *err)
{
    int r = check_service_options(o, err);
    if (r < 0 || o->action != RECORD_ACTION_RECORD)
        return r;
    if (o->config_path && o->light.n_events > 0) {
        err_set(err, -EINVAL, "events and --config do not go together");
        return err_hint(err, -EINVAL, "put the events into the config's ftrace_config");
    }
    if (!o->config_path && o->light.n_events == 0) {
        err_set(err, -EINVAL, "nothing to record");
        return err_hint(err, -EINVAL, "give a config with -c FILE, or events like vmscan/*");
    }
    return 0;
}

int record_options_parse(int argc, char **argv, struct record_options *ret, struct err *err)
{
    struct record_options o = {.notify_fd = -1};
    int r = cli_options_parse(options, argc, argv, take, &o, err);
    if (r == 0 && !o.help)
        r = check_together(&o, err);
    if (!o.config_path && o.light.duration == 0)
        o.light.duration = LIGHT_CONFIG_DURATION;
    if (r < 0) {
        record_options_done(&o);
        return r;
    }
    *ret = o;
    return 0;
}

void record_options_print_help(void)
{
    printf("usage: mmtrace record -c CONFIG -o FILE [OPTION...]\n"
           "       mmtrace record -o FILE [-t TIME] [-b SIZE] [-s SIZE] GROUP/EVENT...\n"
           "\n"
           "Records until the time is over, the file is full, or you press Ctrl-C. The file\n"
           "is complete in each case. A second Ctrl-C ends the recording at once; the part\n"
           "that is in the file stays readable. If a tracing service runs and has the data\n"
           "sources, the service records; otherwise this process does. The trace is the\n"
           "same.\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Exit code: 0 recorded, 1 failed, 2 wrong usage, or no such detached session.\n"
           "If a data source is left out, the exit code is 1 and the trace has the rest.\n"
           "\n"
           "Examples:\n"
           "  mmtrace record -c mm_events.cfg -o trace.pftrace\n"
           "  mmtrace record -c mm_events.cfg -t 30s -o - | gzip > trace.pftrace.gz\n"
           "  mmtrace record -t 10s -o trace.pftrace 'vmscan/*' kmem/rss_stat\n"
           "  mmtrace record -c mm_events.cfg --check\n");
}

void record_options_done(struct record_options *o)
{
    for (size_t i = 0; i < o->light.n_events; i++)
        free(o->light.events[i]);
    free(o->light.events);
    *o = (struct record_options){.notify_fd = -1};
}
