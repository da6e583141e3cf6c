// SPDX-License-Identifier: Apache-2.0
//
// Access is decided before anything is read: by the kernel's identity of the peer, and by the
// number of connections. Any user may be a producer, and one user may have many uids. Therefore
// producers have separate relays, and at most three quarters of the connections; the rest is for
// consumers. Connections above the limit are closed at once, so that a listening socket never stays
// readable without service. If accept() fails for lack of descriptors or memory, listening pauses
// instead of spinning.
#include "producer/service/ipc/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/payer.h"
#include "producer/foreign/relay.h"
#include "producer/ground/work_time.h"
#include "producer/service/ipc/peer.h"

#define PEERS_FOR_ROOT     16
#define PENDING_BYTES_MAX  ((uint64_t)8 << 20) // per user
#define FRAMES_AT_ONCE     1000
#define FRAMES_A_MINUTE    6000
#define FRAMES_TOLD_PERIOD (60 * NSEC_PER_SEC)
#define USEC_AT_ONCE       200000 // of the loop, for the requests of a user
#define USEC_A_MINUTE      (15 * 1000000)
#define USEC_OF_ALL        2                    // times as many for all users together
#define ROUND_TIME         (30 * NSEC_PER_MSEC) // of a round of the loop, for all these users
#define NEXT_ROUND         1                    // ns
#define REST               (100 * NSEC_PER_MSEC)
#define ACCEPTS_PER_ROUND  32
#define ACCEPT_PAUSE       NSEC_PER_SEC
#define COMPLAINT_INTERVAL NSEC_PER_SEC

struct listener {
    struct ipc_server *server;   // borrowed
    const struct ipc_port *port; // borrowed
    struct ipc_access access;
    int fd; // owned
    struct loop_io *io;
    struct loop_timer *pause;
    struct listener *next;
};

struct ipc_server {
    struct ipc_server_env env;
    struct listener *listeners; // owned
    struct ipc_peer *peers;     // owned
    size_t n_peers;
    nsec_t complained;        // CLOCK_MONOTONIC
    uint64_t n_silent;        // complaints without a log line since then
    struct relays *relays[2]; // owned; [false]: for ports that take no descriptors, [true]: for
                              // ports that do
    nsec_t frames_told;       // CLOCK_MONOTONIC, 0: never
    struct budget frames;     // frames of users who are not trusted
    struct budget frame_time; // microseconds of the loop for them
    uint64_t round;           // of the loop, in which they took round_time
    nsec_t round_time;
};

static void fill_limits(struct ipc_server_limits *limits)
{
    if (!limits->max_peers)
        limits->max_peers = 512;
    if (!limits->max_peers_per_uid)
        limits->max_peers_per_uid = 128;
    if (!limits->first_frame_timeout)
        limits->first_frame_timeout = 30 * NSEC_PER_SEC;
    if (!limits->frame_timeout)
        limits->frame_timeout = 10 * NSEC_PER_SEC;
    if (!limits->write_timeout)
        limits->write_timeout = 30 * NSEC_PER_SEC;
}

int ipc_server_new(const struct ipc_server_env *env, struct ipc_server **ret)
{
    struct ipc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->env = *env;
    fill_limits(&server->env.limits);
    budget_init(&server->frames, &(struct budget_limits){
                                     .what = "requests",
                                     .each_burst = FRAMES_AT_ONCE,
                                     .each_per_minute = FRAMES_A_MINUTE,
                                 });
    budget_init(&server->frame_time, &(struct budget_limits){
                                         .what = "microseconds for requests",
                                         .each_burst = USEC_AT_ONCE,
                                         .each_per_minute = USEC_A_MINUTE,
                                         .all_burst = USEC_OF_ALL * USEC_AT_ONCE,
                                         .all_per_minute = USEC_OF_ALL * USEC_A_MINUTE,
                                     });
    int r = relays_new(env->loop, &server->relays[false]);
    if (r == 0)
        r = relays_new(env->loop, &server->relays[true]);
    if (r < 0) {
        relays_free(server->relays[false]);
        free(server);
        return r;
    }
    *ret = server;
    return 0;
}

static void free_listener(struct listener *listener)
{
    loop_remove_io(listener->io);
    loop_remove_timer(listener->pause);
    close_fd(listener->fd);
    free(listener);
}

struct ipc_server *ipc_server_free(struct ipc_server *server)
{
    if (!server)
        return NULL;
    while (server->peers)
        ipc_peer_free(server->peers);
    while (server->listeners) {
        struct listener *listener = server->listeners;
        server->listeners = listener->next;
        free_listener(listener);
    }
    relays_free(server->relays[false]);
    relays_free(server->relays[true]);
    budget_done(&server->frames);
    budget_done(&server->frame_time);
    free(server);
    return NULL;
}

static size_t count_payer(const struct ipc_server *server, uint64_t payer)
{
    size_t n = 0;
    for (const struct ipc_peer *peer = server->peers; peer; peer = peer->next)
        n += peer->credentials.payer == payer;
    return n;
}

// Returns whether the user may pass descriptors directly to this process: root, or the user of this
// process.
static bool is_trusted(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

static size_t count_port(const struct ipc_server *server, const struct ipc_port *port)
{
    size_t n = 0;
    for (const struct ipc_peer *peer = server->peers; peer; peer = peer->next)
        n += peer->port == port;
    return n;
}

static bool too_many(const struct ipc_server *server, const struct ipc_port *port,
                     const struct ipc_credentials *client)
{
    const struct ipc_server_limits *limits = &server->env.limits;
    if (client->uid == 0)
        return server->n_peers >= limits->max_peers;
    if (server->n_peers + PEERS_FOR_ROOT >= limits->max_peers ||
        count_payer(server, client->payer) >= limits->max_peers_per_uid)
        return true;
    return !port->takes_fds && !is_trusted(client->uid) &&
           count_port(server, port) >= (limits->max_peers - PEERS_FOR_ROOT) * 3 / 4;
}

// Keeps descriptors from other users out of this process: if the port takes descriptors, or if the
// kernel cannot refuse them, a relay receives the descriptors instead.
static int keep_fds_out(struct ipc_server *server, const struct ipc_port *port,
                        const struct ipc_credentials *client, int *fd)
{
    if (is_trusted(client->uid)) {
        if (port->takes_fds)
            unix_socket_refuse_fds(*fd, false);
        return 0;
    }
    if (!port->takes_fds && unix_socket_refuses_fds(*fd))
        return 0;
    if (port->takes_fds)
        unix_socket_refuse_fds(*fd, false);
    return relays_start(server->relays[port->takes_fds], *fd, client->payer, fd);
}

int ipc_server_adopt(struct ipc_server *server, int fd, const struct ipc_access *access,
                     const struct ipc_port *port)
{
    struct ipc_credentials credentials = {.uid = (uid_t)-1};
    int r = ipc_socket_credentials(fd, &credentials);
    credentials.payer = foreign_client_payer("/proc", credentials.pid, credentials.uid);
    if (r == 0 && !ipc_socket_allows(fd, access, &credentials))
        r = -EACCES;
    if (r == 0 && too_many(server, port, &credentials))
        r = -EMFILE;
    if (r < 0) {
        if (is_trusted(credentials.uid))
            close_fd(fd);
        else
            relays_close_socket(server->relays[port->takes_fds], fd, credentials.payer);
        return r;
    }
    r = keep_fds_out(server, port, &credentials, &fd);
    if (r < 0)
        return r;
    struct ipc_peer *peer;
    r = ipc_peer_new(server, port, fd, &credentials, &peer);
    if (r < 0)
        return r;
    peer->next = server->peers;
    if (peer->next)
        peer->next->prev = peer;
    server->peers = peer;
    server->n_peers++;
    return 0;
}

static void on_connection(void *userdata)
{
    struct listener *listener = userdata;
    for (unsigned i = 0; i < ACCEPTS_PER_ROUND; i++) {
        bool is_full = relays_are_full(listener->server->relays[listener->port->takes_fds]);
        int fd = is_full ? -1 : accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            int r = ipc_server_adopt(listener->server, fd, &listener->access, listener->port);
            if (r < 0)
                ipc_server_complain(listener->server, NULL, "a connection was refused: %s",
                                    r == -EACCES   ? "its user may not connect here"
                                    : r == -EMFILE ? "max_peers: there are too many"
                                    : r == -EUSERS ? "relays of user: there are too many"
                                                   : strerror(-r));
            continue;
        }
        if (!is_full && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (is_full || errno != EAGAIN) {
            ipc_server_complain(listener->server, NULL, "cannot accept: %s",
                                is_full ? "too many refused connections are not closed yet"
                                        : strerror(errno));
            loop_set_io(listener->io, 0);
            loop_set_timer(listener->pause, nsec_now(CLOCK_BOOTTIME) + ACCEPT_PAUSE, 0);
        }
        return;
    }
}

static void on_pause_over(void *userdata)
{
    struct listener *listener = userdata;
    loop_set_io(listener->io, EPOLLIN);
}

int ipc_server_listen(struct ipc_server *server, int fd, const struct ipc_access *access,
                      const struct ipc_port *port)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    if (!listener)
        return -ENOMEM;
    unix_socket_refuse_fds(fd, true); // inherited by accepted sockets
    *listener = (struct listener){.server = server, .port = port, .access = *access, .fd = -1};
    int r = loop_add_io(server->env.loop, fd, EPOLLIN, on_connection, listener, &listener->io);
    if (r == 0)
        r = loop_add_timer(server->env.loop, NSEC_MAX, 0, on_pause_over, listener,
                           &listener->pause);
    if (r < 0) {
        free_listener(listener);
        return r;
    }
    listener->fd = fd;
    listener->next = server->listeners;
    server->listeners = listener;
    return 0;
}

bool ipc_server_holds_too_much(const struct ipc_server *server, const struct ipc_peer *peer)
{
    uint64_t bytes = 0;
    if (is_trusted(peer->credentials.uid))
        return false;
    for (const struct ipc_peer *other = server->peers; other; other = other->next)
        if (other->credentials.payer == peer->credentials.payer)
            bytes += other->inbox.capacity + other->outbox.capacity;
    return bytes > PENDING_BYTES_MAX;
}

nsec_t ipc_server_frame_wait(struct ipc_server *server, const struct ipc_peer *peer)
{
    const struct ipc_credentials *client = &peer->credentials;
    struct err err = {0};
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (is_trusted(client->uid))
        return 0;
    if (server->round == loop_n_rounds(server->env.loop) && server->round_time >= ROUND_TIME)
        return NEXT_ROUND;
    if (budget_may_spend(&server->frame_time, client->payer, now, &err) == 0 &&
        budget_take(&server->frames, client->payer, 1, now, &err) == 0)
        return 0;
    if (!server->frames_told || now - server->frames_told > FRAMES_TOLD_PERIOD) {
        server->frames_told = now;
        log_warning(server->env.log, "%s of user %u waits: %s", peer->name, (unsigned)client->uid,
                    err.text);
    }
    return REST;
}

nsec_t ipc_server_begin_frame(const struct ipc_peer *peer)
{
    return is_trusted(peer->credentials.uid) ? 0 : work_time_now();
}

void ipc_server_end_frame(struct ipc_server *server, const struct ipc_peer *peer, nsec_t began)
{
    if (is_trusted(peer->credentials.uid))
        return;
    nsec_t time = work_time_now() - began;
    uint64_t round = loop_n_rounds(server->env.loop);
    server->round_time = time + (server->round == round ? server->round_time : 0);
    server->round = round;
    budget_spend(&server->frame_time, peer->credentials.payer, (uint64_t)(time / NSEC_PER_USEC) + 1,
                 nsec_now(CLOCK_MONOTONIC));
}

size_t ipc_server_n_peers(const struct ipc_server *server)
{
    return server->n_peers;
}

const struct ipc_server_env *ipc_server_get_env(const struct ipc_server *server)
{
    return &server->env;
}

void ipc_server_peer_gone(struct ipc_server *server, struct ipc_peer *peer)
{
    if (peer->prev)
        peer->prev->next = peer->next;
    else
        server->peers = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    server->n_peers--;
}

void ipc_server_complain(struct ipc_server *server, const struct ipc_peer *peer, const char *format,
                         ...)
{
    char text[256], more[48] = "";
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (server->complained && now - server->complained < COMPLAINT_INTERVAL) {
        server->n_silent++;
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (server->n_silent)
        snprintf(more, sizeof(more), " (and %llu more)", (unsigned long long)server->n_silent);
    server->complained = now;
    server->n_silent = 0;
    if (peer)
        log_warning(server->env.log, "%s of user %u %s: disconnected%s", peer->name,
                    peer->credentials.uid, text, more);
    else
        log_warning(server->env.log, "%s%s", text, more);
}
