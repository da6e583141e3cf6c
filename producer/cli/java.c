// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace java`: what jcmd PID JVMTI.agent_load does, without a JDK on the machine, and the way to
// end it.
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/nsec.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/ground/options.h"
#include "producer/heap/agent_options.h"
#include "producer/heap/vm_attach.h"
#include "producer/heap/vm_process.h"
#include "producer/sources/heap/heap_library.h"

enum {
    OPTION_OUT = 1,
    OPTION_BYTES,
    OPTION_RATE,
    OPTION_DEPTH,
    OPTION_TIME,
    OPTION_LIVE,
    OPTION_LINES,
    OPTION_PERF_MAP,
    OPTION_STOP,
    OPTION_QUIET,
    OPTION_HELP,
};

static const struct cli_option options[] = {
    {OPTION_BYTES, 'b', "bytes", "BYTES",
     "take one sample for BYTES allocated bytes, on average;\ndefault 512k"},
    {OPTION_RATE, 'r', "rate", "N",
     "instead: take every N-th allocation of a thread; this\nslows the program down"},
    {OPTION_DEPTH, 0, "depth", "N",
     "keep the N innermost methods of a stack; default 50,\nat most 512"},
    {OPTION_TIME, 't', "time", "TIME",
     "stop after TIME, as in 500ms, 10s, 2m or 1h; default:\nat the program's end or --stop"},
    {OPTION_LIVE, 0, "live", NULL,
     "at the end, collect garbage and write the samples that\nare still in use to FILE.live"},
    {OPTION_LINES, 0, "lines", NULL, "write methods with source file and line"},
    {OPTION_PERF_MAP, 0, "perfmap", NULL,
     "also write /tmp/perf-PID.map, the names of the\nprogram's compiled code"},
    {OPTION_OUT, 'o', "out", "FILE", "the log; default /tmp/tiallocsample.PID.log"},
    {OPTION_STOP, 0, "stop", NULL, "end the sampling that an earlier call began"},
    {OPTION_QUIET, 'q', "quiet", NULL, "say nothing but errors"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct java_options {
    pid_t pid;
    const char *out, *bytes, *rate, *depth; // borrowed; NULL: the default
    nsec_t duration;                        // 0: no end
    bool live, lines, perf_map, stop, quiet, help;
};

static int take_time(const char *text, nsec_t *ret, struct err *err)
{
    if (str_parse_duration(text, ret) == 0 && *ret > 0)
        return 0;
    err_set(err, -EINVAL, "--time %s: not a time", text);
    return err_hint(err, -EINVAL, "like 500ms, 0.5s, 10s, 2m or 1h");
}

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct java_options *o = userdata;
    char *end;
    switch (id) {
    case OPTION_OUT:
        o->out = value;
        if (str_eq(value, "-"))
            return err_set(err, -EINVAL,
                           "-o -: the VM itself writes the log, so it cannot go to standard "
                           "output: name a file");
        return strchr(value, ',') ? err_set(err, -EINVAL, "-o %s: a comma ends the name", value)
                                  : 0;
    case OPTION_BYTES:
        o->bytes = value;
        return 0;
    case OPTION_RATE:
        o->rate = value;
        return 0;
    case OPTION_DEPTH:
        o->depth = value;
        return 0;
    case OPTION_TIME:
        return take_time(value, &o->duration, err);
    case OPTION_LIVE:
        return o->live = true, 0;
    case OPTION_LINES:
        return o->lines = true, 0;
    case OPTION_PERF_MAP:
        return o->perf_map = true, 0;
    case OPTION_STOP:
        return o->stop = true, 0;
    case OPTION_QUIET:
        return o->quiet = true, 0;
    case OPTION_HELP:
        return o->help = true, 0;
    default:
        break;
    }
    long pid = strtol(value, &end, 10);
    if (o->pid || pid <= 0 || pid > INT_MAX || *end)
        return err_set(err, -EINVAL, o->pid ? "%s: one process at a time" : "%s: no process id",
                       value);
    o->pid = (pid_t)pid;
    return 0;
}

static void print_help(void)
{
    printf("usage: mmtrace java PID [OPTION...]\n"
           "\n"
           "Samples the allocations of a running Java program into a log that 'mmsql\n"
           "convert' reads. mmtrace loads libtiallocsample.so into the VM, as jcmd does. To\n"
           "sample a program from its start, let the VM load the library: java\n"
           "-agentpath:.../libtiallocsample.so=...\n"
           "\n");
    cli_options_print(options, stdout);
    printf("\n"
           "Exit code: 0 done, 1 failed, 2 wrong usage.\n"
           "\n"
           "Examples:\n"
           "  mmtrace java 1234 -t 30s -o /tmp/shop.log\n"
           "  mmsql convert /tmp/shop.log -o shop.db\n");
}

static int library_find(char *ret, size_t size, struct err *err)
{
    if (java_library_find(ret, size) == 0)
        return 0;
    err_set(err, -ENOENT, AGENT_LIBRARY_FILE " is not there");
    return err_hint(err, -ENOENT, "build it where a JDK is installed: -Djava=enabled");
}

// Makes the log's path as the VM sees it: with the VM's own pid, and from the VM's root.
static int out_path(const struct java_options *o, char *ret, size_t size, bool *ret_is_elsewhere,
                    struct err *err)
{
    char cwd[PATH_MAX], folder[PATH_MAX];
    struct vm_process vm;
    int n, r = vm_process_open(o->pid, &vm, err);
    if (r < 0)
        return r;
    if (!o->out)
        n = snprintf(ret, size, "/tmp/tiallocsample.%d.log", (int)vm.own_pid);
    else if (o->out[0] == '/')
        n = snprintf(ret, size, "%s", o->out);
    else
        n = snprintf(ret, size, "%s/%s", getcwd(cwd, sizeof(cwd)) ? cwd : "", o->out);
    const char *slash = n < (int)size ? strrchr(ret, '/') : ret;
    snprintf(folder, sizeof(folder), "%.*s/.", (int)(slash - ret), ret);
    *ret_is_elsewhere = !vm_process_sees(&vm, folder);
    vm_process_close(&vm);
    if (n >= (int)size)
        return err_errno(err, -ENAMETOOLONG, "%s", o->out);
    // The comma may be in the name of the current folder.
    return strchr(ret, ',') ? err_set(err, -EINVAL, "%s: a comma ends the name", ret) : 0;
}

static int agent_load(const struct java_options *o, const char *out, const sigset_t *waiting,
                      struct err *err)
{
    char library[PATH_MAX], text[PATH_MAX + 256], bytes[64] = "";
    int r = library_find(library, sizeof(library), err);
    if (r < 0)
        return r;
    if (!o->rate)
        snprintf(bytes, sizeof(bytes), ",bytes=%.32s", o->bytes ? o->bytes : "512k");
    snprintf(text, sizeof(text), "%.32s,%.32s,%s%s%s%s%s", o->rate ? o->rate : "",
             o->depth ? o->depth : "", out, bytes, o->live ? ",live" : "", o->lines ? ",lines" : "",
             o->perf_map ? ",perfmap" : "");
    return vm_attach_load(o->pid, library, text, waiting, err);
}

static int agent_stop(const struct java_options *o, const sigset_t *waiting, struct err *err)
{
    char library[PATH_MAX];
    int r = library_find(library, sizeof(library), err);
    return r < 0 ? r : vm_attach_load(o->pid, library, "stop", waiting, err);
}

static void pass(int number)
{
    (void)number;
}

// From here on signals end the program only during its waits, so that it leaves nothing behind.
static void signals_keep(sigset_t *ret_waiting)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ELEMENTS(numbers); i++) {
        sigaddset(&set, numbers[i]);
        sigaction(numbers[i], &(struct sigaction){.sa_handler = pass}, NULL);
    }
    sigprocmask(SIG_BLOCK, &set, ret_waiting);
}

// Waits until the time is over or a signal ends it. Returns true if the VM ended: then another
// process may have its pid.
static bool wait_for_end(int pidfd, nsec_t duration, const sigset_t *waiting)
{
    struct pollfd vm = {.fd = pidfd, .events = POLLIN}; // without a pidfd, poll() ignores it
    struct timespec time = {
        .tv_sec = (time_t)(duration / NSEC_PER_SEC),
        .tv_nsec = (long)(duration % NSEC_PER_SEC),
    };
    return ppoll(&vm, 1, &time, waiting) > 0;
}

static void tell_begin(const struct java_options *o, const char *out, bool is_elsewhere)
{
    char elsewhere[64] = "";
    if (is_elsewhere)
        snprintf(elsewhere, sizeof(elsewhere), " below /proc/%d/root", (int)o->pid);
    fprintf(stderr, CLI_PROGRAM ": %d: samples go to %s%s%s\n", (int)o->pid, out, elsewhere,
            o->duration ? "" : "; mmtrace java --stop ends that");
}

static int run(const struct java_options *o, struct err *err)
{
    char out[PATH_MAX];
    bool is_elsewhere;
    sigset_t waiting;
    signals_keep(&waiting);
    if (o->stop)
        return agent_stop(o, &waiting, err);
    int pidfd CLEANUP(close_fdp) = (int)syscall(SYS_pidfd_open, o->pid, 0);
    int r = out_path(o, out, sizeof(out), &is_elsewhere, err);
    if (r == 0)
        r = agent_load(o, out, &waiting, err);
    if (r < 0)
        return r;
    if (!o->quiet)
        tell_begin(o, out, is_elsewhere);
    if (!o->duration)
        return 0;
    if (wait_for_end(pidfd, o->duration, &waiting)) {
        fprintf(stderr, CLI_PROGRAM ": %d: has ended before its time was over\n", (int)o->pid);
        return 0;
    }
    return agent_stop(o, &waiting, err);
}

int cli_java(int argc, char **argv)
{
    struct java_options o = {0};
    struct err err = {0};
    int r = cli_options_parse(options, argc, argv, take, &o, &err);
    if (r == 0 && !o.help && !o.pid)
        r = err_set(&err, -EINVAL, "no process named");
    if (r == 0 && o.rate && o.bytes)
        r = err_set(&err, -EINVAL, "either --rate or --bytes");
    if (r < 0) {
        err_hint(&err, r, "see mmtrace java --help");
        return cli_options_wrong(CLI_PROGRAM, "java", r, &err);
    }
    if (o.help) {
        print_help();
        return CLI_DONE;
    }
    if (run(&o, &err) < 0) {
        err_print(&err, CLI_PROGRAM);
        return CLI_FAILED;
    }
    return CLI_DONE;
}
