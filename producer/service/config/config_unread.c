// SPDX-License-Identifier: Apache-2.0
//
// Configs are written for many machines and for Perfetto, so a field without effect is not an
// error. The log has a line only if the recording differs from the config's intent. Fields for
// Android's services, or for shared memory between processes, cause no warning.
//
// Every field is read or is in a list: the fields of a data source's own config in the list of the
// class, all others in `rows`. tests/unit/config_unread.c compares `rows` with the descriptors,
// tests/e2e/test_architecture.py the lists of the classes with their code.
#include "producer/service/config/config_unread.h"

#include <stdio.h>

#include "common/elements.h"
#include "common/pbtext_field.h"
#include "common/str.h"

#define PATH_BYTES_MAX 192
#define SAID_MAX       64

#define TRACE    &pb__trace_config__descriptor
#define BUFFER   &pb__trace_config__buffer_config__descriptor
#define BUILTIN  &pb__trace_config__builtin_data_source__descriptor
#define ENTRY    &pb__trace_config__data_source__descriptor
#define OVERRIDE &pb__trace_config__guardrail_overrides__descriptor
#define SOURCE   &pb__data_source_config__descriptor

static const struct config_unread rows[] = {
    {TRACE, "deferred_start", true, "has no effect, recording starts at once",
     RUNS_ALONE | RUNS_ARMED},
    {TRACE, "lockdown_mode", false, "no producers of other users take part"},
    {TRACE, "producers", false, "there is no memory that is shared with producers"},
    {TRACE, "statsd_metadata", false, "tells Android's statsd who began the session"},
    {TRACE, "statsd_logging", false, "is for Android's statsd"},
    {TRACE, "flush_timeout_ms", false, "sources are in this process, a flush cannot hang"},
    {TRACE, "data_source_stop_timeout_ms", false,
     "sources are in this process, a stop cannot hang"},
    {TRACE, "notify_traceur", true, "has no effect, the end of the trace is not reported"},
    {TRACE, "allow_user_build_tracing", false, "is for Android's user builds"},
    {TRACE, "incident_report_config", true, "has no effect here"},
    {TRACE, "android_report_config", true, "has no effect here"},
    {TRACE, "bugreport_score", false, "says which session a bugreport takes along"},
    {TRACE, "session_semaphores", true, "has no effect, other sessions are not counted",
     RUNS_ALONE},
    {TRACE, "priority_boost", true, "has no effect, the priority stays as it is"},
    {TRACE, "exclusive_prio", true, "has no effect, other sessions go on", RUNS_ALONE},
    {TRACE, "trace_all_machines", true, "has no effect, only this machine is recorded"},
    {TRACE, "trace_attributes", false, "goes into the trace with the config"},
    {OVERRIDE, "max_upload_per_day_bytes", false, "nothing is uploaded"},
    {BUFFER, "transfer_on_clone", false, "is for snapshots, which a recording does not take"},
    {BUFFER, "clear_before_clone", false, "is for snapshots, which a recording does not take"},
    {BUFFER, "experimental_mode", false, "is about Perfetto's implementation"},
    {BUILTIN, "prefer_suspend_clock_for_snapshot", false, "intervals count suspend anyway"},
    {BUILTIN, "disable_chunk_usage_histograms", false, "there are no chunks and no histograms"},
    {BUILTIN, "disable_extension_descriptors", false, "none are written"},
    {BUILTIN, "enable_concurrent_session_events", true,
     "has no effect, other sessions are not known"},
    {ENTRY, "machine_name_filter", true, "has no effect, this machine is always recorded"},
    {SOURCE, "tracing_session_id", false, "is set by Perfetto's service"},
    {SOURCE, "enable_extra_guardrails", false, "is set by Perfetto's service"},
    {SOURCE, "stop_timeout_ms", false, "is set by Perfetto's service"},
    {SOURCE, "session_initiator", false, "is set by Perfetto's service"},
    {SOURCE, "prefer_suspend_clock_for_duration", false, "is set by Perfetto's service"},
    {SOURCE, "buffer_exhausted_policy", false, "sources write into the buffer, nothing stalls"},
    {SOURCE, "priority_boost", true, "has no effect, the priority stays as it is"},
    {SOURCE, "protovm_config", true, "has no effect, packets are kept as they are"},
    {SOURCE, "interceptor_config", true, "has no effect, packets go into the buffer"},
    {SOURCE, "legacy_config", true, "has no effect, no data source here reads it"},
    {SOURCE, "for_testing", false, "is for data sources of Perfetto's own tests"},
};

#define N_ROWS ELEMENTS(rows)

// A config that only Perfetto's data sources read. config_check() warns if a source has this
// config.
static const struct config_unread foreign = {SOURCE, NULL, false, "is read by no data source here"};

#define FIRST_SOURCE_CONFIG 100

const struct config_unread *config_unread_find(const ProtobufCMessageDescriptor *message,
                                               const ProtobufCFieldDescriptor *field)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].message == message && str_eq(rows[i].field, field->name))
            return &rows[i];
    for (const struct source_class *const *class = source_classes; *class; class ++)
        for (const struct config_unread *row = (*class)->unread; row && row->field; row++)
            if (row->message == message && str_eq(row->field, field->name))
                return row;
    bool of_source = message == SOURCE && field->id >= FIRST_SOURCE_CONFIG &&
                     field->type == PROTOBUF_C_TYPE_MESSAGE;
    return of_source && !source_class_of_config(field->name) ? &foreign : NULL;
}

struct walk {
    const struct log *log;
    unsigned runs;                              // a RUNS_... bit; 0: unknown
    const struct config_unread *said[SAID_MAX]; // rows with a warning; further rows may cause
                                                // several warnings
    size_t n_said;
};

static bool is_said(struct walk *walk, const struct config_unread *row)
{
    for (size_t i = 0; i < walk->n_said; i++)
        if (walk->said[i] == row)
            return true;
    if (walk->n_said < SAID_MAX)
        walk->said[walk->n_said++] = row;
    return false;
}

static void walk_message(struct walk *walk, const ProtobufCMessage *message, const char *path);

static void walk_field(struct walk *walk, const ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field, const char *path)
{
    const char *base = (const char *)message, *member = base + field->offset;
    const uint32_t *quantifier = (const uint32_t *)(const void *)(base + field->quantifier_offset);
    bool is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    bool is_oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    size_t n = is_repeated ? *(const size_t *)(const void *)quantifier : 1;
    if (n == 0 || (is_oneof && *quantifier != field->id) ||
        (!is_repeated && !pbtext_holds_something(field, member)))
        return;
    const struct config_unread *row = config_unread_find(message->descriptor, field);
    if (row) {
        bool is_read_here = row->only && walk->runs && !(row->only & walk->runs);
        if (row->warn && !is_read_here && !is_said(walk, row))
            log_warning(walk->log, "%s%s: %s", path, field->name, row->why);
        return;
    }
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return;
    const ProtobufCMessage *const *inner =
        is_repeated ? *(const ProtobufCMessage *const *const *)(const void *)member
                    : (const ProtobufCMessage *const *)(const void *)member;
    for (size_t i = 0; i < n; i++) {
        char below[PATH_BYTES_MAX];
        if (is_repeated)
            snprintf(below, sizeof(below), "%s%s[%zu].", path, field->name, i);
        else
            snprintf(below, sizeof(below), "%s%s.", path, field->name);
        walk_message(walk, inner[i], below);
    }
}

static void walk_message(struct walk *walk, const ProtobufCMessage *message, const char *path)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        walk_field(walk, message, &message->descriptor->fields[i], path);
}

void config_unread_warn(const Pb__TraceConfig *trace, unsigned runs, const struct log *log)
{
    struct walk walk = {.log = log, .runs = runs};
    walk_message(&walk, &trace->base, "");
}
