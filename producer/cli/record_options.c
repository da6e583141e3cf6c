// SPDX-License-Identifier: Apache-2.0
//
// Names, letters and units are those of the `perfetto` command, so that hands need not relearn.
// Flags of it that mean nothing here are known too, so that a script's author learns why it stops.
#include "producer/cli/record_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/cli/options.h"

enum {
    OPTION_CONFIG = 1,
    OPTION_TXT,
    OPTION_OUT,
    OPTION_NO_CLOBBER,
    OPTION_TIME,
    OPTION_BUFFER,
    OPTION_SIZE,
    OPTION_CHECK,
    OPTION_DRY_RUN,
    OPTION_QUIET,
    OPTION_NO_GUARDRAILS,
    OPTION_HELP,
    OPTION_HEADING,
    OPTION_REFUSED, // the first of many
};

#define UPLOAD_REFUSAL "mmtrace keeps traces on this machine; copy the output file instead"
#define DAEMON_REFUSAL "mmtrace records in its own process only, which ends with the recording"
#define ATRACE_REFUSAL "atrace categories are not available; name ftrace events instead"

static const struct cli_option options[] = {
    {.id = OPTION_HEADING, .help = "What to record:"},
    {OPTION_CONFIG, 'c', "config", "FILE", "trace config, text or binary; - reads standard input"},
    {OPTION_TXT, 0, "txt", NULL, "the config is text (this is recognised without it)"},
    {OPTION_TIME, 't', "time", "TIME",
     "stop after TIME: 500ms, 10s, 2m, 1h; default: what the config\n"
     "says, 10s without a config"},
    {OPTION_BUFFER, 'b', "buffer", "SIZE",
     "memory that packets are kept in: 512kb, 32mb, 1gb; default: what\n"
     "the config says, 32mb without a config"},
    {.id = OPTION_HEADING, .help = "Where to:"},
    {OPTION_OUT, 'o', "out", "FILE", "trace file; - writes to standard output"},
    {OPTION_NO_CLOBBER, 0, "no-clobber", NULL, "fail if the trace file exists"},
    {OPTION_SIZE, 's', "size", "SIZE",
     "write into the file while recording, and stop when it has SIZE"},
    {.id = OPTION_HEADING, .help = "Other:"},
    {OPTION_CHECK, 0, "check", NULL,
     "check the config, print it as it was understood, record nothing"},
    {OPTION_DRY_RUN, 0, "dry-run", NULL, "the same"},
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors"},
    {OPTION_NO_GUARDRAILS, 0, "no-guardrails", NULL, "accepted, without effect"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},

    {OPTION_REFUSED, 0, "upload", NULL, NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 1, 0, "dropbox", "TAG", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 2, 0, "alert-id", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 3, 0, "config-id", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 4, 0, "config-uid", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 5, 0, "subscription-id", "ID", NULL, UPLOAD_REFUSAL},
    {OPTION_REFUSED + 6, 0, "reset-guardrails", NULL, NULL, "mmtrace has no guardrails"},
    {OPTION_REFUSED + 7, 'd', "background", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 8, 'D', "background-wait", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 9, 0, "detach", "KEY", NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 10, 0, "attach", "KEY", NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 11, 0, "is_detached", "KEY", NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 12, 0, "stop", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 13, 0, "query", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 14, 0, "query-raw", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 15, 0, "clone", "ID", NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 16, 0, "clone-by-name", "NAME", NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 17, 0, "save-for-bugreport", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 18, 0, "save-all-for-bugreport", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 19, 0, "clone-for-bugreport", NULL, NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 20, 0, "notify-fd", "FD", NULL, DAEMON_REFUSAL},
    {OPTION_REFUSED + 21, 'a', "app", "NAME", NULL, ATRACE_REFUSAL},
    {OPTION_REFUSED + 22, 0, "txt-lossy", NULL, NULL,
     "a config with unknown fields is never recorded in part; use --txt and take them out"},
    {OPTION_REFUSED + 23, 0, "add-attribute", "KEY=VALUE", NULL,
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

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct record_options *o = userdata;
    switch (id) {
    case 0:
        return take_event(&o->light, value, err);
    case OPTION_CONFIG:
        return take_name("--config", value, &o->config_path, err);
    case OPTION_TXT:
        o->text = true;
        return 0;
    case OPTION_OUT:
        return take_name("--out", value, &o->out_path, err);
    case OPTION_NO_CLOBBER:
        o->no_clobber = true;
        return 0;
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
    case OPTION_QUIET:
        o->quiet = true;
        return 0;
    case OPTION_HELP:
        o->help = true;
        return 0;
    default:
        return 0;
    }
}

static int check_together(const struct record_options *o, struct err *err)
{
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
    struct record_options o = {0};
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
    printf(
        "usage: mmtrace record -c CONFIG -o FILE [OPTION...]\n"
        "       mmtrace record -o FILE [-t TIME] [-b SIZE] [-s SIZE] GROUP/EVENT...\n"
        "\n"
        "Records until its time is over, the file is full, or Ctrl-C; the file is finished\n"
        "properly each time. A second Ctrl-C ends at once; what is in the file stays readable.\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Exit code: 0 recorded, 1 failed, 2 wrong usage.\n"
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
    *o = (struct record_options){0};
}
