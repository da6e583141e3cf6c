// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace heap`: a heap profile with one command. The session runs in this process, because a
// program under test needs a recorder of its own, not the machine's.
//
// The program is started when everything listens, with the library in LD_PRELOAD and the recorder's
// socket in its environment. The socket has a random name in the abstract namespace, so nothing is
// left behind. The program gets its signals itself: Ctrl-C reaches both, and the recorder waits for
// the program's end.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/pbtext.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/end_signal.h"
#include "producer/cli/heap_options.h"
#include "producer/cli/heap_snapshot.h"
#include "producer/cli/heap_summary.h"
#include "producer/cli/readout.h"
#include "producer/foreign/helper.h"
#include "producer/ground/options.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/heap_program.h"
#include "producer/service/roots.h"
#include "producer/service/session/session.h"
#include "producer/sources/heap/heap_host.h"
#include "producer/sources/heap/heap_library.h"
#include "producer/trace/trace_file.h"

#define JAVA_OPTIONS_VARIABLE "JAVA_TOOL_OPTIONS"

struct heap_run {
    struct heap_options options;
    struct config config;
    struct source_roots roots;
    struct log log;
    struct loop *loop;
    struct foreign *foreign;
    struct heap_host *host;
    struct session *session;
    struct loop_io *signal_io;
    int signal_fd;
    struct end_signal end_signal;
    sigset_t former_mask;
    pid_t child; // 0: no program
    int child_status;
    char socket_name[64];
    char library[PATH_MAX];
    int stream_fd; // owned; holds the trace for standard output during the recording; -1: none
    char stream_path[32];
};

static void write_log(void *userdata, enum log_level level, const char *line)
{
    const struct heap_run *run = userdata;
    if (!run->options.quiet || level <= LOG_LEVEL_ERROR)
        fprintf(stderr, CLI_PROGRAM ": %s\n", line);
}

static int print_config(const struct heap_run *run)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    pbtext_print(&run->config.trace->base, &text);
    if (text.size > 0)
        fwrite(text.text, 1, text.size, stdout);
    return fflush(stdout) == 0 && !text.failed ? CLI_DONE : CLI_FAILED;
}

static void session_ended(void *userdata, struct session *session)
{
    (void)session;
    loop_quit(((struct heap_run *)userdata)->loop);
}

static void child_ended(struct heap_run *run)
{
    if (run->child > 0 && waitpid(run->child, &run->child_status, WNOHANG) == run->child) {
        run->child = 0;
        session_stop(run->session);
    }
}

// The first signal ends the recording. A program under test has received the signal, too, and may
// have more to do: then the recording ends with the program, or at the second signal.
static void signal_ready(void *userdata)
{
    struct heap_run *run = userdata;
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            child_ended(run);
        else if (info.ssi_signo == SIGUSR1)
            session_dump(run->session);
        else if (end_signal_repeats(&run->end_signal))
            continue;
        else if (session_get_state(run->session) != SESSION_STARTED)
            session_abort(run->session);
        else
            session_stop(run->session);
    }
}

static int watch_signals(struct heap_run *run, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &run->former_mask);
    signal(SIGPIPE, SIG_IGN);
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signal_fd < 0)
        return err_errno(err, -errno, "signalfd");
    int r = loop_new(&run->loop);
    if (r == 0)
        r = loop_add_io(run->loop, run->signal_fd, EPOLLIN, signal_ready, run, &run->signal_io);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

static int make_host(struct heap_run *run, struct err *err)
{
    const struct heap_options *o = &run->options;
    struct heap_host_options options = {
        .loop = run->loop,
        .log = &run->log,
        .is_private = o->command != NULL,
        .is_alone = true,
    };
    if (o->command)
        options.socket_name = run->socket_name;
    else if (o->names.n > 0)
        options.socket_name = heap_host_socket_name();
    struct foreign_options foreign = {
        .loop = run->loop,
        .log = &run->log,
        .proc = run->roots.proc,
        .program = FOREIGN_OWN_PROGRAM,
    };
    int r = foreign_new(&foreign, &run->foreign);
    options.foreign = run->foreign;
    if (r == 0)
        r = heap_host_new(&options, &run->host);
    run->roots.foreign = run->foreign;
    run->roots.heap_host = run->host;
    return r < 0 ? err_errno(err, r, "heap profiles") : 0;
}

static const char *out_name(const struct heap_run *run)
{
    return run->stream_fd >= 0 ? "<stdout>" : run->options.out_path;
}

// The summary reads the trace again, which standard output does not allow. So a trace for standard
// output is kept in a file without a name until the end.
static int open_stream(struct heap_run *run, struct err *err)
{
    const char *folder = getenv("TMPDIR");
    if (!str_eq(run->options.out_path, "-"))
        return 0;
    if (isatty(STDOUT_FILENO)) {
        err_set(err, -EINVAL, "standard output is a terminal, a trace is binary");
        return err_hint(err, -EINVAL, "redirect it to a file or a pipe");
    }
    folder = folder && *folder ? folder : "/tmp";
    run->stream_fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (run->stream_fd < 0)
        return err_errno(err, -errno, "temporary file in %s", folder);
    snprintf(run->stream_path, sizeof(run->stream_path), "/proc/self/fd/%d", run->stream_fd);
    return 0;
}

static int pour_stream(const struct heap_run *run, struct err *err)
{
    bool write;
    if (run->stream_fd < 0)
        return 0;
    int r = lseek(run->stream_fd, 0, SEEK_SET) < 0 ? -errno : 0;
    if (r == 0)
        r = fd_copy(run->stream_fd, STDOUT_FILENO, &write);
    return r < 0 ? err_errno(err, r, "standard output") : 0;
}

static int open_session(struct heap_run *run, struct err *err)
{
    struct session_env env = {
        .loop = run->loop,
        .clock = &clock_reader_kernel,
        .log = &run->log,
        .roots = &run->roots,
        .classes = source_classes,
        .ignore_triggers = true,
        .required_source = "android.heapprofd",
        .ended = session_ended,
        .userdata = run,
    };
    int r = session_new(&env, &run->config, &run->session, err);
    int fd CLEANUP(close_fdp) = -1;
    if (r == 0 && run->stream_fd >= 0)
        r = (fd = fcntl(run->stream_fd, F_DUPFD_CLOEXEC, 3)) < 0 ? -errno : 0;
    else if (r == 0)
        r = readout_open(run->options.out_path, false, &fd, err);
    if (r < 0)
        return r;
    struct trace_file_options options = {
        .name = out_name(run),
        .path = run->stream_fd >= 0 ? NULL : run->options.out_path,
    };
    struct trace_file *file;
    r = trace_file_new(fd, &options, &file, err);
    if (r == 0) {
        steal_fd(&fd);
        session_set_file(run->session, file);
    }
    return r;
}

// VMs load the agent themselves; each prints a line about this on stderr.
static int set_java_options(void)
{
    char library[PATH_MAX];
    struct strbuf text CLEANUP(strbuf_done) = {0};
    const char *former = getenv(JAVA_OPTIONS_VARIABLE);
    if (java_library_find(library, sizeof(library)) < 0)
        return 0;
    if (former && *former)
        strbuf_addf(&text, "%s ", former);
    strbuf_addf(&text, "-agentpath:%s=trace", library);
    return text.failed || setenv(JAVA_OPTIONS_VARIABLE, text.text, 1) < 0 ? -ENOMEM : 0;
}

static bool wants_java(const struct heap_options *o)
{
    for (size_t i = 0; i < o->heaps.n; i++)
        if (str_eq(o->heaps.items[i], HEAP_JAVA_NAME))
            return true;
    return false;
}

static int set_environment(const struct heap_run *run)
{
    struct strbuf preload CLEANUP(strbuf_done) = {0};
    const char *former = getenv("LD_PRELOAD");
    strbuf_add_str(&preload, run->library);
    if (former && *former)
        strbuf_addf(&preload, ":%s", former);
    if (wants_java(&run->options) && set_java_options() < 0)
        return -ENOMEM;
    return preload.failed || setenv("LD_PRELOAD", preload.text, 1) < 0 ||
                   setenv(HEAP_SOCKET_VARIABLE, run->socket_name, 1) < 0
               ? -ENOMEM
               : 0;
}

static int start_child(struct heap_run *run, struct err *err)
{
    run->child = fork();
    if (run->child < 0)
        return err_errno(err, -errno, "no process can be started");
    if (run->child > 0)
        return 0;
    sigprocmask(SIG_SETMASK, &run->former_mask, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (run->stream_fd >= 0) // standard output is reserved for the trace
        dup2(STDERR_FILENO, STDOUT_FILENO);
    if (set_environment(run) == 0)
        execvp(run->options.command[0], run->options.command);
    fprintf(stderr, CLI_PROGRAM ": %s: %s\n", run->options.command[0], strerror(errno));
    _exit(127);
}

static int find_library(struct heap_run *run, struct err *err)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) < 0)
        return err_errno(err, -errno, "getrandom");
    snprintf(run->socket_name, sizeof(run->socket_name), "@mmtrace-heap-%d-%016" PRIx64,
             (int)getpid(), random);
    int r = heap_library_find(run->library, sizeof(run->library));
    if (r == 0)
        return 0;
    err_set(err, r, "libmmheap.so is not there");
    return err_hint(err, r, "install it, or build with -Dheap=enabled");
}

static int record(struct heap_run *run, struct err *err)
{
    int r = find_library(run, err);
    if (r == 0)
        r = watch_signals(run, err);
    if (r < 0)
        return r;
    source_roots_find(&run->roots);
    r = make_host(run, err);
    if (r == 0)
        r = open_session(run, err);
    if (r == 0)
        r = session_start(run->session, err);
    if (r == 0 && run->options.command)
        r = start_child(run, err);
    if (r == 0 && loop_run(run->loop) < 0)
        r = err_set(err, -EIO, "event loop");
    return r == 0 ? session_result(run->session, err) : r;
}

static void run_done(struct heap_run *run)
{
    run->session = session_free(run->session);
    run->host = heap_host_free(run->host);
    run->foreign = foreign_free(run->foreign);
    if (run->signal_io)
        run->signal_io = loop_remove_io(run->signal_io);
    run->loop = loop_free(run->loop);
    run->signal_fd = close_fd(run->signal_fd);
    run->stream_fd = close_fd(run->stream_fd);
    config_done(&run->config);
    heap_options_done(&run->options);
}

static void tell_end(const struct heap_run *run)
{
    int status = run->child_status;
    if (run->child > 0)
        fprintf(stderr, CLI_PROGRAM ": %s goes on without profile\n", run->options.command[0]);
    else if (WIFSIGNALED(status))
        fprintf(stderr, CLI_PROGRAM ": %s was ended by signal %d\n", run->options.command[0],
                WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        fprintf(stderr, CLI_PROGRAM ": %s ended with exit code %d\n", run->options.command[0],
                WEXITSTATUS(status));
}

// Keeps the text of what a data source could not do; "": nothing.
static void keep_problem(const struct heap_run *run, char *ret, size_t size)
{
    struct session_counts counts;
    session_get_counts(run->session, &counts);
    snprintf(ret, size, "%s", counts.problem ? counts.problem : "");
}

static int profile(struct heap_run *run, struct err *err)
{
    if (heap_options_config(&run->options, &run->config, err) < 0)
        return CLI_FAILED;
    if (run->options.print_config)
        return print_config(run);
    if (open_stream(run, err) < 0 || record(run, err) < 0)
        return CLI_FAILED;
    bool quiet = run->options.quiet;
    size_t n_processes;
    if (!quiet && run->options.command)
        tell_end(run);
    char problem[ERR_TEXT_MAX];
    keep_problem(run, problem, sizeof(problem));
    run->session = session_free(run->session); // the file is complete
    if (pour_stream(run, err) < 0)
        return CLI_FAILED;
    if (!quiet)
        fprintf(stderr, CLI_PROGRAM ": %s\n", out_name(run));
    const char *trace = run->stream_fd >= 0 ? run->stream_path : run->options.out_path;
    if (heap_summary_print(trace, quiet ? NULL : stderr, &n_processes, err) < 0)
        return CLI_FAILED;
    if (memory_was_refused()) {
        err_errno(err, -ENOMEM, "%s", out_name(run));
        err_hint(err, -ENOMEM, "the file is a readable trace, which may be incomplete");
        return CLI_FAILED;
    }
    if (n_processes > 0 && problem[0])
        err_set(err, -EREMOTEIO, "%s", problem);
    if (n_processes > 0)
        return problem[0] ? CLI_FAILED : CLI_DONE;
    char **command = run->options.command;
    const char *obstacle = command ? heap_command_obstacle(command[0]) : NULL;
    if (obstacle)
        err_set(err, -ESRCH, "%s was not profiled: %s", command[0], obstacle);
    else
        err_set(err, -ESRCH, "no process was profiled");
    if (command && !obstacle)
        err_hint(
            err, -ESRCH,
            "static programs, and programs with another C library than glibc, cannot be profiled");
    return CLI_FAILED;
}

static void tell_asked(int recorder, int profiled)
{
    fprintf(stderr, CLI_PROGRAM ": process %d dumps the profile of process %d\n", recorder,
            profiled);
}

static void tell_nobody(int recorder, int profiled)
{
    (void)recorder;
    (void)profiled;
}

static int ask_snapshot(const struct heap_options *o, struct err *err)
{
    size_t n;
    if (heap_snapshot_ask(&o->pids, o->quiet ? tell_nobody : tell_asked, &n, err) < 0)
        return CLI_FAILED;
    if (n == 0)
        err_set(err, -ESRCH, "no heap profile is being recorded%s",
                o->pids.n > 0 ? " of these processes" : "");
    return n > 0 ? CLI_DONE : CLI_FAILED;
}

int cli_heap(int argc, char **argv)
{
    struct heap_run run = {.signal_fd = -1, .stream_fd = -1};
    struct err err = {0};
    int code;
    run.log = (struct log){.max_level = LOG_LEVEL_INFO, .write = write_log, .userdata = &run};
    int r = heap_options_parse(argc, argv, &run.options, &err);
    if (r < 0) {
        code = cli_options_wrong(CLI_PROGRAM, "heap", r, &err);
    } else if (run.options.help) {
        heap_options_print_help();
        code = CLI_DONE;
    } else {
        code = run.options.snapshot ? ask_snapshot(&run.options, &err) : profile(&run, &err);
        if (err.text[0])
            err_print(&err, CLI_PROGRAM);
    }
    run_done(&run);
    return code;
}
