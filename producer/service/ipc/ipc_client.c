// SPDX-License-Identifier: Apache-2.0
//
// The client trusts the service more than a server trusts a peer, but not blindly: the service's
// frames have the same limits as ours, and replies to unknown requests are dropped. Replies that
// arrive during a wait for another reply are kept in order. Observed streams send few replies; the
// limit protects against a faulty service.
//
// Method ids come from the service, by the names in its answer to BindService: an older or newer
// service may have different ids.
#include "producer/service/ipc/ipc_client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/service/ipc/decode.h"
#include "producer/service/ipc/frame.h"
#include "producer/service/ipc/socket.h"

#define METHODS_MAX  32
#define REPLIES_MAX  4096
#define PACKET_MAX   ((size_t)64 << 20)
#define SEND_TIMEOUT (10 * NSEC_PER_SEC)

struct request {
    uint64_t id;
    uint32_t method;
};

VEC_DEFINE(requests, struct request);
VEC_DEFINE(replies, struct ipc_reply);

struct ipc_client {
    const struct ipc_service *service; // borrowed
    char *name;                        // owned, of the socket
    int fd;                            // owned
    uint32_t service_id;
    uint32_t method_ids[METHODS_MAX]; // the service's ids, by ours; 0: the service does not have
                                      // the method
    uint64_t last_request_id;
    struct ipc_inbox inbox;
    struct requests requests; // requests that expect replies
    struct replies replies;   // received, oldest first; messages owned
};

DEFINE_CLEANUP(client_freep, struct ipc_client, ipc_client_free);

struct ipc_client *ipc_client_free(struct ipc_client *client)
{
    if (!client)
        return NULL;
    int saved = errno;
    vec_foreach(&client->replies, reply)
        ipc_reply_done(reply);
    replies_done(&client->replies);
    requests_done(&client->requests);
    ipc_inbox_done(&client->inbox);
    close_fd(client->fd);
    free(client->name);
    free(client);
    errno = saved;
    return NULL;
}

void ipc_reply_done(struct ipc_reply *reply)
{
    if (reply->message)
        protobuf_c_message_free_unpacked(reply->message, NULL);
    *reply = (struct ipc_reply){0};
}

static nsec_t deadline_after(nsec_t timeout)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    return timeout >= NSEC_MAX - now ? NSEC_MAX : now + timeout;
}

static int lost(const struct ipc_client *client, int r, struct err *err)
{
    if (r == -ETIMEDOUT)
        return err_set(err, r, "service at '%s': no answer in time", client->name);
    if (r == -EINTR)
        return err_set(err, r, "interrupted");
    if (r == -EPIPE)
        r = -ECONNRESET;
    return err_errno(err, r, "service at '%s'", client->name);
}

static int send_frame(struct ipc_client *client, const Pb__IPCFrame *frame, int fd, struct err *err)
{
    struct ipc_outbox outbox = {0};
    int r = ipc_outbox_add(&outbox, frame);
    if (r == -EMSGSIZE)
        return err_set(err, r, "the request is larger than %zu KiB", IPC_FRAME_MAX >> 10);
    nsec_t deadline = deadline_after(SEND_TIMEOUT);
    while (r == 0 && ipc_outbox_size(&outbox)) {
        int64_t sent = ipc_outbox_send(&outbox, client->fd, fd);
        if (sent > 0)
            fd = -1; // the descriptor went with the first byte
        else if (sent == -EAGAIN)
            r = ipc_socket_wait(client->fd, POLLOUT, deadline);
        else
            r = (int)sent;
        if (r == -EINTR)
            r = 0;
    }
    ipc_outbox_done(&outbox);
    return r < 0 ? lost(client, r, err) : 0;
}

static int receive_some(struct ipc_client *client, nsec_t deadline)
{
    uint8_t *bytes;
    size_t size;
    int r = ipc_inbox_room(&client->inbox, &bytes, &size);
    if (r < 0)
        return r;
    int passed_fd = -1;
    int64_t received = ipc_socket_receive(client->fd, bytes, size, &passed_fd);
    close_fd(passed_fd);
    ipc_inbox_received(&client->inbox, received > 0 ? (size_t)received : 0);
    if (received > 0)
        return 0;
    if (received == 0)
        return -ECONNRESET;
    if (received != -EAGAIN)
        return (int)received;
    return ipc_socket_wait(client->fd, POLLIN, deadline);
}

// Waits for one frame. The caller frees *ret.
static int receive_frame(struct ipc_client *client, nsec_t deadline, Pb__IPCFrame **ret)
{
    for (;;) {
        const uint8_t *bytes;
        size_t size;
        int r = ipc_inbox_next(&client->inbox, &bytes, &size);
        if (r > 0) {
            Pb__IPCFrame *frame = pb__ipcframe__unpack(NULL, size, bytes);
            if (frame)
                *ret = frame;
            return frame ? 0 : -EBADMSG;
        }
        if (r == 0)
            r = receive_some(client, deadline);
        if (r < 0)
            return r;
    }
}

static void learn_methods(struct ipc_client *client, const Pb__IPCFrame__BindServiceReply *reply)
{
    client->service_id = reply->service_id;
    for (size_t i = 0; i < reply->n_methods; i++) {
        const Pb__IPCFrame__BindServiceReply__MethodInfo *method = reply->methods[i];
        uint32_t id = method->name ? ipc_service_find(client->service, method->name) : 0;
        if (id && id < METHODS_MAX)
            client->method_ids[id] = method->id;
    }
}

static int bind_service(struct ipc_client *client, nsec_t deadline, struct err *err)
{
    Pb__IPCFrame__BindService bind = PB__IPCFRAME__BIND_SERVICE__INIT;
    bind.service_name = (char *)(uintptr_t)client->service->name;
    Pb__IPCFrame frame = ipc_frame(++client->last_request_id, PB__IPCFRAME__MSG_MSG_BIND_SERVICE);
    Pb__IPCFrame *reply = NULL;
    frame.msg_bind_service = &bind;
    int r = send_frame(client, &frame, -1, err);
    if (r < 0)
        return r;
    do {
        r = receive_frame(client, deadline, &reply);
    } while (r == -EINTR);
    if (r < 0)
        return lost(client, r, err);
    if (reply->msg_case == PB__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY &&
        reply->msg_bind_service_reply && reply->msg_bind_service_reply->success)
        learn_methods(client, reply->msg_bind_service_reply);
    else
        r = err_set(err, -EPROTO, "service at '%s' does not offer %s", client->name,
                    client->service->name);
    pb__ipcframe__free_unpacked(reply, NULL);
    return r;
}

int ipc_client_connect(const struct ipc_service *service, const char *name, nsec_t timeout,
                       struct ipc_client **ret, struct err *err)
{
    CLEANUP(client_freep) struct ipc_client *client = calloc(1, sizeof(*client));
    if (!client)
        return err_errno(err, -ENOMEM, "connection");
    client->service = service;
    client->fd = -1;
    client->name = strdup(name);
    if (!client->name)
        return err_errno(err, -ENOMEM, "connection");
    int r = ipc_socket_connect(name, timeout, &client->fd, err);
    if (r == 0)
        r = ipc_socket_check_owner(client->fd, name, err);
    if (r == 0)
        r = bind_service(client, deadline_after(timeout), err);
    if (r < 0)
        return r;
    *ret = STEAL(client);
    return 0;
}

int ipc_client_fd(const struct ipc_client *client)
{
    return client->fd;
}

bool ipc_client_has_method(const struct ipc_client *client, uint32_t method)
{
    return method < METHODS_MAX && client->method_ids[method];
}

int ipc_client_send(struct ipc_client *client, uint32_t method, const ProtobufCMessage *request,
                    int fd, uint64_t *ret_request_id, struct err *err)
{
    const struct ipc_method *known = ipc_service_method(client->service, method);
    if (!known || !ipc_client_has_method(client, method))
        return err_set(err, -EOPNOTSUPP, "service at '%s' does not know %s", client->name,
                       known ? known->name : "the method");
    size_t size = protobuf_c_message_get_packed_size(request);
    CLEANUP(freep) uint8_t *bytes = malloc(size + 1);
    struct request expected = {.id = client->last_request_id + 1, .method = method};
    if (!bytes || requests_push(&client->requests, expected) < 0)
        return err_errno(err, -ENOMEM, "%s", known->name);
    protobuf_c_message_pack(request, bytes);
    Pb__IPCFrame__InvokeMethod invoke = PB__IPCFRAME__INVOKE_METHOD__INIT;
    invoke.has_service_id = invoke.has_method_id = invoke.has_args_proto = true;
    invoke.service_id = client->service_id;
    invoke.method_id = client->method_ids[method];
    invoke.args_proto = (ProtobufCBinaryData){.len = size, .data = bytes};
    Pb__IPCFrame frame = ipc_frame(expected.id, PB__IPCFRAME__MSG_MSG_INVOKE_METHOD);
    frame.msg_invoke_method = &invoke;
    int r = send_frame(client, &frame, fd, err);
    if (r < 0) {
        client->requests.n--;
        return err_prefix(err, r, "%s", known->name);
    }
    client->last_request_id = expected.id;
    if (ret_request_id)
        *ret_request_id = expected.id;
    return 0;
}

static struct request *find_request(struct ipc_client *client, uint64_t id)
{
    vec_foreach(&client->requests, request) {
        if (request->id == id)
            return request;
    }
    return NULL;
}

// Makes a reply from a frame. Returns 1 with *ret; 0 if no request expects the reply; or a negative
// errno.
static int read_reply(struct ipc_client *client, const Pb__IPCFrame *frame, struct ipc_reply *ret)
{
    struct request *request = find_request(client, frame->request_id);
    if (!request)
        return frame->msg_case == PB__IPCFRAME__MSG_MSG_REQUEST_ERROR ? -EPROTO : 0;
    struct ipc_reply found = {.request_id = request->id, .method = request->method};
    if (frame->msg_case == PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY &&
        frame->msg_invoke_method_reply) {
        const Pb__IPCFrame__InvokeMethodReply *reply = frame->msg_invoke_method_reply;
        found.has_more = reply->has_more;
        if (reply->success) {
            const struct ipc_method *method = ipc_service_method(client->service, found.method);
            found.message =
                ipc_message_decode(method->reply, reply->reply_proto.data, reply->reply_proto.len);
            if (!found.message)
                return -EBADMSG;
        }
    }
    if (!found.has_more)
        *request = client->requests.items[--client->requests.n];
    *ret = found;
    return 1;
}

static bool take_kept(struct ipc_client *client, uint64_t request_id, struct ipc_reply *ret)
{
    for (size_t i = 0; i < client->replies.n; i++) {
        struct ipc_reply *kept = &client->replies.items[i];
        if (request_id && kept->request_id != request_id)
            continue;
        *ret = *kept;
        client->replies.n--;
        memmove(kept, kept + 1, (client->replies.n - i) * sizeof(*kept));
        return true;
    }
    return false;
}

static int receive_until(struct ipc_client *client, uint64_t request_id, nsec_t deadline,
                         struct ipc_reply *ret)
{
    while (!take_kept(client, request_id, ret)) {
        Pb__IPCFrame *frame = NULL;
        int r = receive_frame(client, deadline, &frame);
        if (r < 0)
            return r;
        struct ipc_reply reply;
        r = read_reply(client, frame, &reply);
        pb__ipcframe__free_unpacked(frame, NULL);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        if (client->replies.n >= REPLIES_MAX || replies_push(&client->replies, reply) < 0) {
            ipc_reply_done(&reply);
            return -ENOBUFS;
        }
    }
    return 0;
}

int ipc_client_receive(struct ipc_client *client, uint64_t request_id, nsec_t timeout,
                       struct ipc_reply *ret, struct err *err)
{
    int r = receive_until(client, request_id, deadline_after(timeout), ret);
    return r < 0 ? lost(client, r, err) : 0;
}

// Receives a reply without interruptions by signals.
static int await_reply(struct ipc_client *client, uint64_t request_id, nsec_t deadline,
                       struct ipc_reply *ret, struct err *err)
{
    int r;
    do
        r = receive_until(client, request_id, deadline, ret);
    while (r == -EINTR);
    return r < 0 ? lost(client, r, err) : 0;
}

int ipc_client_call(struct ipc_client *client, uint32_t method, const ProtobufCMessage *request,
                    int fd, nsec_t timeout, ProtobufCMessage **ret_reply, struct err *err)
{
    uint64_t id;
    struct ipc_reply reply = {0};
    int r = ipc_client_send(client, method, request, fd, &id, err);
    if (r < 0)
        return r;
    const char *name = ipc_service_method(client->service, method)->name;
    r = await_reply(client, id, deadline_after(timeout), &reply, err);
    if (r < 0)
        return err_prefix(err, r, "%s", name);
    if (!reply.message)
        return err_set(err, -EREMOTEIO, "%s: the service refused", name);
    if (ret_reply)
        *ret_reply = STEAL(reply.message);
    ipc_reply_done(&reply);
    return 0;
}

struct gluing {
    struct strbuf packet; // bytes of an incomplete packet
    int (*packet_done)(void *userdata, const void *bytes, size_t size);
    void *userdata;
};

static int glue_slices(struct gluing *gluing, const Pb__ReadBuffersResponse *response)
{
    for (size_t i = 0; i < response->n_slices; i++) {
        const Pb__ReadBuffersResponse__Slice *slice = response->slices[i];
        const void *bytes = slice->data.data;
        size_t size = slice->data.len;
        bool whole = slice->last_slice_for_packet && !gluing->packet.size;
        if (!whole) {
            if (size > PACKET_MAX - gluing->packet.size)
                return -EMSGSIZE;
            strbuf_add(&gluing->packet, bytes, size);
            if (gluing->packet.failed)
                return -ENOMEM;
            bytes = gluing->packet.text;
            size = gluing->packet.size;
        }
        if (!slice->last_slice_for_packet)
            continue;
        int r = gluing->packet_done(gluing->userdata, bytes, size);
        if (r < 0)
            return r;
        strbuf_clear(&gluing->packet);
    }
    return 0;
}

int ipc_client_read_buffers(struct ipc_client *client, nsec_t timeout,
                            int (*packet)(void *userdata, const void *bytes, size_t size),
                            void *userdata, struct err *err)
{
    struct gluing gluing = {.packet_done = packet, .userdata = userdata};
    Pb__ReadBuffersRequest request = PB__READ_BUFFERS_REQUEST__INIT;
    uint64_t id;
    int r = ipc_client_send(client, IPC_CONSUMER_READ_BUFFERS, &request.base, -1, &id, err);
    bool has_more = true;
    while (r == 0 && has_more) {
        struct ipc_reply reply = {0};
        r = await_reply(client, id, deadline_after(timeout), &reply, err);
        if (r < 0)
            break;
        has_more = reply.has_more;
        if (!reply.message)
            r = err_set(err, -EREMOTEIO, "ReadBuffers: the service refused");
        else if ((r = glue_slices(&gluing, (const void *)reply.message)) < 0)
            err_errno(err, r, "ReadBuffers");
        ipc_reply_done(&reply);
    }
    strbuf_done(&gluing.packet);
    return r;
}

// Appends a part of the message. The joined parts are the message.
static int append_state(struct strbuf *bytes, const struct ipc_reply *reply)
{
    const Pb__QueryServiceStateResponse *response = (const void *)reply->message;
    if (!response || !response->service_state)
        return response ? 0 : -EREMOTEIO;
    size_t size = pb__tracing_service_state__get_packed_size(response->service_state);
    CLEANUP(freep) uint8_t *part = malloc(size + 1);
    if (!part || size > PACKET_MAX - bytes->size)
        return -ENOMEM;
    pb__tracing_service_state__pack(response->service_state, part);
    strbuf_add(bytes, part, size);
    return bytes->failed ? -ENOMEM : 0;
}

int ipc_client_query_state(struct ipc_client *client, bool sessions_only, nsec_t timeout,
                           Pb__TracingServiceState **ret, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    Pb__QueryServiceStateRequest request = PB__QUERY_SERVICE_STATE_REQUEST__INIT;
    request.has_sessions_only = sessions_only;
    request.sessions_only = sessions_only;
    uint64_t id;
    int r = ipc_client_send(client, IPC_CONSUMER_QUERY_SERVICE_STATE, &request.base, -1, &id, err);
    if (r < 0)
        return r;
    nsec_t deadline = deadline_after(timeout);
    for (bool has_more = true; has_more;) {
        struct ipc_reply reply = {0};
        r = await_reply(client, id, deadline, &reply, err);
        if (r < 0)
            return r;
        has_more = reply.has_more;
        r = append_state(&bytes, &reply);
        ipc_reply_done(&reply);
        if (r < 0)
            return err_errno(err, r, "QueryServiceState");
    }
    Pb__TracingServiceState *state =
        pb__tracing_service_state__unpack(NULL, bytes.size, (const uint8_t *)bytes.text);
    if (!state)
        return err_set(err, -EBADMSG, "QueryServiceState: the answer makes no sense");
    *ret = state;
    return 0;
}
