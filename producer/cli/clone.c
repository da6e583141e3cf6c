// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace clone`: as `perfetto --clone` and `--clone-by-name`. The request carries the descriptor
// of the file. If the session writes into a file, which only the service knows, the service copies
// that file to the descriptor. Otherwise the buffers of the clone are read here.
#include "producer/cli/clone.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/readout.h"
#include "producer/ground/options.h"

static int fill(struct ipc_client *client, const struct clone_options *o, int *fd, const char *name,
                uint64_t *ret_bytes, struct err *err)
{
    struct remote_clone request = o->session;
    bool in_file = false;
    request.output_fd = *fd;
    int r = remote_clone_session(client, &request, &in_file, err);
    if (r < 0)
        return r;
    struct stat st;
    if (in_file) {
        *ret_bytes = fstat(*fd, &st) == 0 ? (uint64_t)st.st_size : 0;
        return 0;
    }
    r = readout_to_file(client, steal_fd(fd), name, false, ret_bytes, err);
    remote_free_buffers(client);
    return r;
}

int clone_to_file(const struct clone_options *o, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    int fd CLEANUP(close_fdp) = -1;
    const char *name = str_eq(o->out_path, "-") ? "<stdout>" : o->out_path;
    uint64_t bytes = 0;
    int r = remote_connect_consumer(&client, err);
    if (r == 0)
        r = readout_open(o->out_path, o->no_clobber, &fd, err);
    if (r < 0)
        return r;
    r = fill(client, o, &fd, name, &bytes, err);
    readout_remove_empty(o->out_path);
    if (r == 0 && !o->quiet)
        fprintf(stderr, CLI_PROGRAM ": %s: %llu bytes\n", name, (unsigned long long)bytes);
    return r;
}

// The verb.

static int take_session(void *userdata, const struct cli_option *option, const char *word,
                        struct err *err)
{
    struct remote_clone *session = &((struct clone_options *)userdata)->session;
    uint64_t id;
    if (session->session_id || session->name)
        return err_set(err, -EINVAL, "more than one session");
    session->for_bugreport = !word;
    if (!word)
        session->session_id = REMOTE_BUGREPORT_SESSION;
    else if (!word[0])
        return err_set(err, -EINVAL, "the name of the session is empty");
    else if (!option && str_parse_u64(word, &id) == 0 && id > 0)
        session->session_id = id;
    else
        session->name = word;
    return 0;
}

#define SETS(member) CLI_SETS(struct clone_options, member)

static const struct cli_option options[] = {
    {'o', "out", "FILE", "trace file; - writes to standard output", SETS(out_path)},
    {0, "name", "NAME", "the session's unique_session_name, also if it is a number",
     .take = take_session},
    {0, "bugreport", NULL, "the session with the highest bugreport_score", .take = take_session},
    {0, "no-clobber", NULL, "fail if the trace file exists", SETS(no_clobber)},
    REMOTE_SOCKET_OPTION,
    {'q', "quiet", NULL, "say nothing but errors", SETS(quiet)},
    {0},
};

static int check(void *userdata, struct err *err)
{
    const struct clone_options *o = userdata;
    const struct cli_rule rules[] = {
        {!o->session.session_id && !o->session.name, "no session named",
         "mmtrace status lists them"},
        {!o->out_path, "no output file", "give one with -o FILE"},
        {0},
    };
    return cli_check(rules, err);
}

static int run(void *userdata, struct err *err)
{
    return clone_to_file(userdata, err);
}

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "clone",
    .usage = "usage: mmtrace clone NAME|ID -o FILE [OPTION...]\n"
             "\n"
             "Writes the trace that a session of the tracing service has recorded so far into\n"
             "a file. The session goes on. NAME is its unique_session_name, ID is its number;\n"
             "'mmtrace status' lists both.\n"
             "\n",
    .more = "\n"
            "Exit code: 0 written, 1 failed, 2 wrong usage.\n"
            "\n"
            "Examples:\n"
            "  mmtrace clone perfetto_mm_events_session -o now.pftrace\n"
            "  mmtrace clone --bugreport -o now.pftrace\n",
    .options = options,
    .operand = take_session,
    .check = check,
    .run = run,
};

int cli_clone(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, &(struct clone_options){0});
}
