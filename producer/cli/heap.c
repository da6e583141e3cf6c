// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace heap`: a heap profile with one command. The session runs in this process, because a
// program under test needs its own recorder, not the machine's.
//
// The program is started when the recorder listens, with the library in LD_PRELOAD and the
// recorder's socket in its environment. The socket has a random name in the abstract namespace, so
// that nothing is left behind. Ctrl-C reaches both the program and the recorder.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/heap_options.h"
#include "producer/cli/heap_summary.h"
#include "producer/cli/readout.h"
#include "producer/cli/recording.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/heap_program.h"
#include "producer/service/roots.h"
#include "producer/service/session/session.h"
#include "producer/sources/heap/heap_host.h"
#include "producer/sources/heap/heap_library.h"
#include "producer/trace/trace_file.h"

#define PROC_TEXT_MAX         4096
#define LOOK_PERIOD           (250 * NSEC_PER_MSEC)
#define JAVA_OPTIONS_VARIABLE "JAVA_TOOL_OPTIONS"

struct heap_run {
    struct heap_options options;
    struct config config;
    struct log log;
    struct recording here;
    struct session *session;
    pid_t child; // 0: no program
    int child_status;
    char socket_name[64];
    char library[PATH_MAX];
    int stream_fd; // owned; has the trace for standard output during the recording; -1: none
    char stream_path[32];
    char part_path[PATH_MAX]; // has the trace while the output has an older one; "": not needed
    struct loop_timer *look_timer; // looks whether the given processes are still there
};

static void write_log(void *userdata, enum log_level level, const char *line)
{
    const struct heap_run *run = userdata;
    if (!run->options.quiet || level <= LOG_LEVEL_ERROR)
        fprintf(stderr, CLI_PROGRAM ": %s\n", line);
}

static void session_ended(void *userdata, struct session *session)
{
    (void)session;
    loop_quit(((struct heap_run *)userdata)->here.loop);
}

static void child_ended(struct heap_run *run)
{
    if (run->child > 0 && waitpid(run->child, &run->child_status, WNOHANG) == run->child) {
        run->child = 0;
        session_stop(run->session);
    }
}

// The first signal ends the recording. The second signal ends it at once: data that are not written
// yet are lost. The program under test may continue.
static void signal_ready(void *userdata)
{
    struct heap_run *run = userdata;
    for (int number; (number = signals_take(&run->here.signals));) {
        if (number == SIGCHLD)
            child_ended(run);
        else if (number == SIGUSR1)
            session_dump(run->session);
        else if (session_get_state(run->session) != SESSION_STARTED)
            session_abort(run->session);
        else
            session_stop(run->session);
    }
}

static const char *out_name(const struct heap_run *run)
{
    return run->stream_fd >= 0 ? "<stdout>" : run->options.out_path;
}

// The summary reads the trace again, which is not possible on standard output. Therefore a trace
// for standard output is kept in a file without a name until the end.
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

// An older profile stays until the new one has something in it.
static int keep_older(struct heap_run *run, struct err *err)
{
    struct stat st;
    const char *path = run->options.out_path;
    if (run->stream_fd >= 0 || lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return 0;
    int n = snprintf(run->part_path, sizeof(run->part_path), "%s.part", path);
    if (n < 0 || (size_t)n >= sizeof(run->part_path))
        return err_errno(err, -ENAMETOOLONG, "%s", path);
    return 0;
}

// Returns the path of the trace; NULL: it has none.
static const char *trace_path(const struct heap_run *run)
{
    if (run->stream_fd >= 0)
        return NULL;
    return run->part_path[0] ? run->part_path : run->options.out_path;
}

static int publish(const struct heap_run *run, bool has_profile, struct err *err)
{
    bool replaces = run->part_path[0] != 0;
    if (replaces && has_profile && rename(run->part_path, run->options.out_path) < 0) {
        int r = err_errno(err, -errno, "%s", run->options.out_path);
        return err_hint(err, r, "the profile is in %s", run->part_path);
    }
    if (replaces && !has_profile)
        unlink(run->part_path);
    if (!run->options.quiet)
        fprintf(stderr, CLI_PROGRAM ": %s%s\n", out_name(run),
                replaces && !has_profile ? " stays as it was" : "");
    return 0;
}

// The recording failed: says where its trace is, if there is one.
static void tell_part(const struct heap_run *run, struct err *err)
{
    struct stat st;
    if (!run->part_path[0] || lstat(run->part_path, &st) < 0)
        return;
    if (st.st_size == 0)
        unlink(run->part_path);
    else
        err_hint(err, -EIO, "%s stays as it was; what was recorded is in %s", run->options.out_path,
                 run->part_path);
}

static int open_session(struct heap_run *run, struct err *err)
{
    struct session_env env = {
        .loop = run->here.loop,
        .clock = &clock_reader_kernel,
        .log = &run->log,
        .roots = &run->here.roots,
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
        r = readout_open(trace_path(run), false, &fd, err);
    if (r < 0)
        return r;
    struct trace_file_options options = {
        .name = out_name(run),
        .path = trace_path(run),
    };
    struct trace_file *file;
    r = trace_file_new(fd, &options, &file, err);
    if (r == 0) {
        steal_fd(&fd);
        session_set_file(run->session, file);
    }
    return r;
}

// Adds the agent to the options of Java VMs. Each VM loads the agent itself, and prints a line
// about it on stderr.
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
    signals_give_back(&run->here.signals);
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

// Returns why nothing of the process can be profiled, or NULL.
static const char *no_program(uint64_t pid)
{
    char text[16];
    struct process_life life;
    if (pid > INT32_MAX || !process_life_read("/proc", (pid_t)pid, &life) || life.ended)
        return "there is no such process";
    if (!span_size(text_file_span(text, sizeof(text), "/proc", "/%d/cmdline", (int)pid)))
        return "it has no command line, as a thread of the kernel";
    return NULL;
}

// Refuses to wait for processes none of which runs a program.
static int check_processes(const struct heap_options *o, struct err *err)
{
    if (o->pids.n == 0 || o->names.n > 0)
        return 0;
    vec_foreach(&o->pids, pid)
        if (!no_program(*pid))
            return 0;
    return err_set(err, -ESRCH, "process %d: %s", (int)o->pids.items[0],
                   no_program(o->pids.items[0]));
}

// The recording of given processes ends with the last of these, or when the only one is refused.
static void look_at_processes(void *userdata)
{
    struct heap_run *run = userdata;
    const struct heap_pid_vec *pids = &run->options.pids;
    struct session_counts counts;
    session_get_counts(run->session, &counts);
    bool is_refused = pids->n == 1 && counts.problem;
    vec_foreach(pids, pid)
        if (!is_refused && !no_program(*pid))
            return;
    run->look_timer = loop_remove_timer(run->look_timer);
    session_stop(run->session);
}

static int watch_processes(struct heap_run *run, struct err *err)
{
    const struct heap_options *o = &run->options;
    if (!o->quiet && o->names.n > 0) {
        fprintf(stderr, CLI_PROGRAM ": waits for programs, also for those that run already:");
        vec_foreach(&o->names, name)
            fprintf(stderr, " %s", *name);
        fprintf(stderr, "; Ctrl-C ends the recording\n");
    }
    if (o->pids.n == 0 || o->names.n > 0)
        return 0;
    return loop_add_timer(run->here.loop, nsec_now(CLOCK_BOOTTIME) + LOOK_PERIOD, LOOK_PERIOD,
                          look_at_processes, run, &run->look_timer) < 0
               ? err_set(err, -ENOMEM, "timer")
               : 0;
}

static int record(struct heap_run *run, struct err *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, 0}, others[] = {SIGCHLD, SIGUSR1, 0};
    const struct heap_options *o = &run->options;
    struct heap_host_options host = {
        .is_private = o->command != NULL,
        .is_alone = true,
        .socket_name = o->command       ? run->socket_name
                       : o->names.n > 0 ? heap_host_socket_name()
                                        : NULL,
    };
    int r = check_processes(o, err);
    if (r == 0)
        r = keep_older(run, err);
    if (r == 0)
        r = find_library(run, err);
    if (r == 0)
        r = signals_watch(&run->here.signals, ends, others, err);
    if (r == 0)
        r = recording_open(&run->here, signal_ready, run, err);
    if (r < 0)
        return r;
    source_roots_find(&run->here.roots);
    r = recording_help(&run->here, &host, err);
    if (r == 0)
        r = open_session(run, err);
    if (r == 0)
        r = session_start(run->session, err);
    if (r == 0 && o->command)
        r = start_child(run, err);
    if (r == 0)
        r = watch_processes(run, err);
    if (r == 0 && loop_run(run->here.loop) < 0)
        r = err_set(err, -EIO, "event loop");
    return r == 0 ? session_result(run->session, err) : r;
}

static void run_done(struct heap_run *run)
{
    run->session = session_free(run->session);
    run->look_timer = loop_remove_timer(run->look_timer);
    recording_done(&run->here);
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

// Copies the text about a failed data source, or "".
static void keep_problem(const struct heap_run *run, char *ret, size_t size)
{
    struct session_counts counts;
    session_get_counts(run->session, &counts);
    snprintf(ret, size, "%s", counts.problem ? counts.problem : "");
}

static int profile(struct heap_run *run, struct err *err)
{
    if (heap_options_config(&run->options, &run->config, err) < 0)
        return PROGRAM_FAILED;
    if (run->options.print_config)
        return recording_print_config(&run->config, err);
    if (open_stream(run, err) < 0)
        return PROGRAM_FAILED;
    if (record(run, err) < 0) {
        tell_part(run, err);
        return PROGRAM_FAILED;
    }
    bool quiet = run->options.quiet;
    size_t n_processes;
    if (!quiet && run->options.command)
        tell_end(run);
    char problem[ERR_TEXT_MAX];
    keep_problem(run, problem, sizeof(problem));
    run->session = session_free(run->session); // the file is complete
    if (pour_stream(run, err) < 0)
        return PROGRAM_FAILED;
    const char *trace = run->stream_fd >= 0 ? run->stream_path : trace_path(run);
    if (heap_summary_print(trace, quiet ? NULL : stderr, &n_processes, err) < 0) {
        struct err unused = {0}; // the first error counts
        publish(run, true, &unused);
        return PROGRAM_FAILED;
    }
    if (publish(run, n_processes > 0, err) < 0)
        return PROGRAM_FAILED;
    if (memory_was_refused()) {
        err_errno(err, -ENOMEM, "%s", out_name(run));
        err_hint(err, -ENOMEM, "the file is a readable trace, which may be incomplete");
        return PROGRAM_FAILED;
    }
    if (n_processes > 0 && problem[0])
        err_set(err, -EREMOTEIO, "%s", problem);
    if (n_processes > 0)
        return problem[0] ? PROGRAM_FAILED : PROGRAM_DONE;
    char **command = run->options.command;
    const char *obstacle = command ? heap_command_obstacle(command[0]) : NULL;
    if (obstacle)
        err_set(err, -ESRCH, "%s was not profiled: %s", command[0], obstacle);
    else if (quiet && problem[0]) // otherwise the log has said so
        err_set(err, -ESRCH, "%s", problem);
    else
        err_set(err, -ESRCH, "no process was profiled");
    if (command && !obstacle)
        err_hint(
            err, -ESRCH,
            "static programs, and programs with another C library than glibc, cannot be profiled");
    return PROGRAM_FAILED;
}

// Finds running recorders without any file. A recorder holds a pidfd of every process that it
// profiles, and /proc/PID/fdinfo shows the pid of a pidfd. The signal is sent only to a program of
// our name that waits for the signal, because the signal would kill others.

static bool read_text(const char *path, char *ret, size_t size)
{
    ssize_t n = text_file_read_once(ret, size - 1, "/proc", "%s", path);
    ret[n > 0 ? n : 0] = 0;
    return n > 0;
}

static bool waits_for_signal(int pid)
{
    char path[64], text[PROC_TEXT_MAX], own[64], name[64];
    snprintf(path, sizeof(path), "/%d/comm", pid);
    if (!read_text(path, name, sizeof(name)) || !read_text("/self/comm", own, sizeof(own)) ||
        !str_eq(name, own))
        return false;
    snprintf(path, sizeof(path), "/%d/status", pid);
    const char *line = read_text(path, text, sizeof(text)) ? strstr(text, "\nSigBlk:") : NULL;
    return line && (strtoull(line + strlen("\nSigBlk:"), NULL, 16) >> (SIGUSR1 - 1) & 1);
}

static bool is_wanted(const struct heap_pid_vec *pids, uint64_t pid)
{
    vec_foreach(pids, wanted)
        if (*wanted == pid)
            return true;
    return pids->n == 0;
}

// Returns the first wanted process with a pidfd in `recorder`; 0: none.
static int profiled_by(int recorder, const struct heap_pid_vec *pids)
{
    char path[512], text[PROC_TEXT_MAX];
    int found = 0;
    snprintf(path, sizeof(path), "/proc/%d/fdinfo", recorder);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        snprintf(path, sizeof(path), "/%d/fdinfo/%s", recorder, entry->d_name);
        const char *line = read_text(path, text, sizeof(text)) ? strstr(text, "\nPid:") : NULL;
        long pid = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0;
        if (pid > 0 && is_wanted(pids, (uint64_t)pid))
            found = (int)pid;
    }
    if (dir)
        closedir(dir);
    return found;
}

// Requests a dump from all recorders of heap profiles that this user may signal, or only from
// recorders of one of the given processes. Returns an exit code.
static int ask_snapshot(const struct heap_options *o, struct err *err)
{
    DIR *dir = opendir("/proc");
    size_t n = 0;
    if (!dir)
        return err_errno(err, -errno, "/proc");
    for (const struct dirent *entry; (entry = readdir(dir));) {
        int pid = atoi(entry->d_name);
        int profiled =
            pid > 0 && pid != getpid() && waits_for_signal(pid) ? profiled_by(pid, &o->pids) : 0;
        if (profiled && kill(pid, SIGUSR1) < 0)
            err_errno(err, -errno, "recorder %d", pid);
        else if (profiled && ++n && !o->quiet)
            fprintf(stderr, CLI_PROGRAM ": process %d dumps the profile of process %d\n", pid,
                    profiled);
    }
    closedir(dir);
    if (n == 0 && !err->text[0])
        err_set(err, -ESRCH, "no heap profile is being recorded%s",
                o->pids.n > 0 ? " of these processes" : "");
    if (n > 0)
        *err = (struct err){0};
    return n > 0 ? PROGRAM_DONE : PROGRAM_FAILED;
}

int cli_heap(int argc, char **argv)
{
    struct heap_run run = {.here = {.log = &run.log, .signals.fd = -1}, .stream_fd = -1};
    struct err err = {0};
    int code;
    run.log = (struct log){.max_level = LOG_LEVEL_INFO, .write = write_log, .userdata = &run};
    int r = heap_options_parse(argc, argv, &run.options, &err);
    if (r != 0) {
        code = cli_command_wrong(&heap_command, r, &err);
    } else {
        code = run.options.snapshot ? ask_snapshot(&run.options, &err) : profile(&run, &err);
        if (err.text[0])
            err_print(&err, CLI_PROGRAM);
    }
    run_done(&run);
    return code;
}
