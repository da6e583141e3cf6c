// SPDX-License-Identifier: Apache-2.0
//
// The service's state: Perfetto's messages for its clients, and additional data for `mmtrace
// status`. The states have Perfetto's names.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "producer/service/service_private.h"
#include "producer/service/session/session_buffers.h"

#ifndef MMTRACE_VERSION
#define MMTRACE_VERSION "0"
#endif

#define FOLDERS_MAX   128
#define PRODUCER_ID   1
#define PRODUCER_NAME "mmtrace"

Pb__TraceStats *service_get_stats(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    Pb__TraceStats *stats = member ? session_get_stats(member->session) : NULL;
    if (!stats)
        return NULL;
    stats->tracing_sessions = (uint32_t)service->members.n;
    return stats;
}

// Each state: the name for Perfetto's clients, and a word for people.
static const struct state_words {
    enum session_state state; // 0: a snapshot
    const char *name, *text;
} state_words[] = {
    {SESSION_CONFIGURED, "CONFIGURED", "configured"},
    {SESSION_ARMED, "CONFIGURED", "armed"},
    {SESSION_STARTED, "STARTED", "recording"},
    {SESSION_TRIGGERED, "STARTED", "triggered"},
    {SESSION_STOPPING, "STOP_WAIT", "writing"},
    {SESSION_DONE, "DISABLED", "done"},
    {0, "CLONED_READ_ONLY", "snapshot"},
};

static const struct state_words *words_of(const struct member *member)
{
    const struct state_words *row = state_words;
    enum session_state state = member->is_clone ? 0 : session_get_state(member->session);
    while (row->state != state)
        row++;
    return row;
}

// Messages are built with these functions. `ok` becomes false if memory runs out.

static void *new_message(bool *ok, size_t size, const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = calloc(1, size);
    if (message)
        protobuf_c_message_init(descriptor, message);
    *ok = *ok && message;
    return message;
}

static void *new_array(bool *ok, size_t n, size_t size)
{
    void *array = calloc(n + 1, size);
    *ok = *ok && array;
    return array;
}

static char *new_string(bool *ok, const char *text)
{
    char *copy = strdup(text ? text : "");
    *ok = *ok && copy;
    return copy;
}

static void fill_producer(bool *ok, Pb__TracingServiceState *state)
{
    state->producers = new_array(ok, 1, sizeof(state->producers[0]));
    if (!*ok)
        return;
    Pb__TracingServiceState__Producer *producer =
        new_message(ok, sizeof(*producer), &pb__tracing_service_state__producer__descriptor);
    if (!*ok)
        return;
    state->producers[state->n_producers++] = producer;
    producer->has_id = producer->has_uid = producer->has_pid = true;
    producer->id = PRODUCER_ID;
    producer->uid = (int32_t)geteuid();
    producer->pid = (int32_t)getpid();
    producer->name = new_string(ok, PRODUCER_NAME);
    producer->sdk_version = new_string(ok, "mmtrace " MMTRACE_VERSION);
}

static Pb__TracingServiceState__DataSource *make_data_source(bool *ok, const char *name)
{
    Pb__TracingServiceState__DataSource *source =
        new_message(ok, sizeof(*source), &pb__tracing_service_state__data_source__descriptor);
    if (!source)
        return NULL;
    source->has_producer_id = true;
    source->producer_id = PRODUCER_ID;
    source->ds_descriptor =
        new_message(ok, sizeof(*source->ds_descriptor), &pb__data_source_descriptor__descriptor);
    if (source->ds_descriptor)
        source->ds_descriptor->name = new_string(ok, name);
    return source;
}

// Lists the names and aliases of all sources. A config may use any of them.
static void fill_data_sources(bool *ok, const struct service *service,
                              Pb__TracingServiceState *state)
{
    const struct source_class *const *classes = service->env.session.classes;
    size_t n = 0;
    for (size_t i = 0; classes[i]; i++, n++)
        for (const char *const *alias = classes[i]->aliases; alias && *alias; alias++)
            n++;
    state->data_sources = new_array(ok, n, sizeof(state->data_sources[0]));
    for (size_t i = 0; *ok && classes[i]; i++) {
        const char *const *alias = classes[i]->aliases;
        for (const char *name = classes[i]->name; *ok && name; name = alias ? *alias++ : NULL)
            if ((state->data_sources[state->n_data_sources] = make_data_source(ok, name)))
                state->n_data_sources++;
    }
}

static void fill_session_config(bool *ok, const Pb__TraceConfig *config,
                                Pb__TracingServiceState__TracingSession *session)
{
    session->unique_session_name = new_string(ok, config->unique_session_name);
    if (config->bugreport_filename)
        session->bugreport_filename = new_string(ok, config->bugreport_filename);
    session->has_bugreport_score = config->has_bugreport_score;
    session->bugreport_score = config->bugreport_score;
    session->has_duration_ms = session->has_num_data_sources = true;
    session->duration_ms = config->duration_ms;
    if (!config->duration_ms && config->trigger_config)
        session->duration_ms = config->trigger_config->trigger_timeout_ms;
    session->num_data_sources = (uint32_t)config->n_data_sources;
    size_t n_buffers = session_buffers_count(config);
    session->buffer_size_kb = new_array(ok, n_buffers, sizeof(uint32_t));
    for (size_t i = 0; *ok && i < n_buffers; i++)
        session->buffer_size_kb[session->n_buffer_size_kb++] =
            session_buffer_config(config, i)->size_kb;
}

static uint64_t bytes_buffered(const struct member *member)
{
    Pb__TraceStats *stats = session_get_stats(member->session);
    uint64_t bytes = 0;
    for (size_t i = 0; stats && i < stats->n_buffer_stats; i++) {
        const Pb__TraceStats__BufferStats *buffer = stats->buffer_stats[i];
        uint64_t gone = buffer->bytes_overwritten + buffer->bytes_read;
        bytes += buffer->bytes_written > gone ? buffer->bytes_written - gone : 0;
    }
    if (stats)
        pb__trace_stats__free_unpacked(stats, NULL);
    return bytes;
}

static void fill_hears(bool *ok, const struct member *member,
                       Pb__TracingServiceState__SessionDetails *details)
{
    const Pb__TraceConfig__TriggerConfig *triggers =
        session_get_config(member->session)->trigger_config;
    if (!triggers || !service_hears_triggers(member))
        return;
    details->hears = new_array(ok, triggers->n_triggers, sizeof(details->hears[0]));
    for (size_t i = 0; *ok && i < triggers->n_triggers; i++)
        if (triggers->triggers[i]->name)
            details->hears[details->n_hears++] = new_string(ok, triggers->triggers[i]->name);
}

static Pb__TracingServiceState__SessionDetails *make_details(bool *ok, const struct member *member)
{
    Pb__TracingServiceState__SessionDetails *details =
        new_message(ok, sizeof(*details), &pb__tracing_service_state__session_details__descriptor);
    if (!details)
        return NULL;
    struct session_counts counts;
    session_get_counts(member->session, &counts);
    nsec_t due = session_end_due(member->session);
    bool is_leaving = member->is_leaving && !member->is_clone;
    details->consumer = new_string(ok, member->consumer_name);
    details->state = new_string(ok, is_leaving ? "leaving" : words_of(member)->text);
    if (counts.problem)
        details->problem = new_string(ok, counts.problem);
    details->has_detached = true;
    details->detached = member->detach_key != NULL;
    details->has_elapsed_ns = details->has_events = details->has_events_lost = true;
    details->elapsed_ns = counts.elapsed;
    details->events = counts.events;
    details->events_lost = counts.events_lost;
    details->has_readings_missed = true;
    details->readings_missed = counts.readings_missed;
    details->has_bytes_recorded = details->has_bytes_buffered = details->has_file_bytes = true;
    details->bytes_recorded = counts.bytes;
    details->bytes_buffered = bytes_buffered(member);
    details->file_bytes = counts.file_bytes;
    details->has_packets_overwritten = details->has_packets_discarded = true;
    details->packets_overwritten = counts.packets_overwritten;
    details->packets_discarded = counts.packets_discarded;
    details->has_triggers_received = true;
    details->triggers_received = member->n_triggers;
    details->has_next_due_ns = due != NSEC_MAX;
    details->next_due_ns = due;
    details->has_last_trigger_ns = member->last_trigger != NULL;
    details->last_trigger_ns = member->last_trigger_at;
    if (member->last_trigger)
        details->last_trigger = new_string(ok, member->last_trigger);
    fill_hears(ok, member, details);
    return details;
}

Pb__TracingServiceState__SessionDetails *service_get_details(struct service *service,
                                                             uint64_t session_id)
{
    struct member *member = find(service, session_id);
    bool ok = true;
    Pb__TracingServiceState__SessionDetails *details = member ? make_details(&ok, member) : NULL;
    if (details && !ok) {
        protobuf_c_message_free_unpacked(&details->base, NULL);
        return NULL;
    }
    return details;
}

static Pb__TracingServiceState__TracingSession *make_session(bool *ok, const struct member *member)
{
    Pb__TracingServiceState__TracingSession *session =
        new_message(ok, sizeof(*session), &pb__tracing_service_state__tracing_session__descriptor);
    if (!session)
        return NULL;
    session->has_id = session->has_consumer_uid = true;
    session->id = member->id;
    session->consumer_uid = (int32_t)member->uid;
    session->state = new_string(ok, words_of(member)->name);
    session->has_start_realtime_ns = member->started_realtime > 0;
    session->start_realtime_ns = member->started_realtime;
    session->has_is_started = true;
    session->is_started =
        !member->is_clone && (session_get_state(member->session) & SESSION_RECORDING);
    fill_session_config(ok, session_get_config(member->session), session);
    session->details = make_details(ok, member);
    return session;
}

static void fill_sessions(bool *ok, const struct service *service, Pb__TracingServiceState *state)
{
    size_t n = service->members.n;
    state->tracing_sessions = new_array(ok, n, sizeof(state->tracing_sessions[0]));
    for (size_t i = 0; *ok && i < n; i++) {
        Pb__TracingServiceState__TracingSession *session =
            make_session(ok, service->members.items[i]);
        if (!session)
            return;
        state->tracing_sessions[state->n_tracing_sessions++] = session;
        state->num_sessions_started += session->is_started;
    }
}

void service_set_trace_folders(struct service *service,
                               size_t (*list)(void *userdata, struct service_trace_folder *ret,
                                              size_t n),
                               void *userdata)
{
    service->list_folders = list;
    service->list_folders_userdata = userdata;
}

// The client may have another working directory.
static char *absolute_path(bool *ok, const char *path)
{
    char folder[PATH_MAX], *whole;
    if (*path == '/' || !getcwd(folder, sizeof(folder)))
        return new_string(ok, path);
    if (asprintf(&whole, "%s/%s", folder, path) < 0)
        whole = NULL;
    *ok = *ok && whole;
    return whole;
}

static void fill_folders(bool *ok, const struct service *service, Pb__TracingServiceState *state)
{
    struct service_trace_folder folders[FOLDERS_MAX];
    size_t n = service->list_folders
                   ? service->list_folders(service->list_folders_userdata, folders, FOLDERS_MAX)
                   : 0;
    state->trace_folders = new_array(ok, n, sizeof(state->trace_folders[0]));
    for (size_t i = 0; *ok && i < n; i++) {
        Pb__TracingServiceState__TraceFolder *folder =
            new_message(ok, sizeof(*folder), &pb__tracing_service_state__trace_folder__descriptor);
        if (!folder)
            return;
        state->trace_folders[state->n_trace_folders++] = folder;
        folder->path = absolute_path(ok, folders[i].path);
        if (folders[i].stem)
            folder->stem = new_string(ok, folders[i].stem);
        folder->has_bugreport_score = true;
        folder->bugreport_score = folders[i].bugreport_score;
    }
}

Pb__TracingServiceState *service_query_state(struct service *service, bool sessions_only)
{
    bool ok = true;
    Pb__TracingServiceState *state =
        new_message(&ok, sizeof(*state), &pb__tracing_service_state__descriptor);
    if (!state)
        return NULL;
    state->has_supports_tracing_sessions = state->supports_tracing_sessions = true;
    state->has_num_sessions = state->has_num_sessions_started = true;
    state->num_sessions = (int32_t)service->members.n;
    state->tracing_service_version = new_string(&ok, "mmtrace " MMTRACE_VERSION);
    if (!sessions_only)
        fill_producer(&ok, state);
    if (!sessions_only)
        fill_data_sources(&ok, service, state);
    fill_sessions(&ok, service, state);
    fill_folders(&ok, service, state);
    if (!ok) {
        pb__tracing_service_state__free_unpacked(state, NULL);
        return NULL;
    }
    return state;
}
