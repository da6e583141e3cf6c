// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace bugreport`. The traces come through the tracing service like any clone: recording goes
// on, and a service that does not answer costs the report its traces only. All sessions with a
// bugreport_score are in it, the highest first and under the name that Android's tools look for.
// Each has a connection of its own, whose end lets the service forget the copy.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/options.h"
#include "producer/cli/remote.h"

enum {
    OPTION_OUT = 1,
    OPTION_SOCKET,
    OPTION_QUIET,
    OPTION_HELP,
};

static const struct cli_option options[] = {
    {OPTION_OUT, 'o', "out", "FILE", "the zip; - writes to standard output"},
    REMOTE_SOCKET_OPTION(OPTION_SOCKET),
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct command_line {
    const char *out_path;
    bool quiet, help;
};

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct command_line *line = userdata;
    if (id == 0)
        return err_set(err, -EINVAL, "\"%s\": bugreport takes no arguments", value);
    if (id == OPTION_SOCKET)
        return remote_take_socket(value, err);
    if (id == OPTION_OUT)
        line->out_path = value;
    line->quiet |= id == OPTION_QUIET;
    line->help |= id == OPTION_HELP;
    return 0;
}

#ifdef HAVE_BUGREPORT
#include "producer/service/armed/bugreport.h"

#define SILENCE_MAX (30 * NSEC_PER_SEC)
#define TRACES_MAX  16
#define QUOTED_MAX  80

typedef Pb__TracingServiceState__TracingSession Session;

static int by_score(const void *a, const void *b)
{
    const Session *x = *(Session *const *)a, *y = *(Session *const *)b;
    if (x->bugreport_score != y->bugreport_score)
        return x->bugreport_score > y->bugreport_score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_started(const Session *session)
{
    return session->has_is_started ? session->is_started
                                   : session->state && str_eq(session->state, "STARTED");
}

struct trace_copy {
    struct bugreport *report;
    struct err err; // of the report
    int failed;
};

static int take_packet(void *userdata, const void *bytes, size_t size)
{
    struct trace_copy *copy = userdata;
    copy->failed = bugreport_trace_add(copy->report, bytes, size, &copy->err);
    return copy->failed;
}

// The trace of a clone that this connection has. Only what the zip cannot take is an error.
static int add_clone(struct ipc_client *client, struct bugreport *report, const Session *session,
                     const char *name, int file_fd, struct err *err)
{
    struct trace_copy copy = {.report = report};
    struct err problem = {0};
    int r = bugreport_trace_begin(report, name, err);
    if (r < 0)
        return r;
    if (file_fd >= 0) {
        copy.failed = bugreport_trace_add_file(report, file_fd, &copy.err);
        r = copy.failed;
    } else {
        r = ipc_client_read_buffers(client, SILENCE_MAX, take_packet, &copy, &problem);
    }
    if (copy.failed && copy.failed != -EFBIG)
        return err_set(err, copy.failed, "%s", copy.err.text);
    char about[64];
    snprintf(about, sizeof(about), "session %" PRIu64, session->id);
    const char *text = copy.failed ? copy.err.text : problem.text;
    return bugreport_trace_end(report, about, r < 0 ? text : NULL, err);
}

static int add_session(struct bugreport *report, const Session *session, const char *name,
                       struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    // For a session that writes into a file: the service copies that file into ours.
    int file_fd CLEANUP(close_fdp) = bugreport_temporary_file();
    struct remote_clone request = {
        .session_id = session->id,
        .for_bugreport = true,
        .output_fd = file_fd,
    };
    struct err problem = {0};
    bool in_file = false;
    int r = remote_connect_consumer(&client, &problem);
    if (r == 0)
        r = remote_clone_session(client, &request, &in_file, &problem);
    if (r < 0) {
        bugreport_note(report, "session %" PRIu64 " is missing: %s", session->id, problem.text);
        return 0;
    }
    return add_clone(client, report, session, name, in_file ? file_fd : -1, err);
}

static void note_session(struct bugreport *report, const Session *session)
{
    char name[QUOTED_MAX] = "-", state[QUOTED_MAX] = "-";
    if (session->unique_session_name && session->unique_session_name[0])
        str_printable(name, sizeof(name), session->unique_session_name,
                      strlen(session->unique_session_name));
    if (session->state)
        str_printable(state, sizeof(state), session->state, strlen(session->state));
    bugreport_note(report, "session %" PRIu64 "  %s  %s  bugreport_score %d", session->id, name,
                   state, session->bugreport_score);
}

static int add_sessions(struct bugreport *report, const Pb__TracingServiceState *state,
                        struct err *err)
{
    Session *chosen[TRACES_MAX];
    size_t n = 0;
    qsort(state->tracing_sessions, state->n_tracing_sessions, sizeof(state->tracing_sessions[0]),
          by_score);
    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        Session *session = state->tracing_sessions[i];
        note_session(report, session);
        if (session->bugreport_score > 0 && is_started(session) && n < TRACES_MAX)
            chosen[n++] = session;
    }
    if (state->n_tracing_sessions == 0)
        bugreport_note(report, "The tracing service runs no session.");
    else if (n == 0)
        bugreport_note(report, "No session that records has a bugreport_score: no trace.");
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_session(report, chosen[i], i == 0 ? NULL : chosen[i]->bugreport_filename, err);
    return r;
}

static int add_traces(struct bugreport *report, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    Pb__TracingServiceState *state = NULL;
    struct err problem = {0};
    int r = remote_connect_consumer(&client, &problem);
    if (r == 0)
        r = ipc_client_query_state(client, true, REMOTE_TIMEOUT, &state, &problem);
    if (r < 0) {
        bugreport_note(report, "No traces: %s.", problem.text);
        return 0;
    }
    r = add_sessions(report, state, err);
    pb__tracing_service_state__free_unpacked(state, NULL);
    return r;
}

static int write_report(const struct command_line *line, struct err *err)
{
    struct bugreport *report;
    uint64_t size = 0;
    int r = bugreport_new(line->out_path, MMTRACE_VERSION, &report, err);
    if (r < 0)
        return r;
    r = add_traces(report, err);
    if (r == 0)
        r = bugreport_add_machine(report, "/proc", "/dev/kmsg", err);
    if (r == 0)
        r = bugreport_finish(report, &size, err);
    bugreport_free(report);
    if (r == 0 && !line->quiet)
        fprintf(stderr, CLI_PROGRAM ": %s: %" PRIu64 " bytes\n",
                str_eq(line->out_path, "-") ? "<stdout>" : line->out_path, size);
    return r;
}

#else

static int write_report(const struct command_line *line, struct err *err)
{
    (void)line;
    err_set(err, -EOPNOTSUPP, "bugreport is not in this build of mmtrace");
    return err_hint(err, -EOPNOTSUPP, "configure it with -Dbugreport=enabled");
}

#endif

static void print_help(void)
{
    printf("usage: mmtrace bugreport -o FILE.zip\n"
           "\n"
           "Gathers what explains the memory of this machine now: the traces of all sessions with\n"
           "a bugreport_score, which go on, /proc/vmstat, meminfo, zoneinfo and others, and the\n"
           "last minutes of the kernel log. index.txt in the zip says what is there and what is\n"
           "not. The file is for its owner only.\n"
           "\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Exit code: 0 written, 1 failed, 2 wrong usage.\n");
}

int cli_bugreport(int argc, char **argv)
{
    struct command_line line = {0};
    struct err err = {0};
    int r = cli_options_parse(options, argc, argv, take, &line, &err);
    if (r == 0 && !line.help && !line.out_path) {
        r = err_set(&err, -EINVAL, "no output file");
        err_hint(&err, r, "give one with -o FILE.zip");
    }
    if (r < 0) {
        err_print(&err, CLI_PROGRAM " bugreport");
        return CLI_USAGE;
    }
    if (line.help) {
        print_help();
        return CLI_DONE;
    }
    if (write_report(&line, &err) < 0) {
        err_print(&err, CLI_PROGRAM);
        return CLI_FAILED;
    }
    return CLI_DONE;
}
