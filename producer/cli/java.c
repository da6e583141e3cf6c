// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace java`: loads the agent into a VM, as jcmd PID JVMTI.agent_load, but without a JDK on the
// machine; also stops the agent.
//
// The VM's user may have mounts in which a look-up never answers. Therefore a child does all that
// looks into the VM's folders, and is killed when it is late or the command is to end.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

#define LOAD_MS  75000 // longer than a slow VM takes
#define GRACE_MS 2000  // after a signal the child removes what it has made

struct java_options {
    int32_t pid;
    const char *out, *bytes, *rate, *depth; // borrowed; NULL: the default
    nsec_t duration;                        // 0: no end
    bool live, lines, perf_map, stop, quiet;
};

static int take_out(void *userdata, const struct cli_option *option, const char *value,
                    struct err *err)
{
    (void)option;
    ((struct java_options *)userdata)->out = value;
    if (str_eq(value, "-"))
        return err_set(err, -EINVAL,
                       "-o -: the VM itself writes the log, so it cannot go to standard "
                       "output: name a file");
    return strchr(value, ',')
               ? err_set(err, -EINVAL, "-o %s: the VM would end the name at the comma", value)
               : 0;
}

#define SETS(member) CLI_SETS(struct java_options, member)

static const struct cli_option options[] = {
    {'b', "bytes", "BYTES", "take one sample for BYTES allocated bytes, on average; default 512k",
     SETS(bytes)},
    {'r', "rate", "N",
     "instead: take every N-th allocation of a thread; this slows the program down", SETS(rate)},
    {0, "depth", "N", "keep the N innermost methods of a stack; default 50, at most 512",
     SETS(depth)},
    {'t', "time", "TIME",
     "stop after TIME, as in 500ms, 10s, 2m or 1h; default: at the program's end or --stop",
     SETS(duration), .min = 1},
    {0, "live", NULL,
     "at the end, collect garbage and write the samples that are still in use to FILE.live",
     SETS(live)},
    {0, "lines", NULL, "write methods with source file and line", SETS(lines)},
    {0, "perfmap", NULL, "also write /tmp/perf-PID.map, the names of the program's compiled code",
     SETS(perf_map)},
    {'o', "out", "FILE", "the log; default /tmp/tiallocsample.PID.log", .take = take_out},
    {0, "stop", NULL, "end the sampling that an earlier call began", SETS(stop)},
    {'q', "quiet", NULL, "say nothing but errors", SETS(quiet)},
    {0},
};

static int take_pid(void *userdata, const struct cli_option *option, const char *value,
                    struct err *err)
{
    struct java_options *o = userdata;
    uint32_t pid;
    (void)option;
    if (o->pid)
        return err_set(err, -EINVAL, "%s: one process at a time", value);
    if (str_parse_u32(value, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return err_set(err, -EINVAL, "%s: no process id", value);
    o->pid = (int32_t)pid;
    return 0;
}

static int check(void *userdata, struct err *err)
{
    const struct java_options *o = userdata;
    const struct cli_rule rules[] = {
        {!o->pid, "no process named"},
        {o->rate && o->bytes, "either --rate or --bytes"},
        {0},
    };
    return cli_check(rules, err);
}

static int library_find(char *ret, size_t size, struct err *err)
{
    if (java_library_find(ret, size) == 0)
        return 0;
    err_set(err, -ENOENT, AGENT_LIBRARY_FILE " is not there");
    return err_hint(err, -ENOENT, "build it where a JDK is installed: -Djava=enabled");
}

// A child's result, in memory that it shares with its parent.
struct outcome {
    int result;
    bool is_elsewhere; // the log is not below this process's root
    char out[PATH_MAX];
    struct err err;
};

// Makes the log's path as the VM sees the path: with the VM's own pid, and from the VM's root.
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
    bool is_elsewhere = !vm_process_sees(&vm, folder);
    vm_process_close(&vm);
    if (n >= (int)size)
        return err_errno(err, -ENAMETOOLONG, "%s", o->out);
    // The comma may be in the name of the working directory.
    if (strchr(ret, ','))
        return err_set(err, -EINVAL, "%s: the VM would end the name at the comma", ret);
    *ret_is_elsewhere = is_elsewhere;
    return 0;
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

static void begin(const struct java_options *o, const sigset_t *waiting, struct outcome *ret)
{
    int r = out_path(o, ret->out, sizeof(ret->out), &ret->is_elsewhere, &ret->err);
    if (r == 0)
        r = agent_load(o, ret->out, waiting, &ret->err);
    ret->result = r; // last: a child that is killed has no result
}

static void stop(const struct java_options *o, const sigset_t *waiting, struct outcome *ret)
{
    ret->result = agent_stop(o, waiting, &ret->err);
}

// Waits until the child has ended, for at most `ms`. Returns false if the child still runs.
static bool child_ends(int pipe_fd, int ms, const sigset_t *waiting)
{
    struct pollfd end = {.fd = pipe_fd, .events = POLLIN};
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return ppoll(&end, 1, &time, waiting) > 0;
}

// Runs `work` in a child. A child that hangs in the kernel may outlive this process.
static int in_child(const struct java_options *o, const sigset_t *waiting,
                    void (*work)(const struct java_options *, const sigset_t *, struct outcome *),
                    struct outcome *ret, struct err *err)
{
    static const int ends[] = {SIGTERM, SIGKILL};
    int pipe_fds[2];
    struct outcome *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "%d", (int)o->pid);
    shared->result = -ETIMEDOUT;
    pid_t child = fork();
    if (child == 0) {
        // A child that hangs must not keep the pipes of this command open.
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            dup2(nowhere, fd);
        work(o, waiting, shared);
        _exit(0);
    }
    int r = child < 0 ? -errno : 0;
    close(pipe_fds[1]);
    if (child > 0) {
        bool has_ended = child_ends(pipe_fds[0], LOAD_MS, waiting);
        for (size_t i = 0; i < ELEMENTS(ends) && !has_ended; i++) {
            kill(child, ends[i]);
            has_ended = child_ends(pipe_fds[0], GRACE_MS, NULL);
        }
        waitpid(child, NULL, WNOHANG);
    }
    close(pipe_fds[0]);
    *ret = *shared;
    munmap(shared, sizeof(*shared));
    if (r < 0)
        return err_errno(err, r, "%d: a process that looks at its files", (int)o->pid);
    if (ret->result < 0 && !ret->err.text[0])
        return err_set(err, ret->result, "%d: a look-up or read of its files took too long",
                       (int)o->pid);
    *err = ret->err;
    return ret->result;
}

static void pass(int number)
{
    (void)number;
}

// From here on, signals end the program only during its waits, so that the program leaves nothing
// behind.
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

// Waits until `duration` is over or a signal comes. Returns true if the VM ended: another process
// may have its pid then.
static bool wait_for_end(int pidfd, nsec_t duration, const sigset_t *waiting)
{
    struct pollfd vm = {.fd = pidfd, .events = POLLIN}; // without a pidfd, poll() ignores the entry
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

static int run(void *userdata, struct err *err)
{
    const struct java_options *o = userdata;
    struct outcome outcome;
    sigset_t waiting;
    signals_keep(&waiting);
    if (o->stop)
        return in_child(o, &waiting, stop, &outcome, err);
    int pidfd CLEANUP(close_fdp) = (int)syscall(SYS_pidfd_open, o->pid, 0);
    int r = in_child(o, &waiting, begin, &outcome, err);
    if (r < 0)
        return r;
    if (!o->quiet)
        tell_begin(o, outcome.out, outcome.is_elsewhere);
    if (!o->duration)
        return 0;
    if (wait_for_end(pidfd, o->duration, &waiting)) {
        fprintf(stderr, CLI_PROGRAM ": %d: has ended before its time was over\n", (int)o->pid);
        return 0;
    }
    return in_child(o, &waiting, stop, &outcome, err);
}

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "java",
    .usage = "usage: mmtrace java PID [OPTION...]\n"
             "\n"
             "Samples the allocations of a running Java program into a log that 'mmsql\n"
             "convert' reads. mmtrace loads libtiallocsample.so into the VM, as jcmd does. To\n"
             "sample a program from its start, let the VM load the library: java\n"
             "-agentpath:.../libtiallocsample.so=...\n"
             "\n",
    .more = "\n"
            "Exit code: 0 done, 1 failed, 2 wrong usage.\n"
            "\n"
            "Examples:\n"
            "  mmtrace java 1234 -t 30s -o /tmp/shop.log\n"
            "  mmsql convert /tmp/shop.log -o shop.db\n",
    .options = options,
    .operand = take_pid,
    .check = check,
    .run = run,
};

int cli_java(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, &(struct java_options){0});
}
