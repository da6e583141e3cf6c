// SPDX-License-Identifier: Apache-2.0
//
// Stopping a recording is quick; borrowing a thread in another process is not. Helper processes
// borrow the threads, and the loop handles the helpers' ends as events. Only heap_host_free() waits
// for them: a recorder that has ended leaves nothing behind.
//
// Native programs and Java VMs have sockets of their own: one process may use both, and has a
// profile for each. A program that finds no socket continues without a wait and wakes nobody.
// Therefore a socket exists only while a recording wants programs.
//
// Each program that asks costs a look at its process. The number of connections of one user is
// limited, and so is the number of connections of all users in a short time: the others wait.
#include "producer/sources/heap/heap_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/unix_socket.h"
#include "common/vec.h"
#include "producer/foreign/helper.h"
#include "producer/ground/accepter.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/heap_owner.h"
#include "producer/sources/heap/heap_attach.h"
#include "producer/sources/heap/heap_shares.h"

// Connections of one user at once, and per minute: far more than the programs that the user can
// start.
#define CONNECTIONS_BURST      2000
#define CONNECTIONS_PER_MINUTE 60000
#define CONNECTIONS_AT_ONCE    200  // of all users, in 100 ms
#define REFUSED_AT_ONCE        2000 // refuses a crowd before other programs give up
#define REFUSED_FOR            (100 * NSEC_PER_MSEC)

struct departure {
    struct heap_host *host; // borrowed
    int32_t pid;
    pid_t helper;
    int pidfd; // owned; -1: the kernel has no pidfds
    struct loop_io *io;
};
VEC_DEFINE(departure_vec, struct departure *);
VEC_DEFINE(orphan_vec, struct heap_attach *);

struct door_guest {
    heap_host_fn asks;
    void *userdata;
};
VEC_DEFINE(door_guest_vec, struct door_guest);

static const struct budget_limits usual_connections = {
    .what = "connections to the sockets of heap profiles",
    .each_burst = CONNECTIONS_BURST,
    .each_per_minute = CONNECTIONS_PER_MINUTE,
};

struct connections {
    struct budget budget;
    uid_t refused_uid; // refused until `refused_until`, without a look at the process
    nsec_t refused_until;
};

// A socket at which programs ask for a profile. The socket exists only while a recording wants
// programs.
struct heap_door {
    struct loop *loop; // borrowed, as the next two
    struct foreign *foreign;
    const struct log *log;
    const char *proc;
    bool is_private;                 // a missing socket is an error
    struct connections *connections; // borrowed; of both sockets
    uint64_t n_refused;              // because of the budget
    char *name;                      // owned; NULL: no program can ask
    struct accepter accepter;        // without a descriptor: there is no socket at the moment
    struct door_guest_vec guests;
};

struct heap_host {
    struct heap_host_options options;
    struct connections connections;
    struct heap_door native_door, java_door;
    struct departure_vec departures; // owned
    struct orphan_vec orphans;       // owned; adopted by heap_host_adopt()
};

const char *heap_host_socket_name(void)
{
    const char *name = secure_getenv(HEAP_SOCKET_VARIABLE);
    return name && *name ? name : HEAP_SOCKET_FOLDER "/" HEAP_SOCKET_FILE;
}

static bool door_is_full(void *userdata)
{
    const struct heap_door *door = userdata;
    return foreign_is_full(door->foreign);
}

static int door_init(struct heap_door *door, struct heap_host *host, const char *suffix)
{
    const struct heap_host_options *options = &host->options;
    *door = (struct heap_door){
        .loop = options->loop,
        .foreign = options->foreign,
        .log = options->log,
        .proc = options->proc,
        .is_private = options->is_private,
        .connections = &host->connections,
        .accepter = {.fd = -1,
                     .is_full = door_is_full,
                     .most = CONNECTIONS_AT_ONCE,
                     .most_refused = REFUSED_AT_ONCE},
    };
    if (options->socket_name && asprintf(&door->name, "%s%s", options->socket_name, suffix) < 0) {
        door->name = NULL;
        return -ENOMEM;
    }
    return 0;
}

int heap_host_new(const struct heap_host_options *options, struct heap_host **ret)
{
    struct heap_host *host = calloc(1, sizeof(*host));
    if (!host)
        return -ENOMEM;
    *host = (struct heap_host){.options = *options};
    budget_init(&host->connections.budget,
                options->connections ? options->connections : &usual_connections);
    int r = door_init(&host->native_door, host, "");
    if (door_init(&host->java_door, host, HEAP_JAVA_SUFFIX) < 0)
        r = -ENOMEM;
    if (r == 0)
        *ret = host;
    else
        heap_host_free(host);
    return r;
}

bool heap_host_is_private(const struct heap_host *host)
{
    return host->options.is_private;
}

bool heap_host_is_alone(const struct heap_host *host)
{
    return host->options.is_alone;
}

// Programs that ask.

static bool is_within_budget(struct heap_door *door, const struct ucred *peer)
{
    struct connections *connections = door->connections;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    if (peer->uid == connections->refused_uid && now < connections->refused_until) {
        door->n_refused++;
        return false;
    }
    struct err err = {0};
    uint64_t payer = heap_shares_payer(door->proc, peer->pid, peer->uid, door->is_private);
    if (budget_take(&connections->budget, payer, 1, now, &err) == 0) {
        budget_give(&connections->budget, payer, 1); // only the rate is limited
        return true;
    }
    if (payer == peer->uid) { // not a program that pays as another user
        connections->refused_uid = peer->uid;
        connections->refused_until = now + REFUSED_FOR;
    }
    if (door->n_refused++ == 0)
        log_warning(door->log, "linux.heap: programs of user %u are not profiled: %s",
                    (unsigned)peer->uid, err.text);
    return false;
}

static void program_comes(void *userdata, int fd)
{
    struct heap_door *door = userdata;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    bool taken = false;
    bool may_ask = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 &&
                   (peer.uid == geteuid() || geteuid() == 0) && is_within_budget(door, &peer);
    if (!may_ask)
        accepter_refuses(&door->accepter);
    vec_foreach(&door->guests, guest)
        taken |= may_ask && guest->asks(guest->userdata, peer.pid, peer.uid, &fd, taken);
    foreign_close_socket(door->foreign, fd);
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

static void close_socket(struct heap_door *door)
{
    if (door->n_refused > 1)
        log_warning(door->log,
                    "linux.heap: %llu programs that asked for a profile were refused because of "
                    "limits",
                    (unsigned long long)door->n_refused);
    door->n_refused = 0;
    if (door->accepter.fd >= 0)
        unix_socket_remove(door->name);
    foreign_close_socket(door->foreign, accepter_leave(&door->accepter));
}

static int open_socket(struct heap_door *door, struct err *err)
{
    make_folder(door->name);
    int r =
        unix_socket_listen(door->name, SOCK_SEQPACKET, 0666, UNIX_GROUP_NONE, &door->accepter.fd);
    if (r == 0)
        r = accepter_begin(&door->accepter, door->loop, program_comes, door);
    if (r == 0)
        return 0;
    close_socket(door);
    if (door->is_private)
        return err_errno(err, r, "socket \"%s\"", door->name);
    if (r == -EADDRINUSE)
        log_warning(door->log,
                    "linux.heap: programs with the preloaded library ask another recorder (%s): "
                    "programs that start now are found a little later",
                    door->name);
    else
        log_debug(door->log, "linux.heap: %s: %s", door->name, strerror(-r));
    return 0;
}

static int join(struct heap_door *door, heap_host_fn asks, void *userdata, struct err *err)
{
    int r = door_guest_vec_push(&door->guests, (struct door_guest){asks, userdata});
    if (r == 0 && door->name && door->accepter.fd < 0)
        r = open_socket(door, err);
    return r;
}

static void leave(struct heap_door *door, const void *userdata)
{
    for (size_t i = 0; i < door->guests.n; i++)
        if (door->guests.items[i].userdata == userdata) {
            memmove(&door->guests.items[i], &door->guests.items[i + 1],
                    (--door->guests.n - i) * sizeof(door->guests.items[0]));
            break;
        }
    if (door->guests.n == 0)
        close_socket(door);
}

int heap_host_join(struct heap_host *host, bool is_java, heap_host_fn asks, void *userdata,
                   struct err *err)
{
    return join(is_java ? &host->java_door : &host->native_door, asks, userdata, err);
}

void heap_host_leave(struct heap_host *host, const void *userdata)
{
    leave(&host->native_door, userdata);
    leave(&host->java_door, userdata);
}

const char *heap_host_native_socket(const struct heap_host *host)
{
    return host->native_door.accepter.fd >= 0 ? host->native_door.name : NULL;
}

// Processes that are being released.

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

static void helper_ended(void *userdata)
{
    struct departure *departure = userdata;
    heap_attach_wait(departure->host->options.foreign, departure->helper, departure->pidfd);
    departure_end(departure);
}

void heap_host_detach(struct heap_host *host, int32_t pid, int ring_fd)
{
    struct departure *departure = calloc(1, sizeof(*departure));
    int r = departure ? departure_vec_reserve(&host->departures, host->departures.n + 1) : -ENOMEM;
    pid_t helper = heap_attach_detach(pid, ring_fd);
    if (r < 0 || helper <= 0) {
        free(departure);
        heap_attach_wait(host->options.foreign, helper, -1);
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
    (void)result;
    (void)text;
    for (size_t i = 0; i < host->orphans.n; i++)
        if (host->orphans.items[i] == attach)
            host->orphans.items[i--] = host->orphans.items[--host->orphans.n];
    heap_attach_free(attach);
    if (ring_fd >= 0) {
        heap_owner_stop(ring_fd);
        heap_host_detach(host, pid, ring_fd);
    }
    close_fd(ring_fd);
}

void heap_host_adopt(struct heap_host *host, struct heap_attach *attach)
{
    heap_attach_set_done(attach, orphan_done, host);
    if (orphan_vec_push(&host->orphans, attach) < 0)
        heap_attach_finish(attach, nsec_now(CLOCK_MONOTONIC) + HEAP_ATTACH_FINISH);
}

struct heap_host *heap_host_free(struct heap_host *host)
{
    if (!host)
        return NULL;
    struct heap_door *doors[] = {&host->native_door, &host->java_door};
    for (size_t i = 0; i < ELEMENTS(doors); i++) {
        close_socket(doors[i]);
        door_guest_vec_done(&doors[i]->guests);
        free(doors[i]->name);
    }
    nsec_t deadline = nsec_now(CLOCK_MONOTONIC) + HEAP_ATTACH_FINISH;
    vec_foreach(&host->orphans, orphan)
        heap_attach_hurry(*orphan);
    while (host->orphans.n > 0)
        heap_attach_finish(host->orphans.items[0], deadline);
    while (host->departures.n > 0) {
        heap_attach_wait(host->options.foreign, host->departures.items[0]->helper,
                         host->departures.items[0]->pidfd);
        departure_end(host->departures.items[0]);
    }
    budget_done(&host->connections.budget);
    orphan_vec_done(&host->orphans);
    departure_vec_done(&host->departures);
    free(host);
    return NULL;
}
