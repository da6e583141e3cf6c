// SPDX-License-Identifier: Apache-2.0
//
// The table is laid out in two passes over the same cells: widths first. Strings come from configs
// and other processes. Therefore they are made printable for a terminal and escaped in JSON.
#include "producer/cli/status_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "producer/ground/json_out.h"

#define CELL_MAX 48

typedef Pb__TracingServiceState__TracingSession Session;
typedef Pb__TracingServiceState__SessionDetails Details;

enum column {
    COLUMN_ID,
    COLUMN_NAME,
    COLUMN_STATE,
    COLUMN_UID,
    COLUMN_TIME,
    COLUMN_BUFFERS,
    COLUMN_USED,
    COLUMN_EVENTS,
    COLUMN_LOST,
    COLUMN_TRIGGERS,
    COLUMN_LAST_TRIGGER,
    COLUMN_ENDS,
    COLUMN_SCORE,
    N_COLUMNS,
};

static const char *const titles[N_COLUMNS] = {
    "ID",     "NAME", "STATE",    "UID",          "TIME",    "BUFFERS", "USED",
    "EVENTS", "LOST", "TRIGGERS", "LAST TRIGGER", "ENDS IN", "SCORE",
};

struct row {
    char cells[N_COLUMNS][CELL_MAX];
};

#define SET(row, column, ...) snprintf((row)->cells[column], CELL_MAX, __VA_ARGS__)

static void set_text(struct row *row, enum column column, const char *text)
{
    if (text && text[0])
        str_printable(row->cells[column], CELL_MAX, text, strlen(text));
}

static void set_bytes(struct row *row, enum column column, uint64_t bytes)
{
    if (bytes < (uint64_t)10 << 20)
        SET(row, column, "%" PRIu64 " KB", (bytes + 1023) >> 10);
    else
        SET(row, column, "%" PRIu64 " MB", bytes >> 20);
}

static void add_time(char cell[CELL_MAX], nsec_t time)
{
    uint64_t seconds = time > 0 ? (uint64_t)(time / NSEC_PER_SEC) : 0;
    size_t used = strlen(cell);
    char *to = cell + used;
    if (seconds < 60)
        snprintf(to, CELL_MAX - used, "%" PRIu64 "s", seconds);
    else if (seconds < 3600)
        snprintf(to, CELL_MAX - used, "%" PRIu64 "m%02us", seconds / 60, (unsigned)(seconds % 60));
    else
        snprintf(to, CELL_MAX - used, "%" PRIu64 "h%02um", seconds / 3600,
                 (unsigned)(seconds / 60 % 60));
}

static void set_time(struct row *row, enum column column, nsec_t time)
{
    row->cells[column][0] = '\0';
    add_time(row->cells[column], time);
}

// "kmem_activity 12s ago". A long name is cut, but not the time.
static void set_trigger(struct row *row, const struct status *status, const Details *details)
{
    char *cell = row->cells[COLUMN_LAST_TRIGGER];
    set_text(row, COLUMN_LAST_TRIGGER, details->last_trigger);
    if (!details->last_trigger || !details->has_last_trigger_ns)
        return;
    cell[CELL_MAX - 1 - sizeof(" 99999h59m ago")] = '\0';
    strcat(cell, " ");
    add_time(cell, status->now - details->last_trigger_ns);
    strncat(cell, " ago", CELL_MAX - 1 - strlen(cell));
}

static uint64_t buffer_bytes(const Session *session)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < session->n_buffer_size_kb; i++)
        bytes += (uint64_t)session->buffer_size_kb[i] << 10;
    return bytes;
}

static void set_details(struct row *row, const struct status *status, const Details *details)
{
    set_text(row, COLUMN_STATE, details->state);
    if (details->has_elapsed_ns)
        set_time(row, COLUMN_TIME, details->elapsed_ns);
    if (details->has_bytes_buffered)
        set_bytes(row, COLUMN_USED, details->bytes_buffered);
    if (details->has_events)
        SET(row, COLUMN_EVENTS, "%" PRIu64, details->events);
    if (details->has_events_lost)
        SET(row, COLUMN_LOST, "%" PRIu64,
            (details->events_lost > 0 ? details->events_lost : details->packets_discarded) +
                details->readings_missed);
    if (details->has_triggers_received)
        SET(row, COLUMN_TRIGGERS, "%u", details->triggers_received);
    set_trigger(row, status, details);
    if (details->has_next_due_ns)
        set_time(row, COLUMN_ENDS, details->next_due_ns - status->now);
    if (details->detached)
        strncat(row->cells[COLUMN_STATE], " detached",
                CELL_MAX - 1 - strlen(row->cells[COLUMN_STATE]));
}

static void fill_row(struct row *row, const struct status *status, const Session *session)
{
    for (size_t i = 0; i < N_COLUMNS; i++)
        SET(row, i, "-");
    SET(row, COLUMN_ID, "%" PRIu64, session->id);
    set_text(row, COLUMN_NAME, session->unique_session_name);
    set_text(row, COLUMN_STATE, session->state);
    SET(row, COLUMN_UID, "%d", session->consumer_uid);
    if (session->start_realtime_ns > 0)
        set_time(row, COLUMN_TIME, status->now_realtime_ns - session->start_realtime_ns);
    set_bytes(row, COLUMN_BUFFERS, buffer_bytes(session));
    if (session->bugreport_score > 0)
        SET(row, COLUMN_SCORE, "%d", session->bugreport_score);
    if (session->details)
        set_details(row, status, session->details);
}

static void add_row(struct strbuf *out, const char *const *cells, const int *widths)
{
    for (int i = 0; i < N_COLUMNS; i++)
        strbuf_addf(out, i + 1 < N_COLUMNS ? "%-*s  " : "%.*s",
                    i + 1 < N_COLUMNS ? widths[i] : CELL_MAX, cells[i]);
    strbuf_add_char(out, '\n');
}

static void add_table(const struct status *status, struct strbuf *out)
{
    int widths[N_COLUMNS];
    const char *cells[N_COLUMNS];
    struct row row;
    for (int i = 0; i < N_COLUMNS; i++)
        widths[i] = (int)strlen(titles[i]);
    for (size_t s = 0; s < status->state->n_tracing_sessions; s++) {
        fill_row(&row, status, status->state->tracing_sessions[s]);
        for (int i = 0; i < N_COLUMNS; i++)
            if ((int)strlen(row.cells[i]) > widths[i])
                widths[i] = (int)strlen(row.cells[i]);
    }
    add_row(out, titles, widths);
    for (size_t s = 0; s < status->state->n_tracing_sessions; s++) {
        fill_row(&row, status, status->state->tracing_sessions[s]);
        for (int i = 0; i < N_COLUMNS; i++)
            cells[i] = row.cells[i];
        add_row(out, cells, widths);
    }
}

static void add_printable(struct strbuf *out, const char *text)
{
    char printable[1024];
    strbuf_add_str(out, str_printable(printable, sizeof(printable), text ? text : "",
                                      text ? strlen(text) : 0));
}

static void add_problems(const struct status *status, struct strbuf *out)
{
    for (size_t s = 0; s < status->state->n_tracing_sessions; s++) {
        const Session *session = status->state->tracing_sessions[s];
        if (!session->details || !session->details->problem)
            continue;
        strbuf_addf(out, "session %" PRIu64 ": ", session->id);
        add_printable(out, session->details->problem);
        strbuf_add_char(out, '\n');
    }
}

void status_add_text(const struct status *status, struct strbuf *out)
{
    const Pb__TracingServiceState *state = status->state;
    strbuf_add_str(out, "service   ");
    add_printable(out, state->tracing_service_version);
    if (status->pid > 0)
        strbuf_addf(out, ", pid %d", (int)status->pid);
    if (status->resident_bytes > 0)
        strbuf_addf(out, ", %.1f MB resident", (double)status->resident_bytes / (1 << 20));
    if (status->own_bytes > 0 && status->locked_bytes * 100 >= status->own_bytes * 98)
        strbuf_add_str(out, ", locked in memory");
    else if (status->own_bytes > 0)
        strbuf_addf(out, ", %.1f of %.1f MB locked in memory",
                    (double)status->locked_bytes / (1 << 20),
                    (double)status->own_bytes / (1 << 20));
    strbuf_addf(out, "\nsessions  %d, %d started\n", state->num_sessions,
                state->num_sessions_started);
    strbuf_add_str(out, "sources   ");
    for (size_t i = 0; i < state->n_data_sources; i++) {
        if (!state->data_sources[i]->ds_descriptor)
            continue;
        if (i > 0)
            strbuf_add_str(out, ", ");
        add_printable(out, state->data_sources[i]->ds_descriptor->name);
    }
    strbuf_add_str(out, state->n_data_sources > 0 ? "\n" : "none\n");
    if (state->n_tracing_sessions > 0) {
        strbuf_add_char(out, '\n');
        add_table(status, out);
        add_problems(status, out);
    }
}

// JSON.

#define NUMBER(out, message, field)                                                                \
    json_out_number(out, #field, (message)->has_##field, (int64_t)(message)->field)

static void add_json_details(const struct status *status, struct strbuf *out, const Details *d)
{
    json_out_string(out, "consumer", d->consumer);
    json_out_string(out, "activity", d->state);
    json_out_string(out, "problem", d->problem);
    json_out_bool(out, "detached", d->detached);
    NUMBER(out, d, elapsed_ns);
    NUMBER(out, d, events);
    NUMBER(out, d, events_lost);
    NUMBER(out, d, readings_missed);
    NUMBER(out, d, bytes_recorded);
    NUMBER(out, d, bytes_buffered);
    NUMBER(out, d, packets_overwritten);
    NUMBER(out, d, packets_discarded);
    NUMBER(out, d, file_bytes);
    NUMBER(out, d, triggers_received);
    json_out_string(out, "last_trigger", d->last_trigger);
    json_out_number(out, "last_trigger_boot_ns", d->has_last_trigger_ns, d->last_trigger_ns);
    json_out_number(out, "last_trigger_realtime_ns", d->has_last_trigger_ns,
                    status->now_realtime_ns - status->now + d->last_trigger_ns);
    json_out_number(out, "next_due_boot_ns", d->has_next_due_ns, d->next_due_ns);
    json_out_strings(out, "hears", d->hears, d->n_hears);
}

static void add_json_session(const struct status *status, struct strbuf *out, const Session *s)
{
    strbuf_add_char(out, '{');
    json_out_number(out, "id", true, (int64_t)s->id);
    json_out_string(out, "name", s->unique_session_name);
    json_out_string(out, "state", s->state);
    json_out_number(out, "uid", s->has_consumer_uid, s->consumer_uid);
    json_out_bool(out, "is_started", s->is_started || (s->state && str_eq(s->state, "STARTED")));
    json_out_number(out, "buffer_bytes", true, (int64_t)buffer_bytes(s));
    json_out_number(out, "n_buffers", true, (int64_t)s->n_buffer_size_kb);
    json_out_number(out, "duration_ms", s->duration_ms > 0, s->duration_ms);
    json_out_number(out, "n_data_sources", s->has_num_data_sources, s->num_data_sources);
    json_out_number(out, "start_realtime_ns", s->start_realtime_ns > 0, s->start_realtime_ns);
    json_out_number(out, "bugreport_score", s->bugreport_score > 0, s->bugreport_score);
    json_out_string(out, "bugreport_filename", s->bugreport_filename);
    if (s->details)
        add_json_details(status, out, s->details);
    strbuf_add_char(out, '}');
}

static void add_json_sources(struct strbuf *out, const Pb__TracingServiceState *state)
{
    json_out_key(out, "data_sources");
    strbuf_add_char(out, '[');
    for (size_t i = 0, n = 0; i < state->n_data_sources; i++) {
        const Pb__DataSourceDescriptor *descriptor = state->data_sources[i]->ds_descriptor;
        if (!descriptor || !descriptor->name)
            continue;
        if (n++ > 0)
            strbuf_add_char(out, ',');
        json_out_text(out, descriptor->name);
    }
    strbuf_add_char(out, ']');
}

void status_add_json(const struct status *status, struct strbuf *out)
{
    const Pb__TracingServiceState *state = status->state;
    strbuf_add_char(out, '{');
    json_out_string(out, "service", state->tracing_service_version);
    json_out_number(out, "pid", status->pid > 0, status->pid);
    json_out_number(out, "resident_bytes", status->resident_bytes > 0,
                    (int64_t)status->resident_bytes);
    json_out_number(out, "own_bytes", status->own_bytes > 0, (int64_t)status->own_bytes);
    json_out_number(out, "locked_bytes", status->own_bytes > 0, (int64_t)status->locked_bytes);
    json_out_number(out, "now_boot_ns", true, status->now);
    json_out_number(out, "n_sessions", state->has_num_sessions, state->num_sessions);
    json_out_number(out, "n_sessions_started", state->has_num_sessions_started,
                    state->num_sessions_started);
    add_json_sources(out, state);
    json_out_key(out, "sessions");
    strbuf_add_char(out, '[');
    for (size_t i = 0; i < state->n_tracing_sessions; i++) {
        if (i > 0)
            strbuf_add_char(out, ',');
        add_json_session(status, out, state->tracing_sessions[i]);
    }
    strbuf_add_str(out, "]}\n");
}
