// SPDX-License-Identifier: Apache-2.0
//
// The service answers at once, so that most methods are a call and a reply. EnableTracing is
// answered when the session has ended (or could not begin), so that the consumer learns of the end.
// CloneSession into a file is answered when the file is written. SaveTraceForBugreport, ReadBuffers
// and ObserveEvents have separate files.
//
// The service may report an event of a session during the call that makes the session. Therefore
// the request is stored before the call, and the state of the session is in the consumer, not on
// the stack.
//
// This service fails invalid requests that Perfetto's service ignores, so that no client waits in
// vain.
#include "producer/service/ipc/consumer_port.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "producer/service/ipc/consumer.h"

// The session with the highest bugreport_score, in CloneSession.
#define BUGREPORT_SESSION_ID UINT64_MAX

void consumer_settle(struct consumer *consumer, struct ipc_ticket *ticket,
                     const ProtobufCMessage *reply)
{
    if (ticket->wanted)
        ipc_peer_reply(consumer->peer, ticket, reply, false);
    ticket->wanted = false;
}

void consumer_log(const struct consumer *consumer, const char *format, ...)
{
    char line[ERR_TEXT_MAX + 128];
    va_list args;
    if (!service_may_log(consumer->port->service, &consumer->as_client))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_info(consumer->port->log, "%s", line);
}

static char *full_text(const struct err *err, char *ret, size_t ret_size)
{
    snprintf(ret, ret_size, "%s%s%s%s", err->text, *err->hint ? " (" : "", err->hint,
             *err->hint ? ")" : "");
    return ret;
}

// Answers EnableTracing: tracing is over. `error` is the reason; NULL: no error.
static void settle_enabling(struct consumer *consumer, const char *error)
{
    Pb__EnableTracingResponse response = PB__ENABLE_TRACING_RESPONSE__INIT;
    response.state_case = PB__ENABLE_TRACING_RESPONSE__STATE_DISABLED;
    response.disabled = true;
    response.error = (char *)(uintptr_t)error;
    consumer_settle(consumer, &consumer->enabling, &response.base);
}

// Answers CloneSession. `error` is the reason for a missing copy; NULL: success.
static void settle_cloning(struct consumer *consumer, struct ipc_ticket *ticket, bool into_file,
                           const char *error)
{
    Pb__CloneSessionResponse response = PB__CLONE_SESSION_RESPONSE__INIT;
    response.has_success = true;
    response.success = !error;
    response.error = (char *)(uintptr_t)error;
    if (!error) {
        response.has_uuid_msb = response.has_uuid_lsb = true;
        response.uuid_msb = consumer->clone_uuid_msb;
        response.uuid_lsb = consumer->clone_uuid_lsb;
        response.has_was_write_into_file = true;
        response.was_write_into_file = into_file;
    }
    consumer_settle(consumer, ticket, &response.base);
}

static void on_event(void *userdata, uint64_t session_id, enum service_event event, int result,
                     const char *text, const struct service_trigger_hit *trigger)
{
    struct consumer *consumer = userdata;
    if (session_id != consumer->session_id)
        return;
    switch (event) {
    case SERVICE_EVENT_STARTED:
        consumer->started = true;
        break;
    case SERVICE_EVENT_ALL_STARTED:
        consumer_tell_started(consumer);
        break;
    case SERVICE_EVENT_ENDED:
        consumer->ended = true;
        consumer_tell_ended(consumer);
        settle_enabling(consumer, result < 0 ? text : NULL);
        settle_cloning(consumer, &consumer->cloning, true, result < 0 ? text : NULL);
        break;
    case SERVICE_EVENT_CLONE_TRIGGERED:
        consumer_tell_clone(consumer, trigger);
        break;
    case SERVICE_EVENT_WRITING:
    case SERVICE_EVENT_NO_ROOM:
    case SERVICE_EVENT_FILE_REPLACED:
    case SERVICE_EVENT_FILE_KEPT:
        break;
    }
}

// Separates the consumer from its session.
static void let_go(struct consumer *consumer)
{
    consumer_read_end(consumer);
    settle_cloning(consumer, &consumer->cloning, true, "the copy was given up");
    consumer->session_id = 0;
    consumer->started = consumer->ended = false;
}

static int load_config(struct consumer *consumer, Pb__TraceConfig **trace, struct config *ret,
                       struct err *err)
{
    if (!*trace)
        return err_set(err, -EINVAL, "the request has no trace_config");
    struct config_check_env env = *consumer->port->check;
    env.log = service_log_of(consumer->port->service, &consumer->as_client);
    int r = service_check_size(*trace, &consumer->as_client, err);
    if (r == 0)
        r = config_from_message(STEAL(*trace), ret, err);
    return r < 0 ? r : config_check(ret->trace, &env, err);
}

static int check_output(int fd, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return err_errno(err, -errno, "write_into_file: the descriptor that was passed");
    if (flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
        return err_set(err, -EBADF,
                       "write_into_file: the descriptor that was passed is not open for writing");
    return 0;
}

static int enable(struct consumer *consumer, Pb__TraceConfig **trace, struct err *err)
{
    CLEANUP(config_done) struct config config = {0};
    int r = service_may_ask(consumer->port->service, &consumer->as_client, err);
    if (r == 0 && consumer->session_id)
        r = err_set(err, -EBUSY, "this connection has a session already");
    if (r == 0)
        r = load_config(consumer, trace, &config, err);
    if (r < 0)
        return r;
    struct service_request request = {
        .config = &config,
        .output_fd = -1,
        .start = !config.trace->deferred_start,
    };
    const char *path = config.trace->output_path;
    if (config.trace->write_into_file && !(path && *path))
        request.output_fd = ipc_peer_take_fd(consumer->peer);
    if (request.output_fd >= 0)
        r = check_output(request.output_fd, err);
    if (r < 0) {
        close_fd(request.output_fd);
        return r;
    }
    consumer->started = consumer->ended = false;
    r = service_enable(consumer->port->service, &consumer->as_client, &request,
                       &consumer->session_id, err);
    if (r < 0)
        let_go(consumer);
    return r;
}

static void enable_tracing(struct consumer *consumer, const struct ipc_call *call)
{
    Pb__EnableTracingRequest *request = (Pb__EnableTracingRequest *)call->request;
    struct err err = {0};
    char text[ERR_TEXT_MAX + ERR_HINT_MAX + 4];
    struct ipc_ticket previous = consumer->enabling;
    consumer->enabling = call->ticket;
    if (request->attach_notification_only) {
        consumer_settle(consumer, &previous, NULL);
        if (consumer->ended)
            settle_enabling(consumer, NULL);
        return;
    }
    bool had_session = consumer->session_id;
    int r = enable(consumer, &request->trace_config, &err);
    if (r < 0) {
        consumer_log(consumer, "%s: %s", consumer->as_client.name, err.text);
        settle_enabling(consumer, full_text(&err, text, sizeof(text)));
    }
    if (had_session)
        consumer->enabling = previous;
}

static void start_tracing(struct consumer *consumer, const struct ipc_call *call)
{
    struct err err = {0};
    char text[ERR_TEXT_MAX + ERR_HINT_MAX + 4];
    uint64_t id = consumer->session_id;
    Pb__StartTracingResponse response = PB__START_TRACING_RESPONSE__INIT;
    ipc_peer_reply(consumer->peer, &call->ticket, &response.base, false);
    if (!id || consumer->started || consumer->ended ||
        service_start(consumer->port->service, id, &err) == 0)
        return;
    consumer_log(consumer, "%s: %s", consumer->as_client.name, err.text);
    let_go(consumer);
    service_destroy(consumer->port->service, id);
    settle_enabling(consumer, full_text(&err, text, sizeof(text)));
}

// Replies with an empty message of the method's type, or fails the call.
static void reply_result(struct consumer *consumer, const struct ipc_call *call, int r,
                         const struct err *err)
{
    const struct ipc_method *method = ipc_service_method(&ipc_consumer_service, call->method);
    if (r < 0) {
        consumer_log(consumer, "%s: %s: %s", consumer->as_client.name, method->name, err->text);
        ipc_peer_reply(consumer->peer, &call->ticket, NULL, false);
        return;
    }
    ipc_peer_reply_bytes(consumer->peer, &call->ticket, NULL, 0, false);
}

static int need_session(const struct consumer *consumer, struct err *err)
{
    return consumer->session_id ? 0 : err_set(err, -ESRCH, "there is no session");
}

static void disable_tracing(struct consumer *consumer, const struct ipc_call *call)
{
    struct err err = {0};
    reply_result(consumer, call, 0, NULL);
    if (consumer->session_id &&
        service_disable(consumer->port->service, consumer->session_id, &err) < 0)
        consumer_log(consumer, "%s: %s", consumer->as_client.name, err.text);
}

static void change_config(struct consumer *consumer, const struct ipc_call *call)
{
    const Pb__ChangeTraceConfigRequest *request = (const void *)call->request;
    struct err err = {0};
    int r = need_session(consumer, &err);
    if (r == 0 && !request->trace_config)
        r = err_set(&err, -EINVAL, "the request has no trace_config");
    if (r == 0)
        r = service_may_ask(consumer->port->service, &consumer->as_client, &err);
    if (r == 0)
        r = service_check_size(request->trace_config, &consumer->as_client, &err);
    if (r == 0)
        r = service_change_config(consumer->port->service, consumer->session_id,
                                  request->trace_config, &err);
    reply_result(consumer, call, r, &err);
}

static void flush(struct consumer *consumer, const struct ipc_call *call)
{
    struct err err = {0};
    int r = need_session(consumer, &err);
    if (r == 0)
        r = service_flush(consumer->port->service, consumer->session_id, &err);
    reply_result(consumer, call, r, &err);
}

static void free_buffers(struct consumer *consumer, const struct ipc_call *call)
{
    uint64_t id = consumer->session_id;
    if (id) {
        let_go(consumer);
        service_destroy(consumer->port->service, id);
        settle_enabling(consumer, NULL);
    }
    reply_result(consumer, call, 0, NULL);
}

static void detach(struct consumer *consumer, const struct ipc_call *call)
{
    const Pb__DetachRequest *request = (const void *)call->request;
    struct err err = {0};
    int r = need_session(consumer, &err);
    if (r == 0)
        r = service_detach(consumer->port->service, consumer->session_id,
                           request->key ? request->key : "", &err);
    if (r == 0)
        let_go(consumer);
    reply_result(consumer, call, r, &err);
}

static void attach(struct consumer *consumer, const struct ipc_call *call)
{
    const Pb__AttachRequest *request = (const void *)call->request;
    struct service *service = consumer->port->service;
    struct err err = {0};
    int r = consumer->session_id
                ? err_set(&err, -EBUSY, "this connection has a session already")
                : service_attach(service, &consumer->as_client, request->key ? request->key : "",
                                 &consumer->session_id, &err);
    const Pb__TraceConfig *config =
        r == 0 ? service_session_config(service, consumer->session_id) : NULL;
    if (!config) {
        reply_result(consumer, call, r < 0 ? r : -ESRCH, &err);
        return;
    }
    enum session_state state = service_session_state(service, consumer->session_id);
    consumer->started = !(state & (SESSION_CONFIGURED | SESSION_ARMED));
    consumer->ended = state == SESSION_DONE;
    Pb__AttachResponse response = PB__ATTACH_RESPONSE__INIT;
    response.trace_config = (Pb__TraceConfig *)(uintptr_t)config;
    ipc_peer_reply(consumer->peer, &call->ticket, &response.base, false);
}

static void get_stats(struct consumer *consumer, const struct ipc_call *call)
{
    Pb__GetTraceStatsResponse response = PB__GET_TRACE_STATS_RESPONSE__INIT;
    if (consumer->session_id)
        response.trace_stats = service_get_stats(consumer->port->service, consumer->session_id);
    if (response.trace_stats)
        response.details = service_get_details(consumer->port->service, consumer->session_id);
    ipc_peer_reply(consumer->peer, &call->ticket, response.trace_stats ? &response.base : NULL,
                   false);
    if (response.trace_stats)
        pb__trace_stats__free_unpacked(response.trace_stats, NULL);
    if (response.details)
        protobuf_c_message_free_unpacked(&response.details->base, NULL);
}

static int clone(struct consumer *consumer, const Pb__CloneSessionRequest *request, int *output_fd,
                 struct service_clone_result *ret, struct err *err)
{
    struct service_clone_request what = {
        .for_bugreport = request->for_bugreport,
        .output_fd = output_fd,
    };
    struct service_trigger_hit hit;
    if (consumer->session_id)
        return err_set(err, -EBUSY, "this connection has a session already");
    if (request->selector_case == PB__CLONE_SESSION_REQUEST__SELECTOR_SESSION_ID)
        what.session_id = request->session_id;
    else if (request->selector_case == PB__CLONE_SESSION_REQUEST__SELECTOR_UNIQUE_SESSION_NAME)
        what.unique_session_name = request->unique_session_name;
    if (what.session_id == BUGREPORT_SESSION_ID) {
        what.session_id = 0;
        what.for_bugreport = true;
    } else if (!what.session_id && !(what.unique_session_name && *what.unique_session_name)) {
        return err_set(err, -EINVAL, "the request names no session");
    }
    if (request->clone_trigger_name && *request->clone_trigger_name) {
        const char *producer = request->clone_trigger_producer_name;
        hit = (struct service_trigger_hit){
            .name = request->clone_trigger_name,
            .producer_name = producer ? producer : "",
            .producer_uid = (uid_t)request->clone_trigger_trusted_producer_uid,
            .time = (nsec_t)request->clone_trigger_boot_time_ns,
            .stop_delay_ms = (uint32_t)request->clone_trigger_delay_ms,
        };
        what.trigger = &hit;
    }
    return service_clone(consumer->port->service, &consumer->as_client, &what, ret, err);
}

// The copy is read through ReadBuffers. If the session writes into a file, the copy goes into the
// file that came with the request, and the answer follows when the file is complete.
static void clone_session(struct consumer *consumer, const struct ipc_call *call)
{
    struct err err = {0};
    char text[ERR_TEXT_MAX + ERR_HINT_MAX + 4];
    struct service_clone_result result = {0};
    struct ipc_ticket ticket = call->ticket;
    int fd CLEANUP(close_fdp) = ipc_peer_take_fd(consumer->peer);
    int r = fd >= 0 ? check_output(fd, &err) : 0;
    if (r == 0)
        r = clone(consumer, (const void *)call->request, &fd, &result, &err);
    if (r < 0) {
        settle_cloning(consumer, &ticket, false, full_text(&err, text, sizeof(text)));
        return;
    }
    consumer->session_id = result.session_id;
    consumer->started = true;
    consumer->ended = !result.into_file;
    consumer->clone_uuid_msb = result.uuid_msb;
    consumer->clone_uuid_lsb = result.uuid_lsb;
    if (result.into_file)
        consumer->cloning = ticket;
    else
        settle_cloning(consumer, &ticket, false, NULL);
}

static void drained(void *state)
{
    consumer_read_on(state);
}

static void invoke(void *state, const struct ipc_call *call)
{
    static void (*const methods[IPC_CONSUMER_END])(struct consumer *, const struct ipc_call *) = {
        [IPC_CONSUMER_ENABLE_TRACING] = enable_tracing,
        [IPC_CONSUMER_DISABLE_TRACING] = disable_tracing,
        [IPC_CONSUMER_READ_BUFFERS] = consumer_read,
        [IPC_CONSUMER_FREE_BUFFERS] = free_buffers,
        [IPC_CONSUMER_FLUSH] = flush,
        [IPC_CONSUMER_START_TRACING] = start_tracing,
        [IPC_CONSUMER_CHANGE_TRACE_CONFIG] = change_config,
        [IPC_CONSUMER_DETACH] = detach,
        [IPC_CONSUMER_ATTACH] = attach,
        [IPC_CONSUMER_GET_TRACE_STATS] = get_stats,
        [IPC_CONSUMER_OBSERVE_EVENTS] = consumer_observe,
        [IPC_CONSUMER_QUERY_SERVICE_STATE] = consumer_query_state,
        [IPC_CONSUMER_QUERY_CAPABILITIES] = consumer_query_capabilities,
        [IPC_CONSUMER_SAVE_TRACE_FOR_BUGREPORT] = consumer_save_trace,
        [IPC_CONSUMER_CLONE_SESSION] = clone_session,
    };
    methods[call->method](state, call); // the server has checked the number
}

static int opened(void *userdata, struct ipc_peer *peer, void **ret_state)
{
    struct consumer *consumer = calloc(1, sizeof(*consumer));
    if (!consumer)
        return -ENOMEM;
    const struct ipc_credentials *credentials = ipc_peer_credentials(peer);
    consumer->port = userdata;
    consumer->peer = peer;
    consumer->as_client = (struct service_consumer){
        .uid = credentials->uid,
        .payer = credentials->payer,
        .pid = credentials->pid,
        .name = ipc_peer_name(peer),
        .requester = credentials->requester,
        .notify = on_event,
        .userdata = consumer,
    };
    *ret_state = consumer;
    return 0;
}

static void closed(void *state)
{
    struct consumer *consumer = state;
    consumer->session_id = 0;
    consumer_save_free(consumer->save);
    service_consumer_gone(consumer->port->service, &consumer->as_client);
    free(consumer->packet);
    free(consumer);
}

void consumer_port_init(struct consumer_port *port, struct service *service,
                        const struct config_check_env *check, const struct log *log)
{
    *port = (struct consumer_port){
        .port = {.service = &ipc_consumer_service,
                 .takes_fds = true,
                 .opened = opened,
                 .invoke = invoke,
                 .drained = drained,
                 .closed = closed,
                 .userdata = port},
        .service = service,
        .check = check,
        .log = log,
    };
}
