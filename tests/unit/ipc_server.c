// SPDX-License-Identifier: Apache-2.0
//
// A server with a port that does next to nothing, and bad clients. The loop runs in a thread of its
// own where the blocking client library is the other side.
#include "producer/service/ipc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/str.h"
#include "producer/service/ipc/frame.h"
#include "producer/service/ipc/ipc_client.h"
#include "tests/unit/unit.h"

struct fixture {
    struct loop *loop;
    struct ipc_server *server;
    struct ipc_port port;
    size_t n_open, n_calls, n_fds;
    char text[512]; // the last complaint in the log
    nsec_t work;    // for a flush
    struct log log;
};

struct stream {
    struct fixture *fixture;
    struct ipc_peer *peer;
    struct ipc_ticket reading;
    uint32_t left; // replies to send
};

static int port_opened(void *userdata, struct ipc_peer *peer, void **ret_state)
{
    struct fixture *f = userdata;
    struct stream *stream = calloc(1, sizeof(*stream));
    *stream = (struct stream){.fixture = f, .peer = peer};
    *ret_state = stream;
    f->n_open++;
    return 0;
}

static void port_closed(void *state)
{
    struct stream *stream = state;
    stream->fixture->n_open--;
    free(stream);
}

static void pump(struct stream *stream)
{
    static uint8_t bytes[65536];
    Pb__ReadBuffersResponse__Slice slice = PB__READ_BUFFERS_RESPONSE__SLICE__INIT, *slices = &slice;
    Pb__ReadBuffersResponse response = PB__READ_BUFFERS_RESPONSE__INIT;
    slice.has_data = slice.has_last_slice_for_packet = slice.last_slice_for_packet = true;
    slice.data = (ProtobufCBinaryData){.len = sizeof(bytes), .data = bytes};
    response.n_slices = 1;
    response.slices = &slices;
    while (stream->left && ipc_peer_has_room(stream->peer)) {
        memset(bytes, (int)stream->left, sizeof(bytes));
        stream->left--;
        ipc_peer_reply(stream->peer, &stream->reading, &response.base, stream->left > 0);
    }
}

static void port_invoke(void *state, const struct ipc_call *call)
{
    struct stream *stream = state;
    struct fixture *f = stream->fixture;
    f->n_calls++;
    switch (call->method) {
    case IPC_CONSUMER_READ_BUFFERS:
        stream->reading = call->ticket;
        stream->left = 100;
        pump(stream);
        break;
    case IPC_CONSUMER_ENABLE_TRACING: {
        int fd = ipc_peer_take_fd(stream->peer);
        f->n_fds += fd >= 0;
        if (fd >= 0)
            close(fd);
        Pb__EnableTracingResponse response = PB__ENABLE_TRACING_RESPONSE__INIT;
        response.error = "all is well";
        ipc_peer_reply(stream->peer, &call->ticket, &response.base, false);
        break;
    }
    case IPC_CONSUMER_FREE_BUFFERS:
        ipc_peer_hang_up(stream->peer);
        break;
    case IPC_CONSUMER_FLUSH:
        for (nsec_t end = nsec_now(CLOCK_THREAD_CPUTIME_ID) + f->work;
             nsec_now(CLOCK_THREAD_CPUTIME_ID) < end;)
            ;
        ipc_peer_reply(stream->peer, &call->ticket, NULL, false);
        break;
    case IPC_CONSUMER_QUERY_SERVICE_STATE: {
        Pb__QueryServiceStateResponse response = PB__QUERY_SERVICE_STATE_RESPONSE__INIT;
        Pb__TracingServiceState part = PB__TRACING_SERVICE_STATE__INIT;
        response.service_state = &part;
        part.has_num_sessions = true;
        part.num_sessions = 3;
        ipc_peer_reply(stream->peer, &call->ticket, &response.base, true);
        part = (Pb__TracingServiceState)PB__TRACING_SERVICE_STATE__INIT;
        part.tracing_service_version = "unit";
        ipc_peer_reply(stream->peer, &call->ticket, &response.base, false);
        break;
    }
    default:
        ipc_peer_reply(stream->peer, &call->ticket, NULL, false);
    }
}

static void port_drained(void *state)
{
    pump(state);
}

static void keep_line(void *userdata, enum log_level level, const char *line)
{
    (void)level;
    struct fixture *f = userdata;
    snprintf(f->text, sizeof(f->text), "%s", line);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->log = (struct log){.max_level = LOG_LEVEL_DEBUG, .write = keep_line, .userdata = f};
    f->port = (struct ipc_port){
        .service = &ipc_consumer_service,
        .takes_fds = true,
        .opened = port_opened,
        .invoke = port_invoke,
        .drained = port_drained,
        .closed = port_closed,
        .userdata = f,
    };
    assert_int_equal(loop_new(&f->loop), 0);
    struct ipc_server_env env = {
        .loop = f->loop,
        .log = &f->log,
        .limits = {.max_peers = 40,
                   .first_frame_timeout = 500 * NSEC_PER_MSEC,
                   .frame_timeout = 500 * NSEC_PER_MSEC,
                   .write_timeout = NSEC_PER_SEC},
    };
    assert_int_equal(ipc_server_new(&env, &f->server), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    ipc_server_free(f->server);
    assert_int_equal(f->n_open, 0);
    loop_free(f->loop);
    free(f);
    return 0;
}

static const struct ipc_access for_all = {.everyone = true, .group = IPC_GROUP_NONE};

static int join(struct fixture *f)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(ipc_server_adopt(f->server, fds[1], &for_all, &f->port), 0);
    return fds[0];
}

// The last rounds handle the work that is there, even if the machine gave this process no processor
// for all of the time.
static void run_for(struct fixture *f, nsec_t time)
{
    nsec_t end = nsec_now(CLOCK_MONOTONIC) + time;
    for (nsec_t now; (now = nsec_now(CLOCK_MONOTONIC)) < end;)
        assert_int_equal(loop_run_once(f->loop, end - now), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(loop_run_once(f->loop, 0), 0);
}

// Runs until the server has hung up on `fd`; returns the bytes that came before.
static size_t run_until_hung_up(struct fixture *f, int fd, void *ret, size_t ret_size)
{
    size_t size = 0;
    nsec_t end = nsec_now(CLOCK_MONOTONIC) + 5 * NSEC_PER_SEC;
    while (nsec_now(CLOCK_MONOTONIC) < end) {
        loop_run_once(f->loop, 10 * NSEC_PER_MSEC);
        uint8_t bytes[4096];
        ssize_t n;
        while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
            if (ret && size + (size_t)n <= ret_size)
                memcpy((uint8_t *)ret + size, bytes, (size_t)n);
            size += (size_t)n;
        }
        if (n == 0 || errno != EAGAIN)
            return size;
    }
    fail_msg("the server did not hang up");
    return 0;
}

static size_t make_frame(uint8_t *ret, Pb__IPCFrame *frame)
{
    uint32_t size = (uint32_t)pb__ipcframe__pack(frame, ret + 4);
    memcpy(ret, &size, 4);
    return size + 4;
}

static size_t make_invoke(uint8_t *ret, uint64_t id, uint32_t service, uint32_t method,
                          bool drop_reply)
{
    Pb__IPCFrame__InvokeMethod invoke = PB__IPCFRAME__INVOKE_METHOD__INIT;
    invoke.has_service_id = invoke.has_method_id = invoke.has_drop_reply = true;
    invoke.service_id = service;
    invoke.method_id = method;
    invoke.drop_reply = drop_reply;
    Pb__IPCFrame frame = PB__IPCFRAME__INIT;
    frame.has_request_id = true;
    frame.request_id = id;
    frame.msg_case = PB__IPCFRAME__MSG_MSG_INVOKE_METHOD;
    frame.msg_invoke_method = &invoke;
    return make_frame(ret, &frame);
}

static Pb__IPCFrame *next_frame(struct fixture *f, int fd)
{
    uint8_t bytes[4096];
    run_for(f, 5 * NSEC_PER_MSEC);
    ssize_t n = recv(fd, bytes, 4, MSG_DONTWAIT);
    assert_int_equal(n, 4);
    uint32_t size;
    memcpy(&size, bytes, 4);
    assert_true(size <= sizeof(bytes));
    assert_int_equal(recv(fd, bytes, size, MSG_DONTWAIT), size);
    Pb__IPCFrame *frame = pb__ipcframe__unpack(NULL, size, bytes);
    assert_non_null(frame);
    return frame;
}

static void unknown_services_and_methods_get_an_error(void **state)
{
    struct fixture *f = *state;
    int fd = join(f);
    static const uint32_t ids[][2] = {{1, 0}, {1, 16}, {1, UINT32_MAX}, {0, 1}, {2, 1}};
    for (size_t i = 0; i < ELEMENTS(ids); i++) {
        uint8_t bytes[64];
        size_t size = make_invoke(bytes, 50 + i, ids[i][0], ids[i][1], false);
        assert_int_equal(send(fd, bytes, size, 0), size);
        Pb__IPCFrame *reply = next_frame(f, fd);
        assert_int_equal(reply->request_id, 50 + i);
        assert_int_equal(reply->msg_case, PB__IPCFRAME__MSG_MSG_INVOKE_METHOD_REPLY);
        assert_false(reply->msg_invoke_method_reply->success);
        pb__ipcframe__free_unpacked(reply, NULL);
    }
    // A frame without a message gets an error, too.
    assert_int_equal(send(fd, "\2\0\0\0\x10\x07", 6, 0), 6);
    Pb__IPCFrame *reply = next_frame(f, fd);
    assert_int_equal(reply->request_id, 7);
    assert_int_equal(reply->msg_case, PB__IPCFRAME__MSG_MSG_REQUEST_ERROR);
    pb__ipcframe__free_unpacked(reply, NULL);
    assert_int_equal(f->n_calls, 0);
    assert_int_equal(f->n_open, 1);
    close(fd);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(f->n_open, 0);
}

static void garbage_gets_an_error_and_the_end(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } cases[] = {
        {"\xff\xff\xff\xff", 4, "too long"},
        {"\x00\x00\x00\x80", 4, "too long"},
        {"\xfd\xff\x01\x00", 4, "too long"},
        {"\x04\x00\x00\x00\xff\xff\xff\xff", 8, "not an IPCFrame"},
        {"\x02\x00\x00\x00\x1a\x7f", 6, "not an IPCFrame"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        int fd = join(f);
        uint8_t got[256] = {0};
        assert_int_equal(send(fd, cases[i].bytes, cases[i].size, 0), cases[i].size);
        size_t size = run_until_hung_up(f, fd, got, sizeof(got));
        assert_true(size > 4 && size < sizeof(got));
        Pb__IPCFrame *reply = pb__ipcframe__unpack(NULL, size - 4, got + 4);
        assert_non_null(reply);
        assert_int_equal(reply->msg_case, PB__IPCFRAME__MSG_MSG_REQUEST_ERROR);
        assert_non_null(strstr(reply->msg_request_error->error, cases[i].why));
        pb__ipcframe__free_unpacked(reply, NULL);
        close(fd);
    }
    assert_int_equal(f->n_open, 0);
    assert_non_null(strstr(f->text, "too long"));
}

static void silence_and_half_frames_time_out(void **state)
{
    struct fixture *f = *state;
    int silent = join(f);
    int half = join(f);
    assert_int_equal(send(half, "\x40\x00\x00\x00\x10", 5, 0), 5);
    int good = join(f);
    assert_int_equal(send(good, "\2\0\0\0\x10\x07", 6, 0), 6);
    assert_int_equal(run_until_hung_up(f, silent, NULL, 0), 0);
    assert_int_equal(run_until_hung_up(f, half, NULL, 0), 0);
    run_for(f, 700 * NSEC_PER_MSEC);
    assert_int_equal(f->n_open, 1); // a client may be idle after a frame
    // A client that sends a byte at a time must still come to the end of its frame.
    nsec_t begin = nsec_now(CLOCK_MONOTONIC);
    assert_int_equal(send(good, "\xff\0\0\0", 4, 0), 4);
    while (f->n_open && nsec_now(CLOCK_MONOTONIC) - begin < 5 * NSEC_PER_SEC) {
        if (send(good, "x", 1, MSG_NOSIGNAL) < 0)
            break;
        run_for(f, 2 * NSEC_PER_MSEC);
    }
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(f->n_open, 0);
    assert_true(nsec_now(CLOCK_MONOTONIC) - begin >= 500 * NSEC_PER_MSEC);
    close(silent);
    close(half);
    close(good);
}

static size_t count_fds(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void send_with_fds(int fd, const void *bytes, size_t size, size_t n_fds)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(20 * sizeof(int))];
    } control = {0};
    struct iovec where = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &where,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = CMSG_SPACE(n_fds * sizeof(int)),
    };
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    for (size_t i = 0; i < n_fds; i++)
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &(int){STDERR_FILENO}, sizeof(int));
    assert_int_equal(sendmsg(fd, &message, 0), size);
}

static void descriptors_reach_their_method_and_no_other(void **state)
{
    struct fixture *f = *state;
    int fd = join(f);
    size_t before = count_fds();
    uint8_t bytes[128];
    size_t size = make_invoke(bytes, 1, 1, IPC_CONSUMER_FLUSH, false);
    send_with_fds(fd, bytes, size, 1);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(count_fds(), before);
    send_with_fds(fd, bytes, size, 20);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(count_fds(), before);
    assert_int_equal(f->n_calls, 2);
    assert_int_equal(f->n_fds, 0);
    size = make_invoke(bytes, 2, 1, IPC_CONSUMER_ENABLE_TRACING, false);
    send_with_fds(fd, bytes, size, 1);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(f->n_fds, 1);
    assert_int_equal(count_fds(), before);
    // After another frame, and cut: the descriptor waits for the rest of its own.
    size_t first = make_invoke(bytes, 3, 1, IPC_CONSUMER_FLUSH, false);
    size = make_invoke(bytes + first, 4, 1, IPC_CONSUMER_ENABLE_TRACING, false);
    assert_int_equal(send(fd, bytes, first, 0), first);
    send_with_fds(fd, bytes + first, 3, 1);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(count_fds(), before + 1);
    assert_int_equal(send(fd, bytes + first + 3, size - 3, 0), size - 3);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(f->n_fds, 2);
    assert_int_equal(count_fds(), before);
    // The descriptor of half a frame is closed with its peer.
    send_with_fds(fd, bytes, 3, 2);
    run_for(f, 5 * NSEC_PER_MSEC);
    close(fd);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(f->n_open, 0);
    assert_int_equal(count_fds(), before - 2);
}

static void dropped_replies_do_not_come(void **state)
{
    struct fixture *f = *state;
    int fd = join(f);
    uint8_t bytes[128];
    size_t size = make_invoke(bytes, 1, 1, IPC_CONSUMER_ENABLE_TRACING, true);
    assert_int_equal(send(fd, bytes, size, 0), size);
    run_for(f, 5 * NSEC_PER_MSEC);
    assert_int_equal(f->n_calls, 1);
    assert_int_equal(recv(fd, bytes, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    size = make_invoke(bytes, 2, 1, IPC_CONSUMER_FREE_BUFFERS, false); // hangs up
    assert_int_equal(send(fd, bytes, size, 0), size);
    assert_int_equal(run_until_hung_up(f, fd, NULL, 0), 0);
    close(fd);
}

static void who_never_reads_waits_and_is_hung_up_on(void **state)
{
    struct fixture *f = *state;
    int fd = join(f), other = join(f);
    uint8_t bytes[128];
    size_t size = make_invoke(bytes, 1, 1, IPC_CONSUMER_READ_BUFFERS, false);
    assert_int_equal(send(fd, bytes, size, 0), size);
    // Requests after the stream wait in the socket, not in the server.
    size = make_invoke(bytes, 2, 1, IPC_CONSUMER_ENABLE_TRACING, false);
    while (send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size)
        loop_run_once(f->loop, 0);
    assert_int_equal(errno, EAGAIN);
    size_t n_calls = f->n_calls;
    assert_true(n_calls < 100);
    assert_int_equal(send(other, bytes, size, 0), size);
    Pb__IPCFrame *reply = next_frame(f, other);
    assert_true(reply->msg_invoke_method_reply->success);
    pb__ipcframe__free_unpacked(reply, NULL);
    for (int i = 0; i < 500 && f->n_open > 1; i++)
        run_for(f, 10 * NSEC_PER_MSEC);
    assert_int_equal(f->n_open, 1);
    assert_non_null(strstr(f->text, "does not read"));
    close(fd);
    close(other);
}

static void a_slow_reader_gets_the_whole_stream(void **state)
{
    struct fixture *f = *state;
    int fd = join(f);
    uint8_t bytes[128];
    size_t size = make_invoke(bytes, 1, 1, IPC_CONSUMER_READ_BUFFERS, false);
    assert_int_equal(send(fd, bytes, size, 0), size);
    struct ipc_inbox inbox = {0};
    size_t n_replies = 0;
    bool has_more = true;
    for (int i = 0; i < 10000 && has_more; i++) {
        run_for(f, 100 * NSEC_PER_USEC);
        uint8_t *room;
        const uint8_t *frame_bytes;
        assert_int_equal(ipc_inbox_room(&inbox, &room, &size), 0);
        ssize_t n = recv(fd, room, size < 9000 ? size : 9000, MSG_DONTWAIT);
        ipc_inbox_received(&inbox, n > 0 ? (size_t)n : 0);
        while (ipc_inbox_next(&inbox, &frame_bytes, &size) == 1) {
            Pb__IPCFrame *frame = pb__ipcframe__unpack(NULL, size, frame_bytes);
            has_more = frame->msg_invoke_method_reply->has_more;
            n_replies++;
            pb__ipcframe__free_unpacked(frame, NULL);
        }
    }
    assert_int_equal(n_replies, 100);
    assert_false(has_more);
    ipc_inbox_done(&inbox);
    close(fd);
}

static void tiny_frames_do_not_starve_others(void **state)
{
    struct fixture *f = *state;
    int flood = join(f), other = join(f);
    uint8_t bytes[128];
    size_t size = make_invoke(bytes, 2, 1, IPC_CONSUMER_FLUSH, true);
    size_t n_sent = 0;
    while (send(flood, bytes, size, MSG_DONTWAIT) == (ssize_t)size)
        n_sent++;
    assert_true(n_sent > 100);
    size = make_invoke(bytes, 2, 1, IPC_CONSUMER_ENABLE_TRACING, false);
    assert_int_equal(send(other, bytes, size, 0), size);
    for (int i = 0; i < 2; i++)
        loop_run_once(f->loop, 0);
    assert_true(f->n_calls <= 2 * 32 + 1);
    assert_true(recv(other, bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
    run_for(f, 50 * NSEC_PER_MSEC);
    assert_int_equal(f->n_calls, n_sent + 1);
    close(flood);
    close(other);
}

// Clients connect 25 * 200 times to an abstract socket. At most 40 are connected at a time.
static void thousands_of_connections_leave_room_for_others(void **state)
{
    struct fixture *f = *state;
    char name[64];
    int listener, r, fds[200];
    snprintf(name, sizeof(name), "@mmtrace-unit-%d", getpid());
    assert_int_equal(ipc_socket_listen(name, 0, IPC_GROUP_NONE, &listener, NULL), 0);
    assert_int_equal(ipc_server_listen(f->server, listener, &for_all, &f->port), 0);
    for (int round = 0; round < 25; round++) {
        for (size_t i = 0; i < 200; i++) {
            fds[i] = -1;
            r = ipc_socket_connect(name, 0, &fds[i], NULL);
            assert_true(r == 0 || r == -ETIMEDOUT);
            if (i % 16 == 0)
                loop_run_once(f->loop, 0);
        }
        run_for(f, NSEC_PER_MSEC);
        assert_true(ipc_server_n_peers(f->server) <= 40);
        for (size_t i = 0; i < 200; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
    }
    run_for(f, 20 * NSEC_PER_MSEC);
    assert_int_equal(ipc_server_n_peers(f->server), 0);
    assert_non_null(strstr(f->text, "too many"));
    int fd;
    assert_int_equal(ipc_socket_connect(name, 0, &fd, NULL), 0);
    uint8_t bytes[128];
    size_t size = make_invoke(bytes, 9, 1, IPC_CONSUMER_ENABLE_TRACING, false);
    assert_int_equal(send(fd, bytes, size, 0), size);
    Pb__IPCFrame *reply = next_frame(f, fd);
    assert_int_equal(reply->request_id, 9);
    pb__ipcframe__free_unpacked(reply, NULL);
    close(fd);
}

static void *serve(void *userdata)
{
    struct fixture *f = userdata;
    loop_run(f->loop);
    return NULL;
}

struct stopper {
    struct fixture *fixture;
    struct loop_io *io;
};

static void stop(void *userdata)
{
    struct stopper *stopper = userdata;
    loop_remove_io(stopper->io);
    loop_quit(stopper->fixture->loop);
}

static int count_packet(void *userdata, const void *bytes, size_t size)
{
    size_t *n = userdata;
    assert_int_equal(size, 65536);
    assert_int_equal(*(const uint8_t *)bytes, 100 - *n);
    ++*n;
    return 0;
}

static void the_client_library_speaks_the_same(void **state)
{
    struct fixture *f = *state;
    char name[64];
    int listener, stop_pipe[2];
    snprintf(name, sizeof(name), "@mmtrace-unit-client-%d", getpid());
    assert_int_equal(ipc_socket_listen(name, 0, IPC_GROUP_NONE, &listener, NULL), 0);
    assert_int_equal(ipc_server_listen(f->server, listener, &for_all, &f->port), 0);
    assert_int_equal(pipe2(stop_pipe, O_CLOEXEC), 0);
    struct stopper stopper = {.fixture = f};
    assert_int_equal(loop_add_io(f->loop, stop_pipe[0], POLLIN, stop, &stopper, &stopper.io), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, f), 0);

    struct err err = {0};
    struct ipc_client *client = NULL, *wrong = NULL;
    int r = ipc_client_connect(&ipc_producer_service, name, NSEC_PER_SEC, &wrong, &err);
    assert_int_equal(r, -EPROTO);
    assert_non_null(strstr(err.text, "does not offer ProducerPort"));
    r = ipc_client_connect(&ipc_consumer_service, name, NSEC_PER_SEC, &client, &err);
    assert_int_equal(r, 0);
    assert_true(ipc_client_has_method(client, IPC_CONSUMER_CLONE_SESSION));

    Pb__EnableTracingRequest enable = PB__ENABLE_TRACING_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    uint64_t first;
    r = ipc_client_send(client, IPC_CONSUMER_ENABLE_TRACING, &enable.base, STDERR_FILENO, &first,
                        &err);
    assert_int_equal(r, 0);
    size_t n_packets = 0;
    r = ipc_client_read_buffers(client, NSEC_PER_SEC, count_packet, &n_packets, &err);
    assert_int_equal(r, 0);
    assert_int_equal(n_packets, 100);
    struct ipc_reply kept;
    assert_int_equal(ipc_client_receive(client, 0, 0, &kept, &err), 0);
    assert_int_equal(kept.request_id, first);
    assert_string_equal(((Pb__EnableTracingResponse *)kept.message)->error, "all is well");
    ipc_reply_done(&kept);
    assert_int_equal(ipc_client_receive(client, 0, 0, &kept, &err), -ETIMEDOUT);

    Pb__TracingServiceState *service_state = NULL;
    r = ipc_client_query_state(client, false, NSEC_PER_SEC, &service_state, &err);
    assert_int_equal(r, 0);
    assert_int_equal(service_state->num_sessions, 3);
    assert_string_equal(service_state->tracing_service_version, "unit");
    pb__tracing_service_state__free_unpacked(service_state, NULL);

    Pb__FlushRequest flush = PB__FLUSH_REQUEST__INIT;
    r = ipc_client_call(client, IPC_CONSUMER_FLUSH, &flush.base, -1, NSEC_PER_SEC, &reply, &err);
    assert_int_equal(r, -EREMOTEIO);
    Pb__FreeBuffersRequest free_request = PB__FREE_BUFFERS_REQUEST__INIT;
    r = ipc_client_call(client, IPC_CONSUMER_FREE_BUFFERS, &free_request.base, -1, NSEC_PER_SEC,
                        &reply, &err);
    assert_int_equal(r, -ECONNRESET);
    assert_null(reply);
    ipc_client_free(client);

    assert_int_equal(write(stop_pipe[1], "", 1), 1);
    pthread_join(thread, NULL);
    assert_int_equal(f->n_fds, 1);
    close(stop_pipe[0]);
    close(stop_pipe[1]);
}

// Many uids connect to the port of producers, and then one uid to another port.
static void producers_leave_connections_to_others(void **state)
{
    enum { FIRST_UID = 40000, N_TRIED = 24 };
    struct fixture *f = *state;
    static struct ipc_port producers, others; // the server uses them until its end
    int fds[N_TRIED + 1][2], n_in = 0;
    producers = others = f->port;
    producers.takes_fds = others.takes_fds = false;
    for (int i = 0; i <= N_TRIED; i++) {
        if (seteuid(FIRST_UID + (uid_t)i) < 0) // the owner of the socket pair
            skip_because("needs root");
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds[i]),
                         0);
        assert_int_equal(seteuid(0), 0);
        if (unix_socket_refuse_fds(fds[i][1], true) < 0)
            skip_because(
                "the kernel cannot refuse descriptors (6.16): a relay would come in between");
        struct ipc_port *port = i < N_TRIED ? &producers : &others;
        int r = ipc_server_adopt(f->server, fds[i][1], &for_all, port);
        assert_true(r == 0 || (r == -EMFILE && i < N_TRIED));
        n_in += r == 0;
    }
    // 16 of 40 connections are for root, three quarters of the others for producers.
    assert_int_equal(n_in, 18 + 1);
    for (int i = 0; i <= N_TRIED; i++)
        close(fds[i][0]);
}

// Joins as another user.
static int join_as(struct fixture *f, uid_t uid)
{
    int fds[2];
    if (seteuid(uid) < 0) // the owner of the socket pair
        skip_because("needs root");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(seteuid(0), 0);
    unix_socket_refuse_fds(fds[1], true); // without it, a relay comes in between
    assert_int_equal(ipc_server_adopt(f->server, fds[1], &for_all, &f->port), 0);
    return fds[0];
}

// The user's share of the time is used up. Requests that wait for it are not late.
static void requests_that_have_to_wait_are_not_late(void **state)
{
    enum { STRANGER = 40000 };
    struct fixture *f = *state;
    uint8_t flush[64], bytes[64];
    size_t size = make_invoke(flush, 7, 1, IPC_CONSUMER_FLUSH, false);
    f->port.takes_fds = false;
    int busy = join_as(f, STRANGER);
    f->work = NSEC_PER_SEC; // 0.2 s at once, and a quarter: the user waits for 3.2 s
    assert_int_equal(send(busy, flush, size, 0), size);
    while (f->n_calls == 0)
        run_for(f, 5 * NSEC_PER_MSEC);
    f->work = 0;
    int whole = join_as(f, STRANGER), half = join_as(f, STRANGER);
    assert_int_equal(send(whole, flush, size, 0), size);
    assert_int_equal(send(half, flush, size - 1, 0), size - 1);
    run_for(f, 700 * NSEC_PER_MSEC); // the server waits 0.5 s for the end of a frame
    assert_int_equal(f->n_calls, 1);
    assert_int_equal(f->n_open, 3);
    // A relay may stand between the two ends.
    ssize_t received = -1;
    for (nsec_t end = nsec_now(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;
         received < 0 && nsec_now(CLOCK_MONOTONIC) < end;) {
        run_for(f, 5 * NSEC_PER_MSEC);
        received = recv(whole, bytes, sizeof(bytes), MSG_DONTWAIT);
    }
    assert_true(received > 0);
    assert_int_equal(f->n_calls, 2);
    assert_int_equal(run_until_hung_up(f, half, NULL, 0), 0); // late now
    close(busy);
    close(whole);
    close(half);
}

// Many connections of several users have a part of each round together.
static void rounds_are_short(void **state)
{
    enum { STRANGER = 40000, N_PEERS = 18, N_FRAMES = 4 };
    struct fixture *f = *state;
    uint8_t flush[64];
    int fds[N_PEERS];
    size_t size = make_invoke(flush, 7, 1, IPC_CONSUMER_FLUSH, false);
    f->port.takes_fds = false;
    f->work = 9 * NSEC_PER_MSEC;
    for (int i = 0; i < N_PEERS; i++) {
        fds[i] = join_as(f, STRANGER + (uid_t)(i % 6));
        for (int k = 0; k < N_FRAMES; k++)
            assert_int_equal(send(fds[i], flush, size, 0), size);
    }
    nsec_t longest = 0, end = nsec_now(CLOCK_MONOTONIC) + 30 * NSEC_PER_SEC;
    while (f->n_calls < 2 * N_PEERS && nsec_now(CLOCK_MONOTONIC) < end) {
        nsec_t began = nsec_now(CLOCK_THREAD_CPUTIME_ID);
        assert_int_equal(loop_run_once(f->loop, 10 * NSEC_PER_MSEC), 0);
        nsec_t time = nsec_now(CLOCK_THREAD_CPUTIME_ID) - began;
        longest = time > longest ? time : longest;
    }
    assert_true(f->n_calls >= 2 * N_PEERS);
    assert_in_range(longest, 9 * NSEC_PER_MSEC, 60 * NSEC_PER_MSEC); // 30 ms, and a last frame
    for (int i = 0; i < N_PEERS; i++)
        close(fds[i]);
}

static size_t n_forks;

static void count_fork(void)
{
    n_forks++;
}

// The kernel lets descriptors of a refused connection in, so a process closes them.
static void refused_connections_cost_their_user_a_few_processes(void **state)
{
    enum { STRANGER = 40000, N_TRIED = 300, PROCESSES_MAX = 4 };
    static const struct ipc_access nobody = {.group = IPC_GROUP_NONE};
    struct fixture *f = *state;
    int fds[N_TRIED][2];
    if (seteuid(STRANGER) < 0)
        skip_because("needs root");
    for (int i = 0; i < N_TRIED; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds[i]),
                         0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(pthread_atfork(count_fork, NULL, NULL), 0);
    n_forks = 0;
    for (int i = 0; i < N_TRIED; i++)
        assert_int_equal(ipc_server_adopt(f->server, fds[i][1], &nobody, &f->port), -EACCES);
    assert_in_range(n_forks, 1, PROCESSES_MAX);
    for (int i = 0; i < N_TRIED; i++) {
        assert_int_equal(recv(fds[i][0], &(char){0}, 1, MSG_DONTWAIT), 0); // hung up
        close(fds[i][0]);
    }
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SERVER(unknown_services_and_methods_get_an_error),
        WITH_SERVER(garbage_gets_an_error_and_the_end),
        WITH_SERVER(silence_and_half_frames_time_out),
        WITH_SERVER(descriptors_reach_their_method_and_no_other),
        WITH_SERVER(dropped_replies_do_not_come),
        WITH_SERVER(who_never_reads_waits_and_is_hung_up_on),
        WITH_SERVER(a_slow_reader_gets_the_whole_stream),
        WITH_SERVER(tiny_frames_do_not_starve_others),
        WITH_SERVER(thousands_of_connections_leave_room_for_others),
        WITH_SERVER(producers_leave_connections_to_others),
        WITH_SERVER(requests_that_have_to_wait_are_not_late),
        WITH_SERVER(rounds_are_short),
        WITH_SERVER(refused_connections_cost_their_user_a_few_processes),
        WITH_SERVER(the_client_library_speaks_the_same),
    };
    return cmocka_run_group_tests_name("ipc_server", tests, NULL, NULL);
}
