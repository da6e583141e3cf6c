// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace top`: what memory does at this moment. Nothing is kept without --record. --record starts
// `mmtrace record` as a child, which records what the view shows. The child reads its config from a
// pipe, and ends when this program ends.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/top_screen.h"
#include "producer/cli/verdict_child.h"
#include "producer/ground/options.h"
#include "producer/sources/heap/heap_library.h"

#define PERIOD       (2 * NSEC_PER_SEC)
#define FIRST_PERIOD (250 * NSEC_PER_MSEC) // the first frame has rates, too
#define BATCH_ROWS   40

extern char **environ;

struct command_line {
    const char *record;
    nsec_t period;
    uint32_t frames;
    bool batch, by_growth, no_reclaim;
    char *files[TOP_FILES_MAX];
    size_t n_files;
};

static volatile sig_atomic_t ending;

static void on_end(int number)
{
    ending = number;
}

static bool is_ending(void)
{
    return ending != 0;
}

static int take_file(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct command_line *line = userdata;
    (void)option;
    if (line->n_files == TOP_FILES_MAX)
        return err_set(err, -EINVAL, "more than %d files", TOP_FILES_MAX);
    line->files[line->n_files++] = (char *)(uintptr_t)value;
    return 0;
}

// -- recording --

struct recorder {
    pid_t pid; // 0: none
};

// Adds a path as a string of the config. Characters with a meaning in globs get a backslash.
static void add_path(struct strbuf *out, const char *text)
{
    strbuf_add_char(out, '"');
    for (; *text; text++)
        strbuf_addf(out, "%s\\%03o", strchr("*?[\\", *text) ? "\\134" : "", (unsigned char)*text);
    strbuf_add_char(out, '"');
}

static void add_config(struct strbuf *out, const struct command_line *line)
{
    strbuf_addf(out,
                "buffers { size_kb: 16384 fill_policy: RING_BUFFER }\n"
                "data_sources { config { name: \"linux.sys_stats\" sys_stats_config {\n"
                "  vmstat_period_ms: 500 meminfo_period_ms: 1000 psi_period_ms: 500 } } }\n"
                "data_sources { config { name: \"linux.process_stats\" process_stats_config {\n"
                "  scan_all_processes_on_start: true proc_stats_poll_ms: 2000 } } }\n"
                "data_sources { config { name: \"linux.system_info\" } }\n");
    if (geteuid() == 0 && !line->no_reclaim)
        strbuf_add_str(out, "data_sources { config { name: \"linux.ftrace\" ftrace_config {\n"
                            "  ftrace_events: \"vmscan/*\" ftrace_events: \"compaction/*\"\n"
                            "  ftrace_events: \"oom/mark_victim\" } } }\n");
    if (!line->n_files)
        return;
    strbuf_add_str(out, "data_sources { config { name: \"linux.page_residency\" "
                        "page_residency_config {\n");
    for (size_t i = 0; i < line->n_files; i++) {
        strbuf_add_str(out, "  paths: ");
        add_path(out, line->files[i]);
        strbuf_add_char(out, '\n');
    }
    strbuf_add_str(out, "  period_ms: 1000 } } }\n");
}

static int recorder_start(struct recorder *recorder, const struct command_line *line,
                          struct err *err)
{
    struct strbuf config CLEANUP(strbuf_done) = {0};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char name[] = "mmtrace", verb[] = "record", quiet[] = "-q", c[] = "-c", from[] = "-",
         o[] = "-o";
    char alone[] = "--no-daemon";
    char *argv[] = {name, verb, quiet, alone, c, from, o, (char *)(uintptr_t)line->record, NULL};
    int ends[2];
    add_config(&config, line);
    if (config.failed)
        return err_errno(err, -ENOMEM, "--record");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "--record");
    CLEANUP(close_fdp) int out = ends[0];
    CLEANUP(close_fdp) int in = ends[1];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    // In its own session the child gets no Ctrl-C of the terminal. This program ends the child.
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    int r = -posix_spawn(&recorder->pid, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (r < 0) {
        recorder->pid = 0;
        return err_errno(err, r, "--record");
    }
    r = fd_write_all(in, config.text, config.size); // less than a pipe holds
    return r < 0 ? err_errno(err, r, "--record") : 0;
}

// Ends the recording. Returns 0 if the trace is whole.
static int recorder_end(struct recorder *recorder, const char *path, struct err *err)
{
    int status = 0;
    if (!recorder->pid)
        return 0;
    kill(recorder->pid, SIGTERM);
    while (waitpid(recorder->pid, &status, 0) < 0 && errno == EINTR)
        ;
    recorder->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == PROGRAM_DONE)
        return 0;
    return err_set(err, -EIO, "%s: the recording failed, or a part of it is missing", path);
}

// -- running --

static void signals_take(void)
{
    const struct sigaction action = {.sa_handler = on_end};
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        sigaction(numbers[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int batch_run(struct top_sampler *sampler, const struct top_view *view,
                     const struct command_line *line, struct err *err)
{
    static struct top_line lines[BATCH_ROWS];
    for (uint32_t n = 0; !is_ending() && (!line->frames || n < line->frames); n++) {
        if (n)
            poll(NULL, 0, (int)(line->period / NSEC_PER_MSEC));
        if (is_ending())
            break;
        top_sample(sampler);
        size_t n_lines = top_view_lines(sampler, view, BATCH_ROWS, 80, lines);
        for (size_t i = 0; i < n_lines; i++)
            puts(lines[i].text);
        putchar('\n');
        if (fflush(stdout) != 0)
            return err_errno(err, -errno, "standard output");
    }
    return 0;
}

// The library stays loaded: the program ends soon after.
static int screen_load(top_screen_run_fn *ret, struct err *err)
{
    char path[PATH_MAX];
    void *library = screen_library_find(path, sizeof(path)) == 0 ? dlopen(path, RTLD_NOW) : NULL;
    void *function = library ? dlsym(library, TOP_SCREEN_FUNCTION) : NULL;
    if (!function) {
        const char *why = dlerror();
        err_set(err, -ENOTSUP, "the live view cannot be loaded: %s",
                why ? why : "this mmtrace is built without ncurses");
        return err_hint(err, -ENOTSUP, "--batch prints lines instead");
    }
    *ret = (top_screen_run_fn)function;
    return 0;
}

static int screen_run(struct top_screen *screen, struct err *err)
{
    const char *terminal = getenv("TERM");
    top_screen_run_fn run = NULL;
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        err_set(err, -ENOTTY, "standard input and output are not a terminal");
        return err_hint(err, -ENOTTY, "--batch prints lines instead");
    }
    int r = screen_load(&run, err);
    if (r < 0 || run(screen) == 0)
        return r;
    err_set(err, -ENOTTY, "the terminal \"%s\" cannot move its cursor", terminal ? terminal : "");
    return err_hint(err, -ENOTTY, "set TERM, or use --batch, which prints lines");
}

static void sampler_donep(struct top_sampler *sampler)
{
    top_sampler_done(sampler);
}

static int show(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    struct top_sampler sampler CLEANUP(sampler_donep) = {0};
    struct top_view view = {.sort = line->by_growth ? TOP_BY_GROWTH : TOP_BY_SIZE,
                            .has_keys = !line->batch,
                            .record = line->record};
    struct recorder recorder = {0};
    struct err other = {0};
    signals_take();
    int r = top_sampler_open(&sampler, line->files, line->n_files, !line->no_reclaim, NULL);
    if (r < 0)
        return err_errno(err, r, "top");
    if (line->record)
        r = recorder_start(&recorder, line, err);
    if (r == 0) {
        top_sample(&sampler);
        poll(NULL, 0, (int)(FIRST_PERIOD / NSEC_PER_MSEC));
    }
    struct top_screen screen = {
        .sampler = &sampler,
        .view = &view,
        .period = line->period,
        .frames = line->frames,
        .sample = top_sample,
        .lines = top_view_lines,
        .is_ending = is_ending,
    };
    if (r == 0 && !line->batch)
        r = screen_run(&screen, err);
    if (r == 0 && line->batch)
        r = batch_run(&sampler, &view, line, err);
    bool records = recorder.pid != 0;
    int ended = recorder_end(&recorder, line->record, r == 0 ? err : &other);
    if (records && ended == 0 && !line->batch) {
        char name[PATH_MAX];
        fprintf(stderr, CLI_PROGRAM ": %s: recorded\n",
                str_printable(name, sizeof(name), line->record, strlen(line->record)));
        verdict_print(line->record, -1);
        verdict_print_next(line->record);
    }
    return r < 0 || ended < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
}

static const struct cli_option options[] = {
    {'d', "delay", "TIME", "time between two samples; default: 2s",
     CLI_SETS(struct command_line, period), .min = 500 * 1000000,
     .max = (uint64_t)3600 * 1000000000, .like = "from 500ms to 1h"},
    {'n', "frames", "N", "end after N samples", CLI_SETS(struct command_line, frames)},
    {0, "by-growth", NULL, "the fastest growing processes first, not the biggest",
     CLI_SETS(struct command_line, by_growth)},
    {0, "batch", NULL, "print lines, without keys and colours, for files and pipes",
     CLI_SETS(struct command_line, batch)},
    {0, "record", "FILE", "also record what is shown, into the trace FILE",
     CLI_SETS(struct command_line, record), .min = 1},
    {0, "no-reclaim", NULL, "do not watch the kernel's events of reclaim",
     CLI_SETS(struct command_line, no_reclaim)},
    {0},
};

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "top",
    .usage = "usage: mmtrace top [OPTION...] [FILE...]\n"
             "\n"
             "Shows what memory does at this moment: how long tasks stall, rates of the\n"
             "kernel's counters, which tasks reclaim (needs root), the biggest and the growing\n"
             "processes, cgroups, and how much of each FILE is in the page cache. Keys: q\n"
             "quits, s changes the order, h shows help. NO_COLOR=1 turns colours off.\n"
             "\n",
    .more = "\n"
            "Examples:\n"
            "  sudo mmtrace top\n"
            "  mmtrace top --by-growth /usr/lib/x86_64-linux-gnu/libc.so.6\n"
            "  mmtrace top --record top.pftrace && mmsql report top.pftrace -o top.html\n"
            "  mmtrace top --batch -n 1\n"
            "\n"
            "Exit code: 0 ended by the user, 1 failed, 2 wrong usage.\n",
    .options = options,
    .operand = take_file,
    .run = show,
};

int cli_top(int argc, char **argv)
{
    struct command_line line = {.period = PERIOD};
    return cli_command_main(&command, argc, argv, &line);
}
