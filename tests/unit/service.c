// SPDX-License-Identifier: Apache-2.0
//
// The service with sources and time of the test's own: nothing here waits.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/wire.h"
#include "producer/service/service.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

struct fake_time {
    nsec_t boot, asleep, real;
};

static struct fake_time fake_time;

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    const struct fake_time *time = userdata;
    if (clock == CLOCK_REALTIME)
        return time->real + time->boot;
    return clock == CLOCK_BOOTTIME ? time->boot : time->boot - time->asleep;
}

static const struct clock_reader fake_clock = {.now = fake_now, .userdata = &fake_time};

// A source that writes one packet at its start and one each flush.
struct fake_source {
    struct source base;
    struct packet_writer *writer;
};

static int n_open, n_running;
static size_t packet_bytes; // of each packet
static bool start_fails;

static const struct source_class fake_class;

static int fake_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    (void)config, (void)err;
    struct fake_source *source = calloc(1, sizeof(*source));
    assert_non_null(source);
    source->base.class = &fake_class;
    source->writer = env->writer;
    *ret = &source->base;
    n_open++;
    return 0;
}

static void fake_write(struct fake_source *source)
{
    static const char filler[100000];
    struct wire_writer *w = packet_writer_begin(source->writer, fake_time.boot, packet_bytes + 28);
    if (!w)
        return;
    wire_bytes(w, PB_TracePacket_compressed_packets, filler, packet_bytes);
    packet_writer_end(source->writer);
}

static int fake_start(struct source *base, struct err *err)
{
    if (start_fails)
        return err_set(err, -EIO, "does not start");
    n_running++;
    fake_write((struct fake_source *)base);
    return 0;
}

static void fake_flush(struct source *base)
{
    fake_write((struct fake_source *)base);
}

static void fake_stop(struct source *base)
{
    (void)base;
    n_running--;
}

static struct source *fake_close(struct source *base)
{
    free(base);
    n_open--;
    return NULL;
}

static const struct source_class fake_class = {
    .name = "a",
    .open = fake_open,
    .start = fake_start,
    .flush = fake_flush,
    .stop = fake_stop,
    .close = fake_close,
};
static const struct source_class *const classes[] = {&fake_class, NULL};

struct test {
    struct service *service;
    struct service_limits limits;
    char state_dir[64]; // empty: none
    double random;
    char log[4096];
    struct err err;
    char diary[4096]; // "1 started, 1 ended 0, 2 clone t, ..."
    uint64_t destroy_on_end, clone_on_trigger;
    struct service_consumer consumer, other;
};

static struct test t;

static void note(const char *text)
{
    size_t used = strlen(t.diary);
    snprintf(t.diary + used, sizeof(t.diary) - used, "%s%s", used ? ", " : "", text);
}

static void on_notify(void *userdata, uint64_t id, enum service_event event, int result,
                      const char *text, const struct service_trigger_hit *trigger)
{
    char line[128];
    (void)userdata, (void)text;
    if (event == SERVICE_EVENT_STARTED)
        snprintf(line, sizeof(line), "%d started", (int)id);
    else if (event == SERVICE_EVENT_ENDED)
        snprintf(line, sizeof(line), "%d ended %d", (int)id, result);
    else
        snprintf(line, sizeof(line), "%d clone %s", (int)id, trigger->name);
    note(line);
    if (event == SERVICE_EVENT_ENDED && t.destroy_on_end == id)
        assert_int_equal(service_destroy(t.service, id), 0);
}

static void on_log(void *userdata, enum log_level level, const char *line)
{
    (void)userdata, (void)level;
    size_t used = strlen(t.log);
    snprintf(t.log + used, sizeof(t.log) - used, "%s\n", line);
}

static double on_random(void *userdata)
{
    (void)userdata;
    return t.random;
}

static void make_service(void)
{
    static const struct source_roots roots = {.proc = "/nonexistent", .sys = "/nonexistent"};
    static const struct log log = {.max_level = LOG_LEVEL_DEBUG, .write = on_log};
    struct service_env env = {
        .session = {.clock = &fake_clock, .log = &log, .roots = &roots, .classes = classes},
        .limits = t.limits,
        .state_dir = t.state_dir[0] ? t.state_dir : NULL,
        .random = on_random,
    };
    assert_int_equal(service_new(&env, &t.service, &t.err), 0);
}

static int setup(void **state)
{
    (void)state;
    t = (struct test){
        .random = 0.5,
        .consumer = {.uid = 1000, .pid = 1, .name = "one", .notify = on_notify},
        .other = {.uid = 1001, .pid = 2, .name = "other", .notify = on_notify},
    };
    start_fails = false;
    packet_bytes = 100;
    fake_time = (struct fake_time){.boot = 1000 * NSEC_PER_SEC, .real = 1700000000 * NSEC_PER_SEC};
    make_service();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    t.service = service_free(t.service);
    assert_int_equal(n_open, 0);
    assert_int_equal(n_running, 0);
    if (t.state_dir[0]) {
        char command[128];
        snprintf(command, sizeof(command), "%s/trigger_history", t.state_dir);
        unlink(command);
        assert_int_equal(rmdir(t.state_dir), 0);
    }
    return 0;
}

static int enable_with(const struct service_consumer *consumer, const char *text, int fd,
                       bool start, uint64_t *ret_id)
{
    struct config config = {0};
    struct err err = {0};
    if (config_load("test", text, strlen(text), CONFIG_FORMAT_TEXT, &config, &err) < 0)
        fail_msg("%s", err.text);
    struct service_request request = {.config = &config, .output_fd = fd, .start = start};
    t.err = (struct err){0};
    int r = service_enable(t.service, consumer, &request, ret_id, &t.err);
    config_done(&config);
    return r;
}

static uint64_t enable(const char *text)
{
    uint64_t id = 0;
    if (enable_with(&t.consumer, text, -1, true, &id) < 0)
        fail_msg("%s", t.err.text);
    return id;
}

static void pass(nsec_t time)
{
    nsec_t until = fake_time.boot + time;
    while (service_next_due(t.service) <= until) {
        if (service_next_due(t.service) > fake_time.boot)
            fake_time.boot = service_next_due(t.service);
        service_run_due(t.service);
    }
    fake_time.boot = until;
}

static int fire(const char *name)
{
    return service_activate_trigger(t.service, name, "producer", 7);
}

// What a read-out gives, one letter a packet: t trigger, c clone trigger, . a source's packet,
// Z statistics; others are left out.
static const char *read_letters(uint64_t id)
{
    static char letters[512];
    size_t n = 0;
    struct packet_view packet;
    if (service_read_begin(t.service, id, &t.err) < 0)
        return "error";
    while (service_read_peek(t.service, id, &packet)) {
        struct wire_reader reader = wire_reader_over(packet.data, packet.size);
        struct wire_field f;
        wire_foreach(&reader, &f) {
            char letter = f.number == PB_TracePacket_trigger                  ? 't'
                          : f.number == PB_TracePacket_clone_snapshot_trigger ? 'c'
                          : f.number == PB_TracePacket_compressed_packets     ? '.'
                          : f.number == PB_TracePacket_trace_stats            ? 'Z'
                                                                              : 0;
            assert_true(n < sizeof(letters) - 1);
            if (letter)
                letters[n++] = letter;
        }
        service_read_advance(t.service, id);
    }
    letters[n] = '\0';
    return letters;
}

#define SOURCE "buffers { size_kb: 64 } data_sources { config { name: 'a' } } "
#define TRIGGERS(mode, triggers)                                                                   \
    SOURCE "trigger_config { trigger_mode: " mode " trigger_timeout_ms: 60000 " triggers " }"

static void plain_session_starts_ends_and_is_read(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000");
    assert_string_equal(t.diary, "1 started");
    pass(NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    assert_string_equal(read_letters(id), "..Z");
    assert_string_equal(read_letters(id), "Z");
    assert_int_equal(service_destroy(t.service, id), 0);
    assert_int_equal(service_destroy(t.service, id), -ESRCH);
    assert_int_equal(service_start(t.service, id, &t.err), -ESRCH);
}

static void deferred_session_waits_for_its_start(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(enable_with(&t.consumer, SOURCE "duration_ms: 1000", -1, false, &id), 0);
    assert_int_equal(n_running, 0);
    pass(10 * NSEC_PER_SEC);
    assert_int_equal(service_start(t.service, id, &t.err), 0);
    assert_int_equal(service_start(t.service, id, &t.err), -EALREADY);
    pass(NSEC_PER_SEC - 1);
    assert_string_equal(t.diary, "1 started");
    pass(1);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
}

static void start_trigger_starts(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("START_TRACING", "triggers { name: 't' stop_delay_ms: 2000 }"));
    assert_int_equal(n_running, 0);
    assert_int_equal(service_next_due(t.service), fake_time.boot + 60 * NSEC_PER_SEC);
    pass(30 * NSEC_PER_SEC);
    assert_int_equal(fire("unknown"), 0);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(n_running, 1);
    assert_string_equal(t.diary, "1 started");
    pass(NSEC_PER_SEC);
    assert_int_equal(fire("t"), 0); // leaves its packet and changes nothing else
    pass(NSEC_PER_SEC - 1);
    assert_int_equal(n_running, 1);
    pass(1);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    assert_int_equal(fire("t"), 0);
    assert_string_equal(read_letters(id), "tt..Z");
}

static void stop_trigger_stops(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' stop_delay_ms: 2000 } "
                                                  "triggers { name: 'u' stop_delay_ms: 1 }"));
    assert_string_equal(read_letters(id), "");
    pass(59 * NSEC_PER_SEC);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("u"), 0); // the first one's delay counts
    pass(2 * NSEC_PER_SEC - 1);
    assert_string_equal(t.diary, "1 started");
    pass(1);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    assert_string_equal(read_letters(id), "tt..Z");
}

static void without_a_trigger_no_trace(void **state)
{
    (void)state;
    uint64_t a = enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    uint64_t b = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' }"));
    pass(60 * NSEC_PER_SEC - 1);
    assert_string_equal(t.diary, "2 started");
    pass(1);
    assert_string_equal(t.diary, "2 started, 1 ended 1, 2 ended 1");
    assert_string_equal(read_letters(a), "");
    assert_string_equal(read_letters(b), "");
}

static void timeouts_leave_out_sleep(void **state)
{
    (void)state;
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    enable(TRIGGERS("START_TRACING",
                    "triggers { name: 't' }") "prefer_suspend_clock_for_duration: true");
    fake_time.asleep = 20 * NSEC_PER_SEC;
    pass(60 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "2 ended 1");
    pass(20 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "2 ended 1, 1 ended 1");
}

static void clone_trigger_orders_snapshots(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' stop_delay_ms: 2000 } "
                                                    "triggers { name: 'u' stop_delay_ms: 500 }"));
    assert_int_equal(fire("t"), 1);
    pass(NSEC_PER_SEC);
    assert_int_equal(fire("u"), 1);
    assert_int_equal(fire("t"), 1);
    pass(10 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 clone u, 1 clone t, 1 clone t");
    assert_string_equal(read_letters(id), "");
    pass(49 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 clone u, 1 clone t, 1 clone t, 1 ended 1");
}

static void stop_may_mean_clone(void **state)
{
    (void)state;
    enable(
        TRIGGERS("STOP_TRACING", "use_clone_snapshot_if_available: true triggers { name: 't' }"));
    assert_int_equal(fire("t"), 1);
    pass(NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 clone t");
}

static void rules_select_triggers(void **state)
{
    (void)state;
    enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' producer_name_regex: 'pro|producer' } "
                                      "triggers { name: 'u' producer_name_regex: 'pro' } "
                                      "triggers { name: 'v' skip_probability: 0.5 }"));
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("u"), 0);
    assert_int_equal(service_activate_trigger(t.service, "u", "pro", 0), 1);
    assert_int_equal(fire("v"), 1);
    t.random = 0.49;
    assert_int_equal(fire("v"), 0);
    uint64_t id;
    assert_int_equal(
        enable_with(&t.consumer,
                    TRIGGERS("STOP_TRACING", "triggers { name: 't' producer_name_regex: '(' }"), -1,
                    true, &id),
        -EINVAL);
    assert_non_null(strstr(t.err.text, "trigger_config.triggers[0].producer_name_regex"));
}

static void limit_per_day_survives_a_restart(void **state)
{
    (void)state;
    static const char config[] =
        SOURCE "trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 600000000 "
               "triggers { name: 't' max_per_24_h: 2 } }";
    service_free(t.service);
    strcpy(t.state_dir, "/tmp/mmtrace-unit-XXXXXX");
    assert_non_null(mkdtemp(t.state_dir));
    make_service();
    enable(config);
    assert_int_equal(fire("t"), 1);
    pass(12 * 3600 * NSEC_PER_SEC);
    service_free(t.service);
    // The machine was booted anew.
    fake_time.real += fake_time.boot - 5 * NSEC_PER_SEC;
    fake_time.boot = 5 * NSEC_PER_SEC;
    make_service();
    enable(config);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("t"), 0);
    // The first one is forgotten, the second is not.
    pass(12 * 3600 * NSEC_PER_SEC);
    assert_int_equal(fire("t"), 1);
    assert_int_equal(fire("t"), 0);
    // A clock that is set back does not make the limit eternal.
    service_free(t.service);
    fake_time.real -= 1000 * 3600 * NSEC_PER_SEC;
    make_service();
    enable(config);
    assert_int_equal(fire("t"), 0);
    pass(24 * 3600 * NSEC_PER_SEC);
    assert_int_equal(fire("t"), 1);
}

static void failing_start_by_trigger_ends(void **state)
{
    (void)state;
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    start_fails = true;
    fire("t");
    assert_string_equal(t.diary, "1 ended -5");
}

static void config_fires_its_own_triggers(void **state)
{
    (void)state;
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' stop_delay_ms: 1000 }"));
    enable(SOURCE "activate_triggers: 't'");
    assert_string_equal(t.diary, "2 started, 1 started");
}

static void limits_are_named(void **state)
{
    (void)state;
    service_free(t.service);
    t.limits = (struct service_limits){
        .max_sessions = 4,
        .max_sessions_per_uid = 2,
        .max_buffer_bytes = 1 << 20,
        .max_buffer_bytes_per_uid = 512 << 10,
    };
    make_service();
    uint64_t id;
    assert_int_equal(enable_with(&t.consumer, "buffers { size_kb: 513 }", -1, true, &id), -ENOSPC);
    assert_non_null(strstr(t.err.text, "max_buffer_bytes_per_uid"));
    assert_int_equal(enable_with(&t.consumer,
                                 "buffers { size_kb: 516 } "
                                 "guardrail_overrides { max_tracing_buffer_size_kb: 600 }",
                                 -1, true, &id),
                     0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 509 }", -1, true, &id), -ENOSPC);
    assert_non_null(strstr(t.err.text, "max_buffer_bytes:"));
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions_per_uid"));
    t.other.uid = 0;
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.other, "buffers { size_kb: 4 }", -1, true, &id), -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions:"));
}

static void unique_names_and_semaphores(void **state)
{
    (void)state;
    uint64_t id, named = enable(SOURCE "unique_session_name: 'n'");
    assert_int_equal(enable_with(&t.other, SOURCE "unique_session_name: 'n'", -1, true, &id),
                     -EEXIST);
    service_destroy(t.service, named);
    assert_int_equal(enable_with(&t.other, SOURCE "unique_session_name: 'n'", -1, true, &id), 0);
    named = enable(SOURCE "session_semaphores { name: 's' max_other_session_count: 5 }");
    assert_int_equal(
        enable_with(&t.other, SOURCE "session_semaphores { name: 's' }", -1, true, &id), -EBUSY);
    assert_non_null(strstr(t.err.text, "session_semaphores"));
    service_disable(t.service, named, NULL);
    assert_int_equal(
        enable_with(&t.other, SOURCE "session_semaphores { name: 's' }", -1, true, &id), 0);
    assert_int_equal(enable_with(&t.consumer,
                                 SOURCE
                                 "session_semaphores { name: 's' max_other_session_count: 5 }",
                                 -1, true, &id),
                     -EBUSY);
}

static void exclusive_session_is_alone(void **state)
{
    (void)state;
    uint64_t id;
    enable(SOURCE);
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 2", -1, true, &id), -EPERM);
    t.consumer.uid = 0;
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 2", -1, true, &id), 0);
    assert_string_equal(t.diary, "1 started, 1 ended 0, 2 started");
    assert_string_equal(read_letters(1), "..Z");
    assert_int_equal(enable_with(&t.consumer, SOURCE, -1, true, &id), -EBUSY);
    assert_non_null(strstr(t.err.text, "exclusive_prio"));
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 2", -1, true, &id), -EBUSY);
    assert_int_equal(enable_with(&t.consumer, SOURCE "exclusive_prio: 3", -1, true, &id), 0);
    assert_string_equal(t.diary, "1 started, 1 ended 0, 2 started, 2 ended 0, 3 started");
    service_disable(t.service, id, NULL);
    enable(SOURCE);
}

static void detached_session_outlives_its_consumer(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000"), got;
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    uint64_t gone = enable(SOURCE);
    service_consumer_gone(t.service, &t.consumer);
    assert_int_equal(service_flush(t.service, gone, &t.err), -ESRCH);
    pass(NSEC_PER_SEC / 2);
    assert_string_equal(t.diary, "1 started, 2 started");
    assert_int_equal(service_attach(t.service, &t.other, "key", &got, &t.err), -ENOENT);
    t.other.uid = t.consumer.uid;
    assert_int_equal(service_attach(t.service, &t.other, "key", &got, &t.err), 0);
    assert_int_equal(got, id);
    assert_int_equal(service_disable(t.service, id, &t.err), 0);
    assert_string_equal(t.diary, "1 started, 2 started, 1 ended 0");
    assert_string_equal(read_letters(id), "..Z");
}

static void session_may_be_destroyed_while_it_speaks(void **state)
{
    (void)state;
    t.destroy_on_end = enable(SOURCE "duration_ms: 10");
    pass(NSEC_PER_SEC);
    assert_int_equal(n_open, 0);
    t.destroy_on_end = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' }"));
    enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' }"));
    assert_int_equal(fire("t"), 2);
    pass(NSEC_PER_SEC);
    assert_string_equal(t.diary,
                        "1 started, 1 ended 0, 2 started, 3 started, 2 ended 0, 3 clone t");
}

static void file_gets_everything_at_the_end(void **state)
{
    (void)state;
    uint64_t id;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(enable_with(&t.consumer, SOURCE "duration_ms: 10", dup(fd), true, &id), 0);
    pass(NSEC_PER_SEC);
    assert_true(lseek(fd, 0, SEEK_END) > 200);
    close(fd);
    assert_string_equal(t.diary, "1 started, 1 ended 0");
    fd = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(
        enable_with(&t.consumer,
                    TRIGGERS("START_TRACING", "triggers { name: 't' }") "write_into_file: true",
                    dup(fd), true, &id),
        0);
    pass(60 * NSEC_PER_SEC);
    assert_string_equal(t.diary, "1 started, 1 ended 0, 2 ended 1");
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    close(fd);
}

static void file_outlives_its_consumer(void **state)
{
    (void)state;
    static const char config[] = SOURCE "write_into_file: true unique_session_name: 'n'";
    uint64_t id;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = memfd_create("trace", MFD_CLOEXEC);
        assert_int_equal(enable_with(&t.consumer, config, dup(fds[i]), true, &id), 0);
        assert_int_equal(lseek(fds[i], 0, SEEK_END), 0);
        if (i == 0)
            service_consumer_gone(t.service, &t.consumer);
        if (i == 1)
            assert_int_equal(service_destroy(t.service, id), 0);
        if (i < 2)
            assert_int_equal(service_flush(t.service, id, NULL), -ESRCH);
    }
    struct service_session_info infos[3];
    assert_int_equal(service_list(t.service, infos, 3), 3);
    assert_string_equal(infos[0].state, "leaving");
    assert_int_equal(n_running, 1);
    pass(1);
    assert_int_equal(service_list(t.service, infos, 3), 1);
    t.service = service_free(t.service);
    for (int i = 0; i < 3; i++) {
        assert_true(lseek(fds[i], 0, SEEK_END) > 200);
        close(fds[i]);
    }
    assert_string_equal(t.diary, "1 started, 2 started, 3 started");
}

static void output_path_is_made_and_unmade(void **state)
{
    (void)state;
    char path[64], config[512];
    uint64_t id;
    snprintf(path, sizeof(path), "/tmp/mmtrace-unit-%d.pftrace", (int)getpid());
    snprintf(config, sizeof(config),
             TRIGGERS("START_TRACING", "triggers { name: 't' }") "write_into_file: true "
                                                                 "output_path: '%s'",
             path);
    assert_int_equal(enable_with(&t.consumer, config, -1, true, &id), -EPERM);
    t.consumer.uid = 0;
    assert_int_equal(enable_with(&t.consumer, config, -1, true, &id), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(enable_with(&t.consumer, config, -1, true, &id), -EEXIST);
    pass(60 * NSEC_PER_SEC);
    assert_int_equal(access(path, F_OK), -1);
}

static uint64_t clone_with(const struct service_clone_request *request, int expected)
{
    struct service_clone_result result = {0};
    t.err = (struct err){0};
    int r = service_clone(t.service, &t.consumer, request, &result, &t.err);
    if (r != expected)
        fail_msg("%d instead of %d: %s", r, expected, t.err.text);
    return result.session_id;
}

static void snapshot_holds_what_there_is(void **state)
{
    (void)state;
    uint64_t id =
        enable(TRIGGERS("CLONE_SNAPSHOT", "triggers { name: 't' }") "unique_session_name: 'n'");
    fire("t");
    struct service_trigger_hit hit = {.name = "t", .producer_name = "p", .stop_delay_ms = 5};
    uint64_t a = clone_with(&(struct service_clone_request){.session_id = id, .trigger = &hit}, 0);
    pass(NSEC_PER_SEC);
    uint64_t b = clone_with(&(struct service_clone_request){.unique_session_name = "n"}, 0);
    assert_string_equal(read_letters(a), "ct..Z");
    assert_string_equal(read_letters(b), "...Z"); // its trigger is in the first
    assert_string_equal(read_letters(a), "Z");
    assert_int_equal(n_running, 1);
    assert_string_equal(t.diary, "1 started, 1 clone t");
    // A snapshot has the name, but does not hold it, and is no original.
    service_destroy(t.service, id);
    clone_with(&(struct service_clone_request){.unique_session_name = "n"}, -ENOENT);
    clone_with(&(struct service_clone_request){.session_id = a}, -EINVAL);
    enable(SOURCE "unique_session_name: 'n'");
}

static void snapshot_of_a_waiting_session_is_readable(void **state)
{
    (void)state;
    uint64_t id = enable(TRIGGERS("STOP_TRACING", "triggers { name: 't' }"));
    uint64_t a = clone_with(&(struct service_clone_request){.session_id = id}, 0);
    assert_string_equal(read_letters(id), "");
    assert_string_equal(read_letters(a), "..Z");
    fire("t");
    pass(NSEC_PER_SEC);
    assert_string_equal(read_letters(id), "t...Z");
}

static void bugreport_takes_the_highest_score(void **state)
{
    (void)state;
    clone_with(&(struct service_clone_request){.for_bugreport = true}, -ENOENT);
    enable(SOURCE);
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }") "bugreport_score: 100");
    enable(SOURCE "bugreport_score: 5 unique_session_name: 'low'");
    enable(SOURCE "bugreport_score: 50 unique_session_name: 'high'");
    uint64_t a = clone_with(&(struct service_clone_request){.for_bugreport = true}, 0);
    struct service_session_info infos[8];
    assert_int_equal(service_list(t.service, infos, 8), 5);
    assert_int_equal(infos[4].id, a);
    assert_string_equal(infos[4].name, "high");
    assert_string_equal(infos[4].state, "snapshot");
    assert_string_equal(infos[1].state, "armed");
    assert_int_equal(infos[1].next_due, fake_time.boot + 60 * NSEC_PER_SEC);
}

static void snapshot_is_only_for_its_owner_and_root(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(enable_with(&t.other, SOURCE, -1, true, &id), 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -EPERM);
    t.consumer.uid = 0;
    clone_with(&(struct service_clone_request){.session_id = id}, 0);
}

static void snapshot_counts_against_limits(void **state)
{
    (void)state;
    service_free(t.service);
    t.limits = (struct service_limits){.max_sessions = 3, .max_buffer_bytes = 68 << 10};
    make_service();
    uint64_t id = enable(SOURCE);
    clone_with(&(struct service_clone_request){.session_id = id}, 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -ENOSPC);
    service_free(t.service);
    t.limits = (struct service_limits){.max_sessions = 1};
    make_service();
    id = enable(SOURCE);
    clone_with(&(struct service_clone_request){.session_id = id}, 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -EMFILE);
    assert_non_null(strstr(t.err.text, "max_sessions: there are 1 snapshots"));
}

static void buffers_move_or_are_emptied(void **state)
{
    (void)state;
    uint64_t id = enable("buffers { size_kb: 64 transfer_on_clone: true } "
                         "buffers { size_kb: 64 clear_before_clone: true } "
                         "data_sources { config { name: 'a' } } "
                         "data_sources { config { name: 'a' target_buffer: 1 } }");
    uint64_t a = clone_with(&(struct service_clone_request){.session_id = id}, 0);
    // Two packets of the first source, the flush's of the second.
    assert_string_equal(read_letters(a), "...Z");
    uint64_t b = clone_with(&(struct service_clone_request){.session_id = id}, 0);
    assert_string_equal(read_letters(b), "..Z");
    service_disable(t.service, id, NULL);
    assert_string_equal(read_letters(id), "...Z"); // of the first none before the last flush
}

static void snapshot_of_a_file_is_a_file(void **state)
{
    (void)state;
    uint64_t id;
    int fd = memfd_create("trace", MFD_CLOEXEC), copy = memfd_create("copy", MFD_CLOEXEC);
    assert_int_equal(enable_with(&t.consumer, SOURCE "write_into_file: true", dup(fd), true, &id),
                     0);
    pass(6 * NSEC_PER_SEC);
    off_t written = lseek(fd, 0, SEEK_END);
    assert_true(written > 0);
    clone_with(&(struct service_clone_request){.session_id = id}, -EINVAL);
    int given = dup(copy);
    clone_with(&(struct service_clone_request){.session_id = id, .output_fd = &given}, 0);
    assert_int_equal(given, -1);
    assert_int_equal(lseek(copy, 0, SEEK_END), 0);
    pass(0);
    assert_string_equal(t.diary, "1 started, 2 ended 0");
    static uint8_t a[65536], b[65536];
    assert_true(lseek(copy, 0, SEEK_END) > written);
    assert_int_equal(pread(fd, a, sizeof(a), 0), written);
    assert_true(pread(copy, b, sizeof(b), 0) > written);
    assert_memory_equal(a, b, (size_t)written);
    assert_int_equal(service_read_begin(t.service, id, &t.err), -EINVAL);
    close(fd);
    close(copy);
    // Any other session's may go into one.
    copy = memfd_create("copy", MFD_CLOEXEC);
    given = dup(copy);
    id = enable(SOURCE);
    uint64_t clone = clone_with(
        &(struct service_clone_request){.session_id = id, .output_fd = &given, .into_file = true},
        0);
    assert_int_equal(given, -1);
    pass(0);
    assert_true(lseek(copy, 0, SEEK_END) > 200);
    close(copy);
    service_destroy(t.service, clone);
}

// A session whose own bytes begin behind others, and which has written `size` of them.
static uint64_t write_much(int fd, off_t size)
{
    static const char others[1000];
    uint64_t id;
    packet_bytes = 100000;
    assert_int_equal(write(fd, others, sizeof(others)), sizeof(others));
    assert_int_equal(
        enable_with(&t.consumer,
                    "buffers { size_kb: 4096 } data_sources { config { name: 'a' } } "
                    "write_into_file: true file_write_period_ms: 100 flush_period_ms: 10",
                    dup(fd), true, &id),
        0);
    while (lseek(fd, 0, SEEK_END) < size)
        pass(NSEC_PER_SEC / 10);
    return id;
}

static void snapshot_is_written_a_slice_at_a_time(void **state)
{
    (void)state;
    const off_t size = 4 << 20;
    int fd = memfd_create("trace", MFD_CLOEXEC), copy = memfd_create("copy", MFD_CLOEXEC);
    uint64_t id = write_much(fd, size);
    off_t written = lseek(fd, 0, SEEK_END) - 1000, last = 0, longest = 0;
    int given = dup(copy);
    uint64_t clone =
        clone_with(&(struct service_clone_request){.session_id = id, .output_fd = &given}, 0);
    while (service_session_state(t.service, clone) != SESSION_DONE) {
        service_run_due(t.service);
        off_t now = lseek(copy, 0, SEEK_END);
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    assert_in_range(longest, 1, 512 << 10);
    assert_true(last > written);
    uint8_t *a = malloc((size_t)written), *b = malloc((size_t)written);
    assert_int_equal(pread(fd, a, (size_t)written, 1000), written);
    assert_int_equal(pread(copy, b, (size_t)written, 0), written);
    assert_memory_equal(a, b, (size_t)written);
    free(a);
    free(b);
    assert_non_null(strstr(t.diary, "2 ended 0"));
    close(fd);
    close(copy);
}

static void snapshot_in_a_file_outlives_whoever_asked(void **state)
{
    (void)state;
    int fd = memfd_create("trace", MFD_CLOEXEC), copy = memfd_create("copy", MFD_CLOEXEC);
    uint64_t id = write_much(fd, 1 << 20);
    struct service_consumer client = t.other;
    client.uid = t.consumer.uid;
    for (int i = 0; i < 2; i++) {
        struct service_clone_result result;
        int given = dup(copy);
        struct service_clone_request request = {.session_id = id, .output_fd = &given};
        assert_int_equal(ftruncate(copy, 0), 0);
        lseek(copy, 0, SEEK_SET);
        assert_int_equal(service_clone(t.service, &client, &request, &result, &t.err), 0);
        service_consumer_gone(t.service, &client);
        assert_int_equal(service_destroy(t.service, result.session_id), -ESRCH);
        if (i == 0)
            pass(NSEC_PER_MSEC);
        else
            t.service = service_free(t.service); // as at the end of the daemon
        assert_true(lseek(copy, 0, SEEK_END) > 1 << 20);
    }
    assert_null(strstr(t.diary, "2 ended"));
    close(fd);
    close(copy);
}

static void snapshot_for_a_pipe_waits_for_its_reader(void **state)
{
    (void)state;
    int fd = memfd_create("trace", MFD_CLOEXEC), pipe_fds[2];
    uint64_t id = write_much(fd, 1 << 20);
    off_t written = lseek(fd, 0, SEEK_END) - 1000, got = 0;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    uint64_t clone =
        clone_with(&(struct service_clone_request){.session_id = id, .output_fd = &pipe_fds[1]}, 0);
    pass(NSEC_PER_SEC); // nobody reads, and nobody waits for that
    assert_int_equal(service_session_state(t.service, clone), SESSION_STOPPING);
    static uint8_t bytes[65536];
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(pipe_fds[0], bytes, sizeof(bytes))) != 0; pass(NSEC_PER_SEC / 50))
        got += n > 0 ? n : 0;
    assert_true(got > written);
    assert_int_equal(service_session_state(t.service, clone), SESSION_DONE);
    close(pipe_fds[0]);
    close(fd);
}

static void state_is_told(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000 unique_session_name: 'n' bugreport_score: 3");
    enable(TRIGGERS("START_TRACING", "triggers { name: 't' }"));
    Pb__TracingServiceState *told = service_query_state(t.service, false);
    assert_non_null(told);
    assert_int_equal(told->num_sessions, 2);
    assert_int_equal(told->num_sessions_started, 1);
    assert_int_equal(told->n_data_sources, 1);
    assert_string_equal(told->data_sources[0]->ds_descriptor->name, "a");
    assert_int_equal(told->n_tracing_sessions, 2);
    assert_string_equal(told->tracing_sessions[0]->state, "STARTED");
    assert_string_equal(told->tracing_sessions[0]->unique_session_name, "n");
    assert_int_equal(told->tracing_sessions[0]->buffer_size_kb[0], 64);
    assert_int_equal(told->tracing_sessions[0]->bugreport_score, 3);
    assert_string_equal(told->tracing_sessions[1]->state, "CONFIGURED");
    pb__tracing_service_state__free_unpacked(told, NULL);
    told = service_query_state(t.service, true);
    assert_int_equal(told->n_data_sources, 0);
    pb__tracing_service_state__free_unpacked(told, NULL);
    Pb__TraceStats *stats = service_get_stats(t.service, id);
    assert_non_null(stats);
    assert_int_equal(stats->n_buffer_stats, 1);
    assert_int_equal(stats->buffer_stats[0]->chunks_written, 1);
    pb__trace_stats__free_unpacked(stats, NULL);
    assert_null(service_get_stats(t.service, 77));
}

static int change(uint64_t id, const char *text)
{
    struct config config = {0};
    assert_int_equal(config_load("test", text, strlen(text), CONFIG_FORMAT_TEXT, &config, &t.err),
                     0);
    int r = service_change_config(t.service, id, config.trace, &t.err);
    config_done(&config);
    return r;
}

static void only_filters_change(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000");
    assert_int_equal(change(id, "buffers { size_kb: 64 } data_sources { config { name: 'a' } "
                                "producer_name_filter: 'x' } duration_ms: 1000"),
                     0);
    assert_int_equal(n_running, 1); // what runs goes on
    assert_int_equal(change(id, SOURCE "duration_ms: 1001"), -EINVAL);
    pass(NSEC_PER_SEC);
    assert_int_equal(change(id, SOURCE "duration_ms: 1000"), -EINVAL);
}

#define TWO_WITH(filter) SOURCE "data_sources { config { name: 'a' } " filter " }"

static void wider_filter_starts_a_source(void **state)
{
    (void)state;
    uint64_t id = enable(TWO_WITH("producer_name_filter: 'x'"));
    assert_int_equal(n_running, 1);
    assert_int_equal(change(id, TWO_WITH("producer_name_filter: 'y'")), 0);
    assert_int_equal(n_open, 1);
    assert_int_equal(change(id, TWO_WITH("producer_name_regex_filter: 'mm.*'")), 0);
    assert_int_equal(n_running, 2);
    assert_int_equal(
        change(id, TWO_WITH("producer_name_filter: 'x' producer_name_filter: 'mmtrace'")), 0);
    assert_int_equal(n_running, 2);
    service_disable(t.service, id, NULL);
    assert_string_equal(read_letters(id), "....Z"); // each at its start and at the end
    // One that waits for a trigger has it open, and starts it then.
    id = enable(
        TRIGGERS("START_TRACING",
                 "triggers { name: 't' stop_delay_ms: 1000 }") "data_sources { config { name: 'a' "
                                                               "} producer_name_filter: 'x' }");
    assert_int_equal(n_open, 3);
    assert_int_equal(
        change(id, TRIGGERS("START_TRACING",
                            "triggers { name: 't' stop_delay_ms: 1000 }") "data_sources { config { "
                                                                          "name: 'a' } }"),
        0);
    assert_int_equal(n_open, 4);
    assert_int_equal(n_running, 0);
    fire("t");
    assert_int_equal(n_running, 2);
}

static void detached_session_goes_with_its_end(void **state)
{
    (void)state;
    uint64_t id = enable(SOURCE "duration_ms: 1000");
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    service_consumer_gone(t.service, &t.consumer);
    pass(NSEC_PER_SEC / 2);
    assert_int_equal(service_attach(t.service, &t.consumer, "key", &id, &t.err), 0);
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    pass(NSEC_PER_SEC);
    assert_int_equal(service_list(t.service, NULL, 0), 0);
    assert_int_equal(service_attach(t.service, &t.consumer, "key", &id, &t.err), -ENOENT);
    // Whatever ends it.
    for (int i = 0; i < 3; i++) {
        int fd = memfd_create("trace", MFD_CLOEXEC);
        assert_int_equal(
            enable_with(&t.consumer, SOURCE "write_into_file: true", dup(fd), true, &id), 0);
        assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
        if (i == 0)
            assert_int_equal(service_destroy(t.service, id), 0);
        else if (i == 1)
            assert_int_equal(service_disable(t.service, id, &t.err), 0);
        else
            t.service = service_free(t.service);
        if (t.service)
            pass(NSEC_PER_SEC);
        assert_true(lseek(fd, 0, SEEK_END) > 0);
        close(fd);
    }
    make_service();
    // The same where the end comes while it is attached.
    id = enable(SOURCE "duration_ms: 1000");
    pass(NSEC_PER_SEC);
    assert_int_equal(service_detach(t.service, id, "key", &t.err), 0);
    assert_int_equal(service_list(t.service, NULL, 0), 0);
}

static void name_of_an_empty_file_is_looked_at_once(void **state)
{
    (void)state;
    char dir[] = "/tmp/mmtrace-test-XXXXXX", path[64], text[512];
    uint64_t first, second;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/trace", dir);
    snprintf(text, sizeof(text),
             TRIGGERS("START_TRACING",
                      "triggers { name: 't' }") "write_into_file: true output_path: '%s'",
             path);
    t.consumer.uid = 0;
    assert_int_equal(enable_with(&t.consumer, text, -1, true, &first), 0);
    assert_int_equal(access(path, F_OK), 0);
    service_destroy(t.service, first);
    assert_int_equal(access(path, F_OK), -1);
    // Before the first one's memory is released, another has made the file anew.
    assert_int_equal(enable_with(&t.consumer, text, -1, true, &second), 0);
    service_run_due(t.service);
    assert_int_equal(access(path, F_OK), 0);
    service_destroy(t.service, second);
    assert_int_equal(rmdir(dir), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_session_starts_ends_and_is_read),
        TEST(deferred_session_waits_for_its_start),
        TEST(start_trigger_starts),
        TEST(stop_trigger_stops),
        TEST(without_a_trigger_no_trace),
        TEST(timeouts_leave_out_sleep),
        TEST(clone_trigger_orders_snapshots),
        TEST(stop_may_mean_clone),
        TEST(rules_select_triggers),
        TEST(limit_per_day_survives_a_restart),
        TEST(failing_start_by_trigger_ends),
        TEST(config_fires_its_own_triggers),
        TEST(limits_are_named),
        TEST(unique_names_and_semaphores),
        TEST(exclusive_session_is_alone),
        TEST(detached_session_outlives_its_consumer),
        TEST(session_may_be_destroyed_while_it_speaks),
        TEST(file_gets_everything_at_the_end),
        TEST(file_outlives_its_consumer),
        TEST(output_path_is_made_and_unmade),
        TEST(snapshot_holds_what_there_is),
        TEST(snapshot_of_a_waiting_session_is_readable),
        TEST(bugreport_takes_the_highest_score),
        TEST(snapshot_is_only_for_its_owner_and_root),
        TEST(snapshot_counts_against_limits),
        TEST(buffers_move_or_are_emptied),
        TEST(snapshot_of_a_file_is_a_file),
        TEST(snapshot_is_written_a_slice_at_a_time),
        TEST(snapshot_in_a_file_outlives_whoever_asked),
        TEST(snapshot_for_a_pipe_waits_for_its_reader),
        TEST(state_is_told),
        TEST(only_filters_change),
        TEST(wider_filter_starts_a_source),
        TEST(detached_session_goes_with_its_end),
        TEST(name_of_an_empty_file_is_looked_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
