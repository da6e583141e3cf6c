// SPDX-License-Identifier: Apache-2.0
//
// The table transitions[] defines the reaction of a session to each event. All events (calls from
// outside, due times, a full file) go through session_event(). An event without a row for the
// present state and mode is ignored. An action runs after the change of the state and may cause
// further events.
//
// A session has several deadlines (enum due) but one timer, set to the earliest deadline. An owner
// without a loop, for example a test, watches this time itself: session_next_due(),
// session_run_due().
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/elements.h"
#include "producer/service/session/session_private.h"
#include "protos/fields.h"

#define RETRY_PERIOD   (10 * NSEC_PER_MSEC)
#define SYNC_PERIOD    (5 * NSEC_PER_SEC)
#define ROOM_DELAY_MIN NSEC_PER_SEC
#define ROOM_DELAY_MAX (60 * NSEC_PER_SEC)

// Returns the deadline `time` from now. By default, suspended time does not count.
static struct deadline deadline_in(const struct session *session, nsec_t time)
{
    struct deadline deadline = {.at = boot_now(session) + time};
    if (!session->settings.duration_counts_suspend)
        deadline.awake = clock_read(session->env.clock, CLOCK_MONOTONIC) + time;
    return deadline;
}

// Returns whether the deadline has come. If the machine has slept, the deadline is postponed by the
// missing time.
static bool deadline_has_come(const struct session *session, struct deadline *deadline)
{
    if (deadline->at > boot_now(session))
        return false;
    if (deadline->awake == 0)
        return true;
    nsec_t missing = deadline->awake - clock_read(session->env.clock, CLOCK_MONOTONIC);
    if (missing <= 0)
        return true;
    deadline->at = boot_now(session) + missing;
    return false;
}

bool session_has_trace(const struct session *session)
{
    return session->is_clone || session->settings.mode == SESSION_MODE_PLAIN ||
           (session->settings.mode != SESSION_MODE_CLONE && session->triggered);
}

static void set_periodic(struct session *session, enum due due, nsec_t period)
{
    if (period > 0)
        set_due(session, due, session->started_at + period, period);
}

void session_arm_timer(struct session *session)
{
    if (session->timer)
        loop_set_timer(session->timer, session_next_due(session), 0);
}

// Actions.

static void flush_at_end(struct session *session)
{
    service_packets_event(&session->packets, PB_TracingServiceEvent_flush_started);
    source_set_flush(&session->sources);
    session->flushes++;
    service_packets_event(&session->packets, PB_TracingServiceEvent_all_data_sources_flushed);
}

static void flush_sources(struct session *session)
{
    bool done = source_set_has_time(&session->sources);
    if (done) {
        service_packets_event(&session->packets, PB_TracingServiceEvent_flush_started);
        done = source_set_flush_in_share(&session->sources);
    }
    if (!done) {
        session->failed_flushes++;
        return;
    }
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
    if (session->packets.twin)
        session->packets.twin->sync_due = true;
    service_packets_snapshot(&session->packets);
}

void session_stop_due_sources(struct session *session)
{
    nsec_t next = source_set_stop_due(&session->sources, boot_now(session));
    set_due(session, DUE_SOURCE, next, 0);
}

static void decide_sync(struct session *session, bool recording)
{
    nsec_t now = boot_now(session);
    session->output.syncs =
        trace_file_has_disk(session->output.file) &&
        (!recording || now - session->synced_at >= SYNC_PERIOD || session_journal_syncs(session));
    if (session->output.syncs)
        session->synced_at = now;
}

static void begin_write_out(struct session *session)
{
    bool recording = session->state & SESSION_RECORDING;
    if (!session->output.file || !session_has_trace(session) ||
        (recording && (session_reader_active(&session->reader) || session->room_delay > 0)))
        return;
    if (recording && session->settings.flush_on_write)
        flush_sources(session);
    if (recording && session->journal)
        source_set_flush_in_share(&session->sources);
    service_packets_snapshot(&session->packets);
    if (session->journal)
        session_journal_prepare(session);
    decide_sync(session, recording);
    session_reader_begin(&session->reader);
    set_due(session, DUE_SLICE, boot_now(session), 0);
}

static void wait_for_room(struct session *session)
{
    const struct session_env *env = &session->env;
    int why = trace_file_no_room(session->output.file);
    if (env->make_room && env->make_room(env->userdata, session, why)) {
        set_due(session, DUE_SLICE, boot_now(session), 0);
        return;
    }
    if (session->journal && session_journal_goes_back(session)) {
        begin_write_out(session);
        return;
    }
    bool first = session->room_delay == 0;
    nsec_t delay = first ? ROOM_DELAY_MIN : 2 * session->room_delay;
    session->room_delay = delay < ROOM_DELAY_MAX ? delay : ROOM_DELAY_MAX;
    set_due(session, DUE_SLICE, boot_now(session) + session->room_delay, 0);
    if (first)
        session_tell(session, SERVICE_EVENT_NO_ROOM, why, NULL);
}

uint64_t session_unwritten_bytes(const struct session *session)
{
    struct session_buffers_sum sum = session_buffers_sum(&session->buffers);
    uint64_t bytes = sum.written > session->bytes_taken ? sum.written - session->bytes_taken : 0;
    struct trace_file_stats stats = {0};
    if (session->output.file)
        trace_file_get_stats(session->output.file, &stats);
    return (bytes < sum.size ? bytes : sum.size) + stats.bytes_waiting;
}

static void all_is_written(struct session *session)
{
    if (session->room_delay > 0)
        session_tell(session, SERVICE_EVENT_WRITING, 0, NULL);
    session->room_delay = 0;
    session->bytes_taken = session_buffers_sum(&session->buffers).written;
    if (session->journal)
        session_journal_written(session);
}

static void write_slice(struct session *session)
{
    int r = session_output_write(&session->output, &session->reader, &session->err);
    switch (r) {
    case SESSION_OUTPUT_NO_ROOM:
        wait_for_room(session);
        break;
    case SESSION_OUTPUT_DONE:
        all_is_written(session);
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

static void begin_waiting(struct session *session)
{
    session->deadlines[DUE_TIMEOUT] = deadline_in(session, session->settings.trigger_timeout);
}

// Nothing is written before the trigger, because a session may wait for its trigger for months.
static void begin_journal(struct session *session)
{
    if (session->journal && session_has_trace(session))
        set_periodic(session, DUE_WRITE, JOURNAL_PERIOD);
}

static void set_dues(struct session *session)
{
    const struct session_settings *settings = &session->settings;
    clear_due(session);
    if (settings->duration > 0)
        session->deadlines[DUE_DURATION] = deadline_in(session, settings->duration);
    if (settings->mode == SESSION_MODE_STOP || settings->mode == SESSION_MODE_CLONE)
        begin_waiting(session);
    set_periodic(session, DUE_CLEAR, settings->clear_period);
    set_periodic(session, DUE_SNAPSHOT, settings->snapshot_period);
    set_periodic(session, DUE_FLUSH, settings->flush_period);
    if (settings->write_into_file)
        set_periodic(session, DUE_WRITE, settings->write_period);
    begin_journal(session);
    session_stop_due_sources(session);
}

void session_tell_all_started(void *userdata)
{
    struct session *session = userdata;
    if (session->all_started_told || !(session->state & SESSION_RECORDING) ||
        !source_set_is_begun(&session->sources))
        return;
    session->all_started_told = true;
    service_packets_event(&session->packets, PB_TracingServiceEvent_all_data_sources_started);
    session_tell(session, SERVICE_EVENT_ALL_STARTED, 0, NULL);
}

static void begin_recording(struct session *session)
{
    set_dues(session);
    session_tell(session, SERVICE_EVENT_STARTED, 0, NULL);
    session_tell_all_started(session);
}

int session_start_sources(struct session *session, struct err *err)
{
    session->started_at = boot_now(session);
    service_packets_snapshot(&session->packets);
    service_packets_event(&session->packets, PB_TracingServiceEvent_tracing_started);
    return source_set_start(&session->sources, session->started_at, err);
}

// Ends the session after stop_delay_ms. A delay of 0 ends a STOP_TRACING session at once. A
// START_TRACING session then has no end.
static void begin_stop_delay(struct session *session)
{
    session->triggered = true;
    set_due(session, DUE_TIMEOUT, NSEC_MAX, 0);
    nsec_t delay = (nsec_t)session->hit->stop_delay_ms * NSEC_PER_MSEC;
    if (delay > 0 || session->settings.mode == SESSION_MODE_STOP)
        session->deadlines[DUE_DELAY] = deadline_in(session, delay);
    begin_journal(session);
}

static void start_by_trigger(struct session *session)
{
    session->result = session_start_sources(session, &session->err);
    if (session->result < 0) {
        session_event(session, EVENT_ABORT);
        return;
    }
    set_dues(session);
    begin_stop_delay(session);
    session_tell(session, SERVICE_EVENT_STARTED, 0, session->hit);
    session_tell_all_started(session);
}

static void remember_trigger(struct session *session)
{
    session->triggered = true;
    begin_journal(session);
}

static void set_clone_due(struct session *session)
{
    nsec_t next = NSEC_MAX;
    for (size_t i = 0; i < session->n_clones; i++)
        if (session->clones[i].due.at < next)
            next = session->clones[i].due.at;
    set_due(session, DUE_CLONE, next, 0);
}

// Returns whether users who are not trusted have ordered too many snapshots, so that the rest stays
// for others.
static bool is_crowded(const struct session *session)
{
    size_t n = 0;
    if (session->hit->producer_uid == 0 || session->hit->producer_uid == geteuid())
        return false;
    for (size_t i = 0; i < session->n_clones; i++)
        n += session->clones[i].hit.producer_uid != 0 &&
             session->clones[i].hit.producer_uid != geteuid();
    return n >= PENDING_CLONES_MAX / 4;
}

static void plan_clone(struct session *session)
{
    struct pending_clone *clone = &session->clones[session->n_clones];
    session->triggered = true;
    if (session->n_clones == PENDING_CLONES_MAX || is_crowded(session) ||
        trigger_hit_copy(session->hit, &clone->hit) < 0) {
        // Any user may fire triggers at any rate, so the log has one line.
        if (!session->overflow_told)
            log_warning(session->env.log,
                        "too many triggers wait for their snapshots, some are left out");
        session->overflow_told = true;
        return;
    }
    session->overflow_told = false;
    clone->due = deadline_in(session, (nsec_t)session->hit->stop_delay_ms * NSEC_PER_MSEC);
    session->n_clones++;
    set_clone_due(session);
}

static bool take_due_clone(struct session *session, struct service_trigger_hit *ret)
{
    for (size_t i = 0; i < session->n_clones; i++) {
        if (!deadline_has_come(session, &session->clones[i].due))
            continue;
        *ret = session->clones[i].hit;
        session->n_clones--;
        memmove(&session->clones[i], &session->clones[i + 1],
                (session->n_clones - i) * sizeof(session->clones[0]));
        return true;
    }
    return false;
}

static void announce_clones(struct session *session)
{
    struct service_trigger_hit hit;
    // A callback may end the session.
    while (session->state == SESSION_STARTED && take_due_clone(session, &hit)) {
        session_tell(session, SERVICE_EVENT_CLONE_TRIGGERED, 0, &hit);
        trigger_hit_done(&hit);
    }
    if (session->state == SESSION_STARTED)
        set_clone_due(session);
}

static void stop_sources(struct session *session)
{
    source_set_stop(&session->sources);
    session->stopped_at = boot_now(session);
    for (size_t i = 0; i < session->buffers.n; i++)
        packet_buffer_release_consumed(session->buffers.items[i]);
    clear_due(session);
}

static void finish_recording(struct session *session)
{
    flush_at_end(session);
    session->final_flush_done = true;
    stop_sources(session);
    session->room_delay = 0; // the next attempt follows at once, and is logged again
    service_packets_event(&session->packets, PB_TracingServiceEvent_tracing_disabled);
    if (session->output.file)
        begin_write_out(session);
    else
        session_event(session, EVENT_WRITTEN);
}

static void end(struct session *session)
{
    clear_due(session);
    if (session->result == 0 && !session_has_trace(session))
        session->result = SESSION_E_NO_TRACE;
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

// Takes the pending snapshots now, without the rest of their delay.
static void end_with_snapshots(struct session *session)
{
    for (size_t i = 0; i < session->n_clones; i++)
        session->clones[i].due = (struct deadline){0};
    announce_clones(session);
    if (session->state == SESSION_STARTED) {
        session->state = SESSION_DONE;
        end_early(session);
    }
}

#define ANY_MODE 0xff
#define PLAIN    (1 << SESSION_MODE_PLAIN)
#define START    (1 << SESSION_MODE_START)
#define STOP     (1 << SESSION_MODE_STOP)
#define CLONE    (1 << SESSION_MODE_CLONE)
#define THE_SAME 0

// The state machine. The first row that matches event, state and mode applies.
static const struct transition {
    enum session_event event;
    unsigned from;  // set of enum session_state
    unsigned modes; // set of modes
    enum session_state to;
    void (*action)(struct session *session); // NULL: none
} transitions[] = {
    // Before the start.
    {EVENT_ARM, SESSION_CONFIGURED, START, SESSION_ARMED, begin_waiting},
    {EVENT_START, SESSION_CONFIGURED | SESSION_ARMED, ANY_MODE, SESSION_STARTED, begin_recording},
    {EVENT_TRIGGER, SESSION_ARMED, START, SESSION_TRIGGERED, start_by_trigger},
    {EVENT_TIMEOUT, SESSION_ARMED, START, SESSION_DONE, end},
    {EVENT_STOP, SESSION_CONFIGURED | SESSION_ARMED, ANY_MODE, SESSION_DONE, end},

    // Triggers during a recording. Late triggers have no effect.
    {EVENT_TRIGGER, SESSION_STARTED, START, SESSION_TRIGGERED, remember_trigger},
    {EVENT_TRIGGER, SESSION_STARTED, STOP, SESSION_TRIGGERED, begin_stop_delay},
    {EVENT_TRIGGER, SESSION_STARTED, CLONE, THE_SAME, plan_clone},
    {EVENT_CLONE_DUE, SESSION_STARTED, CLONE, THE_SAME, announce_clones},

    // Periodic events.
    {EVENT_SOURCE_OVER, SESSION_RECORDING, ANY_MODE, THE_SAME, session_stop_due_sources},
    {EVENT_FLUSH_DUE, SESSION_RECORDING, ANY_MODE, THE_SAME, flush_sources},
    {EVENT_CLEAR_DUE, SESSION_RECORDING, ANY_MODE, THE_SAME, clear_state},
    {EVENT_SNAPSHOT_DUE, SESSION_RECORDING, ANY_MODE, THE_SAME, take_snapshot},
    {EVENT_WRITE_DUE, SESSION_RECORDING, ANY_MODE, THE_SAME, begin_write_out},
    {EVENT_SLICE_DUE, SESSION_RECORDING | SESSION_STOPPING, ANY_MODE, THE_SAME, write_slice},
    {EVENT_WRITTEN, SESSION_RECORDING, ANY_MODE, THE_SAME, NULL},

    // The end. The session has a trace if it awaited no trigger, or if the trigger has come.
    {EVENT_DURATION_OVER, SESSION_STARTED, PLAIN, SESSION_STOPPING, finish_recording},
    {EVENT_DELAY_OVER, SESSION_TRIGGERED, START | STOP, SESSION_STOPPING, finish_recording},
    {EVENT_TIMEOUT, SESSION_STARTED, STOP | CLONE, SESSION_DONE, end_early},
    {EVENT_STOP, SESSION_STARTED, PLAIN, SESSION_STOPPING, finish_recording},
    {EVENT_STOP, SESSION_STARTED, CLONE, THE_SAME, end_with_snapshots},
    {EVENT_STOP, SESSION_STARTED, START | STOP, SESSION_DONE, end_early},
    {EVENT_STOP, SESSION_TRIGGERED, START | STOP, SESSION_STOPPING, finish_recording},
    {EVENT_WRITTEN, SESSION_STOPPING, ANY_MODE, SESSION_DONE, end},

    // The end by a failure.
    {EVENT_FILE_ENDED, SESSION_RECORDING, ANY_MODE, SESSION_DONE, end_early},
    {EVENT_FILE_ENDED, SESSION_STOPPING, ANY_MODE, SESSION_DONE, end},
    {EVENT_ABORT, SESSION_CONFIGURED | SESSION_ARMED, ANY_MODE, SESSION_DONE, end},
    {EVENT_ABORT, SESSION_RECORDING, ANY_MODE, SESSION_DONE, end_early},
    {EVENT_ABORT, SESSION_STOPPING, ANY_MODE, SESSION_DONE, end},
};

static const struct transition *find_transition(const struct session *session,
                                                enum session_event event)
{
    for (size_t i = 0; i < ELEMENTS(transitions); i++) {
        const struct transition *row = &transitions[i];
        if (row->event == event && (row->from & session->state) &&
            (row->modes & 1u << session->settings.mode))
            return row;
    }
    return NULL;
}

bool session_event_matters(const struct session *session, enum session_event event)
{
    return find_transition(session, event);
}

void session_event(struct session *session, enum session_event event)
{
    const struct transition *row = find_transition(session, event);
    if (!row)
        return;
    if (row->to != THE_SAME)
        session->state = row->to;
    if (row->action)
        row->action(session);
}

// Time.

nsec_t session_next_due(const struct session *session)
{
    nsec_t next = NSEC_MAX;
    for (size_t i = 0; i < N_DUE; i++)
        if (session->deadlines[i].at < next)
            next = session->deadlines[i].at;
    return next;
}

nsec_t session_end_due(const struct session *session)
{
    static const enum due ends[] = {DUE_DELAY, DUE_TIMEOUT, DUE_DURATION};
    nsec_t end = NSEC_MAX;
    for (size_t i = 0; i < ELEMENTS(ends); i++)
        if (session->deadlines[ends[i]].at < end)
            end = session->deadlines[ends[i]].at;
    return end;
}

void session_run_due(struct session *session)
{
    static const enum session_event events[N_DUE] = {
        [DUE_CLONE] = EVENT_CLONE_DUE,       [DUE_DELAY] = EVENT_DELAY_OVER,
        [DUE_TIMEOUT] = EVENT_TIMEOUT,       [DUE_DURATION] = EVENT_DURATION_OVER,
        [DUE_SOURCE] = EVENT_SOURCE_OVER,    [DUE_CLEAR] = EVENT_CLEAR_DUE,
        [DUE_SNAPSHOT] = EVENT_SNAPSHOT_DUE, [DUE_FLUSH] = EVENT_FLUSH_DUE,
        [DUE_WRITE] = EVENT_WRITE_DUE,       [DUE_SLICE] = EVENT_SLICE_DUE,
    };
    nsec_t now = boot_now(session);
    for (enum due due = 0; due < N_DUE; due++) {
        struct deadline *deadline = &session->deadlines[due];
        if (!deadline_has_come(session, deadline))
            continue;
        // Periods stay on their grid; missed times are not made up for.
        if (deadline->period > 0)
            deadline->at += ((now - deadline->at) / deadline->period + 1) * deadline->period;
        else
            deadline->at = NSEC_MAX;
        session_event(session, events[due]);
    }
    session_arm_timer(session);
}

static void timer_fired(void *userdata)
{
    session_run_due(userdata);
}

int session_make_timer(struct session *session, struct err *err)
{
    if (!session->env.loop)
        return 0;
    int r = loop_add_timer(session->env.loop, NSEC_MAX, 0, timer_fired, session, &session->timer);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}
