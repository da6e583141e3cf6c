// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace trigger`: what `trigger_perfetto` does.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "producer/cli/cli.h"
#include "producer/cli/options.h"
#include "producer/cli/remote.h"

#define NAMES_MAX 64

enum {
    OPTION_HELP = 1,
};

static const struct cli_option options[] = {
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct trigger_options {
    char *names[NAMES_MAX]; // borrowed
    size_t n_names;
    bool help;
};

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct trigger_options *o = userdata;
    if (id == OPTION_HELP) {
        o->help = true;
        return 0;
    }
    if (!value[0])
        return err_set(err, -EINVAL, "an empty name is no trigger");
    if (o->n_names == NAMES_MAX)
        return err_set(err, -EINVAL, "more than %d triggers", NAMES_MAX);
    o->names[o->n_names++] = (char *)(uintptr_t)value;
    return 0;
}

static void print_help(void)
{
    printf("usage: mmtrace trigger NAME...\n"
           "\n"
           "Tells the tracing service, mmtrace daemon or traced, that something has happened: the\n"
           "sessions whose config has a trigger of that name start, stop, or are snapshot.\n"
           "Whether any session waits for the trigger is not told; see mmtrace status.\n"
           "\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Exit code: 0 told, 1 failed, 2 wrong usage.\n"
           "\n"
           "Example:\n"
           "  mmtrace trigger kmem_activity\n");
}

int cli_trigger(int argc, char **argv)
{
    struct trigger_options o = {0};
    struct err err = {0};
    int r = cli_options_parse(options, argc, argv, take, &o, &err);
    if (r == 0 && !o.help && o.n_names == 0) {
        r = err_set(&err, -EINVAL, "no trigger named");
        err_hint(&err, r, "see mmtrace trigger --help");
    }
    if (r < 0) {
        err_print(&err, CLI_PROGRAM " trigger");
        return CLI_USAGE;
    }
    if (o.help) {
        print_help();
        return CLI_DONE;
    }
    if (remote_activate_triggers(o.names, o.n_names, &err) < 0) {
        err_print(&err, CLI_PROGRAM);
        return CLI_FAILED;
    }
    return CLI_DONE;
}
