// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace clone`: what `perfetto --clone` and `--clone-by-name` do. The request carries the
// descriptor of the file, because only the service knows whether the session writes into a file,
// whose contents the service then copies. Otherwise the copy's buffers are read out here.
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

enum {
    OPTION_OUT = 1,
    OPTION_NAME,
    OPTION_NO_CLOBBER,
    OPTION_BUGREPORT,
    OPTION_SOCKET,
    OPTION_QUIET,
    OPTION_HELP,
};

static const struct cli_option options[] = {
    {OPTION_OUT, 'o', "out", "FILE", "trace file; - writes to standard output"},
    {OPTION_NAME, 0, "name", "NAME", "the session's unique_session_name, also if it is a number"},
    {OPTION_BUGREPORT, 0, "bugreport", NULL, "the session with the highest bugreport_score"},
    {OPTION_NO_CLOBBER, 0, "no-clobber", NULL, "fail if the trace file exists"},
    REMOTE_SOCKET_OPTION(OPTION_SOCKET),
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct command_line {
    struct clone_options clone;
    bool help;
};

static int take_session(struct remote_clone *session, const char *word, bool is_name,
                        struct err *err)
{
    if (session->session_id || session->name)
        return err_set(err, -EINVAL, "more than one session");
    if (!word[0])
        return err_set(err, -EINVAL, "an empty name is no session");
    uint64_t id;
    if (!is_name && str_parse_u64(word, &id) == 0 && id > 0)
        session->session_id = id;
    else
        session->name = word;
    return 0;
}

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct command_line *line = userdata;
    struct clone_options *o = &line->clone;
    switch (id) {
    case 0:
        return take_session(&o->session, value, false, err);
    case OPTION_NAME:
        return take_session(&o->session, value, true, err);
    case OPTION_BUGREPORT:
        if (o->session.session_id || o->session.name)
            return err_set(err, -EINVAL, "more than one session");
        o->session.session_id = REMOTE_BUGREPORT_SESSION;
        o->session.for_bugreport = true;
        return 0;
    case OPTION_OUT:
        o->out_path = value;
        return 0;
    case OPTION_NO_CLOBBER:
        o->no_clobber = true;
        return 0;
    case OPTION_SOCKET:
        return remote_take_socket(value, err);
    case OPTION_QUIET:
        o->quiet = true;
        return 0;
    default:
        line->help = true;
        return 0;
    }
}

static void print_help(void)
{
    printf("usage: mmtrace clone NAME|ID -o FILE [OPTION...]\n"
           "\n"
           "Writes the trace that a session of the tracing service has recorded so far into\n"
           "a file. The session goes on. NAME is its unique_session_name, ID is its number;\n"
           "'mmtrace status' lists both.\n"
           "\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Exit code: 0 written, 1 failed, 2 wrong usage.\n"
           "\n"
           "Examples:\n"
           "  mmtrace clone perfetto_mm_events_session -o now.pftrace\n"
           "  mmtrace clone --bugreport -o now.pftrace\n");
}

int cli_clone(int argc, char **argv)
{
    struct command_line line = {0};
    const struct clone_options *o = &line.clone;
    struct err err = {0};
    int r = cli_options_parse(options, argc, argv, take, &line, &err);
    if (r == 0 && !line.help && !o->session.session_id && !o->session.name) {
        r = err_set(&err, -EINVAL, "no session named");
        err_hint(&err, r, "mmtrace status lists them");
    } else if (r == 0 && !line.help && !o->out_path) {
        r = err_set(&err, -EINVAL, "no output file");
        err_hint(&err, r, "give one with -o FILE");
    }
    if (r < 0)
        return cli_options_wrong(CLI_PROGRAM, "clone", r, &err);
    if (line.help) {
        print_help();
        return CLI_DONE;
    }
    if (clone_to_file(o, &err) < 0) {
        err_print(&err, CLI_PROGRAM);
        return CLI_FAILED;
    }
    return CLI_DONE;
}
