// SPDX-License-Identifier: Apache-2.0
//
// EnableTracing is answered at the end of the session. All other requests use the same connection
// meanwhile. The connection must stay open, otherwise the service drops the session. Requests are
// handled in order: when a later request is answered, either EnableTracing was accepted, or its
// answer has arrived with the reason of the failure.
//
// The client opens the output file and passes only its descriptor to the service, so that the file
// is written with the user's own rights. Therefore output_path is never sent.
#include "producer/cli/record_remote.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/cli/cli.h"
#include "producer/cli/clone.h"
#include "producer/cli/progress.h"
#include "producer/cli/readout.h"
#include "producer/cli/remote.h"
#include "producer/service/session/session_settings.h"
#include "producer/sources/source.h"
#include "producer/trace/trace_repair.h"

#define ASK_PERIOD (2 * PROGRESS_PERIOD) // less often than the line, to spare the service

// Finds a service for the config.

static bool is_registered(const Pb__TracingServiceState *state, const char *name)
{
    for (size_t i = 0; i < state->n_data_sources; i++) {
        const Pb__DataSourceDescriptor *descriptor = state->data_sources[i]->ds_descriptor;
        if (descriptor && descriptor->name && str_eq(descriptor->name, name))
            return true;
    }
    return false;
}

// Returns a data source of this process that the service does not have, or NULL.
static const char *missing_there(const Pb__TracingServiceState *state, const Pb__TraceConfig *trace)
{
    for (size_t i = 0; i < trace->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = trace->data_sources[i]->config;
        if (source && source->name && !is_registered(state, source->name) &&
            source_class_find(source->name))
            return source->name;
    }
    return NULL;
}

int record_remote_find(const struct record_options *options, const struct config *config,
                       const struct log *log, struct ipc_client **ret,
                       Pb__TracingServiceState **ret_state, struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    Pb__TracingServiceState *state = NULL;
    struct err reason = {0};
    if (options->no_daemon)
        return 0;
    int r = remote_connect_consumer(&client, &reason);
    if (r == 0)
        r = ipc_client_query_state(client, false, REMOTE_TIMEOUT, &state, &reason);
    if (r < 0 && options->detach_key) {
        *err = reason;
        return r;
    }
    if (r < 0) {
        if (!remote_nobody_there(r))
            log_info(log, "recording in this process: %s", reason.text);
        return 0;
    }
    const char *missing = missing_there(state, config->trace);
    if (missing && !options->detach_key) {
        log_info(log, "recording in this process: the tracing service has no %s", missing);
        pb__tracing_service_state__free_unpacked(state, NULL);
        return 0;
    }
    *ret = STEAL(client);
    *ret_state = state;
    return 0;
}

// A running session.

struct run {
    struct ipc_client *client;     // borrowed
    struct record_remote *remote;  // borrowed; NULL: attached to a session of another command
    struct background *background; // borrowed; NULL: no waiting parent
    struct signals *signals;       // borrowed
    uint64_t enable_id;
    bool stopping;
    bool started; // the data sources have started, and the background's parent has no report yet
    bool ended;
    bool shows;                    // shows the progress line, on a terminal
    bool asked;                    // statistics were requested and have not arrived yet
    nsec_t next_ask;               // CLOCK_MONOTONIC
    nsec_t began;                  // CLOCK_MONOTONIC
    size_t n_snapshots, n_missing; // snapshots that were ordered, and those of them that failed
    char problem[ERR_TEXT_MAX];    // failure of a data source; empty: none
    struct err *err;
};

// Calls a method with an immediate answer. The answer is dropped.
static int call(struct run *run, uint32_t method, const ProtobufCMessage *request, struct err *err)
{
    return ipc_client_call(run->client, method, request, -1, REMOTE_TIMEOUT, NULL, err);
}

static void send_stop(struct run *run)
{
    Pb__FlushRequest flush = PB__FLUSH_REQUEST__INIT;
    Pb__DisableTracingRequest disable = PB__DISABLE_TRACING_REQUEST__INIT;
    flush.has_timeout_ms = true;
    run->stopping = true;
    // The stop continues even if the flush is refused.
    call(run, IPC_CONSUMER_FLUSH, &flush.base, NULL);
    ipc_client_send(run->client, IPC_CONSUMER_DISABLE_TRACING, &disable.base, -1, NULL, NULL);
}

static void save_snapshot(struct run *run, const Pb__ObservableEvents__CloneTriggerHit *hit)
{
    const struct record_remote *remote = run->remote;
    struct strbuf path CLEANUP(strbuf_done) = {0};
    strbuf_addf(&path, "%s.%zu", remote->out_path, run->n_snapshots++);
    struct clone_options options = {
        .session = {.session_id = (uint64_t)hit->tracing_session_id, .trigger = hit},
        .out_path = path.text,
        .no_clobber = remote->options->no_clobber,
        .quiet = remote->options->quiet,
    };
    struct err err = {0};
    if (path.failed || clone_to_file(&options, &err) < 0) {
        fprintf(stderr, CLI_PROGRAM ": snapshot: %s\n", err.text);
        run->n_missing++;
    }
}

static void handle_events(struct run *run, const Pb__ObservableEvents *events)
{
    if (!events)
        return;
    if (events->all_data_sources_started && run->background)
        run->started = true;
    if (events->clone_trigger_hit && run->remote && run->remote->out_path)
        save_snapshot(run, events->clone_trigger_hit);
}

// Returns the progress of the session. mmtrace's service sends the same counts as a session in this
// process; for another service, the counts come from the statistics of its buffers.
static struct session_counts read_counts(const struct run *run,
                                         const Pb__GetTraceStatsResponse *response)
{
    const Pb__TraceStats *stats = response->trace_stats;
    const Pb__TracingServiceState__SessionDetails *details = response->details;
    if (details)
        return (struct session_counts){
            .elapsed = details->elapsed_ns,
            .events = details->events,
            .events_lost = details->events_lost,
            .readings_missed = details->readings_missed,
            .packets_overwritten = details->packets_overwritten,
            .packets_discarded = details->packets_discarded,
            .bytes = details->bytes_recorded,
            .file_bytes = details->file_bytes,
        };
    struct session_counts counts = {
        .elapsed = nsec_now(CLOCK_MONOTONIC) - run->began,
        .events = PROGRESS_EVENTS_UNKNOWN,
    };
    for (size_t i = 0; stats && i < stats->n_buffer_stats; i++) {
        counts.bytes += stats->buffer_stats[i]->bytes_written;
        counts.packets_overwritten += stats->buffer_stats[i]->chunks_overwritten;
        counts.packets_discarded += stats->buffer_stats[i]->chunks_discarded;
    }
    return counts;
}

static void show_progress(struct run *run, const Pb__GetTraceStatsResponse *response)
{
    run->asked = false;
    if (!response || run->ended)
        return;
    if (response->details && response->details->state &&
        str_eq(response->details->state, "armed")) {
        progress_show_text("waiting for a trigger");
        return;
    }
    struct session_counts counts = read_counts(run, response);
    progress_show(&counts);
}

// Requests the statistics when they are due. Returns the milliseconds until the next request; -1:
// forever.
static int ask_for_progress(struct run *run)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (!run->shows)
        return -1;
    if (now >= run->next_ask) {
        Pb__GetTraceStatsRequest request = PB__GET_TRACE_STATS_REQUEST__INIT;
        run->next_ask = now + ASK_PERIOD;
        if (!run->asked)
            run->asked = ipc_client_send(run->client, IPC_CONSUMER_GET_TRACE_STATS, &request.base,
                                         -1, NULL, NULL) == 0;
    }
    return (int)((run->next_ask - now) / NSEC_PER_MSEC) + 1;
}

static int handle_reply(struct run *run, const struct ipc_reply *reply)
{
    if (reply->method == IPC_CONSUMER_OBSERVE_EVENTS && reply->message)
        handle_events(run, ((const Pb__ObserveEventsResponse *)reply->message)->events);
    if (reply->method == IPC_CONSUMER_GET_TRACE_STATS)
        show_progress(run, (const Pb__GetTraceStatsResponse *)reply->message);
    if (reply->request_id != run->enable_id)
        return 0;
    run->ended = true;
    const Pb__EnableTracingResponse *end = (const Pb__EnableTracingResponse *)reply->message;
    if (!end)
        return err_set(run->err, -EREMOTEIO, "the tracing service refused the session");
    if (end->error && end->error[0])
        return err_set(run->err, -EREMOTEIO, "the tracing service says: %s", end->error);
    return 0;
}

// Handles the replies that have arrived; never waits.
static int take_replies(struct run *run)
{
    struct ipc_reply reply;
    struct err err = {0};
    int r;
    while ((r = ipc_client_receive(run->client, 0, 0, &reply, &err)) == 0) {
        r = handle_reply(run, &reply);
        ipc_reply_done(&reply);
        if (r < 0)
            return r;
    }
    if (r == -ETIMEDOUT || r == -EINTR)
        return 0;
    *run->err = err;
    return r;
}

static int handle_signals(struct run *run)
{
    while (signals_take(run->signals)) {
        if (run->stopping)
            return err_set(run->err, -EINTR,
                           "interrupted, data that were not written yet are lost");
        send_stop(run);
    }
    return 0;
}

static void keep_problem(struct run *run, const Pb__GetTraceStatsResponse *response)
{
    const char *problem = response->details ? response->details->problem : NULL;
    if (problem)
        str_printable(run->problem, sizeof(run->problem), problem, strlen(problem));
}

// Gets the session's final counts. Returns false if they are unknown.
static bool ask_counts(struct run *run, struct session_counts *ret)
{
    Pb__GetTraceStatsRequest request = PB__GET_TRACE_STATS_REQUEST__INIT;
    ProtobufCMessage *reply;
    if (ipc_client_call(run->client, IPC_CONSUMER_GET_TRACE_STATS, &request.base, -1,
                        REMOTE_TIMEOUT, &reply, NULL) < 0)
        return false;
    const Pb__GetTraceStatsResponse *response = (const Pb__GetTraceStatsResponse *)reply;
    *ret = read_counts(run, response);
    for (size_t i = 0;
         !response->details && response->trace_stats && i < response->trace_stats->n_buffer_stats;
         i++)
        ret->events_lost += response->trace_stats->buffer_stats[i]->trace_writer_packet_loss;
    keep_problem(run, response);
    protobuf_c_message_free_unpacked(reply, NULL);
    return true;
}

static int tell_problem(const struct run *run)
{
    if (run->problem[0])
        return err_set(run->err, -EREMOTEIO, "%s", run->problem);
    if (run->n_missing)
        return err_set(run->err, -EREMOTEIO, "%zu of %zu snapshots are missing", run->n_missing,
                       run->n_snapshots);
    return 0;
}

// Warns the waiting user early of data sources that will be missing in the trace.
static void warn_of_problem(struct run *run)
{
    struct session_counts counts;
    if (run->ended || run->remote->options->quiet || !ask_counts(run, &counts))
        return;
    if (run->problem[0])
        fprintf(stderr, CLI_PROGRAM ": %s\n", run->problem);
}

// Reports the start to the parent of a background recording: a success only if no data source has
// failed.
static void report_start(struct run *run)
{
    struct session_counts counts;
    bool is_whole = run->ended || !ask_counts(run, &counts) || !run->problem[0];
    run->started = false;
    background_report(run->background, is_whole ? BACKGROUND_OK : BACKGROUND_FAILED);
}

static int wait_for_end(struct run *run)
{
    int r = take_replies(run);
    if (r == 0 && run->started)
        report_start(run);
    while (r == 0 && !run->ended) {
        int timeout_ms = ask_for_progress(run);
        struct pollfd fds[] = {
            {.fd = ipc_client_fd(run->client), .events = POLLIN},
            {.fd = run->signals->fd, .events = POLLIN},
        };
        if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
            return err_errno(run->err, -errno, "poll");
        r = handle_signals(run);
        if (r == 0)
            r = take_replies(run);
        if (r == 0 && run->started)
            report_start(run);
    }
    if (run->shows)
        progress_erase();
    return r;
}

// Reads the settings of the config. The service refuses an invalid config.
static struct session_settings settings_of(const Pb__TraceConfig *trace)
{
    struct session_settings settings = {0};
    session_settings_read(trace, &settings, NULL);
    return settings;
}

static int observe(struct run *run, const Pb__TraceConfig *trace)
{
    Pb__ObservableEvents__Type types[2];
    Pb__ObserveEventsRequest request = PB__OBSERVE_EVENTS_REQUEST__INIT;
    request.events_to_observe = types;
    if (run->background && run->background->fd >= 0)
        types[request.n_events_to_observe++] =
            PB__OBSERVABLE_EVENTS__TYPE__TYPE_ALL_DATA_SOURCES_STARTED;
    if (settings_of(trace).mode == SESSION_MODE_CLONE)
        types[request.n_events_to_observe++] = PB__OBSERVABLE_EVENTS__TYPE__TYPE_CLONE_TRIGGER_HIT;
    if (request.n_events_to_observe == 0)
        return 0;
    return ipc_client_send(run->client, IPC_CONSUMER_OBSERVE_EVENTS, &request.base, -1, NULL,
                           run->err);
}

static int enable(struct run *run)
{
    const struct record_remote *remote = run->remote;
    Pb__TraceConfig trace = *remote->config->trace;
    Pb__EnableTracingRequest request = PB__ENABLE_TRACING_REQUEST__INIT;
    trace.output_path = NULL;
    request.trace_config = &trace;
    return ipc_client_send(run->client, IPC_CONSUMER_ENABLE_TRACING, &request.base,
                           trace.write_into_file ? remote->output_fd : -1, &run->enable_id,
                           run->err);
}

// Returns 0 when the service has accepted EnableTracing.
static int confirm(struct run *run)
{
    Pb__QueryCapabilitiesRequest request = PB__QUERY_CAPABILITIES_REQUEST__INIT;
    int r = call(run, IPC_CONSUMER_QUERY_CAPABILITIES, &request.base, run->err);
    return r < 0 ? r : take_replies(run);
}

static int detach(struct run *run, const char *key)
{
    Pb__DetachRequest request = PB__DETACH_REQUEST__INIT;
    request.key = (char *)(uintptr_t)key;
    struct err err = {0};
    int r = call(run, IPC_CONSUMER_DETACH, &request.base, &err);
    if (r == 0)
        return 0;
    // The failure of the session is more useful than the failure to detach it.
    int why = take_replies(run);
    if (why < 0)
        return why;
    *run->err = err;
    return r;
}

// The end.

static int finish(struct run *run)
{
    struct record_remote *remote = run->remote;
    const Pb__TraceConfig *trace = remote->config->trace;
    struct session_counts counts;
    struct stat st;
    uint64_t bytes = 0;
    int r = 0;
    bool counted = ask_counts(run, &counts);
    if (trace->write_into_file)
        bytes = fstat(remote->output_fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    else
        r = readout_to_file(run->client, steal_fd(&remote->output_fd), remote->out_name,
                            settings_of(trace).deflate, &bytes, run->err);
    remote_free_buffers(run->client);
    if (r < 0)
        return r;
    if (bytes == 0 && run->n_snapshots > 0)
        return tell_problem(run); // each source has been printed
    if (remote->out_path && bytes == 0)
        fprintf(stderr, CLI_PROGRAM ": %s: no trace%s\n", remote->out_name,
                trace->trigger_config ? ": no trigger came" : "");
    else if (!remote->options->quiet)
        progress_print_end(remote->out_name, counted ? &counts : NULL, bytes, "");
    remote->is_whole = bytes > 0;
    return tell_problem(run);
}

static int run_session(struct run *run)
{
    const struct record_options *options = run->remote->options;
    int r = observe(run, run->remote->config->trace);
    if (r == 0)
        r = enable(run);
    if (r == 0 && options->detach_key) {
        warn_of_problem(run);
        return detach(run, options->detach_key);
    }
    if (r == 0)
        r = confirm(run);
    if (r < 0)
        return r;
    warn_of_problem(run);
    if (!options->background_wait && options->notify_fd < 0)
        background_report(run->background, BACKGROUND_OK);
    r = wait_for_end(run);
    return r < 0 ? r : finish(run);
}

// Explains that the service died during the recording. The written part is in the file, which is
// repaired here; the part in memory is lost.
static void explain_loss(const struct run *run, int r)
{
    const struct record_remote *remote = run->remote;
    struct trace_repair repair = {0};
    char name[PATH_MAX];
    str_printable(name, sizeof(name), remote->out_name, strlen(remote->out_name));
    if (remote->config->trace->write_into_file && !remote->options->detach_key &&
        trace_repair(remote->output_fd, 0, &repair) == 0 && repair.bytes > 0) {
        err_set(run->err, r,
                "%s: the tracing service died; the %" PRIu64
                " bytes that it had written are a readable trace",
                name, repair.bytes);
        return;
    }
    err_set(run->err, r, "%s: no trace: the tracing service died, and the recording with it", name);
    err_hint(run->err, r,
             "-s SIZE, or write_into_file in a config, writes the trace during the recording");
}

static bool is_lost(int r)
{
    return r == -ECONNRESET || r == -EPIPE;
}

int record_remote_run(struct ipc_client *client, struct record_remote *remote, struct err *err)
{
    struct run run = {
        .client = client,
        .remote = remote,
        .background = remote->background,
        .signals = remote->signals,
        .err = err,
        .shows = !remote->options->quiet && isatty(STDERR_FILENO),
        .began = nsec_now(CLOCK_MONOTONIC),
    };
    int r = run_session(&run);
    if (is_lost(r) && !run.ended)
        explain_loss(&run, r);
    remote->output_fd = close_fd(remote->output_fd);
    if (!remote->options->detach_key || r < 0)
        readout_remove_empty(remote->out_path);
    return r < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
}

// Detached sessions.

static int attach(struct run *run, const char *key)
{
    Pb__AttachRequest request = PB__ATTACH_REQUEST__INIT;
    request.key = (char *)(uintptr_t)key;
    return call(run, IPC_CONSUMER_ATTACH, &request.base, run->err);
}

// Requests a notification of the session's end.
static int watch_end(struct run *run)
{
    Pb__EnableTracingRequest request = PB__ENABLE_TRACING_REQUEST__INIT;
    request.has_attach_notification_only = request.attach_notification_only = true;
    return ipc_client_send(run->client, IPC_CONSUMER_ENABLE_TRACING, &request.base, -1,
                           &run->enable_id, run->err);
}

int record_remote_attach(const struct record_options *options, struct signals *signals,
                         struct err *err)
{
    struct ipc_client *client CLEANUP(ipc_client_freep) = NULL;
    int r = remote_connect_consumer(&client, err);
    if (r < 0)
        return PROGRAM_FAILED;
    struct run run = {.client = client, .signals = signals, .err = err};
    bool only_asks = options->action == RECORD_ACTION_IS_DETACHED;
    r = attach(&run, options->key);
    if (r == -EREMOTEIO) {
        *err = (struct err){0};
        if (!only_asks)
            err_set(err, r, "no session is detached as \"%s\"", options->key);
        return CLI_NOT_DETACHED;
    }
    if (r == 0 && only_asks)
        return detach(&run, options->key) < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
    if (r == 0)
        r = watch_end(&run);
    if (r == 0 && options->stop)
        send_stop(&run);
    if (r == 0)
        r = wait_for_end(&run);
    struct session_counts counts;
    if (r == 0 && ask_counts(&run, &counts))
        r = tell_problem(&run);
    if (run.ended)
        remote_free_buffers(client);
    return r < 0 ? PROGRAM_FAILED : PROGRAM_DONE;
}
