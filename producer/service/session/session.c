// SPDX-License-Identifier: Apache-2.0
//
// The life of a session, and its interface. All events of a session go to the state machine
// (session_machine.c).
//
// An armed session has open sources, a single timer (of the timeout), and touched memory for the
// first data of its buffers, because memory is short at the trigger. Until then the session uses no
// processor time; the trigger costs only the start itself.
//
// One flag decides whether a session leaves a trace: a session with triggers leaves a trace if the
// awaited trigger has come. A session for snapshots never leaves a trace, only its snapshots.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/memory.h"
#include "producer/service/session/session_private.h"
#include "protos/fields.h"

void session_update_buffer_stats(struct session *session)
{
    for (size_t i = 0; !session->is_clone && i < session->buffers.n; i++) {
        packet_buffer_get_stats(session->buffers.items[i], &session->buffer_stats[i]);
        session->writer_losses[i] = source_set_writer_losses(&session->sources, i);
    }
}

static struct service_stats get_stats(struct session *session)
{
    size_t n_classes = 0;
    while (session->env.classes[n_classes])
        n_classes++;
    session_update_buffer_stats(session);
    return (struct service_stats){
        .buffers = session->buffer_stats,
        .writer_losses = session->writer_losses,
        .n_buffers = session->buffers.n,
        .n_classes = n_classes,
        .n_sources = session->sources.n,
        .n_flushes = session->flushes,
        .n_failed_flushes = session->failed_flushes,
        .final_flush_done = session->final_flush_done,
    };
}

static void put_tail(void *userdata, struct packet_list *list)
{
    struct session *session = userdata;
    struct service_stats stats = get_stats(session);
    bool is_over = session->state & (SESSION_STOPPING | SESSION_DONE);
    if (is_over)
        service_packets_event(session->reader.packets,
                              PB_TracingServiceEvent_read_tracing_buffers_completed);
    if (is_over || !session->journal || session->journal->n_tails++ % JOURNAL_WRITES_PER_STATS == 0)
        service_packets_put_tail(session->reader.packets, &stats, list);
}

static void output_goes_on(void *userdata)
{
    struct session *session = userdata;
    session_event(session, EVENT_SLICE_DUE);
    session_arm_timer(session);
}

int session_make_scratch(struct session *session, struct err *err)
{
    size_t n = session_buffers_count(session->config) + 1;
    session->buffer_stats = memory_calloc(n, sizeof(session->buffer_stats[0]));
    session->writer_losses = memory_calloc(n, sizeof(session->writer_losses[0]));
    return session->buffer_stats && session->writer_losses ? 0 : err_errno(err, -ENOMEM, "buffers");
}

// The bytes go into the trace. The session owns the message that is unpacked from the bytes.
int session_copy_config(struct session *session, const uint8_t *bytes, size_t size, struct err *err)
{
    session->config_size = size;
    session->config_bytes = memory_malloc(size + 1);
    if (!session->config_bytes)
        return err_errno(err, -ENOMEM, "trace config");
    memcpy(session->config_bytes, bytes, size);
    session->config = pb__trace_config__unpack(NULL, size, session->config_bytes);
    if (!session->config)
        return err_errno(err, -ENOMEM, "trace config");
    config_mend_texts(session->config_bytes, session->config_size);
    return 0;
}

int session_connect_parts(struct session *session, struct err *err)
{
    service_packets_init(&session->packets, session->env.clock, &session->settings,
                         session->config_bytes, session->config_size);
    session->reader = (struct session_reader){
        .packets = &session->packets,
        .buffers = session->buffers.items,
        .n_buffers = session->buffers.n,
        .put_tail = put_tail,
        .userdata = session,
    };
    session->output = (struct session_output){
        .loop = session->env.loop,
        .goes_on = output_goes_on,
        .userdata = session,
    };
    int r = service_packets_reserve(&session->packets, session->buffers.n, &session->reader.list);
    return r < 0 ? err_errno(err, r, "session") : 0;
}

static struct source_set_env sources_env(struct session *session)
{
    return (struct source_set_env){
        .loop = session->env.loop,
        .log = session->env.log,
        .roots = session->env.roots,
        .requester = session->env.requester,
        .shares = session->env.shares,
        .classes = session->env.classes,
        .buffers = session->buffers.items,
        .required = session->env.required_source,
        .title = session->env.title,
        .rest_begun = session_tell_all_started,
        .userdata = session,
    };
}

static int configure(struct session *session, const struct config *config, struct err *err)
{
    int r = session_copy_config(session, config->bytes, config->size, err);
    if (r == 0)
        r = session_settings_read(session->config, &session->settings, err);
    if (r == 0 && session->config->n_buffers == 0)
        r = err_set(err, -EINVAL, "the config has no buffers");
    if (r == 0)
        r = session_buffers_make(session->config, NULL, &session->buffers, err);
    if (r == 0)
        r = session_make_scratch(session, err);
    if (r < 0)
        return r;
    if (session->env.ignore_triggers)
        session->settings.mode = SESSION_MODE_PLAIN;
    r = session_connect_parts(session, err);
    if (r < 0)
        return r;
    struct source_set_env sources = sources_env(session);
    r = source_set_open(&session->sources, &sources, session->config, err);
    return r < 0 ? r : session_make_timer(session, err);
}

int session_new(const struct session_env *env, const struct config *config, struct session **ret,
                struct err *err)
{
    struct session *session = memory_calloc(1, sizeof(*session));
    if (!session)
        return err_errno(err, -ENOMEM, "session");
    session->env = *env;
    session->state = SESSION_CONFIGURED;
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
    loop_remove_timer(session->timer);
    session_reader_done(&session->reader);
    session->journal = session_journal_free(session->journal);
    service_packets_done(&session->packets);
    for (size_t i = 0; i < session->n_clones; i++)
        trigger_hit_done(&session->clones[i].hit);
    session_buffers_done(&session->buffers);
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
    trace_file_set_ready(file, output_goes_on, session);
}

int session_arm(struct session *session, struct err *err)
{
    if (session->state != SESSION_CONFIGURED || session->settings.mode != SESSION_MODE_START)
        return err_set(err, -EINVAL, "the session has no trigger to wait for");
    source_set_prepare(&session->sources, 0);
    if (!session->settings.write_into_file)
        session_buffers_touch(&session->buffers);
    session_event(session, EVENT_ARM);
    session_arm_timer(session);
    return 0;
}

int session_start(struct session *session, struct err *err)
{
    if (!(session->state & (SESSION_CONFIGURED | SESSION_ARMED)))
        return err_set(err, -EALREADY, "the session was started before");
    // A session that writes continuously reuses the same few pages.
    if (session->state == SESSION_CONFIGURED && !session->settings.write_into_file)
        session_buffers_touch(&session->buffers);
    int r = session_start_sources(session, err);
    if (r < 0)
        return r;
    session_event(session, EVENT_START);
    session_arm_timer(session);
    return 0;
}

void session_filters_changed(struct session *session)
{
    if (!(session->state & (SESSION_CONFIGURED | SESSION_ARMED | SESSION_RECORDING)))
        return;
    struct source_set_env sources = sources_env(session);
    size_t first = source_set_open_more(&session->sources, &sources, session->config);
    if (session->state == SESSION_ARMED)
        source_set_prepare(&session->sources, first);
    if (!(session->state & SESSION_RECORDING))
        return;
    source_set_start_more(&session->sources, first, boot_now(session));
    session_tell_all_started(session);
    session_stop_due_sources(session);
    session_arm_timer(session);
}

Pb__TraceConfig *session_get_filters(struct session *session)
{
    return session->config;
}

bool session_trigger(struct session *session, const struct service_trigger_hit *hit)
{
    if (!(session->state & (SESSION_ARMED | SESSION_RECORDING)) ||
        session->settings.mode == SESSION_MODE_PLAIN)
        return false;
    service_packets_snapshot(&session->packets);
    if (service_packets_trigger(&session->packets, hit) < 0)
        log_warning(session->env.log, "trigger %s: it is missing in the trace: %s", hit->name,
                    strerror(ENOMEM));
    bool matters = session_event_matters(session, EVENT_TRIGGER);
    session->hit = hit;
    session_event(session, EVENT_TRIGGER);
    session->hit = NULL;
    session_arm_timer(session);
    return matters;
}

void session_stop(struct session *session)
{
    session_event(session, EVENT_STOP);
    session_arm_timer(session);
}

void session_abort(struct session *session)
{
    session_event(session, EVENT_ABORT);
    session_arm_timer(session);
}

bool session_has_to_write(const struct session *session)
{
    struct stat st;
    return (session->state & (SESSION_RECORDING | SESSION_STOPPING)) && session->output.file &&
           session_has_trace(session) && fstat(trace_file_fd(session->output.file), &st) == 0 &&
           S_ISREG(st.st_mode);
}

bool session_waits_for_room(const struct session *session)
{
    return session->room_delay > 0;
}

void session_finish(struct session *session)
{
    session_event(session, EVENT_STOP);
    while (session->state == SESSION_STOPPING && session_next_due(session) <= boot_now(session))
        session_run_due(session);
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
        .readings_missed = sources.readings_missed,
        .file_bytes = session_output_bytes(&session->output),
        .file_full = session->file_full,
        .problem = sources.problem,
    };
    if (session->started_at > 0)
        ret->elapsed = (session->stopped_at > 0 ? session->stopped_at : boot_now(session)) -
                       session->started_at;
    for (size_t i = 0; i < session->buffers.n; i++) {
        struct packet_buffer_stats stats = session->buffer_stats[i];
        if (!session->is_clone)
            packet_buffer_get_stats(session->buffers.items[i], &stats);
        ret->bytes += stats.bytes_written;
        ret->packets_overwritten += stats.packets_overwritten;
        ret->packets_discarded += stats.packets_discarded;
        ret->events_lost += stats.events_lost;
    }
}

const Pb__TraceConfig *session_get_config(const struct session *session)
{
    return session->config;
}

bool session_all_started(const struct session *session)
{
    return session->all_started_told || session->is_clone;
}

bool session_source_has_started(const struct session *session, const Pb__DataSourceConfig *config)
{
    return source_set_has_started(&session->sources, config);
}

uint64_t session_buffer_bytes(const struct session *session)
{
    return session_buffers_sum(&session->buffers).size;
}

int session_flush(struct session *session)
{
    uint64_t n_failed = session->failed_flushes;
    session_event(session, EVENT_FLUSH_DUE);
    return session->failed_flushes == n_failed ? 0 : -EBUSY;
}

void session_dump(struct session *session)
{
    if (session_get_state(session) & SESSION_RECORDING)
        source_set_dump(&session->sources);
}

void session_read_begin(struct session *session)
{
    if (session->output.file || !session_has_trace(session))
        return;
    if (!session->is_clone)
        service_packets_snapshot(&session->packets);
    session_reader_begin(&session->reader);
}

bool session_read_peek(struct session *session, struct packet_view *ret)
{
    return !session->output.file && session_reader_peek(&session->reader, ret);
}

void session_read_advance(struct session *session)
{
    session_reader_advance(&session->reader);
}

Pb__TraceStats *session_get_stats(struct session *session)
{
    struct service_stats stats = get_stats(session);
    return service_stats_message(&stats);
}
