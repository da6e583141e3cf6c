// SPDX-License-Identifier: Apache-2.0
//
// One class of sources, a, that writes one packet at its start and one each flush, and clocks that
// the test moves.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire.h"
#include "protos/fields.h"
#include "tests/unit/service_fixture.h"

struct fake_time fake_time;

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    const struct fake_time *time = userdata;
    if (clock == CLOCK_REALTIME)
        return time->real + time->boot;
    return clock == CLOCK_BOOTTIME ? time->boot : time->boot - time->asleep;
}

static const struct clock_reader fake_clock = {.now = fake_now, .userdata = &fake_time};

struct fake_source {
    struct packet_writer *writer;
};

int n_open, n_running;
size_t packet_bytes;
bool start_fails;

static const struct source_class fake_class;

static int fake_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    (void)config, (void)err;
    struct fake_source *source = calloc(1, sizeof(*source));
    assert_non_null(source);
    source->writer = env->writer;
    *ret = (struct source *)source;
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

struct test t;

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
    else if (event == SERVICE_EVENT_ALL_STARTED)
        return;
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

void make_service(void)
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

int setup(void **state)
{
    (void)state;
    t = (struct test){
        .random = 0.5,
        .consumer = {.uid = 1000, .payer = 1000, .pid = 1, .name = "one", .notify = on_notify},
        .other = {.uid = 1001, .payer = 1001, .pid = 2, .name = "other", .notify = on_notify},
    };
    start_fails = false;
    packet_bytes = 100;
    fake_time = (struct fake_time){.boot = 1000 * NSEC_PER_SEC, .real = 1700000000 * NSEC_PER_SEC};
    make_service();
    return 0;
}

int teardown(void **state)
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

int enable_with(const struct service_consumer *consumer, const char *text, int fd, bool start,
                uint64_t *ret_id)
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

uint64_t enable(const char *text)
{
    uint64_t id = 0;
    if (enable_with(&t.consumer, text, -1, true, &id) < 0)
        fail_msg("%s", t.err.text);
    return id;
}

void pass(nsec_t time)
{
    nsec_t until = fake_time.boot + time;
    while (service_next_due(t.service) <= until) {
        if (service_next_due(t.service) > fake_time.boot)
            fake_time.boot = service_next_due(t.service);
        service_run_due(t.service);
    }
    fake_time.boot = until;
}

int fire(const char *name)
{
    return (int)service_activate_trigger(t.service, name, "producer", 7, 7).acted;
}

const char *read_letters(uint64_t id)
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
