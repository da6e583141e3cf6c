// SPDX-License-Identifier: Apache-2.0
//
// Answers the ports' calls by simple rules: names of sessions, keys and ids say which calls fail.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/str.h"
#include "tests/unit/fake_service.h"

struct service service;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    size_t used = strlen(service.diary);
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&service.lock);
    vsnprintf(service.diary + used, sizeof(service.diary) - used, format, args);
    pthread_mutex_unlock(&service.lock);
    va_end(args);
}

void fake_service_forget_session(void)
{
    config_done(&service.config);
    service.id = 0;
    service.consumer = NULL;
    if (service.output_fd >= 0)
        close(service.output_fd);
    service.output_fd = -1;
}

static void tell(enum service_event event, int result, const char *text,
                 const struct service_trigger_hit *trigger)
{
    service.done |= event == SERVICE_EVENT_ENDED;
    if (service.consumer)
        service.consumer->notify(service.consumer->userdata, service.id, event, result, text,
                                 trigger);
}

static void tell_started(void)
{
    tell(SERVICE_EVENT_STARTED, 0, "", NULL);
    tell(SERVICE_EVENT_ALL_STARTED, 0, "", NULL);
}

int service_enable(struct service *s, const struct service_consumer *consumer,
                   const struct service_request *request, uint64_t *ret_session_id, struct err *err)
{
    const char *name = request->config->trace->unique_session_name;
    note("enable %s fd %d;", name ? name : "-", request->output_fd >= 0);
    if (name && str_eq(name, "taken")) {
        if (request->output_fd >= 0)
            close(request->output_fd);
        err_set(err, -EEXIST, "unique_session_name: taken");
        return err_hint(err, -EEXIST, "take another");
    }
    s->consumer = consumer;
    s->id = *ret_session_id = ++s->last_id;
    s->done = false;
    s->output_fd = request->output_fd;
    uint8_t *bytes = malloc(request->config->size);
    memcpy(bytes, request->config->bytes, request->config->size);
    s->config = (struct config){
        .trace = pb__trace_config__unpack(NULL, request->config->size, bytes),
        .bytes = bytes,
        .size = request->config->size,
    };
    if (request->start)
        tell_started();
    return 0;
}

int service_start(struct service *s, uint64_t session_id, struct err *err)
{
    (void)s, (void)session_id;
    note("start;");
    const char *name = s->config.trace->unique_session_name;
    if (name && str_eq(name, "unstartable"))
        return err_set(err, -EIO, "does not start");
    tell_started();
    return 0;
}

int service_change_config(struct service *s, uint64_t session_id, const Pb__TraceConfig *config,
                          struct err *err)
{
    (void)s, (void)session_id;
    note("change %u;", config->duration_ms);
    return err_set(err, -EINVAL, "not this");
}

int service_flush(struct service *s, uint64_t session_id, struct err *err)
{
    (void)session_id, (void)err;
    note("flush;");
    const char *name = s->config.trace->unique_session_name;
    struct service_trigger_hit hit = {"low", "mmd", 12, 34 * NSEC_PER_SEC, 56};
    if (name && str_eq(name, "snapshots"))
        tell(SERVICE_EVENT_CLONE_TRIGGERED, 0, "", &hit);
    if (name && str_eq(name, "fails"))
        tell(SERVICE_EVENT_ENDED, -EIO, "the disk is gone", NULL);
    return 0;
}

int service_disable(struct service *s, uint64_t session_id, struct err *err)
{
    (void)s, (void)session_id, (void)err;
    note("disable;");
    tell(SERVICE_EVENT_ENDED, 0, "", NULL);
    return 0;
}

int service_destroy(struct service *s, uint64_t session_id)
{
    (void)s, (void)session_id;
    note("destroy;");
    fake_service_forget_session();
    return 0;
}

void service_consumer_gone(struct service *s, const struct service_consumer *consumer)
{
    if (s->consumer != consumer)
        return;
    fake_service_forget_session();
    note("gone;");
}

int service_detach(struct service *s, uint64_t session_id, const char *key, struct err *err)
{
    (void)session_id;
    note("detach %s;", key);
    if (str_eq(key, "bad"))
        return err_set(err, -EEXIST, "bad key");
    s->consumer = NULL;
    return 0;
}

int service_attach(struct service *s, const struct service_consumer *consumer, const char *key,
                   uint64_t *ret_session_id, struct err *err)
{
    note("attach %s;", key);
    if (!s->id || !str_eq(key, "key"))
        return err_set(err, -ENOENT, "no such key");
    s->consumer = consumer;
    *ret_session_id = s->id;
    return 0;
}

const Pb__TraceConfig *service_session_config(const struct service *s, uint64_t session_id)
{
    (void)session_id;
    return s->config.trace;
}

bool service_all_started(const struct service *s, uint64_t session_id)
{
    return session_id && session_id == s->id;
}

// All sources have started, except the source "b".
bool service_source_has_started(const struct service *s, uint64_t session_id,
                                const Pb__DataSourceConfig *config)
{
    (void)s;
    (void)session_id;
    return config && config->name && !str_eq(config->name, "b");
}

enum session_state service_session_state(const struct service *s, uint64_t session_id)
{
    (void)session_id;
    return s->done ? SESSION_DONE : SESSION_STARTED;
}

int service_read_begin(struct service *s, uint64_t session_id, struct err *err)
{
    (void)session_id, (void)err;
    s->read = 0;
    return 0;
}

size_t fake_service_packet_size(size_t i)
{
    return i % 100 == 50 ? PACKET_MAX - i : i % 7 == 0 ? 0 : i * 37 % 3000;
}

bool service_read_peek(struct service *s, uint64_t session_id, struct packet_view *ret)
{
    if (session_id != s->id || s->read >= FAKE_N_PACKETS)
        return false;
    memset(s->packet, (int)s->read, PACKET_MAX);
    *ret = (struct packet_view){.data = s->packet, .size = fake_service_packet_size(s->read)};
    return true;
}

void service_read_advance(struct service *s, uint64_t session_id)
{
    (void)session_id;
    memset(s->packet, 0xee, PACKET_MAX);
    s->read++;
}

void fake_service_copy_is_written(void *userdata)
{
    (void)userdata;
    tell(SERVICE_EVENT_ENDED, service.written_result, "the disk is full", NULL);
}

int service_clone(struct service *s, const struct service_consumer *consumer,
                  const struct service_clone_request *request, struct service_clone_result *ret,
                  struct err *err)
{
    note("clone %d %s %d %s;", (int)request->session_id,
         request->unique_session_name ? request->unique_session_name : "-", request->for_bugreport,
         request->trigger ? request->trigger->name : "-");
    if (request->session_id == 99)
        return err_set(err, -ENOENT, "session 99 does not exist");
    s->consumer = consumer;
    s->id = ++s->last_id;
    *ret = (struct service_clone_result){
        .session_id = s->id,
        .uuid_msb = 5,
        .uuid_lsb = -6,
        .into_file = request->into_file || request->session_id == 77,
    };
    if (request->into_file) {
        assert_int_equal(write(*request->output_fd, "trace", 5), 5);
        s->output_fd = *request->output_fd;
        *request->output_fd = -1;
        loop_set_timer(s->written, 0, 0);
    }
    return 0;
}

struct service_trigger_result service_activate_trigger(struct service *s, const char *name,
                                                       const char *producer_name,
                                                       uid_t producer_uid, uint64_t payer)
{
    (void)s;
    (void)payer;
    note("%s by %s of %d;", name, producer_name, producer_uid == geteuid());
    bool known = str_eq(name, "one");
    return (struct service_trigger_result){
        .sessions = 3u * known, .acted = known, .held_back = known};
}

Pb__TraceStats *service_get_stats(struct service *s, uint64_t session_id)
{
    (void)s, (void)session_id;
    Pb__TraceStats *stats = malloc(sizeof(*stats));
    pb__trace_stats__init(stats);
    stats->has_total_buffers = true;
    stats->total_buffers = 3;
    return stats;
}

Pb__TracingServiceState__SessionDetails *service_get_details(struct service *s, uint64_t session_id)
{
    (void)s, (void)session_id;
    return NULL;
}

Pb__TracingServiceState *service_query_state(struct service *s, bool sessions_only)
{
    (void)s;
    Pb__TracingServiceState *state = malloc(sizeof(*state));
    pb__tracing_service_state__init(state);
    state->tracing_service_version = strdup("made up");
    state->n_data_sources = sessions_only ? 0 : FAKE_N_SOURCES;
    if (sessions_only)
        return state;
    state->data_sources = calloc(FAKE_N_SOURCES, sizeof(*state->data_sources));
    for (size_t i = 0; i < FAKE_N_SOURCES; i++) {
        Pb__TracingServiceState__DataSource *source = malloc(sizeof(*source));
        pb__tracing_service_state__data_source__init(source);
        source->ds_descriptor = malloc(sizeof(*source->ds_descriptor));
        pb__data_source_descriptor__init(source->ds_descriptor);
        char name[128];
        // Some names are nearly as long as a frame can take, and one is longer.
        snprintf(name, sizeof(name), "a data source with quite a long name, number %zu", i);
        source->ds_descriptor->name = strdup(name);
        if (i % 1000 == 500) {
            size_t size = i == 1500 ? 200000 : 120000;
            free(source->ds_descriptor->name);
            source->ds_descriptor->name = malloc(size + 1);
            memset(source->ds_descriptor->name, 'x', size);
            source->ds_descriptor->name[size] = '\0';
        }
        state->data_sources[i] = source;
    }
    return state;
}

int service_may_ask(struct service *s, const struct service_consumer *consumer, struct err *err)
{
    (void)s;
    (void)consumer;
    (void)err;
    return 0;
}

int service_check_size(const Pb__TraceConfig *config, const struct service_consumer *consumer,
                       struct err *err)
{
    (void)config;
    (void)consumer;
    (void)err;
    return 0;
}

const struct log *service_log_of(const struct service *s, const struct service_consumer *consumer)
{
    (void)s;
    (void)consumer;
    return NULL;
}

bool service_may_log(struct service *s, const struct service_consumer *consumer)
{
    (void)s;
    (void)consumer;
    return true;
}
