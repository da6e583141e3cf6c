// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace doctor`: lists the features that recording lacks on this machine, each with the cost of
// the lack and a remedy.
//
// A check can hang: a daemon that does not answer, a folder on a server that is gone, which not
// even SIGKILL ends. The checks therefore run in a child, which writes its findings into a pipe.
// The parent waits for each finding for a limited time. A check that is late, or that ends the
// child (a filter of system calls can kill), is itself a finding, and another child goes on with
// the next check. Nobody waits for a child.
//
// The checks change nothing on the machine, and mount no file system.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/daemon_options.h"
#include "producer/cli/doctor.h"
#include "producer/cli/remote.h"
#include "producer/ground/json_out.h"
#include "producer/ground/options.h"
#include "producer/service/roots.h"

#define CHECK_TIME   (3 * NSEC_PER_SEC)
#define ENDING_STEPS 500 // milliseconds
#define COLUMN       20  // of the texts

const struct doctor_check doctor_checks[] = {
    {"kernel", doctor_kernel},
    {"rights", doctor_rights},
    {"tracefs", doctor_tracefs},
    {"pressure", doctor_pressure},
    {"cachestat", doctor_cachestat},
    {"perf", doctor_perf},
    {"perf limits", doctor_perf_limits},
    {"symbols", doctor_symbols},
    {"seccomp", doctor_seccomp},
    {"locked memory", doctor_memory_lock},
    {"daemon", doctor_daemon},
    {"armed configs", doctor_armed},
    {"disk", doctor_disk},
    {"heap profiles", doctor_heap},
    {"verdict", doctor_verdict},
    {0},
};

void doctor_found(struct doctor_finding *ret, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ret->found, sizeof(ret->found), format, args);
    va_end(args);
    str_make_printable(ret->found, false);
}

void doctor_lacks(struct doctor_finding *ret, const char *cost, const char *mend)
{
    ret->is_lack = true;
    snprintf(ret->cost, sizeof(ret->cost), "%s", cost);
    snprintf(ret->mend, sizeof(ret->mend), "%s", mend);
}

// -- the child --

static _Noreturn void look_from(const struct doctor_machine *machine, size_t first, int to)
{
    for (size_t i = first; doctor_checks[i].name; i++) {
        struct doctor_finding finding = {0};
        doctor_checks[i].look(machine, &finding);
        if (write(to, &finding, sizeof(finding)) != (ssize_t)sizeof(finding))
            break;
    }
    _exit(0);
}

struct looker {
    pid_t pid;
    int from; // -1: no child
};

static int looker_start(struct looker *looker, const struct doctor_machine *machine, size_t first)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    looker->pid = fork();
    if (looker->pid == 0)
        look_from(machine, first, ends[1]);
    int r = looker->pid < 0 ? -errno : 0;
    close(ends[1]);
    if (r < 0)
        close(ends[0]);
    else
        looker->from = ends[0];
    return r;
}

// Ends the child. `is_ending`: the child has closed its pipe, and gets a moment to end.
// Returns the signal that had ended the child before, or 0.
static int looker_end(struct looker *looker, bool is_ending)
{
    int status = 0;
    if (looker->from < 0)
        return 0;
    bool had_ended = waitpid(looker->pid, &status, WNOHANG) == looker->pid;
    for (int i = 0; is_ending && !had_ended && i < ENDING_STEPS; i++) {
        usleep(1000);
        had_ended = waitpid(looker->pid, &status, WNOHANG) == looker->pid;
    }
    if (!had_ended)
        kill(looker->pid, SIGKILL);
    looker->from = close_fd(looker->from);
    return had_ended && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// Reads the next finding. Returns 0; -ETIMEDOUT; or -EPIPE if the child has ended.
static int looker_next(const struct looker *looker, struct doctor_finding *ret)
{
    struct doctor_finding finding;
    nsec_t until = nsec_now(CLOCK_MONOTONIC) + CHECK_TIME;
    for (;;) {
        nsec_t left = until - nsec_now(CLOCK_MONOTONIC);
        struct pollfd p = {.fd = looker->from, .events = POLLIN};
        int n = left > 0 ? poll(&p, 1, (int)(left / NSEC_PER_MSEC) + 1) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -ETIMEDOUT;
        ssize_t size = read(looker->from, &finding, sizeof(finding)); // less than PIPE_BUF: whole
        if (size < 0 && errno == EINTR)
            continue;
        if (size != (ssize_t)sizeof(finding))
            return -EPIPE;
        *ret = finding;
        return 0;
    }
}
_Static_assert(sizeof(struct doctor_finding) <= PIPE_BUF, "findings are written as a whole");

static void note_failed(struct doctor_finding *ret, int r, int signal)
{
    *ret = (struct doctor_finding){0};
    if (r == -ETIMEDOUT)
        doctor_found(ret, "no answer within %d s", (int)(CHECK_TIME / NSEC_PER_SEC));
    else if (signal)
        doctor_found(ret, "the check was ended by a signal: %s", strsignal(signal));
    else
        doctor_found(ret, "the check did not come to its end: %s", strerror(-r));
    doctor_lacks(ret, "unknown",
                 signal == SIGSYS ? "allow the call in the filter of system calls"
                                  : "see which file or program does not answer");
}

// -- the output --

struct command_line {
    bool json;
    struct doctor_machine machine;
};

static void add_json(struct strbuf *out, const char *name, const struct doctor_finding *finding)
{
    strbuf_add_str(out, out->text[out->size - 1] == '[' ? "{" : ",{");
    json_out_string(out, "name", name);
    json_out_bool(out, "is_lack", finding->is_lack);
    json_out_string(out, "found", finding->found);
    if (finding->is_lack) {
        json_out_string(out, "cost", finding->cost);
        json_out_string(out, "mend", finding->mend);
    }
    strbuf_add_char(out, '}');
}

static void print_text(const char *name, const struct doctor_finding *finding)
{
    printf("%s  %-*s", finding->is_lack ? "LACK" : "ok  ", COLUMN - 6, name);
    cli_print_wrapped(finding->found, COLUMN, stdout);
    if (!finding->is_lack)
        return;
    printf("%-*s", COLUMN, "      costs:");
    cli_print_wrapped(finding->cost, COLUMN, stdout);
    printf("%-*s%s\n", COLUMN, "      mend:", finding->mend); // whole, to be copied
}

static int examine(void *userdata, struct err *err)
{
    struct command_line *line = userdata;
    struct strbuf json CLEANUP(strbuf_done) = {0};
    struct looker looker = {.from = -1};
    size_t n_lacks = 0, n = 0;
    line->machine.tracefs = source_roots_tracefs();
    if (line->json)
        strbuf_add_str(&json, "{\"version\":\"" MMTRACE_VERSION "\",\"checks\":[");
    for (; doctor_checks[n].name; n++) {
        struct doctor_finding finding;
        int r = looker.from < 0 ? looker_start(&looker, &line->machine, n) : 0;
        if (r == 0)
            r = looker_next(&looker, &finding);
        if (r < 0)
            note_failed(&finding, r, looker_end(&looker, r == -EPIPE));
        n_lacks += finding.is_lack;
        if (line->json)
            add_json(&json, doctor_checks[n].name, &finding);
        else
            print_text(doctor_checks[n].name, &finding);
        fflush(stdout);
    }
    looker_end(&looker, false);
    if (line->json) {
        strbuf_add_str(&json, "],");
        strbuf_addf(&json, "\"n_lacks\":%zu}\n", n_lacks);
        if (json.failed)
            return err_errno(err, -ENOMEM, "doctor");
        fputs(json.text, stdout);
    } else {
        printf("\n%zu of %zu checks are ok%s\n", n - n_lacks, n,
               n_lacks ? "; mend the lacks whose cost matters to you" : "");
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        return err_errno(err, -errno, "standard output");
    return n_lacks ? PROGRAM_FAILED : PROGRAM_DONE;
}

static const struct cli_option options[] = {
    {0, "json", NULL, "one JSON object, for scripts", CLI_SETS(struct command_line, json)},
    {'a', "armed", "DIR", "folder of the daemon's configs; default: " DAEMON_ARMED_FOLDER,
     CLI_SETS(struct command_line, machine.armed_folder), .min = 1},
    {0, "traces", "DIR", "folder of the daemon's traces; default: " DAEMON_TRACES_FOLDER,
     CLI_SETS(struct command_line, machine.traces_folder), .min = 1},
    REMOTE_SOCKET_OPTION,
    {0},
};

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "doctor",
    .usage = "usage: mmtrace doctor [OPTION...]\n"
             "\n"
             "Says what this machine and this user have for recording, and what they lack:\n"
             "kernel, rights, tracefs, pressure, cachestat, perf, symbols, filters of system\n"
             "calls, locked memory, the daemon, its configs and its disk. Each lack is\n"
             "shown with its cost and its remedy. Nothing is changed, and a check that hangs\n"
             "is ended after 3 s.\n"
             "\n",
    .more = "\n"
            "Examples:\n"
            "  mmtrace doctor                 what this user lacks\n"
            "  sudo mmtrace doctor            what root lacks here\n"
            "  mmtrace doctor --json | python3 -m json.tool\n"
            "\n"
            "Exit code: 0 nothing is lacking, 1 there are lacks, 2 wrong usage.\n",
    .options = options,
    .run = examine,
};

int cli_doctor(int argc, char **argv)
{
    struct command_line line = {.machine = {.proc = "/proc",
                                            .armed_folder = DAEMON_ARMED_FOLDER,
                                            .traces_folder = DAEMON_TRACES_FOLDER}};
    return cli_command_main(&command, argc, argv, &line);
}
