// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace record`: records one session, from a config or from flags, to a file, in this process or
// in a tracing service (record_remote.h).
//
// All steps that can fail precede the steps that change the system: config, data sources, file,
// start. SIGINT and SIGTERM arrive in the loop like any other event, so that they cannot cut a
// packet. SIGPIPE and SIGXFSZ are ignored: a closed pipe and a file-size limit are write errors
// with a text.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/memory.h"
#include "common/str.h"
#include "producer/cli/background.h"
#include "producer/cli/cli.h"
#include "producer/cli/clone.h"
#include "producer/cli/progress.h"
#include "producer/cli/readout.h"
#include "producer/cli/record_options.h"
#include "producer/cli/record_remote.h"
#include "producer/cli/recording.h"
#include "producer/cli/remote.h"
#include "producer/cli/trigger.h"
#include "producer/cli/verdict_child.h"
#include "producer/ground/self_guard.h"
#include "producer/service/config/config_check.h"
#include "producer/service/roots.h"
#include "producer/service/session/session.h"
#include "producer/sources/heap/heap_host.h"
#include "producer/trace/trace_file.h"

struct record {
    struct record_options options;
    struct config config;
    struct log log;
    struct recording here;
    struct background background;
    struct ipc_client *client;        // owned; NULL: this process records
    Pb__TracingServiceState *service; // owned: the state of the service behind `client`
    struct session *session;
    struct loop_timer *progress;
    const char *config_name; // for messages; NULL: flags
    const char *out_name;    // for messages
    const char *created;     // file to remove if it stays empty
    const char *made;        // borrowed: the same file, once the recording has begun
    bool interrupted;        // a second signal ended the recording
    bool is_whole;           // the trace is complete, even if a data source failed
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
    int r = fd_read_all(fd, CONFIG_SIZE_MAX, out);
    if (r == -EFBIG)
        return err_set(err, -E2BIG, "%s: larger than %zu bytes, not a config", name,
                       CONFIG_SIZE_MAX);
    return r < 0 ? err_errno(err, r, "%s", name) : 0;
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
        r = config_load(name, text.text, text.size,
                        o->text ? CONFIG_FORMAT_TEXT : CONFIG_FORMAT_ANY, &record->config, err);
    if (r == 0)
        r = light_config_override(&o->light, &record->config, err);
    return r;
}

#define NAMES_MAX 256

// Lists the data sources of the recording process: the service or this process.
static void list_sources(const struct record *record, const char **names)
{
    if (!record->service) {
        source_class_names(names, NAMES_MAX);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < record->service->n_data_sources && n < NAMES_MAX - 1; i++) {
        const Pb__DataSourceDescriptor *source = record->service->data_sources[i]->ds_descriptor;
        if (source && source->name)
            names[n++] = source->name;
    }
    names[n] = NULL;
}

static int check_config(struct record *record, struct err *err)
{
    const char *names[NAMES_MAX];
    list_sources(record, names);
    struct config_check_env env = {
        .log = &record->log,
        .source_names = names,
        .memory_bytes = config_machine_memory_bytes(),
        .runs = record->client ? RUNS_FOR_CLIENT : RUNS_ALONE,
    };
    int r = config_check(record->config.trace, &env, err);
    if (r < 0)
        return record->config_name ? err_prefix(err, r, "%s", record->config_name) : r;
    const struct record_options *o = &record->options;
    if (o->detach_key && !record->config.trace->write_into_file) {
        err_set(err, -EINVAL, "--detach: the config has no write_into_file: true");
        return err_hint(err, -EINVAL,
                        "add it, or give -s SIZE: otherwise nothing reads the buffers");
    }
    if (record->config.trace->trigger_config && !o->check && !record->client)
        log_warning(&record->log,
                    "trigger_config: record does not wait for triggers, it starts at once");
    return 0;
}

// Output.

static int open_output(struct record *record, int *ret_fd, struct err *err)
{
    const struct record_options *o = &record->options;
    const char *path = o->out_path ? o->out_path : record->config.trace->output_path;
    if (o->config_path && file_is_same(path, o->config_path)) {
        err_set(err, -EEXIST, "%s: the trace would replace the config", path);
        return err_hint(err, -EEXIST, "choose another name for the trace");
    }
    // A path from the config must not overwrite an existing file.
    int r = readout_open(path, o->no_clobber || !o->out_path, ret_fd, err);
    if (r < 0)
        return r;
    bool is_stdout = str_eq(path, "-");
    record->out_name = is_stdout ? "<stdout>" : path;
    record->created = is_stdout ? NULL : path;
    return 0;
}

static int attach_output(struct record *record, struct err *err)
{
    int fd CLEANUP(close_fdp) = -1;
    int r = open_output(record, &fd, err);
    if (r < 0)
        return r;
    const struct session_settings *settings = session_get_settings(record->session);
    struct trace_file_options options = {
        .name = record->out_name,
        .path = record->created,
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
    loop_quit(((struct record *)userdata)->here.loop);
}

static void signal_ready(void *userdata)
{
    struct record *record = userdata;
    for (int number; (number = signals_take(&record->here.signals));) {
        if (number == SIGUSR1) {
            session_dump(record->session);
        } else if (session_get_state(record->session) == SESSION_STARTED) {
            session_stop(record->session);
        } else {
            record->interrupted = true;
            session_abort(record->session);
        }
    }
}

static void progress_due(void *userdata)
{
    struct record *record = userdata;
    struct session_counts counts;
    session_get_counts(record->session, &counts);
    progress_show(&counts);
}

static int watch_signals(struct record *record, struct err *err)
{
    struct sigaction hangup;
    // nohup ignores SIGHUP, but signalfd reports even an ignored signal once it is blocked.
    bool hangs_up = sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN;
    const int ends[] = {SIGINT, SIGTERM, hangs_up ? SIGHUP : 0, 0};
    const int others[] = {record->client ? 0 : SIGUSR1, 0};
    return signals_watch(&record->here.signals, ends, others, err);
}

// Waits for the config's cmd_trace_start_delay. No data source runs yet, so only a signal can
// interrupt the wait.
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
    struct pollfd poll_fd = {.fd = record->here.signals.fd, .events = POLLIN};
    if (ppoll(&poll_fd, 1, &timeout, NULL) > 0)
        return err_set(err, -EINTR, "interrupted before the recording began");
    return 0;
}

static int prepare(struct record *record, struct err *err)
{
    struct heap_host_options heap = {.socket_name = heap_host_socket_name(), .is_alone = true};
    int r = recording_open(&record->here, signal_ready, record, err);
    if (r < 0)
        return r;
    source_roots_find(&record->here.roots);
    r = recording_help(&record->here, &heap, err);
    if (r < 0)
        return r;
    struct session_env env = {
        .loop = record->here.loop,
        .clock = &clock_reader_kernel,
        .log = &record->log,
        .roots = &record->here.roots,
        .classes = source_classes,
        .ignore_triggers = true,
        // Flags only select events. A trace with process names alone would be useless.
        .required_source = record->options.config_path ? NULL : "linux.ftrace",
        .ended = session_ended,
        .userdata = record,
    };
    r = session_new(&env, &record->config, &record->session, err);
    if (r == 0)
        r = attach_output(record, err);
    return r;
}

static bool reports_start(const struct record_options *o)
{
    return o->background_wait || o->notify_fd >= 0;
}

// Explains a full disk with the file's full name and its size.
static void explain_no_room(const struct record *record, int r, struct err *err)
{
    struct session_counts counts;
    char *full = record->made ? realpath(record->made, NULL) : NULL;
    char name[PATH_MAX];
    session_get_counts(record->session, &counts);
    str_printable(name, sizeof(name), full ? full : record->out_name,
                  strlen(full ? full : record->out_name));
    err_set(err, r, "%s: %s: %" PRIu64 " of %" PRIu64 " recorded bytes are in the file", name,
            strerror(-r), counts.file_bytes, counts.bytes);
    err_hint(err, r, "the file is a readable trace; make room, or name another file with -o");
    free(full);
}

static int run(struct record *record, struct err *err)
{
    if (!reports_start(&record->options))
        background_report(&record->background, BACKGROUND_OK);
    int r = delay_start(record, err);
    if (r == 0)
        r = session_start(record->session, err);
    if (r < 0)
        return r;
    struct session_counts counts;
    session_get_counts(record->session, &counts);
    background_report(&record->background, counts.problem ? BACKGROUND_FAILED : BACKGROUND_OK);
    record->made = record->created;
    record->created = NULL; // from here on the file is not empty
    self_guard_take();
    if (!record->options.quiet && isatty(STDERR_FILENO))
        loop_add_timer(record->here.loop, nsec_now(CLOCK_BOOTTIME) + PROGRESS_PERIOD,
                       PROGRESS_PERIOD, progress_due, record, &record->progress);
    r = loop_run(record->here.loop);
    if (record->progress) {
        record->progress = loop_remove_timer(record->progress);
        progress_erase();
    }
    if (r < 0)
        return err_errno(err, r, "event loop");
    r = session_result(record->session, err);
    if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG || r == -EROFS)
        explain_no_room(record, r, err);
    if (r == 0 && record->interrupted)
        r = err_set(err, -EINTR, "%s: interrupted, data that were not written yet are lost",
                    record->out_name);
    return r;
}

// Reports the failure of a data source, for a trace that is kept.
static int tell_problem(const struct record *record, struct err *err)
{
    struct session_counts counts;
    session_get_counts(record->session, &counts);
    return counts.problem ? err_set(err, -EREMOTEIO, "%s", counts.problem) : 0;
}

static void print_summary(const struct record *record)
{
    struct session_counts counts;
    session_get_counts(record->session, &counts);
    progress_print_end(record->out_name, &counts, counts.file_bytes,
                       counts.file_full ? " (the file has its maximum size)" : "");
}

static void done(struct record *record)
{
    record->session = session_free(record->session);
    recording_done(&record->here);
    record->client = ipc_client_free(record->client);
    if (record->service)
        pb__tracing_service_state__free_unpacked(record->service, NULL);
    readout_remove_empty(record->created);
    config_done(&record->config);
    record_options_done(&record->options);
}

static int record_here(struct record *record, struct err *err)
{
    if (prepare(record, err) < 0 || run(record, err) < 0)
        return PROGRAM_FAILED;
    if (memory_was_refused()) {
        err_errno(err, -ENOMEM, "%s", record->out_name);
        err_hint(err, -ENOMEM, "the file is a readable trace, which may be incomplete");
        return PROGRAM_FAILED;
    }
    record->is_whole = true;
    if (!record->options.quiet)
        print_summary(record);
    return tell_problem(record, err) < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
}

static int record_there(struct record *record, struct err *err)
{
    struct record_remote remote = {
        .options = &record->options,
        .config = &record->config,
        .background = &record->background,
        .signals = &record->here.signals,
        .output_fd = -1,
    };
    if (open_output(record, &remote.output_fd, err) < 0)
        return PROGRAM_FAILED;
    remote.out_name = record->out_name;
    remote.out_path = STEAL(record->created);
    if (delay_start(record, err) < 0) {
        close_fd(remote.output_fd);
        readout_remove_empty(remote.out_path);
        return PROGRAM_FAILED;
    }
    int code = record_remote_run(record->client, &remote, err);
    record->is_whole = remote.is_whole;
    return code;
}

// A recording in the background gets no verdict here. `mmsql verdict` gives a verdict at any time.
static void print_verdict(const struct record *record)
{
    const struct record_options *o = &record->options;
    if (o->quiet || o->no_verdict || o->background || o->background_wait || o->detach_key ||
        str_eq(record->out_name, "<stdout>"))
        return;
    verdict_print(record->out_name, record->here.signals.fd);
    verdict_print_next(record->out_name);
}

// Enters the background. The new process connects again, because the service must see it as its
// client.
static int enter_background(struct record *record, struct err *err)
{
    const struct record_options *o = &record->options;
    record->background.fd = o->notify_fd;
    if (!o->background && !o->background_wait)
        return 0;
    int r = background_enter(&record->background, err);
    if (r != 0 || !record->client)
        return r;
    record->client = ipc_client_free(record->client);
    return remote_connect_consumer(&record->client, err);
}

static int record_trace(struct record *record, struct err *err)
{
    if (!record->options.out_path && !record->config.trace->output_path) {
        err_set(err, -EINVAL, "no output file");
        err_hint(err, -EINVAL, "give one with -o FILE");
        return PROGRAM_USAGE;
    }
    int r = enter_background(record, err);
    if (r > 0)
        return r - 1;
    int code = PROGRAM_FAILED;
    if (r == 0 && watch_signals(record, err) == 0)
        code = record->client ? record_there(record, err) : record_here(record, err);
    if (code == PROGRAM_DONE || record->is_whole)
        print_verdict(record);
    // The caller prints errors when standard error is closed already. Therefore errors are printed
    // here.
    if (code != PROGRAM_DONE && err->text[0])
        err_print(err, CLI_PROGRAM);
    *err = (struct err){0};
    background_report(&record->background,
                      code == PROGRAM_DONE ? BACKGROUND_OK : BACKGROUND_FAILED);
    return code;
}

static int clone_session(const struct record_options *o, struct err *err)
{
    struct clone_options clone = {
        .session =
            {
                .session_id = o->clone_id,
                .name = o->clone_name,
                .for_bugreport = o->clone_for_bugreport,
            },
        .out_path = o->out_path,
        .no_clobber = o->no_clobber,
        .quiet = o->quiet,
    };
    return clone_to_file(&clone, err) < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
}

// Runs all actions except a recording.
static int act(struct record *record, struct err *err)
{
    char *status[] = {"status", "--raw", NULL};
    switch (record->options.action) {
    case RECORD_ACTION_QUERY:
        return cli_status(1, status);
    case RECORD_ACTION_QUERY_RAW:
        return cli_status(2, status);
    case RECORD_ACTION_CLONE:
        return clone_session(&record->options, err);
    default:
        return watch_signals(record, err) < 0
                   ? PROGRAM_FAILED
                   : record_remote_attach(&record->options, &record->here.signals, err);
    }
}

static int load_and_record(struct record *record, struct err *err)
{
    const struct record_options *o = &record->options;
    if (load_config(record, err) < 0)
        return PROGRAM_FAILED;
    const Pb__TraceConfig *trace = record->config.trace;
    if (trace->n_activate_triggers > 0 && !o->check)
        return trigger_tell(trace->activate_triggers, trace->n_activate_triggers, false, err) < 0
                   ? PROGRAM_FAILED
                   : PROGRAM_DONE;
    if (!o->check && record_remote_find(o, &record->config, &record->log, &record->client,
                                        &record->service, err) < 0)
        return PROGRAM_FAILED;
    if (check_config(record, err) < 0)
        return PROGRAM_FAILED;
    return o->check ? recording_print_config(&record->config, err) : record_trace(record, err);
}

int cli_record(int argc, char **argv)
{
    struct record record = {.here = {.log = &record.log, .signals.fd = -1}, .background.fd = -1};
    struct err err = {0};
    int r = record_options_parse(argc, argv, &record.options, &err);
    if (r != 0)
        return cli_command_wrong(&record_command, r, &err);
    record.log = (struct log){
        .max_level = LOG_LEVEL_INFO,
        .write = write_log,
        .userdata = &record,
    };
    bool records = record.options.action == RECORD_ACTION_RECORD;
    int code = records ? load_and_record(&record, &err) : act(&record, &err);
    if (err.text[0])
        err_print(&err, CLI_PROGRAM);
    done(&record);
    return code;
}
