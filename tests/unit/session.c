// SPDX-License-Identifier: Apache-2.0
//
// Recording and writing of sessions, in time, and the packets that sessions leave out. The states
// of a session are in session_states.c.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/elements.h"
#include "producer/service/session/implicit_names.h"
#include "producer/trace/trace_file.h"
#include "protos/fields.h"
#include "tests/unit/session_fixture.h"

static void sources_follow_the_table(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "duration_ms: 1000"), 0);
    start(&t);
    assert_int_equal(session_get_state(t.session), SESSION_STARTED);
    pass(&t, 999 * NSEC_PER_MSEC);
    assert_int_equal(session_get_state(t.session), SESSION_STARTED);
    pass(&t, 1 * NSEC_PER_MSEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(t.n_ended, 1);
    done(&t);
    assert_string_equal(diary, "open a, open b, start a, start b, flush b, flush a, stop b, "
                               "stop a, close b, close a");
}

static void file_has_the_service_first_and_the_statistics_last(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    with_file(&t);
    start(&t);
    pass(&t, NSEC_PER_SEC);
    assert_string_equal(file_letters(&t), "");
    session_stop(t.session);
    assert_int_equal(session_get_state(t.session), SESSION_STOPPING);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_string_equal(file_letters(&t), "CYTUIsSfFx..rZ");
    session_stop(t.session);
    session_abort(t.session);
    assert_int_equal(t.n_ended, 1);
    done(&t);
}

static struct trace_file *file_with(struct test *t)
{
    t->fd = memfd_create("trace", MFD_CLOEXEC);
    struct trace_file *file;
    const struct trace_file_options options = {.name = "trace"};
    assert_int_equal(trace_file_new(dup(t->fd), &options, &file, &t->err), 0);
    return file;
}

// A child process saves the session, whose sources dump for the child alone. The session has no
// file until its end.
static void copies_change_nothing(void **state)
{
    (void)state;
    struct test t;
    int status;
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    start(&t);
    for (int i = 0; i < 2; i++) {
        struct trace_file *file = file_with(&t);
        session_begin_copy(t.session);
        pid_t child = fork();
        if (child == 0)
            _exit(session_save_copy(t.session, file, &t.err) != 0);
        session_end_copy(t.session);
        trace_file_free(file);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_string_equal(file_letters(&t), i == 0 ? "CYTUIsS...rZ" : "CYTUIsS.....rZ");
        close(t.fd);
    }
    session_stop(t.session);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_write_late(t.session, file_with(&t), &t.err), 0);
    pass(&t, 0);
    assert_string_equal(file_letters(&t), "CYTUIsSfFx......rZ");
    assert_int_equal(session_result(t.session, &t.err), 0);
    done(&t);
}

static void builtin_packets_can_be_switched_off(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "builtin_data_sources { disable_clock_snapshotting: true "
                                          "disable_trace_config: true disable_system_info: true "
                                          "disable_service_events: true }"),
                     0);
    with_file(&t);
    start(&t);
    session_stop(t.session);
    pass(&t, 0);
    assert_string_equal(file_letters(&t), "YU..Z");
    done(&t);
}

static void file_is_written_each_period(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 1 "
                                          "flush_period_ms: 250"),
                     0);
    with_file(&t);
    start(&t);
    pass(&t, 99 * NSEC_PER_MSEC);
    assert_string_equal(file_letters(&t), "");
    pass(&t, 1 * NSEC_PER_MSEC);
    assert_string_equal(file_letters(&t), "CYTUIsSZ");
    pass(&t, 200 * NSEC_PER_MSEC);
    // A flush is between the second and the third write-out. Each write-out has a clock snapshot.
    assert_string_equal(file_letters(&t), "CYTUIsSZCZCfF..Z");
    session_abort(t.session);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_result(t.session, NULL), 0);
    assert_string_equal(file_letters(&t), "CYTUIsSZCZCfF..Z");
    done(&t);
}

static void rare_writes_flush_first(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 8000"), 0);
    with_file(&t);
    start(&t);
    pass(&t, 8 * NSEC_PER_SEC);
    assert_string_equal(file_letters(&t), "CYTUIsSfF..Z");
    session_stop(t.session);
    pass(&t, 0);
    assert_string_equal(file_letters(&t), "CYTUIsSfF..ZCfFx..rZ"); // one flush at the end
    Pb__TraceStats *stats = session_get_stats(t.session);
    assert_non_null(stats);
    assert_int_equal(stats->flushes_succeeded, 2);
    pb__trace_stats__free_unpacked(stats, NULL);
    done(&t);
}

// Starts a session whose file is a pipe, and writes more into its buffer than the pipe holds.
static void start_into_pipe(struct test *t, int ends[2])
{
    struct trace_file_options options = {.name = "pipe"};
    struct trace_file *file;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(trace_file_new(ends[1], &options, &file, &t->err), 0);
    session_set_file(t->session, file);
    start(t);
    for (int i = 0; i < 60; i++)
        fake_write(newest, 10000);
}

// A period that comes during a write-out is left out, with its flush.
static void write_outs_do_not_overlap(void **state)
{
    (void)state;
    struct test t;
    int ends[2];
    assert_int_equal(make(&t, "buffers { size_kb: 1024 } data_sources { config { name: 'a' } } "
                              "write_into_file: true file_write_period_ms: 8000"),
                     0);
    start_into_pipe(&t, ends);
    pass(&t, 30 * NSEC_PER_SEC);
    assert_string_equal(diary, "open a, start a, flush a");
    close(ends[0]);
    done(&t);
}

static void state_is_cleared_each_period(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "incremental_state_config { clear_period_ms: 400 }"), 0);
    start(&t);
    pass(&t, NSEC_PER_SEC);
    assert_string_equal(diary, "open a, open b, start a, start b, clear a, clear a");
    done(&t);
}

static void sleep_counts_only_if_asked_for(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "duration_ms: 10000"), 0);
    start(&t);
    fake_time.boot += 8 * NSEC_PER_SEC;
    fake_time.asleep += 8 * NSEC_PER_SEC;
    pass(&t, 9 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_STARTED);
    pass(&t, 1 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);

    assert_int_equal(
        make(&t, TWO_SOURCES "duration_ms: 10000 prefer_suspend_clock_for_duration: true"), 0);
    start(&t);
    fake_time.boot += 8 * NSEC_PER_SEC;
    fake_time.asleep += 8 * NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);
}

static void clocks_are_taken_again_when_they_drift(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    with_file(&t);
    start(&t);
    pass(&t, 60 * NSEC_PER_SEC);
    fake_time.boot += NSEC_PER_SEC;
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 60 * NSEC_PER_SEC);
    session_stop(t.session);
    pass(&t, 0);
    assert_string_equal(file_letters(&t), "CCYTUIsSfFx..rZ");
    done(&t);
}

static void source_has_its_own_duration(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, "buffers { size_kb: 64 } duration_ms: 1000 data_sources { config { "
                              "name: 'a' trace_duration_ms: 300 } } "
                              "data_sources { config { name: 'b' } }"),
                     0);
    start(&t);
    pass(&t, 500 * NSEC_PER_MSEC);
    assert_string_equal(diary, "open a, open b, start a, start b, flush a, stop a");
    pass(&t, 500 * NSEC_PER_MSEC);
    assert_string_equal(diary,
                        "open a, open b, start a, start b, flush a, stop a, flush b, stop b");
    done(&t);
}

static void assert_problem(const struct test *t, const char *text)
{
    struct session_counts counts;
    session_get_counts(t->session, &counts);
    assert_string_equal(counts.problem, text);
}

// A change of the filter leads to another attempt.
static void problem_is_reported_once(void **state)
{
    (void)state;
    struct test t;
    failing_open = "a";
    assert_int_equal(make(&t, TWO_SOURCES "data_sources { config { name: 'a' } }"), 0);
    start(&t);
    session_filters_changed(t.session);
    assert_problem(&t, "a is not recorded: no way in");
    done(&t);
    failing_open = NULL;
}

static void what_fails_is_left_out(void **state)
{
    (void)state;
    struct test t;
    failing_open = "a";
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    start(&t);
    assert_string_equal(t.log, "a is not recorded: no way in\n");
    assert_problem(&t, "a is not recorded: no way in");
    session_stop(t.session);
    assert_problem(&t, "a is not recorded: no way in");
    done(&t);
    failing_open = NULL;
    failing_start = "b";
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    start(&t);
    session_stop(t.session);
    assert_string_equal(t.log, "b is not recorded: does not start\n");
    assert_problem(&t, "b is not recorded: does not start");
    const Pb__TraceConfig *config = session_get_config(t.session);
    assert_false(session_source_has_started(t.session, config->data_sources[0]->config)); // b
    assert_true(session_source_has_started(t.session, config->data_sources[1]->config));
    done(&t);
    assert_string_equal(diary,
                        "open a, open b, start a, start b, flush a, stop a, close b, close a");
    failing_start = NULL;
}

static void nothing_left_is_an_error(void **state)
{
    (void)state;
    struct test t;
    failing_open = "ab";
    assert_int_equal(make(&t, TWO_SOURCES), -ENODEV);
    assert_string_equal(t.log, "a is not recorded: no way in\nb is not recorded: no way in\n");
    assert_int_equal(make(&t, "buffers { size_kb: 64 } data_sources { config { name: 'a' } }"),
                     -EACCES);
    assert_string_equal(t.err.text, "a: no way in");
    assert_string_equal(t.log, "");
    failing_open = NULL;
    failing_start = "ab";
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    assert_int_equal(session_start(t.session, &t.err), -ENODEV);
    done(&t);
    failing_start = NULL;
    assert_int_equal(make(&t, "buffers { size_kb: 64 } data_sources { config { name: 'zzz' } }"),
                     -ENOENT);
}

static void producer_filters_select(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(
        make(&t, "buffers { size_kb: 64 } "
                 "data_sources { config { name: 'a' } producer_name_filter: 'somebody.else' } "
                 "data_sources { config { name: 'b' } producer_name_regex_filter: 'perfetto[.].*' "
                 "}"),
        0);
    assert_string_equal(diary, "open b");
    done(&t);
    assert_int_equal(
        make(&t, "buffers { size_kb: 64 } "
                 "data_sources { config { name: 'a' } producer_name_filter: 'mmtrace' } "
                 "data_sources { config { name: 'b' } producer_name_regex_filter: 'other' } "),
        0);
    assert_string_equal(diary, "open a");
    done(&t);
}

static void full_file_ends_the_session(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 100 "
                                          "flush_period_ms: 10 max_file_size_bytes: 2000"),
                     0);
    with_file(&t);
    start(&t);
    pass(&t, 60 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    struct session_counts counts;
    session_get_counts(t.session, &counts);
    assert_true(counts.file_full);
    assert_true(counts.file_bytes <= 2000 && counts.file_bytes > 1000);
    assert_true(counts.elapsed < 10 * NSEC_PER_SEC);
    assert_int_equal(session_result(t.session, NULL), 0);
    assert_true(strlen(file_letters(&t)) > 10);
    done(&t);
}

static void failing_file_ends_the_session(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 100"), 0);
    t.fd = memfd_create("trace", MFD_CLOEXEC);
    struct trace_file_options options = {.name = "trace"};
    struct trace_file *file;
    assert_int_equal(trace_file_new(dup(t.fd), &options, &file, &t.err), 0);
    session_set_file(t.session, file);
    start(&t);
    assert_int_equal(close(trace_file_fd(file)), 0); // the disk is gone
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    assert_int_equal(session_result(t.session, &t.err), -EBADF);
    assert_non_null(strstr(t.err.text, "trace"));
    assert_int_equal(t.n_ended, 1);
    done(&t);
}

static void sessions_live_side_by_side(void **state)
{
    (void)state;
    struct test first, second;
    assert_int_equal(make(&first, TWO_SOURCES "duration_ms: 1000"), 0);
    with_file(&first);
    start(&first);
    assert_int_equal(make(&second, TWO_SOURCES "duration_ms: 3000"), 0);
    with_file(&second);
    start(&second);
    pass(&first, NSEC_PER_SEC);
    assert_int_equal(session_get_state(first.session), SESSION_DONE);
    assert_int_equal(session_get_state(second.session), SESSION_STARTED);
    done(&first);
    pass(&second, 2 * NSEC_PER_SEC);
    assert_string_equal(file_letters(&second), "CYTUIsSfFx..rZ");
    done(&second);
}

static void settings_refuse_what_cannot_be_done(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "compression { zstd {} }"), -EOPNOTSUPP);
    assert_non_null(strstr(t.err.text, "zstd"));
    assert_int_equal(make(&t, TWO_SOURCES "compression { deflate {} }"), 0);
    assert_true(session_get_settings(t.session)->deflate);
    done(&t);
    assert_int_equal(make(&t, TWO_SOURCES "compression_type: COMPRESSION_TYPE_DEFLATE"), 0);
    assert_true(session_get_settings(t.session)->deflate);
    done(&t);
    assert_int_equal(make(&t, "data_sources { config { name: 'a' } }"), -EINVAL);
}

static void settings_follow_the_config(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 5000 "
                                          "trace_uuid_msb: 7"),
                     0);
    const struct session_settings *settings = session_get_settings(t.session);
    assert_int_equal(settings->flush_period, 5 * NSEC_PER_SEC);
    assert_false(settings->flush_on_write);
    assert_false(settings->sync_after_write);
    assert_int_equal(settings->uuid_msb, 7);
    assert_int_equal(settings->uuid_lsb, 0);
    assert_int_equal(settings->primary_clock, PB_BUILTIN_CLOCK_BOOTTIME);
    done(&t);
    assert_int_equal(make(&t, TWO_SOURCES "write_into_file: true file_write_period_ms: 5001 "
                                          "trace_uuid_lsb: 8 fflush_post_write: FFLUSH_ENABLED "
                                          "builtin_data_sources { primary_trace_clock: "
                                          "BUILTIN_CLOCK_MONOTONIC }"),
                     0);
    settings = session_get_settings(t.session);
    assert_int_equal(settings->flush_period, 0);
    assert_true(settings->flush_on_write);
    assert_true(settings->sync_after_write);
    assert_int_equal(settings->uuid_msb, 0);
    assert_int_equal(settings->uuid_lsb, 8);
    assert_int_equal(settings->primary_clock, PB_BUILTIN_CLOCK_MONOTONIC);
    done(&t);
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    settings = session_get_settings(t.session);
    assert_int_equal((uint64_t)settings->uuid_msb >> 12 & 15, 4); // made by RFC 9562
    assert_int_equal((uint64_t)settings->uuid_lsb >> 62, 2);
    done(&t);
}

// Any size that a config may have can be recorded into.
static void small_buffers_are_raised(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, "buffers { size_kb: 1 } data_sources { config { name: 'a' } }"), 0);
    start(&t);
    done(&t);
}

static void its_time_ends_with_the_recording(void **state)
{
    (void)state;
    struct test t;
    struct session_counts counts;
    assert_int_equal(make(&t, TWO_SOURCES "duration_ms: 1000"), 0);
    session_get_counts(t.session, &counts);
    assert_int_equal(counts.elapsed, 0);
    start(&t);
    pass(&t, 400 * NSEC_PER_MSEC);
    session_get_counts(t.session, &counts);
    assert_int_equal(counts.elapsed, 400 * NSEC_PER_MSEC);
    pass(&t, 600 * NSEC_PER_MSEC);
    pass(&t, NSEC_PER_SEC);
    session_get_counts(t.session, &counts);
    assert_int_equal(counts.elapsed, NSEC_PER_SEC);
    done(&t);
}

static void stop_during_a_write_out_loses_nothing(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, "buffers { size_kb: 1024 } data_sources { config { name: 'a' } } "
                              "write_into_file: true file_write_period_ms: 100"),
                     0);
    with_file(&t);
    start(&t);
    for (int i = 0; i < 20; i++)
        fake_write(newest, 10000);
    fake_time.boot = session_next_due(t.session);
    session_run_due(t.session); // the period begins ...
    session_run_due(t.session); // ... and a first slice is written
    for (int i = 0; i < 5; i++)
        fake_write(newest, 100);
    session_stop(t.session);
    assert_int_equal(session_get_state(t.session), SESSION_STOPPING);
    pass(&t, 0);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    const char *letters = file_letters(&t);
    size_t n_packets = 0;
    for (const char *c = letters; *c; c++)
        n_packets += *c == '.';
    assert_int_equal(n_packets, 20 + 5 + 1); // and one of the flush
    assert_string_equal(letters + strlen(letters) - 2, "rZ");
    assert_int_equal(session_result(t.session, NULL), 0);
    done(&t);
}

static void slow_reader_is_waited_for(void **state)
{
    (void)state;
    struct test t;
    int ends[2];
    assert_int_equal(make(&t, "buffers { size_kb: 1024 } data_sources { config { name: 'a' } }"),
                     0);
    start_into_pipe(&t, ends);
    session_stop(t.session);
    t.fd = memfd_create("trace", MFD_CLOEXEC);
    for (int round = 0; session_get_state(t.session) == SESSION_STOPPING; round++) {
        char bytes[4096];
        assert_true(round < 1000);
        pass(&t, 10 * NSEC_PER_MSEC); // until the pipe is full
        ssize_t n = read(ends[0], bytes, sizeof(bytes));
        assert_true(n > 0);
        assert_int_equal(write(t.fd, bytes, (size_t)n), n);
    }
    for (;;) { // the rest in the pipe, whose writing end is closed
        char bytes[4096];
        ssize_t n = read(ends[0], bytes, sizeof(bytes));
        assert_true(n >= 0);
        if (n == 0)
            break;
        assert_int_equal(write(t.fd, bytes, (size_t)n), n);
    }
    const char *letters = file_letters(&t);
    assert_int_equal(strlen(letters), strlen("CYTUIsSfFxrZ") + 61);
    close(ends[0]);
    done(&t);
}

// Sources that meet tasks ask for their names, unless the config has the source of names itself.
static void tasks_without_a_source_of_names_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool wants, ended;
    } rows[] = {
        {"", false, false},
        {"data_sources { config { name: 'linux.ftrace' } }", true, true},
        {"data_sources { config { name: 'linux.process_stats' } }", false, true},
        {"data_sources { config { name: 'linux.ftrace' } } "
         "data_sources { config { name: 'linux.process_stats' } }",
         false, true},
        {"data_sources { config { name: 'linux.sys_stats' } }", false, false},
        {"data_sources { config { name: 'android.heapprofd' } }", true, true},
        {"data_sources { config { name: 'linux.heap' } }", true, true},
        {"data_sources { config { name: 'linux.perf' } }", true, true},
        {"data_sources { config { name: 'linux.process_stats' } } "
         "data_sources { config { name: 'linux.heap' } }",
         false, true},
        {"data_sources { config { name: 'linux.ftrace' ftrace_config { "
         "ftrace_events: 'vmscan/mm_vmscan_kswapd_wake' } } }",
         true, true},
        {"data_sources { config { name: 'linux.ftrace' ftrace_config { "
         "ftrace_events: 'sched/sched_switch' } } }",
         true, false},
        {"data_sources { config { name: 'linux.ftrace' } } data_sources { config { "
         "name: 'linux.process_stats' process_stats_config { quirks: DISABLE_ON_DEMAND } } }",
         false, false},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        struct config config = {0};
        struct err err = {0};
        char text[512];
        int size = snprintf(text, sizeof(text), "buffers { size_kb: 64 } %s", rows[i].config);
        assert_int_equal(config_load("test", text, (size_t)size, CONFIG_FORMAT_TEXT, &config, &err),
                         0);
        Pb__TraceConfig *message = pb__trace_config__unpack(NULL, config.size, config.bytes);
        assert_non_null(message);
        assert_int_equal(wants_implicit_names(message), rows[i].wants);
        assert_int_equal(wants_names_of_ended(message), rows[i].ended);
        assert_int_equal(wants_names_of_ended(message), rows[i].ended);
        pb__trace_config__free_unpacked(message, NULL);
        config_done(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_follow_the_table),
        cmocka_unit_test(file_has_the_service_first_and_the_statistics_last),
        cmocka_unit_test(copies_change_nothing),
        cmocka_unit_test(builtin_packets_can_be_switched_off),
        cmocka_unit_test(file_is_written_each_period),
        cmocka_unit_test(rare_writes_flush_first),
        cmocka_unit_test(write_outs_do_not_overlap),
        cmocka_unit_test(state_is_cleared_each_period),
        cmocka_unit_test(sleep_counts_only_if_asked_for),
        cmocka_unit_test(clocks_are_taken_again_when_they_drift),
        cmocka_unit_test(source_has_its_own_duration),
        cmocka_unit_test(what_fails_is_left_out),
        cmocka_unit_test(problem_is_reported_once),
        cmocka_unit_test(nothing_left_is_an_error),
        cmocka_unit_test(producer_filters_select),
        cmocka_unit_test(full_file_ends_the_session),
        cmocka_unit_test(failing_file_ends_the_session),
        cmocka_unit_test(sessions_live_side_by_side),
        cmocka_unit_test(settings_refuse_what_cannot_be_done),
        cmocka_unit_test(settings_follow_the_config),
        cmocka_unit_test(small_buffers_are_raised),
        cmocka_unit_test(its_time_ends_with_the_recording),
        cmocka_unit_test(stop_during_a_write_out_loses_nothing),
        cmocka_unit_test(slow_reader_is_waited_for),
        cmocka_unit_test(tasks_without_a_source_of_names_are_named),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
