// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace bugreport`: first /proc, which shows the present moment; then the traces, which take
// longer; last a short summary of the traces.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/cli/bugreport_summary.h"
#include "producer/cli/bugreport_traces.h"
#include "producer/cli/cli.h"
#include "producer/cli/daemon_options.h"
#include "producer/cli/remote.h"
#include "producer/ground/options.h"

enum {
    OPTION_OUT = 1,
    OPTION_AGE,
    OPTION_BYTES,
    OPTION_FILES,
    OPTION_TRACES,
    OPTION_SOCKET,
    OPTION_QUIET,
    OPTION_HELP,
};

static const struct cli_option options[] = {
    {OPTION_OUT, 'o', "out", "FILE", "the zip; - writes to standard output"},
    {OPTION_AGE, 0, "history-age", "TIME", "finished traces of the last TIME; default: 24h"},
    {OPTION_BYTES, 0, "history-bytes", "SIZE",
     "limit of their sizes together; the newest may be larger;\n"
     "default: 64mb"},
    {OPTION_FILES, 0, "history-files", "N", "at most N of them, 0 to 40; default: 16"},
    {OPTION_TRACES, 0, "traces", "DIR",
     "look for finished traces here; may be repeated; default: where\n"
     "the daemon says, or " DAEMON_TRACES_FOLDER},
    REMOTE_SOCKET_OPTION(OPTION_SOCKET),
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct command_line {
    const char *out_path;
    struct report_options report;
    bool quiet, help;
};

static int wrong(const char *option, const char *value, const char *like, struct err *err)
{
    err_set(err, -EINVAL, "%s %s: not understood", option, value);
    return err_hint(err, -EINVAL, "like %s", like);
}

static int take_history(struct report_options *o, int id, const char *value, struct err *err)
{
    struct trace_history_limits *limits = &o->history;
    if (id == OPTION_AGE)
        return str_parse_duration(value, &limits->age) < 0
                   ? wrong("--history-age", value, "24h", err)
                   : 0;
    if (id == OPTION_BYTES)
        return str_parse_size(value, &limits->bytes) < 0
                   ? wrong("--history-bytes", value, "64mb", err)
                   : 0;
    if (id == OPTION_FILES)
        return str_parse_u32(value, &limits->files) < 0 || limits->files > REPORTED_FINISHED_MAX
                   ? wrong("--history-files", value, "16, at most 40", err)
                   : 0;
    if (o->n_folders == REPORTED_FOLDERS_MAX)
        return err_set(err, -EINVAL, "--traces: more than %d folders", REPORTED_FOLDERS_MAX);
    o->folders[o->n_folders++] = value;
    return 0;
}

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct command_line *line = userdata;
    if (id == 0)
        return err_set(err, -EINVAL, "\"%s\": bugreport takes no arguments", value);
    if (id == OPTION_SOCKET)
        return remote_take_socket(value, err);
    if (id >= OPTION_AGE && id <= OPTION_TRACES)
        return take_history(&line->report, id, value, err);
    if (id == OPTION_OUT)
        line->out_path = value;
    line->quiet |= id == OPTION_QUIET;
    line->help |= id == OPTION_HELP;
    return 0;
}

#ifdef HAVE_BUGREPORT

static void print_lines(const char *lines)
{
    for (const char *end; lines && *lines; lines = *end ? end + 1 : end) {
        end = strchrnul(lines, '\n');
        fprintf(stderr, "  %.*s\n", (int)(end - lines), lines);
    }
}

static int write_report(const struct command_line *line, struct err *err)
{
    CLEANUP(bugreport_traces_done) struct reported_traces traces = {0};
    CLEANUP(strbuf_done) struct strbuf verdict = {0};
    struct bugreport *report;
    struct err why;
    uint64_t size = 0;
    int r = bugreport_new(line->out_path, MMTRACE_VERSION, &report, err);
    if (r < 0)
        return r;
    r = bugreport_add_machine(report, "/proc", "/dev/kmsg", err);
    if (r == 0)
        r = bugreport_traces_add(report, &line->report, &traces, &why, err);
    if (r == 0)
        r = bugreport_summary_add(report, &traces, &why, &verdict, err);
    if (r == 0)
        r = bugreport_finish(report, &size, err);
    bugreport_free(report);
    if (r < 0 || line->quiet)
        return r;
    fprintf(stderr, CLI_PROGRAM ": %s: %" PRIu64 " bytes, %zu trace%s\n",
            str_eq(line->out_path, "-") ? "<stdout>" : line->out_path, size, traces.n,
            traces.n == 1 ? "" : "s");
    if (why.text[0])
        err_print(&why, CLI_PROGRAM);
    print_lines(verdict.text);
    return 0;
}

// Removes the partial report of a process that a signal ended.
static void partial_remove(const struct command_line *line, pid_t pid)
{
    char path[PATH_MAX];
    if (!str_eq(line->out_path, "-") &&
        bugreport_partial_path(path, sizeof(path), line->out_path, pid) == 0)
        unlink(path);
}

// minizip crashes if an allocation for an entry fails. So a separate process writes the report, and
// its end, whatever the cause, is reported.
static int report_apart(const struct command_line *line, struct err *err)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_errno(err, -errno, "no process can be started");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        int r = getppid() == parent ? write_report(line, err) : -ECANCELED;
        if (r < 0)
            err_print(err, CLI_PROGRAM);
        fflush(stdout);
        _exit(r < 0 ? CLI_FAILED : CLI_DONE);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "waitpid");
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    partial_remove(line, pid);
    err_set(err, -ENOMEM, "%s: its writer was ended by signal %d", line->out_path,
            WTERMSIG(status));
    return err_hint(err, -ENOMEM, "free some memory, and try again");
}

#else

static int report_apart(const struct command_line *line, struct err *err)
{
    (void)line;
    err_set(err, -EOPNOTSUPP, "bugreport is not in this build of mmtrace");
    return err_hint(err, -EOPNOTSUPP, "configure it with -Dbugreport=enabled");
}

#endif

static void print_help(void)
{
    printf("usage: mmtrace bugreport -o FILE.zip [OPTION...]\n"
           "\n"
           "Writes a zip with data that explain the memory of this machine: snapshots of all\n"
           "sessions with a bugreport_score, which go on; the newest finished traces of the\n"
           "daemon; /proc/vmstat, meminfo, zoneinfo and others; and the last minutes of the\n"
           "kernel log. summary.txt says what happened in the traces. index.txt lists the\n"
           "files, and those that could not be read. Only its owner can read the zip.\n"
           "'mmsql convert' loads the zip.\n"
           "\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Android's tools look for systrace.pftrace. This file is the snapshot of the\n"
           "session with the highest bugreport_score, or the newest finished trace if there\n"
           "is no snapshot.\n"
           "\n"
           "Exit code: 0 written (a line on stderr says if no trace is in it), 1 failed, 2\n"
           "wrong usage.\n");
}

int cli_bugreport(int argc, char **argv)
{
    struct command_line line = {
        .report.history =
            {
                .age = TRACE_HISTORY_AGE,
                .bytes = TRACE_HISTORY_BYTES,
                .files = TRACE_HISTORY_FILES,
            },
    };
    struct err err = {0};
    int r = cli_options_parse(options, argc, argv, take, &line, &err);
    if (r == 0 && !line.help && !line.out_path) {
        r = err_set(&err, -EINVAL, "no output file");
        err_hint(&err, r, "give one with -o FILE.zip");
    }
    if (r < 0)
        return cli_options_wrong(CLI_PROGRAM, "bugreport", r, &err);
    if (line.help) {
        print_help();
        return CLI_DONE;
    }
    r = report_apart(&line, &err);
    if (r < 0)
        err_print(&err, CLI_PROGRAM);
    return r < 0 ? CLI_FAILED : r;
}
