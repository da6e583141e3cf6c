// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace trigger`: fires triggers as `trigger_perfetto` does, and prints their effect. A mistyped
// name loses the evidence that the trigger was meant to save. Therefore a trigger that no session
// waits for is a failure. Only mmtrace's daemon reports the effect; traced does not.
#include "producer/cli/trigger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/remote.h"
#include "producer/ground/options.h"

#define NAMES_MAX  64
#define KNOWN_MAX  256
#define QUOTED_MAX 128

// -- the effect of a trigger --

// Suggests the nearest trigger that a session waits for. Only users who may record get a
// suggestion.
static void suggest(const char *name, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    Pb__TracingServiceState *state;
    const char *known[KNOWN_MAX];
    char quoted[QUOTED_MAX];
    size_t n = 0;
    err_hint(err, 0, "mmtrace status --json names the triggers that each session hears");
    if (remote_connect_consumer(&client, NULL) < 0 ||
        ipc_client_query_state(client, true, REMOTE_TIMEOUT, &state, NULL) < 0)
        return;
    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        const Pb__TracingServiceState__SessionDetails *details =
            state->tracing_sessions[i]->details;
        for (size_t t = 0; details && t < details->n_hears && n < KNOWN_MAX; t++)
            known[n++] = details->hears[t];
    }
    const char *nearest = str_nearest(name, known, n);
    if (nearest)
        err_hint(err, 0, "did you mean \"%s\"?",
                 str_printable(quoted, sizeof(quoted), nearest, strlen(nearest)));
    pb__tracing_service_state__free_unpacked(state, NULL);
}

// Prints the fate of a trigger. Returns false if no session waits for it.
static bool report(const char *name, const struct remote_trigger_answer *answer,
                   bool other_services)
{
    struct err err = {0};
    char quoted[QUOTED_MAX];
    str_printable(quoted, sizeof(quoted), name, strlen(name));
    bool unheard = answer->sessions == 0 && answer->silent == 0;
    if (unheard) {
        err_set(&err, 0, "trigger \"%s\": no session waits for it, nothing happened", quoted);
        suggest(name, &err);
    } else if (answer->sessions == 0 && other_services) {
        err_set(&err, 0,
                "trigger \"%s\": no session of mmtrace's daemon waits for it; traced received it, "
                "and does not say what it did",
                quoted);
    } else if (answer->sessions > 0 && answer->held_back == answer->sessions) {
        err_set(
            &err, 0,
            "trigger \"%s\": held back in %u session%s by max_per_24_h, skip_probability or the "
            "daemon's limits for users",
            quoted, answer->held_back, answer->held_back == 1 ? "" : "s");
    } else if (answer->sessions > 0 && answer->acted == 0) {
        err_set(&err, 0, "trigger \"%s\": nothing changes, its sessions were triggered before",
                quoted);
    }
    if (err.text[0])
        err_print(&err, CLI_PROGRAM);
    return !unheard;
}

int trigger_tell(char *const *names, size_t n_names, bool optional, struct err *err)
{
    struct remote_trigger_answer *answers CLEANUP(freep) = calloc(n_names + 1, sizeof(*answers));
    if (!answers)
        return err_errno(err, -ENOMEM, "triggers");
    int r = remote_activate_triggers(names, n_names, answers, err);
    if (r < 0)
        return r;
    bool heard = true;
    for (size_t i = 0; i < n_names; i++)
        if (!optional && !report(names[i], &answers[i], answers[i].silent < answers[i].told))
            heard = false;
    return heard ? 0 : TRIGGER_UNHEARD;
}

// -- the verb --

struct trigger_options {
    char *names[NAMES_MAX]; // borrowed
    size_t n_names;
    bool optional;
};

static const struct cli_option options[] = {
    {0, "optional", NULL,
     "accept a trigger that no session waits for: say nothing, and exit with 0",
     CLI_SETS(struct trigger_options, optional)},
    REMOTE_SOCKET_OPTION,
    {0},
};

static int take_name(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct trigger_options *o = userdata;
    (void)option;
    if (!value[0])
        return err_set(err, -EINVAL, "a trigger must have a name");
    if (o->n_names == NAMES_MAX)
        return err_set(err, -EINVAL, "more than %d triggers", NAMES_MAX);
    o->names[o->n_names++] = (char *)(uintptr_t)value;
    return 0;
}

static int check(void *userdata, struct err *err)
{
    const struct trigger_options *o = userdata;
    return o->n_names > 0 ? 0 : err_set(err, -EINVAL, "no trigger named");
}

static int run(void *userdata, struct err *err)
{
    const struct trigger_options *o = userdata;
    int r = trigger_tell(o->names, o->n_names, o->optional, err);
    if (r >= 0)
        *err = (struct err){0}; // text of a service that may be missing
    return r <= 0 ? r : PROGRAM_FAILED;
}

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "trigger",
    .usage = "usage: mmtrace trigger [--optional] NAME...\n"
             "\n"
             "Tells the tracing services, mmtrace daemon and traced, that something has\n"
             "happened: the sessions whose config has a trigger of that name start, stop, or\n"
             "save a snapshot. If no session of the daemon waits for a trigger, mmtrace names\n"
             "the trigger and fails; traced does not tell whether one waits.\n"
             "\n",
    .more = "\n"
            "Exit code: 0 heard, or told to traced; 1 failed, or no session waits for one of\n"
            "the triggers; 2 wrong usage.\n"
            "\n"
            "Example:\n"
            "  mmtrace trigger kmem_activity\n",
    .options = options,
    .operand = take_name,
    .check = check,
    .run = run,
};

int cli_trigger(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, &(struct trigger_options){0});
}
