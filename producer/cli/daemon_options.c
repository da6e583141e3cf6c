// SPDX-License-Identifier: Apache-2.0
//
// The defaults fit a system service. Each folder can be moved, so that a second daemon, for example
// of a test, does not meet the first.
#include "producer/cli/daemon_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/sources/ftrace/tracefs.h"

#define KEEP_FILES 20
#define KEEP_BYTES ((uint64_t)256 << 20)

static int take_events(void *userdata, const struct cli_option *option, const char *value,
                       struct err *err)
{
    struct daemon_options *o = userdata;
    (void)option;
    free(o->event_list);
    memset(o->events, 0, sizeof(o->events));
    o->event_list = strdup(value);
    if (!o->event_list)
        return err_errno(err, -ENOMEM, "--kmem-events");
    if (str_eq(value, "none"))
        return 0;
    char *state = NULL;
    size_t n = 0;
    for (char *event = strtok_r(o->event_list, ", ", &state); event;
         event = strtok_r(NULL, ", ", &state)) {
        if (!strchr(event, '/'))
            return err_set(err, -EINVAL, "--kmem-events: \"%s\" is not group/event", event);
        if (n == KMEM_WATCH_EVENTS_MAX)
            return err_set(err, -EINVAL, "--kmem-events: more than %d", KMEM_WATCH_EVENTS_MAX);
        o->events[n++] = event;
    }
    return 0;
}

static int take_armed(void *userdata, const struct cli_option *option, const char *value,
                      struct err *err)
{
    struct daemon_options *o = userdata;
    (void)option;
    bool optional = *value == '-';
    if (o->armed_is_default || str_eq(value, "none"))
        o->n_armed = 0;
    o->armed_is_default = false;
    if (str_eq(value, "none"))
        return 0;
    value += optional;
    if (!*value)
        return err_set(err, -EINVAL, "--armed takes a folder, or a file that ends with .cfg");
    if (o->n_armed == ARMED_PLACES_MAX)
        return err_set(err, -EINVAL, "--armed: more than %d", ARMED_PLACES_MAX);
    o->armed[o->n_armed++] = (struct armed_place){.path = value, .optional = optional};
    return 0;
}

static int take_psi(void *userdata, const struct cli_option *option, const char *value,
                    struct err *err)
{
    struct daemon_options *o = userdata;
    (void)option;
    size_t n = 0;
    if (o->psi_is_default || str_eq(value, "none"))
        memset(o->psi, 0, sizeof(o->psi));
    o->psi_is_default = false;
    if (str_eq(value, "none"))
        return 0;
    while (o->psi[n])
        n++;
    if (n == KMEM_WATCH_PSI_MAX)
        return err_set(err, -EINVAL, "--psi: more than %d", KMEM_WATCH_PSI_MAX);
    int r = kmem_watch_check_psi(value, err);
    if (r < 0)
        return err_prefix(err, r, "--psi");
    o->psi[n] = value;
    return 0;
}

static int take_output(void *userdata, const struct cli_option *option, const char *value,
                       struct err *err)
{
    struct daemon_options *o = userdata;
    (void)option;
    if (str_eq(value, "-")) {
        err_set(err, -EINVAL, "-o -: traces cannot go to standard output: there are several");
        return err_hint(err, -EINVAL, "name a folder");
    }
    free(o->output_folder);
    o->output_folder = strdup(value);
    return o->output_folder ? 0 : err_errno(err, -ENOMEM, "--output-dir");
}

#define SETS(member) CLI_SETS(struct daemon_options, member)

static const struct cli_option options[] = {
    {.help = "Armed configs and their traces:"},
    {'a', "armed", "PATH",
     "keep the *.cfg in the folder PATH armed, or the file PATH if it ends with .cfg; \"-PATH\" "
     "need not exist, \"none\" arms nothing; may be repeated; default: " DAEMON_ARMED_FOLDER,
     .take = take_armed},
    {'o', "output-dir", "DIR",
     "folder of the traces, unless a config has output_path; default: traces in the state folder",
     .take = take_output},
    {0, "keep-files", "N",
     "keep the N newest traces of each config, and of each trigger; default: 20; 0: all",
     SETS(keep_files)},
    {0, "keep-bytes", "SIZE", "limit of their sizes; default: 256mb; 0: no limit",
     SETS(keep_bytes)},
    {.help =
         "Signs that fire the triggers " MEMORY_WATCH_TRIGGER " and " MEMORY_WATCH_OOM_TRIGGER ":"},
    {0, "kmem-events", "LIST",
     "ftrace events, separated by commas, or \"none\"; default: reclaim, compaction, OOM kills",
     .take = take_events},
    {0, "psi", "TEXT",
     "a threshold of pressure: \"some STALL_USEC WINDOW_USEC\", \"full ...\" or \"none\"; \" "
     "FILE\" "
     "after it names a cgroup's memory.pressure; may be repeated; default: "
     "\"" KMEM_WATCH_PSI_DEFAULT "\"",
     .take = take_psi},
    {0, "kmem-rest", "TIME",
     "fire a trigger at most once in TIME; default: 60s; doubles with each time in an hour",
     SETS(rest), .min = 1},
    {0, "kmem-rest-max", "TIME", "limit of the doubling; default: 1h", SETS(rest_max), .min = 1},
    {.help = "Sockets, and who may record:"},
    {0, "consumer-group", "GROUP", "members of GROUP may record; default: root alone",
     SETS(consumer_group)},
    {0, "no-perfetto-sockets", NULL,
     "leave Perfetto's sockets to traced; mmtrace's commands find the daemon nevertheless",
     SETS(no_perfetto_sockets)},
    {0, "no-ipc", NULL, "listen on no socket at all", SETS(no_ipc)},
    {.help = "Other:"},
    {0, "state-dir", "DIR",
     "folder of the state that survives a restart; default: " DAEMON_STATE_FOLDER,
     SETS(state_folder)},
    {0, "run-dir", "DIR", "folder of lock, sockets and journals; default: " TRACEFS_STATE_DIR,
     SETS(run_folder)},
    {'q', "quiet", NULL, "say nothing but errors and warnings", SETS(quiet)},
    {0},
};

const struct cli_command daemon_command = {
    .program = CLI_PROGRAM,
    .verb = "daemon",
    .usage = "usage: mmtrace daemon [OPTION...]\n"
             "\n"
             "Keeps trace configs armed, fires the triggers " MEMORY_WATCH_TRIGGER
             " and " MEMORY_WATCH_OOM_TRIGGER " when\n"
             "memory gets short, and gives traces to clients. Runs in the foreground. SIGTERM\n"
             "ends the daemon in order. SIGHUP makes the daemon look at all configs again.\n",
    .more = "\n"
            "Examples:\n"
            "  mmtrace daemon --armed flight_recorder.cfg -o /var/tmp/traces\n"
            "  mmtrace daemon --consumer-group adm --keep-files 50\n"
            "\n"
            "Exit code: 0 ended in order, 1 failed, 2 wrong usage.\n",
    .options = options,
};

// Makes the path absolute, for messages that work from any folder.
static int make_absolute(char **path)
{
    char folder[PATH_MAX], *full;
    if (**path == '/' || !getcwd(folder, sizeof(folder)))
        return 0;
    if (asprintf(&full, "%s/%s", folder, *path) < 0)
        return -ENOMEM;
    free(*path);
    *path = full;
    return 0;
}

int daemon_options_parse(int argc, char **argv, struct daemon_options *ret, struct err *err)
{
    *ret = (struct daemon_options){
        .armed = {{.path = DAEMON_ARMED_FOLDER, .optional = true}},
        .n_armed = 1,
        .armed_is_default = true,
        .state_folder = DAEMON_STATE_FOLDER,
        .run_folder = TRACEFS_STATE_DIR,
        .rest = MEMORY_WATCH_REST,
        .rest_max = MEMORY_WATCH_REST_MAX,
        .psi_is_default = true,
        .keep_files = KEEP_FILES,
        .keep_bytes = KEEP_BYTES,
    };
    for (size_t i = 0; memory_watch_default_events[i]; i++)
        ret->events[i] = memory_watch_default_events[i];
    for (size_t i = 0; memory_watch_default_psi[i]; i++)
        ret->psi[i] = memory_watch_default_psi[i];
    int r = cli_command_parse(&daemon_command, argc, argv, ret, err);
    if (!ret->events[0] && ret->psi_is_default) // "none": the user has switched off the default
        ret->psi[0] = NULL;
    if (r == 0 && !ret->output_folder &&
        asprintf(&ret->output_folder, "%s/traces", ret->state_folder) < 0) {
        ret->output_folder = NULL;
        r = err_errno(err, -ENOMEM, "--output-dir");
    }
    if (r == 0 && make_absolute(&ret->output_folder) < 0)
        r = err_errno(err, -ENOMEM, "--output-dir");
    return r;
}

void daemon_options_done(struct daemon_options *o)
{
    free(o->output_folder);
    free(o->event_list);
}
