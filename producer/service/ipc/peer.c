// SPDX-License-Identifier: Apache-2.0
//
// A peer gets a fixed share of each round of the loop: one receive, FRAMES_PER_ROUND calls, one
// send. The rest waits for the next round, after all other peers.
//
// A user other than root and this process's user has a limited number of frames per minute, and a
// limited time of the loop for them, over all the user's peers. Further frames wait in the sockets
// and cost no processor time. All these users together have a limited time of each round, so that a
// request of root waits for a short round, however many peers there are and however little of the
// processor this process gets.
//
// Back pressure goes through the outbox. Above OUTBOX_ROOM bytes, streams pause and no more
// requests are taken in, so that a peer that does not read delays only itself. Only unrequested
// messages of the service can exceed this limit, up to OUTBOX_MAX. Beyond OUTBOX_MAX, or if the
// peer takes nothing for `write_timeout`, the peer is disconnected.
//
// A peer is freed only at the end of its own callback, because any call of the service may send a
// reply, and a reply that cannot be sent ends the connection.
//
// Timeouts use CLOCK_MONOTONIC, so that a suspend makes no peer late.
#include "producer/service/ipc/peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/service/ipc/decode.h"

#define FRAMES_PER_ROUND 32
#define FRAMES_TIME      (10 * NSEC_PER_MSEC) // after which other peers have their turn
#define SMALL            8192                 // smaller sizes are not counted
#define TOO_MUCH                                                                                   \
    "has, with others of its user, more than 8 MiB of unfinished requests and unread answers"
#define OUTBOX_ROOM ((size_t)128 << 10)
#define OUTBOX_MAX  ((size_t)1 << 20)

#define THE_SERVICE_ID 1 // the only service behind a socket

static void run_timer(struct ipc_peer *peer)
{
    loop_set_timer(peer->timer, 0, 0);
}

void ipc_peer_hang_up(struct ipc_peer *peer)
{
    peer->closing = true;
    if (!peer->in_callback)
        run_timer(peer);
}

static void break_off(struct ipc_peer *peer, const char *why)
{
    if (!peer->closing)
        ipc_server_complain(peer->server, peer, "%s", why);
    ipc_peer_hang_up(peer);
}

static void send_some(struct ipc_peer *peer)
{
    while (ipc_outbox_size(&peer->outbox)) {
        int64_t sent = ipc_outbox_send(&peer->outbox, peer->fd, -1);
        if (sent == -EAGAIN) {
            if (peer->stalled == NSEC_MAX)
                peer->stalled = nsec_now(CLOCK_MONOTONIC);
            return;
        }
        if (sent < 0) {
            ipc_peer_hang_up(peer);
            return;
        }
        peer->stalled = nsec_now(CLOCK_MONOTONIC);
    }
    peer->stalled = NSEC_MAX;
    if (peer->last_words)
        ipc_peer_hang_up(peer);
}

static nsec_t earlier(nsec_t deadline, nsec_t since, nsec_t timeout)
{
    if (since == NSEC_MAX || timeout >= NSEC_MAX - since)
        return deadline;
    return since + timeout < deadline ? since + timeout : deadline;
}

static nsec_t deadline_of(const struct ipc_peer *peer)
{
    const struct ipc_server_limits *limits = &ipc_server_get_env(peer->server)->limits;
    nsec_t deadline = NSEC_MAX;
    // While this side makes the peer wait, the peer cannot be late.
    if (peer->events & EPOLLIN && !peer->frames_left) {
        deadline = earlier(deadline, peer->connected, limits->first_frame_timeout);
        deadline = earlier(deadline, peer->incomplete, limits->frame_timeout);
    }
    return earlier(deadline, peer->stalled, limits->write_timeout);
}

// Sets the events and the time of the peer's next callback.
static void settle_waits(struct ipc_peer *peer)
{
    uint32_t events = ipc_outbox_size(&peer->outbox) ? EPOLLOUT : 0;
    bool has_room = ipc_outbox_size(&peer->outbox) < OUTBOX_ROOM;
    if (has_room && !peer->frames_left && !peer->last_words)
        events |= EPOLLIN;
    if (events != peer->events && loop_set_io(peer->io, events) == 0)
        peer->events = events;
    if (has_room && (peer->frames_left || peer->wants_room)) {
        loop_set_timer(peer->timer, peer->wants_room ? 0 : peer->rests, 0);
        peer->rests = 0;
        return;
    }
    nsec_t deadline = deadline_of(peer);
    if (deadline == NSEC_MAX) {
        loop_set_timer(peer->timer, NSEC_MAX, 0);
        return;
    }
    nsec_t left = deadline - nsec_now(CLOCK_MONOTONIC);
    loop_set_timer(peer->timer, nsec_now(CLOCK_BOOTTIME) + (left > 0 ? left : 0), 0);
}

static int add_frame(struct ipc_peer *peer, const Pb__IPCFrame *frame)
{
    if (peer->closing || peer->last_words)
        return 0;
    if (ipc_outbox_size(&peer->outbox) > OUTBOX_MAX) {
        break_off(peer, "does not read its messages");
        return 0;
    }
    if (peer->outbox.capacity > SMALL && ipc_server_holds_too_much(peer->server, peer)) {
        break_off(peer, TOO_MUCH);
        return 0;
    }
    int r = ipc_outbox_add(&peer->outbox, frame);
    if (r == -ENOMEM) {
        ipc_peer_hang_up(peer);
        return 0;
    }
    if (r == 0 && !peer->in_callback) {
        send_some(peer);
        if (!peer->closing)
            settle_waits(peer);
    }
    return r;
}

static int send_reply(struct ipc_peer *peer, uint64_t request_id, bool success, const void *bytes,
                      size_t size, bool has_more)
{
    Pb__IPCFrame__InvokeMethodReply reply = PB__IPCFRAME__INVOKE_METHOD_REPLY__INIT;
    reply.has_success = true;
    reply.success = success;
    reply.has_has_more = true;
    reply.has_more = has_more;
    reply.has_reply_proto = success;
    reply.reply_proto = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
    Pb__IPCFrame frame = ipc_frame(request_id, PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY);
    frame.msg_invoke_method_reply = &reply;
    return add_frame(peer, &frame);
}

void ipc_peer_reply_bytes(struct ipc_peer *peer, const struct ipc_ticket *ticket, const void *bytes,
                          size_t size, bool has_more)
{
    if (ticket->wanted && send_reply(peer, ticket->request_id, true, bytes, size, has_more) < 0)
        send_reply(peer, ticket->request_id, false, NULL, 0, false);
}

void ipc_peer_reply(struct ipc_peer *peer, const struct ipc_ticket *ticket,
                    const ProtobufCMessage *reply, bool has_more)
{
    if (!ticket->wanted)
        return;
    size_t size = reply ? protobuf_c_message_get_packed_size(reply) : 0;
    CLEANUP(freep) uint8_t *bytes = NULL;
    if (reply && size < IPC_FRAME_MAX)
        bytes = malloc(size + 1);
    if (!bytes) {
        send_reply(peer, ticket->request_id, false, NULL, 0, false);
        return;
    }
    protobuf_c_message_pack(reply, bytes);
    ipc_peer_reply_bytes(peer, ticket, bytes, size, has_more);
}

static void send_error(struct ipc_peer *peer, uint64_t request_id, const char *text)
{
    Pb__IPCFrame__RequestError error = PB__IPCFRAME__REQUEST_ERROR__INIT;
    error.error = (char *)(uintptr_t)text;
    Pb__IPCFrame frame = ipc_frame(request_id, PB__IPCFRAME__MSG_MSG_REQUEST_ERROR);
    frame.msg_request_error = &error;
    add_frame(peer, &frame);
}

// Sends an error and disconnects, because the following bytes cannot be trusted.
static void refuse(struct ipc_peer *peer, const char *text)
{
    ipc_server_complain(peer->server, peer, "%s", text);
    send_error(peer, 0, text);
    peer->last_words = true;
    peer->frames_left = false;
    ipc_inbox_done(&peer->inbox);
}

static void bind_service(struct ipc_peer *peer, uint64_t request_id,
                         const Pb__IPCFrame__BindService *request)
{
    const struct ipc_service *service = peer->port->service;
    Pb__IPCFrame__BindServiceReply reply = PB__IPCFRAME__BIND_SERVICE_REPLY__INIT;
    Pb__IPCFrame__BindServiceReply__MethodInfo methods[32], *pointers[32];
    reply.has_success = true;
    reply.success = request->service_name && str_eq(request->service_name, service->name);
    if (reply.success) {
        reply.has_service_id = true;
        reply.service_id = THE_SERVICE_ID;
        reply.methods = pointers;
        for (; reply.n_methods < service->n_methods && reply.n_methods < 32; reply.n_methods++) {
            size_t i = reply.n_methods;
            pb__ipcframe__bind_service_reply__method_info__init(&methods[i]);
            methods[i].has_id = true;
            methods[i].id = (uint32_t)i + 1;
            methods[i].name = (char *)(uintptr_t)service->methods[i].name;
            pointers[i] = &methods[i];
        }
    }
    Pb__IPCFrame frame = ipc_frame(request_id, PB__IPCFRAME__MSG_MSG_BIND_SERVICE_REPLY);
    frame.msg_bind_service_reply = &reply;
    add_frame(peer, &frame);
}

static void invoke_method(struct ipc_peer *peer, uint64_t request_id,
                          const Pb__IPCFrame__InvokeMethod *invoke)
{
    const struct ipc_method *method =
        invoke->has_service_id && invoke->service_id == THE_SERVICE_ID
            ? ipc_service_method(peer->port->service, invoke->method_id)
            : NULL;
    ProtobufCMessage *request = NULL;
    if (method)
        request =
            ipc_message_decode(method->request, invoke->args_proto.data, invoke->args_proto.len);
    // Perfetto's service also sends this reply if no reply was requested.
    if (!request) {
        send_reply(peer, request_id, false, NULL, 0, false);
        return;
    }
    struct ipc_call call = {
        .ticket = {.request_id = request_id, .wanted = !invoke->drop_reply},
        .method = invoke->method_id,
        .request = request,
    };
    peer->port->invoke(peer->state, &call);
    protobuf_c_message_free_unpacked(request, NULL);
}

static void handle_frame(struct ipc_peer *peer, const uint8_t *bytes, size_t size)
{
    Pb__IPCFrame *frame = pb__ipcframe__unpack(NULL, size, bytes);
    if (!frame) {
        refuse(peer, "sent bytes that are not an IPCFrame");
        return;
    }
    peer->connected = NSEC_MAX;
    uint64_t id = frame->request_id;
    if (frame->msg_case == PB__IPCFRAME__MSG_MSG_BIND_SERVICE && frame->msg_bind_service)
        bind_service(peer, id, frame->msg_bind_service);
    else if (frame->msg_case == PB__IPCFRAME__MSG_MSG_INVOKE_METHOD && frame->msg_invoke_method)
        invoke_method(peer, id, frame->msg_invoke_method);
    else if (frame->msg_case != PB__IPCFRAME__MSG_SET_PEER_IDENTITY) // the peer's identity comes
                                                                     // from the kernel
        send_error(peer, id, "unknown request");
    pb__ipcframe__free_unpacked(frame, NULL);
}

static void handle_frames(struct ipc_peer *peer)
{
    const uint8_t *bytes;
    size_t size, n = 0;
    int r = 1;
    bool has_waited = peer->frames_left;
    nsec_t end = nsec_now(CLOCK_MONOTONIC) + FRAMES_TIME;
    for (; n < FRAMES_PER_ROUND && ipc_outbox_size(&peer->outbox) < OUTBOX_ROOM; n++) {
        if (n > 0 && nsec_now(CLOCK_MONOTONIC) >= end)
            break;
        if (peer->closing || peer->last_words)
            return;
        nsec_t wait = ipc_server_frame_wait(peer->server, peer);
        peer->rests = nsec_now(CLOCK_BOOTTIME) + wait;
        if (wait > 0)
            break;
        r = ipc_inbox_next(&peer->inbox, &bytes, &size);
        if (r <= 0)
            break;
        nsec_t began = ipc_server_begin_frame(peer);
        handle_frame(peer, bytes, size);
        ipc_server_end_frame(peer->server, peer, began);
    }
    if (r < 0)
        refuse(peer, "announced a frame that is too long");
    if (peer->closing || peer->last_words)
        return;
    peer->frames_left = r > 0;
    if (peer->frames_left)
        return;
    if (!ipc_inbox_pending(&peer->inbox)) {
        peer->passed_fd = close_fd(peer->passed_fd);
        peer->incomplete = NSEC_MAX;
    } else if (n > 0 || has_waited || peer->incomplete == NSEC_MAX) {
        peer->incomplete = nsec_now(CLOCK_MONOTONIC);
    }
    if (has_waited && peer->connected != NSEC_MAX)
        peer->connected = nsec_now(CLOCK_MONOTONIC);
}

static void receive(struct ipc_peer *peer)
{
    uint8_t *bytes;
    size_t size;
    int r = ipc_inbox_room(&peer->inbox, &bytes, &size);
    if (r < 0) {
        ipc_peer_hang_up(peer);
        return;
    }
    if (peer->inbox.capacity > SMALL && ipc_server_holds_too_much(peer->server, peer)) {
        break_off(peer, TOO_MUCH);
        return;
    }
    int passed_fd = -1;
    int64_t received =
        ipc_socket_receive(peer->fd, bytes, size, peer->port->takes_fds ? &passed_fd : NULL);
    if (passed_fd >= 0) {
        close_fd(peer->passed_fd);
        peer->passed_fd = passed_fd;
    }
    ipc_inbox_received(&peer->inbox, received > 0 ? (size_t)received : 0);
    if (received == 0 || (received < 0 && received != -EAGAIN))
        ipc_peer_hang_up(peer);
}

static void finish_callback(struct ipc_peer *peer)
{
    if (!peer->closing)
        send_some(peer);
    peer->in_callback = false;
    if (peer->closing)
        ipc_peer_free(peer);
    else
        settle_waits(peer);
}

static void go_on(struct ipc_peer *peer)
{
    if (!peer->closing)
        handle_frames(peer);
    if (!peer->closing && peer->wants_room && ipc_outbox_size(&peer->outbox) < OUTBOX_ROOM) {
        peer->wants_room = false;
        if (peer->port->drained)
            peer->port->drained(peer->state);
    }
}

static void on_ready(void *userdata)
{
    struct ipc_peer *peer = userdata;
    uint32_t events = loop_get_call(ipc_server_get_env(peer->server)->loop)->events;
    peer->in_callback = true;
    if (events & EPOLLOUT)
        send_some(peer);
    if (!peer->closing && events & EPOLLIN)
        receive(peer);
    else if (events & (EPOLLHUP | EPOLLERR))
        ipc_peer_hang_up(peer);
    go_on(peer);
    finish_callback(peer);
}

static bool is_late(const struct ipc_peer *peer)
{
    return !peer->closing && deadline_of(peer) <= nsec_now(CLOCK_MONOTONIC);
}

static void on_timer(void *userdata)
{
    struct ipc_peer *peer = userdata;
    peer->in_callback = true;
    // After a long round of the loop, the bytes may be there, and their event comes later.
    if (is_late(peer)) {
        send_some(peer);
        if (!peer->closing && peer->events & EPOLLIN)
            receive(peer);
    }
    go_on(peer);
    if (is_late(peer))
        break_off(peer, peer->connected != NSEC_MAX ? "said nothing"
                        : peer->stalled != NSEC_MAX ? "does not read its messages"
                                                    : "did not finish its frame");
    finish_callback(peer);
}

static void name_peer(struct ipc_peer *peer)
{
    char path[64], text[32] = "", printable[32];
    snprintf(path, sizeof(path), "/proc/%d/comm", peer->credentials.pid);
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    while (size > 0 && text[size - 1] == '\n')
        size--;
    str_printable(printable, sizeof(printable), text, size > 0 ? (size_t)size : 0);
    snprintf(peer->name, sizeof(peer->name), "%s[%d]", printable, peer->credentials.pid);
}

int ipc_peer_new(struct ipc_server *server, const struct ipc_port *port, int fd,
                 const struct ipc_credentials *credentials, struct ipc_peer **ret)
{
    struct ipc_peer *peer = calloc(1, sizeof(*peer));
    if (!peer) {
        close_fd(fd);
        return -ENOMEM;
    }
    struct loop *loop = ipc_server_get_env(server)->loop;
    *peer = (struct ipc_peer){
        .server = server,
        .port = port,
        .fd = fd,
        .passed_fd = -1,
        .events = EPOLLIN,
        .credentials = *credentials,
        .connected = nsec_now(CLOCK_MONOTONIC),
        .incomplete = NSEC_MAX,
        .stalled = NSEC_MAX,
    };
    name_peer(peer);
    int r = loop_add_io(loop, fd, EPOLLIN, on_ready, peer, &peer->io);
    if (r == 0)
        r = loop_add_timer(loop, NSEC_MAX, 0, on_timer, peer, &peer->timer);
    peer->in_callback = true; // nothing is sent before the peer is complete
    if (r == 0)
        r = port->opened(port->userdata, peer, &peer->state);
    if (r < 0) {
        peer->port = NULL;
        peer->server = NULL;
        ipc_peer_free(peer);
        return r;
    }
    peer->in_callback = false;
    if (peer->closing)
        run_timer(peer);
    else
        settle_waits(peer);
    *ret = peer;
    return 0;
}

struct ipc_peer *ipc_peer_free(struct ipc_peer *peer)
{
    if (!peer)
        return NULL;
    peer->closing = true;
    peer->in_callback = true; // closed() may still try to reply
    if (peer->port)
        peer->port->closed(peer->state);
    if (peer->server)
        ipc_server_peer_gone(peer->server, peer);
    loop_remove_io(peer->io);
    loop_remove_timer(peer->timer);
    close_fd(peer->passed_fd);
    close_fd(peer->fd);
    ipc_inbox_done(&peer->inbox);
    ipc_outbox_done(&peer->outbox);
    free(peer);
    return NULL;
}

const struct ipc_credentials *ipc_peer_credentials(const struct ipc_peer *peer)
{
    return &peer->credentials;
}

const char *ipc_peer_name(const struct ipc_peer *peer)
{
    return peer->name;
}

int ipc_peer_take_fd(struct ipc_peer *peer)
{
    return steal_fd(&peer->passed_fd);
}

bool ipc_peer_has_room(struct ipc_peer *peer)
{
    bool has_room = !peer->closing && ipc_outbox_size(&peer->outbox) < OUTBOX_ROOM;
    peer->wants_room |= !has_room;
    return has_room;
}
