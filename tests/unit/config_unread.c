// SPDX-License-Identifier: Apache-2.0
//
// Fields that the service reads are listed here by hand, the others in config_unread.c. Each field
// of the messages of a config is in exactly one of the lists. Fields of the data sources' own
// configs are in neither: tests/e2e/test_architecture.py looks for these fields in the code of the
// sources.
#include "producer/service/config/config_unread.h"

#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/pbtext.h"
#include "tests/unit/unit.h"

static const struct {
    const ProtobufCMessageDescriptor *message;
    const char *fields; // between blanks
} read_fields[] = {
    {&pb__trace_config__descriptor,
     " buffers data_sources duration_ms enable_extra_guardrails write_into_file "
     "file_write_period_ms max_file_size_bytes guardrail_overrides flush_period_ms trigger_config "
     "builtin_data_sources incremental_state_config unique_session_name compression_type "
     "trace_uuid_msb trace_uuid_lsb output_path trace_filter cmd_trace_start_delay "
     "activate_triggers "
     "prefer_suspend_clock_for_duration bugreport_filename write_flush_mode fflush_post_write "
     "compression "},
    {&pb__trace_config__buffer_config__descriptor, " size_kb fill_policy name keep_first_kb "},
    {&pb__trace_config__builtin_data_source__descriptor,
     " disable_clock_snapshotting disable_trace_config disable_system_info disable_service_events "
     "primary_trace_clock snapshot_interval_ms "},
    {&pb__trace_config__data_source__descriptor,
     " config producer_name_filter producer_name_regex_filter "},
    {&pb__trace_config__guardrail_overrides__descriptor, " max_tracing_buffer_size_kb "},
    {&pb__trace_config__trigger_config__descriptor,
     " trigger_mode triggers trigger_timeout_ms use_clone_snapshot_if_available "},
    {&pb__data_source_config__descriptor,
     " name target_buffer trace_duration_ms target_buffer_name "},
};

static bool is_listed(const char *fields, const char *name)
{
    size_t size = strlen(name);
    for (const char *p = fields; (p = strstr(p, name)); p += size)
        if (p[-1] == ' ' && p[size] == ' ')
            return true;
    return false;
}

static void every_field_is_read_or_has_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < ELEMENTS(read_fields); i++) {
        const ProtobufCMessageDescriptor *message = read_fields[i].message;
        size_t n_read = 0, n_listed = 0;
        for (const char *p = read_fields[i].fields + 1; *p; p++)
            n_listed += *p == ' ';
        for (unsigned k = 0; k < message->n_fields; k++) {
            const char *name = message->fields[k].name;
            if (message == &pb__data_source_config__descriptor && source_class_of_config(name))
                continue;
            bool is_read = is_listed(read_fields[i].fields, name);
            bool is_unread = config_unread_find(message, &message->fields[k]);
            n_read += is_read;
            if (is_read == is_unread)
                fail_msg("%s.%s is in %s", message->short_name, name,
                         is_read ? "both lists" : "neither list");
        }
        assert_int_equal(n_read, n_listed); // no field is listed that is not there
    }
}

static void a_source_names_a_config_that_there_is(void **state)
{
    (void)state;
    for (const struct source_class *const *class = source_classes; *class; class ++) {
        if (!(*class)->config)
            continue;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
            &pb__data_source_config__descriptor, (*class)->config);
        assert_non_null(field);
        assert_int_equal(field->type, PROTOBUF_C_TYPE_MESSAGE);
        assert_ptr_equal(source_class_of_config(field->name), *class); // only this class
        const struct config_unread *row = (*class)->unread;
        for (; row && row->field; row++)
            assert_non_null(
                protobuf_c_message_descriptor_get_field_by_name(row->message, row->field));
    }
}

static void take_line(void *userdata, enum log_level level, const char *line)
{
    struct strbuf *lines = userdata;
    assert_int_equal(level, LOG_LEVEL_WARNING);
    strbuf_addf(lines, "%s\n", line);
}

static void assert_warnings_of(unsigned runs, const char *text, const char *expected)
{
    ProtobufCMessage *message;
    struct err err = {0};
    struct strbuf lines = {0};
    struct log log = {.max_level = LOG_LEVEL_INFO, .write = take_line, .userdata = &lines};
    assert_int_equal(
        pbtext_parse(&pb__trace_config__descriptor, "t", text, strlen(text), &message, &err), 0);
    config_unread_warn((Pb__TraceConfig *)message, runs, &log);
    assert_string_equal(lines.text ? lines.text : "", expected);
    protobuf_c_message_free_unpacked(message, NULL);
    strbuf_done(&lines);
}

static void assert_warnings(const char *text, const char *expected)
{
    assert_warnings_of(RUNS_ALONE, text, expected);
}

// The daemon counts sessions and ends sessions of a lower priority; its clients may start later.
static void what_the_daemon_does_is_no_warning(void **state)
{
    (void)state;
    static const char text[] = "deferred_start: true session_semaphores { name: \"a\" } "
                               "exclusive_prio: 1 activate_triggers: \"t\"";
    static const char deferred[] = "deferred_start: has no effect, recording starts at once\n";
    static const char all[] = "deferred_start: has no effect, recording starts at once\n"
                              "session_semaphores: has no effect, other sessions are not counted\n"
                              "exclusive_prio: has no effect, other sessions go on\n";
    assert_warnings_of(RUNS_FOR_CLIENT, text, "");
    assert_warnings_of(RUNS_ARMED, text, deferred);
    assert_warnings_of(RUNS_ALONE, text, all);
    assert_warnings_of(0, text, all);
}

static void what_misleads_is_said_once(void **state)
{
    (void)state;
    assert_warnings("", "");
    assert_warnings("flush_timeout_ms: 30000 statsd_metadata { triggering_alert_id: 5 } "
                    "bugreport_score: 100 buffers { size_kb: 4 transfer_on_clone: true } "
                    "producers { shm_size_kb: 4 } lockdown_mode: LOCKDOWN_SET",
                    "");
    assert_warnings("deferred_start: false notify_traceur: false exclusive_prio: 0", "");
    assert_warnings("notify_traceur: true session_semaphores { name: \"a\" }",
                    "notify_traceur: has no effect, the end of the trace is not reported\n"
                    "session_semaphores: has no effect, other sessions are not counted\n");
    assert_warnings(
        "data_sources { config { name: \"a\" legacy_config: \"\" } } "
        "data_sources { config { name: \"b\" legacy_config: \"x\" chrome_config { } } } "
        "data_sources { machine_name_filter: \"m\" config { name: \"b\" legacy_config: \"x\" } } "
        "trace_attributes { attribute { key: \"k\" string_value: \"v\" } } "
        "builtin_data_sources { enable_concurrent_session_events: true }",
        "data_sources[1].config.legacy_config: has no effect, no data source here reads it\n"
        "data_sources[2].machine_name_filter: has no effect, this machine is always recorded\n"
        "builtin_data_sources.enable_concurrent_session_events: has no effect, other sessions are "
        "not known\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read_or_has_a_reason),
        cmocka_unit_test(a_source_names_a_config_that_there_is),
        cmocka_unit_test(what_misleads_is_said_once),
        cmocka_unit_test(what_the_daemon_does_is_no_warning),
    };
    return cmocka_run_group_tests_name("config_unread", tests, NULL, NULL);
}
