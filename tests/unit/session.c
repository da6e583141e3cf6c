// SPDX-License-Identifier: Apache-2.0
//
// Sessions with sources and time of the test's own: nothing here waits.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "common/wire.h"
#include "producer/service/session.h"
#include "producer/trace/trace_file.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

// Time stands still until the test moves it; the machine may sleep meanwhile.
struct fake_time {
    nsec_t boot, asleep;
};

static struct fake_time fake_time;

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    const struct fake_time *time = userdata;
    return clock == CLOCK_BOOTTIME || clock == CLOCK_REALTIME ? time->boot
                                                              : time->boot - time->asleep;
}

static const struct clock_reader fake_clock = {.now = fake_now, .userdata = &fake_time};

// A source that keeps a diary: "open a, start a, flush a, ...".
static char diary[4096];

static void note(const char *what, const char *who)
{
    size_t used = strlen(diary);
    snprintf(diary + used, sizeof(diary) - used, "%s%s %s", used ? ", " : "", what, who);
}

struct fake_source {
    struct source base;
    struct source_env env;
    const char *name; // of its class
    uint64_t events;
};

static const char *failing_open, *failing_start;
static struct fake_source *newest; // source that was opened

static int fake_open(const struct source_class *class, const struct source_env *env,
                     struct source **ret, struct err *err)
{
    note("open", class->name);
    if (failing_open && strstr(failing_open, class->name))
        return err_set(err, -EACCES, "no way in");
    struct fake_source *source = calloc(1, sizeof(*source));
    assert_non_null(source);
    source->base.class = class;
    source->env = *env;
    source->name = class->name;
    *ret = &source->base;
    newest = source;
    return 0;
}

static void fake_write(struct fake_source *source, size_t n_bytes)
{
    struct wire_writer *w = packet_writer_begin(source->env.writer, fake_time.boot, n_bytes + 32);
    if (!w)
        return;
    static const char filler[65536];
    wire_bytes(w, PB_TracePacket_compressed_packets, filler, n_bytes);
    packet_writer_end(source->env.writer);
    source->events++;
}

static int fake_start(struct source *base, struct err *err)
{
    note("start", base->class->name);
    if (failing_start && strstr(failing_start, base->class->name))
        return err_set(err, -EIO, "does not start");
    return 0;
}

static void fake_flush(struct source *base)
{
    note("flush", base->class->name);
    fake_write((struct fake_source *)base, 10);
}

static void fake_stop(struct source *base)
{
    note("stop", base->class->name);
}

static struct source *fake_close(struct source *base)
{
    note("close", base->class->name);
    free(base);
    return NULL;
}

static void fake_counts(const struct source *base, struct source_counts *ret)
{
    *ret = (struct source_counts){.events = ((const struct fake_source *)base)->events};
}

static void fake_clear(struct source *base)
{
    note("clear", base->class->name);
}

static const struct source_class class_a, class_b;

static int open_a(const struct source_env *env, const Pb__DataSourceConfig *config,
                  struct source **ret, struct err *err)
{
    (void)config;
    return fake_open(&class_a, env, ret, err);
}

static int open_b(const struct source_env *env, const Pb__DataSourceConfig *config,
                  struct source **ret, struct err *err)
{
    (void)config;
    return fake_open(&class_b, env, ret, err);
}

static const struct source_class class_a = {
    .name = "a",
    .open = open_a,
    .start = fake_start,
    .flush = fake_flush,
    .stop = fake_stop,
    .close = fake_close,
    .counts = fake_counts,
    .clear_state = fake_clear,
};
static const struct source_class class_b = {
    .name = "b",
    .open = open_b,
    .start = fake_start,
    .flush = fake_flush,
    .stop = fake_stop,
    .close = fake_close,
    .counts = fake_counts,
};
static const struct source_class *const classes[] = {&class_a, &class_b, NULL};

struct test {
    struct session *session;
    struct err err;
    char log[1024];
    int fd; // of the file that the session writes, kept for reading
    int n_ended, n_started, n_clones;
};

static void on_ended(void *userdata, struct session *session)
{
    struct test *t = userdata;
    assert_ptr_equal(session, t->session);
    t->n_ended++;
}

static void on_started(void *userdata, struct session *session)
{
    struct test *t = userdata;
    assert_true(session_get_state(session) & SESSION_RECORDING);
    t->n_started++;
}

static void on_clone_due(void *userdata, struct session *session,
                         const struct service_trigger_hit *hit)
{
    struct test *t = userdata;
    assert_ptr_equal(session, t->session);
    assert_string_equal(hit->name, "t");
    t->n_clones++;
}

static void on_log(void *userdata, enum log_level level, const char *line)
{
    struct test *t = userdata;
    (void)level;
    size_t used = strlen(t->log);
    snprintf(t->log + used, sizeof(t->log) - used, "%s\n", line);
}

static int make(struct test *t, const char *text)
{
    static struct log log;
    static const struct source_roots roots = {.proc = "/nonexistent", .sys = "/nonexistent"};
    *t = (struct test){.fd = -1};
    log = (struct log){.max_level = LOG_LEVEL_DEBUG, .write = on_log, .userdata = t};
    diary[0] = '\0';
    fake_time = (struct fake_time){.boot = 100 * NSEC_PER_SEC};
    struct session_env env = {
        .clock = &fake_clock,
        .log = &log,
        .roots = &roots,
        .classes = classes,
        .started = on_started,
        .clone_due = on_clone_due,
        .ended = on_ended,
        .userdata = t,
    };
    struct config config = {0};
    if (config_load("test", text, strlen(text), CONFIG_FORMAT_TEXT, &config, &t->err) < 0)
        fail_msg("%s", t->err.text);
    int r = session_new(&env, &config, &t->session, &t->err);
    config_done(&config);
    return r;
}

static void with_file(struct test *t)
{
    t->fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(t->fd >= 0);
    int fd = dup(t->fd);
    const struct session_settings *settings = session_get_settings(t->session);
    struct trace_file_options options = {
        .name = "trace",
        .max_size_bytes = settings->max_file_bytes,
        .deflate = settings->deflate,
    };
    struct trace_file *file;
    assert_int_equal(trace_file_new(fd, &options, &file, &t->err), 0);
    session_set_file(t->session, file);
}

static void start(struct test *t)
{
    if (session_start(t->session, &t->err) < 0)
        fail_msg("%s", t->err.text);
}

// Lets `time` pass and the session do whatever comes due in it, each at its time.
static void pass(struct test *t, nsec_t time)
{
    nsec_t until = fake_time.boot + time;
    while (session_next_due(t->session) <= until) {
        if (session_next_due(t->session) > fake_time.boot)
            fake_time.boot = session_next_due(t->session);
        session_run_due(t->session);
    }
    fake_time.boot = until;
}

static void done(struct test *t)
{
    t->session = session_free(t->session);
    if (t->fd >= 0)
        close(t->fd);
}

// What the file holds, one letter a packet: C clocks, Y sync marker, T config, U uuid, I system
// info, s/S tracing and all data sources started, f/F flush begun and done, x disabled, r read,
// t trigger, Z statistics, . a source's packet.
static char letter_of_event(const struct wire_field *event)
{
    struct wire_reader reader = wire_sub(event);
    struct wire_field f;
    wire_foreach(&reader, &f)
        switch (f.number) {
        case PB_TracingServiceEvent_tracing_started:
            return 's';
        case PB_TracingServiceEvent_all_data_sources_started:
            return 'S';
        case PB_TracingServiceEvent_flush_started:
            return 'f';
        case PB_TracingServiceEvent_all_data_sources_flushed:
            return 'F';
        case PB_TracingServiceEvent_tracing_disabled:
            return 'x';
        case PB_TracingServiceEvent_read_tracing_buffers_completed:
            return 'r';
        default:
            break;
        }
    return '?';
}

static char letter_of_packet(struct wire_reader reader)
{
    struct wire_field f;
    wire_foreach(&reader, &f)
        switch (f.number) {
        case PB_TracePacket_clock_snapshot:
            return 'C';
        case PB_TracePacket_synchronization_marker:
            return 'Y';
        case PB_TracePacket_trace_config:
            return 'T';
        case PB_TracePacket_trace_uuid:
            return 'U';
        case PB_TracePacket_system_info:
            return 'I';
        case PB_TracePacket_trace_stats:
            return 'Z';
        case PB_TracePacket_trigger:
            return 't';
        case PB_TracePacket_service_event:
            return letter_of_event(&f);
        case PB_TracePacket_compressed_packets:
            return '.';
        default:
            break;
        }
    return '?';
}

static const char *file_letters(const struct test *t)
{
    static char letters[8192];
    static uint8_t bytes[1 << 20];
    ssize_t size = pread(t->fd, bytes, sizeof(bytes), 0);
    assert_true(size >= 0);
    struct wire_reader reader = wire_reader_over(bytes, (size_t)size);
    struct wire_field packet;
    size_t n = 0;
    wire_foreach(&reader, &packet) {
        assert_int_equal(packet.number, PB_Trace_packet);
        assert_true(n < sizeof(letters) - 1);
        letters[n++] = letter_of_packet(wire_sub(&packet));
    }
    assert_false(reader.error);
    letters[n] = '\0';
    return letters;
}

#define TWO_SOURCES                                                                                \
    "buffers { size_kb: 64 } data_sources { config { name: 'b' } } "                               \
    "data_sources { config { name: 'a' } } "

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
    // One flush between the second and the third, and a clock snapshot for each of them.
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

static void what_fails_is_left_out(void **state)
{
    (void)state;
    struct test t;
    failing_open = "a";
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    start(&t);
    assert_string_equal(t.log, "a is not recorded: no way in\n");
    done(&t);
    failing_open = NULL;
    failing_start = "b";
    assert_int_equal(make(&t, TWO_SOURCES), 0);
    start(&t);
    session_stop(t.session);
    assert_string_equal(t.log, "b is not recorded: does not start\n");
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

// Any size that a config may have can be recorded into.
static void small_buffers_are_raised(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, "buffers { size_kb: 1 } data_sources { config { name: 'a' } }"), 0);
    start(&t);
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
    assert_int_equal(pipe(ends), 0);
    struct trace_file_options options = {.name = "pipe"};
    struct trace_file *file;
    assert_int_equal(trace_file_new(ends[1], &options, &file, &t.err), 0);
    session_set_file(t.session, file);
    start(&t);
    for (int i = 0; i < 60; i++)
        fake_write(newest, 10000);
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
    for (;;) { // what the pipe still holds; its writing end is closed
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

#define TRIGGERS(mode)                                                                             \
    TWO_SOURCES "trigger_config { trigger_mode: " mode " trigger_timeout_ms: 10000 "               \
                "triggers { name: 't' stop_delay_ms: 2000 } }"
#define PLAIN_CONFIG TWO_SOURCES "duration_ms: 10000"
#define START_CONFIG TRIGGERS("START_TRACING")
#define STOP_CONFIG  TRIGGERS("STOP_TRACING")
#define CLONE_CONFIG TRIGGERS("CLONE_SNAPSHOT")

// a arm, s start, t trigger, x stop, q abort, w what is due now, . one second.
static void step(struct test *t, char what)
{
    const struct service_trigger_hit hit = {
        .name = "t", .producer_name = "p", .time = fake_time.boot, .stop_delay_ms = 2000};
    switch (what) {
    case 'a':
        assert_int_equal(session_arm(t->session, &t->err), 0);
        break;
    case 's':
        start(t);
        break;
    case 't':
        session_trigger(t->session, &hit);
        break;
    case 'x':
        session_stop(t->session);
        break;
    case 'q':
        session_abort(t->session);
        break;
    default:
        pass(t, what == '.' ? NSEC_PER_SEC : 0);
    }
}

static void every_transition(void **state)
{
    (void)state;
    static const struct {
        const char *config, *steps;
        enum session_state state;
        int result, n_started, n_clones;
        bool has_file; // something is in it
    } rows[] = {
        {PLAIN_CONFIG, "", SESSION_CONFIGURED, 0, 0, 0, false},
        {PLAIN_CONFIG, "x", SESSION_DONE, 0, 0, 0, false},
        {PLAIN_CONFIG, "q", SESSION_DONE, 0, 0, 0, false},
        {PLAIN_CONFIG, "t", SESSION_CONFIGURED, 0, 0, 0, false},
        {PLAIN_CONFIG, "s", SESSION_STARTED, 0, 1, 0, false},
        {PLAIN_CONFIG, "st..", SESSION_STARTED, 0, 1, 0, false},
        {PLAIN_CONFIG, "s.........", SESSION_STARTED, 0, 1, 0, false},
        {PLAIN_CONFIG, "s..........", SESSION_DONE, 0, 1, 0, true},
        {PLAIN_CONFIG, "sx", SESSION_STOPPING, 0, 1, 0, false},
        {PLAIN_CONFIG, "sxx", SESSION_STOPPING, 0, 1, 0, false},
        {PLAIN_CONFIG, "sxw", SESSION_DONE, 0, 1, 0, true},
        {PLAIN_CONFIG, "sq", SESSION_DONE, 0, 1, 0, false},
        {PLAIN_CONFIG, "sxq", SESSION_DONE, 0, 1, 0, false},

        {START_CONFIG, "t", SESSION_CONFIGURED, 0, 0, 0, false},
        {START_CONFIG, "a", SESSION_ARMED, 0, 0, 0, false},
        {START_CONFIG, "a.........", SESSION_ARMED, 0, 0, 0, false},
        {START_CONFIG, "a..........", SESSION_DONE, SESSION_E_NO_TRACE, 0, 0, false},
        {START_CONFIG, "ax", SESSION_DONE, SESSION_E_NO_TRACE, 0, 0, false},
        {START_CONFIG, "aq", SESSION_DONE, SESSION_E_NO_TRACE, 0, 0, false},
        {START_CONFIG, "at", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "at.", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "at..", SESSION_DONE, 0, 1, 0, true},
        {START_CONFIG, "at.t.", SESSION_DONE, 0, 1, 0, true},
        {START_CONFIG, "a.........t.", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "atx", SESSION_STOPPING, 0, 1, 0, false},
        {START_CONFIG, "atxw", SESSION_DONE, 0, 1, 0, true},
        {START_CONFIG, "atq", SESSION_DONE, 0, 1, 0, false},
        {START_CONFIG, "as", SESSION_STARTED, 0, 1, 0, false},
        {START_CONFIG, "as............", SESSION_STARTED, 0, 1, 0, false},
        {START_CONFIG, "asx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {START_CONFIG, "ast...", SESSION_TRIGGERED, 0, 1, 0, false},
        {START_CONFIG, "astxw", SESSION_DONE, 0, 1, 0, true},

        {STOP_CONFIG, "s.........", SESSION_STARTED, 0, 1, 0, false},
        {STOP_CONFIG, "s..........", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {STOP_CONFIG, "sx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {STOP_CONFIG, "sq", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {STOP_CONFIG, "s.........t.", SESSION_TRIGGERED, 0, 1, 0, false},
        {STOP_CONFIG, "s.........t..", SESSION_DONE, 0, 1, 0, true},
        {STOP_CONFIG, "st.t.", SESSION_DONE, 0, 1, 0, true},
        {STOP_CONFIG, "stx", SESSION_STOPPING, 0, 1, 0, false},
        {STOP_CONFIG, "stxw", SESSION_DONE, 0, 1, 0, true},

        {CLONE_CONFIG, "st.", SESSION_STARTED, 0, 1, 0, false},
        {CLONE_CONFIG, "st.t.", SESSION_STARTED, 0, 1, 1, false},
        {CLONE_CONFIG, "st.t..", SESSION_STARTED, 0, 1, 2, false},
        {CLONE_CONFIG, "st........t..", SESSION_DONE, SESSION_E_NO_TRACE, 1, 2, false},
        {CLONE_CONFIG, "stx", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
        {CLONE_CONFIG, "stx..", SESSION_DONE, SESSION_E_NO_TRACE, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct test t;
        assert_int_equal(make(&t, rows[i].config), 0);
        with_file(&t);
        for (const char *p = rows[i].steps; *p; p++)
            step(&t, *p);
        bool fits = session_get_state(t.session) == rows[i].state &&
                    session_result(t.session, NULL) == rows[i].result &&
                    t.n_started == rows[i].n_started && t.n_clones == rows[i].n_clones &&
                    t.n_ended == (rows[i].state == SESSION_DONE) &&
                    (*file_letters(&t) != '\0') == rows[i].has_file;
        if (!fits)
            fail_msg("%s \"%s\": state %d, result %d, started %d, clones %d, ended %d, file %s",
                     rows[i].config, rows[i].steps, (int)session_get_state(t.session),
                     session_result(t.session, NULL), t.n_started, t.n_clones, t.n_ended,
                     file_letters(&t));
        done(&t);
    }
}

static void armed_session_touches_nothing(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, START_CONFIG "write_into_file: true flush_period_ms: 10 "
                                           "incremental_state_config { clear_period_ms: 10 }"),
                     0);
    with_file(&t);
    step(&t, 'a');
    // The only thing that it waits for.
    assert_int_equal(session_next_due(t.session), fake_time.boot + 10 * NSEC_PER_SEC);
    assert_int_equal(session_arm(t.session, &t.err), -EINVAL);
    assert_string_equal(diary, "open a, open b");
    step(&t, 't');
    assert_string_equal(diary, "open a, open b, start a, start b");
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    const char *letters = file_letters(&t);
    assert_memory_equal(letters, "CYTUItsS", 8);
    assert_int_equal(session_arm(t.session, &t.err), -EINVAL);
    done(&t);
}

static void delays_leave_out_sleep(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, STOP_CONFIG), 0);
    start(&t);
    step(&t, 't');
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_TRIGGERED);
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    step(&t, 't');
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 0);
    pass(&t, NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 1);
    done(&t);
    assert_int_equal(make(&t, STOP_CONFIG "prefer_suspend_clock_for_duration: true"), 0);
    start(&t);
    step(&t, 't');
    fake_time.asleep += NSEC_PER_SEC;
    pass(&t, 2 * NSEC_PER_SEC);
    assert_int_equal(session_get_state(t.session), SESSION_DONE);
    done(&t);
}

static void too_many_snapshots_at_a_time_are_left_out(void **state)
{
    (void)state;
    struct test t;
    assert_int_equal(make(&t, CLONE_CONFIG), 0);
    start(&t);
    for (int i = 0; i < 20; i++)
        step(&t, 't');
    const char *told = strstr(t.log, "too many triggers");
    assert_non_null(told);
    assert_null(strstr(told + 1, "too many triggers")); // however many there are
    pass(&t, 3 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 16);
    step(&t, 't');
    pass(&t, 3 * NSEC_PER_SEC);
    assert_int_equal(t.n_clones, 17);
    done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_follow_the_table),
        cmocka_unit_test(file_has_the_service_first_and_the_statistics_last),
        cmocka_unit_test(builtin_packets_can_be_switched_off),
        cmocka_unit_test(file_is_written_each_period),
        cmocka_unit_test(rare_writes_flush_first),
        cmocka_unit_test(state_is_cleared_each_period),
        cmocka_unit_test(sleep_counts_only_if_asked_for),
        cmocka_unit_test(clocks_are_taken_again_when_they_drift),
        cmocka_unit_test(source_has_its_own_duration),
        cmocka_unit_test(what_fails_is_left_out),
        cmocka_unit_test(nothing_left_is_an_error),
        cmocka_unit_test(producer_filters_select),
        cmocka_unit_test(full_file_ends_the_session),
        cmocka_unit_test(failing_file_ends_the_session),
        cmocka_unit_test(sessions_live_side_by_side),
        cmocka_unit_test(settings_refuse_what_cannot_be_done),
        cmocka_unit_test(small_buffers_are_raised),
        cmocka_unit_test(stop_during_a_write_out_loses_nothing),
        cmocka_unit_test(slow_reader_is_waited_for),
        cmocka_unit_test(every_transition),
        cmocka_unit_test(armed_session_touches_nothing),
        cmocka_unit_test(delays_leave_out_sleep),
        cmocka_unit_test(too_many_snapshots_at_a_time_are_left_out),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
