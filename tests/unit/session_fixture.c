// SPDX-License-Identifier: Apache-2.0
//
// Two classes of sources, a and b, which the test controls, and a clock that the test moves.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/wire.h"
#include "producer/trace/trace_file.h"
#include "protos/fields.h"
#include "tests/unit/session_fixture.h"

struct fake_time fake_time;

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    const struct fake_time *time = userdata;
    return clock == CLOCK_BOOTTIME || clock == CLOCK_REALTIME ? time->boot
                                                              : time->boot - time->asleep;
}

static const struct clock_reader fake_clock = {.now = fake_now, .userdata = &fake_time};

char diary[DIARY_BYTES];

static void note(const char *what, const char *who)
{
    size_t used = strlen(diary);
    snprintf(diary + used, DIARY_BYTES - used, "%s%s %s", used ? ", " : "", what, who);
}

struct source {
    const struct source_class *class;
};

struct fake_source {
    struct source base;
    struct source_env env;
    const char *name; // of its class
    uint64_t events;
};

const char *failing_open, *failing_start;
bool no_room_calls;
struct fake_source *newest;

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

void fake_write(struct fake_source *source, size_t n_bytes)
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

static void fake_dump_copy(struct source *base)
{
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
    .dump_copy = fake_dump_copy,
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

static void on_ended(void *userdata, struct session *session)
{
    struct test *t = userdata;
    assert_ptr_equal(session, t->session);
    t->n_ended++;
}

static void on_told(void *userdata, struct session *session, enum service_event event, int result,
                    const struct service_trigger_hit *trigger)
{
    struct test *t = userdata;
    size_t used = strlen(t->clone_delays);
    assert_ptr_equal(session, t->session);
    assert_int_equal(result, event == SERVICE_EVENT_NO_ROOM ? -EFBIG : 0);
    switch (event) {
    case SERVICE_EVENT_STARTED:
        assert_true(session_get_state(session) & SESSION_RECORDING);
        t->n_started++;
        break;
    case SERVICE_EVENT_ALL_STARTED:
        t->n_all_started++;
        break;
    case SERVICE_EVENT_CLONE_TRIGGERED:
        assert_string_equal(trigger->name, "t");
        t->n_clones++;
        snprintf(t->clone_delays + used, sizeof(t->clone_delays) - used, " %u",
                 (unsigned)trigger->stop_delay_ms);
        if (t->abort_at_clone)
            session_abort(session);
        break;
    case SERVICE_EVENT_NO_ROOM:
        t->n_waits++;
        break;
    case SERVICE_EVENT_WRITING:
        t->n_writes++;
        break;
    case SERVICE_EVENT_FILE_REPLACED:
        close(t->fd);
        t->fd = t->next_fd;
        t->next_fd = -1;
        t->n_replaced++;
        break;
    case SERVICE_EVENT_FILE_KEPT:
        close(t->next_fd);
        t->next_fd = -1;
        t->n_kept++;
        break;
    case SERVICE_EVENT_ENDED:
        fail();
    }
}

static bool on_no_room(void *userdata, struct session *session, int why)
{
    struct test *t = userdata;
    assert_ptr_equal(session, t->session);
    assert_int_equal(why, -EFBIG);
    t->n_no_room++;
    return t->n_rooms > 0 && t->n_rooms--;
}

static struct trace_file *file_over(struct test *t, int fd)
{
    const struct session_settings *settings = session_get_settings(t->session);
    struct trace_file_options options = {
        .name = "trace",
        .max_size_bytes = settings->max_file_bytes,
        .deflate = settings->deflate,
        .waits_for_room = true,
        .disk = t->disk,
    };
    assert_int_equal(trace_file_new(dup(fd), &options, &t->file, &t->err), 0);
    return t->file;
}

static int on_next_file(void *userdata, struct session *session, struct trace_file **ret)
{
    struct test *t = userdata;
    assert_ptr_equal(session, t->session);
    assert_int_equal(t->next_fd, -1);
    t->n_next++;
    if (t->no_next)
        return -ENOSPC;
    t->next_fd = memfd_create("next", MFD_CLOEXEC);
    assert_true(t->next_fd >= 0);
    assert_true(lseek(t->next_fd, t->next_start, SEEK_SET) == t->next_start);
    *ret = file_over(t, t->next_fd);
    return 0;
}

static void on_log(void *userdata, enum log_level level, const char *line)
{
    struct test *t = userdata;
    (void)level;
    size_t used = strlen(t->log);
    snprintf(t->log + used, sizeof(t->log) - used, "%s\n", line);
}

int make(struct test *t, const char *text)
{
    static struct log log;
    static const struct source_roots roots = {.proc = "/nonexistent", .sys = "/nonexistent"};
    *t = (struct test){.fd = -1, .next_fd = -1};
    log = (struct log){.max_level = LOG_LEVEL_DEBUG, .write = on_log, .userdata = t};
    diary[0] = '\0';
    fake_time = (struct fake_time){.boot = 100 * NSEC_PER_SEC};
    struct session_env env = {
        .clock = &fake_clock,
        .log = &log,
        .roots = &roots,
        .classes = classes,
        .told = no_room_calls ? NULL : on_told,
        .make_room = no_room_calls ? NULL : on_no_room,
        .next_file = on_next_file,
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

void with_file(struct test *t)
{
    t->fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(t->fd >= 0);
    session_set_file(t->session, file_over(t, t->fd));
}

void start(struct test *t)
{
    if (session_start(t->session, &t->err) < 0)
        fail_msg("%s", t->err.text);
}

void pass(struct test *t, nsec_t time)
{
    nsec_t until = fake_time.boot + time;
    while (session_next_due(t->session) <= until) {
        if (session_next_due(t->session) > fake_time.boot)
            fake_time.boot = session_next_due(t->session);
        session_run_due(t->session);
    }
    fake_time.boot = until;
}

void done(struct test *t)
{
    t->session = session_free(t->session);
    if (t->fd >= 0)
        close(t->fd);
    if (t->next_fd >= 0)
        close(t->next_fd);
}

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

const char *file_letters(const struct test *t)
{
    static char letters[8192];
    static uint8_t bytes[4 << 20];
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
