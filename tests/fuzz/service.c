// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the input choose a sequence of calls, triggers and steps of time. The service has
// fake sources and a fake clock. The conditions of check_state() hold after each call, and nothing
// is left at the end.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/wire.h"
#include "producer/service/service.h"
#include "protos/fields.h"
#include "tests/unit/service_list.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define MAX_SESSIONS     6
#define MAX_PER_UID      4
#define MAX_BYTES        (600u << 10)
#define MAX_BYTES_UID    (400u << 10)
#define OVERRIDDEN_BYTES (500u << 10)
#define MAX_IDS          256
#define N_CONSUMERS      3

struct life {
    bool started, all_started, ended, gone, is_clone, into_file;
};

struct test {
    struct service *service;
    struct service_consumer consumers[N_CONSUMERS];
    struct life lives[MAX_IDS];
    uint64_t last_id;
    nsec_t boot, asleep;
    const uint8_t *data, *end;
    int n_open, n_running;
    unsigned depth;
};

static struct test t;

static uint8_t next_byte(void)
{
    return t.data < t.end ? *t.data++ : 0;
}

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    (void)userdata;
    return clock == CLOCK_MONOTONIC ? t.boot - t.asleep : t.boot;
}

// A source that writes a packet of a size that the input chooses.
struct fake_source {
    struct packet_writer *writer;
    bool runs;
};

static const struct source_class fake_class;

static int fake_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    (void)config;
    struct fake_source *source = calloc(1, sizeof(*source));
    if (!source)
        return err_set(err, -12, "no memory");
    source->writer = env->writer;
    *ret = (struct source *)source;
    t.n_open++;
    return 0;
}

static void fake_flush(struct source *base)
{
    static const char filler[8192];
    struct fake_source *source = (struct fake_source *)base;
    size_t size = (size_t)next_byte() * 32;
    MUST(source->runs);
    struct wire_writer *w = packet_writer_begin(source->writer, t.boot, size + 32);
    if (!w)
        return;
    wire_bytes(w, PB_TracePacket_compressed_packets, filler, size);
    packet_writer_end(source->writer);
}

static int fake_start(struct source *base, struct err *err)
{
    struct fake_source *source = (struct fake_source *)base;
    if (next_byte() == 255)
        return err_set(err, -5, "does not start");
    MUST(!source->runs);
    source->runs = true;
    t.n_running++;
    fake_flush(base);
    return 0;
}

static void fake_stop(struct source *base)
{
    struct fake_source *source = (struct fake_source *)base;
    MUST(source->runs);
    source->runs = false;
    t.n_running--;
}

static struct source *fake_close(struct source *base)
{
    MUST(!((struct fake_source *)base)->runs);
    free(base);
    t.n_open--;
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

#define SOURCE(size) "buffers { size_kb: " size " } data_sources { config { name: 'a' } } "
#define TRIGGERS(mode, more)                                                                       \
    "trigger_config { trigger_mode: " mode " trigger_timeout_ms: 5000 " more                       \
    " triggers { name: 't' stop_delay_ms: 300 max_per_24_h: 3 }"                                   \
    " triggers { name: 'u' skip_probability: 0.5 producer_name_regex: 'p.*' } } "

static const char *const texts[] = {
    SOURCE("64") "duration_ms: 1000",
    SOURCE("4") "unique_session_name: 'n' flush_period_ms: 70",
    SOURCE("128") "unique_session_name: 'n' bugreport_score: 3 prefer_suspend_clock_for_duration: "
                  "true duration_ms: 700",
    SOURCE("32") TRIGGERS("START_TRACING", "") "unique_session_name: 'm'",
    SOURCE("32") TRIGGERS("STOP_TRACING", "") "bugreport_score: 9",
    SOURCE("16") TRIGGERS("CLONE_SNAPSHOT", "") "incremental_state_config { clear_period_ms: 90 }",
    SOURCE("16") TRIGGERS("STOP_TRACING", "use_clone_snapshot_if_available: true"),
    "buffers { size_kb: 32 transfer_on_clone: true } buffers { size_kb: 32 clear_before_clone: "
    "true } data_sources { config { name: 'a' } } data_sources { config { name: 'a' "
    "target_buffer: 1 } }",
    SOURCE("450") "guardrail_overrides { max_tracing_buffer_size_kb: 500 }",
    SOURCE("8") "write_into_file: true file_write_period_ms: 200",
    SOURCE("8") TRIGGERS("START_TRACING", "") "write_into_file: true",
    SOURCE(
        "8") "activate_triggers: 't' session_semaphores { name: 's' max_other_session_count: 1 }",
    SOURCE("8") "session_semaphores { name: 's' }",
    SOURCE("8") "exclusive_prio: 1 duration_ms: 50",
    SOURCE("300") "buffers { size_kb: 8 fill_policy: DISCARD }",
};
#define N_TEXTS ELEMENTS(texts)
static uint64_t choose_id(void)
{
    return t.last_id ? next_byte() % (t.last_id + 1) + 1 : 1; // may be an id that no session has
}

static void one_call(void);

static void on_notify(void *userdata, uint64_t id, enum service_event event, int result,
                      const char *text, const struct service_trigger_hit *trigger)
{
    (void)userdata, (void)text, (void)result;
    MUST(id > 0 && id < MAX_IDS);
    struct life *life = &t.lives[id];
    MUST(!life->gone);
    MUST(!life->is_clone || (life->into_file && event == SERVICE_EVENT_ENDED));
    switch (event) {
    case SERVICE_EVENT_STARTED:
        MUST(!life->started && !life->ended);
        life->started = true;
        break;
    case SERVICE_EVENT_ALL_STARTED:
        MUST(life->started && !life->all_started && !life->ended);
        life->all_started = true;
        break;
    case SERVICE_EVENT_ENDED:
        MUST(!life->ended);
        life->ended = true;
        break;
    case SERVICE_EVENT_CLONE_TRIGGERED:
        MUST(!life->ended && trigger && trigger->name);
        break;
    case SERVICE_EVENT_WRITING:
    case SERVICE_EVENT_NO_ROOM:
    case SERVICE_EVENT_FILE_REPLACED:
    case SERVICE_EVENT_FILE_KEPT:
        break;
    }
    if (t.depth < 3 && next_byte() % 4 == 0)
        one_call();
}

static void forget(uint64_t id)
{
    if (id < MAX_IDS)
        t.lives[id].gone = true;
}

// A session that is no longer in the list must stay silent.
static void note_gone(void)
{
    struct service_session_info infos[32];
    size_t n = service_list(t.service, infos, 32);
    MUST(n <= 32);
    for (uint64_t id = 1; id <= t.last_id && id < MAX_IDS; id++) {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found |= infos[i].id == id;
        if (!found)
            forget(id);
    }
}

static void do_enable(void)
{
    const char *text = texts[next_byte() % N_TEXTS];
    struct service_consumer *consumer = &t.consumers[next_byte() % N_CONSUMERS];
    uint8_t how = next_byte();
    struct config config = {0};
    MUST(config_load("fuzz", text, strlen(text), CONFIG_FORMAT_TEXT, &config, NULL) == 0);
    struct service_request request = {
        .config = &config,
        .output_fd = how & 1 ? memfd_create("trace", MFD_CLOEXEC) : -1,
        .start = how % 8 != 2,
    };
    uint64_t id = 0;
    struct err err = {0};
    if (t.last_id < MAX_IDS - 16) {
        int r = service_enable(t.service, consumer, &request, &id, &err);
        MUST((r < 0) == (err.text[0] != '\0'));
        if (id > t.last_id)
            t.last_id = id;
    } else if (request.output_fd >= 0) {
        close(request.output_fd);
    }
    config_done(&config);
}

static void do_clone(void)
{
    int fd = memfd_create("copy", MFD_CLOEXEC);
    uint8_t how = next_byte();
    struct service_clone_request request = {
        .session_id = how & 1 ? choose_id() : 0,
        .unique_session_name = how & 2 ? "n" : NULL,
        .for_bugreport = how & 4,
        .output_fd = &fd,
        .into_file = how & 8,
    };
    struct service_clone_result result = {0};
    struct err err = {0};
    if (t.last_id < MAX_IDS - 16 &&
        service_clone(t.service, &t.consumers[how % N_CONSUMERS], &request, &result, &err) == 0) {
        t.lives[result.session_id].is_clone = true;
        t.lives[result.session_id].into_file = result.into_file;
        MUST(result.into_file || !request.into_file);
        if (result.session_id > t.last_id)
            t.last_id = result.session_id;
    }
    if (fd >= 0)
        close(fd);
}

static void do_read(void)
{
    uint64_t id = choose_id();
    size_t n = next_byte();
    struct packet_view packet;
    if (n % 2)
        service_read_begin(t.service, id, NULL);
    for (; n > 0 && service_read_peek(t.service, id, &packet); n--) {
        struct wire_reader reader = wire_reader_over(packet.data, packet.size);
        struct wire_field f;
        wire_foreach(&reader, &f) {
        }
        MUST(!reader.error);
        service_read_advance(t.service, id);
    }
}

static void do_pass(void)
{
    nsec_t time = (nsec_t)next_byte() * 10 * NSEC_PER_MSEC;
    nsec_t until = t.boot + time;
    if (t.depth > 1)
        return; // time passes only outside of callbacks
    if (next_byte() % 8 == 0)
        t.asleep += time;
    for (int rounds = 0; service_next_due(t.service) <= until; rounds++) {
        MUST(rounds < 10000);
        if (service_next_due(t.service) > t.boot)
            t.boot = service_next_due(t.service);
        service_run_due(t.service);
    }
    t.boot = until;
}

static void do_detach(void)
{
    static const char *const keys[] = {"k", "l"};
    const char *key = keys[next_byte() % 2];
    uint64_t id;
    if (next_byte() % 2)
        service_detach(t.service, choose_id(), key, NULL);
    else
        service_attach(t.service, &t.consumers[next_byte() % N_CONSUMERS], key, &id, NULL);
}

static void do_tell(void)
{
    Pb__TracingServiceState *state = service_query_state(t.service, next_byte() % 2);
    Pb__TraceStats *stats = service_get_stats(t.service, choose_id());
    pb__tracing_service_state__free_unpacked(state, NULL);
    pb__trace_stats__free_unpacked(stats, NULL);
}

static void one_call(void)
{
    static const char *const names[] = {"t", "u", "v"};
    uint8_t call = next_byte();
    t.depth++;
    switch (call % 16) {
    case 0:
    case 1:
    case 2:
        do_enable();
        break;
    case 3:
        service_start(t.service, choose_id(), NULL);
        break;
    case 4:
        service_disable(t.service, choose_id(), NULL);
        break;
    case 5:
        service_destroy(t.service, choose_id());
        break;
    case 6:
        service_flush(t.service, choose_id(), NULL);
        break;
    case 7:
    case 8:
        service_activate_trigger(t.service, names[next_byte() % 3], "producer", 1, 1);
        break;
    case 9:
        do_clone();
        break;
    case 10:
        do_read();
        break;
    case 11:
        do_detach();
        break;
    case 12:
        service_consumer_gone(t.service, &t.consumers[next_byte() % N_CONSUMERS]);
        break;
    case 13:
        do_tell();
        break;
    default:
        do_pass();
    }
    note_gone();
    t.depth--;
}

// Checks that the names of sessions differ, that limits hold, and that sources run if, and only if,
// a session records.
static void check_state(void)
{
    struct service_session_info infos[64];
    size_t n = service_list(t.service, infos, 64);
    size_t n_sessions[2] = {0}, n_clones[2] = {0}; // [true]: of root
    uint64_t bytes[2] = {0};
    bool anything_records = false;
    for (size_t i = 0; i < n; i++) {
        bool is_clone = strcmp(infos[i].state, "snapshot") == 0;
        bool is_leaving = strcmp(infos[i].state, "leaving") == 0;
        uint64_t bytes_of_uid = 0;
        size_t n_of_uid = 0;
        bool is_roots = infos[i].uid == 0;
        bytes[is_roots] += infos[i].buffer_bytes;
        n_sessions[is_roots] += !is_clone;
        n_clones[is_roots] += is_clone;
        anything_records |=
            strcmp(infos[i].state, "recording") == 0 || strcmp(infos[i].state, "triggered") == 0;
        for (size_t k = 0; k < n; k++) {
            bool other_is_clone = strcmp(infos[k].state, "snapshot") == 0;
            if (infos[k].uid == infos[i].uid) {
                bytes_of_uid += infos[k].buffer_bytes;
                n_of_uid += is_clone == other_is_clone;
            }
            MUST(k == i || infos[k].id != infos[i].id);
            MUST(k == i || is_clone || other_is_clone || is_leaving || !*infos[i].name ||
                 strcmp(infos[k].state, "leaving") == 0 || infos[i].uid != infos[k].uid ||
                 strcmp(infos[i].name, infos[k].name) != 0);
        }
        MUST(infos[i].uid == 0 || n_of_uid <= MAX_PER_UID);
        MUST(infos[i].uid == 0 || bytes_of_uid <= OVERRIDDEN_BYTES);
    }
    for (int i = 0; i < 2; i++)
        MUST(n_sessions[i] <= MAX_SESSIONS && n_clones[i] <= MAX_SESSIONS);
    MUST(bytes[true] <= MAX_BYTES && bytes[false] <= MAX_BYTES / 2);
    MUST(anything_records == (t.n_running > 0));
}

static double fake_random(void *userdata)
{
    (void)userdata;
    return next_byte() / 256.0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct clock_reader clock = {.now = fake_now};
    static const struct source_roots roots = {.proc = "/nonexistent", .sys = "/nonexistent"};
    static const struct log log = {0};
    struct service_env env = {
        .session = {.clock = &clock, .log = &log, .roots = &roots, .classes = classes},
        .limits = {.max_sessions = MAX_SESSIONS,
                   .max_sessions_per_uid = MAX_PER_UID,
                   .max_buffer_bytes = MAX_BYTES,
                   .max_buffer_bytes_per_uid = MAX_BYTES_UID},
        .random = fake_random,
    };
    t = (struct test){
        .consumers = {{.uid = 1, .payer = 1, .name = "a", .notify = on_notify},
                      {.uid = 1, .payer = 1, .name = "b", .notify = on_notify},
                      {.uid = 0, .name = "c", .notify = on_notify}},
        .boot = 1000 * NSEC_PER_SEC,
        .data = data,
        .end = data + (size < 2048 ? size : 2048),
    };
    MUST(service_new(&env, &t.service, NULL) == 0);
    while (t.data < t.end) {
        one_call();
        check_state();
    }
    t.service = service_free(t.service);
    MUST(t.n_open == 0 && t.n_running == 0);
    return 0;
}
