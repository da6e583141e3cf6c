// SPDX-License-Identifier: Apache-2.0
//
// What is read is listed here by hand, what is not in config_unread.c; together they are all fields
// of the messages that make up a config, each in one list.
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
     " name target_buffer trace_duration_ms target_buffer_name ftrace_config process_stats_config "
     "sys_stats_config system_info_config page_residency_config perf_map_config "},
    {&pb__ftrace_config__descriptor,
     " ftrace_events atrace_categories atrace_apps buffer_size_kb drain_period_ms compact_sched "
     "symbolize_ksyms throttle_rss_stat disable_generic_events ksyms_mem_policy syscall_events "
     "enable_function_graph function_filters function_graph_roots print_filter "
     "preserve_ftrace_buffer use_monotonic_raw_clock instance_name buffer_size_lower_bound "
     "atrace_categories_prefer_sdk drain_buffer_percent kprobe_events debug_ftrace_abi "
     "denser_generic_event_encoding function_graph_max_depth atrace_userspace_only tids_to_trace "
     "tracefs_options tracing_cpumask "},
    {&pb__sys_stats_config__descriptor,
     " meminfo_period_ms meminfo_counters vmstat_period_ms vmstat_counters stat_period_ms "
     "stat_counters devfreq_period_ms cpufreq_period_ms buddyinfo_period_ms diskstat_period_ms "
     "psi_period_ms thermal_period_ms cpuidle_period_ms gpufreq_period_ms slab_period_ms "},
    {&pb__process_stats_config__descriptor,
     " quirks scan_all_processes_on_start record_thread_names proc_stats_poll_ms "
     "proc_stats_cache_ttl_ms resolve_process_fds scan_smaps_rollup record_process_age "
     "record_process_runtime record_process_dmabuf_rss skip_main_thread_message "},
    {&pb__perf_map_config__descriptor, " pids process_cmdlines period_ms max_map_kb "},
    {&pb__page_residency_config__descriptor,
     " paths pids process_cmdlines period_ms detail rescan_period_ms max_files min_file_size_bytes "
     "disable_counter_tracks max_differences verify_every "},
    {&pb__system_info_config__descriptor, " irq_names "},
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
            bool is_read = is_listed(read_fields[i].fields, message->fields[k].name);
            bool is_unread = config_unread_find(message, &message->fields[k]);
            n_read += is_read;
            if (is_read == is_unread)
                fail_msg("%s.%s is in %s", message->short_name, message->fields[k].name,
                         is_read ? "both lists" : "neither list");
        }
        assert_int_equal(n_read, n_listed); // no field is listed that is not there
    }
}

static void take_line(void *userdata, enum log_level level, const char *line)
{
    struct strbuf *lines = userdata;
    assert_int_equal(level, LOG_LEVEL_WARNING);
    strbuf_addf(lines, "%s\n", line);
}

static void assert_warnings(const char *text, const char *expected)
{
    ProtobufCMessage *message;
    struct err err = {0};
    struct strbuf lines = {0};
    struct log log = {.max_level = LOG_LEVEL_INFO, .write = take_line, .userdata = &lines};
    assert_int_equal(
        pbtext_parse(&pb__trace_config__descriptor, "t", text, strlen(text), &message, &err), 0);
    config_unread_warn((Pb__TraceConfig *)message, &log);
    assert_string_equal(lines.text ? lines.text : "", expected);
    protobuf_c_message_free_unpacked(message, NULL);
    strbuf_done(&lines);
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
                    "notify_traceur: has no effect, nobody is told when the trace is done\n"
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
        cmocka_unit_test(what_misleads_is_said_once),
    };
    return cmocka_run_group_tests_name("config_unread", tests, NULL, NULL);
}
