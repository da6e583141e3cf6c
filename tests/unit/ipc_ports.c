// SPDX-License-Identifier: Apache-2.0
//
// Both ports over a service that is made up (fake_service.c), through real sockets: the loop runs
// in a thread of its own, the client library is the other side.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/str.h"
#include "producer/service/ipc/consumer_port.h"
#include "producer/service/ipc/decode.h"
#include "producer/service/ipc/frame.h"
#include "producer/service/ipc/ipc_client.h"
#include "producer/service/ipc/producer_port.h"
#include "tests/unit/fake_service.h"

#define TIMEOUT (5 * NSEC_PER_SEC)

// The server and its thread.
struct fixture {
    struct loop *loop;
    struct ipc_server *server;
    struct config_check_env check;
    struct consumer_port consumers;
    struct producer_port producers;
    char consumer_name[64], producer_name[64];
    int stop_pipe[2];
    struct loop_io *stop_io;
    pthread_t thread;
};

static struct fixture f;

static void *serve(void *userdata)
{
    (void)userdata;
    loop_run(f.loop);
    return NULL;
}

static void stop(void *userdata)
{
    (void)userdata;
    f.stop_io = loop_remove_io(f.stop_io);
    loop_quit(f.loop);
}

static int set_up(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", NULL};
    static const struct ipc_access all = {.everyone = true, .group = IPC_GROUP_NONE};
    memset(&f, 0, sizeof(f));
    memset(&service, 0, sizeof(service));
    pthread_mutex_init(&service.lock, NULL);
    service.output_fd = -1;
    f.check.source_names = names;
    assert_int_equal(loop_new(&f.loop), 0);
    assert_int_equal(
        loop_add_timer(f.loop, NSEC_MAX, 0, fake_service_copy_is_written, NULL, &service.written),
        0);
    struct ipc_server_env env = {.loop = f.loop};
    assert_int_equal(ipc_server_new(&env, &f.server), 0);
    consumer_port_init(&f.consumers, &service, &f.check, NULL);
    producer_port_init(&f.producers, &service);
    snprintf(f.consumer_name, sizeof(f.consumer_name), "@mmtrace-unit-consumer-%d", getpid());
    snprintf(f.producer_name, sizeof(f.producer_name), "@mmtrace-unit-producer-%d", getpid());
    int fd;
    assert_int_equal(ipc_socket_listen(f.consumer_name, 0, IPC_GROUP_NONE, &fd, NULL), 0);
    assert_int_equal(ipc_server_listen(f.server, fd, &all, &f.consumers.port), 0);
    assert_int_equal(ipc_socket_listen(f.producer_name, 0, IPC_GROUP_NONE, &fd, NULL), 0);
    assert_int_equal(ipc_server_listen(f.server, fd, &all, &f.producers.port), 0);
    assert_int_equal(pipe2(f.stop_pipe, O_CLOEXEC), 0);
    assert_int_equal(loop_add_io(f.loop, f.stop_pipe[0], POLLIN, stop, NULL, &f.stop_io), 0);
    assert_int_equal(pthread_create(&f.thread, NULL, serve, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(write(f.stop_pipe[1], "", 1), 1);
    pthread_join(f.thread, NULL);
    ipc_server_free(f.server);
    loop_remove_timer(service.written);
    loop_free(f.loop);
    close(f.stop_pipe[0]);
    close(f.stop_pipe[1]);
    fake_service_forget_session();
    return 0;
}

static struct ipc_client *consumer(void)
{
    struct ipc_client *client = NULL;
    struct err err = {0};
    int r = ipc_client_connect(&ipc_consumer_service, f.consumer_name, TIMEOUT, &client, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    return client;
}

static int call(struct ipc_client *client, uint32_t method, const void *request,
                ProtobufCMessage **ret_reply)
{
    return ipc_client_call(client, method, request, -1, TIMEOUT, ret_reply, NULL);
}

// Calls a method whose reply is an empty message.
static int simple(struct ipc_client *client, uint32_t method, const void *request)
{
    return call(client, method, request, NULL);
}

static void diary_becomes(const char *text)
{
    for (int i = 0; i < 60000; i++) {
        pthread_mutex_lock(&service.lock);
        bool equal = str_eq(service.diary, text);
        pthread_mutex_unlock(&service.lock);
        if (equal)
            break;
        usleep(1000);
    }
    assert_string_equal(service.diary, text);
    service.diary[0] = '\0';
}

static uint64_t enable_config(struct ipc_client *client, Pb__TraceConfig *config, int fd)
{
    Pb__TraceConfig__BufferConfig buffer = PB__TRACE_CONFIG__BUFFER_CONFIG__INIT,
                                  *buffers = &buffer;
    Pb__DataSourceConfig source_configs[] = {PB__DATA_SOURCE_CONFIG__INIT,
                                             PB__DATA_SOURCE_CONFIG__INIT};
    Pb__TraceConfig__DataSource items[] = {PB__TRACE_CONFIG__DATA_SOURCE__INIT,
                                           PB__TRACE_CONFIG__DATA_SOURCE__INIT};
    Pb__TraceConfig__DataSource *sources[] = {&items[0], &items[1]};
    buffer.has_size_kb = true;
    buffer.size_kb = 64;
    source_configs[0].name = "b"; // the fake service does not start "b"
    source_configs[1].name = "a";
    for (size_t i = 0; i < ELEMENTS(items); i++)
        items[i].config = &source_configs[i];
    config->n_buffers = 1;
    config->n_data_sources = ELEMENTS(items);
    config->buffers = &buffers;
    config->data_sources = sources;
    Pb__EnableTracingRequest request = PB__ENABLE_TRACING_REQUEST__INIT;
    request.trace_config = config;
    uint64_t id;
    int r = ipc_client_send(client, IPC_CONSUMER_ENABLE_TRACING, &request.base, fd, &id, NULL);
    assert_int_equal(r, 0);
    return id;
}

static uint64_t enable(struct ipc_client *client, const char *name)
{
    Pb__TraceConfig config = PB__TRACE_CONFIG__INIT;
    config.unique_session_name = (char *)(uintptr_t)name;
    return enable_config(client, &config, -1);
}

// Waits for the end of tracing, and asserts that the reply has `error`.
static void expect_end(struct ipc_client *client, uint64_t id, const char *error)
{
    struct ipc_reply reply;
    assert_int_equal(ipc_client_receive(client, id, TIMEOUT, &reply, NULL), 0);
    assert_non_null(reply.message);
    assert_false(reply.has_more);
    const Pb__EnableTracingResponse *response = (const void *)reply.message;
    assert_int_equal(response->state_case, PB__ENABLE_TRACING_RESPONSE__STATE_DISABLED);
    assert_true(response->disabled);
    if (error && !(response->error && strstr(response->error, error)))
        fail_msg("\"%s\" instead of \"%s\"", response->error ? response->error : "", error);
    if (!error)
        assert_null(response->error);
    ipc_reply_done(&reply);
}

static const Pb__DisableTracingRequest disable_request = PB__DISABLE_TRACING_REQUEST__INIT;
static const Pb__FlushRequest flush_request = PB__FLUSH_REQUEST__INIT;
static const Pb__FreeBuffersRequest free_request = PB__FREE_BUFFERS_REQUEST__INIT;
static const Pb__StartTracingRequest start_request = PB__START_TRACING_REQUEST__INIT;

static void what_cannot_begin_ends_with_its_reason(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    expect_end(client, enable(client, "taken"), "unique_session_name: taken (take another)");
    diary_becomes("enable taken fd 0;");
    Pb__EnableTracingRequest nothing = PB__ENABLE_TRACING_REQUEST__INIT;
    uint64_t id;
    ipc_client_send(client, IPC_CONSUMER_ENABLE_TRACING, &nothing.base, -1, &id, NULL);
    expect_end(client, id, "no trace_config");
    Pb__TraceConfig empty = PB__TRACE_CONFIG__INIT;
    nothing.trace_config = &empty;
    ipc_client_send(client, IPC_CONSUMER_ENABLE_TRACING, &nothing.base, -1, &id, NULL);
    expect_end(client, id, "buffers");
    assert_int_equal(simple(client, IPC_CONSUMER_FLUSH, &flush_request), -EREMOTEIO);
    assert_int_equal(simple(client, IPC_CONSUMER_DISABLE_TRACING, &disable_request), 0);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    diary_becomes("");
    ipc_client_free(client);
}

static void a_session_lives_and_ends(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    Pb__ObserveEventsRequest observe = PB__OBSERVE_EVENTS_REQUEST__INIT;
    Pb__ObservableEvents__Type type = PB__OBSERVABLE_EVENTS__TYPE__TYPE_ALL_DATA_SOURCES_STARTED;
    observe.n_events_to_observe = 1;
    observe.events_to_observe = &type;
    uint64_t stream, id;
    ipc_client_send(client, IPC_CONSUMER_OBSERVE_EVENTS, &observe.base, -1, &stream, NULL);
    id = enable(client, NULL);
    struct ipc_reply reply;
    assert_int_equal(ipc_client_receive(client, stream, TIMEOUT, &reply, NULL), 0);
    assert_true(reply.has_more);
    assert_true(((Pb__ObserveEventsResponse *)reply.message)->events->all_data_sources_started);
    ipc_reply_done(&reply);
    expect_end(client, enable(client, "second"), "has a session already");
    assert_int_equal(ipc_client_receive(client, id, 0, &reply, NULL), -ETIMEDOUT);
    assert_int_equal(simple(client, IPC_CONSUMER_DISABLE_TRACING, &disable_request), 0);
    expect_end(client, id, NULL);
    // A second request ends the first stream. The second stream ends, too, as it asks for no
    // events.
    uint64_t second;
    observe.n_events_to_observe = 0;
    ipc_client_send(client, IPC_CONSUMER_OBSERVE_EVENTS, &observe.base, -1, &second, NULL);
    assert_int_equal(ipc_client_receive(client, stream, TIMEOUT, &reply, NULL), 0);
    assert_false(reply.has_more);
    ipc_reply_done(&reply);
    assert_int_equal(ipc_client_receive(client, second, TIMEOUT, &reply, NULL), 0);
    assert_false(reply.has_more);
    ipc_reply_done(&reply);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    diary_becomes("enable - fd 0;disable;destroy;");
    ipc_client_free(client);
}

static void bad_ends_and_snapshots_are_reported(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    uint64_t id = enable(client, "fails");
    assert_int_equal(simple(client, IPC_CONSUMER_FLUSH, &flush_request), 0);
    expect_end(client, id, "the disk is gone");
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    id = enable(client, "snapshots");
    Pb__ObserveEventsRequest observe = PB__OBSERVE_EVENTS_REQUEST__INIT;
    Pb__ObservableEvents__Type types[] = {
        PB__OBSERVABLE_EVENTS__TYPE__TYPE_CLONE_TRIGGER_HIT,
        PB__OBSERVABLE_EVENTS__TYPE__TYPE_DATA_SOURCES_INSTANCES,
    };
    observe.n_events_to_observe = 2;
    observe.events_to_observe = types;
    uint64_t stream;
    ipc_client_send(client, IPC_CONSUMER_OBSERVE_EVENTS, &observe.base, -1, &stream, NULL);
    struct ipc_reply reply;
    assert_int_equal(ipc_client_receive(client, stream, TIMEOUT, &reply, NULL), 0);
    const Pb__ObservableEvents *events = ((Pb__ObserveEventsResponse *)reply.message)->events;
    assert_int_equal(events->n_instance_state_changes, 1);
    assert_string_equal(events->instance_state_changes[0]->data_source_name, "a");
    ipc_reply_done(&reply);
    assert_int_equal(simple(client, IPC_CONSUMER_FLUSH, &flush_request), 0);
    assert_int_equal(ipc_client_receive(client, stream, TIMEOUT, &reply, NULL), 0);
    const Pb__ObservableEvents__CloneTriggerHit *hit =
        ((Pb__ObserveEventsResponse *)reply.message)->events->clone_trigger_hit;
    assert_non_null(hit);
    assert_string_equal(hit->trigger_name, "low");
    assert_string_equal(hit->producer_name, "mmd");
    assert_int_equal(hit->producer_uid, 12);
    assert_int_equal(hit->boot_time_ns, 34 * NSEC_PER_SEC);
    assert_int_equal(hit->trigger_delay_ms, 56);
    assert_int_equal(hit->tracing_session_id, service.id);
    ipc_reply_done(&reply);
    ipc_client_free(client);
    diary_becomes("enable fails fd 0;flush;destroy;enable snapshots fd 0;flush;gone;");
}

static void deferred_sessions_start_when_told(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    Pb__TraceConfig config = PB__TRACE_CONFIG__INIT;
    config.has_deferred_start = config.deferred_start = true;
    enable_config(client, &config, -1);
    assert_int_equal(simple(client, IPC_CONSUMER_START_TRACING, &start_request), 0);
    assert_int_equal(simple(client, IPC_CONSUMER_START_TRACING, &start_request), 0);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    config.unique_session_name = "unstartable";
    uint64_t id = enable_config(client, &config, -1);
    assert_int_equal(simple(client, IPC_CONSUMER_START_TRACING, &start_request), 0);
    expect_end(client, id, "does not start");
    Pb__ChangeTraceConfigRequest change = PB__CHANGE_TRACE_CONFIG_REQUEST__INIT;
    assert_int_equal(simple(client, IPC_CONSUMER_CHANGE_TRACE_CONFIG, &change), -EREMOTEIO);
    diary_becomes("enable - fd 0;start;destroy;enable unstartable fd 0;start;destroy;");
    ipc_client_free(client);
}

static void files_must_be_open_for_writing(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    int read_only = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int writable = open("/dev/null", O_WRONLY | O_CLOEXEC);
    Pb__TraceConfig config = PB__TRACE_CONFIG__INIT;
    config.has_write_into_file = config.write_into_file = true;
    expect_end(client, enable_config(client, &config, read_only), "not open for writing");
    uint64_t id = enable_config(client, &config, writable);
    assert_int_equal(simple(client, IPC_CONSUMER_DISABLE_TRACING, &disable_request), 0);
    expect_end(client, id, NULL);
    diary_becomes("enable - fd 1;disable;");
    ipc_client_free(client);
    close(read_only);
    close(writable);
    diary_becomes("gone;");
}

static int check_packet(void *userdata, const void *bytes, size_t size)
{
    size_t *n = userdata;
    const uint8_t *p = bytes;
    assert_int_equal(size, fake_service_packet_size(*n));
    for (size_t i = 0; i < size; i += 997)
        assert_int_equal(p[i], *n & 0xff);
    if (size)
        assert_int_equal(p[size - 1], *n & 0xff);
    ++*n;
    return 0;
}

static void packets_of_any_size_come_through(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    size_t n = 0;
    assert_int_equal(ipc_client_read_buffers(client, TIMEOUT, check_packet, &n, NULL), 0);
    assert_int_equal(n, 0); // there is no session
    enable(client, NULL);
    assert_int_equal(ipc_client_read_buffers(client, TIMEOUT, check_packet, &n, NULL), 0);
    assert_int_equal(n, FAKE_N_PACKETS);
    // A session that is freed in the middle of a stream ends the stream in order.
    Pb__ReadBuffersRequest read = PB__READ_BUFFERS_REQUEST__INIT;
    uint64_t stream;
    ipc_client_send(client, IPC_CONSUMER_READ_BUFFERS, &read.base, -1, &stream, NULL);
    usleep(20000);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    struct ipc_reply reply;
    bool has_more = true;
    while (has_more) {
        assert_int_equal(ipc_client_receive(client, stream, TIMEOUT, &reply, NULL), 0);
        has_more = reply.has_more;
        ipc_reply_done(&reply);
    }
    ipc_client_free(client);
}

static void detached_sessions_outlive_their_connection(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    Pb__DetachRequest detach = PB__DETACH_REQUEST__INIT;
    detach.key = "bad";
    assert_int_equal(simple(client, IPC_CONSUMER_DETACH, &detach), -EREMOTEIO);
    enable(client, "mine");
    assert_int_equal(simple(client, IPC_CONSUMER_DETACH, &detach), -EREMOTEIO);
    detach.key = "key";
    assert_int_equal(simple(client, IPC_CONSUMER_DETACH, &detach), 0);
    ipc_client_free(client);
    client = consumer();
    Pb__AttachRequest attach = PB__ATTACH_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    attach.key = "other";
    assert_int_equal(call(client, IPC_CONSUMER_ATTACH, &attach, &reply), -EREMOTEIO);
    attach.key = "key";
    assert_int_equal(call(client, IPC_CONSUMER_ATTACH, &attach, &reply), 0);
    const Pb__AttachResponse *response = (const void *)reply;
    assert_string_equal(response->trace_config->unique_session_name, "mine");
    protobuf_c_message_free_unpacked(reply, NULL);
    Pb__EnableTracingRequest notify = PB__ENABLE_TRACING_REQUEST__INIT;
    notify.has_attach_notification_only = notify.attach_notification_only = true;
    uint64_t id;
    ipc_client_send(client, IPC_CONSUMER_ENABLE_TRACING, &notify.base, -1, &id, NULL);
    assert_int_equal(simple(client, IPC_CONSUMER_DISABLE_TRACING, &disable_request), 0);
    expect_end(client, id, NULL);
    ipc_client_free(client);
    diary_becomes("enable mine fd 0;detach bad;detach key;attach other;attach key;disable;gone;");
}

static void clone_call(struct ipc_client *client, const Pb__CloneSessionRequest *request,
                       const char *error)
{
    ProtobufCMessage *reply = NULL;
    assert_int_equal(call(client, IPC_CONSUMER_CLONE_SESSION, request, &reply), 0);
    const Pb__CloneSessionResponse *response = (const void *)reply;
    assert_int_equal(response->success, !error);
    if (error)
        assert_non_null(strstr(response->error, error));
    else
        assert_int_equal(response->uuid_lsb, -6);
    protobuf_c_message_free_unpacked(reply, NULL);
}

// Asks for a copy in a file, then for the capabilities, which have an answer at once.
static uint64_t ask_for_file(struct ipc_client *client)
{
    Pb__CloneSessionRequest request = PB__CLONE_SESSION_REQUEST__INIT;
    Pb__QueryCapabilitiesRequest capabilities = PB__QUERY_CAPABILITIES_REQUEST__INIT;
    uint64_t id;
    request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_SESSION_ID;
    request.session_id = 77;
    assert_int_equal(
        ipc_client_send(client, IPC_CONSUMER_CLONE_SESSION, &request.base, -1, &id, NULL), 0);
    assert_int_equal(simple(client, IPC_CONSUMER_QUERY_CAPABILITIES, &capabilities), 0);
    return id;
}

static void expect_file(struct ipc_client *client, uint64_t id, const char *error)
{
    struct ipc_reply reply;
    assert_int_equal(ipc_client_receive(client, id, TIMEOUT, &reply, NULL), 0);
    const Pb__CloneSessionResponse *response = (const void *)reply.message;
    assert_int_equal(response->success, !error);
    assert_int_equal(response->was_write_into_file, !error);
    if (error)
        assert_non_null(strstr(response->error, error));
    else
        assert_int_equal(response->uuid_lsb, -6);
    ipc_reply_done(&reply);
}

static void copies_in_files_are_answered_when_they_are_written(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    struct ipc_reply reply;
    uint64_t id = ask_for_file(client);
    assert_int_equal(ipc_client_receive(client, id, 0, &reply, NULL), -ETIMEDOUT);
    assert_int_equal(simple(client, IPC_CONSUMER_DISABLE_TRACING, &disable_request), 0);
    expect_file(client, id, NULL);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    id = ask_for_file(client);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    expect_file(client, id, "given up");
    ipc_client_free(client);
    diary_becomes("clone 77 - 0 -;disable;destroy;clone 77 - 0 -;destroy;");
}

static void clones_are_read_by_whoever_asked(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    Pb__CloneSessionRequest request = PB__CLONE_SESSION_REQUEST__INIT;
    clone_call(client, &request, "names no session");
    request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_SESSION_ID;
    request.session_id = 99;
    clone_call(client, &request, "does not exist");
    request.session_id = UINT64_MAX;
    clone_call(client, &request, NULL);
    clone_call(client, &request, "has a session already");
    size_t n = 0;
    assert_int_equal(ipc_client_read_buffers(client, TIMEOUT, check_packet, &n, NULL), 0);
    assert_int_equal(n, FAKE_N_PACKETS);
    assert_int_equal(simple(client, IPC_CONSUMER_FREE_BUFFERS, &free_request), 0);
    request.selector_case = PB__CLONE_SESSION_REQUEST__SELECTOR_UNIQUE_SESSION_NAME;
    request.unique_session_name = "name";
    request.clone_trigger_name = "low";
    clone_call(client, &request, NULL);
    ipc_client_free(client);
    diary_becomes("clone 99 - 0 -;clone 0 - 1 -;destroy;clone 0 name 0 low;gone;");
}

static void questions_are_answered(void **state)
{
    (void)state;
    struct ipc_client *client = consumer();
    Pb__TracingServiceState *whole = NULL;
    assert_int_equal(ipc_client_query_state(client, false, TIMEOUT, &whole, NULL), 0);
    assert_string_equal(whole->tracing_service_version, "made up");
    assert_int_equal(whole->n_data_sources, FAKE_N_SOURCES - 1); // one is too large
    assert_int_equal(strlen(whole->data_sources[500]->ds_descriptor->name), 120000);
    assert_non_null(strstr(whole->data_sources[FAKE_N_SOURCES - 2]->ds_descriptor->name, "2999"));
    pb__tracing_service_state__free_unpacked(whole, NULL);
    assert_int_equal(ipc_client_query_state(client, true, TIMEOUT, &whole, NULL), 0);
    assert_int_equal(whole->n_data_sources, 0);
    pb__tracing_service_state__free_unpacked(whole, NULL);

    ProtobufCMessage *reply = NULL;
    Pb__QueryCapabilitiesRequest capabilities = PB__QUERY_CAPABILITIES_REQUEST__INIT;
    assert_int_equal(call(client, IPC_CONSUMER_QUERY_CAPABILITIES, &capabilities, &reply), 0);
    assert_true(((Pb__QueryCapabilitiesResponse *)reply)->capabilities->has_clone_session);
    protobuf_c_message_free_unpacked(reply, NULL);
    Pb__GetTraceStatsRequest stats = PB__GET_TRACE_STATS_REQUEST__INIT;
    assert_int_equal(simple(client, IPC_CONSUMER_GET_TRACE_STATS, &stats), -EREMOTEIO);
    enable(client, NULL);
    assert_int_equal(call(client, IPC_CONSUMER_GET_TRACE_STATS, &stats, &reply), 0);
    assert_int_equal(((Pb__GetTraceStatsResponse *)reply)->trace_stats->total_buffers, 3);
    protobuf_c_message_free_unpacked(reply, NULL);
    Pb__SaveTraceForBugreportRequest save = PB__SAVE_TRACE_FOR_BUGREPORT_REQUEST__INIT;
    assert_int_equal(call(client, IPC_CONSUMER_SAVE_TRACE_FOR_BUGREPORT, &save, &reply), 0);
    assert_false(((Pb__SaveTraceForBugreportResponse *)reply)->success);
    protobuf_c_message_free_unpacked(reply, NULL);
    ipc_client_free(client);
}

static int save(struct ipc_client *client, char *ret_text, size_t text_size)
{
    Pb__SaveTraceForBugreportRequest request = PB__SAVE_TRACE_FOR_BUGREPORT_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    assert_int_equal(call(client, IPC_CONSUMER_SAVE_TRACE_FOR_BUGREPORT, &request, &reply), 0);
    const Pb__SaveTraceForBugreportResponse *response = (const void *)reply;
    int success = response->success;
    snprintf(ret_text, text_size, "%s", response->msg);
    protobuf_c_message_free_unpacked(reply, NULL);
    return success;
}

static void a_trace_is_saved_for_old_clients(void **state)
{
    (void)state;
    char folder[] = "/tmp/mmtrace-unit-XXXXXX", path[64], text[256];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/systrace.pftrace", folder);
    struct ipc_client *client = consumer();
    f.consumers.save_folder = folder;
    assert_int_equal(save(client, text, sizeof(text)), 1);
    assert_string_equal(text, path);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 5);
    unlink(path);
    service.written_result = -ENOSPC;
    assert_int_equal(save(client, text, sizeof(text)), 0);
    assert_string_equal(text, "the disk is full");
    rmdir(folder); // fails if a file is left there
    f.consumers.save_folder = "/proc/nowhere";
    assert_int_equal(save(client, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "/proc/nowhere"));
    assert_int_equal(stat(folder, &status), -1);
    diary_becomes("clone 0 - 1 -;destroy;clone 0 - 1 -;destroy;");
    ipc_client_free(client);
}

static void producers_activate_triggers(void **state)
{
    (void)state;
    struct ipc_client *client = NULL;
    int r = ipc_client_connect(&ipc_producer_service, f.producer_name, TIMEOUT, &client, NULL);
    assert_int_equal(r, 0);
    Pb__ActivateTriggersRequest activate = PB__ACTIVATE_TRIGGERS_REQUEST__INIT;
    char *names[] = {"one", "two"};
    activate.n_trigger_names = 2;
    activate.trigger_names = names;
    assert_int_equal(simple(client, IPC_PRODUCER_ACTIVATE_TRIGGERS, &activate), -EREMOTEIO);
    Pb__InitializeConnectionRequest initialize = PB__INITIALIZE_CONNECTION_REQUEST__INIT;
    initialize.producer_name = "probe";
    assert_int_equal(simple(client, IPC_PRODUCER_INITIALIZE_CONNECTION, &initialize), 0);
    assert_int_equal(simple(client, IPC_PRODUCER_INITIALIZE_CONNECTION, &initialize), -EREMOTEIO);
    Pb__GetAsyncCommandRequest commands = PB__GET_ASYNC_COMMAND_REQUEST__INIT;
    uint64_t stream;
    ipc_client_send(client, IPC_PRODUCER_GET_ASYNC_COMMAND, &commands.base, -1, &stream, NULL);
    Pb__RegisterDataSourceRequest source = PB__REGISTER_DATA_SOURCE_REQUEST__INIT;
    assert_int_equal(simple(client, IPC_PRODUCER_REGISTER_DATA_SOURCE, &source), 0);
    ProtobufCMessage *reply = NULL;
    r = ipc_client_call(client, IPC_PRODUCER_ACTIVATE_TRIGGERS, &activate.base, -1, TIMEOUT, &reply,
                        NULL);
    assert_int_equal(r, 0);
    const Pb__ActivateTriggersResponse *told = (const Pb__ActivateTriggersResponse *)reply;
    assert_int_equal(told->n_answers, 2);
    assert_int_equal(told->answers[0]->sessions, 3);
    assert_int_equal(told->answers[0]->acted, 1);
    assert_int_equal(told->answers[0]->held_back, 1);
    assert_int_equal(told->answers[1]->sessions, 0);
    protobuf_c_message_free_unpacked(reply, NULL);
    char *many[257];
    for (size_t i = 0; i < 257; i++)
        many[i] = "many";
    activate.n_trigger_names = 257;
    activate.trigger_names = many;
    assert_int_equal(simple(client, IPC_PRODUCER_ACTIVATE_TRIGGERS, &activate), -EREMOTEIO);
    Pb__SyncRequest sync = PB__SYNC_REQUEST__INIT;
    assert_int_equal(simple(client, IPC_PRODUCER_SYNC, &sync), 0);
    struct ipc_reply late;
    assert_int_equal(ipc_client_receive(client, stream, 0, &late, NULL), -ETIMEDOUT);
    ipc_client_free(client);
    diary_becomes("one by probe of 1;two by probe of 1;");
}

// Writes a RegisterDataSourceRequest, whose program has instructions inside of instructions, to the
// end of `bytes`. `room`: the size of `bytes`, 8 for each level. Returns the offset of the message.
static size_t nest_instructions(uint8_t *bytes, size_t room, size_t n_levels)
{
    size_t start = room;
    for (size_t i = 0; i < n_levels; i++) {
        // VmInstruction.nested_instructions, VmProgram.instructions, DataSourceDescriptor.program,
        // RegisterDataSourceRequest.data_source_descriptor
        uint8_t tag = i + 3 < n_levels ? 0x3a : (uint8_t[]){0x12, 0x52, 0x0a}[i + 3 - n_levels];
        size_t inner = room - start;
        if (inner >= 1 << 14)
            bytes[--start] = (uint8_t)(inner >> 14);
        if (inner >= 1 << 7)
            bytes[--start] = (uint8_t)(inner >> 7 & 0x7f) | (inner >= 1 << 14 ? 0x80 : 0);
        bytes[--start] = (uint8_t)(inner & 0x7f) | (inner >= 1 << 7 ? 0x80 : 0);
        bytes[--start] = tag;
    }
    memmove(bytes, bytes + start, room - start);
    return room - start;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    static uint8_t bytes[IPC_FRAME_MAX];
    const ProtobufCMessageDescriptor *type = &pb__register_data_source_request__descriptor;
    static const size_t levels[] = {1, 4, IPC_MESSAGE_DEPTH_MAX, IPC_MESSAGE_DEPTH_MAX + 1, 30000};
    for (size_t i = 0; i < ELEMENTS(levels); i++) {
        size_t size = nest_instructions(bytes, sizeof(bytes), levels[i]);
        ProtobufCMessage *message = ipc_message_decode(type, bytes, size);
        assert_int_equal(message != NULL, levels[i] <= IPC_MESSAGE_DEPTH_MAX);
        if (message)
            assert_non_null(((Pb__RegisterDataSourceRequest *)message)->data_source_descriptor);
        if (message)
            protobuf_c_message_free_unpacked(message, NULL);
    }
    assert_null(ipc_message_decode(type, (const uint8_t *)"\x0a\x05", 2));
}

static void ids_are_those_of_the_published_list(void **state)
{
    (void)state;
    assert_string_equal(ipc_service_method(&ipc_consumer_service, 1)->name, "EnableTracing");
    assert_string_equal(ipc_service_method(&ipc_consumer_service, 15)->name, "CloneSession");
    assert_null(ipc_service_method(&ipc_consumer_service, 16));
    assert_string_equal(ipc_service_method(&ipc_producer_service, 10)->name, "ActivateTriggers");
    assert_string_equal(ipc_service_method(&ipc_producer_service, 12)->name, "UpdateDataSource");
    assert_null(ipc_service_method(&ipc_producer_service, 13));
    assert_null(ipc_service_method(&ipc_producer_service, 0));
}

int main(void)
{
#define WITH_PORTS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_PORTS(what_cannot_begin_ends_with_its_reason),
        WITH_PORTS(a_session_lives_and_ends),
        WITH_PORTS(bad_ends_and_snapshots_are_reported),
        WITH_PORTS(deferred_sessions_start_when_told),
        WITH_PORTS(files_must_be_open_for_writing),
        WITH_PORTS(packets_of_any_size_come_through),
        WITH_PORTS(detached_sessions_outlive_their_connection),
        WITH_PORTS(clones_are_read_by_whoever_asked),
        WITH_PORTS(copies_in_files_are_answered_when_they_are_written),
        WITH_PORTS(questions_are_answered),
        WITH_PORTS(a_trace_is_saved_for_old_clients),
        WITH_PORTS(producers_activate_triggers),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(ids_are_those_of_the_published_list),
    };
    return cmocka_run_group_tests_name("ipc_ports", tests, NULL, NULL);
}
