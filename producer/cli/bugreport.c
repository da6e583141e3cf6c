// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace bugreport`: collects first /proc, which shows the present moment; then the traces, which
// take longer; last a short summary of the traces.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/cli/bugreport_traces.h"
#include "producer/cli/cli.h"
#include "producer/cli/daemon_options.h"
#include "producer/cli/remote.h"
#include "producer/cli/verdict_child.h"

// Reports are made on machines in trouble, so the time of all verdicts together is limited. A
// verdict that takes longer is reported as missing.
#define VERDICT_TIME  (10 * NSEC_PER_SEC)
#define VERDICTS_TIME (20 * NSEC_PER_SEC)
#include "producer/ground/options.h"

struct command_line {
    const char *out_path;
    struct report_options report;
    bool quiet;
};

static int take_folder(void *userdata, const struct cli_option *option, const char *value,
                       struct err *err)
{
    struct report_options *o = &((struct command_line *)userdata)->report;
    (void)option;
    if (o->n_folders == REPORTED_FOLDERS_MAX)
        return err_set(err, -EINVAL, "--traces: more than %d folders", REPORTED_FOLDERS_MAX);
    o->folders[o->n_folders++] = value;
    return 0;
}

#define SETS(member) CLI_SETS(struct command_line, member)

static const struct cli_option options[] = {
    {'o', "out", "FILE", "the zip; - writes to standard output", SETS(out_path)},
    {0, "history-age", "TIME", "finished traces of the last TIME; default: 24h",
     SETS(report.history.age), .like = "like 24h"},
    {0, "history-bytes", "SIZE",
     "limit of their sizes together; the newest may be larger; default: 64mb",
     SETS(report.history.bytes)},
    {0, "history-files", "N", "at most N of them, 0 to 40; default: 16", SETS(report.history.files),
     .max = REPORTED_FINISHED_MAX, .like = "like 16, at most 40"},
    {0, "traces", "DIR",
     "look for finished traces here; may be repeated; default: where the daemon says, "
     "or " DAEMON_TRACES_FOLDER,
     .take = take_folder},
    REMOTE_SOCKET_OPTION,
    {'q', "quiet", NULL, "say nothing but errors", SETS(quiet)},
    {0},
};

static int check(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    return cli_check(
        (struct cli_rule[]){{!line->out_path, "no output file", "give one with -o FILE.zip"}, {0}},
        err);
}

#ifdef HAVE_BUGREPORT

static void add_indented(struct strbuf *text, const char *lines)
{
    for (const char *end; lines && *lines; lines = *end ? end + 1 : end) {
        end = strchrnul(lines, '\n');
        strbuf_add_str(text, "  ");
        strbuf_add(text, lines, (size_t)(end - lines));
        strbuf_add_char(text, '\n');
    }
}

static void add_problem(struct strbuf *text, const char *before, const struct err *err)
{
    strbuf_addf(text, err->hint[0] ? "%s%s (%s)\n" : "%s%s\n", before, err->text, err->hint);
}

static int judge(const struct reported_trace *trace, nsec_t left, struct strbuf *ret,
                 struct err *err)
{
    struct verdict_request request = {
        .fd = trace->fd,
        .timeout = left < VERDICT_TIME ? left : VERDICT_TIME,
        .cancel_fd = -1,
    };
    if (left <= 0)
        return err_set(err, -ETIMEDOUT, "no verdict: the other verdicts took all the time");
    return verdict_of_fd(&request, ret, err);
}

static int add_verdict(struct strbuf *text, const struct reported_trace *trace, nsec_t left,
                       struct strbuf *ret_lines)
{
    struct err problem = {0};
    strbuf_addf(text, "\n%s\n  (%s)\n", trace->name, trace->about);
    int r = judge(trace, left, ret_lines, &problem);
    if (r < 0)
        add_problem(text, "  ", &problem);
    else if (!ret_lines->size)
        strbuf_add_str(text, "  No memory pressure was recorded.\n");
    else
        add_indented(text, ret_lines->text);
    return r;
}

// Adds summary.txt to the report: the verdict on each trace. `why` is the reason if the report has
// no trace. *ret_main is the verdict on the first trace, one line per sentence; without a verdict
// it stays unchanged. Fails only if writing the zip fails.
static int summary_add(struct bugreport *report, const struct reported_traces *traces,
                       const struct err *why, struct strbuf *ret_main, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + VERDICTS_TIME;
    int r = 0;
    strbuf_add_str(&text, "The verdict on each trace of this report\n");
    if (why->text[0])
        add_problem(&text, "\n", why);
    for (size_t i = 0; i < traces->n && r != -ENOENT; i++) {
        CLEANUP(strbuf_done) struct strbuf lines = {0};
        r = add_verdict(&text, &traces->items[i], deadline - nsec_now(CLOCK_MONOTONIC),
                        i == 0 ? ret_main : &lines);
    }
    if (text.failed)
        return err_errno(err, -ENOMEM, "summary.txt");
    return bugreport_add_text(report, "summary.txt", text.text, text.size, err);
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
        r = summary_add(report, &traces, &why, &verdict, err);
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
    CLEANUP(strbuf_done) struct strbuf lines = {0};
    add_indented(&lines, verdict.text);
    fputs(lines.text ? lines.text : "", stderr);
    return 0;
}

// minizip crashes if an allocation for an entry fails. Therefore a separate process writes the
// report, and this process reports any abnormal end.
static int report_apart(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    CLEANUP(path_end_done) struct path_end place = PATH_END_INIT;
    // The place is found first, because memory may be out when the writer has ended.
    bool has_place =
        !str_eq(line->out_path, "-") && path_walk(line->out_path, false, NULL, &place) == 0;
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_errno(err, -errno, "no process can be started");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        int r = getppid() == parent ? write_report(line, err) : -ECANCELED;
        if (r < 0)
            err_print(err, CLI_PROGRAM);
        fflush(stdout);
        _exit(r < 0 ? PROGRAM_FAILED : PROGRAM_DONE);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "waitpid");
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (has_place)
        bugreport_partial_remove(&place, pid);
    err_set(err, -ENOMEM, "%s: its writer was ended by signal %d", line->out_path,
            WTERMSIG(status));
    return err_hint(err, -ENOMEM, "free some memory, and try again");
}

#else

static int report_apart(void *userdata, struct err *err)
{
    (void)userdata;
    err_set(err, -EOPNOTSUPP, "bugreport is not in this build of mmtrace");
    return err_hint(err, -EOPNOTSUPP, "configure it with -Dbugreport=enabled");
}

#endif

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "bugreport",
    .usage = "usage: mmtrace bugreport -o FILE.zip [OPTION...]\n"
             "\n"
             "Writes a zip with data that explain the memory of this machine: snapshots of all\n"
             "sessions with a bugreport_score, which go on; the newest finished traces of the\n"
             "daemon; /proc/vmstat, meminfo, zoneinfo and others; and the last minutes of the\n"
             "kernel log. summary.txt says what happened in the traces. index.txt lists the\n"
             "files, and those that could not be read. Only its owner can read the zip.\n"
             "'mmsql convert' loads the zip.\n"
             "\n",
    .more = "\n"
            "Android's tools look for systrace.pftrace. This file is the snapshot of the\n"
            "user's session with the highest bugreport_score, or the newest finished trace if\n"
            "there is no snapshot.\n"
            "\n"
            "Example: mmtrace bugreport -o report.zip && mmsql verdict report.zip\n"
            "\n"
            "Exit code: 0 written (a line on stderr says if no trace is in it), 1 failed, 2\n"
            "wrong usage.\n",
    .options = options,
    .check = check,
    .run = report_apart,
};

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
    return cli_command_main(&command, argc, argv, &line);
}
