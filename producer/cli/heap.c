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
#include "common/folder.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/heap_options.h"
#include "producer/cli/heap_summary.h"
#include "producer/cli/profile_run.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/heap_program.h"
#include "producer/service/session/session.h"
#include "producer/sources/heap/heap_host.h"
#include "producer/sources/heap/heap_library.h"

#define PROC_TEXT_MAX         4096
#define LOOK_PERIOD           (250 * NSEC_PER_MSEC)
#define JAVA_OPTIONS_VARIABLE "JAVA_TOOL_OPTIONS"

struct heap_run {
    struct profile_run run;
    struct heap_options options;
    char socket_name[64];
    char library[PATH_MAX];
    struct loop_timer *look_timer; // looks whether the given processes are still there
};

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

static int set_environment(void *userdata)
{
    const struct heap_run *run = userdata;
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

static int find_library(struct heap_run *run, struct err *err)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) < 0)
        return err_errno(err, -errno, "getrandom");
    snprintf(run->socket_name, sizeof(run->socket_name), "%s%d-%016" PRIx64,
             run->options.command ? HEAP_OWN_PREFIX : "@mmtrace-heap-", (int)getpid(), random);
    int r = heap_library_find(run->library, sizeof(run->library));
    if (r == 0)
        return 0;
    err_set(err, r, "libmmheap.so is not there");
    return err_hint(err, r, "install it, or build with -Dheap=enabled");
}

// Returns an error if none of the given processes runs a program.
static int check_processes(const struct heap_options *o, struct err *err)
{
    if (o->pids.n == 0 || o->names.n > 0)
        return 0;
    vec_foreach(&o->pids, pid)
        if (!process_lacks_program("/proc", *pid))
            return 0;
    return err_set(err, -ESRCH, "process %d: %s", (int)o->pids.items[0],
                   process_lacks_program("/proc", o->pids.items[0]));
}

// The recording of given processes ends with the last of these processes. A recording of a single
// process also ends when the process is refused.
static void look_at_processes(void *userdata)
{
    struct heap_run *run = userdata;
    const struct list_pids *pids = &run->options.pids;
    struct session_counts counts;
    session_get_counts(run->run.session, &counts);
    bool is_refused = pids->n == 1 && counts.problem;
    vec_foreach(pids, pid)
        if (!is_refused && !process_lacks_program("/proc", *pid))
            return;
    run->look_timer = loop_remove_timer(run->look_timer);
    session_stop(run->run.session);
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
    return loop_add_timer(run->run.here.loop, nsec_now(CLOCK_BOOTTIME) + LOOK_PERIOD, LOOK_PERIOD,
                          look_at_processes, run, &run->look_timer) < 0
               ? err_set(err, -ENOMEM, "timer")
               : 0;
}

static int record(struct heap_run *heap, struct err *err)
{
    struct profile_run *run = &heap->run;
    const struct heap_options *o = &heap->options;
    struct heap_host_options host = {
        .is_private = o->command != NULL,
        .is_alone = true,
        // Children after fork of the processes PIDS ask at a socket of their own.
        .socket_name = o->names.n > 0 ? heap_host_socket_name() : heap->socket_name,
    };
    int r = find_library(heap, err);
    if (r == 0)
        r = profile_run_open(run, err);
    if (r == 0)
        r = recording_help(&run->here, &host, err);
    if (r == 0)
        r = profile_run_open_session(run, err);
    if (r == 0)
        r = profile_run_start_session(run, err);
    if (r == 0 && o->command)
        r = profile_run_start(run, set_environment, heap, err);
    profile_run_release(run);
    if (r == 0)
        r = watch_processes(heap, err);
    return r == 0 ? profile_run_session(run, err) : r;
}

static void run_done(struct heap_run *heap)
{
    heap->run.session = session_free(heap->run.session);
    heap->look_timer = loop_remove_timer(heap->look_timer);
    profile_run_done(&heap->run);
    heap_options_done(&heap->options);
}

static int profile(struct heap_run *heap, struct err *err)
{
    struct profile_run *run = &heap->run;
    bool quiet = run->quiet = heap->options.quiet;
    run->out_path = heap->options.out_path;
    run->command = heap->options.command;
    run->wants_lines = heap->options.lines;
    run->required_source = "android.heapprofd";
    if (heap_options_config(&heap->options, &run->config, err) < 0)
        return PROGRAM_FAILED;
    if (heap->options.print_config)
        return recording_print_config(&run->config, err);
    if (check_processes(&heap->options, err) < 0 || profile_run_open_output(run, err) < 0)
        return PROGRAM_FAILED;
    if (record(heap, err) < 0) {
        profile_run_tell_part(run, err);
        return PROGRAM_FAILED;
    }
    size_t n_processes;
    if (!quiet && run->command)
        profile_run_tell_end(run);
    char problem[ERR_TEXT_MAX];
    profile_run_problem(run, problem, sizeof(problem));
    run->session = session_free(run->session); // the file is complete
    bool has_lines = profile_run_add_lines(run);
    if (profile_run_pour(run, err) < 0)
        return PROGRAM_FAILED;
    if (heap_summary_print(profile_run_trace(run), quiet ? NULL : stderr, &n_processes, err) < 0) {
        struct err unused = {0}; // the first error counts
        profile_run_publish(run, true, &unused);
        return PROGRAM_FAILED;
    }
    if (profile_run_publish(run, n_processes > 0, err) < 0)
        return PROGRAM_FAILED;
    if (memory_was_refused()) {
        err_errno(err, -ENOMEM, "%s", profile_run_name(run));
        err_hint(err, -ENOMEM, "the file is a readable trace, which may be incomplete");
        return PROGRAM_FAILED;
    }
    if (n_processes > 0 && problem[0])
        err_set(err, -EREMOTEIO, "%s", problem);
    if (n_processes > 0)
        return problem[0] || !has_lines ? PROGRAM_FAILED : PROGRAM_DONE;
    char **command = run->command;
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

// /proc alone shows the running recorders: a recorder holds a pidfd of every process that it
// profiles, and /proc/PID/fdinfo shows the pid of a pidfd. The signal is sent only to a program of
// our name that waits for the signal, because the signal would kill other programs.

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

static bool is_wanted(const struct list_pids *pids, uint64_t pid)
{
    vec_foreach(pids, wanted)
        if (*wanted == pid)
            return true;
    return pids->n == 0;
}

// Returns the first wanted process with a pidfd in `recorder`; 0: none.
static int profiled_by(int recorder, const struct list_pids *pids)
{
    char path[512], text[PROC_TEXT_MAX];
    int found = 0;
    snprintf(path, sizeof(path), "/proc/%d/fdinfo", recorder);
    DIR *dir CLEANUP(closedirp) = opendir(path);
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        snprintf(path, sizeof(path), "/%d/fdinfo/%s", recorder, entry->d_name);
        const char *line = read_text(path, text, sizeof(text)) ? strstr(text, "\nPid:") : NULL;
        long pid = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0;
        if (pid > 0 && is_wanted(pids, (uint64_t)pid))
            found = (int)pid;
    }
    return found;
}

// Requests a dump from all recorders of heap profiles that this user may signal, or only from
// recorders of one of the given processes. Returns an exit code.
static int ask_snapshot(const struct heap_options *o, struct err *err)
{
    DIR *dir CLEANUP(closedirp) = opendir("/proc");
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
    if (n == 0 && !err->text[0])
        err_set(err, -ESRCH, "no heap profile is being recorded%s",
                o->pids.n > 0 ? " of these processes" : "");
    if (n > 0)
        *err = (struct err){0};
    return n > 0 ? PROGRAM_DONE : PROGRAM_FAILED;
}

int cli_heap(int argc, char **argv)
{
    struct heap_run run = {0};
    struct err err = {0};
    int code;
    profile_run_init(&run.run);
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
