// SPDX-License-Identifier: Apache-2.0
//
// To stop a recording is quick, to get hold of a thread in another process is not: helpers do that
// in processes of their own, and their ends are events like others. Only heap_host_free() waits for
// them, so that a recorder that has ended leaves nothing behind.
//
// The socket is there only while somebody wants programs: a preloaded program that finds none goes
// on without a wait, and wakes nobody.
#include "producer/sources/heap/heap_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"
#include "common/vec.h"
#include "producer/agents/heap/heap_abi.h"
#include "producer/sources/heap/heap_attach.h"

struct guest {
    heap_host_fn asks;
    void *userdata;
};
VEC_DEFINE(guest_vec, struct guest);

struct departure {
    struct heap_host *host; // borrowed
    int32_t pid;
    pid_t helper;
    int pidfd; // owned; -1: the kernel has no such thing
    struct loop_io *io;
};
VEC_DEFINE(departure_vec, struct departure *);
VEC_DEFINE(orphan_vec, struct heap_attach *);

struct heap_host {
    struct heap_host_options options;
    char *socket_name; // owned
    int socket_fd;     // owned; -1: there is none at the moment
    struct loop_io *socket_io;
    struct guest_vec guests;
    struct departure_vec departures; // owned
    struct orphan_vec orphans;       // owned
};

const char *heap_host_socket_name(void)
{
    const char *name = secure_getenv(HEAP_SOCKET_VARIABLE);
    return name && *name ? name : HEAP_SOCKET_FOLDER "/" HEAP_SOCKET_FILE;
}

int heap_host_new(const struct heap_host_options *options, struct heap_host **ret)
{
    struct heap_host *host = calloc(1, sizeof(*host));
    if (!host)
        return -ENOMEM;
    *host = (struct heap_host){.options = *options, .socket_fd = -1};
    if (options->socket_name && !(host->socket_name = strdup(options->socket_name)))
        return heap_host_free(host), -ENOMEM;
    *ret = host;
    return 0;
}

bool heap_host_is_private(const struct heap_host *host)
{
    return host->options.is_private;
}

bool heap_host_is_alone(const struct heap_host *host)
{
    return host->options.is_alone;
}

// Programs that come.

static void ask_guests(struct heap_host *host, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    bool taken = false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0 ||
        (peer.uid != geteuid() && geteuid() != 0))
        return;
    vec_foreach(&host->guests, guest)
        taken |= guest->asks(guest->userdata, peer.pid, peer.uid, fd, taken);
}

static void socket_ready(void *userdata, uint32_t events)
{
    struct heap_host *host = userdata;
    (void)events;
    for (int fd; (fd = accept4(host->socket_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        ask_guests(host, fd);
        close_fd(fd);
    }
}

static void make_folder(const char *path)
{
    char *folder = strdup(path), *end = folder ? strrchr(folder, '/') : NULL;
    if (end && end != folder && *path != '@') {
        *end = 0;
        mkdir(folder, 0755);
    }
    free(folder);
}

static void close_socket(struct heap_host *host)
{
    host->socket_io = loop_remove_io(host->socket_io);
    if (host->socket_fd >= 0)
        unix_socket_remove(host->socket_name);
    host->socket_fd = close_fd(host->socket_fd);
}

static int open_socket(struct heap_host *host, struct err *err)
{
    const char *name = host->socket_name;
    make_folder(name);
    int r = unix_socket_listen(name, SOCK_SEQPACKET, 0666, UNIX_GROUP_NONE, &host->socket_fd);
    if (r == 0)
        r = loop_add_io(host->options.loop, host->socket_fd, EPOLLIN, socket_ready, host,
                        &host->socket_io);
    if (r == 0)
        return 0;
    close_socket(host);
    if (host->options.is_private)
        return err_errno(err, r, "socket \"%s\"", name);
    if (r == -EADDRINUSE)
        log_warning(host->options.log,
                    "linux.heap: preloaded programs ask another recorder (%s): those that start "
                    "now are found a little later",
                    name);
    else
        log_debug(host->options.log, "linux.heap: %s: %s", name, strerror(-r));
    return 0;
}

int heap_host_join(struct heap_host *host, heap_host_fn asks, void *userdata, struct err *err)
{
    int r = guest_vec_push(&host->guests, (struct guest){asks, userdata});
    if (r == 0 && host->socket_name && host->socket_fd < 0)
        r = open_socket(host, err);
    return r;
}

void heap_host_leave(struct heap_host *host, const void *userdata)
{
    for (size_t i = 0; i < host->guests.n; i++)
        if (host->guests.items[i].userdata == userdata) {
            memmove(&host->guests.items[i], &host->guests.items[i + 1],
                    (--host->guests.n - i) * sizeof(host->guests.items[0]));
            break;
        }
    if (host->guests.n == 0)
        close_socket(host);
}

// Processes that are let go.

static void departure_end(struct departure *departure)
{
    struct departure_vec *all = &departure->host->departures;
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i] == departure)
            all->items[i--] = all->items[--all->n];
    departure->io = loop_remove_io(departure->io);
    close_fd(departure->pidfd);
    free(departure);
}

static void helper_ended(void *userdata, uint32_t events)
{
    struct departure *departure = userdata;
    (void)events;
    heap_attach_wait(departure->helper);
    departure_end(departure);
}

void heap_host_detach(struct heap_host *host, int32_t pid, int ring_fd)
{
    struct departure *departure = calloc(1, sizeof(*departure));
    int r = departure ? departure_vec_reserve(&host->departures, host->departures.n + 1) : -ENOMEM;
    pid_t helper = heap_attach_detach(pid, ring_fd);
    if (r < 0 || helper <= 0) {
        free(departure);
        heap_attach_wait(helper);
        return;
    }
    *departure = (struct departure){
        .host = host,
        .pid = pid,
        .helper = helper,
        .pidfd = (int)syscall(SYS_pidfd_open, helper, 0),
    };
    departure_vec_push(&host->departures, departure);
    if (departure->pidfd >= 0)
        loop_add_io(host->options.loop, departure->pidfd, EPOLLIN, helper_ended, departure,
                    &departure->io);
}

bool heap_host_is_detaching(struct heap_host *host, int32_t pid)
{
    for (size_t i = 0; i < host->departures.n; i++) {
        struct departure *departure = host->departures.items[i];
        if (departure->pid != pid)
            continue;
        if (departure->io || waitpid(departure->helper, NULL, WNOHANG) == 0)
            return true;
        departure_end(departure);
        return false;
    }
    return false;
}

static void orphan_done(void *userdata, struct heap_attach *attach, int32_t pid, int result,
                        int ring_fd, const char *text)
{
    struct heap_host *host = userdata;
    (void)text;
    for (size_t i = 0; i < host->orphans.n; i++)
        if (host->orphans.items[i] == attach)
            host->orphans.items[i--] = host->orphans.items[--host->orphans.n];
    heap_attach_free(attach);
    if (result == 0) {
        ring_fd_stop(ring_fd);
        heap_host_detach(host, pid, ring_fd);
    }
    close_fd(ring_fd);
}

void heap_host_adopt(struct heap_host *host, struct heap_attach *attach)
{
    heap_attach_set_done(attach, orphan_done, host);
    if (orphan_vec_push(&host->orphans, attach) < 0)
        heap_attach_finish(attach);
}

struct heap_host *heap_host_free(struct heap_host *host)
{
    if (!host)
        return NULL;
    close_socket(host);
    while (host->orphans.n > 0)
        heap_attach_finish(host->orphans.items[0]);
    while (host->departures.n > 0) {
        heap_attach_wait(host->departures.items[0]->helper);
        departure_end(host->departures.items[0]);
    }
    orphan_vec_done(&host->orphans);
    departure_vec_done(&host->departures);
    guest_vec_done(&host->guests);
    free(host->socket_name);
    free(host);
    return NULL;
}
