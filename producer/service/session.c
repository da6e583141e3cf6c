// SPDX-License-Identifier: Apache-2.0
//
// What can happen to a session and what it does then is one table, transitions[]. Everything that
// happens, a call from outside, a time that has come, a file that is full, goes through
// session_event() as an event; one that has no row for the present state is ignored. An action runs
// after the state has changed and may itself cause events.
//
// A session has several times to keep (enum due) but one timer, set to the earliest of them. A test
// or another kind of owner keeps that time itself: session_next_due(), session_run_due().
#include "producer/service/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "producer/service/service_packets.h"
#include "producer/service/session_output.h"
#include "producer/service/session_reader.h"
#include "producer/service/source_set.h"
#include "producer/trace/packet_buffer.h"
#include "protos/fields.h"

#define RETRY_PERIOD (10 * NSEC_PER_MSEC)

enum session_event {
    EVENT_START,
    EVENT_STOP,
    EVENT_ABORT,
    EVENT_DURATION_OVER,
    EVENT_SOURCE_OVER,
    EVENT_FLUSH_DUE,
    EVENT_CLEAR_DUE,
    EVENT_SNAPSHOT_DUE,
    EVENT_WRITE_DUE,
    EVENT_SLICE_DUE,
    EVENT_WRITTEN,
    EVENT_FILE_ENDED, // full, or it failed
};

// The order is that in which they come when several are due at once.
enum due {
    DUE_DURATION,
    DUE_SOURCE,
    DUE_CLEAR,
    DUE_SNAPSHOT,
    DUE_FLUSH,
    DUE_WRITE,
    DUE_SLICE,
    N_DUE,
};

struct deadline {
    nsec_t at;     // NSEC_MAX: not set
    nsec_t period; // 0: once
};

struct session {
    struct session_env env;
    struct session_settings settings;
    Pb__TraceConfig *config; // owned
    uint8_t *config_bytes;   // owned
    size_t config_size;

    enum session_state state;
    struct deadline deadlines[N_DUE];
    struct loop_timer *timer; // owned

    struct packet_buffer **buffers; // owned, config->n_buffers of them
    struct source_set sources;
    struct service_packets packets;
    struct session_reader reader;
    struct packet_buffer_stats *buffer_stats; // owned, scratch for put_tail()
    uint64_t *writer_losses;                  // owned, likewise
    struct session_output output;

    nsec_t started_at, stopped_at; // boot time
    nsec_t started_at_awake;       // CLOCK_MONOTONIC, which stands still while the machine sleeps
    uint64_t flushes;
    bool final_flush_done;
    bool file_full;
    int result;
    struct err err; // of result
};

static void session_event(struct session *session, enum session_event event);

static nsec_t boot_now(const struct session *session)
{
    return clock_read(session->env.clock, CLOCK_BOOTTIME);
}

static void set_due(struct session *session, enum due due, nsec_t at, nsec_t period)
{
    session->deadlines[due] = (struct deadline){.at = at, .period = period};
}

static void set_periodic(struct session *session, enum due due, nsec_t period)
{
    if (period > 0)
        set_due(session, due, session->started_at + period, period);
}

static void clear_due(struct session *session)
{
    for (size_t i = 0; i < N_DUE; i++)
        set_due(session, i, NSEC_MAX, 0);
}

static void arm_timer(struct session *session)
{
    if (session->timer)
        loop_set_timer(session->timer, session_next_due(session), 0);
}

static void put_tail(void *userdata, struct packet_list *list)
{
    struct session *session = userdata;
    size_t n_classes = 0;
    while (session->env.classes[n_classes])
        n_classes++;
    for (size_t i = 0; i < session->config->n_buffers; i++) {
        packet_buffer_get_stats(session->buffers[i], &session->buffer_stats[i]);
        session->writer_losses[i] = source_set_writer_losses(&session->sources, i);
    }
    struct service_stats stats = {
        .buffers = session->buffer_stats,
        .writer_losses = session->writer_losses,
        .n_buffers = session->config->n_buffers,
        .n_classes = n_classes,
        .n_sources = session->sources.n,
        .n_flushes = session->flushes,
        .final_flush_done = session->final_flush_done,
    };
    if (session->state == SESSION_STOPPING)
        service_packets_event(&session->packets,
                              PB_TracingServiceEvent_read_tracing_buffers_completed);
    service_packets_put_tail(&session->packets, &stats, list);
}

// Actions.

static void flush_sources(struct session *session)
{
    service_packets_event(&session->packets, PB_TracingServiceEvent_flush_started);
    source_set_flush(&session->sources);
    session->flushes++;
    service_packets_event(&session->packets, PB_TracingServiceEvent_all_data_sources_flushed);
}

static void clear_state(struct session *session)
{
    source_set_clear_state(&session->sources);
}

static void take_snapshot(struct session *session)
{
    session->packets.sync_due = true;
    service_packets_snapshot(&session->packets);
}

static void stop_due_sources(struct session *session)
{
    nsec_t next = source_set_stop_due(&session->sources, boot_now(session));
    set_due(session, DUE_SOURCE, next, 0);
}

static void begin_write_out(struct session *session)
{
    bool recording = session->state == SESSION_STARTED;
    if (!session->output.file || (recording && session_reader_active(&session->reader)))
        return;
    if (recording && session->settings.flush_on_write)
        flush_sources(session);
    service_packets_snapshot(&session->packets);
    session_reader_begin(&session->reader);
    set_due(session, DUE_SLICE, boot_now(session), 0);
}

static void write_slice(struct session *session)
{
    int r = session_output_write(&session->output, &session->reader, &session->err);
    switch (r) {
    case SESSION_OUTPUT_DONE:
        session_event(session, EVENT_WRITTEN);
        break;
    case SESSION_OUTPUT_MORE:
        set_due(session, DUE_SLICE, boot_now(session), 0);
        break;
    case SESSION_OUTPUT_WAITS:
        break;
    case SESSION_OUTPUT_BLOCKED:
        set_due(session, DUE_SLICE, boot_now(session) + RETRY_PERIOD, 0);
        break;
    default:
        session->file_full = r == SESSION_OUTPUT_FULL;
        session->result = r < 0 ? r : 0;
        session_event(session, EVENT_FILE_ENDED);
    }
}

static void output_goes_on(void *userdata)
{
    struct session *session = userdata;
    session_event(session, EVENT_SLICE_DUE);
    arm_timer(session);
}

static void begin_recording(struct session *session)
{
    const struct session_settings *settings = &session->settings;
    if (settings->duration > 0)
        set_due(session, DUE_DURATION, session->started_at + settings->duration, 0);
    set_periodic(session, DUE_CLEAR, settings->clear_period);
    set_periodic(session, DUE_SNAPSHOT, settings->snapshot_period);
    set_periodic(session, DUE_FLUSH, settings->flush_period);
    if (settings->write_into_file)
        set_periodic(session, DUE_WRITE, settings->write_period);
    stop_due_sources(session);
}

static void stop_sources(struct session *session)
{
    source_set_stop(&session->sources);
    session->stopped_at = boot_now(session);
    clear_due(session);
}

static void finish_recording(struct session *session)
{
    flush_sources(session);
    session->final_flush_done = true;
    stop_sources(session);
    service_packets_event(&session->packets, PB_TracingServiceEvent_tracing_disabled);
    if (session->output.file)
        begin_write_out(session);
    else
        session_event(session, EVENT_WRITTEN);
}

static void end(struct session *session)
{
    clear_due(session);
    if (session->result == 0)
        session->result = session_output_close(&session->output, true, &session->err);
    else
        session_output_close(&session->output, false, NULL);
    if (session->env.ended)
        session->env.ended(session->env.userdata, session);
}

static void end_early(struct session *session)
{
    stop_sources(session);
    end(session);
}

// The machine. Rows of the same event are told apart by the state.
static const struct transition {
    enum session_event event;
    enum session_state from, to;
    void (*action)(struct session *session); // NULL: none
} transitions[] = {
    {EVENT_START, SESSION_CONFIGURED, SESSION_STARTED, begin_recording},

    {EVENT_SOURCE_OVER, SESSION_STARTED, SESSION_STARTED, stop_due_sources},
    {EVENT_FLUSH_DUE, SESSION_STARTED, SESSION_STARTED, flush_sources},
    {EVENT_CLEAR_DUE, SESSION_STARTED, SESSION_STARTED, clear_state},
    {EVENT_SNAPSHOT_DUE, SESSION_STARTED, SESSION_STARTED, take_snapshot},
    {EVENT_WRITE_DUE, SESSION_STARTED, SESSION_STARTED, begin_write_out},
    {EVENT_SLICE_DUE, SESSION_STARTED, SESSION_STARTED, write_slice},
    {EVENT_WRITTEN, SESSION_STARTED, SESSION_STARTED, NULL},

    {EVENT_DURATION_OVER, SESSION_STARTED, SESSION_STOPPING, finish_recording},
    {EVENT_STOP, SESSION_STARTED, SESSION_STOPPING, finish_recording},
    {EVENT_SLICE_DUE, SESSION_STOPPING, SESSION_STOPPING, write_slice},
    {EVENT_WRITTEN, SESSION_STOPPING, SESSION_DONE, end},

    {EVENT_FILE_ENDED, SESSION_STARTED, SESSION_DONE, end_early},
    {EVENT_FILE_ENDED, SESSION_STOPPING, SESSION_DONE, end},
    {EVENT_STOP, SESSION_CONFIGURED, SESSION_DONE, end},
    {EVENT_ABORT, SESSION_CONFIGURED, SESSION_DONE, end},
    {EVENT_ABORT, SESSION_STARTED, SESSION_DONE, end_early},
    {EVENT_ABORT, SESSION_STOPPING, SESSION_DONE, end},
};

static void session_event(struct session *session, enum session_event event)
{
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        const struct transition *row = &transitions[i];
        if (row->event != event || row->from != session->state)
            continue;
        session->state = row->to;
        if (row->action)
            row->action(session);
        return;
    }
}

// Time.

// Unless the config says otherwise, time asleep does not count: what is missing is waited for.
static bool duration_is_over(struct session *session)
{
    if (session->settings.duration_counts_suspend)
        return true;
    nsec_t awake = clock_read(session->env.clock, CLOCK_MONOTONIC) - session->started_at_awake;
    nsec_t missing = session->settings.duration - awake;
    if (missing <= 0)
        return true;
    set_due(session, DUE_DURATION, boot_now(session) + missing, 0);
    return false;
}

nsec_t session_next_due(const struct session *session)
{
    nsec_t next = NSEC_MAX;
    for (size_t i = 0; i < N_DUE; i++)
        if (session->deadlines[i].at < next)
            next = session->deadlines[i].at;
    return next;
}

void session_run_due(struct session *session)
{
    static const enum session_event events[N_DUE] = {
        [DUE_DURATION] = EVENT_DURATION_OVER, [DUE_SOURCE] = EVENT_SOURCE_OVER,
        [DUE_CLEAR] = EVENT_CLEAR_DUE,        [DUE_SNAPSHOT] = EVENT_SNAPSHOT_DUE,
        [DUE_FLUSH] = EVENT_FLUSH_DUE,        [DUE_WRITE] = EVENT_WRITE_DUE,
        [DUE_SLICE] = EVENT_SLICE_DUE,
    };
    nsec_t now = boot_now(session);
    for (enum due due = 0; due < N_DUE; due++) {
        struct deadline *deadline = &session->deadlines[due];
        if (deadline->at > now)
            continue;
        // Periods stay on their grid; those that were slept through are not made up for.
        if (deadline->period > 0)
            deadline->at += ((now - deadline->at) / deadline->period + 1) * deadline->period;
        else
            deadline->at = NSEC_MAX;
        if (due != DUE_DURATION || duration_is_over(session))
            session_event(session, events[due]);
    }
    arm_timer(session);
}

static void timer_fired(void *userdata, nsec_t due, uint64_t n_due)
{
    (void)due;
    (void)n_due;
    session_run_due(userdata);
}

// Life.

static int make_buffers(struct session *session, struct err *err)
{
    const Pb__TraceConfig *config = session->config;
    size_t n = config->n_buffers;
    session->buffers = calloc(n, sizeof(session->buffers[0]));
    session->buffer_stats = calloc(n, sizeof(session->buffer_stats[0]));
    session->writer_losses = calloc(n, sizeof(session->writer_losses[0]));
    if (!session->buffers || !session->buffer_stats || !session->writer_losses)
        return err_errno(err, -ENOMEM, "buffers");
    for (size_t i = 0; i < n; i++) {
        const Pb__TraceConfig__BufferConfig *buffer = config->buffers[i];
        uint64_t size = (uint64_t)buffer->size_kb * 1024;
        if (size < CONFIG_BUFFER_KB_MIN * 1024)
            size = CONFIG_BUFFER_KB_MIN * 1024;
        if (size > SIZE_MAX / 2)
            return err_set(err, -EINVAL, "buffers[%zu]: size_kb %u is not usable", i,
                           buffer->size_kb);
        bool discard = buffer->fill_policy == PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD;
        int r =
            packet_buffer_new((size_t)size, discard ? PACKET_BUFFER_DISCARD : PACKET_BUFFER_RING,
                              &session->buffers[i], err);
        if (r < 0)
            return err_prefix(err, r, "buffers[%zu]", i);
    }
    return 0;
}

// The bytes go into the trace; what is unpacked from them is the session's own.
static int copy_config(struct session *session, const struct config *config, struct err *err)
{
    session->config_size = config->size;
    session->config_bytes = malloc(config->size + 1);
    if (!session->config_bytes)
        return err_errno(err, -ENOMEM, "trace config");
    memcpy(session->config_bytes, config->bytes, config->size);
    session->config = pb__trace_config__unpack(NULL, config->size, session->config_bytes);
    if (!session->config)
        return err_errno(err, -ENOMEM, "trace config");
    config_mend_texts(session->config_bytes, session->config_size);
    return 0;
}

static int configure(struct session *session, const struct config *config, struct err *err)
{
    int r = copy_config(session, config, err);
    if (r == 0)
        r = session_settings_read(session->config, &session->settings, err);
    if (r == 0 && session->config->n_buffers == 0)
        r = err_set(err, -EINVAL, "the config has no buffers");
    if (r == 0)
        r = make_buffers(session, err);
    if (r < 0)
        return r;
    service_packets_init(&session->packets, session->env.clock, &session->settings,
                         session->config_bytes, session->config_size);
    session->reader = (struct session_reader){
        .packets = &session->packets,
        .buffers = session->buffers,
        .n_buffers = session->config->n_buffers,
        .put_tail = put_tail,
        .userdata = session,
    };
    session->output = (struct session_output){
        .loop = session->env.loop,
        .goes_on = output_goes_on,
        .userdata = session,
    };
    struct source_set_env sources = {
        .loop = session->env.loop,
        .log = session->env.log,
        .roots = session->env.roots,
        .classes = session->env.classes,
        .buffers = session->buffers,
        .required = session->env.required_source,
    };
    r = source_set_open(&session->sources, &sources, session->config, err);
    if (r < 0 || !session->env.loop)
        return r;
    r = loop_add_timer(session->env.loop, NSEC_MAX, 0, timer_fired, session, &session->timer);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

int session_new(const struct session_env *env, const struct config *config, struct session **ret,
                struct err *err)
{
    struct session *session = calloc(1, sizeof(*session));
    if (!session)
        return err_errno(err, -ENOMEM, "session");
    session->env = *env;
    clear_due(session);
    int r = configure(session, config, err);
    if (r < 0) {
        session_free(session);
        return r;
    }
    *ret = session;
    return 0;
}

struct session *session_free(struct session *session)
{
    if (!session)
        return NULL;
    int saved = errno;
    source_set_done(&session->sources);
    session_output_close(&session->output, false, NULL);
    if (session->timer)
        loop_remove_timer(session->timer);
    session_reader_done(&session->reader);
    for (size_t i = 0; session->buffers && i < session->config->n_buffers; i++)
        packet_buffer_free(session->buffers[i]);
    free(session->buffers);
    free(session->buffer_stats);
    free(session->writer_losses);
    free(session->config_bytes);
    if (session->config)
        pb__trace_config__free_unpacked(session->config, NULL);
    free(session);
    errno = saved;
    return NULL;
}

const struct session_settings *session_get_settings(const struct session *session)
{
    return &session->settings;
}

void session_set_file(struct session *session, struct trace_file *file)
{
    session->output.file = file;
}

int session_start(struct session *session, struct err *err)
{
    if (session->state != SESSION_CONFIGURED)
        return err_set(err, -EALREADY, "the session was started before");
    session->started_at = boot_now(session);
    session->started_at_awake = clock_read(session->env.clock, CLOCK_MONOTONIC);
    service_packets_snapshot(&session->packets);
    service_packets_event(&session->packets, PB_TracingServiceEvent_tracing_started);
    int r = source_set_start(&session->sources, session->started_at, err);
    if (r < 0)
        return r;
    service_packets_event(&session->packets, PB_TracingServiceEvent_all_data_sources_started);
    session_event(session, EVENT_START);
    arm_timer(session);
    return 0;
}

void session_stop(struct session *session)
{
    session_event(session, EVENT_STOP);
    arm_timer(session);
}

void session_abort(struct session *session)
{
    session_event(session, EVENT_ABORT);
    arm_timer(session);
}

enum session_state session_get_state(const struct session *session)
{
    return session->state;
}

int session_result(const struct session *session, struct err *err)
{
    if (session->result < 0 && err)
        *err = session->err;
    return session->result;
}

void session_get_counts(const struct session *session, struct session_counts *ret)
{
    struct source_counts sources;
    source_set_counts(&session->sources, &sources);
    *ret = (struct session_counts){
        .events = sources.events,
        .events_lost = sources.events_lost,
        .file_bytes = session_output_bytes(&session->output),
        .file_full = session->file_full,
    };
    if (session->started_at > 0)
        ret->elapsed = (session->stopped_at > 0 ? session->stopped_at : boot_now(session)) -
                       session->started_at;
    for (size_t i = 0; i < session->config->n_buffers; i++) {
        struct packet_buffer_stats stats;
        packet_buffer_get_stats(session->buffers[i], &stats);
        ret->bytes += stats.bytes_written;
        ret->packets_overwritten += stats.packets_overwritten;
        ret->packets_discarded += stats.packets_discarded;
    }
}
