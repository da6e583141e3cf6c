// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace record`: one session in this process, from a config or from flags to a file.
//
// The order of things is such that whatever can fail fails before anything has changed: config,
// data sources, then the file, then the start. SIGINT and SIGTERM arrive in the loop like any other
// event, so there is no moment at which they could tear a packet. SIGPIPE and SIGXFSZ are ignored:
// a reader that went away and a file that may not grow are write errors with a text.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/pbtext.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/progress.h"
#include "producer/cli/record_options.h"
#include "producer/service/config_check.h"
#include "producer/service/memory_lock.h"
#include "producer/service/roots.h"
#include "producer/service/session.h"
#include "producer/trace/trace_file.h"

struct record {
    struct record_options options;
    struct config config;
    struct source_roots roots;
    struct log log;
    struct loop *loop;
    struct session *session;
    int signal_fd;
    struct loop_io *signal_io;
    struct loop_timer *progress;
    const char *config_name; // for messages; NULL: it comes from flags
    const char *out_name;    // for messages
    const char *created;     // the file that is to be removed if nothing comes into it
    bool interrupted;        // ended by a second signal
};

static void write_log(void *userdata, enum log_level level, const char *line)
{
    struct record *record = userdata;
    if (record->options.quiet && level > LOG_LEVEL_ERROR)
        return;
    if (record->progress)
        progress_erase();
    fprintf(stderr, CLI_PROGRAM ": %s\n", line);
}

// Config.

static int read_all(int fd, const char *name, struct strbuf *out, struct err *err)
{
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "%s", name);
        if (n == 0)
            return 0;
        strbuf_add(out, chunk, (size_t)n);
        if (out->failed)
            return err_errno(err, -ENOMEM, "%s", name);
        if (out->size > CONFIG_SIZE_MAX)
            return err_set(err, -E2BIG, "%s: larger than %zu bytes, not a config", name,
                           CONFIG_SIZE_MAX);
    }
}

static int load_config(struct record *record, struct err *err)
{
    const struct record_options *o = &record->options;
    if (!o->config_path)
        return light_config_make(&o->light, &record->config, err);
    bool is_stdin = str_eq(o->config_path, "-");
    const char *name = record->config_name = is_stdin ? "<stdin>" : o->config_path;
    int fd CLEANUP(close_fdp) = -1;
    if (!is_stdin) {
        fd = open(o->config_path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return err_errno(err, -errno, "%s", name);
    }
    struct strbuf text CLEANUP(strbuf_done) = {0};
    int r = read_all(is_stdin ? STDIN_FILENO : fd, name, &text, err);
    if (r == 0)
        r = config_load(name, text.text ? text.text : "", text.size,
                        o->text ? CONFIG_FORMAT_TEXT : CONFIG_FORMAT_ANY, &record->config, err);
    if (r == 0)
        r = light_config_override(&o->light, &record->config, err);
    return r;
}

static int check_config(struct record *record, struct err *err)
{
    const char *names[256];
    size_t n = 0;
    for (const struct source_class *const *class = source_classes; *class; class ++) {
        if (n < 255)
            names[n++] = (*class)->name;
        for (const char *const *alias = (*class)->aliases; alias && *alias && n < 255; alias++)
            names[n++] = *alias;
    }
    names[n] = NULL;
    struct config_check_env env = {
        .log = &record->log,
        .source_names = names,
        .memory_bytes = config_machine_memory_bytes(),
    };
    int r = config_check(record->config.trace, &env, err);
    if (r < 0)
        return record->config_name ? err_prefix(err, r, "%s", record->config_name) : r;
    if (record->config.trace->trigger_config && !record->options.check)
        log_warning(&record->log,
                    "trigger_config: record does not wait for triggers, it starts at once");
    return 0;
}

static int print_config(const struct record *record)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    pbtext_print(&record->config.trace->base, &text);
    if (text.size > 0)
        fwrite(text.text, 1, text.size, stdout);
    return fflush(stdout) == 0 && !text.failed ? CLI_DONE : CLI_FAILED;
}

// Output.

static int open_output(struct record *record, struct err *err)
{
    const struct record_options *o = &record->options;
    const char *path = o->out_path ? o->out_path : record->config.trace->output_path;
    int fd CLEANUP(close_fdp) = -1;
    // A path out of the config must not destroy anything.
    int r = trace_file_open(path, o->no_clobber || !o->out_path, &fd, err);
    if (r < 0)
        return r;
    bool is_stdout = str_eq(path, "-");
    record->out_name = is_stdout ? "<stdout>" : path;
    record->created = is_stdout ? NULL : path;
    const struct session_settings *settings = session_get_settings(record->session);
    struct trace_file_options options = {
        .name = record->out_name,
        .max_size_bytes = settings->max_file_bytes,
        .deflate = settings->deflate,
        .sync = settings->sync_after_write,
    };
    struct trace_file *file;
    r = trace_file_new(fd, &options, &file, err);
    if (r < 0)
        return r;
    steal_fd(&fd);
    session_set_file(record->session, file);
    return 0;
}

// Running.

static void session_ended(void *userdata, struct session *session)
{
    (void)session;
    loop_quit(((struct record *)userdata)->loop);
}

static void signal_ready(void *userdata, uint32_t events)
{
    struct record *record = userdata;
    struct signalfd_siginfo info;
    (void)events;
    while (read(record->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (session_get_state(record->session) == SESSION_STARTED) {
            session_stop(record->session);
        } else {
            record->interrupted = true;
            session_abort(record->session);
        }
    }
}

static void progress_due(void *userdata, nsec_t due, uint64_t n_due)
{
    struct record *record = userdata;
    struct session_counts counts;
    (void)due;
    (void)n_due;
    session_get_counts(record->session, &counts);
    progress_show(&counts);
}

static int watch_signals(struct record *record, struct err *err)
{
    sigset_t set;
    struct sigaction hangup;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    // Under nohup it is ignored; blocked, it would arrive all the same.
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    record->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (record->signal_fd < 0)
        return err_errno(err, -errno, "signalfd");
    int r = loop_add_io(record->loop, record->signal_fd, EPOLLIN, signal_ready, record,
                        &record->signal_io);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

// Waits as long as the config's cmd_trace_start_delay has it. Nothing runs yet, so only a signal
// can happen meanwhile.
static int delay_start(const struct record *record, struct err *err)
{
    const Pb__TraceConfig__CmdTraceStartDelay *delay = record->config.trace->cmd_trace_start_delay;
    if (!delay)
        return 0;
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = (uint32_t)nsec_now(CLOCK_MONOTONIC);
    uint64_t span_ms = (uint64_t)delay->max_delay_ms - delay->min_delay_ms + 1;
    nsec_t time = (nsec_t)(delay->min_delay_ms + random % span_ms) * NSEC_PER_MSEC;
    struct timespec timeout = nsec_to_timespec(time);
    struct pollfd poll_fd = {.fd = record->signal_fd, .events = POLLIN};
    if (ppoll(&poll_fd, 1, &timeout, NULL) > 0)
        return err_set(err, -EINTR, "interrupted before the recording began");
    return 0;
}

static int prepare(struct record *record, struct err *err)
{
    int r = loop_new(&record->loop);
    if (r < 0)
        return err_errno(err, r, "event loop");
    r = watch_signals(record, err);
    if (r < 0)
        return r;
    source_roots_find(&record->roots);
    struct session_env env = {
        .loop = record->loop,
        .clock = &clock_reader_kernel,
        .log = &record->log,
        .roots = &record->roots,
        .classes = source_classes,
        // Events are all that flags can ask for; names of processes alone would not be it.
        .required_source = record->options.config_path ? NULL : "linux.ftrace",
        .ended = session_ended,
        .userdata = record,
    };
    r = session_new(&env, &record->config, &record->session, err);
    if (r == 0)
        r = open_output(record, err);
    return r;
}

static int run(struct record *record, struct err *err)
{
    int r = delay_start(record, err);
    if (r == 0)
        r = session_start(record->session, err);
    if (r < 0)
        return r;
    record->created = NULL; // from here on it holds something
    memory_lock();
    if (!record->options.quiet && isatty(STDERR_FILENO))
        loop_add_timer(record->loop, nsec_now(CLOCK_BOOTTIME) + PROGRESS_PERIOD, PROGRESS_PERIOD,
                       progress_due, record, &record->progress);
    r = loop_run(record->loop);
    if (record->progress) {
        record->progress = loop_remove_timer(record->progress);
        progress_erase();
    }
    if (r < 0)
        return err_errno(err, r, "event loop");
    r = session_result(record->session, err);
    if (r == 0 && record->interrupted)
        r = err_set(err, -EINTR, "%s: interrupted, what was not written yet is lost",
                    record->out_name);
    return r;
}

static void print_summary(const struct record *record)
{
    struct session_counts counts;
    struct strbuf line CLEANUP(strbuf_done) = {0};
    session_get_counts(record->session, &counts);
    progress_format(&counts, counts.file_bytes, &line);
    if (counts.file_full)
        strbuf_add_str(&line, " (the file has its maximum size)");
    char name[PATH_MAX];
    str_printable(name, sizeof(name), record->out_name, strlen(record->out_name));
    if (line.text)
        fprintf(stderr, CLI_PROGRAM ": %s: %s\n", name, line.text);
}

// Only a regular file that is still empty: the path may as well be a device.
static void remove_created(const char *path)
{
    struct stat st;
    if (path && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        unlink(path);
}

static void done(struct record *record)
{
    record->session = session_free(record->session);
    if (record->signal_io)
        record->signal_io = loop_remove_io(record->signal_io);
    record->loop = loop_free(record->loop);
    record->signal_fd = close_fd(record->signal_fd);
    remove_created(record->created);
    config_done(&record->config);
    record_options_done(&record->options);
}

static int record_trace(struct record *record, struct err *err)
{
    if (!record->options.out_path && !record->config.trace->output_path) {
        err_set(err, -EINVAL, "no output file");
        err_hint(err, -EINVAL, "give one with -o FILE");
        return CLI_USAGE;
    }
    if (prepare(record, err) < 0)
        return CLI_FAILED;
    int r = run(record, err);
    if (r < 0)
        return CLI_FAILED;
    if (!record->options.quiet)
        print_summary(record);
    return CLI_DONE;
}

int cli_record(int argc, char **argv)
{
    struct record record = {.signal_fd = -1};
    struct err err = {0};
    if (record_options_parse(argc, argv, &record.options, &err) < 0) {
        err_print(&err, CLI_PROGRAM " record");
        return CLI_USAGE;
    }
    if (record.options.help) {
        record_options_print_help();
        return CLI_DONE;
    }
    record.log = (struct log){
        .max_level = LOG_LEVEL_INFO,
        .write = write_log,
        .userdata = &record,
    };
    int code = CLI_FAILED;
    if (load_config(&record, &err) == 0 && check_config(&record, &err) == 0)
        code = record.options.check ? print_config(&record) : record_trace(&record, &err);
    if (err.text[0])
        err_print(&err, CLI_PROGRAM);
    done(&record);
    return code;
}
